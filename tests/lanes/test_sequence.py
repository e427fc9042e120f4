"""Programs with repeats and conditions, written out for one mechanism: the same bits as the looping ones.

Their kernels are for GPUs. The text knows little of them, though: here it is compiled for the host, and run.
"""

import ctypes
import threading

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.choose import way_of
from kinetree.constrain.native import binding
from kinetree.constrain.native.joined_plan import BLOCKS, WORKS
from kinetree.constrain.native.solve import solver_of
from kinetree.lanes import Lane, Loop, Program, Repeat, Slots, written_out
from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.ptx import LAYOUT, Access, ptx
from kinetree.lanes.cuda.sequence import sequence_ptx, sequence_text
from kinetree.lanes.cuda.tile import WARP
from kinetree.lanes.program.own_constants import with_own_constants
from kinetree.lanes.program.sequence import Run, Sequenced
from kinetree.lanes.program.stored import Events
from kinetree.simulate.native import bound_to_worlds
from kinetree.simulate.native.choose import stepper_for
from kinetree.simulate.native.step import program_of
from tests.lanes.assembler import NEEDED, assemble

EXCHANGE = "llvm.nvvm.shfl.sync.idx.i32"
NUMBER, NOTHING = jax.tree.structure(0.0), jax.tree.structure(())

# Two threads meet here: each leaves its number and waits for the other's. They leave them in two places by turns, so
# that nobody writes where the other still reads.
MEETING = """
@turn = global i64 0
declare i32 @sched_yield()
define i32 @EXCHANGE(i32 %mask, i32 %value, i32 %source, i32 %all) {
  %now = load i64, ptr @turn
  %next = add i64 %now, 1
  store i64 %next, ptr @turn
  %half = and i64 %now, 1
  %first = mul i64 %half, 2
  %at = add i64 %first, THREAD
  %place = getelementptr i32, ptr inttoptr (i64 NUMBERS to ptr), i64 %at
  store i32 %value, ptr %place
  store atomic i64 %next, ptr inttoptr (i64 OWN to ptr) release, align 8
  br label %wait
wait:
  %other = load atomic i64, ptr inttoptr (i64 OTHER to ptr) acquire, align 8
  %here = icmp sge i64 %other, %next
  br i1 %here, label %met, label %again
again:
  call i32 @sched_yield()
  br label %wait
met:
  %side = and i32 %source, 1
  %wide = zext i32 %side to i64
  %from = add i64 %first, %wide
  %there = getelementptr i32, ptr inttoptr (i64 NUMBERS to ptr), i64 %from
  %found = load i32, ptr %there
  ret i32 %found
}
"""


class OnHost:
    """A kernel on the host, the threads of one lane at a time."""

    def __init__(self, program, slots, dtype, near=None):
        self.program, self.cold = program, 0 if near is None else slots - near
        text = sequence_text(program, slots, dtype, near)
        text = text.replace('target triple = "nvptx64-nvidia-cuda"', "").replace(f'target datalayout = "{LAYOUT}"', "")
        text = text.replace(" addrspace(1)", "").replace("ptx_kernel ", "")
        text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()", "load i32, ptr @block")
        self.threads = 1 + (EXCHANGE in text)
        text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()", f"add i32 0, {self.threads}")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.numbers, self.turns = (ctypes.c_int32 * 4)(), (ctypes.c_int64 * 2)()
        self.engines = [self._engine(text, thread) for thread in range(self.threads)]

    def _engine(self, text, thread):
        text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()", f"add i32 0, {thread}")
        if self.threads == 2:
            at = ctypes.addressof(self.turns)
            meeting = MEETING.replace("THREAD", str(thread)).replace("EXCHANGE", EXCHANGE)
            meeting = meeting.replace("NUMBERS", str(ctypes.addressof(self.numbers)))
            meeting = meeting.replace("OWN", str(at + 8 * thread)).replace("OTHER", str(at + 8 * (1 - thread)))
            text = text.replace(f"declare i32 @{EXCHANGE}(i32, i32, i32, i32)", "") + meeting
            text = text.replace(EXCHANGE, "exchange")  # no intrinsic of the host's
        module = llvm.parse_assembly("@block = global i32 0\n" + text)
        module.verify()
        host = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        machine = host.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        return engine

    def __call__(self, widths, constants, inputs):
        lanes, count = len(inputs[0]), len(self.program.loops)
        outputs = [np.full((lanes, w), np.nan, inputs[0].dtype) for w in widths]
        arrays = [*inputs, *outputs]
        kept = [np.ascontiguousarray(c, inputs[0].dtype) for c in constants]
        pointers = [x.ctypes.data for x in (*arrays, *kept)] + [0] * count
        numbers = [0] * count + [x.shape[1] for x in arrays] + [lanes]
        attic = np.full((-(-lanes // WARP) * WARP, self.cold), np.nan, inputs[0].dtype)
        values = [*map(ctypes.c_void_p, pointers), *map(ctypes.c_int64, numbers)]
        values += [ctypes.c_void_p(attic.ctypes.data), ctypes.c_int64(self.cold)]
        kind = ctypes.CFUNCTYPE(None, *map(type, values))

        def run(engine):
            call = kind(engine.get_function_address("kernel"))
            block = ctypes.c_int32.from_address(engine.get_global_value_address("block"))
            for block.value in range(lanes):
                call(*values)

        others = [threading.Thread(target=run, args=(engine,)) for engine in self.engines[1:]]
        for other in others:
            other.start()
        run(self.engines[0])
        for other in others:
            other.join()
        return outputs


def slot(column, offset=0):
    return Slots(column, offset, NUMBER)


def uneven(turns):
    """Lanes halve numbers until they are small, and count; then those that are not 0 are summed up in fives."""
    n = turns
    first = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, inputs=(Lane(0, 1),), writes=(slot(0),))
    clear = Loop(lambda *_: ((0.0, 1.0), (), ()), 0, NOTHING, writes=(slot(None, 0), slot(None, 1)))

    def halve(known, _, x):
        return (jnp.where(jnp.abs(x[0]) > known, 0.5 * x[0], jnp.zeros_like(x[0])),), (jnp.ones_like(x[0]),), ()

    half = Loop(halve, 1, NUMBER, reads=(slot(0),), writes=(slot(0),), adds=(slot(None, 0),), when=slot(0))
    left = Loop(lambda *_: ((0.0,), (), ()), 0, NOTHING, writes=(slot(None, 1),))
    look = Loop(lambda _, __, x: ((), (jnp.abs(x[0]),), ()), 1, NOTHING, reads=(slot(0),), adds=(slot(None, 1),))
    double = Loop(lambda _, __, x: ((x[0] + 0.25,), (), ()), 1, NOTHING, reads=(slot(0, n),), writes=(slot(0, n),))
    start = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, inputs=(Lane(0, 1),), writes=(slot(0, n),))
    some = Loop(lambda _, __, x: ((), (2 * x[0],), ()), 2, NOTHING, reads=(slot(0, n),), adds=(slot(1),), when=slot(0))
    out = Loop(lambda _, __, x: ((), (), x), 2, NOTHING, reads=(slot(0),), outputs=(Lane(0, 1),))
    body = (first, start, clear, Repeat((half, left, look, double), 1, 40), first, some, out)
    rows, at = np.arange(n), 2 + np.arange(n)
    sums = 2 + 2 * n + rows // 5
    both = np.stack([at, rows], 1)
    pairs = np.stack([at, sums], 1)
    every = np.concatenate([[0], at + n, np.unique(sums)])
    zeros = Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(slot(0),))
    tables = [both, both, np.zeros((1, 0)), at[:, None], np.zeros((1, 0)), at[:, None], at[:, None], both, pairs]
    tables = [*tables, np.stack([every, np.arange(len(every))], 1)]
    tables.insert(2, np.unique(sums)[:, None])
    body = (*body[:2], zeros, *body[2:])
    constants = [np.zeros((len(t), 0)) for t in tables]
    constants[4] = np.full((n, 1), 1e-2) + 1e-3 * rows[:, None]
    program = Program(f"uneven{n}", body, 1, 1)
    return program, 2 + 2 * n + len(np.unique(sums)), tuple(t.astype(np.int32) for t in tables), constants, len(every)


@pytest.mark.parametrize("turns", [2, 9, 40, 150])
def test_conditions_and_repeats_give_the_same_bits(turns):
    """A few turns are written out, more are chosen by masks of 32 or 64 bits of a loop, or of a run, or by a list."""
    program, slots, tables, constants, width = uneven(turns)
    x = np.random.default_rng(turns).normal(size=(5, turns)) * (np.arange(5 * turns).reshape(5, turns) % 3 > 0)
    wanted = CompiledProgram(program, "float64")(slots, (width,), tables, constants, (x,))
    for known in (tuple(constants), None):
        own = written_out(program, tables, (turns, width), known, uneven=True)
        found = OnHost(own, slots, "float64")((width,), constants, [x])
        np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize("turns", [2, 40, 150])
def test_lanes_with_constants_of_their_own(turns):
    """Constants that differ from lane to lane come by columns; the program stays written out."""
    program, slots, tables, constants, width = uneven(turns)
    x = np.random.default_rng(turns).normal(size=(5, turns))
    factors = 1 + np.arange(5.0)
    own = written_out(program, tables, (turns, width), (*constants[:4], None, *constants[5:]), uneven=True)
    own = with_own_constants(own, tuple(k == 4 for k in range(len(tables))))
    each = np.asfortranarray(factors[:, None] * constants[4].ravel())
    given = [c if k != 4 else np.zeros((turns, 0)) for k, c in enumerate(constants)]
    (found,) = OnHost(own, slots, "float64")((width,), given, [x, each])
    run = CompiledProgram(program, "float64")
    for k, factor in enumerate(factors):
        alone = [c if k != 4 else factor * c for k, c in enumerate(constants)]
        np.testing.assert_array_equal(found[k : k + 1], run(slots, (width,), tables, alone, (x[k : k + 1],))[0])


def listing(n, turns, cold=True):
    """Numbers that are not 0 are listed; loops follow the list there and back, and do all turns of a stretch."""
    first = Loop(lambda _, x, __: (x, (), ()), 2, NOTHING, inputs=(Lane(0, 1),), writes=(slot(0),))
    whole, total = (slot(column)._replace(cold=cold) for column in (0, 1))
    clear = Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(whole,))
    on = slot(None, 0)
    look = Loop(lambda _, __, x: (x, (), ()), 2, NOTHING, reads=(slot(0),), writes=(on,), lists=("some", on))

    def blend(_, __, reads):
        x, y = reads
        for k in range(1, 4):
            y = jnp.where(x != 0, 0.5 * y + k * x, y)  # of a number that is not listed nothing is left, either
        return (y,), (), ()

    def follow(backward):
        return Loop(blend, 2, NOTHING, reads=(slot(0), total), writes=(total,), follows="some", backward=backward)

    add = Loop(lambda _, __, x: ((), (3 * x[0],), ()), 2, NOTHING, reads=(slot(0),), adds=(total,), when=slot(0))
    out = Loop(lambda _, __, x: ((), (), x), 2, NOTHING, reads=(whole,), outputs=(Lane(0, 1),))
    at, sums, results = 1 + np.arange(n), 1 + n + np.arange(n) // 7, 1 + n + np.arange(-(-n // 7))
    pairs = np.stack([at, sums], 1)
    stretches = np.stack([np.repeat(at, turns), np.tile(results, n)[: n * turns]], 1)
    tables = [np.stack([at, np.arange(n)], 1), results[:, None], pairs, pairs, pairs[::-1], stretches]
    tables.append(np.stack([results, np.arange(len(results))], 1))
    program = Program("listing", (first, clear, look, follow(False), follow(True), add, out), 1, 1)
    return program, 1 + n + len(results), tuple(np.ascontiguousarray(t, np.int32) for t in tables)


@pytest.mark.parametrize(("n", "turns"), [(200, 1), (70, 3)])
def test_lists_and_stretches_give_the_same_bits(n, turns):
    program, slots, tables = listing(n, turns)
    constants, width = [np.zeros((len(t), 0)) for t in tables], len(tables[-1])
    x = np.random.default_rng(n).normal(size=(5, n)) * (np.random.default_rng(1).uniform(size=(5, n)) < 0.3)
    (wanted,) = CompiledProgram(program, "float64")(slots, (width,), tables, constants, (x,))
    own = written_out(program, tables, (n, width), tuple(constants), uneven=True)
    assert Sequenced(own, tables, slots, (30,) * len(tables)).lists == {"some"}
    assert not Sequenced(listing(n, turns, cold=False)[0], tables, slots, (30,) * len(tables)).lists
    (found,) = OnHost(own, slots, "float64")((width,), constants, [x])
    np.testing.assert_array_equal(found, wanted)


CART = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 1"/>
<body name="a" pos="0 0 0.3"><freejoint/><geom type="capsule" size="0.1" fromto="-0.2 0 0 0.2 0 0"/>
<body name="b" pos="0.3 0 0"><joint name="j" axis="0 1 0" range="-20 20" limited="true" damping="0.1"/>
<geom type="capsule" size="0.08" fromto="0 0 0 0.4 0 0"/></body>
<body name="c" pos="-0.3 0 0"><joint name="k" axis="0 1 0"/>
<geom type="sphere" size="0.1" pos="-0.2 0 0"/></body></body>
</worldbody><contact><exclude body1="a" body2="b"/><exclude body1="a" body2="c"/></contact>
<actuator><motor joint="j" gear="5"/></actuator></mujoco>"""


LEG = """<body pos="0 {y} -0.05"><joint axis="0 1 0" range="-40 40" limited="true" damping="0.1"/>
<geom type="capsule" size="0.04" fromto="0 0 0 0.1 {y} -0.2"/>
<body pos="0.1 {y} -0.2"><joint axis="0 1 0" range="-90 10" limited="true"/>
<geom type="capsule" size="0.03" fromto="0 0 0 -0.1 0 -0.2"/><geom type="sphere" size="0.05" pos="-0.1 0 -0.2"/>
</body></body>"""
WALKER = f"""<mujoco><option timestep="0.01"/><default><geom contype="1" conaffinity="0"/></default>
<worldbody><geom type="plane" size="5 5 1" conaffinity="1"/>
<body pos="0 0 0.5"><freejoint/><geom type="box" size="0.2 0.1 0.05"/>
{LEG.format(y=0.1)}{LEG.format(y=-0.12)}</body></worldbody></mujoco>"""

BALLS = "".join(
    f'<body pos="{x} {y} {0.1 + 0.02 * (k % 3)}"><freejoint/><geom size="0.1"/></body>'
    for k, (x, y) in enumerate([(0, 0), (0.15, 0), (0, 0.15), (0.15, 0.15), (0.3, 0), (0.3, 0.15)])
)
HEAP = f"""<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 1"/>{BALLS}</worldbody></mujoco>"""

EGGS = """<mujoco><option timestep="0.01"/><worldbody><geom type="ellipsoid" size="1 1 0.1"/>
<geom type="ellipsoid" size="1 1 0.1" pos="0.5 0 0"/>
<body pos="0 0 0.25"><joint type="slide"/><geom type="ellipsoid" size="0.1 0.1 0.2"/></body></worldbody></mujoco>"""


def stepper_of(text, known=True):
    model = kt.load(text)
    made = stepper_for(model, "Euler", np.float64, 0.01, False)
    assert made is not None
    native = program_of(made.variant)
    sizes = *(made.widths[name] for name in made.variant.inputs), made.width
    constants = (None, *made.constants[1:]) if known else (None,) * len(made.constants)
    return model, made, written_out(native.program, made.tables, sizes, constants, True, made.plan.mirror)


@pytest.fixture(scope="module")
def stepper():
    return stepper_of(CART)


@pytest.mark.parametrize(
    ("text", "threads", "near", "known"),
    [
        pytest.param(CART, 1, "all", True, id="cart"),
        pytest.param(CART, 1, "hot", True, id="cold slots apart"),
        pytest.param(CART, 1, "none", True, id="all slots apart"),
        pytest.param(WALKER, 2, "all", True, id="walker"),
        pytest.param(WALKER, 2, "all", False, id="numbers of the model as inputs"),
        pytest.param(HEAP, 1, "all", True, id="heap"),
        pytest.param(EGGS, 1, "all", True, id="contacts that are searched for"),
    ],
)
def test_steps_with_contact_have_the_same_bits(text, threads, near, known):
    """Two threads share a robot with two sides that are alike; slots may lie in the device's memory.

    The matrix of a heap is eliminated by lists of turns. The numbers of a model may be traced.
    """
    model, made, own = stepper_of(text, known)
    lists = Sequenced(own, made.tables, made.slots, (30,) * len(made.tables)).lists
    assert lists == (frozenset((WORKS, BLOCKS)) if text == HEAP else frozenset())
    host = OnHost(own, made.slots, "float64", {"all": None, "hot": made.plan.hot, "none": 0}[near])
    assert host.threads == threads
    assert (host.cold > 0) == (near != "all")
    rng = np.random.default_rng(0)
    state = kt.initial_state(model, batch=(6,))
    state = state.replace(qd=rng.normal(size=state.qd.shape))
    touched = False
    for _ in range(20):
        ctrl = rng.uniform(-1, 1, (6, model.nu)) if model.nu else None
        wanted = kt.advance(model, state, ctrl, substeps=3)
        given = [np.ascontiguousarray(x) for x in made.inputs(state, ctrl, None)]
        (whole,) = host((made.width,), made.constants_for(3, np.dtype("float64")), given)
        found = made.split(whole, state)
        for name in ("q", "qd", "warm_start", "time"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        touched |= bool(kt.contacts(model, wanted.q).active.any())
        state = wanted
    assert touched


def test_worlds_that_differ_have_the_same_bits(monkeypatch):
    """On a GPU steps of worlds with other masses are written out, too: two threads share a world with two sides."""
    monkeypatch.setattr(binding, "may_sequence", lambda model, known: True)
    factors = np.array([0.7, 1.0, 1.4])
    model = kt.load(WALKER)
    models = jax.vmap(lambda f: kt.scaled(model, mass=f, damping=f))(jnp.asarray(factors))
    models = jax.tree.map(np.asarray, models)
    made = bound_to_worlds(models, "Euler", np.float64, 0.01, False).stepper
    differs = [x.ndim > 2 and x.size > 0 for x in made.constants]
    assert 0 < sum(differs) < len(differs) / 2, "what all worlds share must stay shared"
    own = with_own_constants(made.own, tuple(differs))
    constants = made.constants_for(3, np.dtype("float64"))
    state = kt.initial_state(model, batch=(3,))
    state = state.replace(qd=np.random.default_rng(0).normal(size=state.qd.shape))
    wanted = kt.advance(models, state, substeps=3)
    given = [np.ascontiguousarray(x) for x in made.inputs(state, None, None)]
    given += [np.asfortranarray(x.reshape(3, -1)) for x, own in zip(made.constants, differs, strict=True) if own]
    shared = [np.zeros((x.shape[-2], 0)) if own else x for x, own in zip(constants, differs, strict=True)]
    host = OnHost(own, made.slots, "float64")
    assert host.threads == 2
    (whole,) = host((made.width,), shared, given)
    found = made.split(whole, state)
    for name in ("q", "qd", "warm_start"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert np.ptp(wanted.qd, axis=0).max() > 0.01


def test_accelerations_with_contact_have_the_same_bits(monkeypatch):
    """On a GPU solutions outside of steps are written out, too, for known models and for traced ones."""
    monkeypatch.setattr(binding, "may_sequence", lambda model, known: True)
    model = kt.load(CART)
    plan = way_of(model).plan
    state = kt.initial_state(model, batch=(4,))
    qd = np.random.default_rng(0).normal(size=state.qd.shape)
    given = np.ascontiguousarray(state.q), qd, np.zeros_like(qd)
    solver = solver_of(model, plan, np.float64, model.timestep)
    found = OnHost(solver.own, plan.slots, "float64")(solver.own.straight.widths[3:], solver.constants, given)
    wanted = solver(*given)
    for name, x in zip(solver.variant.outputs, found, strict=True):
        np.testing.assert_array_equal(x, getattr(wanted, name))
    asked = []
    jax.eval_shape(lambda own: asked.append(solver_of(own, plan, np.float64, own.timestep).own), model)
    assert asked[0].straight.hot == plan.hot
    assert [x is None for x in asked[0].straight.constants] != [x is None for x in solver.own.straight.constants]


@NEEDED
def test_the_assembler_takes_it(stepper, tmp_path):
    _, made, own = stepper
    assemble(sequence_ptx(own, made.slots, "float32").text, tmp_path)


def test_only_what_is_read_is_stored():
    events = Events()
    first, second = events.write(0, True), events.write(0, True)
    events.read(0)
    kept, changed = events.write(1, True), []
    events.cycle(lambda: (events.read(1), changed.append(events.write(1, False)), events.write(2, True)))
    maybe, last = events.write(3, True), events.write(3, False)
    events.read(3)
    assert events.needed() == {second, kept, changed[0], maybe, last}
    assert first not in events.needed()


def test_turns_that_change_what_others_find_are_not_put_together():
    def runs(reads, adds, when=0, lines=10**4):
        condition = None if when is None else slot(when)
        loop = Loop(lambda _, __, x: ((), x, ()), 3, NOTHING, reads=(reads,), adds=(adds,), when=condition)
        table = np.stack([np.arange(8), 8 + np.arange(8), np.full(8, 20)], 1)
        return Sequenced(Program("one", (loop,), 0, 0), (table,), 30, (lines,)).parts[0]

    whole = [Run(0, tuple(range(8)))]
    assert runs(slot(1), slot(2)) == whole
    assert len(runs(slot(2), slot(2))) == 8  # all of them read the sum
    assert len(runs(slot(1), slot(0, 1))) == 8  # a turn changes whether the next one is done
    assert runs(slot(0), slot(0, 1), None) == whole  # each turn needs the one before, which memory brings
    assert len(runs(slot(0), slot(0, 1), None, 400)) == 8  # short turns are written out: values stay in registers
    assert len(runs(slot(2), slot(0, 20), None)) == 8  # a turn changes what all of them share


def test_turns_of_rare_loops_are_one_text():
    """Few of them are done, so what they add to is no reason to write them apart."""

    def runs(rare):
        loop = Loop(lambda _, __, x: ((), x, ()), 3, NOTHING, (slot(1),), (), (slot(2),), when=slot(0), rare=rare)
        table = np.stack([np.arange(8), 8 + np.arange(8), 20 + np.arange(8) // 4], 1)
        return Sequenced(Program("one", (loop,), 0, 0), (table,), 30, (100,)).parts[0]

    assert runs(True) == [Run(0, tuple(range(8)))]
    assert runs(False) == [Run(0, tuple(range(4))), Run(0, tuple(range(4, 8)))]


@NEEDED
def test_the_assembler_takes_kernels_of_very_many_loops(tmp_path):
    """Their arguments take more bytes than the first versions of PTX allow."""
    loop = Loop(lambda _, inputs, __: ((), (), inputs), 1, NOTHING, inputs=(Lane(0, 0),), outputs=(Lane(0, 0),))
    assemble(ptx(Program("many", (loop,) * 201, 1, 1), "float32", 64, reach=Access.ROWS).text, tmp_path)
