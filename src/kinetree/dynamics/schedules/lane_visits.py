"""A pass's visit to a row in a lane, with the terms that passes leave out: rotors, dampers, springs, shifted joints.

This file also has the fields of a row, as slots of a lane's memory, and the axes of an algorithm's outputs.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics.joint_terms import (
    JOINT_QUANTITIES,
    LOAD,
    felt_acceleration,
    joint_acceleration,
    joint_force,
    passive_force,
    row_acceleration,
    row_force,
)
from kinetree.dynamics.recursion import Algorithm, Base, Bodies, OneBody, Pass, Row, Total
from kinetree.lanes import Memory, Slots
from kinetree.model import Structure
from kinetree.spatial import Mat3

from .lane_rows import STRETCH, Traits


class Visits:
    """The visits of one pass, to rows whose joints are shifted or to plain ones (joint_terms.py)."""

    def __init__(self, algorithm: Algorithm, kind: Traits, p: Pass, shifts: bool):
        self.algorithm, self.pass_ = algorithm, p
        self.shares = algorithm.shares_after(p)
        self.shifted = shifts and not {*p.given, *p.outputs}.isdisjoint(JOINT_QUANTITIES)
        self.rotor = "tau" in p.outputs
        forced = self.rotor or "tau" in p.given
        self.damped = forced and kind.dampers
        self.sprung = kind.springs and (forced or STRETCH in p.needs)
        given = (*p.given, *(("qdd",) if self.rotor else ()), *(("qd",) if self.damped else ()))
        self.resting = tuple(n for n in algorithm.resting if n in given)
        self.given = tuple(n for n in dict.fromkeys(given) if n not in self.resting)
        joint = ("axis", "armature") if forced else ()
        joint += (("damping",) if self.damped else ()) + (("stiffness",) if self.sprung else ())
        self.link = (*p.link, *joint, *(n for x in self.shares for n in x.own.link))  # type: ignore[union-attr]

    def at_rest(self, example: Any) -> dict[str, Any]:
        """The inputs that are zero everywhere."""
        return dict.fromkeys(self.resting, jnp.zeros_like(jax.tree.leaves(example)[0])) if self.resting else {}

    def __call__(self, row: Row, state: Any) -> tuple[Any, dict]:
        """Visit a row that is placed. Its shares are computed later."""
        p, given = self.pass_, self.pass_.given
        if LOAD in row:
            row["armature"] = row.armature + row.load
        felt = row.get("qdd")
        if self.shifted and self.rotor:
            felt = felt_acceleration(felt, row.axis.slide, row.shift)
        if self.shifted and "qdd" in given:
            row["qdd"] = row_acceleration(row.qdd, row.shift)
        passive = self.damped or self.sprung
        if passive and "tau" in given:
            row["tau"] = row.tau + passive_force(row)
        if self.shifted and "tau" in given:
            row["tau"] = row_force(row.tau, row.armature, row.axis.slide, row.shift)
        new, found = p.visit(row, state)
        if self.rotor:
            found["tau"] = joint_force(found["tau"], row.armature, felt)
        if self.rotor and passive:
            found["tau"] = found["tau"] - passive_force(row)
        if self.shifted and "qdd" in p.outputs:
            found["qdd"] = joint_acceleration(found["qdd"], row.shift)
        return new, found

    def own_shares(self, row: Row, state: Any, found: dict) -> dict[str, Any]:
        """The row's shares of later passes that can be computed after this one."""
        after = Row({**row, **found, self.pass_.state: state})
        return {x.state: x.own.of(after) for x in self.shares}  # type: ignore[union-attr]


class Fields:
    """The fields of a row as slots. A part of a field that forces are added to has slots of its own."""

    def __init__(self, examples: dict[str, Any], split: str):
        self.examples = examples
        self.parts = {name: [name] for name in examples}
        values = dict(examples)
        if split:
            whole = {part: x for part, x in values.pop(split)._asdict().items() if x is not None}
            self.parts[split] = [f"{split}_{part}" for part in whole]
            values |= zip(self.parts[split], whole.values(), strict=True)
        self.memory = Memory(**values)

    def at(self, column: int, *names: str) -> tuple[Slots, ...]:
        """The slots of some fields of the row in this column of the table."""
        return tuple(self.memory.at(column, part) for name in names for part in self.parts[name])

    def taken(self, names: tuple[str, ...], slots: list[Any]) -> dict[str, Any]:
        """Values of some fields, from the values of their slots, which are removed from the list."""
        found = {}
        for name in names:
            parts = [slots.pop(0) for _ in self.parts[name]]
            found[name] = parts[0] if len(parts) == 1 else self._joined(name, parts)
        return found

    def spread(self, names: tuple[str, ...], values: dict[str, Any]) -> tuple:
        """Values of some fields, in the order of their slots."""
        spread = ([x for x in values[n] if x is not None] if len(self.parts[n]) > 1 else [values[n]] for n in names)
        return tuple(x for parts in spread for x in parts)

    def _joined(self, name: str, parts: list[Any]) -> Any:
        """A field from its parts; parts that its example lacks stay None."""
        rest = iter(parts)
        return type(self.examples[name])(*(None if x is None else next(rest) for x in self.examples[name]))


def row_count(structure: Structure) -> int:
    """How many rows there are."""
    return structure.tree.n


def output_axes(algorithm: Algorithm, name: str, packed: bool) -> tuple[Any, ...]:
    """Axes of an output of one state: numbers, or functions of the structure."""
    example = algorithm.outputs[name]
    count = jax.tree.structure(example).num_leaves
    if name == algorithm.matrix:
        return (lambda structure: structure.tree.n_ancestor_pairs,) if packed else (row_count, row_count)
    if name in algorithm.columns:
        return (count, row_count)
    group = () if count == 1 else (3, 3) if isinstance(example, Mat3) else (count,)
    (p,) = (p for p in algorithm.passes if name in p.outputs)
    if isinstance(p, Total | Base | OneBody):
        return group
    return ((lambda structure: structure.n_bodies) if isinstance(p, Bodies) else row_count, *group)
