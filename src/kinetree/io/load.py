"""`kinetree.load`: a model from a robot file, whatever its format."""

import os
import warnings
from pathlib import Path
from typing import Any

from kinetree.model import Model, ModelError, with_ground

from .document import parse
from .mjcf import read_mjcf
from .report import Report
from .urdf import read_urdf

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

    Raises ModelError, naming file, line and element, for what is not a mechanism. What the file holds but kinetree does
    not model, and inertias that are not physical, are told in warnings.
    """
    model, report = load_with_report(source, floating_base=floating_base, ground=ground)
    for warning in report.warnings:
        warnings.warn(warning, stacklevel=2)
    return model


def load_with_report(
    source: Source, *, floating_base: bool = False, ground: bool = False
) -> tuple[Model, Report]:
    """The model, and what there is to say about the file."""
    content, path = _content(source)
    file = "<text>" if path is None else path.name
    root = parse(content, file)
    if root.tag == "robot":
        report = Report(file, "URDF")
        return read_urdf(root, report, floating_base, ground, None if path is None else path.parent), report
    if root.tag == "mujoco":
        if floating_base:
            raise ModelError(f"{file}: floating_base is for URDF; in MJCF a <freejoint> makes a body free")
        report = Report(file, "MJCF")
        model = read_mjcf(content if path is None else path, report)
        return with_ground(model) if ground else model, report
    return root.fail("is neither <robot> (URDF) nor <mujoco> (MJCF)")


def _content(source: Any) -> tuple[str | bytes, Path | None]:
    """The XML, and the path it was read from, if it was."""
    if isinstance(source, str | bytes):
        blank: Any = "\ufeff \t\r\n" if isinstance(source, str) else b"\xef\xbb\xbf \t\r\n"
        text = source.lstrip(blank)
        if text[:1] in ("<", b"<"):
            return text, None
    if not isinstance(source, str | bytes | os.PathLike):
        raise TypeError(f"source must be a path or XML text, not {type(source).__name__}")
    try:
        path = Path(os.fsdecode(source))
        return path.read_bytes(), path
    except (OSError, ValueError) as error:
        shown = str(os.fspath(source))[:100]
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{shown!r} is neither XML nor a file that can be read: {reason}") from None
