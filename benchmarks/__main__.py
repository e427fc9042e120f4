"""`python -m benchmarks --filter cpu`: run the cases whose names contain a text; JSON lines out."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from kinetree.lanes.cpu.threads import threads

from .cases import Case, chosen
from .environment import environment
from .measure import NotHere, describe, measure
from .records import Record, append
from .timing import copy_bandwidth


def parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """The options that this runner and the one of the peers share."""
    made = argparse.ArgumentParser(prog=program, description=description)
    made.add_argument("--filter", nargs="+", default=["tiny"], help="run the cases whose names contain one of these")
    made.add_argument("--out", type=Path, help="append JSON lines to this file")
    made.add_argument("--seconds", type=float, default=1.0, help="how long each measurement may repeat")
    made.add_argument("--commit", help="for a copy of the sources that git does not know")
    made.add_argument("--list", action="store_true", help="only print the names")
    return made


def attempt(case: Case, bandwidth: float, seconds: float) -> Record:
    """A case's record; of one that can not be run, or fails, why."""
    try:
        return measure(case, bandwidth, seconds)
    except NotHere as reason:
        return describe(case) | {"skipped": str(reason)}
    except Exception as error:  # one case that fails must not cost the others
        return describe(case) | {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def line(record: Record) -> str:
    """A record in one line, for a person."""
    head = record["case"] if record["library"] == "kinetree" else f"  {record['library']} {record.get('way', '')}"
    for reason in ("skipped", "failed", "missing"):
        if reason in record:
            return f"{head}: {reason}: {record[reason]}"
    if "first_result_s" in record:
        return f"{head}: first result {record['first_result_s']:.2f} s, from the cache {record['from_cache_s']:.2f} s"
    return (
        f"{head}: {1e6 * record['median_s']:,.1f} µs (± {1e6 * record['spread_s']:,.1f}), "
        f"{record['states_per_s']:,.0f} states/s, compile {record['compile_s']:.2f} s, "
        f"error {record['relative_error']:.0e}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a line each, append to the file. The exit status is 1 where a case failed."""
    options = parser("python -m benchmarks", __doc__).parse_args(arguments)
    cases = chosen(options.filter)
    if not cases:
        print(f"no case contains {' or '.join(options.filter)}")
        return 1
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    jax.config.update("jax_enable_x64", True)
    common = environment(options.commit) | {"run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    bandwidth, failed = copy_bandwidth(threads()), False
    print(f"{common['device']}, {common['processor']}, {common['threads']} threads, copy {bandwidth / 1e9:,.0f} GB/s")
    for case in cases:
        record = attempt(case, bandwidth, options.seconds) | common
        failed |= "failed" in record
        print(line(record), flush=True)
        if options.out:
            append(options.out, record)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
