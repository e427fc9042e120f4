"""`kinetree.load`: a model from a robot file of any format."""

import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinetree._unknown import nearest
from kinetree.model import Loop, Model, ModelError, with_ground
from kinetree.model.loops import rigid_equalities as rigid_equalities_of
from kinetree.model.required import require_flag

from .document import BLANK, Element, parse
from .mjcf import read_mjcf
from .report import NotModelled, Report
from .sdf import sdf_to_urdf
from .urdf import is_xacro, read_urdf
from .urdf_world import TouchOptions

# Roots of other documents that are not robot files, and what to do with them.
FOREIGN = {
    "world": "this is a part of an SDF file; load the file whose root is <sdf>",
    "mujocoinclude": "this is a part of an MJCF file; load the file that includes it",
    "COLLADA": "this is a mesh; load the robot file that shows it",
    "html": "this is a web page; download the file itself (on GitHub: Raw)",
}
Source = str | bytes | os.PathLike[str]


def load(
    source: Source,
    *,
    floating_base: bool = False,
    ground: bool = False,
    loops: Sequence[Loop] = (),
    rigid_equalities: bool = False,
    self_collision: bool = False,
) -> Model:
    """A model from a robot file: URDF, SDF, or MJCF (which needs the package `mujoco`), recognised by its content.

    Xacro files are expanded by the package `xacro` where it is installed.

    Arguments:
        source: a path, or XML text.
        floating_base: put a free joint under the root of a URDF or SDF, rather than fixing it to the world. MJCF says
            for itself which bodies are free.
        ground: put a floor at z = 0, which all collision shapes may touch.
        loops: `kinetree.Loop`s, rigid joints that close the tree.
        self_collision: let the links of a URDF or SDF touch one another, but for those that a joint connects. MJCF
            says for itself what may touch.
        rigid_equalities: make rigid loops of the file's equalities (connect, weld, joint), which MuJoCo has soft.

    Returns:
        The model. Bodies have the names of links (URDF, SDF) or of bodies and sites (MJCF).

    Raises ModelError, naming file, line and element, for what is not a mechanism. Warns once, with the class
    `kinetree.io.NotModelled`, of all that the file holds and kinetree does not model; and of what is odd: inertias that
    are not physical, robots without mass.
    """
    require_flag("rigid_equalities", rigid_equalities)
    model, report = load_with_report(source, floating_base=floating_base, ground=ground, self_collision=self_collision)
    for warning in report.warnings:
        warnings.warn(warning, stacklevel=2)
    if report.not_modelled:
        warnings.warn(report.not_modelled, NotModelled, stacklevel=2)
    model = model.replace(loops=loops)
    return rigid_equalities_of(model) if rigid_equalities else model


def load_with_report(
    source: Source, *, floating_base: bool = False, ground: bool = False, self_collision: bool = False
) -> tuple[Model, Report]:
    """The model, and what there is to say about the file."""
    for name, flag in (("floating_base", floating_base), ("ground", ground), ("self_collision", self_collision)):
        require_flag(name, flag)
    content, path = _content(source)
    file = "<text>" if path is None else path.name
    root = parse(content, file)
    if root.tag in ("robot", "sdf"):
        report = Report(file, "URDF" if root.tag == "robot" else "SDF")
        root = robot_element(root, path, report)
        touch = TouchOptions(ground, self_collision)
        model = read_urdf(root, report, floating_base, touch, None if path is None else path.parent)
    elif root.tag == "mujoco":
        if floating_base:
            raise ModelError(f"{file}: floating_base is for URDF; in MJCF a <freejoint> makes a body free")
        if self_collision:
            raise ModelError(f"{file}: self_collision is for URDF; in MJCF contype and conaffinity say what may touch")
        report = Report(file, "MJCF")
        model = read_mjcf(content if path is None else path, report)
        model = with_ground(model) if ground else model
    else:
        hint = FOREIGN.get(root.tag)
        root.fail("is neither <robot> (URDF), <sdf> (SDF) nor <mujoco> (MJCF)" + (f": {hint}" if hint else ""))
    report.look_at(model)
    model.structure.source = content if path is None else path
    return model, report


def robot_element(root: Element, path: Path | None, report: Report) -> Element:
    """The <robot> of a document: its own, that of an expanded xacro file, or that of an SDF model."""
    if root.tag == "sdf":
        return sdf_to_urdf(root, report)
    if path is None or not is_xacro(root) or find_spec("xacro") is None:
        return root
    try:
        text = import_module("xacro").process_file(str(path)).toxml()
    except Exception as error:  # the macro's own errors are of many kinds
        raise ModelError(f"{path.name}: xacro can not expand it: {' '.join(str(error).split())}") from None
    return parse(text, path.name)


def _content(source: Any) -> tuple[str | bytes, Path | None]:
    """The XML, and the path it was read from, if it was."""
    if not isinstance(source, str | bytes | os.PathLike):
        raise TypeError(f"source must be a path or XML text, not {type(source).__name__}")
    if isinstance(source, str) and source.lstrip(BLANK).startswith("<"):
        return source, None
    if isinstance(source, bytes) and source.lstrip(BLANK.encode()).startswith(b"<"):
        return source, None
    name = os.fsdecode(source)
    try:
        path = Path(name)
        return path.read_bytes(), path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{name[:100]!r} is neither XML nor a file that can be read: {reason}{_hint(name)}") from None


def _hint(name: str) -> str:
    """What to do about a path where no file is."""
    scheme, slashes, rest = name.partition("://")
    if slashes and scheme == "package":
        package = rest.split("/")[0]
        return f". This is a ROS address: give the file's path (ros2 pkg prefix --share {package} shows the folder)"
    if slashes:
        return ". This is an address: give the path of a file on this machine"
    path = Path(name)
    try:
        near = nearest(path.name, sorted(p.name for p in path.parent.iterdir())) if path.name else None
    except (OSError, ValueError):
        near = None
    return f": did you mean {str(path.with_name(near))!r}?" if near and near != path.name else ""
