"""Every op's docstring has an example, which prints what it says, and the errors that it names are raised."""

import doctest
import inspect
import json
import re

import numpy as np
import pytest
from conftest import of_the_cpu
from op_examples import FILE
from op_rows import DTYPES, INTEGERS, INTEGRAL, ROOT, ROWS, WITH_TENSORS, Refused, arguments, ids, outcome, own_cases

import smolder

EXAMPLES = json.loads(FILE.read_text())
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]\d+)?")
# No case of theirs has a result that fits, as it depends on values; or they are what other functions record.
WITHOUT = {"nonzero", "wrapped_index", "checked_bound"}
SETS = {"number": DTYPES[:-1], "float": DTYPES[:4], "int": INTEGERS, "integral": INTEGRAL, "bool": ["bool"]}


def same(said, saw):
    """Whether two texts are the same but for the last digits of their numbers."""
    ours, theirs = (list(map(float, NUMBER.findall(text))) for text in (said, saw))
    return (
        NUMBER.sub("#", said).split() == NUMBER.sub("#", saw).split()
        and len(ours) == len(theirs)
        and np.allclose(ours, theirs, rtol=1e-3, atol=2e-4)
    )


def run(text):
    """The examples of a docstring: (what it says is printed, what is)."""
    names = {"smolder": smolder}
    smolder.manual_seed(0)
    for example in doctest.DocTestParser().get_examples(text):
        if not example.want:
            exec(example.source, names)
            continue
        yield example.want, repr(eval(example.source, names))


def test_every_op_has_an_example():
    assert set(ids(ROWS)) - set(EXAMPLES) == WITHOUT


@of_the_cpu("examples make tensors where they are made unless told")
@pytest.mark.parametrize("key", sorted(EXAMPLES))
def test_an_example_prints_what_it_says(key):
    compared = list(run(EXAMPLES[key]))
    assert compared
    for said, saw in compared:
        assert same(said, saw), saw


# Methods that are written by hand, which rows of the same name have no part in.
WRITTEN = set(re.findall(r"^    def (\w+)", (ROOT / "tools/opgen/core.pyi").read_text(), re.MULTILINE))


def test_help_shows_the_example():
    shown = 0
    for row in ROWS:
        if not row["function"] and row["python"][0] in WRITTEN:
            continue
        owner = smolder._core if row["function"] else smolder.Tensor
        name = row["python"][0] if row["function"] or row["method"] else row["python"][0] + "_"
        doc = inspect.getdoc(getattr(owner, name))
        if row["key"] in EXAMPLES and (row["function"] or row["method"]):
            assert EXAMPLES[row["key"]].split("\n")[0] in doc, name
            assert not row["params"][1:] or "Arguments:" in doc, name
            shown += 1
    assert shown > 400


@pytest.mark.parametrize("row", WITH_TENSORS, ids=ids(WITH_TENSORS))
def test_other_dtypes_raise_what_the_docstring_says(row):
    refused = [d for d in DTYPES if d not in SETS.get(row["accepts"], DTYPES)]
    for dtype in refused:
        found = outcome(row, *arguments(row, own_cases(row)[0], dtype))
        assert isinstance(found, Refused) and isinstance(found.error, RuntimeError), dtype


WITH_DIM = [r for r in ROWS if any(p["name"] == "dim" and p["type"] in ("int", "int?", "axes") for p in r["params"])]


@pytest.mark.parametrize("row", WITH_DIM, ids=ids(WITH_DIM))
def test_a_dim_that_there_is_not_raises_what_the_docstring_says(row):
    tensors, words = arguments(row, own_cases(row)[0], "float32")
    found = outcome(row, tensors, words | {"dim": 9})
    assert isinstance(found, Refused) and isinstance(found.error, IndexError)
