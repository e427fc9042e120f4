"""A model as a small tree in HTML, for notebooks."""

import html
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .model import Model

MAX_SHOWN = 60  # bodies; longer trees are summarised
STYLE = "font: 12px/1.5 ui-monospace, monospace; max-height: 320px; overflow: auto"
LIST = "margin: 0; padding-left: 1.2em; list-style: none"  # What can be folded has a mark of its own.


def tree_html(model: "Model") -> str:
    """Bodies under bodies, with their joints and masses; parts of the tree can be folded."""
    shown = min(model.n_bodies, MAX_SHOWN)
    children: dict[int, list[int]] = {}
    for body, parent in enumerate(np.asarray(model.parent)[:shown]):
        children.setdefault(int(parent), []).append(body)
    pieces = [f"<div style='{STYLE}'><b>{html.escape(repr(model))}</b><ul style='{LIST}'>"]
    waiting: list[int | str] = list(reversed(children.get(-1, [])))
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        below = children.get(item, [])
        if below:
            pieces.append(f"<li><details open><summary>{_label(model, item)}</summary><ul style='{LIST}'>")
            waiting += ["</ul></details></li>", *reversed(below)]
        else:
            pieces.append(f"<li>{_label(model, item)}</li>")
    if model.n_bodies > shown:
        pieces.append(f"<li>and {model.n_bodies - shown:,} more</li>")
    return "".join([*pieces, "</ul></div>"])


def _label(model: "Model", body: int) -> str:
    structure = model.structure
    kind = structure.joints[structure.joint_code[body]].kind
    mass = float(np.asarray(model.inertia.mass)[body])
    weight = f" {mass:.4g} kg" if mass else ""
    name, joint = html.escape(model.names[body]), html.escape(model.joint_names[body])
    return f"<b>{name}</b> <span style='opacity: 0.65'>{html.escape(kind)} {joint}{weight}</span>"
