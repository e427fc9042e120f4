"""Benchmarks: `python -m benchmarks --filter cpu`, or `kinetree bench run --filter cpu`.

cases         what is measured             algorithms, reference   what is called, and how its result is checked
measure       from a case to a record      timing, environment     how, and with what
first_result  in a process of its own      records                 JSON lines
peers/        other libraries on the same trees in the same run
report        docs/performance.md from JSON lines; figures, peer_tables, text, published
"""
