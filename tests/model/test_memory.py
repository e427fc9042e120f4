"""Results that can not fit raise MemoryError, which says how much was needed and what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.cli.app import run
from kinetree.model import memory
from kinetree.model.arguments import evaluate


@pytest.fixture
def little(monkeypatch):
    """A machine with 1 MB to give, where every result is asked about."""
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)


MATRICES = {
    "mass_matrix": lambda m, q: kt.mass_matrix(m, q),
    "columns": lambda m, q: kt.mass_matrix(m, q, method="columns"),
    "coriolis_matrix": lambda m, q: kt.coriolis_matrix(m, q, q),
    "inverse_dynamics_derivatives": lambda m, q: kt.inverse_dynamics_derivatives(m, q, q, q),
    "forward_dynamics_derivatives": lambda m, q: kt.forward_dynamics_derivatives(m, q, q, q),
    "inverse_dynamics_regressor": lambda m, q: kt.inverse_dynamics_regressor(m, q, q, q),
    "jsiia": lambda m, q: kt.forward_dynamics(m, q, q, q, method="jsiia"),
    "vneb": lambda m, q: kt.forward_dynamics(m, q, q, q, method="vneb"),
    "crba": lambda m, q: kt.forward_dynamics(m, q, q, q, method="crba"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_ask_first(little, name):
    model = kt.auto_tree(400, 1)
    q = np.zeros(model.nq)
    for call in (lambda: MATRICES[name](model, q), lambda: jax.jit(lambda q: MATRICES[name](model, q))(jnp.asarray(q))):
        with pytest.raises(MemoryError, match=r"needs [0-9.]+ [kMGT]B of memory, and 1 MB are left: use "):
            call()


def test_a_batch_of_small_matrices_asks_too(little):
    arm = kt.auto_tree(7, 1)
    with pytest.raises(MemoryError, match=r"10,000 of 7 × 7.*use smaller batches"):
        kt.mass_matrix(arm, np.zeros((10_000, 7)))
    kt.mass_matrix(arm, np.zeros((100, 7)))


def test_dense_forms_of_packed_matrices_ask(little):
    star = kt.auto_tree(400, 400)  # few pairs, many zeros
    H = kt.mass_matrix(star, np.zeros(400), packed=True)
    with pytest.raises(MemoryError, match=r"\.matvec"):
        H.dense()
    with pytest.raises(MemoryError, match="solve_l"):
        _ = kt.factorize(star, H).L


def test_runs_and_random_states_ask(little):
    arm = kt.auto_tree(7, 1)
    with pytest.raises(MemoryError, match="1,000,000 random states"):
        kt.random_state(arm, 0, batch=(1000, 1000))
    with pytest.raises(MemoryError, match="100,001 records"):
        kt.simulate(arm, np.zeros(7), np.zeros(7), dt=1e-3, steps=100_000)


def test_states_that_are_widened_ask(little):
    """Views of one state that stand for many take no memory yet."""
    arm = kt.auto_tree(2, 1)
    many = np.broadcast_to(np.zeros(2), (10**6, 2))
    for call in (
        lambda: kt.contacts(arm, many),
        lambda: kt.step(arm, many, many, 1e-3),
        lambda: kt.constrained_dynamics(arm, many, many),
        lambda: kt.passive_force(arm, np.zeros((10**6, 1)).repeat(2, 1), np.zeros(2)),
    ):
        with pytest.raises(
            MemoryError, match=r"a batch of 1,000,000 states needs .* of memory, .*: use smaller batches"
        ):
            call()


def test_memory_that_xla_can_not_get():
    def exhausted(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 16000000000 bytes.")

    with pytest.raises(MemoryError, match=r"a batch of 3 states does not fit: use smaller batches"):
        evaluate(exhausted, q=(np.zeros((3, 2)), (2,)))


def test_memory_that_no_machine_has():
    """Without any fixture: the real question to the real machine."""
    model = kt.auto_tree(1_000_000, 2)
    with pytest.raises(MemoryError, match=r"the mass matrix .* needs 8 TB"):
        kt.mass_matrix(model, np.zeros(model.nq))
    assert 1 < memory.available_memory() < 10**15


def test_the_command_line_says_it_in_one_line(little, capsys, tmp_path):
    assert run(["simulate", "chain:7", "--batch", "100000000", "--out", str(tmp_path / "run.npz")]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: a batch of 100,000,000 random states needs")
    assert told.count("\n") == 1


def test_groups_limit_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory._of_group() is None
    for name, text in (("max", "1000\n"), ("current", "900\n"), ("stat", "anon 1\ninactive_file 300\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory._of_group() == 400
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._of_group() is None
