"""kinetree.explain says what solves for constraints and makes steps."""

import kinetree as kt
from tests.constrain.agreement import compiled, ours

BALL = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 1"><freejoint/><geom size="0.1"/></body>
{more}</worldbody></mujoco>"""


def test_what_serves_and_why():
    alone = ours(compiled(BALL.format(more="")))
    said = kt.explain(alone)
    assert said.constrained_dynamics.plan is not None
    assert said.advance.plan is not None
    assert "constrained_dynamics: native lanes" in str(said)
    sprung = '<body pos="1 0 1"><joint type="ball" stiffness="1"/><geom size="0.1"/></body>'
    said = str(kt.explain(ours(compiled(BALL.format(more=sprung)))))
    assert "  advance: XLA: a ball or free joint has a spring" in said
