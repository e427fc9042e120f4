"""The commands that simulate, compute and show: names, options and help texts. motion.py and looks.py do the work."""

from pathlib import Path

import typer

MODEL = typer.Argument(help="A URDF, SDF or MJCF file, or chain:N or tree:N for a generated one.")
FLOATING = typer.Option(False, "--floating-base", help="Put a free joint under the root of a URDF.")
GROUND = typer.Option(False, "--ground", help="Put a floor at z = 0.")
JSON = typer.Option(False, "--json", help="Print one JSON object, for another program.")


def simulate(
    model: str = MODEL,
    time: float = typer.Option(5.0, help="Seconds to simulate, to the nearest record."),
    dt: float = typer.Option(None, help="Seconds in a step. Default: an MJCF file's own, else 0.001."),
    integrator: str = typer.Option(
        None,
        help="semi_implicit, rk4, variational, Euler, implicitfast, implicit or RK4. Default: an MJCF file's own, "
        "else semi_implicit.",
    ),
    batch: int = typer.Option(1, help="States side by side."),
    start: str = typer.Option(
        None, help="random, neutral, or file: as the file places it. Default: file for MJCF files, else random."
    ),
    seed: int = typer.Option(0, help="The seed of a random start."),
    controller: str = typer.Option("none", help="none, gravity (compensation) or hold (PD to the start, and gravity)."),
    rate: float = typer.Option(100.0, help="Records in a second."),
    out: Path = typer.Option(Path("run.npz"), help="The file that gets the trajectory."),
    checkpoint: Path = typer.Option(None, help="Continue from this file if it is there, and keep it up to date."),
    floating_base: bool = FLOATING,
    ground: bool = GROUND,
    free: bool = typer.Option(False, "--free", help="Switch contact, joint limits and dry friction off."),
    devices: str = typer.Option(None, help="Divide the batch over this number of devices, or over all."),
    processes: int = typer.Option(1, help="Divide the batch over this number of processes on this machine."),
    share: str = typer.Option(
        None, help="Compute a part of the batch: 0/8 is the first of eight, saved as run.0of8.npz."
    ),
    view: bool = typer.Option(False, "--view", help="Show the result in a browser."),
    json: bool = JSON,
) -> None:
    """Let a mechanism move, and save its trajectory.

    Examples: kinetree simulate arm.urdf --time 5 --batch 16 --out run.npz; kinetree simulate arm.urdf --batch 10000
    --processes 4; on a cluster, srun kinetree simulate arm.urdf --batch 10000 --share $SLURM_PROCID/$SLURM_NTASKS
    """
    from kinetree.cli import looks, many, motion

    choice = motion.SimulateOptions(time, dt, integrator, batch, start, seed, controller, rate, free, ground)
    place = many.RunPlace(devices, processes, share)
    motion.simulate(model, floating_base, choice, out, checkpoint, json, place)
    if view:
        looks.view(model, floating_base, out, ground=ground)


def inverse(
    model: str = MODEL,
    trajectory: Path = typer.Argument(help="An .npz with q, qd and qdd. Without qdd, it is the slope of qd over time."),
    out: Path = typer.Option(Path("tau.npz"), help="The file that gets the trajectory with tau."),
    floating_base: bool = FLOATING,
    json: bool = JSON,
) -> None:
    """Inverse dynamics: the forces that a trajectory takes.

    Example: kinetree id arm.urdf run.npz --out tau.npz
    """
    from kinetree.cli import motion

    motion.inverse(model, floating_base, trajectory, out, json)


def forward(
    model: str = MODEL,
    trajectory: Path = typer.Argument(help="An .npz with q, qd and tau."),
    out: Path = typer.Option(Path("qdd.npz"), help="The file that gets the trajectory with qdd."),
    method: str = typer.Option("auto", help="aba, crba, dca, ...; auto takes the fastest."),
    floating_base: bool = FLOATING,
    json: bool = JSON,
) -> None:
    """Forward dynamics: the accelerations that forces cause.

    Example: kinetree fd arm.urdf run.npz --method crba
    """
    from kinetree.cli import motion

    motion.forward(model, floating_base, trajectory, out, method, json)


def plot(
    what: str = typer.Argument(help="A trajectory (.npz), or the word energy, contact, tree or sparsity."),
    model: str = typer.Argument(None, help="The model; it gives names and units to a trajectory."),
    trajectory: Path = typer.Argument(None, help="The trajectory, for energy and contact."),
    out: Path = typer.Option(None, help="The picture: .png, .svg or .pdf."),
    floating_base: bool = FLOATING,
    ground: bool = GROUND,
) -> None:
    """Draw a trajectory, an energy balance, contact forces, a tree, or the sparsity of its mass matrix.

    Examples: kinetree plot run.npz; kinetree plot sparsity ant.xml; kinetree plot energy arm.urdf run.npz
    """
    from kinetree.cli import looks

    looks.plot(what, model, trajectory, out, floating_base, ground)


def view(
    model: str = MODEL,
    trajectory: Path = typer.Argument(None, help="A trajectory to play; without one, sliders move the joints."),
    live: bool = typer.Option(False, "--live", help="Simulate while the page is open; the mouse pushes bodies."),
    host: str = typer.Option("127.0.0.1", help="The address to serve on: 0.0.0.0 lets other machines look."),
    port: int = typer.Option(8080, min=0, max=65535, help="The port to serve on; if it is in use, the next free one."),
    png: Path = typer.Option(None, help="Write a picture instead, without a browser."),
    gif: Path = typer.Option(None, help="Write a film instead, without a browser."),
    mp4: Path = typer.Option(None, help="Write a film instead, without a browser; needs ffmpeg."),
    html: Path = typer.Option(None, help="Write the page instead: one file that any browser shows."),
    time: float = typer.Option(None, help="The moment that --png shows, in seconds; the end if not given."),
    speed: float = typer.Option(1.0, help="For --gif and --mp4: simulated seconds in one second."),
    size: str = typer.Option("960x600", help="For --png, --gif and --mp4: width and height in pixels."),
    dark: bool = typer.Option(False, "--dark", help="Dark pictures and films."),
    floating_base: bool = FLOATING,
    ground: bool = GROUND,
) -> None:
    """Show a mechanism in a browser, or draw it into a file.

    Examples: kinetree view arm.urdf run.npz; kinetree view robot.xml --live; kinetree view arm.urdf run.npz --gif a.gif
    """
    from kinetree.cli import looks

    files = {"png": png, "gif": gif, "mp4": mp4, "html": html}
    drawing = looks.Drawing({k: v for k, v in files.items() if v is not None}, time, speed, size, dark)
    looks.view(model, floating_base, trajectory, ground=ground, live=live, host=host, port=port, drawing=drawing)


def register(app: typer.Typer) -> None:
    """Make these commands known."""
    for name, body in (("simulate", simulate), ("id", inverse), ("fd", forward), ("plot", plot), ("view", view)):
        app.command(name)(body)
