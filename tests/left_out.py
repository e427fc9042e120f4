"""The end of a run says what the run left out, and why: a missing oracle or browser must not pass for a green run."""

from collections import defaultdict
from typing import Any


def left_out(reports: list[Any]) -> dict[str, set[str]]:
    """Skipped tests by reason. A module that is skipped as a whole stands for its tests; each worker reports it."""
    groups = defaultdict(set)
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        groups[reason.removeprefix("Skipped: ")].add(report.nodeid)
    return dict(groups)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """A section that lists every group of tests that did not run."""
    groups = left_out(terminalreporter.stats.get("skipped", []))
    expression = config.getoption("markexpr")
    if not groups and not expression:
        return
    terminalreporter.section("left out of this run", sep="!", red=bool(groups), bold=True)
    for reason, tests in sorted(groups.items()):
        files = sorted({test.split("::")[0] for test in tests})
        terminalreporter.line(f"{len(tests):4d} in {', '.join(files)}: {reason}", red=True)
    if expression:
        terminalreporter.line(f"     tests that -m {expression!r} deselects")
