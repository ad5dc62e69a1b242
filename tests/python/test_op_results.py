"""How docs/op_results.md is made of reports, and when a run is compared with it."""

import types

import op_results
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
    monkeypatch.setattr(op_results, "MODULES", ("test_ops_generated",))
    monkeypatch.setattr(op_results, "EXPECTED", {("one", "exp"), ("other", "exp")})
    monkeypatch.setattr(op_results.importlib, "import_module", lambda name: None)
    assert filled().complete
    some = Results()
    some.take(report("one", "exp", []))
    assert not some.complete
    failing = filled()
    failing.take(report("other", "exp", [], passed=False))
    assert not failing.complete


def test_a_difference_names_the_lines(monkeypatch, tmp_path):
    monkeypatch.setattr(op_results, "PAGE", tmp_path / "page.md")
    assert "+ | `exp` |" in difference("| `exp` | 1 |\n")
    (tmp_path / "page.md").write_text("| `exp` | 1 |\n")
    assert difference("| `exp` | 1 |\n") == ""
    assert difference("| `exp` | 2 |\n").splitlines()[1:] == ["- | `exp` | 1 |", "+ | `exp` | 2 |"]
