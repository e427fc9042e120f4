"""Benchmarks: declared cases (cases.py), one way to time them (measure.py), one runner: `python -m benchmarks`."""
