"""The world of a compiled MuJoCo model: shapes, surfaces, limits, friction loss, and how soft they are."""

from typing import Any

import numpy as np

from kinetree.collide import COLLIDERS, KINDS, MAX_CELLS, HeightField, Hull
from kinetree.model import Model
from kinetree.model.world import (
    BASE,
    Carriers,
    InverseWeights,
    JointSoftness,
    Pair,
    PairSurfaces,
    Scene,
    SceneLayout,
    Shapes,
    Surfaces,
    World,
    candidate_pairs,
    collides,
    ordered,
    with_cells,
)

from .mjcf_equalities import read_equalities
from .mjcf_fluid import read_fluid
from .mjcf_tendons import read_tendons
from .mujoco_model import carries_weight, in_our_order, several_points
from .report import Report

BALL = 1
UNKNOWN = "unknown"  # kinds of geoms that kinetree does not collide: signed distance fields


def read_world(model: Model, m: Any, ours: dict[int, int], report: Report) -> World:
    """The world: shapes and constraints of the mechanism.

    Arguments:
        model: our model of the mechanism.
        m: the compiled model.
        ours: our number of each of its bodies.
        report: takes what is not modelled.
    """
    from importlib import import_module

    mujoco = import_module("mujoco")
    disabled, enabled = m.opt.disableflags, m.opt.enableflags
    bits, enables = mujoco.mjtDisableBit, mujoco.mjtEnableBit
    flags = {
        "contact": bits.mjDSBL_CONTACT,
        "limit": bits.mjDSBL_LIMIT,
        "frictionloss": bits.mjDSBL_FRICTIONLOSS,
        "equality": bits.mjDSBL_EQUALITY,
    }
    off = {name for name, bit in flags.items() if disabled & (bit | bits.mjDSBL_CONSTRAINT)}
    carried = np.zeros(model.n_bodies)
    for theirs, own in ours.items():
        if own >= 0:
            carried[own] = m.body_gravcomp[theirs]
    override = bool(enabled & enables.mjENBL_OVERRIDE)
    return World(
        scene=read_scene(m, ours, override, report),
        joints=_joints(m),
        equalities=read_equalities(model, m, ours, report),
        tendons=read_tendons(model, m, ours, report),
        inverse_weights=_weights(model, m, ours),
        gravity_compensation=carried if carries_weight(m) and carried.any() and np.any(m.opt.gravity) else None,
        fluid=read_fluid(model, m, ours, report),
        impratio=np.array(m.opt.impratio),
        cone="elliptic" if m.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC else "pyramidal",
        disabled=frozenset(off),
        safe_reference=not disabled & bits.mjDSBL_REFSAFE,
        noslip=bool(m.opt.noslip_iterations > 0),
    )


def _joints(m: Any) -> JointSoftness:
    joint = m.dof_jntid
    first = np.arange(m.nv) == m.jnt_dofadr[joint] if m.nv else np.zeros(0, bool)
    ball = first & (m.jnt_type[joint] == BALL) & (m.jnt_limited[joint] != 0)
    return JointSoftness(
        np.array(m.jnt_solref[joint]).reshape(-1, 2),
        np.array(m.jnt_solimp[joint]).reshape(-1, 5),
        np.array(m.jnt_margin[joint]),
        np.where(ball, m.jnt_range[joint].reshape(-1, 2).max(1, initial=0.0), np.inf),
        in_our_order(m, m.dof_solref).reshape(-1, 2),
        in_our_order(m, m.dof_solimp).reshape(-1, 5),
    )


def _weights(model: Model, m: Any, ours: dict[int, int]) -> InverseWeights:
    body = np.zeros((model.n_bodies, 2))
    for theirs, own in ours.items():
        if own >= 0:
            body[own] = m.body_invweight0[theirs]
    return InverseWeights(in_our_order(m, m.dof_invweight0), body, np.array(m.tendon_invweight0) if m.ntendon else None)


def read_scene(m: Any, ours: dict[int, int], override: bool, report: Report) -> Scene | None:
    """Geoms that may touch, and the pairs they make."""
    if not m.ngeom:
        return None
    every = [KINDS[t] if t < len(KINDS) else UNKNOWN for t in m.geom_type]
    known = {kind for pair in COLLIDERS for kind in pair}
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in m.exclude_signature}
    explicit = [(int(a), int(b)) for a, b in zip(m.pair_geom1, m.pair_geom2, strict=True)]
    may = (m.geom_contype | m.geom_conaffinity) != 0
    may[[g for pair in explicit for g in pair]] = True
    unknown = [g for g in np.flatnonzero(may) if every[g] not in known]
    may[unknown] = False
    geoms = np.flatnonzero(may)
    if unknown:
        report.ignored["shapes that are distance fields"] += len(unknown)
    if not len(geoms):
        return None
    number = {int(g): i for i, g in enumerate(geoms)}
    kinds = tuple(every[g] for g in geoms)
    theirs = m.geom_bodyid[geoms]
    bodies = tuple(ours[int(b)] for b in theirs)
    on = _carriers(m, geoms)
    condim, priority = (tuple(int(x) for x in a[geoms]) for a in (m.geom_condim, m.geom_priority))
    own = {tuple(sorted((number[a], number[b]))) for a, b in explicit if a in number and b in number}
    shapes_of: dict[int, list[int]] = {}
    for i, b in enumerate(theirs.tolist()):
        shapes_of.setdefault(b, []).append(i)
    out = {
        (min(i, j), max(i, j))
        for a, b in excluded
        for i in shapes_of.get(a, ())
        for j in shapes_of.get(b, ())
        if i != j
    }
    pairs, lost = candidate_pairs(
        kinds, bodies, on, m.geom_contype[geoms], m.geom_conaffinity[geoms], condim, priority, own | out
    )
    chosen = []
    for k, (a, b) in enumerate(explicit):
        if a not in number or b not in number:
            continue
        i, j = number[a], number[b]
        if on.own[i] == on.own[j] or (on.still[i] and on.still[j]):
            report.ignored["contact between shapes that can not move against each other (pairs)"] += 1
            continue
        if collides(kinds[i], kinds[j]):
            chosen.append(ordered(i, j, kinds, bodies, on.still, int(m.pair_dim[k]), k))
        else:
            lost += 1
    if lost:
        report.ignored["contact between kinds of shapes (pairs of geoms)"] += lost
    names = tuple(m.geom(int(g)).name or f"geom_{g}" for g in geoms)
    hulls = _hulls(m, [int(g) for g in geoms], kinds)
    layout_pairs, wide = with_cells([*pairs, *chosen], kinds, hulls, m.geom_rbound[geoms] + _reach(m, geoms))
    if wide:
        report.ignored[f"contact of shapes over more than {MAX_CELLS} triangles of a height field"] += wide

    def rows(name: str) -> np.ndarray:
        return np.array(getattr(m, name)[geoms], float)

    shapes = Shapes(rows("geom_pos"), rows("geom_quat"), rows("geom_size"), hulls)
    surfaces = Surfaces(*(rows(f"geom_{k}") for k in Surfaces._fields))
    fields = ("friction", "solref", "solreffriction", "solimp", "margin", "gap")
    given = PairSurfaces(*(np.array(getattr(m, f"pair_{k}"), float) for k in fields))
    if override:
        layout_pairs, given = _overridden(m, layout_pairs, surfaces, given)
    layout = SceneLayout(kinds, bodies, condim, priority, tuple(layout_pairs), names, single=not several_points(m))
    return Scene(shapes, surfaces, given, layout)


def _reach(m: Any, geoms: np.ndarray) -> float:
    """The largest distance at which shapes touch."""
    shapes = 2 * (m.geom_margin[geoms] + m.geom_gap[geoms]).max(initial=0.0)
    return float(max(shapes, (m.pair_margin + m.pair_gap).max(initial=0.0), m.opt.o_margin))


def _hulls(m: Any, geoms: list[int], kinds: tuple[str, ...]) -> dict[int, Any]:
    """Height fields, and the hulls of meshes, each made once however many geoms show it, with the geom's own radius."""
    made: dict[int, Hull] = {}
    found: dict[int, Any] = {}
    for k, (g, kind) in enumerate(zip(geoms, kinds, strict=True)):
        if kind == "hfield":
            found[k] = HeightField.from_mujoco(m, g)
        if kind != "mesh":
            continue
        mesh = int(m.geom_dataid[g])
        if mesh not in made:
            made[mesh] = Hull.from_mujoco(m, g)
        found[k] = made[mesh]._replace(radius=np.asarray(m.geom_rbound[g]))
    return found


def _carriers(m: Any, geoms: np.ndarray) -> Carriers:
    """MuJoCo's weld bodies, and their parents unless the filter of parents is off."""
    from importlib import import_module

    weld = m.body_weldid[m.geom_bodyid[geoms]]
    above = m.body_weldid[m.body_parentid[weld]]
    if m.opt.disableflags & import_module("mujoco").mjtDisableBit.mjDSBL_FILTERPARENT:
        above = np.full_like(weld, BASE)
    still = m.body_dofnum[weld] == 0
    return Carriers(np.where(weld == 0, BASE, weld), np.where(above == 0, BASE, above), still)


def _overridden(m: Any, pairs: list[Pair], surfaces: Surfaces, given: PairSurfaces) -> tuple[list[Pair], PairSurfaces]:
    """MuJoCo's flag `override`: one surface for all pairs."""
    n = len(pairs)
    gap = [given.gap[p.own] if p.own >= 0 else surfaces.gap[p.first] + surfaces.gap[p.second] for p in pairs]
    solref = np.tile(m.opt.o_solref, (n, 1))
    same = PairSurfaces(
        np.tile(m.opt.o_friction, (n, 1)),
        solref,
        solref,
        np.tile(m.opt.o_solimp, (n, 1)),
        np.full(n, m.opt.o_margin),
        np.array(gap),
    )
    return [p._replace(own=k) for k, p in enumerate(pairs)], same
