"""The model of several devices: against measured figures of one H200, and what it promises for more."""

import pytest

from kinetree.theory import scale


@pytest.mark.parametrize(
    ("predicted", "measured"),
    [  # seconds; benchmarks/results/h200.jsonl, and for the chain of 1 000 000 benchmarks/NOTES.md
        (scale.tree(scale.inverse_dynamics_of_tree(8), 4_000_000).total, 0.961e-3),
        (scale.tree(scale.inverse_dynamics_of_tree(8), 1_000_000).total, 0.39e-3),
        (scale.tree(scale.inverse_dynamics_of_tree(8), 100_000).total, 0.251e-3),
        (scale.batch(scale.inverse_dynamics_of_worlds(8), 2**20).total, 51.5e-6),
        (scale.batch(scale.inverse_dynamics_of_worlds(32), 2**20).total, 247e-6),
    ],
)
def test_one_device_takes_what_was_measured(predicted, measured):
    assert abs(predicted / measured - 1) < 0.25


def test_weak_scaling_over_eight_devices():
    arm, chain = scale.inverse_dynamics_of_worlds(7), scale.INVERSE_DYNAMICS_OF_TREE
    worlds = scale.weak_scaling(scale.batch(arm, 10**7), scale.batch(arm, 8 * 10**7, 8))
    bodies = scale.weak_scaling(scale.tree(chain, 10**8 / 8), scale.tree(chain, 10**8, 8))
    assert worlds >= 0.95
    assert bodies >= 0.80


def test_predictions_are_printed_in_milliseconds():
    shown = str(scale.Prediction(1.25e-3, 2.06e-4, 8.8e-5, True))
    assert shown == "1.54 ms (compute 1.25, launches 0.206, messages 0.088)"


def test_overhead_grows_with_devices_and_shrinks_with_work():
    chain = scale.INVERSE_DYNAMICS_OF_TREE

    def efficiency(bodies, devices):
        return scale.weak_scaling(scale.tree(chain, bodies / devices), scale.tree(chain, bodies, devices))

    assert efficiency(10**8, 2) > efficiency(10**8, 8) > efficiency(10**8, 64)
    assert efficiency(10**6, 8) < efficiency(10**7, 8) < efficiency(10**9, 8)
    assert scale.tree(chain, 10**9, 64).fits
    assert not scale.tree(chain, 10**9, 1).fits
    bushy = scale.tree(chain, 10**8, 8, chunks_in_a_row=2)
    assert bushy.messages < scale.tree(chain, 10**8, 8).messages


def test_no_devices_are_refused():
    with pytest.raises(ValueError, match="one device"):
        scale.batch(scale.inverse_dynamics_of_worlds(7), 10, 0)


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="work must be a Work, not a int"):
        scale.batch(3, 10)
    with pytest.raises(TypeError, match="machine must be a Machine, not a str"):
        scale.tree(scale.INVERSE_DYNAMICS_OF_TREE, 10, machine="H200")
