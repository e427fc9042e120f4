"""What many pairs of shapes cost that are far apart, and where their points lie."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.collide import collider
from kinetree.constrain.native.looking import near_tests
from kinetree.constrain.native.memory import ACTS, coupled_memory, point_memory
from kinetree.constrain.native.plan import Plan
from kinetree.lanes import Memory
from kinetree.model.world import BOTH


@pytest.mark.parametrize("kinds", [("capsule", "capsule"), ("box", "box"), ("box", "mesh")])
def test_a_pair_that_is_far_apart_reads_one_number_and_writes_its_flags(kinds):
    """Points lie far apart in memory: of 44 551 pairs of a chain most of a step went into their distances."""
    first, *others = near_tests(kinds, BOTH, False, False)
    flags = collider(kinds, False).points
    assert first.loop.constants.num_leaves == 1
    assert first.loop.columns == 2 + flags
    for part in (first, *others):
        assert part.loop.writes == tuple(ACTS.at(2 + k, "D") for k in range(flags))


def test_points_of_many_pairs_are_placed_together(monkeypatch):
    """The layout of a point is made once for each `condim`, and slots are those that pairs would get one by one."""
    body = '<body pos="0.1 0 0"><joint axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 0" {}/>'
    dims = "".join(body.format(f'condim="{(1, 3, 6)[k % 3]}"') for k in range(12))
    text = f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{dims}{"</body>" * 12}</worldbody></mujoco>'
    model = kt.load(text)
    made, make = [], Memory.__init__
    monkeypatch.setattr(Memory, "__init__", lambda *one, **fields: (made.append(fields), make(*one, **fields))[1])
    plan = Plan(model)
    assert len(made) <= 2 * 3
    at = plan.point(0)
    for both in (False, True):
        for pair, numbers in zip(plan.pairs, plan.points_of_pair, strict=True):
            if (pair.moving == BOTH) == both:
                size = (coupled_memory if both else point_memory)(pair.condim).size
                np.testing.assert_array_equal(plan.point(numbers), at + size * np.arange(len(numbers)))
                at += size * len(numbers)
        assert both or plan.hot == at
    assert plan.world.scene is not None
    bodies, rows = plan.world.scene.layout.bodies, plan.structure.row_of_body
    for which in (0, 1):
        shapes = [(p.first, p.second)[which if p.moving == BOTH else p.moving] for p in plan.pairs]
        own = [rows[bodies[i]] for i in shapes]
        np.testing.assert_array_equal(plan.rows_of_pair(range(len(plan.pairs)), which), own)


def test_a_heap_of_many_bodies_goes_by_a_matrix():
    """Conjugate gradients take a turn for each direction of contact: twice the time for 30 bodies."""
    bodies = "".join(f'<body pos="{0.3 * k} 0 0.1"><freejoint/><geom size="0.1"/></body>' for k in range(30))
    plan = Plan(kt.load(f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'))
    assert plan.joined is not None


def test_robots_that_touch_go_by_conjugate_gradients():
    """They touch in few points: a matrix of all their rows takes twice the time."""

    def plan(robots, boxes, hinges=15):
        bone = '<geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.1"/>'
        limbs = f'<body pos="0 0 0.1"><joint axis="0 1 0"/>{bone}' * hinges + "</body>" * hinges
        robot = f'<body pos="{{}} 0 0.1"><freejoint/>{bone}{limbs}</body>'
        box = '<body pos="0 {} 1"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>'
        bodies = "".join([robot.format(k) for k in range(robots)] + [box.format(k) for k in range(boxes)])
        return Plan(kt.load(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"))

    assert plan(2, 0).joined is None
    assert plan(1, 1).joined is None
    assert plan(4, 0).joined is not None  # in a pile of robots many points act
    assert plan(1, 2).joined is not None
    assert plan(1, 1, hinges=8).joined is not None
