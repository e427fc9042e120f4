"""The native bodies against the XLA body, on programs of the library and on small ones made to break them."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import Lane, Loop, Memory, Program, tuning, written_out
from kinetree.lanes.cpu.compiled import CompiledProgram, module_text
from kinetree.lanes.cpu.host import optimized, this_processor
from kinetree.lanes.cpu.threads import set_threads
from kinetree.lanes.cuda.ptx import Access, local_slots, ptx, reach_of
from kinetree.lanes.cuda.tile import block_size, tile_bytes
from kinetree.lanes.kept.cache import entry_name
from kinetree.lanes.kept.content import describe
from kinetree.lanes.kept.notice import forget_warnings
from kinetree.lanes.primitive import run
from kinetree.lanes.program import xla
from kinetree.lanes.program.woven import woven_program
from kinetree.lanes.target import compiled as native
from tests.build import build_model
from tests.dynamics.programs import rnea_lanes
from tests.lanes.assembler import assemble
from tests.reference import generate

NOTHING = jax.tree.structure(())
ONE_TURN = (np.zeros((1, 1), np.int32),)


def elementwise(name, function, n_inputs=1):
    """A program of one turn: outputs[0] = function(inputs)."""
    inputs = tuple(Lane(k, 0) for k in range(n_inputs))
    loop = Loop(lambda _, x, __: ((), (), (function(*x),)), 1, NOTHING, inputs=inputs, outputs=(Lane(0, 0),))
    return Program(name, (loop,), n_inputs, 1)


def both_bodies(program, *columns):
    """Results of the native and of the XLA body on one column of numbers each."""
    inputs = tuple(c[:, None] for c in columns)
    constants = (np.zeros((1, 0), columns[0].dtype),)
    compiled = CompiledProgram(program, columns[0].dtype)
    ours = compiled(1, (1,), ONE_TURN, constants, inputs)[0]
    theirs = xla.run(program, 1, (1,), ONE_TURN, constants, inputs)[0]
    return ours[:, 0], np.asarray(theirs)[:, 0]


PRIMITIVES = {
    "add": (lambda a, b: a + b, 2),
    "sub": (lambda a, b: a - b, 2),
    "mul": (lambda a, b: a * b, 2),
    "div": (lambda a, b: a / b, 2),
    "neg": (lambda a: -a, 1),
    "sqrt": (lambda a: jnp.sqrt(jnp.abs(a)), 1),
    "rsqrt": (lambda a: jax.lax.rsqrt(jnp.abs(a) + 1), 1),
    "floor": (jnp.floor, 1),
    "ceil": (jnp.ceil, 1),
    "max": (jnp.maximum, 2),
    "min": (jnp.minimum, 2),
    "sign": (jnp.sign, 1),
    "square": (jnp.square, 1),
    "power": (lambda a: a**5 + a**-3, 1),
    "select": (lambda a, b: jnp.where((a < b) & ~(a > 0.5) | (b == 0), a, b), 2),
    "compare": (lambda a, b: jnp.where(a != b, a, b) + jnp.where(a <= b, 1.0, 0.0) * jnp.where(a >= b, 0.0, 2.0), 2),
    "convert": (lambda a, b: (a > b).astype(a.dtype) + (3 * a).astype(jnp.int32).astype(a.dtype), 2),
    "inner jit": (lambda a, b: jax.jit(lambda x: x * b + 1)(a), 2),
    "literal": (lambda a: a * 0.1 + 1 / 3, 1),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_agree_with_xla(name, dtype):
    function, count = PRIMITIVES[name]
    rng = np.random.default_rng(1)
    columns = [rng.uniform(-3, 3, 37).astype(dtype) for _ in range(count)]
    columns[0][:3] = [0.0, -0.0, 1.0]
    ours, theirs = both_bodies(elementwise(f"test_{name.replace(' ', '_')}", function, count), *columns)
    np.testing.assert_array_max_ulp(ours, theirs, maxulp=4)  # products inside sums are rounded once here


@pytest.mark.parametrize(("dtype", "decades"), [(np.float64, 308), (np.float32, 38)])
def test_sine_and_cosine_are_right_for_every_finite_argument(dtype, decades):
    import mpmath

    rng = np.random.default_rng(2)
    hard = [6381956970095103 * 2.0**797, 5.319372648326541e255, 1e22] if dtype == np.float64 else [16367173 * 2.0**72]
    x = np.concatenate(
        [
            rng.uniform(-7, 7, 200),
            rng.uniform(-2e5, 2e5, 200),
            10 ** rng.uniform(-3, decades, 300) * rng.choice([-1, 1], 300),
            [0.0, np.pi, np.pi / 2, -np.pi / 4, *hard],
        ]
    ).astype(dtype)
    with mpmath.workprec(1400):
        for function, exact in ((jnp.sin, mpmath.sin), (jnp.cos, mpmath.cos)):
            ours, _ = both_bodies(elementwise(f"test_{function.__name__}", function), x)
            for value, argument in zip(ours, x, strict=True):
                truth = exact(mpmath.mpf(float(argument)))
                ulp = np.spacing(np.abs(dtype(float(truth))))
                assert abs(mpmath.mpf(float(value)) - truth) <= 2 * float(ulp), (function.__name__, argument)
    for bad in (np.inf, -np.inf, np.nan):
        assert np.isnan(both_bodies(elementwise("test_sin", jnp.sin), np.array([bad, 1.0], dtype))[0][0])


def test_a_product_in_a_sum_is_rounded_once():
    a = np.array([1 + 2.0**-30])
    fused, _ = both_bodies(elementwise("test_fma", lambda x: x * x - 1), a)
    assert fused[0] == 2.0**-29 + 2.0**-60  # a separate product would lose the last term


@pytest.mark.cpu
def test_an_unknown_primitive_falls_back_to_xla():
    program = elementwise("test_unknown", lambda x: jax.lax.lgamma(x))
    forget_warnings()
    with pytest.warns(RuntimeWarning, match="test_unknown in XLA instead of native code.*do not know lgamma"):
        assert native(program, "float64") is None
    x = np.array([[0.5], [3.0]])
    result = run(program, 1, (1,), ONE_TURN, (np.zeros((1, 0)),), (x,))[0]
    np.testing.assert_allclose(np.asarray(result)[:, 0], [0.5723649429247001, 0.6931471805599453], rtol=1e-14)


def test_xla_bodies_keep_64_bits_in_the_mode_of_32(monkeypatch):
    """Where native code can not serve: the bodies make new arrays, which 32-bit mode would make narrow."""
    arm = kt.auto_tree(3, 1, 0.3)
    q = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    wanted = kt.gravity_force(arm, np.asarray(q))
    monkeypatch.setenv("KINETREE_NATIVE", "0")
    with jax.enable_x64(False):
        found = jax.jit(lambda q: kt.gravity_force(arm, q))(q)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("lanes", [1, 3, 8, 9, 100, 1000])
def test_every_number_of_lanes(lanes):
    model = kt.auto_tree(5, 2, 0.3)
    x = np.random.default_rng(lanes).uniform(-1, 1, (3, lanes, 5))
    ours = kt.inverse_dynamics(model, *x, schedule="lanes")
    np.testing.assert_allclose(ours, kt.inverse_dynamics(model, *x, schedule="levels"), rtol=0, atol=1e-12)
    one_by_one = [kt.inverse_dynamics(model, *x[:, k], schedule="lanes") for k in range(min(lanes, 5))]
    np.testing.assert_array_equal(ours[: len(one_by_one)], one_by_one)  # vectors and scalars give the same bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("external", [False, True])
def test_jit_and_numpy_give_the_same_bits(dtype, external):
    rng = np.random.default_rng(3)
    description = generate.random_tree(rng, 9, order="random")
    model = build_model(description)
    states = [generate.random_state(rng, description) for _ in range(11)]
    given = [np.stack([getattr(s, k) for s in states]).astype(dtype) for k in ("q", "qd", "qdd")]
    if external:
        given.append(np.stack([s.f_ext for s in states]).astype(dtype))
    by_numpy = kt.inverse_dynamics(model, *given, schedule="lanes")
    by_jit = jax.jit(lambda *a: kt.inverse_dynamics(model, *a, schedule="lanes"))(*map(jnp.asarray, given))
    assert by_jit.dtype == by_numpy.dtype == dtype
    np.testing.assert_array_equal(by_numpy, np.asarray(by_jit))


def test_vmap_and_nested_vmap_are_lanes():
    model = kt.auto_tree(6, 2, 0.3)
    x = [jnp.asarray(a) for a in np.random.default_rng(4).uniform(-1, 1, (3, 2, 5, 6))]

    def function(*a):
        return kt.inverse_dynamics(model, *a, schedule="lanes")

    expected = np.asarray(function(*x))
    np.testing.assert_array_equal(np.asarray(jax.vmap(jax.vmap(function))(*x)), expected)
    shared = jax.vmap(function, (0, None, 0))(x[0][0], x[1][0, 0], x[2][0])
    np.testing.assert_array_equal(np.asarray(shared), np.asarray(function(x[0][0], x[1][0, 0], x[2][0])))
    calls = str(jax.make_jaxpr(jax.vmap(jax.vmap(function)))(*x))
    assert calls.count("kinetree_lanes[") == 1
    assert "[10,6]" in calls


def test_derivatives_pass_through():
    model = kt.auto_tree(4, 2, 0.3)
    q, qd, qdd = (jnp.asarray(a) for a in np.random.default_rng(5).uniform(-1, 1, (3, 4)))
    H = jax.jacfwd(lambda a: kt.inverse_dynamics(model, q, qd, a, schedule="lanes"))(qdd)
    K = jax.jacrev(lambda a: kt.inverse_dynamics(model, q, qd, a, schedule="lanes"))(qdd)
    np.testing.assert_allclose(H, K, atol=1e-12)
    np.testing.assert_allclose(H, H.T, atol=1e-12)


def test_steps_are_vectorised():
    """The assembly of RNEA holds packed multiply-adds and hardly any scalar ones."""
    own = this_processor()
    if own.vector_bytes < 32 or "fma" not in own.features:
        pytest.skip("this host has no wide vectors")
    text = module_text(rnea_lanes(False, False).program, np.dtype(np.float64), own.width(np.dtype(np.float64)))
    vector_only = re.sub(r"define (i1 @lane\(.*?\)) {\n.*?\n}\n", r"declare \1\n", text, flags=re.DOTALL)
    assembly = (machine := own.machine()).emit_assembly(optimized(vector_only, machine))
    packed, single = len(re.findall(r"\bvf[a-z0-9]+pd\b", assembly)), len(re.findall(r"\bvf[a-z0-9]+sd\b", assembly))
    assert packed > 100
    assert single < packed / 20


def test_variants_of_one_algorithm_have_their_own_entries():
    programs = [rnea_lanes(q, e).program for q in (False, True) for e in (False, True)]
    assert len({describe(p) for p in programs}) == 4
    assert len({entry_name(p.name, p, np.dtype(np.float64), "here", lambda: "") for p in programs}) == 4


def test_many_callers_and_thread_counts_agree():
    model = kt.auto_tree(20, 2, 0.3)
    x = np.random.default_rng(6).uniform(-1, 1, (3, 6000, 20))
    expected = kt.inverse_dynamics(model, *x, schedule="lanes")
    try:
        for count in (1, 2, 5):
            set_threads(count)
            np.testing.assert_array_equal(kt.inverse_dynamics(model, *x, schedule="lanes"), expected)
        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(lambda _: kt.inverse_dynamics(model, *x, schedule="lanes"), range(8)):
                np.testing.assert_array_equal(result, expected)
    finally:
        set_threads(None)
    with pytest.raises(ValueError, match="at least one"):
        set_threads(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_can_compute():
    code = """
import os, numpy as np, kinetree as kt
model = kt.auto_tree(20, 2, 0.3)
x = np.random.default_rng(0).uniform(-1, 1, (3, 6000, 20))
a = kt.inverse_dynamics(model, *x, schedule="lanes")
child = os.fork()
if child == 0:
    b = kt.inverse_dynamics(model, *x, schedule="lanes")
    os._exit(0 if (a == b).all() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


def test_slots_written_then_added_to_match_an_interpreter():
    memory = Memory(total=0.0)
    start = Loop(lambda c, _, __: ((c,), (), ()), 2, jax.tree.structure(0.0), writes=(memory.at(0, "total"),))
    gather = Loop(
        lambda _, x, reads: ((), (x[0] + 2 * reads[0],), (reads[0],)),
        2,
        NOTHING,
        reads=(memory.at(1, "total"),),
        adds=(memory.at(0, "total"),),
        inputs=(Lane(0, 1),),
        outputs=(Lane(0, 1),),
    )
    program = Program("test_adds", (start, gather), 1, 1)
    tables = (np.array([[0, 0], [1, 0], [2, 0]], np.int32), np.array([[0, 1], [1, 2], [0, 2]], np.int32))
    constants = (np.array([[1.0], [2.0], [3.0]]), np.zeros((3, 0)))
    x = np.random.default_rng(7).normal(size=(21, 3))
    slots, expected = np.tile([1.0, 2.0, 3.0], (21, 1)), np.zeros((21, 3))
    for to, source in tables[1]:
        expected[:, source] = slots[:, source]
        slots[:, to] += x[:, source] + 2 * slots[:, source]
    for body in (CompiledProgram(program, np.float64), lambda *a: xla.run(program, *a)):
        result = np.asarray(body(3, (3,), tables, constants, (x,))[0])
        np.testing.assert_allclose(result[:, 1:], expected[:, 1:], rtol=1e-15)  # column 0 is never written


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reach", [Access.TILE, Access.COLUMNS])
@pytest.mark.parametrize("in_local_memory", [True, False])
def test_kernels_are_accepted_by_the_assembler(dtype, in_local_memory, reach, tmp_path):
    algorithm = rnea_lanes(True, True)
    for program in (algorithm.program, woven_program(algorithm.program)):
        text = ptx(program, dtype, 1000 if in_local_memory else 0, reach=reach).text
        assert ".entry kernel(" in text
        assert (".local" in text) == in_local_memory
        assert ("cp.async" in text) == (reach is Access.TILE)
        assemble(text, tmp_path)


def test_how_a_thread_reaches_its_numbers():
    """Short rows of a program written out whole, long ones through shared memory, too long ones by columns."""
    program = rnea_lanes(False, False).program
    tables = tuple(table for table, _ in rnea_lanes(False, False).turns(kt.auto_tree(8).structure))
    assert reach_of(written_out(program, tables, (8,) * 4, None), (8,) * 4, 4) is Access.ROWS
    for size in (4, 8):
        most = tuning.GPU_TILE_BYTES // tile_bytes(1, size, 32)  # columns whose rows of one warp fit
        assert reach_of(program, (8,) * 4, size) is Access.TILE
        assert reach_of(program, (most - 3, 1, 1, 1), size) is Access.TILE
        assert reach_of(program, (most - 2, 1, 1, 1), size) is Access.COLUMNS
        for columns in (1, 32, most // 2, most):
            threads = block_size(columns, size)
            assert threads % 32 == 0
            assert 0 < tile_bytes(columns, size, threads) <= 48 * 1024  # what each GPU gives a block
        assert block_size(most + 1, size) == 0


def test_kernels_are_shared_by_robots_of_about_one_size():
    assert local_slots(1000, np.float32) == local_slots(990, np.float32) >= 1000
    assert local_slots(10**6, np.float32) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("slots", [0, 1, 2, 3, 4])
def test_a_mechanism_of_one_row_has_a_kernel(slots, dtype, tmp_path, monkeypatch):
    """A program written out, or a toy, may name fewer slots than a size that kernels are rounded to."""
    monkeypatch.setenv("KINETREE_CACHE", str(tmp_path))
    room = local_slots(slots, dtype)
    assert room >= max(slots, 1)
    text = ptx(elementwise("test_one_row", jnp.sin), dtype, room).text
    assemble(text, tmp_path)
    one = kt.auto_tree(1)
    algorithm = rnea_lanes(False, False)
    tables = tuple(table for table, _ in algorithm.turns(one.structure))
    program = written_out(algorithm.program, tables, (1,) * 4, None)
    assemble(ptx(program, dtype, room, reach=reach_of(program, (1,) * 4, np.dtype(dtype).itemsize)).text, tmp_path)
