"""The commands and the options they share. A command's body is in its own file, imported when the command runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from kinetree._version import __version__
from kinetree.cli import commands

app = typer.Typer(
    name="kinetree",
    help="Dynamics of kinematic trees, in parallel.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


bench = typer.Typer(help="Measure kinetree on this machine.", no_args_is_help=True)
app.add_typer(bench, name="bench")


class _Options:
    """The values of the options before the command."""

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
def demo(
    out: Path | None = typer.Option(None, help="Where to write the picture; into a temporary folder if not given."),
) -> None:
    """Show what kinetree does, on a large tree and a small arm, under every schedule."""
    from kinetree.cli.demo import demo as body

    body(picture=out)


@app.command()
def info(
    model: str = commands.MODEL,
    floating_base: bool = commands.FLOATING,
    json: bool = commands.JSON,
) -> None:
    """Print a robot's tree, joints and masses, and how its dynamics will be computed."""
    from kinetree.cli.info import info as body

    body(model, floating_base, json)


OUT = typer.Option(Path("bench"), help="Folder for the plot and the JSON lines.")
SECONDS = typer.Option(0.5, help="How long each measurement may repeat.")


@bench.command("methods")
def bench_methods(
    model: str = typer.Argument(None, help="A robot to measure, in place of chains."),
    links: str = typer.Option("10,50,200,1000", help="Lengths of the chains."),
    states: int = typer.Option(1, help="States solved in one call."),
    methods: str = typer.Option("", help="Methods, with commas between; all if not given."),
    floating_base: bool = commands.FLOATING,
    seconds: float = SECONDS,
    out: Path = OUT,
) -> None:
    """Forward dynamics by all methods, side by side: of chains, or of a robot.

    Example: kinetree bench methods arm.urdf --states 1000
    """
    from kinetree.cli import bench as bodies

    names = methods.split(",") if methods else list(bodies.CHOICES)
    problems = bodies.chains(bodies.numbers(links)) if model is None else bodies.robot(model, floating_base)
    bodies.methods(problems, states, names, seconds, out)


@bench.command("dcae")
def bench_dcae(
    links: int = typer.Option(1024, help="Length of the chain."),
    chunks: str = typer.Option("2,4,8,16,32,64", help="Numbers of chunks."),
    balance: str = typer.Option("1,2,3,4", help="Sizes of the terminal chunk, in units of the others."),
    seconds: float = SECONDS,
    out: Path = OUT,
) -> None:
    """The divide-and-conquer algorithm over chunks and load balance, beside the published counts."""
    from kinetree.cli import bench as bodies

    bodies.dcae(links, bodies.numbers(chunks), bodies.numbers(balance, float), seconds, out)


@bench.command("run")
def bench_run(
    filter: list[str] = typer.Option(["tiny"], help="Run the cases whose names contain this; may be given again."),
    peers: bool = typer.Option(False, "--peers", help="Run the other libraries that are installed beside kinetree."),
    names: bool = typer.Option(False, "--list", help="Only print the names of the cases."),
    seconds: float = SECONDS,
    out: Path | None = typer.Option(None, help="Append JSON lines to this file."),
) -> None:
    """The declared cases of the folder benchmarks/ of kinetree's repository; needs a checkout of it."""
    from kinetree.cli.bench import declared

    raise typer.Exit(declared(filter, peers=peers, names=names, seconds=seconds, out=out))


commands.register(app)


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
