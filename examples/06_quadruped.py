"""A quadruped falls and flails: where its energy goes."""

from pathlib import Path

import numpy as np

import kinetree as kt

robot = kt.load(Path(__file__).parent / "robots" / "quadruped.urdf", floating_base=True)
robot = robot.without_constraints  # It falls freely: joint limits would push, and take energy.
q, qd = kt.neutral(robot), np.zeros(robot.nv)
q[2] = 1.0
qd[6:] = np.random.default_rng(0).normal(0, 8, robot.nv - 6)

run = kt.simulate(robot, q, qd, dt=5e-4, steps=2000, integrator="rk4", record=2)
kinetic, potential = kt.kinetic_energy(robot, run.q, run.qd), kt.potential_energy(robot, run.q)
heat = np.trapezoid(-(kt.passive_force(robot, run.q, run.qd) * run.qd).sum(-1), run.time)
balance = (kinetic + potential)[-1] + heat - (kinetic + potential)[0]

print(f"{robot}, {robot.total_mass:.1f} kg, falling for {run.time[-1]:g} s")
print(f"  gravity gave        {potential[0] - potential[-1]:9.4f} J")
print(f"  kinetic energy rose {kinetic[-1] - kinetic[0]:9.4f} J")
print(f"  the joints burnt    {heat:9.4f} J")
print(f"  left over           {balance:9.1e} J")
fallen = kt.center_of_mass(robot, run.q[0])[2] - kt.center_of_mass(robot, run.q[-1])[2]
rising = kt.momentum(robot, run.q[0], run.qd[0])[5] / robot.total_mass  # the legs' push, at the start
print(f"  the centre of mass fell {fallen:.6f} m; g t²/2 less its first push is {9.81 / 2 - rising:.6f} m")
assert abs(balance) < 1e-4
assert abs(fallen - (9.81 / 2 - rising)) < 1e-6
