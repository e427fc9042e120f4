"""The command line: `kinetree`. It needs the extra `cli`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the `kinetree` command, or say what is missing."""
    if find_spec("typer") is None or find_spec("rich") is None:
        print("error: the kinetree command needs its extra: pip install 'kinetree[cli]'", file=sys.stderr)
        sys.exit(1)
    from kinetree.cli.app import run

    sys.exit(run())
