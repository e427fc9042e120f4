"""Checks on what comes in. Every failure is one ModelError that names the body and says what is wrong with it."""

from typing import Any

import numpy as np

from kinetree.spatial import Inertia, Transform

from .errors import ModelError

ORTHONORMAL = 1e-6  # how far a given rotation may be from one
PHYSICAL = 1e-9  # relative slack of the inertia inequalities, for rounded input


def _refuse(bad: np.ndarray, names: Any, what: str) -> None:
    where = np.flatnonzero(bad)
    if where.size:
        more = f" (and {where.size - 1} more)" if where.size > 1 else ""
        raise ModelError(f"body {names(int(where[0]))}{more}: {what}")


def check_parents(parent: Any) -> np.ndarray:
    """A 1-D integer array with −1 ≤ parent[i] < i."""
    p = np.asarray(parent)
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


def check_transform(x_tree: Any, n: int, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """E (n, 3, 3) and r (n, 3) from Plücker matrices (n, 6, 6), one matrix for all, or a Transform."""
    if isinstance(x_tree, Transform):
        E = np.stack(np.broadcast_arrays(*(np.asarray(c, float) for c in x_tree.E)), -1)
        r = np.stack(np.broadcast_arrays(*(np.asarray(c, float) for c in x_tree.r)), -1)
        E, r = E.reshape(*E.shape[:-1], 3, 3), r
    else:
        X = np.asarray(x_tree, float)
        if X.shape[-2:] != (6, 6) or X.ndim > 3:
            raise ModelError(f"x_tree must have shape ({n}, 6, 6), not {X.shape}")
        E, lower = X[..., :3, :3], X[..., 3:, :3]
        cross = -np.swapaxes(E, -1, -2) @ lower  # r×
        r = np.stack([cross[..., 2, 1], cross[..., 0, 2], cross[..., 1, 0]], -1)
        skew = np.abs(cross + np.swapaxes(cross, -1, -2)).max((-1, -2)) <= ORTHONORMAL * (1 + np.abs(r).max(-1))
        same = np.abs(X[..., 3:, 3:] - E).max((-1, -2)) <= ORTHONORMAL
        zero = np.abs(X[..., :3, 3:]).max((-1, -2)) <= ORTHONORMAL
        finite = np.isfinite(X).all((-1, -2))
        _refuse(np.broadcast_to(~finite, n), names, "x_tree has a NaN or an infinity")
        _refuse(np.broadcast_to(~(skew & same & zero), n), names, "x_tree is not a Plücker transform [[E, 0], [−E r×, E]]")
    if E.shape[:-2] not in ((), (n,)):
        raise ModelError(f"x_tree is for {E.shape[:-2]} bodies, but there are {n}")
    E, r = np.broadcast_to(E, (n, 3, 3)), np.broadcast_to(r, (n, 3))
    _refuse(~(np.isfinite(E).all((1, 2)) & np.isfinite(r).all(1)), names, "x_tree has a NaN or an infinity")
    a, b, c = E[:, 0], E[:, 1], E[:, 2]
    dots = np.stack([(u * v).sum(1) - d for u, v, d in ((a, a, 1), (b, b, 1), (c, c, 1), (a, b, 0), (a, c, 0), (b, c, 0))])
    _refuse(np.abs(dots).max(0) > ORTHONORMAL, names, "x_tree's rotation is not orthonormal")
    _refuse((np.cross(a, b) * c).sum(1) < 0, names, "x_tree's rotation is a reflection")
    return E, r


def check_inertia(inertia: Any, n: int, names: Any) -> Inertia:
    """An Inertia with (n,) components from (n, 6, 6) matrices or (n, 10) numbers, checked to be physical."""
    a = np.asarray(inertia, float)
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
    I = Inertia.from_array(np.broadcast_to(np.stack([I.mass, *I.h, *I.I], -1), (n, 10)))
    _refuse(I.mass < 0, names, "negative mass")
    _refuse(unphysical(I), names, "rotational inertia breaks the triangle inequality: no distribution of mass has it")
    return I


def unphysical(I: Inertia) -> np.ndarray:
    """Where no distribution of mass has this inertia: tr(J)/2 1 − J about the centre of mass is not semidefinite."""
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


def check_leaves(parent: np.ndarray, turn: np.ndarray, slide: np.ndarray, I: Inertia, name_of_row: Any) -> None:
    """Refuse a leaf that nothing resists: Sᵀ I S = 0 there makes the mass matrix singular."""
    leaf = np.ones(len(parent), bool)
    leaf[parent[parent >= 0]] = False
    resists = turn * turn * I.I.zz + slide * slide * I.mass
    where = np.flatnonzero(leaf & (resists <= 0))
    if where.size:
        raise ModelError(
            f"body {name_of_row(int(where[0]))} is a leaf without inertia along its joint: the mass matrix would be singular"
        )


def check_gravity(gravity: Any) -> np.ndarray:
    """Three finite numbers."""
    g = np.asarray(gravity, float)
    if g.shape != (3,) or not np.isfinite(g).all():
        raise ModelError(f"gravity must be three finite numbers, not {gravity!r}")
    return g
