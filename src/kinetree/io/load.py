"""`kinetree.load`: a model from a robot file, whatever its format."""

import os
import warnings
from pathlib import Path
from typing import Any

from kinetree._unknown import nearest
from kinetree.model import Model, ModelError, with_ground

from .document import BLANK, parse
from .mjcf import read_mjcf
from .report import NotModelled, Report
from .urdf import read_urdf

# Roots of other documents that people take for robot files, and what to do with them.
FOREIGN = {
    "sdf": "this is SDF, Gazebo's format; use the robot's URDF or MJCF (the package sdformat_urdf of ROS makes URDF)",
    "world": "this is a Gazebo world; use the robot's URDF or MJCF",
    "mujocoinclude": "this is a part of an MJCF file; load the file that includes it",
    "COLLADA": "this is a mesh; load the robot file that shows it",
    "html": "this is a web page; download the file itself (on GitHub: Raw)",
}
Source = str | bytes | os.PathLike[str]


def load(source: Source, *, floating_base: bool = False, ground: bool = False) -> Model:
    """A model from a robot file: URDF, or MJCF (which needs the package `mujoco`); told apart by content.

    Arguments:
        source: a path, or XML text.
        floating_base: put a free joint under the root of a URDF, rather than fixing it to the world. MJCF says for
            itself which bodies are free.
        ground: put a floor at z = 0, which all collision shapes may touch.

    Returns:
        The model. Bodies have the names of links (URDF) or of bodies and sites (MJCF).

    Raises ModelError, naming file, line and element, for what is not a mechanism. Warns once, with the class
    `kinetree.io.NotModelled`, of all that the file holds and kinetree does not model; and of what is odd: inertias that
    are not physical, robots without mass.
    """
    model, report = load_with_report(source, floating_base=floating_base, ground=ground)
    for warning in report.warnings:
        warnings.warn(warning, stacklevel=2)
    if report.not_modelled:
        warnings.warn(report.not_modelled, NotModelled, stacklevel=2)
    return model


def load_with_report(source: Source, *, floating_base: bool = False, ground: bool = False) -> tuple[Model, Report]:
    """The model, and what there is to say about the file."""
    content, path = _content(source)
    file = "<text>" if path is None else path.name
    root = parse(content, file)
    if root.tag == "robot":
        report = Report(file, "URDF")
        model = read_urdf(root, report, floating_base, ground, None if path is None else path.parent)
    elif root.tag == "mujoco":
        if floating_base:
            raise ModelError(f"{file}: floating_base is for URDF; in MJCF a <freejoint> makes a body free")
        report = Report(file, "MJCF")
        model = read_mjcf(content if path is None else path, report)
        model = with_ground(model) if ground else model
    else:
        hint = FOREIGN.get(root.tag)
        root.fail("is neither <robot> (URDF) nor <mujoco> (MJCF)" + (f": {hint}" if hint else ""))
    report.look_at(model)
    model.structure.source = content if path is None else path
    return model, report


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
