"""The feed: what happens in a thread, as it happens, to every socket and stream that watches it.

``hub`` hears the runs of this process; ``layer`` carries that to other processes; ``relay`` keeps what a web
process knows of the threads that it watches; ``feed`` is one client's cursor into it; ``agui`` projects events
to AG-UI; ``rendering`` makes HTML of Markdown; ``consumers``, ``sse`` and ``endpoint`` are the doors.
"""
