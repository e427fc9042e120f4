"""Constraints on plain NumPy arrays: a builtin answers, with the same numbers for every form of a batch."""

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.choose import native_for
from kinetree.constrain.native.solve import BUILTIN
from kinetree.lanes.cpu import direct
from tests.constrain.agreement import compiled, ours

pytestmark = pytest.mark.skipif(not direct.available(), reason="no direct calls in this interpreter")

SCENE = """<mujoco><worldbody><geom type="plane" size="0 0 1"/>
<body pos="0 0 0.09"><freejoint/><geom size="0.1"/>
  <body pos="0.3 0 0"><joint axis="0 1 0" range="-40 40" damping="0.1"/><geom size="0.05"/></body></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def scene():
    """A model, and six states: some touch the floor, some are far above it."""
    model = ours(compiled(SCENE))
    rng = np.random.default_rng(0)
    q = np.tile(kt.initial_state(model).q, (6, 1))
    q[:, 2] += np.arange(6) * 0.01
    q[4:, 2] += 10
    return model, q, rng.standard_normal((6, model.nv)), rng.standard_normal((6, model.nv))


def without_bodies(found):
    """What has axes of states; the list of bodies has none."""
    return found._replace(contacts=found.contacts._replace(bodies=()))


CALLS = {
    "dynamics": lambda m, *given: without_bodies(kt.constrained_dynamics(m, *given)),
    "inverse": lambda m, *given: kt.constrained_inverse_dynamics(m, *given),
    "contacts": lambda m, q, *_: kt.contacts(m, q)._replace(bodies=()),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_form_of_a_batch(scene, name):
    model, *given = scene
    call = CALLS[name]
    whole = call(model, *given)

    def agrees(found, of):
        for a, b in zip(jax.tree.leaves(found), map(of, jax.tree.leaves(whole)), strict=True):
            assert type(a) is np.ndarray
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_array_equal(a, b)

    if name != "inverse":
        depth = (whole.contacts if name == "dynamics" else whole).depth
        assert np.isneginf(depth).any()  # what is far is not near by any number
    agrees(call(model, *(x[1] for x in given)), lambda x: x[1])
    agrees(call(model, *(x[5] for x in given)), lambda x: x[5])
    agrees(call(model, *(x.reshape(2, 3, -1) for x in given)), lambda x: x.reshape(2, 3, *x.shape[1:]))
    agrees(call(model, *(x.reshape(2, 3, -1)[:, 1] for x in given)), lambda x: x.reshape(2, 3, *x.shape[1:])[:, 1])
    agrees(call(model, *(x[::-1] for x in given)), lambda x: x[::-1])
    agrees(call(model, *(x[:0] for x in given)), lambda x: x[:0])
    agrees(call(model, *(x[2].tolist() for x in given)), lambda x: x[2])


def test_a_builtin_answers(scene):
    model, *given = scene
    kt.constrained_dynamics(model, *given)
    _, solver = native_for(model, np.dtype(float), external=False, warm=False)
    assert vars(solver)[BUILTIN](*given) is not None


def test_numbers_that_are_not_finite_are_told(scene):
    model, q, qd, tau = scene
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="constrained_dynamics"):
            kt.constrained_dynamics(model, q[0], qd[0], np.full_like(tau[0], bad))
