"""The commands and the options they share. A command's body is in its own file, imported when the command runs."""

import sys
from collections.abc import Sequence

import typer

from kinetree._version import __version__

app = typer.Typer(
    name="kinetree",
    help="Dynamics of kinematic trees, in parallel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class _Options:
    """What the options before the command were set to."""

    debug = False


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kinetree {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
) -> None:
    _Options.debug = debug


@app.command()
def demo() -> None:
    """Show what kinetree does, in under a minute."""
    from kinetree.cli.demo import demo as body

    body()


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Arguments:
        arguments: the words after `kinetree`; those of this process if not given.

    Returns:
        0 when all went well, 1 after an error (told in one line, unless `--debug`), 2 for a wrong command line.
    """
    _Options.debug = False
    try:
        app(args=None if arguments is None else list(arguments), prog_name="kinetree")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:
        if _Options.debug:
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"error: {message}", file=sys.stderr)
        return 1
    return 0
