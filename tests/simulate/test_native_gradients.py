"""Derivatives of native steps: those of differences, in both modes, by states and controls."""

import sys
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Lane, Loop, Program, Slots, run, xla
from kinetree.lanes.program.single import single
from kinetree.simulate.native import stepper_for
from tests.constrain.agreement import compiled, ours
from tests.simulate.test_native_steps import WORLD, unconstrained

NUMBER, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())


def slope(function, x, way, h=1e-6):
    """The derivative of a function in a direction, by differences."""
    return float(function(x + h * way) - function(x - h * way)) / (2 * h)


@pytest.mark.usefixtures("no_xla")
@pytest.mark.parametrize("free", [True, False])
def test_by_states_and_controls(free):
    """A robot with every kind of joint, in the air, or on the floor with limits and friction loss."""
    text = WORLD.format(integrator="implicitfast")
    model = ours(compiled(unconstrained(text) if free else text))
    stepper = stepper_for(model, "implicitfast", np.float64, model.timestep, False)
    assert stepper is not None
    assert stepper.differentiable
    rng = np.random.default_rng(0)
    settled = kt.advance(
        model, kt.initial_state(model, batch=(3,)), 0.1 * np.ones((3, model.nu)), substeps=40 if free else 400
    )
    if not free:
        assert kt.contacts(model, settled.q).active.any(-1).all()
    state, ctrl = jax.tree.map(jnp.asarray, settled), jnp.full((3, model.nu), 0.1)

    def end(x):
        """Of velocities and controls of a world."""
        now = state.replace(qd=state.qd.at[1].add(x[: model.nv]))
        after = kt.advance(model, now, ctrl.at[1].add(x[model.nv :]), substeps=3)
        return (after.q**2).sum() + (after.qd * jnp.arange(1.0, 1.0 + model.nv)).sum()

    x = jnp.zeros(model.nv + model.nu)
    gradient = jax.jit(jax.grad(end))(x)
    for _ in range(3):
        way = jnp.asarray(rng.standard_normal(x.shape))
        wanted = slope(end, x, way)
        np.testing.assert_allclose(gradient @ way, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.jvp(end, (x,), (way,))[1], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("no_xla")
def test_by_numbers_of_the_model():
    """A robot on the floor, far from other pairs: traced numbers are constants of the native program."""
    model = ours(compiled(WORLD.format(integrator="implicitfast")))
    settled = kt.advance(model, kt.initial_state(model), 0.1 * np.ones(model.nu), substeps=400)
    touches = kt.contacts(model, settled.q).active
    assert touches.any()
    assert not touches.all()
    state, ctrl = jax.tree.map(jnp.asarray, settled), jnp.full(model.nu, 0.1)
    names = ("mass", "friction", "damping", "gravity", "gain", "joint_friction", "size")

    def end(x):
        changed = kt.scaled(model, **{name: 1 + x[k] for k, name in enumerate(names)})
        after = kt.advance(changed, state, ctrl, substeps=3)
        return (after.q**2).sum() + (after.qd * jnp.arange(1.0, 1.0 + model.nv)).sum()

    x = jnp.zeros(len(names))
    value = jax.jit(end)
    np.testing.assert_allclose(value(x), end(x), rtol=1e-12)
    gradient = np.asarray(jax.jit(jax.grad(end))(x))
    wanted = np.array([slope(value, x, way) for way in np.eye(len(x))])
    assert np.count_nonzero(wanted) >= len(x) - 1  # one joint sticks, whatever its friction
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)


ARM = """<mujoco><option timestep="0.002" integrator="RK4"/><worldbody>
<body pos="0 0 2"><joint name="a" axis="0 1 0" range="-10 10" damping=".1"/>
  <geom type="capsule" size=".05 .2" pos="0 0 -.2"/>
  <body pos="0 0 -.4"><joint name="b" axis="0 1 0" frictionloss=".1" range="0 100"/>
    <geom type="capsule" size=".05 .2" pos="0 0 -.2"/></body></body></worldbody>
<actuator><motor joint="a" gear="2"/><position joint="b" kp="5"/></actuator></mujoco>"""


def test_accelerations_and_stages(monkeypatch):
    """`constrained_dynamics`, and RK4 which is made of four: native derivatives, by numbers of the model, too."""

    def refuse(*_, **__):
        raise AssertionError("constraints by XLA")

    monkeypatch.setattr(sys.modules["kinetree.constrain.constrained"], "solve_constraints", refuse)
    model = ours(compiled(ARM))
    q, qd = jnp.array([[0.1, -0.01], [0.0, 0.01]]), jnp.array([[0.5, -0.3], [0.2, 0.4]])  # one at a limit, one not
    ctrl = jnp.full((2, 2), 0.1)

    def accelerated(x):
        changed = kt.scaled(model, mass=1 + x[0], joint_friction=1 + x[1])
        found = kt.constrained_dynamics(changed, q + x[2], qd + x[3], ctrl=ctrl + x[4])
        return (found.qdd * jnp.arange(1.0, 3)).sum() + found.tau_constraint.sum()

    def stepped(x):
        changed = kt.scaled(model, mass=1 + x[0], joint_friction=1 + x[1])
        start = kt.initial_state(model, q + x[2], qd + x[3])
        after = kt.advance(changed, start, ctrl + x[4], substeps=2)
        return (after.q * jnp.arange(1.0, 3)).sum() + (after.qd**2).sum()

    x = jnp.full(5, 1e-3)
    for function in (accelerated, stepped):
        value = jax.jit(function)
        wanted = np.array([slope(value, x, way) for way in np.eye(len(x))])
        np.testing.assert_allclose(jax.jit(jax.grad(function))(x), wanted, rtol=1e-6, atol=1e-8)


def test_inverse_weights_of_traced_numbers_are_computed_once(monkeypatch):
    """Limits, friction loss and contacts need them, in the step and in its slopes: a third of the time to trace."""
    weights, found = sys.modules["kinetree.constrain.weights"], []
    compute = weights._compute
    monkeypatch.setattr(weights, "_compute", lambda model: found.append(model) or compute(model))
    model = ours(compiled(ARM)).replace(integrator="implicitfast")
    jax.eval_shape(lambda mass: kt.advance(kt.scaled(model, mass=mass), kt.initial_state(model)).q, 1.1)
    assert len(found) == 1


def test_worlds_whose_numbers_are_traced():
    """Models that differ, made inside `jit`: the states of each alone, by the native body, and gradients by all."""
    model = ours(compiled(ARM)).replace(integrator="implicitfast")
    start = kt.initial_state(model, np.array([0.1, 0.05]), np.arange(6.0).reshape(3, 2) / 5)
    controls = np.full((5, 3, 2), 0.1)
    factors = jnp.array([[1, 1.1, 1.2], [1, 2, 3.0]])

    def ends(factors):
        worlds = jax.vmap(lambda a, b: kt.scaled(model, mass=a, damping=b))(*factors)
        return kt.rollout(worlds, jax.tree.map(jnp.asarray, start), jnp.asarray(controls), steps=5)[0]

    found = jax.jit(ends)(factors)
    for k, (mass, damping) in enumerate(np.asarray(factors).T):
        alone, own = kt.scaled(model, mass=mass, damping=damping), jax.tree.map(lambda x, k=k: x[k], start)
        wanted = kt.rollout(alone, own, controls[:, k], steps=5)[0]
        np.testing.assert_allclose(found.q[k], wanted.q, atol=1e-14)
    loss = jax.jit(lambda x: (ends(x).qd ** 2).sum())
    gradient, way = jax.jit(jax.grad(loss))(factors), jnp.array([[1, -2, 0.5], [0.3, 1, -1]])
    np.testing.assert_allclose((gradient * way).sum(), slope(loss, factors, way), rtol=1e-6)


def test_each_slot_is_written_once():
    """A program that overwrites, adds to and leaves out: the same results, and the derivatives of its text."""
    a, b, c = (Slots(None, k, NUMBER) for k in range(3))
    fetch = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, writes=(Slots(0, 0, NUMBER),), inputs=(Lane(0, 1),))
    square = Loop(lambda _, __, x: ((x[0] * x[1],), (x[1],), ()), 0, NOTHING, reads=(a, b), writes=(a,), adds=(c,))
    root = Loop(
        lambda _, __, x: ((jnp.sqrt(x[0]),), (1 / x[1],), ()), 0, NOTHING, reads=(a, b), writes=(b,), adds=(a,), when=b
    )
    pair = Slots(None, 0, jax.tree.structure((0.0, 0.0)))
    tell = Loop(
        lambda _, __, x: ((), (), (*x[0], x[1])),
        0,
        NOTHING,
        reads=(pair, c),
        outputs=tuple(Lane(0, None, k) for k in range(3)),
    )
    program = Program("slots", (fetch, square, square, root, tell), 1, 1)
    tables = (np.stack([np.arange(3)] * 2, 1).astype(np.int32), *[np.zeros((1, 0), np.int32)] * 4)
    constants = tuple(np.zeros((len(t), 0)) for t in tables)
    one = single(program, tables)
    known = one.constants(constants, float)
    x = jnp.array([[1.5, 2.0, 3.0], [0.7, 0.0, 1.0]])  # the second lane leaves a turn out, which would divide by zero

    def ours(x):
        return run(one.program, one.slots, (3,), one.tables, known, (x,))[0]

    def wanted(x):
        return xla.run(program, 3, (3,), tables, constants, (x,))[0]

    np.testing.assert_array_equal(ours(x), wanted(x))
    weights = jnp.array([[1.0, -2.0, 0.5], [3.0, 1.0, 2.0]])
    gradient = jax.grad(lambda x: (weights * ours(x)).sum())(x)
    assert np.isfinite(gradient).all()
    for k in range(3):
        way = jnp.zeros_like(x).at[:, k].set(jnp.array([1.0, 0.0]) if k == 1 else jnp.ones(2))
        by_differences = slope(lambda x: (weights * wanted(x)).sum(), x, way)
        np.testing.assert_allclose((gradient * way).sum(), by_differences, rtol=1e-7)


HINGE = """<mujoco><worldbody><body pos="0 0 2"><joint name="a" axis="0 1 0" range="-10 10" damping=".1"/>
<geom type="capsule" size=".05 .2" pos="0 0 -.2"/></body></worldbody></mujoco>"""


def counted(jaxpr, found=None):
    """How often each of our primitives is bound."""
    found = Counter() if found is None else found
    for equation in jaxpr.eqns:
        found[equation.primitive.name] += equation.primitive.name.startswith("kinetree")
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                counted(inner, found)
    return +found


def test_a_gradient_solves_once_more_and_runs_the_balance_backwards_once():
    """It computes no value of the balance, and nothing for forces that nobody asks for."""
    model = ours(compiled(HINGE))
    text = jax.make_jaxpr(jax.grad(lambda q: kt.constrained_dynamics(model, q, jnp.ones(1)).qdd.sum()))(jnp.ones(1))
    assert counted(text.jaxpr) == {"kinetree_lanes": 1, "kinetree_lanes_linear": 1, "kinetree_lanes_adjoint": 1}


def test_no_worlds_have_gradients():
    """Steps, whose derivatives take numbers apart, are not traced without lanes. They failed."""
    model = ours(compiled(HINGE))
    none = jnp.zeros((0, 1))
    for way in (jax.grad, lambda f: jax.vmap(jax.grad(f))):
        assert way(lambda q: kt.constrained_dynamics(model, q, jnp.ones_like(q)).qdd.sum())(none).shape == (0, 1)
        assert way(lambda q: kt.advance(model, kt.initial_state(model, q, q)).q.sum())(none).shape == (0, 1)


def test_second_derivatives_with_constraints_are_refused():
    """Accelerations at a limit whose stiffness grows with the angle: they would lack how the solution moves."""
    model = ours(compiled(HINGE))
    state = jax.tree.map(jnp.asarray, kt.initial_state(model, np.array([0.1749]), np.array([0.5])))

    def accelerated(q):
        return kt.constrained_dynamics(model, q, state.qd).qdd.sum()

    def advanced(q, steps=1):
        return kt.advance(model, state.replace(q=q), substeps=steps).qd.sum()

    for function in (accelerated, advanced, partial(advanced, steps=2)):
        for outer in (jax.jacfwd, jax.jacrev):
            with pytest.raises(NotImplementedError, match="second derivatives"):
                outer(jax.grad(function))(state.q)


@pytest.mark.thorough
def test_second_derivatives_of_free_steps():
    model = ours(compiled(HINGE)).without_constraints
    state = jax.tree.map(jnp.asarray, kt.initial_state(model, np.array([0.3]), np.array([0.5])))
    slope_of = jax.jit(jax.grad(lambda q: kt.advance(model, state.replace(q=q)).qd.sum()))
    wanted = slope(lambda q: slope_of(q)[0], state.q, jnp.ones(1), 1e-5)
    np.testing.assert_allclose(jax.jacfwd(slope_of)(state.q), [[wanted]], rtol=1e-7)


COUPLED = """<mujoco><option timestep="0.002"/><worldbody>
<body pos="0 0 1"><joint name="a" axis="0 1 0" damping=".1"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.4"/>
  <body pos="0 0 -.4"><joint name="b" axis="0 1 0"/><geom type="sphere" size=".06" pos="0 0 -.2"/></body></body>
<body pos=".11 0 1"><joint name="c" axis="0 1 0"/><geom type="sphere" size=".06" pos="0 .01 -.6"/></body>
<body pos=".5 0 1"><joint name="d" axis="0 1 0"/><geom size=".05" pos="0 0 -.3"/>
  <body name="e" pos="0 0 -.3"><joint axis="0 1 0"/><geom size=".05" pos="0 0 -.3"/></body></body></worldbody>
<tendon><fixed name="t" range="-1 .001" limited="true">
  <joint joint="a" coef="1"/><joint joint="d" coef="-1"/></fixed></tendon>
<equality><joint joint1="b" joint2="d" polycoef="0 .5 0 0 0"/><connect body1="e" anchor="0 0 -.3"/></equality>
</mujoco>"""


@pytest.mark.thorough
@pytest.mark.usefixtures("no_xla")
def test_where_constraints_couple_bodies(monkeypatch):
    """A ball against a ball, a tendon at its limit, a joint that follows another, a loop: by the balance of forces."""

    def refuse(*_, **__):
        raise AssertionError("constraints by XLA")

    monkeypatch.setattr(sys.modules["kinetree.constrain.constrained"], "solve_constraints", refuse)
    model = ours(compiled(COUPLED))
    rng = np.random.default_rng(0)
    q, qd = 0.01 * rng.standard_normal((2, 2, model.nv))
    assert kt.contacts(model, q).active.any(-1).all()
    x, way, weight = (jnp.asarray(rng.standard_normal((3, 2, model.nv))) for _ in range(3))
    x = 0.01 * x
    state = jax.tree.map(jnp.asarray, kt.initial_state(model, q, qd))

    def accelerated(x):
        found = kt.constrained_dynamics(model, q + x[0], qd + x[1], x[2])
        return ((found.qdd + found.tau_constraint) * weight[0]).sum() + (found.contacts.depth.clip(0) ** 2).sum()

    def advanced(x):
        after = kt.advance(model, state.replace(q=state.q + x[0], qd=state.qd + x[1]))
        return (after.q * weight[0]).sum() + (after.qd * weight[1]).sum()

    for end in (accelerated, advanced):
        wanted = slope(jax.jit(end), x, way)
        value, gradient = jax.jit(jax.value_and_grad(end))(x)
        np.testing.assert_allclose(value, end(x), rtol=1e-12)
        np.testing.assert_allclose((gradient * way).sum(), wanted, rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(end, (x,), (way,))[1], wanted, rtol=1e-6)


LATE = """<mujoco><option timestep="0.002" integrator="{}" {}/><worldbody>
<body pos="0 0 1"><joint name="a" axis="0 1 0" damping=".1"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.4"/>
  <body pos="0 0 -.4"><joint name="b" axis="1 0 0"/><geom type="sphere" size=".06" pos="0 .1 -.2"/></body></body>
<body pos="1 0 1"><freejoint/><geom type="box" size=".1 .2 .05"/></body></worldbody>
{}<actuator><position {}="a" kp="3" kv=".4"/></actuator></mujoco>"""
STRUNG = """<tendon><fixed name="a" armature=".05" damping=".3">
<joint joint="a" coef="1.5"/><joint joint="b" coef="-1"/></fixed></tendon>"""


@pytest.mark.usefixtures("no_xla")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LATE.format("implicitfast", "", STRUNG, "tendon"), id="tendon"),
        pytest.param(
            LATE.format("implicit", 'density="90" wind="1 0 0"', "", "joint"), id="all rows", marks=pytest.mark.thorough
        ),
    ],
)
def test_velocity_terms_at_the_end_of_a_step(text):
    """Of tendons that are heavy, of actuators on them and of a lone body; and of all rows in a wind."""
    model = ours(compiled(text))
    rng = np.random.default_rng(0)
    q, qd = kt.random_state(model, 0)
    x, way, weight = (jnp.asarray(rng.standard_normal(model.nv + 1)) for _ in range(3))

    def end(x):
        changed = kt.scaled(model, gain=1 + 0.1 * x[-1])
        start = kt.initial_state(model, jnp.asarray(q), qd + x[:-1])
        after = kt.advance(changed, start, jnp.array([0.3]))
        return (after.qd * weight[:-1]).sum() + (after.q**2).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(end))(x) @ way, slope(end, x, way), rtol=1e-6)
