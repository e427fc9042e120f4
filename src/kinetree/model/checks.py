"""Checks of models. Every failure is one ModelError that names the body and says what is wrong with it."""

from typing import Any

import jax
import numpy as np

from kinetree._arrays import require_real
from kinetree.spatial import Inertia, Motion, Quaternion, Sym3, Transform, Vec3

from .errors import ModelError
from .orientation import orientation_of
from .piecewise import in_pieces
from .rows import Rows

ORTHONORMAL = 1e-6  # how far a given rotation may be from one
PHYSICAL = 1e-9  # relative slack of the inertia inequalities, for rounded input
SINGULAR = 1e-12  # least eigenvalue, over its diagonal, of the mass matrix of a leaf


def _refuse(bad: np.ndarray, names: Any, what: str) -> None:
    where = np.flatnonzero(bad)
    if where.size:
        more = f" (and {where.size - 1} more)" if where.size > 1 else ""
        raise ModelError(f"body {names(int(where[0]))}{more}: {what}")


def real_numbers(value: Any, what: str) -> np.ndarray:
    """The numbers of an array or list, as float64."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiubO":  # NumPy would turn dates, texts and complex numbers into floats
            raise TypeError(f"not of type {given.dtype}")
        return np.asarray(given, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} must be an array of real numbers: {error}") from None


def frozen(value: Any) -> Any:
    """An array as a model keeps it: read-only. Anything that is not an array is returned as it is.

    An array is copied if other code could still write to it, directly or through the array that it is a view of.
    """
    if not isinstance(value, np.ndarray) or (value.flags.owndata and not value.flags.writeable):
        return value
    own = value.copy()
    own.flags.writeable = False
    return own


def settle(tree: Any) -> Any:
    """Make arrays read-only that no other code holds. `frozen` then need not copy them."""
    for x in jax.tree.leaves(tree):
        if isinstance(x, np.ndarray) and x.flags.owndata:
            x.flags.writeable = False
    return tree


def check_parents(parent: Any) -> np.ndarray:
    """A 1-D integer array with −1 ≤ parent[i] < i."""
    try:
        p = np.asarray(parent)
    except ValueError as error:
        raise ModelError(f"parent must be a list of integers, one for each body: {error}") from None
    if p.ndim != 1 or (p.size and not np.issubdtype(p.dtype, np.integer)):
        raise ModelError(f"parent must be a list of integers, one for each body, not {p.dtype} of shape {p.shape}")
    p = p.astype(np.int64)
    index = np.arange(len(p))
    out = np.flatnonzero((p < -1) | (p >= len(p)))
    if out.size:
        raise ModelError(f"body {out[0]}: parent {p[out[0]]} is outside −1 … {len(p) - 1} (−1 is the base)")
    late = np.flatnonzero(p >= index)
    if late.size:
        i = int(late[0])
        seen, j = {i}, int(p[i])
        while j >= 0 and j not in seen:
            seen.add(j)
            j = int(p[j])
        if j >= 0:
            raise ModelError(f"body {i}: its parents form a cycle through body {j}")
        raise ModelError(f"body {i}: parent {p[i]} comes after it; number bodies so that parent[i] < i")
    return p


NOT_FINITE, NOT_PLUCKER, NOT_ORTHONORMAL, REFLECTION = range(1, 5)
WRONG = {
    NOT_FINITE: "x_tree has a NaN or an infinity",
    NOT_PLUCKER: "x_tree is not a Plücker transform [[E, 0], [−E r×, E]]",
    NOT_ORTHONORMAL: "x_tree's rotation is not orthonormal",
    REFLECTION: "x_tree's rotation is a reflection",
}


def check_transform(x_tree: Any, n: int, names: Any) -> tuple[Quaternion, Vec3]:
    """Orientations and positions, from Plücker matrices (n, 6, 6), one matrix for all, or a Transform."""
    if isinstance(x_tree, Transform):
        parts = [real_numbers(c, "x_tree") for c in (*x_tree.E, *x_tree.r)]
        try:
            together = np.stack([np.broadcast_to(c, (n,)) for c in parts])
        except ValueError:
            shapes = sorted({c.shape for c in parts})
            raise ModelError(f"x_tree must have components of shape ({n},) or (), not {shapes}") from None

        def examine(piece: slice) -> tuple[np.ndarray, ...]:
            part = together[:, piece]
            return _examined(part[:9], part[9:], np.isfinite(part).all(0), True)
    else:
        X = real_numbers(x_tree, "x_tree")
        if X.shape not in ((n, 6, 6), (6, 6)):
            raise ModelError(f"x_tree must have shape ({n}, 6, 6), not {X.shape}")
        X = np.broadcast_to(X, (n, 6, 6)).reshape(n, 36)

        def examine(piece: slice) -> tuple[np.ndarray, ...]:
            return _taken_apart(np.ascontiguousarray(X[piece].T).reshape(6, 6, -1))

    *found, wrong = in_pieces(examine, n)
    if wrong.any():
        for kind, what in WRONG.items():
            _refuse(wrong == kind, names, what)
    return Quaternion(*found[:4]), Vec3(*found[4:])


def _taken_apart(X: np.ndarray) -> tuple[np.ndarray, ...]:
    """Orientations, positions and what is wrong, from Plücker matrices (6, 6, n)."""
    with np.errstate(invalid="ignore", over="ignore"):  # numbers that are not finite are reported in words
        E, lower = X[:3, :3], X[3:, :3]
        cross = [[-sum(E[k, i] * lower[k, j] for k in range(3)) for j in range(3)] for i in range(3)]  # r×
        r = np.stack([cross[2][1], cross[0][2], cross[1][0]])
        askew = np.stack([cross[i][j] + cross[j][i] for i in range(3) for j in range(i + 1)])
        skew = np.abs(askew).max(0, initial=0) <= ORTHONORMAL * (1 + np.abs(r).max(0, initial=0))
        same = np.abs(X[3:, 3:] - E).max((0, 1), initial=0) <= ORTHONORMAL
        zero = np.abs(X[:3, 3:]).max((0, 1), initial=0) <= ORTHONORMAL
        return _examined(E.reshape(9, -1), r, np.isfinite(X).all((0, 1)), skew & same & zero)


def _examined(E: np.ndarray, r: np.ndarray, finite: Any, plucker: Any) -> tuple[np.ndarray, ...]:
    """Orientations, positions, and the first thing that is wrong with each transform (0: nothing); E is (9, n)."""
    a, b, c = E.reshape(3, 3, -1)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        pairs = ((a, a, 1), (b, b, 1), (c, c, 1), (a, b, 0), (a, c, 0), (b, c, 0))
        off = np.stack([u[0] * v[0] + u[1] * v[1] + u[2] * v[2] - d for u, v, d in pairs])
        orthonormal = np.abs(off).max(0, initial=0) <= ORTHONORMAL
        volume = Vec3(*a).cross(Vec3(*b)).dot(Vec3(*c))
        q = orientation_of(E)
    wrong = np.where(volume < 0, REFLECTION, 0)
    for right, kind in ((orthonormal, NOT_ORTHONORMAL), (plucker, NOT_PLUCKER), (finite, NOT_FINITE)):
        wrong = np.where(right, wrong, kind)
    return (*q, *r, wrong.astype(np.int8))


def check_inertia(inertia: Any, n: int, names: Any, physical: bool = True) -> Inertia:
    """An Inertia with (n,) components from (n, 6, 6) matrices or (n, 10) numbers, checked to be physical.

    Only the shape of JAX arrays is checked: they may be traced, and a fit may pass through unphysical inertias.
    """
    if isinstance(inertia, jax.Array):
        require_real("inertia", inertia)
        if inertia.shape not in ((n, 6, 6), (n, 10)):
            raise ModelError(f"inertia must have shape ({n}, 6, 6) or ({n}, 10), not {inertia.shape}")
        return (Inertia.from_matrix if inertia.ndim == 3 else Inertia.from_array)(inertia)
    a = real_numbers(inertia, "inertia")
    if a.shape == (n, 6, 6) or a.shape == (6, 6):
        bad = np.broadcast_to(~np.isfinite(a).all((-1, -2)), n)
        _refuse(bad, names, "inertia has a NaN or an infinity")
        scale = np.abs(a).max((-1, -2), initial=0) + 1e-300
        asymmetric = np.abs(a - np.swapaxes(a, -1, -2)).max((-1, -2), initial=0) > ORTHONORMAL * scale
        _refuse(np.broadcast_to(asymmetric, n), names, "inertia matrix is not symmetric")
        I = Inertia.from_matrix(a)
        rebuilt = np.asarray(I.articulated().array())
        wrong = np.abs(a - rebuilt).max((-1, -2), initial=0) > ORTHONORMAL * scale
        _refuse(np.broadcast_to(wrong, n), names, "matrix is not a rigid-body inertia [[I, m c×], [m c×ᵀ, m 1]]")
    elif a.shape in ((n, 10), (10,)):
        _refuse(np.broadcast_to(~np.isfinite(a).all(-1), n), names, "inertia has a NaN or an infinity")
        I = Inertia.from_array(a)
    else:
        raise ModelError(f"inertia must have shape ({n}, 6, 6) or ({n}, 10), not {a.shape}")
    mass, *rest = (np.array(np.broadcast_to(x, n)) for x in (I.mass, *I.h, *I.I))
    I = Inertia(mass, Vec3(*rest[:3]), Sym3(*rest[3:]))
    if not physical:
        return I
    _refuse(I.mass < 0, names, "negative mass")
    (wrong,) = in_pieces(lambda piece: (unphysical(jax.tree.map(lambda x: x[piece], I)),), n)
    _refuse(wrong, names, "rotational inertia breaks the triangle inequality: no distribution of mass has it")
    return I


def unphysical(I: Inertia) -> np.ndarray:
    """True if no distribution of mass has this inertia: tr(J)/2 1 − J about the centre of mass is not semidefinite."""
    mass = np.where(I.mass > 0, I.mass, 1.0)
    x, y, z = (h / mass for h in I.h)
    m = I.mass
    stray = (m <= 0) & (np.abs(np.stack(I.h)).max(0) > 0)
    xx, yy, zz = I.I.xx - m * (y * y + z * z), I.I.yy - m * (x * x + z * z), I.I.zz - m * (x * x + y * y)
    xy, xz, yz = -(I.I.xy + m * x * y), -(I.I.xz + m * x * z), -(I.I.yz + m * y * z)
    half = (xx + yy + zz) / 2
    a, b, c = half - xx, half - yy, half - zz
    scale = np.abs(I.I.xx) + np.abs(I.I.yy) + np.abs(I.I.zz) + 1e-300
    slack = PHYSICAL
    a, b, c, xy, xz, yz = (t / scale for t in (a, b, c, xy, xz, yz))
    minors = np.stack([a * b - xy * xy, a * c - xz * xz, b * c - yz * yz]).min(0)
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    return stray | (np.minimum(np.minimum(a, b), c) < -slack) | (minors < -slack) | (determinant < -slack)


def check_leaves(parent: np.ndarray, rows: Rows, first: np.ndarray, name_of_row: Any) -> None:
    """Refuse a leaf with a motion that nothing resists: if Sᵀ I S is singular there, so is the mass matrix.

    Arguments:
        parent: of each row.
        rows: the rows of the model.
        first: for each row, the first row of its joint.
        name_of_row: gives the body's name for the message.
    """
    leaf = np.ones(len(parent), bool)
    leaf[parent[parent >= 0]] = False
    last = np.flatnonzero(leaf)
    I = rows.inertia
    singular = rows.turn[last] ** 2 * I.I.zz[last] + rows.slide[last] ** 2 * I.mass[last] <= 0
    several = np.flatnonzero(first[last] < last)
    if several.size:
        singular[several] |= _singular_joint(rows, first[last[several]], last[several])
    where = last[singular]
    if where.size:
        name = name_of_row(int(where[0]))
        raise ModelError(f"body {name} is a leaf without inertia along its joint: the mass matrix would be singular")


def _singular_joint(rows: Rows, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """True if Sᵀ I S is singular, for joints of several rows that stand at zero, carrying a rigid body."""
    width = int((last - first).max()) + 1
    one, zero = np.ones(len(last)), np.zeros(len(last))
    mass, h, J = rows.inertia
    I = Inertia(mass[last], Vec3(*(c[last] for c in h)), Sym3(*(c[last] for c in J)))
    pose, S, absent = Quaternion(one, zero, zero, zero), [], []  # pose: of the last row in the one we are at
    for k in range(width):
        at = np.maximum(last - k, first)
        absent.append(last - k < first)
        axis = pose.conjugate().turn(Vec3(zero, zero, one))
        S.append(
            Motion(axis * np.where(absent[-1], 0.0, rows.turn[at]), axis * np.where(absent[-1], 0.0, rows.slide[at]))
        )
        pose = Quaternion(*(c[at] for c in rows.orientation)) * pose
    H = np.stack([np.stack([s.dot(I @ t) for t in S], -1) for s in S], -1)
    H += np.stack(absent, -1)[:, :, None] * np.eye(width)
    diagonal = np.einsum("nii->ni", H)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return np.linalg.eigvalsh(H * scale[:, :, None] * scale[:, None, :])[:, 0] < SINGULAR


def check_gravity(gravity: Any) -> Any:
    """Three finite numbers; of traced ones only the count is checked."""
    if isinstance(gravity, jax.Array):
        require_real("gravity", gravity)
        if gravity.shape != (3,):
            raise ModelError(f"gravity must be three numbers, not an array of shape {gravity.shape}")
        return gravity
    g = real_numbers(gravity, "gravity")
    if g.shape != (3,) or not np.isfinite(g).all():
        raise ModelError(f"gravity must be three finite numbers, not {gravity!r}")
    return g
