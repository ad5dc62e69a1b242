"""`smolder bench`: its list, its table, its JSON and its exit status."""

import argparse
import json
import pathlib
import subprocess
import sys

import pytest

from smolder.cli import bench, bench_rows

ISSUE_ROWS = [
    "record_predicted", "record_new", "record_python", "step_2000_ops", "rebind", "compile_kernel", "plan_1000_ops",
    "first_step_cold", "first_step_warm", "chain", "softmax", "layer_norm", "column_sum", "full_sum", "cumsum", "sort",
    "index_put", "adamw", "mlp_train", "mlp_forward", "block_forward", "block_train", "conv_forward", "conv_train",
    "steps_10000",
]  # fmt: skip


def bench_with(*arguments):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return bench.run(parser.parse_args(arguments)) or 0


def test_list_names_every_row_with_what_it_measures(capsys):
    assert bench_with("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(bench_rows.ROWS)
    assert sorted(bench_rows.ROWS) == sorted(ISSUE_ROWS)
    assert all(len(line.split()) > 3 for line in lines)


def test_a_row_is_measured_beside_its_limit(tmp_path, capsys):
    out = tmp_path / "rows.json"
    assert bench_with("record_predicted", "record_new", "--quick", "--json", str(out)) == 0
    written = json.loads(out.read_text())
    assert written["machine"]["threads"] >= 1
    for row, name in zip(written["rows"], ("record_predicted", "record_new"), strict=True):
        assert row["name"] == name
        assert row["unit"] == "ns"
        assert row["error"] is None
        assert 0 < row["limit"] < row["value"] < 1e6
        assert row["share"] == pytest.approx(row["limit"] / row["value"])
        assert row["peers"] == {}
        assert 0.1 < row["ghz"] < 20
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["row", "record_predicted", "record_new", "clock:"]
    assert all(len(line) <= 100 for line in lines)


def test_a_row_that_fails_says_so_and_has_no_number(monkeypatch, tmp_path, capsys):
    def fails(context):
        raise NotImplementedError("gelu is not there")

    row = bench_rows.ROWS["chain"]
    monkeypatch.setitem(bench_rows.ROWS, "chain", bench_rows.Row(**{**vars(row), "measure": fails}))
    out = tmp_path / "rows.json"
    assert bench_with("chain", "record_predicted", "--quick", "--json", str(out)) == 1
    failed, measured = json.loads(out.read_text())["rows"]
    assert "gelu is not there" in failed["error"]
    assert failed["value"] is None and failed["limit"] is None and failed["share"] is None
    assert measured["value"] > 0
    assert "gelu is not there" in capsys.readouterr().out


def test_an_unknown_row_is_refused(capsys):
    assert bench_with("no_such_row") == 2
    assert "no_such_row" in capsys.readouterr().err


def test_the_script_of_peers_runs_alone():
    """It lies beside modules named as Python's own are, and must not import those."""
    script = pathlib.Path(bench.__file__).with_name("bench_peers.py")
    done = subprocess.run([sys.executable, script, "chain", "1", "quick"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout.splitlines()[-1])
    assert set(out["seconds"]) | set(out["errors"]) == {"torch", "compile", "jax"}
