"""4096 rollouts at once: an arm is let go from 4096 states, and one number to choose by comes back."""

import time
from pathlib import Path

import numpy as np

import kinetree as kt

arm = kt.load(Path(__file__).parent / "robots" / "arm7.urdf").replace(armature=0.05, damping=0.5)
target = np.array([0.3, 0.6, -0.2, 0.9, 0.1, -0.5, 0.2])
q, qd = kt.random_state(arm, 0, batch=(4096,), within_limits=True)

hold = kt.controllers.total(
    kt.controllers.pd(arm, target, kp=60.0, kd=15.0),
    kt.controllers.gravity_compensation(arm),
)
began = time.perf_counter()
run = kt.simulate(arm, q, 0.1 * qd, hold, dt=5e-3, steps=200, record=50)
took = time.perf_counter() - began

miss = np.abs(run.q[-1] - target).max(-1)
print(f"{4096 * 200:,} steps in {took:.2f} s, compilation included")
print(
    f"one second later the median state misses its target by {np.median(miss):.3f} rad, the worst by {miss.max():.3f}"
)
assert np.median(miss) < 0.5
