"""Batches over several devices, through every public function: no number travels, and results stay divided.

The text that XLA compiles is read. A function that is new in `kinetree` must be called here, or be named as one that
has no batch.
"""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import kinetree as kt
from tests.devices import on_devices
from tests.public_calls import CALLS

# These make or show things, or run on the host.
WITHOUT_BATCH = {
    *("auto_tree", "chain_pieces", "controllers", "explain", "load", "neutral", "random_state", "scaled"),
    *("set_threads", "shard_tree", "simulate", "specialize", "view", "with_ground", "with_sensors", "with_shapes"),
    *("close_loops", "place_bodies", "with_tendons"),
}
OF_ROBOTS = (
    *("activation_rate", "actuator_force", "advance", "constrained_dynamics", "constrained_inverse_dynamics"),
    *("contact_forces", "contacts", "initial_state", "rollout", "sensors", "tendon_jacobian", "tendon_length"),
)

CODE = """
import json, re, sys, warnings
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import kinetree as kt
from tests.public_calls import CALLS

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
warnings.simplefilter("ignore")
WORLDS = 64
WORDS = "all-gather|all-reduce|all-to-all|collective-permute|collective-broadcast|reduce-scatter"
divided = NamedSharding(Mesh(np.array(jax.devices()), ("worlds",)), P("worlds"))
found = {}

def look(name, function, *given):
    arrays = jax.tree.map(lambda x: jax.device_put(np.asarray(x), divided), given)
    compiled = jax.jit(function).lower(*arrays).compile()
    moved = sorted(set(re.findall(WORDS, compiled.as_text())))
    made = [x for x in jax.tree.leaves(compiled(*arrays)) if x.size and x.shape[:1] == (WORLDS,)]
    found[name] = moved, min(len({str(s.index) for s in x.addressable_shards}) for x in made)

def finish():
    print(json.dumps(found))
    sys.exit()

def total(results):
    return sum((x**2).sum() for x in jax.tree.leaves(results) if x.dtype == float)

if sys.argv[1] in ("mechanisms", "slopes"):
    arm = kt.auto_tree(4, 1, 0.3).replace(damping=0.1, stiffness=0.2)
    q, qd = kt.random_state(arm, 0, batch=(WORLDS,))
    for name, call in CALLS.items():
        plain = lambda q, v, call=call: call(arm, q, v)
        slope = jax.grad(lambda q, v, plain=plain: total(plain(q, v)))
        look(name, slope if sys.argv[1] == "slopes" else plain, q, qd)
    finish()

robot = kt.load('''<mujoco><option timestep="0.005"/><worldbody><geom type="plane" size="0 0 1"/>
  <body pos="0 0 0.3"><joint type="slide" axis="0 0 1"/><joint name="h" range="-1 1" limited="true" frictionloss="0.1"/>
  <geom type="sphere" size="0.1" pos="0.1 0 0"/><site name="s"/></body></worldbody>
  <tendon><fixed><joint joint="h" coef="2"/></fixed></tendon>
  <actuator><position joint="h" kp="3"/><general joint="h" dyntype="filter" dynprm="0.1"/>
  </actuator><sensor><jointpos joint="h"/><gyro site="s"/></sensor></mujoco>''')
q, qd = kt.random_state(robot, 0, batch=(WORLDS,))
state, ctrl = kt.initial_state(robot, q, qd, batch=(WORLDS,)), np.full((WORLDS, robot.nu), 0.1)
if sys.argv[1] == "gradients":
    def slope(after):  # what nothing depends on has zeros, which belong to no device
        return jax.grad(lambda qd, c, s: (after(s.replace(qd=qd), c).q ** 2).sum(), (0, 1))

    look("advance", slope(lambda s, c: kt.advance(robot, s, c, substeps=2)), qd, ctrl, state)
    held = lambda s, c: kt.rollout(robot, s, lambda carry, s, k: (carry, c), steps=3)[0]
    look("rollout", slope(held), qd, ctrl, state)
    finish()

look("activation_rate", lambda c, a: kt.activation_rate(robot, c, a), ctrl, state.act)
look("actuator_force", lambda q, v, c, a: kt.actuator_force(robot, q, v, c, a), q, qd, ctrl, state.act)
look("advance", lambda s, c: kt.advance(robot, s, c, substeps=2), state, ctrl)
look("constrained_dynamics", lambda q, v: kt.constrained_dynamics(robot, q, v), q, qd)
look("constrained_inverse_dynamics", lambda q, v: kt.constrained_inverse_dynamics(robot, q, v, v), q, qd)
look("contact_forces", lambda s: kt.contact_forces(robot, s), state)
look("contacts", lambda q: kt.contacts(robot, q), q)
look("initial_state", lambda q, v: (lambda s: (s.q, s.qd))(kt.initial_state(robot, q, v, batch=(WORLDS,))), q, qd)
look("rollout", lambda s, c: kt.rollout(robot, s, lambda carry, s, k: (carry, c), steps=3)[0], state, ctrl)
look("sensors", lambda s, c: kt.sensors(robot, s, c), state, ctrl)
look("tendon_jacobian", lambda q, v: (kt.tendon_jacobian(robot, q) * v[:, None]).sum(-1), q, qd)
look("tendon_length", lambda q: kt.tendon_length(robot, q), q)
finish()
"""


def test_every_public_function_is_called_here():
    functions = {name for name in kt.__all__ if name[0].islower()}
    assert functions - WITHOUT_BATCH == set(CALLS) | set(OF_ROBOTS)


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("mechanisms", CALLS),
        ("gradients", ("advance", "rollout")),
        pytest.param("robots", OF_ROBOTS, marks=pytest.mark.thorough),
        pytest.param("slopes", CALLS, marks=pytest.mark.thorough),
    ],
)
def test_batches_stay_divided(what, names):
    found = on_devices(CODE, what, seconds=900)
    assert set(found) == set(names)
    assert not {name: result for name, result in found.items() if result != [[], 8]}


SHARDS = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import kinetree as kt

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
mesh = Mesh(np.array(jax.devices()), ("worlds",))
arm = kt.auto_tree(3, 2, 0.3).replace(damping=0.1)
coupled = kt.auto_tree(3, 1, 0.3).couple({"joint_2": ("joint_0", 0.5, 0.1)})
tau, q, qd = np.random.default_rng(0).uniform(-1, 1, (3, 4, 3))

def total(shared, q, qd):
    mass, qdd, dt = shared
    forces = kt.inverse_dynamics(kt.scaled(arm, mass=mass), q, qd, qdd)
    return (forces**2).sum() + (kt.step(arm, q, qd, dt)[1] ** 2).sum()

own = (P(), P("worlds"), P("worlds"))
given = (jnp.asarray(1.3), tau[0], jnp.asarray(0.1)), q, qd
slope = jax.shard_map(lambda *x: jax.grad(total)(*x), mesh=mesh, in_specs=own, out_specs=P())
both = zip(jax.jit(slope)(*given), jax.grad(total)(*given))
found = {"gradient": all(np.allclose(x, y, rtol=1e-12) for x, y in both)}

ahead = {
    "rollout": lambda q, v: kt.rollout(arm, kt.initial_state(arm, q, v), steps=2)[0].q,
    "rk4": lambda q, v: kt.step(coupled, q[:, :2], v[:, :2], 0.1, integrator="rk4")[0],
}
for name, call in ahead.items():
    each = jax.shard_map(call, mesh=mesh, in_specs=P("worlds"), out_specs=P("worlds"))
    found[name] = jax.eval_shape(each, q, qd).shape[0] == 4
print(json.dumps(found))
"""


def test_what_shards_have_in_common_owes_the_sum_over_them():
    """JAX adds up the gradients of an array that is the same in all shards, if it knows that results are not."""
    found = on_devices(SHARDS, devices=2)
    assert all(found.values()), found


def _of_no_numbers(jaxpr):
    """The arrays without numbers that come into shards from outside."""
    found = []
    for equation in jaxpr.eqns:
        inner = [getattr(x, "jaxpr", x) for x in equation.params.values()]
        if equation.primitive.name == "shard_map":
            found += [v.aval for x in inner if hasattr(x, "invars") for v in x.invars if not v.aval.size]
        else:
            found += [v for x in inner if hasattr(x, "eqns") for v in _of_no_numbers(x)]
    return found


def test_no_array_without_numbers_comes_into_shards():
    """XLA of jax 0.11 ends with a segmentation fault there. Models have such arrays, and so have tables of programs."""
    robot = kt.load("""<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 0.3">
      <joint type="slide" axis="0 0 1"/><joint name="h" range="-1 1" limited="true"/>
      <geom type="sphere" size="0.1" pos="0.1 0 0"/><site name="s"/></body></worldbody>
      <tendon><fixed><joint joint="h" coef="2"/></fixed></tendon><actuator><position joint="h" kp="3"/></actuator>
      <sensor><jointpos joint="h"/><gyro site="s"/></sensor></mujoco>""")
    q, qd = kt.random_state(robot, 0, batch=(2,))
    calls = {
        "dt": jax.grad(lambda q, qd: kt.step(robot, q, qd, 0.01 + 0 * q.sum())[0].sum()),
        "RK4": lambda q, qd: kt.step(robot, q, qd, 0.01, integrator="RK4"),
        "sensors": lambda q, qd: kt.sensors(robot, kt.initial_state(robot, q, qd)),
        "slopes": jax.grad(lambda q, qd: kt.constrained_dynamics(robot, q, qd).qdd.sum()),
        "rollout": lambda q, qd: kt.rollout(robot, kt.initial_state(robot, q, qd), steps=2)[0].q,
        "tendons": lambda q, qd: (kt.tendon_length(robot, q), kt.tendon_jacobian(robot, q)),
    }
    mesh = Mesh(np.array(jax.devices()[:1]), ("worlds",))
    for name, call in calls.items():
        shards = jax.shard_map(call, mesh=mesh, in_specs=P("worlds"), out_specs=P("worlds"))
        assert not _of_no_numbers(jax.make_jaxpr(shards)(q, qd).jaxpr), name
