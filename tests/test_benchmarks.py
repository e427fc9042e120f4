"""One tiny case of each algorithm through the benchmark runner."""

import json

from benchmarks.__main__ import main
from benchmarks.cases import CASES


def test_the_runner_writes_a_record_for_each_chosen_case(tmp_path, capsys):
    out = tmp_path / "records.jsonl"
    assert main(["--filter", "tiny/", "--seconds", "0", "--out", str(out)]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == sum("tiny/" in case.name for case in CASES) == 4
    assert all(r["median_s"] > 0 and r["commit"] is not None and r["fraction_of_copy_bandwidth"] > 0 for r in records)
    assert main(["--filter", "no such case"]) == 1
    assert "no case" in capsys.readouterr().out


def test_names_of_cases_are_different():
    assert len({case.name for case in CASES}) == len(CASES)
