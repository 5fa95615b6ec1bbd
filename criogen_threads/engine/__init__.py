"""The engine: a run is a function of its saved rows."""
