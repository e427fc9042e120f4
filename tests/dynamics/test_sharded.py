"""One tree over several devices gives what one device gives."""

import re

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.tree import Tree
from kinetree.tree.clusters import divide, spines
from kinetree.tree.dealt import deal
from tests.devices import on_devices

SHAPES = {
    "chain": lambda n, rng: np.arange(-1, n - 1),
    "star": lambda n, rng: np.minimum(np.arange(n), 1) - 1,
    "caterpillar": lambda n, rng: np.maximum(np.arange(n) - 1 - (np.arange(n) + 1) % 2, -1),
    "random": lambda n, rng: np.array([-1, *(rng.integers(0, i) for i in range(1, n))]),
    "forest": lambda n, rng: np.array([-1, -1, *(rng.integers(-1, i) for i in range(2, n))]),
    "binary": lambda n, rng: (np.arange(n) + 1) // 2 - 1,
}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("n", [1, 2, 3, 50, 1000])
def test_clusters(shape, n):
    """Each hangs from one row and has one row that others hang from, at the end of its spine; loads are fair."""
    tree = Tree(SHAPES[shape](n, np.random.default_rng(0))[:n])
    for parts in range(1, 9):
        c = divide(tree, np.ones(n, int), parts)
        assert (c.parent < np.arange(len(c.parent))).all()
        above = np.where(tree.parent >= 0, c.of_row[tree.parent], -1)
        heads = np.flatnonzero((tree.parent < 0) | (above != c.of_row))
        hangs = np.stack([c.of_row[heads], tree.parent[heads]])
        assert len(np.unique(hangs, axis=1).T) == len(c.parent)  # one row for each cluster
        np.testing.assert_array_equal(above[heads], c.parent[c.of_row[heads]])
        tails = np.unique(tree.parent[heads][tree.parent[heads] >= 0])
        assert len(np.unique(c.of_row[tails])) == len(tails)
        carrying = np.isin(c.of_row, c.of_row[tails])  # the others need no spine, but may have one
        np.testing.assert_array_equal(spines(tree.parent, tails, c.of_row), c.on_spine & carrying)
        load = np.bincount(c.part[c.of_row], minlength=parts)
        assert load.max() <= np.ceil(n / parts) * (1 + 1 / 8) + 1


@pytest.mark.parametrize("shape", list(SHAPES))
def test_every_row_is_dealt_once(shape):
    n = 200
    tree = Tree(SHAPES[shape](n, np.random.default_rng(0)))
    clusters = divide(tree, np.ones(n, int), 3)
    dealt = deal(tree.parent, clusters, 3, 4)
    np.testing.assert_array_equal(np.sort(dealt.rows.at[dealt.rows.at >= 0]), np.arange(n))
    for device in range(3):
        held = dealt.rows.at[device]
        cells = np.concatenate(
            [np.full(dealt.stages.bases, -1)] + [s.rows[device].ravel() for s in dealt.stages.stages]
        )
        local = np.arange((held >= 0).sum())
        np.testing.assert_array_equal(cells[dealt.stages.position_of[device][local]], local)
        assert (cells >= 0).sum() == len(local)


DYNAMICS = """
import json, sys
import jax, numpy as np
import kinetree as kt
from tests.build import build_model
from tests.dynamics.mixed import mixed_model
from tests.dynamics.test_sharded import SHAPES
from tests.dynamics.trees import hinged
from tests.reference import generate

jax.config.update("jax_enable_x64", True)

def springy():
    model = mixed_model()
    rng = np.random.default_rng(5)
    return model.replace(damping=rng.uniform(0, 1, model.nv), stiffness=rng.uniform(0, 1, model.nv))

def chain_of_joints():
    kinds = "free", "revolute", "spherical", "prismatic", "planar"
    return build_model(generate.random_tree(np.random.default_rng(1), 40, kinds, "chain"))

def rotors():
    model = kt.auto_tree(150, 1.2, 0.3)
    return model.replace(armature=np.random.default_rng(3).uniform(0, 1, model.nv))

MODELS = {"springy": springy, "chain of joints": chain_of_joints, "rotors": rotors,
          "pieces": lambda: kt.auto_tree(301, 1, 0.3), "long": lambda: kt.auto_tree(5001, 1, 0.3)}
MODELS |= {name: lambda f=f: hinged(f(137, np.random.default_rng(0))) for name, f in SHAPES.items()}
found = {}
for case in sys.argv[2:]:
    name, devices = case.split(":")
    model = MODELS[name]()
    mesh = jax.make_mesh((int(devices),), ("tree",), devices=jax.devices()[:int(devices)])
    tree = kt.shard_tree(kt.chain_pieces(301, 7, 0.3) if name == "pieces" else model, mesh)
    q, qd = kt.random_state(model, 0)
    u = np.random.default_rng(1).uniform(-1, 1, model.nv)
    functions = [getattr(kt, f) for f in sys.argv[1].split(",")]
    pairs = [(f(tree, q, qd, u), f(model, q, qd, u)) for f in functions]
    spread = kt.inverse_dynamics(tree, *map(tree.spread, (q, qd, u)))
    pairs.append((tree.collect(spread), pairs[0][1]))
    errors = [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs]
    found[case] = max(errors), len(spread.parts.sharding.device_set)
print(json.dumps(found))
"""


def check(functions: str, *cases: str) -> None:
    found = on_devices(DYNAMICS, functions, *cases, seconds=3000)
    devices = {case: int(case.split(":")[1]) for case in cases}
    assert {case: over for case, (_, over) in found.items()} == devices
    assert not {case: error for case, (error, _) in found.items() if not error < 1e-11}


def test_dynamics_over_devices():
    """Every kind of joint with springs, on a number of devices that divides nothing."""
    check("inverse_dynamics", "springy:3")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case",
    [
        *("springy:1", "springy:3", "chain of joints:5", "rotors:4", "pieces:3", "long:8"),
        *("chain:8", "star:5", "caterpillar:7", "random:8", "forest:2", "binary:6"),
    ],
)
def test_dynamics_of_all_shapes(case):
    check("inverse_dynamics,forward_dynamics", case)


MESSAGES = """
import json
import jax, numpy as np
import kinetree as kt
from kinetree.dynamics.algorithms.rnea import RNEA

tree = kt.shard_tree(kt.auto_tree(4000, 1, 0.3), jax.make_mesh((8,), ("tree",)))
x = [tree.spread(np.zeros(4000)).parts for _ in range(3)]
text = tree.compiled(RNEA, "tau", *x).as_text()
lines = [line for line in text.splitlines() if " all-gather(" in line or " all-gather-start(" in line]
others = [word for word in ("all-reduce", "all-to-all", "collective-permute", "reduce-scatter") if f" {word}" in text]
print(json.dumps([lines, others]))
"""


@pytest.mark.thorough
def test_messages_are_few_and_small():
    """One message for each pass, of at most a hundred numbers a chunk."""
    lines, others = on_devices(MESSAGES)
    assert len(lines) == 2
    assert not others
    shapes = [[int(n) for n in re.search(r"\[([\d,]+)\]", line)[1].split(",")] for line in lines]
    assert max(np.prod(shape) for shape in shapes) <= 8 * 100


def test_what_can_not_be_divided_is_refused():
    import jax

    mesh = jax.make_mesh((1,), ("tree",))
    with pytest.raises(kt.ModelError, match="nothing moves"):
        kt.shard_tree(kt.Model.from_arrays([-1], "fixed", np.eye(6)[None], np.eye(6)[None]), mesh)
    with pytest.raises(ValueError, match="axis"):
        kt.shard_tree(kt.auto_tree(3), mesh, axis="trees")
    with pytest.raises(kt.ModelError, match="earlier piece"):
        kt.Pieces(lambda k: kt.auto_tree(3), [0])
    tree = kt.shard_tree(kt.auto_tree(3), mesh)
    with pytest.raises(ValueError, match="f_ext"):
        kt.inverse_dynamics(tree, *np.zeros((3, 3)), np.zeros((3, 6)))
    with pytest.raises(ValueError, match="one method"):
        kt.forward_dynamics(tree, *np.zeros((3, 3)), method="crba")


@pytest.mark.cpu
def test_walks_over_devices_are_native():
    """A step that is traced inside `shard_map` would meet the mesh; a walk that is not native warns."""
    tree = kt.shard_tree(kt.chain_pieces(1200, 2, 0.3), jax.make_mesh((1,), ("tree",)))
    jax.jit(lambda x: kt.forward_dynamics(tree, x, x, x)).lower(np.zeros(1200))
