"""The example notebook runs, what it shows draws itself, and lines are named by cell."""

import re
import types

import nbformat
import pytest
from conftest import of_the_cpu
from nbclient import NotebookClient
from op_rows import ROOT

import smolder
from smolder import _lines, nn
from smolder._notebook import Report

NOTEBOOK = ROOT / "examples/notebook.ipynb"


@pytest.fixture(scope="module")
def cells():
    """The code cells of the notebook, executed by a kernel of its own."""
    notebook = nbformat.read(NOTEBOOK, 4)
    assert not any(c.get("outputs") for c in notebook.cells), "outputs are not committed"
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return [c for c in notebook.cells if c.cell_type == "code"]


def shown(cell, kind):
    """The output of a cell, as text or as HTML."""
    for output in cell.outputs:
        if output.output_type == "execute_result":
            return output.data[kind]
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


@of_the_cpu("a kernel of Jupyter's is a process of its own")
def test_what_cells_show_is_drawn(cells):
    tensor, training, explanation, report, graph, profile, memory, metrics = cells
    assert "<table" in shown(tensor, "text/html") and "Tensor [64, 4]" in shown(tensor, "text/html")
    assert shown(tensor, "text/plain").startswith("tensor([[")
    first, last = map(float, re.findall(r"[\d.]+", shown(training, "text/plain")))
    assert last < first / 2
    for cell in (explanation, graph):
        assert shown(cell, "text/html").startswith("<iframe") and "&lt;svg" in shown(cell, "text/html")
    assert shown(explanation, "text/plain") == shown(report, "text/plain").rstrip("\n")
    assert shown(graph, "text/plain").startswith("Graph(input) -> (output_0), 3 ops")
    assert "Self CPU" in shown(profile, "text/plain") and shown(profile, "text/html").startswith("<pre")
    for cell in (memory, metrics):
        assert shown(cell, "text/plain").count("\n") > 1, "a report is lines, not their repr"
        assert shown(cell, "text/html").startswith("<pre")


@of_the_cpu("a kernel of Jupyter's is a process of its own")
def test_lines_are_named_by_cell(cells):
    report = shown(cells[3], "text/plain")
    number = cells[2].execution_count
    assert f"cell {number}, line 3" in report, report  # the condition that reads a value
    assert "ipykernel" not in report
    assert "a condition reads a tensor's value" in report, "which the text of the line says"


def test_a_vector_a_matrix_and_the_rest_as_html():
    assert "<td" in smolder.arange(3)._repr_html_() and "Tensor [3]" in smolder.arange(3)._repr_html_()
    large = smolder.zeros(100, 100)._repr_html_()
    assert large.count("<tr>") == 13 and "⋮" in large and "…" in large
    for tensor in (smolder.tensor(1.5), smolder.zeros(2, 2, 2), smolder.zeros(0, 3)):
        assert "<pre" in tensor._repr_html_() and "<table" not in tensor._repr_html_()
    assert "Parameter [2, 1]" in nn.Linear(1, 2).weight._repr_html_()
    assert "requires grad" in nn.Linear(1, 2).weight._repr_html_()


def test_a_report_is_a_string_that_shows_as_it_is():
    report = smolder.metrics_report()
    assert isinstance(report, str) and isinstance(report, Report) and repr(report) == str(report)
    assert Report("<b>")._repr_html_().endswith("&lt;b&gt;</pre>")
    assert isinstance(smolder.memory.report(), Report)


def test_places_have_parts():
    assert _lines.parts("/a/b.py:12 in f") == ("/a/b.py", 12, "f")
    assert _lines.parts("/a/b.py:12") == ("/a/b.py", 12, "")
    assert _lines.parts("nowhere") is None
    assert _lines.source_line(f"{__file__}:1") == __doc__.splitlines()[0].join(['"""', '"""'])


def test_cells_are_found_by_number(monkeypatch):
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={"/tmp/1.py": 3}))
    monkeypatch.setitem(__import__("sys").modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert _lines.place("/tmp/1.py", 2) == "cell 3, line 2"
    assert _lines.place("train.py", 2) == "train.py:2"
    assert _lines.parts("cell 3, line 2 in f") == ("/tmp/1.py", 2, "f")
    assert _lines.parts("cell 4, line 2") == ("cell 4", 2, "")
