"""States without an answer of forward dynamics or of a step: NaN for JAX arrays, one ValueError for NumPy arrays.

The error says what is wrong: an argument that is not finite, a quaternion of length zero, or a singular mass matrix. It
names the state and the joint.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.model import Axis, Model, Structure

from .elements.articulated import Scale, along_axis, exceeds_rounding, joint_inertia
from .firmness import is_firm
from .published.abia import articulated_inertias


def singular_states(model: Model, q: Any) -> Any | None:
    """True for states, (batch,), with a singular mass matrix; None if no state can have one."""
    return None if is_firm(model) else singular_rows(model, q).any(-1)


def without_singular(model: Model, q: Any, qdd: Any) -> Any:
    """qdd, (batch, nv), with NaN in states with a singular mass matrix."""
    singular = singular_states(model, q)
    return qdd if singular is None else jnp.where(singular[:, None], jnp.full_like(qdd, jnp.nan), qdd)


def require_solution(model: Model, method: str, result: Any, **given: Any) -> Any:
    """`result`, (..., nv). If a NumPy array is not finite, raise an error that names the wrong one of `given`."""
    if isinstance(result, np.ndarray) and not np.isfinite(result).all():
        finite = np.isfinite(result)
        state = tuple(map(int, np.argwhere(~finite.all(-1))[0]))
        raise ValueError(f"{method}{_in_state(state)}: {_reason(model, given, finite.shape[:-1], state)}")
    return result


def _in_state(state: tuple[int, ...]) -> str:
    return f", state {', '.join(map(str, state))}" if state else ""


def _reason(model: Model, given: dict[str, Any], batch: tuple[int, ...], state: tuple[int, ...]) -> str:
    whole, structure = model.uncoupled, model.structure
    for name, value in given.items():
        if value is None:
            continue
        own = np.asarray(value)[_own_index(np.shape(value), batch, state, 2 if name == "f_ext" else 1)]
        if not np.isfinite(own).all():
            place = tuple(map(int, np.argwhere(~np.isfinite(own))[0]))
            return f"{name}[{', '.join(map(str, place))}] is {own[place]}, and every argument must be finite"
        if name == "q" and (joint := _zero_quaternion(structure, whole_q(model, own))) is not None:
            return f"q has a quaternion of length zero, of joint {model.joint_names[joint]!r}"
    q = np.asarray(given["q"])
    own = np.asarray(q[_own_index(q.shape, batch, state, 1)], np.result_type(q, np.float32))
    if model.batch:
        return "the mass matrix of that world is singular, or its accelerations are too large for this precision"
    if model.coupling is None:
        singular = np.flatnonzero(singular_rows(whole, own[None])[0])
        if not singular.size:
            return (
                "the accelerations are too large for this precision (of a step: it may be too long), "
                "or the mass matrix is not positive definite in it"
            )
        joint = int(np.searchsorted(structure.v_start, singular[-1], side="right")) - 1
        name, body = model.joint_names[joint], model.names[joint]
        where = f"nothing resists joint {name!r} (body {body!r}) when the joints outside it are free to move"
    else:
        where = "some motion of the joints that others mimic meets no resistance"
    return (
        f"the mass matrix is not positive definite in this precision, it is singular: {where}. Give the massless "
        "bodies there an inertia, give the joint an armature, or fix it"
    )


def whole_q(model: Model, q: Any) -> Any:
    """Coordinates of all joints, those that mimic others too."""
    return q if model.coupling is None else model.coupling.widen_q(q)


def _own_index(shape: tuple, batch: tuple[int, ...], state: tuple[int, ...], last: int) -> tuple[int, ...]:
    """The index of a state of the batch in an argument that was broadcast to it."""
    lead = shape[: len(shape) - last]
    return tuple(0 if size == 1 else k for size, k in zip(lead, state[len(batch) - len(lead) :], strict=True))


def _zero_quaternion(structure: Structure, q: np.ndarray) -> int | None:
    for first, start, free in structure.quaternion_joints:
        if not np.any(q[start + 3 * free : start + 3 * free + 4]):
            return int(np.searchsorted(structure.v_start, first, side="right")) - 1
    return None


def singular_rows(model: Model, q: Any) -> Any:
    """Rows at which d of the articulated-body algorithm is rounding error, (batch, nv), of q (batch, nq).

    Rows closer to the base than a singular one count as singular, too.
    """
    I, scale = articulated_inertias(model, q)
    xp = library(q)
    turn, slide, armature = (xp.asarray(x, q.dtype) for x in (*model.rows.axis, model.rows.armature))
    axis = Axis(turn, slide)
    d = joint_inertia(axis, along_axis(I, axis), armature)
    return ~exceeds_rounding(d, (Scale.of(I) + scale).along(axis))
