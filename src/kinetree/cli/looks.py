"""`kinetree plot` and `kinetree view`."""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

from kinetree.cli.source import load, load_run
from kinetree.simulate.trajectory import check_target


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise ImportError(f"this needs the extra {extra}: pip install 'kinetree[{extra}]'")


def plot(what: str, model: str | None, trajectory: Path | None, out: Path | None, floating_base: bool) -> None:
    """Draw, and say where."""
    _require("matplotlib", "plot")
    from kinetree.view import plots

    if what in ("tree", "sparsity", "energy"):
        if model is None or (what == "energy" and trajectory is None):
            raise ValueError(f"kinetree plot {what} needs a model" + " and a trajectory" * (what == "energy"))
        mechanism = load(model, floating_base)
        if what == "energy":
            assert trajectory is not None
            figure = plots.energy(mechanism, load_run(trajectory, mechanism))
        else:
            figure = getattr(plots, what)(mechanism)
    else:
        mechanism = load(model, floating_base) if model else None
        figure = plots.trajectory(load_run(Path(what), mechanism), mechanism)
        out = out or Path(what).with_suffix(".png")
    out = out or Path(f"{what}.png")
    check_target(out)
    figure.savefig(out, dpi=150)
    print(f"wrote {out}")


def view(model: str, floating_base: bool, trajectory: Path | None, port: int = 8080) -> None:
    """Serve the viewer until interrupted."""
    _require("viser", "view")
    from kinetree.view.viewer import Viewer

    mechanism = load(model, floating_base)
    run = None if trajectory is None else load_run(trajectory, mechanism)
    source = None if ":" in model and not Path(model).exists() else Path(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        viewer = Viewer(mechanism, run, source=source, port=port)
    for warning in told:
        if issubclass(warning.category, UserWarning):
            print(f"warning: {warning.message}", file=sys.stderr)
    viewer.wait()
