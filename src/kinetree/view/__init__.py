"""Views of mechanisms: the viewer in the browser, pictures and films (the extra `view`), plots (the extra `plot`).

The package itself can be called: `kinetree.view(model, run)` opens a viewer.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from kinetree import Model, State, Trajectory
    from kinetree._types import AnyArray, Float
    from kinetree.view.viewer import Viewer


def open_viewer(
    model: "Model | str | os.PathLike[str]",
    run: "Trajectory | State | Float[AnyArray, '... nq'] | None" = None,
    **options: Any,
) -> "Viewer":
    """Show a mechanism in the browser.

    Arguments:
        model: a `Model`, or the path or text of a robot file.
        run: a `Trajectory` to play, or a configuration: q (nq,) or a `State`. A batch is shown side by side. Sliders
        move the joints if nothing plays.
        options: `live=True` simulates, and the mouse pushes bodies; `controller`, `host`, `port`, `source`, `name` as
            in `kinetree.view.viewer.Viewer`; `floating_base` and `ground`, as in `kinetree.load`, for files.

    Returns:
        The viewer, at work: `.url` is where it is, `.wait()` serves until interrupted, `.show(q)` moves the robot,
        `.html()` is the scene as one page, `.stop()` ends it. In a notebook it shows itself in the cell.
    """
    from kinetree import Model, load
    from kinetree.view.viewer import Viewer

    if not isinstance(model, Model):
        reading = {key: options.pop(key) for key in ("floating_base", "ground") if key in options}
        model = load(model, **reading)
    return Viewer(model, run, **options)


class _Room(ModuleType):
    """This package as a callable module."""

    def __call__(
        self,
        model: "Model | str | os.PathLike[str]",
        run: "Trajectory | State | Float[AnyArray, '... nq'] | None" = None,
        **options: Any,
    ) -> "Viewer":
        return open_viewer(model, run, **options)

    __call__.__doc__ = open_viewer.__doc__


sys.modules[__name__].__class__ = _Room
