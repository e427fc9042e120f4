"""A pass's visit to a row in a lane, with what the pass does not speak of: rotors, dampers, springs, shifted joints."""

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
from kinetree.dynamics.recursion import Algorithm, Pass, Row

from .lane_rows import STRETCH, Kind


class Visits:
    """The visits of one pass, to rows whose joints are shifted or to plain ones (joint_terms.py)."""

    def __init__(self, algorithm: Algorithm, kind: Kind, p: Pass, shifts: bool):
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
        """The visit to a row that is placed; its shares are not yet found."""
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
        """What the row brings to later passes, as far as it is known after this one."""
        after = Row({**row, **found, self.pass_.state: state})
        return {x.state: x.own.of(after) for x in self.shares}  # type: ignore[union-attr]
