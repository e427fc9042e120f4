"""Gradients of inverse and forward dynamics of huge trees, by passes of their own (algorithms/rnea_reverse.py).

With L = Σ g τ the gradient of inverse dynamics is one run of the reverse algorithm with w = g, and what rotors add.
Forward dynamics, H qdd + C = τ, has  g · dqdd = λ · (dτ − dID),  λ = H⁻¹ g:  one more run of itself, at rest and
without weight, and the reverse algorithm with w = −λ.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm
from kinetree.model import Model

from ..algorithms.aba import aba_of
from ..algorithms.rnea import RNEA
from ..algorithms.rnea_reverse import RNEA_REVERSE

Run = Callable[[Algorithm, Model, dict[str, Any]], dict[str, Any]]  # on (..., n) arrays
FORWARD = (aba_of(False), aba_of(True))


def has_reverse(algorithm: Algorithm, model: Model) -> bool:
    """True if there are passes for the gradient of an algorithm; not for quaternion joints."""
    return (algorithm is RNEA or algorithm in FORWARD) and not len(model.structure.quaternion_joints)


def gradient(algorithm: Algorithm, run: Run, model: Model, state: tuple, owed: Any) -> tuple:
    """Gradients with respect to the state, (..., n) arrays, from that with respect to the result."""
    q, qd, given = state
    if algorithm is RNEA:
        armature = jnp.asarray(model.rows.armature, q.dtype)
        by_q, by_qd, by_qdd = run(RNEA_REVERSE, model, {"q": q, "qd": qd, "qdd": given, "w": owed}).values()
        return by_q, by_qd, by_qdd + armature * owed
    (qdd,) = run(algorithm, model, {"q": q, "qd": qd, "tau": given}).values()
    (answer,) = run(algorithm, model.weightless, {"q": q, "qd": jnp.zeros_like(qd), "tau": owed}).values()
    by_q, by_qd, _ = run(RNEA_REVERSE, model, {"q": q, "qd": qd, "qdd": qdd, "w": -answer}).values()
    return by_q, by_qd, answer
