"""Direct calls of all functions that have them: what jit computes, without XLA, for every kind of model."""

import subprocess
import sys
from functools import partial
from inspect import signature
from pathlib import Path

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics import frames
from kinetree.dynamics.algorithms.frames import WAYS, frame_acceleration_of, frame_velocity_of
from kinetree.dynamics.algorithms.wholes import CENTROIDAL_MATRIX
from kinetree.dynamics.schedules.run import run
from kinetree.lanes.cpu import direct
from kinetree.model.fork import _Process
from tests.dynamics.test_passive import sprung

pytestmark = pytest.mark.skipif(not direct.available(), reason="no direct calls in this interpreter")

CALLS = {  # name -> the function on a model, q and two vectors of velocities
    "inverse_dynamics": kt.inverse_dynamics,
    "forward_dynamics": kt.forward_dynamics,
    "mass_matrix": lambda m, q, v, x: kt.mass_matrix(m, q),
    "forward_kinematics": lambda m, q, v, x: kt.forward_kinematics(m, q),
    "jacobian": lambda m, q, v, x: kt.jacobian(m, q, m.n_bodies - 1),
    "jacobian by name": lambda m, q, v, x: kt.jacobian(m, q, m.names[1], frame="local"),
    "bias_force": lambda m, q, v, x: kt.bias_force(m, q, v),
    "gravity_force": lambda m, q, v, x: kt.gravity_force(m, q),
    "passive_force": lambda m, q, v, x: kt.passive_force(m, q, v),
    "impulse_response": lambda m, q, v, x: kt.impulse_response(m, q, m.n_bodies - 1, x[..., :1] * np.ones(6, x.dtype)),
    "inverse_inertia_at": lambda m, q, v, x: kt.inverse_inertia_at(m, q, m.names[1]),
}


def coupled_tree():
    """Springs, dampers, quaternion joints, and hinges of which one follows another."""
    model = sprung()
    kinds = model.structure.joints
    single = [
        name for name, code in zip(model.joint_names, model.structure.joint_code, strict=True) if kinds[code].nq == 1
    ]
    return model.couple({single[-1]: (single[0], -0.5, 0.2), single[1]: (single[0], 0.7, 0.0)})


MODELS = {
    "hinges": lambda: kt.auto_tree(7, 1.5, skew=0.3),
    "dampers": lambda: kt.auto_tree(7, 1.5, skew=0.3).replace(damping=0.3, armature=0.1),
    "mixed": sprung,
    "coupled": coupled_tree,
    "coupled hinges": lambda: kt.auto_tree(5, 1.5, skew=0.3).couple({"joint_3": ("joint_1", 2.0, 0.1)}),
}


def states(model, batch=(9,)):
    q, v = kt.random_state(model, 3, batch)
    return q, v, np.random.default_rng(4).standard_normal(v.shape)


@pytest.mark.parametrize("kind", MODELS)
def test_they_compute_what_xla_computes(kind, monkeypatch):
    """One state and a batch on NumPy arrays, where XLA is lost, against jit."""
    model = MODELS[kind]()
    given = states(model)
    by_jit = {name: jax.jit(lambda *s, call=call: call(model, *s))(*given) for name, call in CALLS.items()}
    monkeypatch.setattr(_Process, "lost_xla", True)
    for name, call in CALLS.items():
        wanted = [np.asarray(x) for x in jax.tree.leaves(by_jit[name])]
        batch, one = call(model, *given), call(model, *(x[2] for x in given))
        assert type(batch) is type(one) is type(jax.tree.map(np.asarray, by_jit[name])), name
        for a, b, c in zip(jax.tree.leaves(batch), jax.tree.leaves(one), wanted, strict=True):
            assert a.shape == c.shape, name
            assert b.shape == c.shape[1:], name
            np.testing.assert_allclose(a, c, rtol=1e-11, atol=1e-11, err_msg=name)
            np.testing.assert_array_equal(a[2], b, err_msg=name)


@pytest.mark.parametrize("name", CALLS)
def test_float32_stays_float32(name):
    model = MODELS["hinges"]()
    given = states(model)
    wanted = CALLS[name](model, *given)
    found = CALLS[name](model, *(x.astype(np.float32) for x in given))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2 * np.abs(b).max())


def test_several_outputs_leave_nothing_behind():
    model = MODELS["hinges"]()
    q, *_ = states(model)
    bad = np.full_like(q, np.nan)
    kt.forward_kinematics(model, q)
    builtin = vars(model)["_forward_kinematics"]
    pose = builtin(q)
    held = sys.getrefcount(pose.rotation)
    assert held == 2  # the pose, and that call
    assert builtin(bad) is None
    before = sys.getrefcount(q), sys.getrefcount(bad)
    for _ in range(50):
        builtin(q), builtin(bad), builtin(q, q), builtin(q[:, :3])
    assert (sys.getrefcount(q), sys.getrefcount(bad)) == before


def over_the_tree(algorithm_of, way):
    """A frame's motion by XLA, level by level, of the tree with all joints on their own."""

    def call(model, *given):
        *states, body = given
        coupling, free = model.coupling, model.uncoupled
        wide = [coupling.widen_q(states[0]), *map(coupling.widen_v, states[1:])]
        about = int(frames.frame_number(free, body))
        with jax.enable_x64(True):
            named = dict(zip(("q", "qd", "qdd"), wide, strict=False))
            algorithm = algorithm_of(int(frames.way_number(way)))
            return np.asarray(run(algorithm, free, named, about=about, schedule="levels")["motion"])

    return call


def by_matrix(pick):
    """Of the centroidal momentum matrix by XLA's passes over the tree."""

    def call(model, q, *rest):
        with jax.enable_x64(True):
            whole = model.coupling.widen_q(q)
            A = np.asarray(run(CENTROIDAL_MATRIX, model.uncoupled, {"q": whole}, schedule="paths")["A"])
        return pick(model, model.coupling.narrow(A), *rest)

    return call


def by_levels(function):
    """The function by XLA, level by level."""
    return partial(function.__wrapped__, schedule="levels")


MORE = {  # Calls, and other ways to compute the same.
    "center_of_mass": (kt.center_of_mass, "q", by_levels(kt.center_of_mass)),
    "potential_energy": (kt.potential_energy, "q", by_levels(kt.potential_energy)),
    "kinetic_energy": (kt.kinetic_energy, "qv", by_levels(kt.kinetic_energy)),
    "momentum": (kt.momentum, "qv", by_levels(kt.momentum)),
    "integrate": (partial(kt.integrate, dt=0.3), "qv", partial(kt.integrate.__wrapped__, dt=0.3)),
    "difference": (kt.difference, "qp", kt.difference.__wrapped__),
    "matrix": (kt.centroidal_momentum_matrix, "q", by_matrix(lambda m, A: A)),
    "com_jacobian": (kt.com_jacobian, "q", by_matrix(lambda m, A: A[:, 3:] / m.total_mass)),
    "centroidal": (kt.centroidal_momentum, "qv", by_matrix(lambda m, A, v: np.einsum("bij,bj->bi", A, v))),
    **{
        f"velocity {w}": (partial(kt.frame_velocity, frame=w), "qvb", over_the_tree(frame_velocity_of, w)) for w in WAYS
    },
    **{
        f"acceleration {w}": (partial(kt.frame_acceleration, frame=w), "qvxb", over_the_tree(frame_acceleration_of, w))
        for w in WAYS
    },
}


def test_more_calls_compute_what_other_passes_do_and_need_no_xla(monkeypatch):
    """Springs, quaternion joints and followers; a model that XLA has never seen serves the calls."""
    other, model = coupled_tree(), coupled_tree()
    given = dict(zip("qvx", states(model), strict=True)) | {"b": model.n_bodies - 1}
    given["p"] = kt.random_state(model, 8, (9,))[0]
    wanted = {name: oracle(other, *(given[k] for k in names)) for name, (_, names, oracle) in MORE.items()}
    monkeypatch.setattr(_Process, "lost_xla", True)
    for name, (call, names, _) in MORE.items():
        batch = call(model, *(given[k] for k in names))
        one = call(model, *(given[k] if k == "b" else given[k][2] for k in names))
        assert batch.shape == wanted[name].shape, name
        np.testing.assert_allclose(batch, wanted[name], rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_array_equal(batch[2], one, err_msg=name)


WITH_FORCES = (kt.inverse_dynamics, kt.forward_dynamics, kt.inverse_dynamics_derivatives)
WITH_FORCES = (*WITH_FORCES, kt.forward_dynamics_derivatives, lambda m, q, v, x, f: kt.bias_force(m, q, v, f_ext=f))


@pytest.mark.cpu
@pytest.mark.parametrize("make", [MODELS["dampers"], lambda: free_base(), MODELS["coupled hinges"]])
def test_forces_on_bodies_need_no_xla(make, monkeypatch):
    """One state and a batch have the bits of the ordinary path."""
    model = make()
    given = *states(model), np.random.default_rng(5).standard_normal((9, model.n_bodies, 6))
    q, v, x, f = (y[None] for y in given)
    wanted = [call.__wrapped__(model, q, v, x, f) for call in WITH_FORCES[:-1]]
    wanted.append(kt.bias_force.__wrapped__(model, q, v, f))
    monkeypatch.setattr(_Process, "lost_xla", True)
    for call, expected in zip(WITH_FORCES, wanted, strict=True):
        batch, one = call(model, *given), call(model, *(x[2] for x in given))
        for a, b, c in zip(*map(jax.tree.leaves, (batch, one, expected)), strict=True):
            np.testing.assert_array_equal(a, c[0])
            np.testing.assert_array_equal(a[2], b)
    single = kt.inverse_dynamics(model, *(x.astype(np.float32) for x in given))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, wanted[0][0], rtol=1e-2, atol=1e-2 * np.abs(wanted[0]).max())
    with pytest.raises(ValueError, match="f_ext must have shape"):
        kt.inverse_dynamics(model, *(x[0] for x in given[:3]), np.zeros(6))


@pytest.mark.cpu
def test_derivatives_of_one_state_need_no_xla(monkeypatch):
    """They are the ordinary path's, state by state; of a free base, and with followers."""
    for model in (MODELS["coupled hinges"](), free_base()):
        for function in (kt.inverse_dynamics_derivatives, kt.forward_dynamics_derivatives):
            q, v, x = states(model, (3,))
            wanted = function.__wrapped__(model, q, v, x)
            monkeypatch.setattr(_Process, "lost_xla", True)
            found = function(model, q[1], v[1], x[1])
            monkeypatch.setattr(_Process, "lost_xla", False)
            assert function.__name__ in "".join(vars(model))
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b[1], rtol=1e-12, atol=1e-12 * np.abs(b).max())


@pytest.mark.parametrize("make", [lambda: free_base(), MODELS["coupled hinges"]])
def test_the_coriolis_matrix_of_one_state_needs_no_xla(make, monkeypatch):
    model = make()
    q, v, _ = states(model)
    wanted = kt.coriolis_matrix.__wrapped__(model, q, v)
    monkeypatch.setattr(_Process, "lost_xla", True)
    batch, one = kt.coriolis_matrix(model, q, v), kt.coriolis_matrix(model, q[2], v[2])
    np.testing.assert_allclose(batch, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())
    np.testing.assert_array_equal(batch[2], one)
    np.testing.assert_allclose(one @ v[2], kt.bias_force(model, q[2], v[2]) - kt.gravity_force(model, q[2]), atol=1e-11)


@pytest.mark.parametrize("make", [lambda: free_base(), MODELS["coupled hinges"]])
def test_the_regressor_of_one_state_needs_no_xla(make, monkeypatch):
    model = make()
    q, v, x = states(model)
    wanted = kt.inverse_dynamics_regressor.__wrapped__(model, q, v, x)
    monkeypatch.setattr(_Process, "lost_xla", True)
    batch, one = (kt.inverse_dynamics_regressor(model, *given) for given in ((q, v, x), (q[2], v[2], x[2])))
    np.testing.assert_allclose(batch, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())
    np.testing.assert_array_equal(batch[2], one)


def test_a_time_for_each_state_goes_the_ordinary_way():
    model = free_base()
    q, v, _ = states(model, (3,))
    times = np.array([0.1, 0.2, 0.3])
    for k, dt in enumerate(times):
        np.testing.assert_allclose(kt.integrate(model, q, v, times)[k], kt.integrate(model, q[k], v[k], float(dt)))
    with pytest.raises(ValueError, match="qd must have shape"):
        kt.integrate(model, q, v[:, :3], 0.1)


def free_base():
    I = np.diag([1.0, 2.0, 2.5, 3.0, 3.0, 3.0])
    return kt.Model.from_arrays([-1, 0, 1], ["free", "Rx", "Ry"], np.stack([np.eye(6)] * 3), np.stack([I] * 3))


def test_a_robot_far_away_keeps_its_centroidal_momentum():
    model = free_base()
    q, v, _ = states(model, ())
    near, far = q.copy(), q.copy()
    near[:3], far[:3] = 0, 2.0**30  # so that positions of bodies are rounded, and little else
    for function, given in ((kt.centroidal_momentum, (v,)), (kt.centroidal_momentum_matrix, ()), (kt.com_jacobian, ())):
        np.testing.assert_allclose(function(model, far, *given), function(model, near, *given), atol=1e-5)


def test_fronts_have_the_parameters_of_their_functions():
    assert signature(kt.jacobian) == signature(kt.jacobian.__wrapped__)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shedule'"):
        kt.inverse_dynamics(MODELS["hinges"](), *np.zeros((3, 7)), shedule="lanes")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'qdd'"):
        kt.inverse_dynamics(MODELS["hinges"](), *np.zeros((2, 7)))


FIRST_IN_A_CHILD = """
import os, jax, numpy as np, kinetree as kt
model = kt.auto_tree(4, 1.4, 0.3)
q, qd, x = np.random.default_rng(0).standard_normal((3, 4))
jax.block_until_ready(jax.jit(lambda a: a + 1)(q))  # XLA's threads are there, and lost in the child
pid = os.fork()
if pid == 0:
    kt.forward_dynamics_derivatives(model, q, qd, x)
    kt.forward_kinematics(model, q)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.cpu
def test_programs_are_first_made_in_a_forked_child():
    """Not by XLA, which would wait there for its threads for ever."""
    command = [sys.executable, "-W", "ignore", "-c", FIRST_IN_A_CHILD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "7"


def files_entered(call):
    """Files of kinetree whose Python a warm call runs."""
    root, seen = str(Path(kt.__file__).parent), set()

    def look(frame, event, arg):
        name = frame.f_code.co_filename
        if name.startswith((root, "<front of")):
            seen.add(name.removeprefix(root))

    call(), call()
    before = sys.gettrace()
    sys.settrace(look)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


def test_the_way_of_a_torque_is_short():
    """docs/design.md lists the files: plain batches run no Python, but forces a front; float32 and gaps, one file."""
    model = kt.auto_tree(7, 1, 0.3)
    x = np.random.default_rng(0).uniform(-1, 1, (10, 7))
    for y in (x, x[::2]):  # Rows may lie apart.
        assert files_entered(lambda y=y: kt.inverse_dynamics(model, y, y, y)) == set()
    assert files_entered(lambda: kt.inverse_dynamics(model, x, x, x, np.zeros((10, 7, 6)))) == {
        "<front of inverse_dynamics>"
    }
    for given in ((x.astype(np.float32),) * 3, (np.asfortranarray(x),) * 3):
        seen = files_entered(lambda g=given: kt.inverse_dynamics(model, *g))
        assert seen == {"<front of inverse_dynamics>", "/dynamics/directly.py"}
    assert (
        len(files_entered(lambda: kt.inverse_dynamics(model, x, x, x, schedule="lanes"))) > 6
    )  # It is really watched.


OTHER_FORMS = {  # of q, v, x: what no builtin takes as it is
    "two axes": lambda q, v, x: (q.reshape(3, 3, -1), v.reshape(3, 3, -1), x.reshape(3, 3, -1)),
    "one q": lambda q, v, x: (q[0], v, x),
    "one q with an axis": lambda q, v, x: (q[:1], v, x),
    "one velocity for each row": lambda q, v, x: (q.reshape(3, 3, -1), v[:3], x[:3, None]),
    "types": lambda q, v, x: (q.astype(np.float32), v, x),
    "whole numbers": lambda q, v, x: (q, np.ones_like(v, dtype=int), x),
    "lists": lambda q, v, x: (q[0].tolist(), v[0].tolist(), x[0]),
}


@pytest.mark.cpu
@pytest.mark.parametrize("form", OTHER_FORMS)
def test_other_forms_of_arrays_are_made_plain(form):
    """They have the bits of plain arrays, and take two files of Python."""
    model = MODELS["mixed"]()
    given = OTHER_FORMS[form](*states(model))
    forces = np.random.default_rng(5).standard_normal((*np.shape(given[2])[:-1], model.n_bodies, 6))
    calls = {name: call for name, call in CALLS.items() if name != "impulse_response"}
    calls["f_ext"] = lambda m, q, v, x: kt.inverse_dynamics(m, q, v, x, forces)
    plain = [np.asarray(x, float) for x in given]
    axes = np.broadcast_shapes(*(x.shape[:-1] for x in plain))
    for name, call in calls.items():
        found = call(model, *given)
        flat = [np.broadcast_to(x, (*axes, x.shape[-1])).reshape(-1, x.shape[-1]).copy() for x in plain]
        whole = np.broadcast_to(forces, (*axes, *forces.shape[-2:])).reshape(-1, *forces.shape[-2:])
        wanted = kt.inverse_dynamics(model, *flat, whole) if name == "f_ext" else call(model, *flat)
        assert type(found) is type(wanted), name
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            if a.dtype == b.dtype:  # a lone q of float32 gives results of float32
                np.testing.assert_array_equal(np.broadcast_to(a, (*axes, *b.shape[1:])).reshape(b.shape), b, name)
    seen = files_entered(lambda: kt.inverse_dynamics(model, *given))
    assert seen == {"<front of inverse_dynamics>", "/dynamics/directly.py", "/model/arguments.py"} - (
        {"/model/arguments.py"} if form == "lists" else set()
    )


@pytest.mark.cpu
def test_what_only_looks_like_forces():
    model = kt.auto_tree(6, 1, 0.3)
    x, f = np.random.default_rng(0).uniform(-1, 1, (2, 6)), np.zeros((6, 6))
    kt.inverse_dynamics(model, *x[[0, 0, 1]], f)  # Its builtin is there.
    assert kt.inverse_dynamics(model, x[0], x[1:], x[:1]).shape == (1, 6)
    assert kt.inverse_dynamics(model, x[0], x[1:], x[:1], f).shape == (1, 6)
    for wrong in (np.zeros(36), np.zeros((2, 3, 6)), np.zeros((4, 9))):
        with pytest.raises(ValueError, match="f_ext must have shape"):
            kt.inverse_dynamics(model, *x[[0, 0, 1]], wrong)
    apart = np.random.default_rng(1).standard_normal((6, 2, 6))[:, 0]
    np.testing.assert_array_equal(
        kt.inverse_dynamics(model, *x[[0, 0, 1]], apart), kt.inverse_dynamics(model, *x[[0, 0, 1]], apart.copy())
    )


def test_a_step_of_one_second_is_what_integrate_has_by_default():
    model = free_base()
    q, v, _ = states(model, ())
    np.testing.assert_array_equal(kt.integrate(model, q, v), kt.integrate(model, q, v, 1.0))
    assert files_entered(lambda: kt.integrate(model, q, v)) == set()


def test_the_name_of_the_usual_method_goes_the_same_way():
    """`method="aba"` is what "auto" takes, but not for joints that follow others."""
    model = MODELS["dampers"]()
    given = states(model)
    seen = files_entered(lambda: kt.forward_dynamics(model, *given, method="aba"))
    assert seen == {"<front of forward_dynamics>"}
    assert np.array_equal(kt.forward_dynamics(model, *given, method="aba"), kt.forward_dynamics(model, *given))
    assert len(files_entered(lambda: kt.forward_dynamics(model, *given, method="crba"))) > 6
    coupled = MODELS["coupled hinges"]()
    with pytest.raises(ValueError, match="mimic joints"):
        kt.forward_dynamics(coupled, *states(coupled), method="aba")


def test_arrays_with_gaps_have_the_results_of_whole_ones():
    model = kt.auto_tree(7, 1, 0.3)
    x = np.random.default_rng(0).uniform(-1, 1, (3, 10, 14))
    q, qd, qdd = x[:, ::2, ::2]
    whole = kt.inverse_dynamics(model, q.copy(), qd.copy(), qdd.copy())
    assert np.array_equal(kt.inverse_dynamics(model, q, qd, qdd), whole)
    assert np.array_equal(kt.inverse_dynamics(model, q, qd.copy(), qdd), whole)
    assert np.array_equal(kt.inverse_dynamics(model, q, qd[0], qdd)[0], whole[0])
    with pytest.raises(ValueError, match="must have shape"):
        kt.inverse_dynamics(model, q[:, ::2], qd, qdd)
