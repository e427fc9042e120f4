"""Numbers computed with Featherstone's spatial_v2, kept in tests/data/spatial_v2 (its README says what each one is)."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from .dense import Description

__all__ = ["FloatingBaseCase", "HybridCase", "TreeCase", "cases", "load"]

DATA = Path(__file__).resolve().parent.parent / "data" / "spatial_v2"
_JOINTS = ("Rx", "Ry", "Rz", "Px", "Py", "Pz")


@dataclass(frozen=True)
class _Case:
    """A tree under a name. joints: names as kinetree spells them; helical is ("helical", axis, pitch)."""

    name: str
    parent: np.ndarray
    joints: tuple
    x_tree: np.ndarray
    inertia: np.ndarray
    gravity: np.ndarray

    def description(self, dtype=np.float64):
        """The tree for the oracle."""
        return Description(
            self.parent, self.joints, self.x_tree.astype(dtype), self.inertia.astype(dtype), self.gravity.astype(dtype)
        )


@dataclass(frozen=True)
class TreeCase(_Case):
    """autotree_* and mixed_*: K states of a fixed-base tree of 1-DoF joints; arrays (K, ...) named as in the files."""

    bf: float
    skew: float
    taper: float
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    ID: np.ndarray
    ID_fext: np.ndarray
    H: np.ndarray
    C: np.ndarray
    C_fext: np.ndarray
    FDab: np.ndarray
    FDcrb: np.ndarray
    FDab_fext: np.ndarray
    FDcrb_fext: np.ndarray
    FDab_rt: np.ndarray
    qdd_ld: np.ndarray
    qdd_ld_fext: np.ndarray
    condH: np.ndarray
    KE: np.ndarray
    PE: np.ndarray
    mass: np.ndarray
    cm: np.ndarray
    vcm: np.ndarray
    htot: np.ndarray
    Itot: np.ndarray

    @property
    def n_states(self):
        return len(self.q)


@dataclass(frozen=True)
class FloatingBaseCase(_Case):
    """floatbase_*: body 0 on a free joint, the others on Rz; `q_free`, `qd_free` are the states in kinetree's order.

    Free part of `qd_free` and of accelerations: spatial, body coordinates. `to_free(k, a)` turns the 6 numbers of state
    k that spatial_v2 gives in base coordinates into these. `chain` is the same tree on six 1-DoF joints, with the base
    state `q6`, `qd6`.
    """

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    xfb: np.ndarray
    q6: np.ndarray
    qd6: np.ndarray
    FDfb_xd: np.ndarray
    FDfb_qdd: np.ndarray
    FDfb_xd_fext: np.ndarray
    FDfb_qdd_fext: np.ndarray
    IDfb_xd: np.ndarray
    IDfb_tau: np.ndarray
    FDab_chain: np.ndarray
    chain: _Case

    @property
    def n_states(self):
        return len(self.q)

    def to_free(self, k, motion):
        """A spatial motion vector in base coordinates as seen in the coordinates of the floating body of state k."""
        w, x, y, z = self.xfb[k, :4] / np.linalg.norm(self.xfb[k, :4])
        to_base = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        angular, linear = motion[:3], motion[3:]
        at_body = linear + np.cross(angular, self.xfb[k, 4:7])
        return np.concatenate([angular @ to_base, at_body @ to_base])

    @property
    def q_free(self):
        return np.concatenate([self.xfb[:, 4:7], self.xfb[:, :4], self.q], axis=1)

    @property
    def qd_free(self):
        base = np.stack([self.to_free(k, self.xfb[k, 7:]) for k in range(self.n_states)])
        return np.concatenate([base, self.qd], axis=1)


@dataclass(frozen=True)
class HybridCase(_Case):
    """hybrid_*: one state; fd[i] = 1 where tau is given and 0 where qdd is; factors L^T D L and L^T L of H."""

    fd: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    qdd_out: np.ndarray
    tau_out: np.ndarray
    H: np.ndarray
    LTDL_L: np.ndarray
    LTDL_D: np.ndarray
    LTL_L: np.ndarray


def cases(*families):
    """Names of the stored cases, sorted; only of the families named ("autotree", "mixed", "floatbase", "hybrid")."""
    names = sorted(path.stem for path in DATA.glob("*.npz"))
    return [name for name in names if not families or name.split("_")[0] in families]


def load(name):
    """The case of that name: a `TreeCase`, `FloatingBaseCase` or `HybridCase`."""
    with np.load(DATA / f"{name}.npz") as file:
        data = dict(file)
    data["name"], data["x_tree"], data["inertia"] = name, data.pop("Xtree"), data.pop("I")
    family = name.split("_")[0]
    if family == "floatbase":
        cls = FloatingBaseCase
        n = len(data["parent_fixed"])
        data["joints"] = ("free",) + ("Rz",) * (n - 1)
        data["chain"] = _chain(data)
        data["parent"] = data["parent_fixed"]
    elif family == "hybrid":
        cls = HybridCase
        data["joints"] = ("Rz",) * len(data["parent"])
        data["gravity"] = np.array([0, 0, -9.81])
    else:
        cls = TreeCase
        pairs = zip(data["jtype"].tolist(), data["pitch"].tolist(), strict=True)
        data["joints"] = tuple(_JOINTS[j] if j < 6 else ("helical", (0.0, 0.0, 1.0), h) for j, h in pairs)
        data |= {key: float(data[key]) for key in ("bf", "skew", "taper")}
    return cls(**{field.name: data[field.name] for field in fields(cls)})


def _chain(data):
    """The floating-base tree with its base on Px, Py, Pz, Rx, Ry, Rz joints through five massless bodies."""
    eye, nothing = np.eye(6), np.zeros((6, 6))
    joints = ("Px", "Py", "Pz", "Rx", "Ry", "Rz") + ("Rz",) * (len(data["parent"]) - 6)
    x_tree = np.concatenate([np.stack([eye] * 6), data["x_tree"][1:]])
    inertia = np.concatenate([np.stack([nothing] * 5), data["inertia"]])
    return _Case(data["name"] + "_chain", data["parent"], joints, x_tree, inertia, data["gravity"])
