"""Steps, constraints and actuators on every kind of arrays, one after the other, in both modes of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt

HOPPER = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 0.4">
  <joint name="z" type="slide" axis="0 0 1"/><geom size="0.1"/><body><joint name="h" axis="0 1 0"/>
  <geom type="capsule" size="0.05" fromto="0 0 0 0.1 0 -0.35"/></body></body></worldbody>
  <actuator><motor joint="h"/><position joint="z" kp="3" timeconst="0.1"/></actuator></mujoco>"""

CALLS = {
    "advance": lambda m, x: kt.advance(m, kt.initial_state(m, x, x), x),
    "rollout": lambda m, x: kt.rollout(m, kt.initial_state(m, x, x), steps=2, record="q"),
    "constrained_dynamics": lambda m, x: kt.constrained_dynamics(m, x, x, x)[:2],
    "actuator_force": lambda m, x: kt.actuator_force(m, x, x, x),
    "scaled": lambda m, x: kt.advance(kt.scaled(m, mass=2.0), kt.initial_state(m, x, x)),
}


@pytest.mark.cpu
@pytest.mark.parametrize("wide", [False, True])
def test_every_kind_of_arrays_in_either_order(wide):
    """NumPy in gives NumPy out, JAX gives JAX, each in the type it came in; what one call keeps serves the next."""
    model = kt.load(HOPPER)
    x = np.random.default_rng(0).uniform(-0.2, 0.2, (2, 2))
    kinds = {
        "NumPy float64": x,
        "NumPy float32": x.astype(np.float32),
        "JAX float64": jnp.asarray(x),
        "JAX float32": jnp.asarray(x, jnp.float32),
    }
    wanted = {name: jax.tree.leaves(call(model, x)) for name, call in CALLS.items()}
    with jax.enable_x64(wide):
        for order in (kinds, dict(reversed(kinds.items()))):
            for kind, given in order.items():
                for name, call in CALLS.items():
                    found = jax.tree.leaves(call(model, given))
                    assert {str(a.dtype) for a in found} == {kind.split()[1]}, (name, kind)
                    assert {isinstance(a, np.ndarray) for a in found} == {kind.startswith("NumPy")}, (name, kind)
                    close = 1e-10 if "64" in kind else 1e-3
                    for a, b in zip(found, wanted[name], strict=True):
                        np.testing.assert_allclose(np.asarray(a, float), b, rtol=close, atol=close)
