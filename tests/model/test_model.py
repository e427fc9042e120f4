"""The model: a pytree with a static structure, its indices and names, and its size."""

import copy
import dataclasses
import pickle
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.model import Limits, Model, Spherical, auto_tree
from tests.reference import dense, generate

from .mechanisms import model_of, sample

BODY = np.array([1.0, 0.1, 0, 0, 0.1, 0.2, 0.2, 0, 0, 0])
JOINTS = ["free", "Rx", "fixed", "spherical", "planar", Spherical()]


def build(**options):
    return Model.from_arrays([-1, 0, 1, 1, 3, 0], JOINTS, np.eye(6), BODY, **options)


def test_sizes_and_indices():
    model = build(joint_names=["root", "hip", "weld", "ball", "slab", "tail"])
    assert (model.n_bodies, model.nq, model.nv) == (6, 7 + 1 + 0 + 4 + 3 + 4, 6 + 1 + 0 + 3 + 3 + 3)
    where = {"root": (0, 7, 0, 6), "hip": (7, 8, 6, 7), "weld": (8, 8, 7, 7), "ball": (8, 12, 7, 10),
             "slab": (12, 15, 10, 13), "tail": (15, 19, 13, 16)}  # fmt: skip
    for name, (a, b, c, d) in where.items():
        assert model.q_index(name) == slice(a, b)
        assert model.v_index(name) == slice(c, d)
    for index in (model.q_index, model.v_index):
        with pytest.raises(KeyError, match="no joint is called 'arm'"):
            index("arm")
    np.testing.assert_array_equal(model.parent, [-1, 0, 1, 1, 3, 0])
    np.testing.assert_array_equal(model.depth, [0, 1, 2, 2, 3, 1])
    assert "6 bodies" in repr(model)
    assert "nv=16" in repr(model)


def test_default_names():
    model = build()
    assert model.names == tuple(f"body_{i}" for i in range(6))
    assert model.joint_names == tuple(f"joint_{i}" for i in range(6))
    assert model.q_index("joint_1") == slice(7, 8)


def test_names_are_the_models_own():
    names = list("abcdef")
    model = build(names=names, joint_names=names)
    names[0] = "changed"
    assert model.names == model.joint_names == tuple("abcdef")


def test_nothing_can_be_changed():
    parent = np.arange(-1, 4)
    model = Model.from_arrays(parent, "Rz", np.eye(6), BODY)
    parent[:] = -1
    np.testing.assert_array_equal(model.parent, np.arange(-1, 4))
    with pytest.raises(ValueError, match="read-only"):
        model.parent[0] = 3
    with pytest.raises(AttributeError):
        model.gravity = 0


def test_total_mass():
    desc, model, _ = sample(0, 20, joints=generate.KINDS[:13])
    np.testing.assert_allclose(model.total_mass, float(desc.inertia[:, 5, 5].sum()), rtol=1e-14)


def test_gravity_and_inertia_can_be_replaced():
    desc, model, _ = sample(1)
    other, _, _ = sample(2)
    new = model.replace(inertia=np.asarray(other.inertia, float), gravity=(1, 2, 3))
    expected = model_of(dense.Description(desc.parent, desc.joints, desc.x_tree, other.inertia, [1, 2, 3]))
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    assert new.structure is model.structure
    tenfold = model.replace(inertia=10 * np.asarray(model.inertia.array()))
    np.testing.assert_allclose(tenfold.total_mass, 10 * model.total_mass)
    np.testing.assert_allclose(tenfold.rows.inertia.array(), 10 * model.rows.inertia.array())
    np.testing.assert_array_equal(model.gravity, np.asarray(desc.gravity, float))  # the first is as it was


# ---------------------------------------------------------------------------------------------------- as a pytree


def test_leaves_are_arrays_and_the_rest_is_static():
    model = build()
    leaves, structure = jax.tree.flatten(model)
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float64)}
    assert {len(leaf) for leaf in leaves} == {3, model.n_bodies, model.nv}
    again = jax.tree.unflatten(structure, leaves)
    assert isinstance(again, Model)
    assert again.structure is model.structure


def test_equal_structures_hash_alike():
    one, two = build(), build().replace(gravity=(0, 0, 1))
    two = Model.from_arrays(two.parent, JOINTS, np.eye(6), 2 * BODY)
    assert one.structure == two.structure
    assert hash(one.structure) == hash(two.structure)
    assert jax.tree.structure(one) == jax.tree.structure(two)
    others = [
        build(names=list("abcdef")),
        build(joint_names=list("abcdef")),
        Model.from_arrays([-1, 0, 1, 1, 3, 1], JOINTS, np.eye(6), BODY),
        Model.from_arrays([-1, 0, 1, 1, 3, 0], [*JOINTS[:5], "planar"], np.eye(6), BODY),
        Model.from_arrays([-1, 0, 1, 1, 3, 0], ["free", "Ry", *JOINTS[2:]], np.eye(6), BODY),
        Model.from_arrays([-1, 0, 1, 1, 3], JOINTS[:5], np.eye(6), BODY),
    ]
    for other in others:
        assert other.structure != one.structure
    assert one.structure != "a structure"


def test_jit_over_models_compiles_once_for_equal_structures():
    compiled = 0

    @jax.jit
    def weight(model, scale):
        nonlocal compiled
        compiled += 1
        assert model.nv == 16  # static within
        return model.total_mass * model.gravity[2] * scale

    one, two = build(), Model.from_arrays(build().parent, JOINTS, np.eye(6), 2 * BODY)
    np.testing.assert_allclose(weight(one, 1.0), one.total_mass * -9.81)
    np.testing.assert_allclose(weight(two, 1.0), two.total_mass * -9.81)
    assert compiled == 1


def test_differentiates_by_its_parameters():
    def moment(model):
        return jnp.sum(jnp.asarray(model.rows.inertia.mass) * 3.0) + jnp.asarray(model.gravity)[1]

    slope = jax.grad(moment)(jax.tree.map(jnp.asarray, build()))
    assert isinstance(slope, Model)
    np.testing.assert_array_equal(slope.rows.inertia.mass, 3)
    np.testing.assert_array_equal(slope.gravity, [0, 1, 0])


def test_models_are_double_whatever_jax_is_set_to():
    desc, model, _ = sample(3)
    with jax.enable_x64(False):
        narrow = model_of(desc)
    for a, b in zip(jax.tree.leaves(narrow), jax.tree.leaves(model), strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------------------------------------- large and small


def test_no_bodies():
    for joints in ([], "Rx"):
        model = Model.from_arrays([], joints, np.zeros((0, 6, 6)), np.zeros((0, 10)))
        assert (model.n_bodies, model.nq, model.nv) == (0, 0, 0)
        assert model.total_mass == 0


@pytest.mark.parametrize("shape", ["chain", "random", "fixed"])
def test_a_hundred_thousand_bodies(shape):
    n = 100_000
    rng = np.random.default_rng(0)
    parent = generate.tree_shape(rng, n, "chain" if shape == "fixed" else shape)
    joints = ["fixed"] * n if shape == "fixed" else [("Rz", "spherical", "fixed", "Px")[k % 4] for k in range(n)]
    joints[0] = "free"
    start = time.perf_counter()
    model = Model.from_arrays(parent, joints, np.eye(6), BODY)
    assert time.perf_counter() - start < 20  # a loop over bodies with 6x6 algebra would take minutes
    assert model.n_bodies == n
    np.testing.assert_allclose(model.total_mass, n)
    assert model.nv == (6 if shape == "fixed" else 6 + (n // 4 - 1) + 3 * (n // 4) + n // 4)
    hash(model.structure)


def test_auto_tree_is_the_oracles():
    for n, branching, skew, taper in ((1, 1, 0, 1), (12, 1, 0.3, 0.9), (15, 2, 0.2, 1), (20, 1.5, 0.3, 0.95)):
        desc = generate.auto_tree(n, branching, skew, taper)
        model, expected = auto_tree(n, branching, skew, taper), model_of(desc)
        assert model.structure == expected.structure
        for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-14)
    for wrong in ({"n": 0}, {"n": 3, "branching": 0.5}):
        with pytest.raises(ValueError, match="at least"):
            auto_tree(**wrong)


def arrays_of(model):
    """All NumPy arrays that can be reached from a model's public attributes, with their paths."""
    found = {jax.tree_util.keystr(path): x for path, x in jax.tree_util.tree_leaves_with_path(model)}
    structure, tree = model.structure, model.tree
    for owner, names in (
        (structure, ("parent", "joint_code", "row_of_body", "q_of_row", "q_start", "v_start", "neutral")),
        (structure, ("quaternion_joints",)),
        (tree, ("parent", "depth", "level_order")),
        (model, ("parent", "depth")),
        (model.coupling, ("kept_q", "kept_v", "source_q", "source_v", "ratio_q", "ratio_v", "offset_q")),
    ):
        found |= {f"{type(owner).__name__}.{name}": getattr(owner, name) for name in names}
    return found


def full_model():
    model = build(joint_names=["root", "hip", "weld", "ball", "slab", "tail"], gravity=np.array([0.0, 0.0, -9.81]))
    limits = Limits(np.zeros(model.nq), np.ones(model.nq), np.ones(model.nv), np.ones(model.nv))
    model = model.replace(damping=0.1, stiffness=0.2, armature=0.3, friction=0.4, limits=limits)
    arm = auto_tree(3).couple({"joint_2": ("joint_0", 2.0, 0.0)})
    return dataclasses.replace(model, coupling=arm.coupling)


@pytest.mark.parametrize("how", [lambda m: m, copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_arrays_of_a_model_can_not_be_written_to(how):
    for name, array in arrays_of(how(full_model())).items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
        assert array.base is None, f"{name} is a view of something that could be written to"


def test_a_model_keeps_its_numbers_when_what_it_was_made_of_is_written_to():
    n = 3
    x_tree, inertia = np.stack([np.eye(6)] * n), np.stack([BODY] * n)
    given = {"parent": np.array([-1, 0, 1]), "x_tree": x_tree, "inertia": inertia, "gravity": np.array([0, 0, -9.81])}
    model = Model.from_arrays(joints="Rx", **given)
    numbers = {k: np.full(n, 0.5) for k in ("armature", "damping", "stiffness", "rest", "friction")}
    limits = Limits(*(np.full(n, 2.0) for _ in range(4)))
    other_gravity = np.ones(3)
    model = model.replace(limits=limits, **numbers).replace(gravity=other_gravity)
    before = jax.tree.map(np.copy, jax.tree.leaves(model))
    for array in (*given.values(), *numbers.values(), *limits, other_gravity):
        assert array.flags.writeable  # the caller's arrays stay the caller's
        array[...] = 7
    for old, new in zip(before, jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_name_that_does_not_exist_is_suggested():
    model = build(names=["trunk", "thigh", "shank", "foot", "toe", "tail"])
    with pytest.raises(KeyError) as caught:
        model.body_index("Shnak")
    assert str(caught.value) == "no body is called 'Shnak': did you mean 'shank'?"
    with pytest.raises(KeyError, match="no joint is called 'joint-3': did you mean 'joint_3'"):
        model.q_index("joint-3")


def test_gravity_may_be_traced():
    model = kt.auto_tree(3, 1, 0.3)
    q, _ = kt.random_state(model, 0)

    def energy(g):
        return kt.potential_energy(model.replace(gravity=g), jnp.asarray(q))

    g = jnp.array([0.3, -0.2, -9.81])
    slope = jax.jit(jax.grad(energy))(g)  # energy is linear in g
    np.testing.assert_allclose(slope @ g, kt.potential_energy(model.replace(gravity=np.asarray(g)), q), rtol=1e-12)
    with pytest.raises(kt.ModelError, match="three numbers"):
        model.replace(gravity=jnp.zeros(2))


def test_longdouble_is_refused_by_name():
    model = kt.auto_tree(3, 1, 0.3)
    q, qd = kt.random_state(model, 0)
    with pytest.raises(TypeError, match=r"qd has type (longdouble|float128).*qd\.astype\(float\)"):
        kt.inverse_dynamics(model, q, qd.astype(np.longdouble), qd)


def test_a_notebook_shows_the_tree():
    """Every body once, children inside their parents, names of files escaped; a long chain is cut short."""
    model = kt.Model.from_arrays(
        [-1, 0, 0], "Rz", np.tile(np.eye(6), (3, 1, 1)), np.tile(np.eye(6), (3, 1, 1)), names=["a", "<b>", "c"]
    )
    text = model._repr_html_()
    assert [text.count(f"<b>{name}</b>") for name in ("a", "&lt;b&gt;", "c")] == [1, 1, 1]
    assert text.count("<ul") == text.count("</ul>") == 2
    assert "and 940 more" in kt.auto_tree(1000)._repr_html_()
