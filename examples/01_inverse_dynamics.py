"""Inverse dynamics of a URDF arm over a trajectory: what the motors must do to follow a sine in every joint."""

from pathlib import Path

import numpy as np

import kinetree as kt

arm = kt.load(Path(__file__).parent / "robots" / "arm7.urdf")
t = np.linspace(0, 4, 401)[:, None]
phase = np.arange(arm.nv) * np.pi / 7
q, qd, qdd = 0.5 * np.sin(t + phase), 0.5 * np.cos(t + phase), -0.5 * np.sin(t + phase)

tau = kt.inverse_dynamics(arm, q, qd, qdd)  # 401 states in one call
power = (tau * qd).sum(-1)
energy = kt.kinetic_energy(arm, q, qd) + kt.potential_energy(arm, q)

print(f"{arm}, {len(t)} states")
for name, peak, limit in zip(arm.joint_names[1:], np.abs(tau).max(0), arm.limits.effort, strict=True):
    print(f"  {name:15s} peak {peak:7.2f} N m of {limit:5.0f}")
work = np.trapezoid(power, t[:, 0])
print(f"work of the motors {work:.4f} J, change of energy {energy[-1] - energy[0]:.4f} J")
assert abs(work - (energy[-1] - energy[0])) < 1e-3
