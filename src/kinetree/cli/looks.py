"""`kinetree plot` and `kinetree view`: into a file, or into the browser."""

import os
import sys
import warnings
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from kinetree import Model, Trajectory
from kinetree._unknown import nearest
from kinetree.cli.source import load, load_run, require_positive
from kinetree.simulate.trajectory import check_target

DRAWN = ("tree", "sparsity", "energy", "contact")  # beside trajectories


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise ImportError(f"this needs the extra {extra}: pip install 'kinetree[{extra}]'")


def plot(
    what: str, model: str | None, trajectory: Path | None, out: Path | None, floating_base: bool, ground: bool
) -> None:
    """Draw, and print the path."""
    _require("matplotlib", "plot")
    from kinetree.view import plots

    if what in DRAWN:
        timed = what in ("energy", "contact")
        if model is None or (timed and trajectory is None):
            raise ValueError(f"kinetree plot {what} needs a model" + " and a trajectory" * timed)
        mechanism = load(model, floating_base, ground=ground)
        if timed:
            assert trajectory is not None
            figure = getattr(plots, what)(mechanism, load_run(trajectory, mechanism))
        else:
            figure = getattr(plots, what)(mechanism)
    else:
        if not Path(what).exists() and (near := nearest(what, DRAWN)):
            raise ValueError(f"no file {what}: did you mean {near!r}?")
        mechanism = load(model, floating_base) if model else None
        figure = plots.trajectory(load_run(Path(what), mechanism), mechanism)
        out = out or Path(what).with_suffix(".png")
    out = out or Path(f"{what}.png")
    check_target(out)
    figure.savefig(out, dpi=150)
    print(f"wrote {out}")


class Drawing(NamedTuple):
    """Files that `view` writes in place of serving, and how they look."""

    files: dict[str, Path]  # png, gif, mp4, html
    time: float | None = None
    speed: float = 1.0
    size: str = "960x600"
    dark: bool = False


def view(
    model: str,
    floating_base: bool,
    trajectory: Path | None,
    *,
    ground: bool = False,
    live: bool = False,
    host: str = "127.0.0.1",
    port: int = 8080,
    drawing: Drawing | None = None,
) -> None:
    """Serve the viewer until interrupted, or write files."""
    if live and drawing is not None and drawing.files:
        raise ValueError(f"--live is for the browser: leave it out, or --{next(iter(drawing.files))}")
    mechanism = load(model, floating_base, simulated=live, ground=ground)
    run = None if trajectory is None else load_run(trajectory, mechanism)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        if drawing is not None and drawing.files:
            _draw(mechanism, run, drawing)
            viewer = None
        else:
            from kinetree.view.viewer import Viewer

            viewer = Viewer(mechanism, run, host=host, port=port, live=live, name=Path(model).stem)
    for warning in told:
        if issubclass(warning.category, UserWarning):
            print(f"warning: {warning.message}", file=sys.stderr)
    if viewer is not None:
        _open_browser(viewer.url)
        viewer.wait()


def _open_browser(url: str) -> None:
    """Open the page, if there is a screen."""
    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen and sys.stdout.isatty():
        webbrowser.open(url)


def _draw(model: Model, run: Trajectory | None, wanted: Drawing) -> None:
    """Write each file, and print its path."""
    from kinetree.view import film, page_text, picture
    from kinetree.view.scene import ShownScene
    from kinetree.view.viewer import INLINE_BYTES

    width, _, height = wanted.size.partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) * int(height)):
        raise ValueError(f"--size is width x height in pixels, as in 960x600, not {wanted.size!r}")
    require_positive("speed", wanted.speed)
    looks = {"size": (int(width), int(height)), "dark": wanted.dark}
    for path in wanted.files.values():
        check_target(path)
    for kind, path in wanted.files.items():
        if kind == "html":
            path.write_text(
                page_text.standalone(ShownScene(model, run, max_bytes=INLINE_BYTES), name=path.stem), "utf-8"
            )
            print(f"wrote {path}")
            continue
        _require("PIL", "view")
        if kind == "png":
            picture.save_picture(path, picture.render(model, run, time=wanted.time, **looks))
            print(f"wrote {path}")
            continue
        if run is None:
            raise ValueError(f"--{kind} needs a trajectory")
        if path.suffix.lower() != f".{kind}":
            raise ValueError(f"--{kind} writes a .{kind} file, not {path.name}")
        with Console(stderr=True).status("drawing") as told:  # only drawn on a terminal
            text = f"drawing {path.name}: {{}} pictures"
            options = {"speed": wanted.speed, "watch": lambda n, text=text: told.update(text.format(n))}
            count = film.save_film(path, ShownScene(model, run), **options, **looks)
        print(f"wrote {path}: {count} pictures")
