"""`python -m benchmarks --filter million`: run the cases whose names contain a text; JSON lines out."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from .cases import CASES
from .measure import copy_bandwidth, environment, measure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, append to the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--filter", default="crossover", help="run the cases whose names contain this")
    parser.add_argument("--out", type=Path, help="append JSON lines to this file")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each case may repeat")
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args(arguments)
    chosen = [case for case in CASES if options.filter in case.name]
    if not chosen:
        print(f"no case contains {options.filter!r}")
        return 1
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    common, bandwidth = environment(), copy_bandwidth()
    for case in chosen:
        record = measure(case, bandwidth, options.seconds) | common
        print(
            f"{record['case']}: {1e3 * record['median_s']:.3f} ms, compile {record['compile_s']:.1f} s, "
            f"{record['peak_memory_gb']:.1f} GB",
            flush=True,
        )
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
