"""Other libraries on the same trees, with the same states, in the same run: `python -m benchmarks.peers --filter cpu`.

A peer is a module with PACKAGE, the name it is installed under, and `ways(problem, threads)`: the ways in which that
library answers a problem. A library that is not installed is reported as missing.
"""

PEERS = ("pinocchio", "mujoco", "mjx", "adam", "frax", "jaxsim")
