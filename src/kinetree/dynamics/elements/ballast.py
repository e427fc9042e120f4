"""Ballast: what an articulated element borrows where its own rows can not resist every motion."""

import jax.numpy as jnp

from kinetree.spatial import ArticulatedInertia, Sym3, Vec3

from .articulated import Articulated, Scale


def ballast_of(last: ArticulatedInertia, mean: ArticulatedInertia) -> Articulated:
    """An inertia to stand on, for a lane whose outermost row has none that resists every motion.

    From the inertia of that row, and the mean of all rows of the lane. Where the row's own inertia is positive
    definite, a joint of the lane that nothing resists is one that nothing resists in the whole tree. Where it is not
    (inner rows of a joint, thin rods), the rows outside the cut have to help: they lend the mean inertia of the lane,
    made the same in all directions.
    """
    mass = last.C.xx
    firm = mass > 0
    scale = (last.A.xx + last.A.yy + last.A.zz) / 3
    I = last.A - (last.B @ last.B.T * (1 / jnp.where(firm, mass, jnp.ones_like(mass)))).symmetric_part_twice() * 0.5
    det = Vec3(I.xx, I.xy, I.xz).dot(Vec3(I.xy, I.yy, I.yz).cross(Vec3(I.xz, I.yz, I.zz)))
    firm = firm & (det > 1e-6 * scale * scale * scale)
    turning = (mean.A.xx + mean.A.yy + mean.A.zz) / 3
    none = jnp.zeros_like(mass)
    lent = Articulated.zero_like(mass)
    inertia = lent.inertia._replace(
        A=Sym3.diagonal(jnp.where(firm, none, turning)), C=Sym3.diagonal(jnp.where(firm, none, mean.C.xx))
    )
    return lent._replace(inertia=inertia, scale=Scale.of(inertia))
