"""The hybrid articulated-body inertia algorithm of Yang, Wu and Pan 2017 (§II-B).

The paper says that one step can not be parallel: the recursion for articulated inertias. So it is walked row by row.
All other recursions are linear, and are solved by scans.

    sequentially   IA = I + Σ Xᵀ (IA − U Uᵀ/d) X over the children
    scan inward    pA = p + Σ Xᵀ (pA + (IA − U Uᵀ/d) c + U u/d) over the children: affine in pA     (eq. 5, right)
    scan outward   a  = (1 − S Uᵀ/d) (X a_parent + c) + S u/d                                       (eq. 5, left)

The equations are those of the articulated-body algorithm (algorithms/aba.py).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Inward, Row, Share, zeros
from kinetree.model import Model
from kinetree.spatial import ArticulatedInertia, Force, Motion

from ..algorithms.aba import ABA, bodies
from ..algorithms.poses import named
from ..elements.affine import forces_stretch
from ..elements.articulated import Articulated, Pivot, Scale, base_acceleration, own_bias
from ..schedules.choose import Choice
from ..schedules.lanes import lane_program_of
from ..schedules.run import take

WHOLE = (zeros(ArticulatedInertia), zeros(Scale))
ENTRIES = named(WHOLE, "whole")
VELOCITIES, BODIES, ACCELERATIONS = ABA.passes


def _inertias(row: Row, whole: tuple[ArticulatedInertia, Scale]) -> tuple[Any, dict]:
    """Inward: articulated inertias under no forces."""
    still = Articulated(whole[0], Force.zero_like(whole[1].sliding), whole[1])
    passed, _ = bodies(Row({**row, "tau": 0 * row.armature}), still)
    return (passed.inertia, passed.scale), dict(zip(ENTRIES, jax.tree.leaves(whole), strict=True))


INERTIAS = Algorithm(
    name="abia_inertias",
    inputs=("q",),
    passes=(
        Inward(
            "whole",
            _inertias,
            link=BODIES.link,
            needs=("at",),
            outputs=ENTRIES,
            own=Share(lambda row: (row.inertia.articulated(), Scale.zero_like(row.inertia.mass)), link=("inertia",)),
        ),
    ),
    fields={"whole": WHOLE},
    outputs=dict.fromkeys(ENTRIES, float),
)


def articulated_inertias(model: Model, q: Any) -> tuple[ArticulatedInertia, Scale]:
    """Articulated inertias of all rows, row by row, and their scales: (batch, nv) each.

    NumPy arrays give NumPy arrays, without XLA.
    """
    return jax.tree.unflatten(jax.tree.structure(WHOLE), lane_program_of(INERTIAS, model)(model, q))


def _biases(row: Row, p: Force) -> tuple[Force, dict]:
    """Inward: bias forces, with known articulated inertias."""
    inertia, scale = jax.tree.unflatten(jax.tree.structure(WHOLE), [row[name] for name in ENTRIES])
    passed, found = bodies(row, Articulated(inertia, p, scale))
    return passed.bias, found


BIASES = Algorithm(
    name="abia",
    inputs=(*ABA.inputs, *ENTRIES),
    passes=(
        VELOCITIES,
        Inward(
            "bias",
            _biases,
            given=(*BODIES.given, *ENTRIES),
            link=BODIES.link,
            needs=("at", "v"),
            leaves=("joint",),
            stretch=forces_stretch(_biases),
            own=Share(lambda row: own_bias(row.inertia, row.v), link=("inertia",), needs=("v",)),
        ),
        ACCELERATIONS,
    ),
    fields={"v": Motion, "bias": Force, "joint": Pivot, "a": Motion},
    outputs=ABA.outputs,
    begins={"a": base_acceleration},
    applied=("bias",),
)
SCANS = Choice("paths", "layout", "xla", "", "linear recursions are scanned")


def forward_dynamics_abia(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv)."""
    known = dict(zip(ENTRIES, map(jnp.asarray, jax.tree.leaves(articulated_inertias(model, q))), strict=True))
    return take(BIASES, SCANS, model, {"q": q, "qd": qd, "tau": tau, **known}, f_ext)["qdd"]
