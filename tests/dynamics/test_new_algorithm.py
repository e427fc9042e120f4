"""A new algorithm in a few lines of passes runs under every schedule: lengths of links, from the base and beyond."""

import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Share, Stretch
from kinetree.dynamics.schedules.choose import SCHEDULES, recorded
from kinetree.dynamics.schedules.run import run


def length(row):
    _, r = row.at
    return jnp.sqrt(r.dot(r))


def from_base(row, parent):
    return parent + length(row), {"from_base": parent + length(row)}


def beyond(row, whole):
    return whole, {"beyond": whole}


SUM = {"combine": jnp.add, "act": jnp.add, "identity": jnp.zeros_like}
OUT = Stretch(length, inverse=jnp.negative, **SUM)
OWN = Share(length, needs=("at",))
IN = Stretch(lambda row, own: own, carry=lambda X, x: x, carry_back=lambda X, x: x, **SUM)
LENGTHS = Algorithm(
    name="lengths",
    inputs=("q",),
    passes=(
        Outward("reach", from_base, link=(), outputs=("from_base",), stretch=OUT, places=True),
        Inward("length", beyond, link=(), needs=("at",), outputs=("beyond",), stretch=IN, own=OWN),
    ),
    fields={"reach": float, "length": float},
    outputs={"from_base": float, "beyond": float},
    accurate=True,
)


@pytest.mark.parametrize(("n", "batch"), [(12, 3), (1200, 1)])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_new_algorithm_runs_under_every_schedule(schedule, n, batch):
    model = kt.auto_tree(n, 1.01, 0.3)
    q = np.random.default_rng(0).uniform(-1, 1, (batch, n))
    with recorded() as ran:
        found = run(LENGTHS, model, {"q": q}, schedule=schedule)
    r = np.stack([np.asarray(x) for x in model.rows.position], -1)
    own = np.linalg.norm(r, axis=1)
    out, into = own.copy(), own.copy()
    for i, p in enumerate(model.tree.parent):
        out[i] += out[p] if p >= 0 else 0
    for i in range(n - 1, -1, -1):
        if model.tree.parent[i] >= 0:
            into[model.tree.parent[i]] += into[i]
    np.testing.assert_allclose(found["from_base"], np.broadcast_to(out, (batch, n)), rtol=1e-12)
    np.testing.assert_allclose(found["beyond"], np.broadcast_to(into, (batch, n)), rtol=1e-12)
    assert [choice.schedule for _, choice in ran] == [schedule]
    assert (ran[0][1].way == "stages") == (schedule == "paths" and n > 1000)
