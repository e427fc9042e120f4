"""A hanging chain of 100 000 links: the forces that hold it, and what happens when they are gone."""

import time

import numpy as np

import kinetree as kt

n = 100_000
chain = kt.auto_tree(n, skew=np.pi / 2)  # hinges about x, then y, then x, ...: a chain of metre-long links
rng = np.random.default_rng(0)
q, qd = 1e-3 * rng.standard_normal(n), np.zeros(n)

for name, call in {
    "forces that hold it (inverse dynamics)": lambda: kt.bias_force(chain, q, qd),
    "accelerations when let go (forward dynamics)": lambda: kt.forward_dynamics(chain, q, qd, np.zeros(n)),
}.items():
    call()  # compiles
    began = time.perf_counter()
    result = call()
    print(f"{name}: {1e3 * (time.perf_counter() - began):.0f} ms for {n:,} links, largest {np.abs(result).max():.3g}")

qdd = kt.forward_dynamics(chain, q, qd, kt.bias_force(chain, q, qd))
held, loose = np.abs(qdd).max(), np.abs(result).max()
print(f"held by those forces it accelerates by {held:.1e}, {held / loose:.1e} of what it does when let go")
assert held < 1e-4 * loose
