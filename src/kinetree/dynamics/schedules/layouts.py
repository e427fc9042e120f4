"""Passes over a layout, in XLA: all rows of a level, or all chunks of long paths, side by side, for any batch.

Data are arranged by position, (positions, batch). Each pass becomes an operator of tree/ and is run by its executor.
Under `levels` a pass needs nothing but its visit. Under `paths` long paths are cut, so it must state its stretch.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics.joint_terms import FELT, LOAD, inputs_of_rows, joint_acceleration, joint_force
from kinetree.dynamics.recursion import (
    AT,
    Algorithm,
    Base,
    Bodies,
    Inward,
    OneBody,
    Outward,
    Pass,
    Row,
    Total,
    less_force,
)
from kinetree.model import Model, Placement
from kinetree.model.coordinates import velocity_product_shift
from kinetree.tree import Layout, pick, restore
from kinetree.tree.fix import inward_visits, outward_visits

from .arranged import POSE_PASS, Arranged, applied_forces, arranged, by_position
from .operators import OWN, inward_operator, outward_operator

tree_map = jax.tree.map
Visits = Callable[[Pass, Layout, Arranged, Row, Any], tuple[Any, dict[str, Any]]]  # States, and findings.


def _outward(p: Pass, laid: Layout, at: Arranged, row: Row, base: Any) -> tuple[Any, dict[str, Any]]:
    return outward_visits(outward_operator(p), laid, row, base)


def _inward(p: Pass, laid: Layout, at: Arranged, row: Row, base: Any) -> tuple[Any, dict[str, Any]]:
    return inward_visits(inward_operator(p), laid, row, base)


def run_passes(
    algorithm: Algorithm,
    laid: Layout,
    model: Any,  # of bodies and their forces; None without these
    at: Arranged,
    given: dict[str, Any],
    f_ext: Any = None,
    about: Any = None,
    outward: Visits = _outward,
    inward: Visits = _inward,
) -> dict[str, Any]:
    """Outputs of an algorithm, (positions, batch); `given` are the inputs of the rows, by position."""
    shape = (laid.positions, at.gravity.x.shape[0])
    inertia = at.rows.inertia.moments() if algorithm.moments else at.rows.inertia
    known = {"axis": at.rows.axis, "inertia": inertia, "armature": at.rows.armature, "mass": inertia.mass}
    known = tree_map(lambda x: jnp.broadcast_to(x, shape), known)
    if LOAD in given:
        known["armature"] = known["armature"] + given[LOAD]
    base = algorithm.base(at.gravity)
    fields: dict[str, Any] = {}
    shares: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for p in algorithm.all_passes:
        if isinstance(p, Base):
            mass = restore(laid, known["mass"]).sum(0)
            _, results = p.visit(Row({n: base[n] for n in p.needs} | {"gravity": at.gravity, "mass": mass}), None)
            base |= {n: results[n] for n in p.leaves}
            found |= {n: results[n] for n in p.outputs}
            continue
        # Quaternions if a pass places rows, or if the algorithm keeps no transforms.
        fields[AT] = at.placed if p.places or algorithm.keeps == "screw" else at.placed.transform
        row = Row({n: known[n] for n in p.link} | {n: given[n] for n in p.given} | {n: fields[n] for n in p.needs})
        results: dict[str, Any] = {}
        if isinstance(p, Outward) and p.state:
            row[AT] = fields[AT]
            fields[p.state], results = outward(p, laid, at, row, base[p.state])
        elif isinstance(p, Inward):
            row |= {n: known[n] for n in p.own.link}  # type: ignore[union-attr]
            row[OWN] = shares[p.state]
            received, results = inward(p, laid, at, row, base[p.state])
            base[p.state] = tree_map(lambda x: x[0], received)
        elif isinstance(p, Total):
            base[p.state] = tree_map(lambda x: x.sum(0), restore(laid, shares[p.state]))
            results = {p.state: base[p.state]}
        elif isinstance(p, Bodies | OneBody):
            chosen = slice(None) if isinstance(p, Bodies) else about
            _, results = p.visit(of_bodies(laid, model, row, chosen), None)
        elif p.state:
            raise ValueError(f"{algorithm.name}: schedule {laid.schedule!r} has no pass of kind {type(p).__name__}")
        fields |= {n: results[n] for n in p.leaves}
        found |= {n: results[n] for n in p.outputs}
        for x in algorithm.shares_after(p):
            parts = {n: known[n] for n in x.own.link} | {n: fields[n] for n in x.own.needs}  # type: ignore[union-attr]
            shares[x.state] = x.own.of(Row(parts | {n: given[n] for n in x.given}))  # type: ignore[union-attr]
            if f_ext is not None and algorithm.applied[0] == x.state:
                poses, _ = outward(POSE_PASS, laid, at, Row(at=at.placed), Placement.identity_like(at.gravity.x))
                f = applied_forces(laid, model, poses, f_ext)
                shares[x.state] = less_force(shares[x.state], algorithm.applied[1:], f)
    return found


def of_bodies(laid: Layout, model: Model, row: Row, chosen: Any = slice(None)) -> Row:
    """Fields of the rows that carry the chosen bodies, (bodies, batch), or (batch,) of one, and their frames there."""
    with_base = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.asarray(laid.position_of, jnp.int32)])
    position = with_base[model.structure.row_of_body + 1][chosen]
    taken = pick(row, position)
    dtype = jax.tree.leaves(taken)[0].dtype
    return Row(taken | {"frame": tree_map(lambda x: jnp.asarray(x, dtype)[chosen, None], model.frames)})


def over_layout(
    algorithm: Algorithm,
    laid: Layout,
    model: Model,
    inputs: dict[str, Any],
    f_ext: Any = None,
    about: Any = None,
    outward: Visits = _outward,
    inward: Visits = _inward,
) -> dict[str, Any]:
    """The outputs of an algorithm.

    Arguments:
        algorithm: the passes.
        laid: the layout of the model's tree.
        model: the mechanism.
        inputs: (batch, ·) arrays by name; accelerations and forces are those of the joints.
        f_ext: (batch, bodies, 6), or None.
        about: the number of the body that the algorithm is about, if it is about one.
        outward, inward: how a pass visits all rows.

    Returns:
        By name: leaves (batch, rows); of a `Total`, the `Base` and `OneBody` (batch,), of `Bodies` (bodies, batch).
    """
    q = inputs["q"]
    at = arranged(laid, model, q)
    armature, slide = (jnp.asarray(x, q.dtype) for x in (model.rows.armature, model.rows.slide))
    armature = armature + inputs[LOAD] if LOAD in inputs else armature
    shift = velocity_product_shift(model.structure, inputs["qd"].T).T if "qd" in inputs else None
    of_rows = inputs_of_rows(inputs, armature, slide, shift)
    given = {name: by_position(laid, x) for name, x in of_rows.items() if name not in ("q", FELT)}
    found = run_passes(algorithm, laid, model, at, given, f_ext, about, outward, inward)
    for p in algorithm.passes:
        if isinstance(p, Outward | Inward):
            found |= {n: tree_map(jnp.transpose, restore(laid, found[n])) for n in p.outputs}
    if "tau" in found:
        found["tau"] = joint_force(found["tau"], armature, of_rows[FELT])
    if "qdd" in found:
        found["qdd"] = joint_acceleration(found["qdd"], shift)
    return found
