"""Benchmarks: measured, never asserted by the suite. README.md says how to read them."""
