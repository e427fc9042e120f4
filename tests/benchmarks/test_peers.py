"""The peers that are installed agree with kinetree on tiny trees; the others are told to be missing."""

import json

import kinetree as kt
from benchmarks.cases import Case
from benchmarks.peers import PEERS
from benchmarks.peers.__main__ import answers, main
from benchmarks.peers.description import sdf, urdf


def test_installed_peers_give_the_same_results(tmp_path):
    out = tmp_path / "records.jsonl"
    filters = [
        "tiny/inverse_dynamics/n=5/bf=1/batch=1",
        "tiny/forward_dynamics/n=12/bf=2/batch=3/float64/schedule=lanes",
    ]
    assert main(["--filter", *filters, "--seconds", "0", "--out", str(out)]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert {r["library"] for r in records} == {"kinetree", *PEERS}
    assert not [r for r in records if "failed" in r]
    answered = [r for r in records if "missing" not in r]
    assert {"kinetree", "pinocchio", "mujoco"} <= {r["library"] for r in answered}
    assert all(r["relative_error"] < 1e-12 for r in answered)


def test_pinocchio_gives_the_same_derivatives(tmp_path):
    out = tmp_path / "records.jsonl"
    assert main(["--filter", "tiny/inverse_dynamics_derivatives", "--seconds", "0", "--out", str(out)]) == 0
    (peer,) = [r for r in map(json.loads, out.read_text().splitlines()) if r["library"] == "pinocchio" and "case" in r]
    assert peer["way"] == "one by one"
    assert peer["relative_error"] < 1e-12


def test_a_filter_that_finds_nothing_says_so(capsys):
    assert main(["--filter", "million"]) == 1
    assert "no case" in capsys.readouterr().out


def test_descriptions_hold_every_joint():
    model = kt.auto_tree(5, 2.0, 0.3)
    for text in (urdf(model), sdf(model)):
        assert all(f'<joint name="{name}"' in text for name in model.joint_names)
    assert kt.load(urdf(model)).nv == model.nv


def test_a_peer_that_took_long_is_not_given_more_states():
    from benchmarks.peers import pinocchio

    slow = {("pinocchio", "inverse_dynamics", 3, 1.0): {"batch": 2, "median_s": 9.0}}
    (more,) = answers("pinocchio", pinocchio, Case("x", "inverse_dynamics", 3, 1.0, 4), 0, slow)
    assert more["skipped"] == "2 states took 9.0 s"
    (one,) = answers("pinocchio", pinocchio, Case("x", "inverse_dynamics", 3), 0, slow)
    assert one["relative_error"] < 1e-14
