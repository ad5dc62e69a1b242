"""`smolder bench --traces`: what traces take, beside a baseline."""

import json
from pathlib import Path

import pytest
from conftest import of_the_cpu

import smolder
from smolder import _trace_file, cli
from smolder.cli import bench_traces

pytestmark = of_the_cpu("traces of the host's steps")
FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "traces"


@pytest.fixture
def folder(tmp_path):
    x = smolder.randn(64, 32)
    smolder.mark_step()
    for name, function in (("sums", lambda: x.sum()), ("exps", lambda: x.exp())):
        with smolder.record_trace(tmp_path / f"{name}.trace"):
            held = function()  # noqa: F841 - alive when the step ends
            smolder.mark_step()
    return tmp_path


def bench(capsys, *arguments):
    status = cli.main(["bench", "--traces", "--quick", *map(str, arguments)])
    out = capsys.readouterr()
    return status, out.out + out.err


def test_a_baseline_is_saved_and_compared_with(folder, capsys):
    base = folder / "base.json"
    status, text = bench(capsys, "--folder", folder, "--save-baseline", base)
    assert status == 0
    assert [line.split()[0] for line in text.splitlines()] == ["trace", "exps", "sums"]
    saved = json.loads(base.read_text())
    assert [row["name"] for row in saved["traces"]] == ["exps", "sums"]
    for factor, word, code in ((1e-3, "slower", 1), (1e3, "faster", 0)):
        for row in saved["traces"]:
            row["batches"] = [t * factor for t in row["batches"]]
        (folder / "other.json").write_text(json.dumps(saved))
        status, text = bench(capsys, "--folder", folder, "sums", "--baseline", folder / "other.json")
        assert status == code
        assert word in text
        saved = json.loads(base.read_text())


@pytest.mark.parametrize(
    ("now", "before", "word"),
    [
        ([10, 11, 12], [10, 11, 12], ""),
        ([13, 14, 30], [10, 11, 12], "slower"),
        ([11, 14, 30], [10, 11, 12], ""),
        ([10.1, 10.1], [10, 10], ""),
        ([5, 6, 7], [10, 11, 12], "faster"),
        ([5, 6, 11], [10, 11, 12], ""),
    ],
)
def test_a_change_is_told_where_it_is_beyond_the_noise(now, before, word):
    def row(batches):
        return {"seconds": sorted(batches)[len(batches) // 2], "batches": batches, "error": None}

    assert bench_traces.verdict(row(now), row(before)) == word


def test_what_cannot_be_done_is_said(folder, capsys):
    assert "has no trace nothing" in bench(capsys, "--folder", folder, "nothing")[1]
    assert bench(capsys, "--folder", folder / "none")[0] == 2
    (folder / "base.json").write_text('{"version": 7, "traces": []}')
    assert "is no baseline" in bench(capsys, "--folder", folder, "--baseline", folder / "base.json")[1]
    (folder / "bad.trace").write_text("no trace")
    status, text = bench(capsys, "--folder", folder)
    assert status == 1
    assert "TraceError" in text
    assert cli.main(["bench", "--baseline", "x"]) == 2


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.trace")), ids=lambda p: p.stem)
def test_the_traces_of_the_repository_are_what_make_records(path):
    trace = _trace_file.read(path)
    assert path.stat().st_size < 100_000
    assert all(where.startswith("benchmarks/") or not where.startswith("/") for where, _ in trace.sources)
    assert not any(leaf.data for step in trace.steps for leaf in step.leaves)
    assert [step.runs for step in trace.steps] == [2]
