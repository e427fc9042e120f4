"""All methods of forward dynamics, put to the same questions; what concerns one of them stands in a file of its own."""

import dataclasses
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.forward_dynamics import METHODS
from tests.build import build_model
from tests.reference import dense, spatial_v2

from .forests import forest
from .forward import check_case, check_mechanism, error, mechanism
from .mixed import resisted_by_armature

ON_TREES = {
    "aba, lanes": {"method": "aba", "schedule": "lanes"},
    "aba, levels": {"method": "aba", "schedule": "levels"},
    "crba": {"method": "crba"},
    "jsiia": {"method": "jsiia"},
    "vneb": {"method": "vneb"},
    "abia": {"method": "abia"},
    "dca": {"method": "dca"},
    "dcae": {"method": "dcae", "chunks": 3},
}
ON_CHAINS = ON_TREES | {"cg": {"method": "cg"}, "cfa": {"method": "cfa"}}
MORE_SCHEDULES = {f"aba, {schedule}": {"method": "aba", "schedule": schedule} for schedule in ("sequential", "paths")}
DIGITS_LOST = {"dca": 4.0}  # error over eps·cond(H) where cond(H) is large: 1.1 measured; the others 0.12 or less


def over(options, chosen=None):
    """A test for each of the options; each run takes those that are chosen."""
    marks = [() if chosen is None or name in chosen else pytest.mark.thorough for name in options]
    values = [pytest.param(x, marks=m) for x, m in zip(options.values(), marks, strict=True)]
    return pytest.mark.parametrize("options", values, ids=list(options))


def is_chain(parent):
    return (parent == np.arange(len(parent)) - 1).all()


def test_no_method_is_left_out():
    assert {options["method"] for options in ON_CHAINS.values()} == set(METHODS)


@over(ON_TREES | MORE_SCHEDULES, ["aba, lanes", "dca"])
def test_every_tree_of_spatial_v2(options, request):
    if options["method"] == "vneb":  # cubic: runs longer than it compiles
        request.getfixturevalue("full_compilation")
    f = forest()
    q, qd, tau, pushing, f_ext = map(f.joined, ("q", "qd", "tau", "ID_fext", "f_ext"))
    lost = DIGITS_LOST.get(options["method"], 1.0)
    for gravity in {tuple(case.gravity) for case in f.cases}:
        model = f.model.replace(gravity=gravity)
        free = kt.forward_dynamics(model, q, qd, tau, 0 * f_ext, **options)  # zeros: no other program to compile
        pushed = kt.forward_dynamics(model, q, qd, pushing, f_ext, **options)
        for case, part in zip(f.cases, f.bodies, strict=True):
            if tuple(case.gravity) == gravity:
                check_case(case, free[:, part], "", lost)
                check_case(case, pushed[:, part], "_fext", lost)


FIXED_BASE = spatial_v2.cases("autotree", "mixed")
CHAINS = [name for name in FIXED_BASE if is_chain(spatial_v2.load(name).parent)]
SMALL_SET = ("autotree_nb1_bf1", "autotree_nb20_bf2", "autotree_nb100_bf1", "mixed_nb7_forest", "mixed_nb15_tree")


def one_by_one(method, names):
    """Every tree for the thorough profile; else a small one, a long one and those with mixed joints."""
    return [pytest.param(method, n, marks=() if n in SMALL_SET else pytest.mark.thorough) for n in names]


@pytest.mark.parametrize(
    ("method", "name"), [*product(("aba",), FIXED_BASE), *one_by_one("cg", FIXED_BASE), *one_by_one("cfa", CHAINS)]
)
def test_each_tree_of_spatial_v2(method, name):
    """One by one: as users meet aba, and the methods that must not stand in a forest.

    CFA refuses branches, and conjugate gradients would converge for the largest tree only. They need 304 iterations
    for the chain of 100 bodies, elsewhere less than two for each body.
    """
    case = spatial_v2.load(name)
    model = build_model(case)
    if method == "aba":
        check_case(case, kt.forward_dynamics(model, case.q, case.qd, case.tau), "")
        check_case(case, kt.forward_dynamics(model, case.q, case.qd, case.ID_fext, case.f_ext), "_fext")
        return
    both = [np.stack(x) for x in ((case.tau, case.ID_fext), (0 * case.f_ext, case.f_ext))]  # one program to compile
    free, pushed = kt.forward_dynamics(model, case.q, case.qd, *both, method=method)
    check_case(case, free, "")
    check_case(case, pushed, "_fext")


@cache
def every_joint():
    """A forest with every joint, and spatial_v2's floating base beside it: one program to compile for both.

    Description, model and state of the forest; the case; the model of both; and a function that joins their states.
    """
    d, model, s = mechanism(14, "forest")
    case = spatial_v2.load("floatbase_nb4")
    both = dense.Description(
        np.concatenate([d.parent, np.where(case.parent < 0, -1, case.parent + d.n_bodies)]),
        d.joints + case.joints,
        np.concatenate([d.x_tree, case.x_tree]),
        np.concatenate([d.inertia, case.inertia]),
        d.gravity,
    )

    def joined(own, theirs, axis=1):
        own = np.broadcast_to(own, (case.n_states, *np.shape(own)))
        return np.concatenate([own, theirs], axis)

    return d, model, s, case, build_model(both), joined


def answers(gravity, tau, f_ext, tau_there, f_ext_there, armature=None, **options):
    """Accelerations of the forest, (nv,), and of the floating base, (states, nv)."""
    _, model, s, case, both, joined = every_joint()
    both = both.replace(gravity=np.asarray(gravity, float))
    if armature is not None:
        rotors = np.concatenate([armature, np.zeros(both.nv - model.nv)])
        both = dataclasses.replace(both, rows=both.rows._replace(armature=rotors))
    state = joined(s.q, case.q_free), joined(s.qd, case.qd_free), joined(tau, tau_there), joined(f_ext, f_ext_there)
    found = kt.forward_dynamics(both, *state, **options)
    return found[0, : model.nv], found[:, model.nv :]


@over(ON_TREES | MORE_SCHEDULES)
def test_floating_base_of_spatial_v2(options):
    _, _, s, case, _, _ = every_joint()
    tau = np.concatenate([np.zeros((case.n_states, 6)), case.tau], 1)
    for f_ext, base, joints in (
        (0 * case.f_ext, case.FDfb_xd, case.FDfb_qdd),
        (case.f_ext, case.FDfb_xd_fext, case.FDfb_qdd_fext),
    ):
        _, found = answers(case.gravity, s.tau, s.f_ext, tau, f_ext, **options)
        for k in range(case.n_states):
            assert error(found[k], np.concatenate([case.to_free(k, base[k][7:]), joints[k]])) < 1e-10


@over(ON_TREES | MORE_SCHEDULES)
def test_every_joint_in_a_forest(options):
    """A method against the 80-bit articulated-body algorithm, forces on bodies included, and FD(ID(qdd)) = qdd."""
    d, _, s, case, _, _ = every_joint()
    bound = 1e-10 if options["method"] == "aba" else 1e-8
    there = np.concatenate([np.zeros((case.n_states, 6)), case.tau], 1), case.f_ext
    found, _ = answers(d.gravity, s.tau, s.f_ext, *there, **options)
    assert error(found, dense.aba(d, s.q, s.qd, s.tau, s.f_ext)) < bound
    tau = dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext).astype(float)
    found, _ = answers(d.gravity, tau, s.f_ext, *there, **options)
    size = max(np.abs(np.linalg.solve(dense.crba(d, s.q).astype(float), tau)).max(), np.abs(s.qdd).max())
    assert np.abs(found - s.qdd).max() < bound * size  # they mostly cancel, see check_mechanism


@over({"cg": {"method": "cg"}, "cfa": {"method": "cfa"}})
def test_every_joint_by_methods_that_stand_alone(options):
    """CFA's forests are chains; conjugate gradients look at the largest residual of all trees."""
    check_mechanism(14, "chain" if options["method"] == "cfa" else "forest", bound=1e-8, **options)


def test_a_floating_base_by_conjugate_gradients():
    case = spatial_v2.load("floatbase_nb4")
    tau = np.concatenate([np.zeros((case.n_states, 6)), case.tau], 1)
    both = np.stack([0 * case.f_ext, case.f_ext])
    found = kt.forward_dynamics(build_model(case), case.q_free, case.qd_free, tau, both, method="cg")
    wanted = (case.FDfb_xd, case.FDfb_qdd), (case.FDfb_xd_fext, case.FDfb_qdd_fext)
    for got, (base, joints) in zip(found, wanted, strict=True):
        for k in range(case.n_states):
            assert error(got[k], np.concatenate([case.to_free(k, base[k][7:]), joints[k]])) < 1e-10


@over({name: ON_TREES[name] for name in ("aba, lanes", "aba, levels", "abia", "dca")})
def test_armature(options):
    """Rotor inertia adds to the diagonal of H. The programs are those of the test above, which had forces on bodies."""
    d, model, s, case, _, _ = every_joint()
    armature = np.random.default_rng(1).uniform(0.1, 2, model.nv)
    tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd) + armature * resisted_by_armature(model, s.qd, s.qdd)
    there = np.concatenate([np.zeros((case.n_states, 6)), case.tau], 1), case.f_ext
    found, _ = answers(d.gravity, tau, 0 * s.f_ext, *there, armature=armature, **options)
    assert error(found, s.qdd) < 1e-11


@pytest.mark.parametrize("method", ["cfa", "dca", "dcae"])
def test_products_of_matrices_keep_all_bits_in_single_precision(method):
    """A GPU rounds their factors to 11 bits, unless it is told not to."""
    model = kt.auto_tree(4, 1, skew=0.3)
    given = [jnp.ones(4, jnp.float32)] * 3
    text = str(jax.make_jaxpr(lambda *x: kt.forward_dynamics(model, *x, method=method))(*given))
    assert text.count("dot_general[") == text.count("precision=(Precision.HIGHEST, Precision.HIGHEST)") > 0


@cache
def arm():
    """A chain that all methods serve: model, states, accelerations and H⁻¹ by the oracle."""
    d, model, s = mechanism(2, "chain", ("Rz", "helical"))
    rng = np.random.default_rng(3)
    q, qd, tau = (x + 0.3 * rng.standard_normal((2, *x.shape)) for x in (s.q, s.qd, s.tau))
    exact = np.stack([dense.aba(d, *state) for state in zip(q, qd, tau, strict=True)]).astype(float)
    return model, tuple(map(jnp.asarray, (q, qd, tau))), exact, np.linalg.inv(dense.crba(d, q[0]).astype(float))


@over(ON_CHAINS, [*ON_CHAINS.keys() - {"aba, levels"}])
def test_under_jit_and_vmap_in_single_precision_and_by_derivative(options):
    """∂q̈/∂τ is H⁻¹; the slope by q is that of differences."""
    model, states, exact, inverse = arm()

    def solve(q, qd, tau):
        return kt.forward_dynamics(model, q, qd, tau, **options)

    weight = jnp.asarray([1.0, -2.0])

    def weighed(q, qd, tau):
        qdd = solve(q, qd, tau)
        return weight @ qdd, qdd

    both = jax.jit(jax.vmap(jax.value_and_grad(weighed, (0, 2), has_aux=True)))  # one program for all but one precision
    (_, qdd), (by_q, by_tau) = both(*states)
    assert error(qdd, exact) < 1e-11
    single = solve(*(x.astype(jnp.float32) for x in states))
    assert single.dtype == jnp.float32
    assert error(single, exact) < (1e-3 if options["method"] == "cfa" else 1e-4)  # CFA loses more digits than the rest
    q, qd, tau = (x[0] for x in states)
    assert error(by_tau[0], inverse @ np.asarray(weight)) < 1e-10
    along, h = jnp.asarray([0.3, 1.0]), 1e-5
    (_, (ahead, behind)), _ = both(jnp.stack([q + h * along, q - h * along]), *(jnp.stack([x, x]) for x in (qd, tau)))
    assert error(by_q[0] @ along, np.asarray(weight @ (ahead - behind) / (2 * h))) < 1e-6
