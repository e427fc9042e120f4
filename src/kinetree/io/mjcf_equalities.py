"""Equalities of a compiled MuJoCo model: connect, weld, joint and tendon."""

from typing import Any

import numpy as np

from kinetree.model import Model
from kinetree.model.attached import in_rows
from kinetree.model.equalities import CONNECT, WELD, Equalities, FrameEqualities, JointEqualities

from .mjcf_tendons import read_tendon_equalities
from .report import Report

KINDS = ("connect", "weld", "joint", "tendon", "flex", "flexvert", "flexstrain", "distance")
JOINT, TENDON = 2, 3
SITE = 6  # MuJoCo's number of the object type


def read_equalities(model: Model, m: Any, ours: dict[int, int], report: Report) -> Equalities | None:
    """The equalities that are active in the file. The others are reported."""
    active = np.flatnonzero(m.eq_active0)
    kinds = m.eq_type[active]
    for kind in kinds[kinds > TENDON]:
        report.ignored[f"equality constraints ({KINDS[min(int(kind), len(KINDS) - 1)]})"] += 1
    rows = {int(e): _rows(model, m, ours, e) for e in active[kinds < JOINT]}
    between = np.array([e for e, (one, two) in rows.items() if one != two], np.int64)
    within = sum(one == two >= 0 for one, two in rows.values())
    if within:
        report.ignored["equality constraints within one body, which damp its rotation in MuJoCo"] += within
    joints = active[kinds == JOINT]
    frames = _frames(model, m, ours, between) if len(between) else None
    follow = _joints(m, joints) if len(joints) else None
    tendons = active[kinds == TENDON]
    strung = read_tendon_equalities(m, tendons) if len(tendons) else None
    found = frames, follow, strung
    return None if all(part is None for part in found) else Equalities(*found)


def _bodies(m: Any, e: int) -> list[int]:
    """MuJoCo's numbers of the two bodies that an equality holds together."""
    ends = int(m.eq_obj1id[e]), int(m.eq_obj2id[e])
    return [int(m.site_bodyid[x]) for x in ends] if m.eq_objtype[e] == SITE else list(ends)


def _rows(model: Model, m: Any, ours: dict[int, int], e: int) -> tuple[int, int]:
    """The rows that carry its two bodies; −1 is the base."""
    one, two = (-1 if ours[b] < 0 else int(model.structure.row_of_body[ours[b]]) for b in _bodies(m, e))
    return one, two


def _frames(model: Model, m: Any, ours: dict[int, int], which: np.ndarray) -> FrameEqualities:
    identity = np.array([1.0, 0, 0, 0])
    ends: list[list[tuple]] = [[], []]
    for e in which:
        weld, data = m.eq_type[e] == 1, m.eq_data[e]
        for k, (body, thing) in enumerate(zip(_bodies(m, e), (m.eq_obj1id[e], m.eq_obj2id[e]), strict=True)):
            if m.eq_objtype[e] == SITE:
                place, turn = m.site_pos[thing], m.site_quat[thing]
            else:
                first = 3 * (1 - k) if weld else 3 * k  # MuJoCo keeps the anchors of a weld the other way round
                place, turn = data[first : first + 3], data[6:10] if weld and k == 0 else identity
            ends[k].append((ours[body], place, turn))
    (b1, p1, q1), (b2, p2, q2) = (zip(*end, strict=True) for end in ends)
    (p1, q1), (p2, q2) = in_rows(model, b1, p1, q1), in_rows(model, b2, p2, q2)
    return FrameEqualities(
        p1,
        q1,
        p2,
        q2,
        np.array(m.eq_data[which, 10]),
        np.array(m.eq_solref[which]),
        np.array(m.eq_solimp[which]),
        tuple(WELD if m.eq_type[e] == 1 else CONNECT for e in which),
        tuple(b1),
        tuple(b2),
    )


def _joints(m: Any, which: np.ndarray) -> JointEqualities:
    one, two = m.eq_obj1id[which], m.eq_obj2id[which]
    start = m.qpos0[m.jnt_qposadr]
    return JointEqualities(
        np.array(m.eq_data[which, :5]),
        np.array(start[one]),
        np.where(two >= 0, start[np.maximum(two, 0)], 0.0),
        np.array(m.eq_solref[which]),
        np.array(m.eq_solimp[which]),
        tuple(m.jnt_dofadr[one].tolist()),
        tuple(np.where(two >= 0, m.jnt_dofadr[np.maximum(two, 0)], -1).tolist()),
    )
