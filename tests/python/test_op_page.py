"""docs/ops.md says what the rows say, and the rows say what happens."""

import inspect
import subprocess
import sys

import pytest
from op_rows import DTYPES, INTEGERS, INTEGRAL, ROOT, WITH_TENSORS, Refused, arguments, ids, outcome, own_cases

import smolder

SETS = {"all": DTYPES, "number": DTYPES[:-1], "float": DTYPES[:4], "int": INTEGERS, "integral": INTEGRAL}


# Dtypes that a row takes with other numbers than those that its arguments have unless given: uint8 holds no -1.
NOT_AS_IT_IS = {"hardtanh": ["uint8"]}


def test_the_page_is_current(tmp_path):
    arguments = ["--rows", ROOT / "src/ir/ops", "--primitives", ROOT / "src/ir/scalar/primitives.def"]
    subprocess.run(
        [sys.executable, ROOT / "tools/opgen/main.py", *arguments, "--page", tmp_path / "ops.md"], check=True
    )
    message = "run tools/opgen/main.py as docs/ops.md says"
    assert (tmp_path / "ops.md").read_text() == (ROOT / "docs/ops.md").read_text(), message


@pytest.mark.parametrize("row", WITH_TENSORS, ids=ids(WITH_TENSORS))
def test_the_dtypes_said_are_those_taken(row):
    case = own_cases(row)[0]
    taken = [d for d in DTYPES if not isinstance(outcome(row, *arguments(row, case, d)), Refused)]
    assert taken == [d for d in SETS[row["accepts"]] if d not in NOT_AS_IT_IS.get(row["key"], ())]


def test_help_says_what_the_row_says():
    text = inspect.getdoc(smolder.softmax)
    assert "exp(x) / sum(exp(x)) along dim." in text and "Dtypes: floats." in text and "Gradient: input." in text
    assert "input: smolder._core.Tensor, dim: int" in text
    assert "In place: Sum of two tensors" in inspect.getdoc(smolder.Tensor.add_)
    assert "Returns: values, indices." in inspect.getdoc(smolder.max)
