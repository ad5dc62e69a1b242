"""The messages that users read about their mistakes, beside torch's words: of its class, naming at least what torch names, and the line."""

import io
import json
import os
import re
import subprocess
from pathlib import Path

import mistakes
import pytest
import torch_peer

import smolder

GOLDEN = json.loads(mistakes.GOLDEN.read_text())
# Torch's names of dtypes, and those that it takes from C++.
DTYPES = {"Long": "int64", "Int": "int32", "Float": "float32", "Double": "float64", "Half": "float16", "Bool": "bool"}
DTYPES |= {"long int": "int64", "float": "float32", "double": "float64", "c10::Half": "float16"}
# Cases that are no mistakes here: why.
FINE = {
    "cross entropy of int32 labels": "indices of both integer dtypes are taken everywhere",
    "binary cross entropy of integer targets": "targets promote, as operands do everywhere",
    "in place on what backward needs": "backward has the values that it saved",
    "in place on the result of exp": "backward has the values that it saved",
}
# Classes that differ from torch's: why.
OTHER_CLASS = {
    "string for a dimension": "dimensions have no names here, so a string is of the wrong type",
    "parameter of a number": "torch's is an accident of how it reads data",
    "load of text": "torch's is an accident of how it reads old files",
    "avg_pool2d of one dimension": "torch's names a dimension that nobody gave; max_pool2d's is as here",
    "cond of branches that differ": "torch's is of its compiler",
    "normalize of a string": "torch's is an accident of how it is written",
    "movedim of lengths that differ": "torch has no overload for it, and lists those that it has",
    "two ellipses": "torch takes the second for nothing; NumPy refuses both",
}
# Numbers and names that torch says and that say nothing to users, or that are said in other words here.
UNSAID = {
    "matmul of batches": "0",
    "index of an element that is too large": "0",
    "index of lists that is too large": "0",
    "assignment of an element past the end": "0",
    "gather of an index that is too large": "1",
    "scatter of an index that is too large": "1",
    "assignment of too many values to a mask": "5 6",
    "einsum of sizes that differ": "1",
    "string for a learning rate": "float32",
    "gradient of a result that is not a leaf": "30531 494",
    "out of another shape": "31",
    "finfo of an integer dtype": "smolder.finfo smolder.iinfo",
    "iinfo of a float dtype": "smolder.finfo smolder.iinfo",
    "number that is too large for a size": "1 size",
    "bincount of floats": "bincount_cpu",
    "histc of integers": "histogram_cpu",
    "meshgrid of a matrix": "1 3",
    "from_numpy of strings": "128",
    "bmm of matrices": "1",
    "linear with a bias that does not fit": "1",
    "stack of a number": "0",
    "broadcast_tensors that do not fit": "1",
    "max_pool2d larger than the image": "1",
    "pad of more dimensions": "4",
    "embedding of floats": "1",
    "cross entropy of labels with a dimension more": "0 1",
    "mse loss of integers": "mse_cpu",
    "tensordot of sizes that differ": "-1",
    "linear layer of integers": "1 2",
    "linear layer of doubles": "1 2",
    "matmul of dtypes that differ": "1 2 10",
    "matmul of integers and floats": "1 2",
    "softmax of integers": "softmax_lastdim_kernel_impl",
    "bits of floats": "bitwise_and_cpu",
    "shift of floats": "lshift_cpu",
    "gelu of integers": "GeluKernelImpl",
    "permute of floats": "1 2",
    "expand of a float": "1 2",
    "float for features": "2",
    "string for a kernel": "3",
    "zeros of a list with a float": "2",
    "index_add of other sizes": "0",
    "padded sequences of other shapes": "1",
    "lstm with a state that is a tensor": "0 1",
    "load of an object by weights only": "0 1 2 2.6 True weights_only=True smolder.load",
}


def facts(text):
    """Numbers, dtypes and quoted names in a text."""
    text = text.partition("but expected one of:")[0]
    text = re.sub(r"https?://\S+|PyTorch [\d.]+|torch\.FloatTensor|\(Could this error.*|<[^>]*>", "", text, flags=re.S)
    found = {n.rstrip("0").rstrip(".") if "." in n else n for n in re.findall(r"-?\d+(?:\.\d+)?", text)}
    found |= set(re.findall(r"['\"`](\w[\w.()=-]*)['\"`]", text))
    return {re.sub(r"^torch\b", "smolder", DTYPES.get(f, f)) for f in found}


def same_class(ours, theirs):
    """Whether who expects torch's exception catches ours."""
    named = {"_LinAlgError": "LinAlgError"}
    if (ours, theirs) == ("UnsupportedOperation", "ValueError"):
        return issubclass(io.UnsupportedOperation, ValueError)
    builtin = getattr(__builtins__, "get", lambda name: getattr(__builtins__, name, None))
    a, b = builtin(ours), builtin(theirs)
    return ours == named.get(theirs, theirs) or (a is not None and b is not None and issubclass(a, b))


@pytest.fixture(scope="module")
def ours():
    return mistakes.texts(smolder)


def test_the_golden_file_has_every_mistake(ours):
    assert len(ours) > 400 and ours.keys() == GOLDEN.keys()
    assert set(FINE) | set(OTHER_CLASS) | set(UNSAID) <= ours.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_texts(name, ours):
    assert ours[name] == GOLDEN[name]["smolder"]


@pytest.mark.parametrize("name", GOLDEN)
def test_none_is_worse_than_torchs(name):
    ours, theirs = GOLDEN[name]["smolder"], GOLDEN[name]["torch"]
    if name in FINE:
        assert ours == "nothing"
        return
    kinds = ours.partition(":")[0], theirs.partition(":")[0]
    assert same_class(*kinds) or name in OTHER_CLASS, kinds
    words = ours.partition("\n  at ")[0].partition("; met in ")[0]
    missing = {f for f in facts(theirs.partition(": ")[2]) if f not in words} - set(UNSAID.get(name, "").split())
    assert not missing or name in OTHER_CLASS, (ours, theirs)
    for word in ("nanobind", "incompatible function arguments", "_core", "std::", "no constructor defined"):
        assert word not in words


@pytest.mark.parametrize("name, snippet", list(mistakes.cases()))
def test_lines(name, snippet):
    """Where a message names a line it is that of the mistake; where an error comes later it has to."""
    text, file = GOLDEN[name]["smolder"], f"{name.replace(' ', '_')}.py"
    lines = [int(n) for n in re.findall(rf"{re.escape(file)}:(\d+) in ", text)]
    wrong = mistakes.wrong_line(snippet)
    assert wrong in lines or not lines or snippet.startswith("with "), text
    # An op that reads its operands at once, as linear algebra does, shows the line by its traceback.
    if "# wrong" in snippet and "; met in" in text:
        assert lines, text


@torch_peer.needs_torch
def test_torch_still_says_that(tmp_path):
    program = [torch_peer.PYTHON, str(Path(mistakes.__file__)), "torch", str(tmp_path / "golden.json")]
    subprocess.run(program, check=True, timeout=300, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    theirs = json.loads((tmp_path / "golden.json").read_text())
    assert {n: t["torch"] for n, t in theirs.items()} == {n: t["torch"] for n, t in GOLDEN.items()}
