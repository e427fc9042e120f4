"""kinetree.explain says which way each function goes. What really ran is looked up in three independent places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules.choose import recorded
from kinetree.lanes.cpu.compiled import CompiledProgram
from tests.constrain.agreement import compiled, ours

BALL = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 1"><freejoint/><geom size="0.1"/></body>
{more}</worldbody></mujoco>"""
BOUNDED = """<body pos="1 0 1"><joint name="j" actuatorfrcrange="-1 1"/><site name="s"/><geom size="0.1"/></body>
</worldbody><actuator><motor joint="j"/><motor site="s"/></actuator><worldbody>"""
LINK = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
HINGE = '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{2}"/><axis xyz="0 1 0"/>{3}</joint>'
FINGER = "".join(
    ["<robot name='finger'>", *map(LINK.format, "abc"), HINGE.format("j", "a", "b", ""),
     HINGE.format("k", "b", "c", '<mimic joint="j" multiplier="0.5"/>'), "</robot>"]
)  # fmt: skip

MAKERS = {
    "arm": lambda: kt.auto_tree(4, 1, 0.3),
    "tree": lambda: kt.auto_tree(12, 2, 0.3),
    "ball": lambda: ours(compiled(BALL.format(more=""))),
    "bounded": lambda: ours(compiled(BALL.format(more=BOUNDED))),
    "finger": lambda: kt.load(FINGER),
}
NATIVE = ("arm", "tree", "ball")  # Native code serves their steps and constraints; XLA's would take long to compile.


def calls(model):
    """Public functions, as functions of q and of something with nv numbers; and how the record calls them."""

    def state(q, x):
        zeros = x[..., :0], x[..., 0]
        return kt.State(q, x, zeros[0][..., : model.na], zeros[1], x)

    return {
        "inverse_dynamics": (lambda q, x: kt.inverse_dynamics.__wrapped__(model, q, x, x), "rnea"),
        "forward_dynamics": (lambda q, x: kt.forward_dynamics.__wrapped__(model, q, x, x), "forward_dynamics"),
        "mass_matrix": (lambda q, x: kt.mass_matrix.__wrapped__(model, q), "mass matrix"),
        "forward_kinematics": (lambda q, x: kt.forward_kinematics.__wrapped__(model, q), "kinematics"),
        "jacobian": (lambda q, x: kt.jacobian.__wrapped__(model, q, 0), "jacobian"),
        "inverse_dynamics_derivatives": (
            lambda q, x: kt.inverse_dynamics_derivatives.__wrapped__(model, q, x, x),
            "inverse_dynamics_derivatives",
        ),
        "forward_dynamics_derivatives": (
            lambda q, x: kt.forward_dynamics_derivatives.__wrapped__(model, q, x, x),
            "forward_dynamics_derivatives",
        ),
        "constrained_dynamics": (lambda q, x: kt.constrained_dynamics(model, q, x, x), "constrained_dynamics"),
        "constrained_inverse_dynamics": (
            lambda q, x: kt.constrained_inverse_dynamics(model, q, x, x),
            "constrained_inverse_dynamics",
        ),
        "contacts": (lambda q, x: kt.contacts(model, q), "contacts"),
        "advance": (lambda q, x: kt.advance(model, state(q, x)), "advance"),
        "rollout": (lambda q, x: kt.rollout(model, state(q, x), steps=2)[0], "rollout"),
    }


def programs_in(jaxpr):
    """Names of the lane programs that a traced function would run in native code."""
    found = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name.startswith("kinetree_lanes"):
            found.add(equation.params["bound"].program.name)
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                found |= programs_in(inner)
    return found


@pytest.fixture
def machine(monkeypatch):
    """Names of the compiled programs that ran on NumPy arrays, seen where machine code is called."""
    ran, frames, bound = set(), CompiledProgram.frames, CompiledProgram.bound

    def seen(self, *args, **options):
        ran.add(self.code.name.rsplit("-", 1)[0])
        return frames(self, *args, **options)

    def watched(self, *args, **options):
        """A builtin that is seen where it answers."""
        builtin = bound(self, *args, **options)

        def call(*arrays):
            found = builtin(*arrays)
            if found is not None:
                ran.add(self.code.name.rsplit("-", 1)[0])
            return found

        return None if builtin is None else call

    monkeypatch.setattr(CompiledProgram, "frames", seen)
    monkeypatch.setattr(CompiledProgram, "bound", watched)
    return ran


SOLVERS = {  # The beginnings of the names of their programs.
    "constrained_dynamics": "constrained_dynamics",
    "constrained_inverse_dynamics": "constrained_forces",
    "contacts": "constrained_contacts",
    "advance": "step_",
    "rollout": "step_",
}


CASES = [
    (name, arrays) for name in MAKERS for arrays in ("numpy", "jax", "traced") if (name, arrays) != ("bounded", "jax")
]


@pytest.mark.cpu
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(("name", "arrays"), CASES)
def test_what_runs_is_what_is_explained(name, arrays, batch, machine):
    """Some 280 calls of twelve functions: the choice, the record, and the programs that run or would run."""
    compared = 0
    for function in calls(MAKERS[name]()):
        if function in SOLVERS and arrays != "traced" and name not in NATIVE:
            continue
        if arrays == "jax" and function not in SOLVERS and name not in ("arm", "finger"):
            continue  # Other robots only take longer to compile.
        model = MAKERS[name]()  # A new one: plain calls that were made before are not recorded.
        call, noted = calls(model)[function]
        q = np.broadcast_to(kt.neutral(model), (batch, model.nq)).copy()
        x = np.zeros((batch, model.nv))
        machine.clear()
        with recorded() as ran:
            if arrays == "traced":
                programs = programs_in(jax.make_jaxpr(call)(q, x).jaxpr)
            else:
                call(*(map(jnp.asarray, (q, x)) if arrays == "jax" else (q, x)))
                programs = set(machine)
        said = getattr(kt.explain(model, batch, arrays=arrays), function)
        noted = {"aba", "aba_checked", "forward_dynamics"} if function == "forward_dynamics" else {noted}
        noted |= {"advance"} if function == "rollout" else set()
        choice = next(c for n, c in ran if n in noted)
        if function == "rollout" and arrays == "traced":
            assert choice.body == said.body  # Bound before: the reason is another.
        else:
            assert choice == said, function
        if arrays != "jax":
            own = {p for p in programs if p.startswith(SOLVERS.get(function, ""))}
            assert bool(own) == (said.body == "native"), (function, programs)
        compared += 1
    assert compared >= 3


@pytest.mark.cpu
def test_what_serves_and_why():
    alone = MAKERS["ball"]()
    said = kt.explain(alone)
    assert said.constrained_dynamics.plan is not None
    assert said.advance.plan is not None
    assert "constrained_dynamics: native lanes" in str(said)
    assert "rollout: native lanes: a lane to a world, all steps in one call" in str(said)
    said = str(kt.explain(MAKERS["bounded"]()))
    assert "  advance: XLA: a joint bounds the sum of its actuators, and one acts on a site" in said
    said = str(kt.explain(MAKERS["finger"]()))
    assert "forward_dynamics: aba, lanes (lanes, native, shared program): joints that follow one another hang" in said
    assert "  advance: native lanes: a lane to a world" in said
    assert "  constrained_dynamics: native lanes: a lane to a world" in said
    assert "  contacts: XLA: nothing can touch" in said


@pytest.mark.cpu
def test_arrays_and_types_are_facts_of_the_call():
    arm = MAKERS["arm"]()
    assert "float16" in kt.explain(arm, dtype=np.float16).advance.reason
    assert kt.explain(arm, 5000, arrays="traced").inverse_dynamics.program == "written out"
    with pytest.raises(ValueError, match="did you mean 'numpy'"):
        kt.explain(arm, arrays="nunpy")
