"""Batches over several devices keep their sharding: no number travels between devices."""

from tests.devices import on_devices

CODE = """
import json, re
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
import kinetree as kt
from tests.dynamics.mixed import mixed_model

jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("worlds",))
divided = NamedSharding(mesh, P("worlds"))
arm, mixed = kt.auto_tree(5, 1, 0.3), mixed_model()
found = {}

def look(name, model, function, *arrays):
    plain = [np.asarray(x) for x in arrays]
    arrays = [jax.device_put(x, divided) for x in plain]
    compiled = jax.jit(lambda *a: function(model, *a)).lower(*arrays).compile()
    moved = sorted(set(re.findall(r"all-gather|all-reduce|all-to-all|collective-permute", compiled.as_text())))
    ours, theirs = compiled(*arrays), function(model, *plain)
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)))
    error = max(float(np.abs(np.asarray(a) - b).max() / max(1, np.abs(b).max())) for a, b in pairs)
    parts = min(len({str(s.index) for s in a.addressable_shards}) for a, _ in pairs)
    found[name] = {"moved": moved, "error": error, "parts": parts}

for label, model in (("arm", arm), ("mixed", mixed)):
    q, qd = kt.random_state(model, 0, batch=(64,))
    f = np.random.default_rng(1).uniform(-1, 1, (64, model.n_bodies, 6))
    look(f"{label} inverse", model, kt.inverse_dynamics, q, qd, qd)
    look(f"{label} forward", model, kt.forward_dynamics, q, qd, qd, f)
    if label == "arm":  # every public function: tests/test_devices.py
        look("gradient", model, lambda m, q, qd: jax.grad(lambda q: (kt.momentum(m, q, qd) ** 2).sum())(q), q, qd)
explicit = jax.make_mesh((8,), ("worlds",), axis_types=(AxisType.Explicit,))
with jax.set_mesh(explicit):
    by_world = NamedSharding(explicit, P("worlds", None))
    q, qd = (jax.device_put(x, by_world) for x in kt.random_state(arm, 0, batch=(64,)))
    found["explicit"] = str(jax.typeof(jax.jit(lambda *a: kt.forward_dynamics(arm, *a))(q, qd, qd)))
print(json.dumps(found))
"""


def test_no_number_travels_between_devices():
    found = on_devices(CODE)
    assert "worlds" in found.pop("explicit")
    assert not {name: f for name, f in found.items() if f["moved"] or f["error"] > 1e-10 or f["parts"] != 8}
