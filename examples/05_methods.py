"""All methods of forward dynamics on one chain: the same answer, at different prices."""

import time

import numpy as np

import kinetree as kt
from kinetree.dynamics.forward_dynamics import METHODS

chain = kt.auto_tree(100, skew=0.3)
q, qd = kt.random_state(chain, 0)
tau = np.random.default_rng(1).standard_normal(chain.nv)
exact = kt.forward_dynamics(chain, q, qd, tau, method="aba")

print(f"{'method':8s} {'time':>10s} {'difference from aba':>20s}")
for method in METHODS:
    try:
        qdd = kt.forward_dynamics(chain, q, qd, tau, method=method)
    except ValueError as error:
        print(f"{method:8s} can not serve this model: {error}")
        continue
    began = time.perf_counter()
    qdd = kt.forward_dynamics(chain, q, qd, tau, method=method)
    took = time.perf_counter() - began
    away = np.abs(qdd - exact).max() / np.abs(exact).max()
    print(f"{method:8s} {1e3 * took:7.2f} ms {away:20.1e}")
    assert away < 1e-5
