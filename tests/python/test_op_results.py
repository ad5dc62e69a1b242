"""How docs/op_results.md is made of reports, and when a run is compared with it."""

import itertools
import types

import op_results
import op_rows
from op_results import Results, cell, difference


def report(test, row, shown, passed=True):
    properties = [("op_results", ["test_ops_generated", test, row, shown])]
    return types.SimpleNamespace(user_properties=properties, passed=passed, when="call")


def filled():
    out = Results()
    out.take(report("one", "exp", [["ordinary", "float32", 2, 0], ["strided", "bool", 0, 3]]))
    out.take(report("other", "exp", [["ordinary", "float32", 1, 1], ["first", "float64", 0, 1]]))
    return out


def test_counts_of_all_tests_are_added():
    shown = filled().counts()["exp"]
    assert shown["ordinary", "float32"] == [3, 1]
    assert [cell(shown, c) for c in ("ordinary", "strided", "first", "NumPy")] == ["3", "refused", "none", ""]
    (line,) = [line for line in filled().page().splitlines() if line.startswith("| `exp` |")]
    assert line.split(" | ")[1:3] == ["f32", "3"]


def test_a_run_of_some_tests_is_not_compared(monkeypatch):
    monkeypatch.setattr(op_results, "MODULES", {"test_ops_generated": ["ordinary"]})
    monkeypatch.setattr(op_results, "EXPECTED", {("test_ops_generated", t, "exp") for t in ("one", "other")})
    monkeypatch.setattr(op_results.importlib, "import_module", lambda name: None)
    assert filled().whole() == ["test_ops_generated"]
    some = Results()
    some.take(report("one", "exp", []))
    assert some.whole() == []
    failing = filled()
    failing.take(report("other", "exp", [], passed=False))
    assert failing.whole() == []


def test_the_columns_of_tests_that_did_not_run_stay():
    before = filled().page().replace("| f32 | 3 |", "| f64 | 7 |")
    (line,) = [
        line for line in Results().page(before, ["test_op_gradients"]).splitlines() if line.startswith("| `exp` |")
    ]
    assert line.split(" | ")[1:3] == ["f64", "7"] and "none" not in line


def test_a_difference_names_the_lines(monkeypatch, tmp_path):
    monkeypatch.setattr(op_results, "PAGE", tmp_path / "page.md")
    assert "+ | `exp` |" in difference("| `exp` | 1 |\n")
    (tmp_path / "page.md").write_text("| `exp` | 1 |\n")
    assert difference("| `exp` | 1 |\n") == ""
    assert difference("| `exp` | 2 |\n").splitlines()[1:] == ["- | `exp` | 1 |", "+ | `exp` | 2 |"]


def test_a_sample_shows_nothing_that_the_page_does_not():
    page = filled().page()
    assert filled().beyond(page) == ""
    assert "takes f32" in filled().beyond(page.replace("| f32 |", "| f64 |"))
    assert "exp, strided: refused, not nothing" in filled().beyond(page.replace("| refused |", "|  |"))
    assert "exp, ordinary: 3, not 2" in filled().beyond(page.replace("| 3 |", "| 2 |"))
    few = Results()
    few.take(report("one", "exp", [["ordinary", "float32", 1, 0]]))
    assert few.beyond(page) == ""


def test_a_sample_is_the_same_each_time_and_takes_every_dtype_over_the_rows(monkeypatch):
    monkeypatch.setattr(op_rows, "WHOLE", False)
    calls = list(itertools.product(range(4), op_rows.DTYPES))
    chosen = {row["key"]: op_rows.sampled(row, "test", calls) for row in op_rows.ROWS}
    assert chosen == {row["key"]: op_rows.sampled(row, "test", iter(calls)) for row in op_rows.ROWS}
    assert all(set(its) <= set(calls) for its in chosen.values()) and all(chosen.values())
    assert {call for its in chosen.values() for call in its} == set(calls)
    assert 0.07 < sum(map(len, chosen.values())) / (len(calls) * len(chosen)) < 0.12
    assert len(op_rows.sampled(op_rows.ROWS[0], "test", calls[:1])) == 1
    monkeypatch.setattr(op_rows, "WHOLE", True)
    assert op_rows.sampled(op_rows.ROWS[0], "test", calls) == calls
