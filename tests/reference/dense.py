"""Rigid-body dynamics with dense 6x6 matrices: the slow, plain oracle that kinetree is tested against.

Written from R. Featherstone, "Rigid Body Dynamics Algorithms" (RBDA), Springer 2008, in its notation: spatial vectors
hold the angular part first, ``X`` maps motion coordinates from parent to child, body quantities are in body
coordinates. Everything is computed in the dtype of the `Description`, meant to be ``np.longdouble``.

A joint is one of the strings "Rx" "Ry" "Rz" "Px" "Py" "Pz" "spherical" "translation" "planar" "free" "fixed", or one of
the tuples ("revolute", axis), ("prismatic", axis), ("helical", axis, pitch); pitch in metres per radian.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

__all__ = [
    "Description",
    "Kinematics",
    "aba",
    "accelerations",
    "center_of_mass",
    "crba",
    "cross_force",
    "cross_motion",
    "energy",
    "force_to_body",
    "force_to_world",
    "inertia_matrix",
    "integrate_first_order",
    "joint",
    "kinematics",
    "momentum",
    "plux",
    "poses",
    "q_derivative",
    "rnea",
    "rotation_about",
    "rotation_of_quaternion",
    "rotx",
    "roty",
    "rotz",
    "skew",
    "solve_spd",
    "unplux",
]


# ------------------------------------------------------------------------------------------------ spatial algebra


def skew(v):
    """The matrix ``v×`` of vectors ``(..., 3)``."""
    v = np.asarray(v)
    out = np.zeros((*v.shape, 3), v.dtype)
    out[..., 2, 1], out[..., 0, 2], out[..., 1, 0] = v[..., 0], v[..., 1], v[..., 2]
    out[..., 1, 2], out[..., 2, 0], out[..., 0, 1] = -v[..., 0], -v[..., 1], -v[..., 2]
    return out


def _rotation_in_plane(angle, i, j):
    """Coordinate transform of a turn in the plane of axes i and j; RBDA Table 2.2."""
    angle = np.asarray(angle)
    E = np.zeros((*angle.shape, 3, 3), angle.dtype)
    E[..., 3 - i - j, 3 - i - j] = 1
    E[..., i, i] = E[..., j, j] = np.cos(angle)
    E[..., i, j] = np.sin(angle)
    E[..., j, i] = -E[..., i, j]
    return E


def rotx(angle):
    """Coordinate transform to a frame turned by `angle` about x (3x3)."""
    return _rotation_in_plane(angle, 1, 2)


def roty(angle):
    """Coordinate transform to a frame turned by `angle` about y (3x3)."""
    return _rotation_in_plane(angle, 2, 0)


def rotz(angle):
    """Coordinate transform to a frame turned by `angle` about z (3x3)."""
    return _rotation_in_plane(angle, 0, 1)


def rotation_about(axis, angle):
    """Coordinate transform to a frame turned by `angle` about a unit `axis` (Rodrigues, transposed)."""
    axis = np.asarray(axis)
    c, s = np.cos(angle)[..., None, None], np.sin(angle)[..., None, None]
    return c * np.eye(3, dtype=axis.dtype) + (1 - c) * (axis[..., :, None] * axis[..., None, :]) - s * skew(axis)


def rotation_of_quaternion(quaternion):
    """Coordinate transform from parent to body of the orientation (w, x, y, z), made unit first. RBDA section 4.5."""
    quaternion = np.asarray(quaternion)
    w, x, y, z = np.moveaxis(quaternion / np.sqrt((quaternion * quaternion).sum(-1, keepdims=True)), -1, 0)
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y + w * z), 2 * (x * z - w * y)],
        [2 * (x * y - w * z), w * w - x * x + y * y - z * z, 2 * (y * z + w * x)],
        [2 * (x * z + w * y), 2 * (y * z - w * x), w * w - x * x - y * y + z * z],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def plux(E, r):
    """Motion transform ``[[E, 0], [-E r×, E]]`` to a frame at `r`, axes by `E`. RBDA section 2.8."""
    E, r = np.asarray(E), np.asarray(r)
    X = np.zeros((*E.shape[:-2], 6, 6), E.dtype)
    X[..., :3, :3] = X[..., 3:, 3:] = E
    X[..., 3:, :3] = -E @ skew(r)
    return X


def unplux(X):
    """`(E, r)` of a motion transform, or of its first three columns."""
    E = X[..., :3, :3]
    rx = -np.swapaxes(E, -1, -2) @ X[..., 3:, :3]
    twice = [rx[..., 2, 1] - rx[..., 1, 2], rx[..., 0, 2] - rx[..., 2, 0], rx[..., 1, 0] - rx[..., 0, 1]]
    return E, np.stack(twice, -1) / 2


def inertia_matrix(mass, com, rotational):
    """6x6 spatial inertia from mass, centre of mass and rotational inertia about it, in body axes. RBDA 2.63."""
    mass, cx = np.asarray(mass)[..., None, None], skew(com)
    out = np.zeros((*cx.shape[:-2], 6, 6), cx.dtype)
    out[..., :3, :3] = rotational - mass * (cx @ cx)
    out[..., :3, 3:] = mass * cx
    out[..., 3:, :3] = -mass * cx
    out[..., 3:, 3:] = mass * np.eye(3, dtype=cx.dtype)
    return out


def cross_motion(v, m):
    """``v × m`` of motion vectors. RBDA 2.31."""
    w = v[..., :3]
    return np.concatenate([np.cross(w, m[..., :3]), np.cross(w, m[..., 3:]) + np.cross(v[..., 3:], m[..., :3])], -1)


def cross_force(v, f):
    """``v ×* f`` of a motion and a force vector. RBDA 2.32."""
    w = v[..., :3]
    return np.concatenate([np.cross(w, f[..., :3]) + np.cross(v[..., 3:], f[..., 3:]), np.cross(w, f[..., 3:])], -1)


def force_to_body(E, position, f):
    """World force vectors (moment about the world origin) in the coordinates of bodies with pose `E, position`."""
    n, f = f[..., :3], f[..., 3:]
    return np.concatenate([_apply(E, n - np.cross(position, f)), _apply(E, f)], -1)


def force_to_world(E, position, f):
    """Inverse of `force_to_body`."""
    Et = np.swapaxes(E, -1, -2)
    n, f = _apply(Et, f[..., :3]), _apply(Et, f[..., 3:])
    return np.concatenate([n + np.cross(position, f), f], -1)


def _apply(A, x):
    """Stack of matrices on a stack of vectors."""
    return (A @ x[..., None])[..., 0]


def solve_spd(A, B):
    """Solve ``A x = B`` for a symmetric positive definite A by LDLT, in any dtype (numpy.linalg has no longdouble)."""
    n = len(A)
    A, x = np.array(A), np.array(B)
    for j in range(n):  # forward elimination; column j of L is left below the diagonal
        A[j + 1 :, j] /= A[j, j]
        A[j + 1 :, j + 1 :] -= np.multiply.outer(A[j + 1 :, j], A[j + 1 :, j] * A[j, j])
        x[j + 1 :] -= np.multiply.outer(A[j + 1 :, j], x[j])
    for j in reversed(range(n)):
        x[j] = x[j] / A[j, j] - A[j + 1 :, j] @ x[j + 1 :]
    return x


# ------------------------------------------------------------------------------------------------ joints

# kind: (entries of q, degrees of freedom), for the joints that are not one screw
_MANY_DOF = {"fixed": (0, 0), "spherical": (4, 3), "translation": (3, 3), "planar": (3, 3), "free": (7, 6)}
_AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}


def _sizes(kind):
    """(nq, nv) of a joint."""
    return _MANY_DOF.get(kind, (1, 1)) if isinstance(kind, str) else (1, 1)


def _screw(kind):
    """``(axis, turn, slide)`` of a 1-DoF joint that turns by ``turn q`` about its axis and slides ``slide q`` along."""
    if isinstance(kind, str) and len(kind) == 2 and kind[0] in "RP" and kind[1] in _AXES:
        return (_AXES[kind[1]], 1, 0) if kind[0] == "R" else (_AXES[kind[1]], 0, 1)
    match kind:
        case ("revolute", axis):
            return axis, 1, 0
        case ("prismatic", axis):
            return axis, 0, 1
        case ("helical", axis, pitch):
            return axis, 1, pitch
    raise ValueError(f"unknown joint {kind!r}")


def _screw_joint(axis, turn, slide, q):
    """XJ (..., 6, 6) and S (..., 6, 1) of 1-DoF joints. RBDA Table 4.1."""
    axis = axis / np.sqrt((axis * axis).sum(-1, keepdims=True))
    XJ = plux(rotation_about(axis, turn * q), axis * (slide * q)[..., None])
    S = np.concatenate([axis * turn[..., None], axis * slide[..., None]], -1)[..., None]
    return XJ, S


def _many_dof_joint(kind, q):
    """XJ and S of the joints that are not one screw, q (..., nq). RBDA Table 4.1 and section 4.5."""
    batch, eye = q.shape[:-1], np.eye(6, dtype=q.dtype)
    still = np.zeros((*batch, 3), q.dtype)
    level = np.broadcast_to(eye[:3, :3], (*batch, 3, 3))
    if kind == "fixed":
        return np.broadcast_to(eye, (*batch, 6, 6)), np.zeros((*batch, 6, 0), q.dtype)
    if kind == "spherical":  # velocity: angular, in body coordinates
        return plux(rotation_of_quaternion(q), still), np.broadcast_to(eye[:, :3], (*batch, 6, 3))
    if kind == "translation":
        return plux(level, q), np.broadcast_to(eye[:, 3:], (*batch, 6, 3))
    if kind == "free":  # velocity: spatial, in body coordinates
        return plux(rotation_of_quaternion(q[..., 3:]), q[..., :3]), np.broadcast_to(eye, (*batch, 6, 6))
    if kind == "planar":  # slides along x and y of the parent's side of the joint, then turns about z
        E = rotz(q[..., 2])
        S = np.zeros((*batch, 6, 3), q.dtype)
        S[..., 3:, :2] = E[..., :, :2]
        S[..., 2, 2] = 1
        return plux(E, np.concatenate([q[..., :2], still[..., :1]], -1)), S
    raise ValueError(f"unknown joint {kind!r}")


def joint(kind, q):
    """``XJ (6, 6)``, ``S (6, k)`` of one joint at `q` (its entries of q), in the dtype of q."""
    q = np.atleast_1d(np.asarray(q))
    if isinstance(kind, str) and kind in _MANY_DOF:
        return _many_dof_joint(kind, q)
    axis, turn, slide = (np.asarray(part, q.dtype) for part in _screw(kind))
    return _screw_joint(axis, turn, slide, q[0])


# ------------------------------------------------------------------------------------------------ descriptions


@dataclass(frozen=True, eq=False)
class Description:
    """A kinematic tree: parent (n,), joints (n,), x_tree (n, 6, 6), inertia (n, 6, 6), gravity (3,)."""

    parent: np.ndarray
    joints: tuple
    x_tree: np.ndarray
    inertia: np.ndarray
    gravity: np.ndarray

    def __post_init__(self):
        dtype = np.result_type(self.x_tree, self.inertia)
        object.__setattr__(self, "parent", np.asarray(self.parent, np.int64))
        object.__setattr__(self, "joints", tuple(self.joints))
        for name in ("x_tree", "inertia", "gravity"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype))
        n = len(self.parent)
        if not (len(self.joints) == n and self.x_tree.shape == self.inertia.shape == (n, 6, 6)):
            raise ValueError("parent, joints, x_tree and inertia differ in length")
        if not np.all((self.parent >= -1) & (self.parent < np.arange(n))):
            raise ValueError("a parent must come before its children")

    @property
    def n_bodies(self):
        return len(self.parent)

    @property
    def dtype(self):
        return self.x_tree.dtype

    def astype(self, dtype):
        """The same tree with its numbers rounded to, or held in, another dtype."""
        return Description(
            self.parent, self.joints, self.x_tree.astype(dtype), self.inertia.astype(dtype), self.gravity.astype(dtype)
        )

    def with_gravity(self, gravity):
        """The same tree under another gravity."""
        return Description(self.parent, self.joints, self.x_tree, self.inertia, gravity)

    @cached_property
    def _layout(self):
        sizes = lru_cache(None)(_sizes)
        table = np.array([sizes(kind) for kind in self.joints], np.int64).reshape(-1, 2)
        return np.concatenate([[[0, 0]], np.cumsum(table, 0)])

    @property
    def nq(self):
        return int(self._layout[-1, 0])

    @property
    def nv(self):
        return int(self._layout[-1, 1])

    @property
    def q_start(self):
        """First entry of each joint in q, and nq: (n + 1,)."""
        return self._layout[:, 0]

    @property
    def v_start(self):
        """First entry of each joint in qd, qdd, tau, and nv: (n + 1,)."""
        return self._layout[:, 1]

    def q_slice(self, body):
        return slice(*map(int, self.q_start[body : body + 2]))

    def v_slice(self, body):
        return slice(*map(int, self.v_start[body : body + 2]))

    @cached_property
    def _dof_mask(self):
        """Which entries of a table (n, most DoF) of joint velocities exist; read by rows they make up qd."""
        dof = np.diff(self.v_start)
        return np.arange(dof.max(initial=0)) < dof[:, None]

    @cached_property
    def _groups(self):
        """Bodies of each many-DoF kind, then the bodies and screws of the 1-DoF joints."""
        kinds = np.array([k if isinstance(k, str) and k in _MANY_DOF else "" for k in self.joints], dtype="U12")
        screw_bodies = np.flatnonzero(kinds == "")
        screw = lru_cache(None)(_screw)
        screws = [screw(self.joints[i]) for i in screw_bodies]
        axis, turn, slide = zip(*screws, strict=True) if screws else ((), (), ())
        parameters = (
            np.array(axis, self.dtype).reshape(-1, 3),
            np.array(turn, self.dtype),
            np.array(slide, self.dtype),
        )
        many = {kind: bodies for kind in _MANY_DOF if len(bodies := np.flatnonzero(kinds == kind))}
        return many, screw_bodies, parameters

    def _table(self, values):
        """Joint velocities (nv,) as a table (n, most DoF), zero where a joint has fewer."""
        values = np.asarray(values, self.dtype)
        if values.shape != (self.nv,):
            raise ValueError(f"expected {self.nv} values, not shape {values.shape}")
        out = np.zeros(self._dof_mask.shape, self.dtype)
        out[self._dof_mask] = values
        return out

    def _joint_matrices(self, q):
        """XJ (n, 6, 6) and S (n, 6, most DoF), columns past a joint's own zero."""
        q = np.asarray(q, self.dtype)
        if q.shape != (self.nq,):
            raise ValueError(f"expected {self.nq} values of q, not shape {q.shape}")
        XJ = np.zeros((self.n_bodies, 6, 6), self.dtype)
        S = np.zeros((self.n_bodies, 6, self._dof_mask.shape[1]), self.dtype)
        many, screw_bodies, (axis, turn, slide) = self._groups
        if len(screw_bodies):
            XJ[screw_bodies], S[screw_bodies, :, :1] = _screw_joint(axis, turn, slide, q[self.q_start[screw_bodies]])
        for kind, bodies in many.items():
            nq, nv = _MANY_DOF[kind]
            XJ[bodies], S[bodies, :, :nv] = _many_dof_joint(kind, q[self.q_start[bodies][:, None] + np.arange(nq)])
        return XJ, S

    def _joint_bias(self, S, qd_table):
        """Velocity terms cJ (n, 6) of joints whose S moves in body coordinates, RBDA section 3.5: planar."""
        cJ = np.zeros((self.n_bodies, 6), self.dtype)
        bodies = self._groups[0].get("planar")
        if bodies is None:
            return cJ
        # the two slides stay fixed in the parent, so that in the body they turn back about z: dS/dt = -(w z) × S
        slide = _apply(S[bodies, 3:, :2], qd_table[bodies, :2])
        turn = qd_table[bodies, 2]
        cJ[bodies, 3], cJ[bodies, 4] = turn * slide[:, 1], -turn * slide[:, 0]
        return cJ


def q_derivative(desc, q, qd):
    """dq/dt (nq,) at joint velocity qd. RBDA section 4.5."""
    q, qd = np.asarray(q, desc.dtype), np.asarray(qd, desc.dtype)
    many, screw_bodies, _ = desc._groups
    out = np.zeros(desc.nq, desc.dtype)
    out[desc.q_start[screw_bodies]] = qd[desc.v_start[screw_bodies]]
    for kind, bodies in many.items():
        nq, nv = _MANY_DOF[kind]
        into = desc.q_start[bodies][:, None] + np.arange(nq)
        qj, vj = q[into], qd[desc.v_start[bodies][:, None] + np.arange(nv)]
        if kind in ("translation", "planar"):
            out[into] = vj
        elif kind == "spherical":
            out[into] = _quaternion_rate(qj, vj)
        elif kind == "free":
            parent_from_body = np.swapaxes(rotation_of_quaternion(qj[:, 3:]), -1, -2)
            out[into[:, :3]] = _apply(parent_from_body, vj[:, 3:])
            out[into[:, 3:]] = _quaternion_rate(qj[:, 3:], vj[:, :3])
    return out


def _quaternion_rate(quaternion, w):
    """``quaternion * (0, w) / 2``: w in body coordinates. RBDA section 4.5."""
    s, u = quaternion[..., :1], quaternion[..., 1:]
    return np.concatenate([-(u * w).sum(-1, keepdims=True), s * w + np.cross(u, w)], -1) / 2


def integrate_first_order(desc, q, qd, dt):
    """``q + dt dq/dt``: a curve through q with the right tangent; its quaternions are not unit, which is allowed."""
    return np.asarray(q, desc.dtype) + dt * q_derivative(desc, q, qd)


# ------------------------------------------------------------------------------------------------ passes over the tree


def _outward(parent, X, own, base):
    """``s[i] = X[i] s[parent[i]] + own[i]``, `base` at the base."""
    states = [base]
    for p, Xi, oi in zip(parent.tolist(), X, own, strict=True):
        states.append(Xi @ states[p + 1] + oi)
    return np.array(states[1:], X.dtype).reshape(own.shape)


def _inward(parent, X, own):
    """``s[i] = own[i] + sum over children j of X[j]^T s[j]``."""
    out = own.copy()
    rows, Xt = list(out), np.swapaxes(X, -1, -2)
    parents = parent.tolist()
    for i in reversed(range(len(parents))):
        if parents[i] >= 0:
            rows[parents[i]] += Xt[i] @ rows[i]
    return out


@dataclass(frozen=True)
class Kinematics:
    """What the dynamics need of a state: X (n, 6, 6) from parent to body, S (n, 6, k), v and c (n, 6)."""

    X: np.ndarray
    S: np.ndarray
    v: np.ndarray
    c: np.ndarray


def kinematics(desc, q, qd=None):
    """Transforms, joint axes, velocities v and velocity-product accelerations c, all in body coordinates."""
    XJ, S = desc._joint_matrices(q)
    X = XJ @ desc.x_tree
    still = np.zeros((desc.n_bodies, 6), desc.dtype)
    if qd is None:
        return Kinematics(X, S, still, still)
    qd = desc._table(qd)
    vJ = _apply(S, qd)
    v = _outward(desc.parent, X, vJ, np.zeros(6, desc.dtype))  # RBDA 7.34
    c = desc._joint_bias(S, qd) + cross_motion(v, vJ)  # RBDA 7.35
    return Kinematics(X, S, v, c)


def _base_acceleration(desc):
    return np.concatenate([np.zeros(3, desc.dtype), -desc.gravity])


def accelerations(desc, k, qdd):
    """Spatial accelerations a (n, 6), body coordinates, less gravity, of a tree with `Kinematics` k. RBDA Table 5.1."""
    return _outward(desc.parent, k.X, _apply(k.S, desc._table(qdd)) + k.c, _base_acceleration(desc))


def _from_world(desc, X):
    """First three columns (n, 6, 3) of the transforms from world to body; they hold all there is to know of them."""
    return _outward(desc.parent, X, np.zeros((desc.n_bodies, 6, 3), desc.dtype), np.eye(6, 3, dtype=desc.dtype))


def _poses(desc, X):
    """World-to-body E (n, 3, 3) and world position (n, 3) of every body."""
    return unplux(_from_world(desc, X))


def _external(desc, X, f_ext):
    """f_ext in body coordinates, zeros if there is none."""
    if f_ext is None:
        return np.zeros((desc.n_bodies, 6), desc.dtype)
    columns, f_ext = _from_world(desc, X), np.asarray(f_ext, desc.dtype)
    E, shift = columns[:, :3], columns[:, 3:]
    n, f = f_ext[:, :3], f_ext[:, 3:]
    return np.concatenate([_apply(E, n) + _apply(shift, f), _apply(E, f)], -1)  # X* f, RBDA section 2.8


# ------------------------------------------------------------------------------------------------ dynamics


def rnea(desc, q, qd, qdd, f_ext=None):
    """Inverse dynamics, tau (nv,). RBDA Table 5.1. f_ext (n, 6) acts on the bodies: world coordinates and origin."""
    k = kinematics(desc, q, qd)
    a = accelerations(desc, k, qdd)
    own = _apply(desc.inertia, a) + cross_force(k.v, _apply(desc.inertia, k.v)) - _external(desc, k.X, f_ext)  # 5.9
    f = _inward(desc.parent, k.X, own)  # 5.10
    return _apply(np.swapaxes(k.S, -1, -2), f)[desc._dof_mask]  # 5.11


def crba(desc, q):
    """Joint-space inertia matrix H (nv, nv). RBDA Table 6.2."""
    k = kinematics(desc, q)
    composite = desc.inertia.copy()
    parent, start = desc.parent.tolist(), desc.v_start.tolist()
    S = [k.S[i, :, : start[i + 1] - start[i]] for i in range(desc.n_bodies)]
    H = np.zeros((desc.nv, desc.nv), desc.dtype)
    for i in reversed(range(desc.n_bodies)):
        if parent[i] >= 0:
            composite[parent[i]] += k.X[i].T @ composite[i] @ k.X[i]
        if not S[i].shape[1]:
            continue
        mine, F, j = slice(start[i], start[i + 1]), composite[i] @ S[i], i
        H[mine, mine] = S[i].T @ F
        while parent[j] >= 0:
            F, j = k.X[j].T @ F, parent[j]
            theirs = slice(start[j], start[j + 1])
            H[mine, theirs] = F.T @ S[j]
            H[theirs, mine] = H[mine, theirs].T
    return H


def aba(desc, q, qd, tau, f_ext=None):
    """Forward dynamics, qdd (nv,), by the articulated-body algorithm body by body. RBDA Table 7.1."""
    k = kinematics(desc, q, qd)
    pA = cross_force(k.v, _apply(desc.inertia, k.v)) - _external(desc, k.X, f_ext)
    tau = np.asarray(tau, desc.dtype)
    parent, start = desc.parent.tolist(), desc.v_start.tolist()
    n, X, c = desc.n_bodies, list(k.X), list(k.c)
    IA, pA = list(desc.inertia.copy()), list(pA)
    S = [k.S[i, :, : start[i + 1] - start[i]] for i in range(n)]
    solved = [None] * n  # D^-1 U^T and D^-1 u of every joint
    for i in reversed(range(n)):
        Si = S[i]
        U = IA[i] @ Si  # RBDA 7.43
        D = Si.T @ U  # 7.44
        u = tau[start[i] : start[i + 1]] - pA[i] @ Si  # 7.45
        if Si.shape[1] == 1:
            UD, uD = U.T / D[0, 0], u / D[0, 0]
        else:
            UD, uD = solve_spd(D, U.T), solve_spd(D, u)
        solved[i] = UD, uD
        if parent[i] >= 0:
            Ia = IA[i] - U @ UD  # 7.47
            pa = pA[i] + Ia @ c[i] + U @ uD  # 7.48
            IA[parent[i]] += X[i].T @ Ia @ X[i]
            pA[parent[i]] += X[i].T @ pa
    qdd = np.zeros(desc.nv, desc.dtype)
    a = [_base_acceleration(desc)]
    for i in range(n):
        UD, uD = solved[i]
        moved = X[i] @ a[parent[i] + 1] + c[i]
        own = uD - UD @ moved
        qdd[start[i] : start[i + 1]] = own
        a.append(moved + S[i] @ own)
    return qdd


# ------------------------------------------------------------------------------------------------ whole-tree quantities


def poses(desc, q):
    """World-to-body coordinate transform E (n, 3, 3) and world position (n, 3) of every body frame."""
    return _poses(desc, kinematics(desc, q).X)


def _first_moment(inertia):
    """Mass (n,) and mass times centre of mass (n, 3) in body coordinates, read from 6x6 inertias."""
    return inertia[:, 5, 5], np.stack([inertia[:, 2, 4], inertia[:, 0, 5], inertia[:, 1, 3]], -1)


def center_of_mass(desc, q):
    """Centre of mass of the tree in world coordinates (3,)."""
    E, position = poses(desc, q)
    mass, moment = _first_moment(desc.inertia)
    return (mass[:, None] * position + _apply(np.swapaxes(E, -1, -2), moment)).sum(0) / mass.sum()


def energy(desc, q, qd):
    """Kinetic and potential energy; the potential is zero for a centre of mass at the world origin. RBDA 2.67."""
    v = kinematics(desc, q, qd).v
    kinetic = (v * _apply(desc.inertia, v)).sum() / 2
    return kinetic, -desc.inertia[:, 5, 5].sum() * (desc.gravity @ center_of_mass(desc, q))


def momentum(desc, q, qd):
    """Spatial momentum of the tree (6,), world coordinates, about the world origin."""
    k = kinematics(desc, q, qd)
    return force_to_world(*_poses(desc, k.X), _apply(desc.inertia, k.v)).sum(0)
