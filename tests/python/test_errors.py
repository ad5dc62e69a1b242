"""Mistakes raise Python exceptions that say what was asked and found, at the user's line; work goes on after."""

import contextlib
import inspect
import operator
import pathlib

import pytest
from conftest import ONE_BY_ONE

import smolder
from smolder import nn
from smolder.nn import functional as F

ones = smolder.ones

# A case: torch's exception, the mistake, and the message's words: the op, shapes and dtypes. Each is on one line
# of this file, which the message names too.
x, ids, flags = ones(2, 3), smolder.tensor([1, 0]), smolder.tensor([True, False])
X, F4 = "[2, 3] float32", "[4] float32"
MISTAKES = {
    # shapes
    "add": (RuntimeError, lambda: x + ones(4), ["add: ", X, F4, "(3)", "(4)", "dimension 1"]),
    "add_": (RuntimeError, lambda: ones(2, 3).add_(ones(4)), ["add", X, F4]),
    "written too small": (RuntimeError, lambda: ones(3).add_(x), ["add_: ", "[3]", "[2, 3]"]),
    "compare": (RuntimeError, lambda: x > ones(4), ["gt: ", X, F4]),
    "logical": (RuntimeError, lambda: flags.logical_and(ones(4)), ["logical_and: ", "[2] bool", F4]),
    "where": (RuntimeError, lambda: smolder.where(flags, x, x), ["where: ", "[2] bool", X]),
    "lerp": (RuntimeError, lambda: smolder.lerp(x, ones(4), 0.5), ["lerp: ", X, F4]),
    "addcmul": (RuntimeError, lambda: x.addcmul(ones(2), ones(4)), ["addcmul: ", X, "[2] float32", F4]),
    "masked_fill": (RuntimeError, lambda: x.masked_fill(ones(4) > 0, 2), ["masked_fill: ", X, "[4] bool"]),
    "matmul": (RuntimeError, lambda: x @ ones(4, 5), ["matmul: ", X, "[4, 5] float32", "3 and 4"]),
    "mm": (RuntimeError, lambda: smolder.mm(ones(3), x), ["mm: ", "2-D", "[3] float32"]),
    "bmm": (RuntimeError, lambda: smolder.bmm(ones(2, 3, 4), ones(3, 4, 5)), ["bmm: ", "[2, 3, 4]", "[3, 4, 5]"]),
    "linear": (RuntimeError, lambda: nn.Linear(3, 2)(ones(1, 4)), ["linear: ", "[1, 4] float32", "[2, 3] float32"]),
    "linear bias": (RuntimeError, lambda: F.linear(x, x, ones(5)), ["linear: ", "bias", "[2]", X, "[5] float32"]),
    "view": (RuntimeError, lambda: x.view(4), ["[4]", "size 6", "[2, 3]"]),
    "reshape": (RuntimeError, lambda: x.reshape(-1, 4), ["reshape: ", "[-1, 4]", "size 6", "[2, 3]"]),
    "two inferred": (RuntimeError, lambda: x.reshape(-1, -1), ["reshape: ", "only one", "[-1, -1]"]),
    "expand": (RuntimeError, lambda: x.expand(4, 3), ["expand: ", "[4, 3]", "[2, 3]", "dimension 0"]),
    "expand rank": (RuntimeError, lambda: x.expand(3), ["expand: ", "[2, 3]", "[3]"]),
    "copy_": (RuntimeError, lambda: ones(2, 3).copy_(ones(4)), ["[2, 3]", "[4]"]),
    "cat": (RuntimeError, lambda: smolder.cat([x, ones(2, 4)]), ["cat: ", X, "[2, 4] float32", "number 1"]),
    "cat ranks": (RuntimeError, lambda: smolder.cat([x, ones(3)]), ["cat: ", X, "[3] float32"]),
    "cat nothing": (ValueError, lambda: smolder.cat([]), ["cat: ", "non-empty"]),
    "stack": (RuntimeError, lambda: smolder.stack([x, ones(3, 2)]), ["stack: ", X, "[3, 2] float32"]),
    "narrow": (RuntimeError, lambda: x.narrow(0, 1, 2), ["narrow: ", "start (1)", "length (2)", "[2, 3]"]),
    "split": (RuntimeError, lambda: x.split([1, 2]), ["split_with_sizes expects", "2", "dimension 0", "[1, 2]"]),
    "pad": (RuntimeError, lambda: F.pad(x, (1,)), ["pad: ", "[2, 3]", "[1]"]),
    "layer_norm": (RuntimeError, lambda: F.layer_norm(x, (4,)), ["layer_norm: ", "[4]", X]),
    "layer_norm weight": (RuntimeError, lambda: F.layer_norm(x, (3,), ones(4)), ["layer_norm: ", F4, "[3]"]),
    "mse_loss": (RuntimeError, lambda: F.mse_loss(x, ones(3, 2)), ["mse_loss: ", X, "[3, 2] float32"]),
    "l1_loss": (RuntimeError, lambda: F.l1_loss(x, ones(4)), ["l1_loss: ", X, F4]),
    "attention": (RuntimeError, lambda: attention(4, 3), ["attention: ", "[1, 2, 3] float32", "[1, 2, 4] float32"]),
    "empty amax": (IndexError, lambda: smolder.zeros(0, 3).amax(0), ["amax()", "dim 0", "[0, 3]"]),
    "item": (RuntimeError, lambda: ones(2).item(), ["2 elements", "[2]"]),
    # axes
    "sum axis": (IndexError, lambda: x.sum(2), ["sum: ", "[-2, 1]", "2"]),
    "amax axis": (IndexError, lambda: x.amax(-3), ["amax: ", "[-2, 1]", "-3"]),
    "softmax axis": (IndexError, lambda: x.softmax(2), ["softmax: ", "[-2, 1]", "2"]),
    "argmax axis": (IndexError, lambda: x.argmax(5), ["argmax: ", "[-2, 1]", "5"]),
    "transpose axis": (IndexError, lambda: x.transpose(0, 2), ["transpose: ", "[-2, 1]", "2"]),
    "unsqueeze axis": (IndexError, lambda: x.unsqueeze(4), ["unsqueeze: ", "[-3, 2]", "4"]),
    "flip axis": (IndexError, lambda: x.flip((2,)), ["flip: ", "[-2, 1]", "2"]),
    "gather axis": (IndexError, lambda: x.gather(2, x.long()), ["gather: ", "[-2, 1]", "2"]),
    "axis twice": (RuntimeError, lambda: x.sum((0, 0)), ["sum: ", "dim 0", "[0, 0]"]),
    "permute": (RuntimeError, lambda: x.permute(0), ["permute: ", "2", "1", "[2, 3]", "[0]"]),
    "permute twice": (RuntimeError, lambda: x.permute(0, 0), ["permute: ", "[0, 0]"]),
    "slice of no axis": (RuntimeError, lambda: smolder.slice_backward(ones(()), 1, 0, 0, 1), ["0-dim"]),
    "slice_scatter of no axis": (RuntimeError, lambda: ones(()).slice_scatter(ones(()), 0, 0, 1), ["0-dim"]),
    # dtypes
    "softmax dtype": (NotImplementedError, lambda: ids.softmax(0), ["softmax: ", "floating-point", "[2] int64"]),
    "mean dtype": (RuntimeError, lambda: ids.mean(), ["mean", "floating point", "[2] int64"]),
    "var dtype": (NotImplementedError, lambda: ids.var(), ["var: ", "floating-point", "[2] int64"]),
    "gelu dtype": (NotImplementedError, lambda: F.gelu(ids), ["gelu: ", "floating-point", "[2] int64"]),
    "neg of bool": (RuntimeError, lambda: flags.neg(), ["neg: ", "bool"]),
    "sub of bools": (RuntimeError, lambda: flags - flags, ["sub: ", "bool"]),
    "and of floats": (NotImplementedError, lambda: x & x, ["bitwise_and: ", "float32"]),
    "condition dtype": (RuntimeError, lambda: smolder.where(x, x, x), ["where: ", "bool", X]),
    "mask dtype": (RuntimeError, lambda: x.masked_fill(x, 2), ["masked_fill: ", "bool", X]),
    "matmul dtypes": (RuntimeError, lambda: x @ x.double().T, ["matmul: ", X, "[3, 2] float64"]),
    "scatter dtypes": (RuntimeError, lambda: x.scatter_add(1, x.long(), x.half()), ["scatter_add: ", X, "float16"]),
    "written lower": (RuntimeError, lambda: smolder.tensor([1]).add_(0.5), ["add_: ", "float32", "int64"]),
    "gradient dtype": (RuntimeError, lambda: ids.requires_grad_(), ["floating point", "int64"]),
    # indices and classes that are wrong whatever their values
    "gather dtype": (RuntimeError, lambda: x.gather(0, x), ["gather: ", "index", "int64 or int32", X]),
    "gather rank": (RuntimeError, lambda: x.gather(0, ids), ["gather: ", "[2] int64", X]),
    "index_select dtype": (RuntimeError, lambda: x.index_select(0, ones(1)), ["index_select: ", "[1] float32"]),
    "index_select rank": (IndexError, lambda: x.index_select(0, x.long()), ["index_select", "vector", "[2, 3] int64"]),
    "embedding dtype": (RuntimeError, lambda: F.embedding(ones(2), x), ["embedding: ", "[2] float32"]),
    "embedding rank": (RuntimeError, lambda: F.embedding(ids, ones(3)), ["embedding: ", "2-D", "[3] float32"]),
    "one_hot dtype": (RuntimeError, lambda: F.one_hot(x, 3), ["one_hot: ", X]),
    "select": (IndexError, lambda: x.select(0, 2), ["select", "index 2", "[2, 3]", "dimension 0"]),
    "target rank": (ValueError, lambda: F.cross_entropy(x, smolder.tensor([0])), ["cross_entropy: ", X, "(2)", "(1)"]),
    "class weights": (RuntimeError, lambda: F.cross_entropy(x, ids, ones(2)), ["cross_entropy: ", "3 classes", "[2]"]),
    # arguments
    "division by zero": (RuntimeError, lambda: ids // 0, ["ZeroDivisionError", "0", "[2] int64"]),
    "remainder by zero": (RuntimeError, lambda: ids % 0, ["ZeroDivisionError", "0", "[2] int64"]),
    "fmod by zero": (RuntimeError, lambda: ids.fmod(0), ["ZeroDivisionError", "0", "[2] int64"]),
    "truncated by zero": (RuntimeError, lambda: ids.div(0, rounding_mode="trunc"), ["ZeroDivisionError", "[2] int64"]),
    "divided in place by zero": (
        RuntimeError,
        lambda: ids.clone().floor_divide_(0),
        ["ZeroDivisionError", "[2] int64"],
    ),
    "wraps to zero": (RuntimeError, lambda: ids.to(smolder.uint8) % 256, ["ZeroDivisionError", "256", "[2] uint8"]),
    "scatter of a reduction": (
        RuntimeError,
        lambda: x.scatter(1, x.long(), x, reduce="max"),
        ["scatter", "add or multiply", "max"],
    ),
    "interpolation": (RuntimeError, lambda: x.quantile(0.5, interpolation="q"), ["quantile()", "linear", "q"]),
    "side": (RuntimeError, lambda: smolder.searchsorted(x, x, side="q"), ["searchsorted()", "left", "q"]),
    "compute mode": (ValueError, lambda: smolder.cdist(x, x, compute_mode="q"), ["q", "compute_mode"]),
    "clamp": (RuntimeError, lambda: x.clamp(), ["clamp: ", "min", "max"]),
    "randint": (RuntimeError, lambda: smolder.randint(5, 5, (2,)), ["randint: ", "from=5", "to=5"]),
    "chunks": (RuntimeError, lambda: x.chunk(0), ["chunk", "0"]),
    "split size": (RuntimeError, lambda: x.split(0), ["split_size can only be 0", "dimension size of 2"]),
}


def attention(key, value):
    return F.scaled_dot_product_attention(ones(1, 2, 3), ones(1, 2, key), ones(1, 2, value))


@pytest.mark.parametrize("mode", ["recorded", "eager"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained_and_leave_work_intact(name, mode):
    kind, wrong, words = MISTAKES[name]
    kept = ones(3) * 2
    with smolder.eager() if mode == "eager" else contextlib.nullcontext(), pytest.raises(kind) as caught:
        wrong()
    text = str(caught.value)
    assert caught.type is kind, text
    for word in words:
        assert word in text, text
    line = attention.__code__.co_firstlineno + 1 if name == "attention" else wrong.__code__.co_firstlineno
    assert f"{pathlib.Path(__file__).name}:{line} in " in text
    assert kept.tolist() == [2, 2, 2]
    assert (kept + 1).tolist() == [3, 3, 3]


# Which of torch's exceptions these are may still change.
EITHER = {
    "empty maximum": (
        (RuntimeError, IndexError),
        lambda: smolder.zeros(0).max(),
        ["Expected reduction dim to be specified"],
    ),
    "split of no axis": ((RuntimeError, IndexError), lambda: ones(()).split(1), ["at least a 1-dimensional"]),
    "unbind of no axis": ((RuntimeError, IndexError), lambda: ones(()).unbind(), ["no dimensions"]),
}


@pytest.mark.parametrize("name", EITHER)
def test_mistakes_of_one_of_two_kinds(name):
    kinds, wrong, words = EITHER[name]
    with pytest.raises(kinds) as caught:
        wrong()
    assert all(word in str(caught.value) for word in words), str(caught.value)


# Those found by Python before there is an op: their line is in the traceback.
IN_PYTHON = {
    "argument": (TypeError, lambda: ones(2).sum("x"), ["sum()"]),
    "operand": (TypeError, lambda: ones(2) + "x", ["+"]),
    "select": (IndexError, lambda: x[:, 3], ["index 3", "dimension 1", "size 3"]),
    "too many": (IndexError, lambda: x[0, 0, 0], ["too many indices", "dimension 2"]),
    "step": (ValueError, lambda: x[::-1], ["step"]),
    "dropout": (ValueError, lambda: F.dropout(x, 1.5), ["dropout", "between 0 and 1", "1.5"]),
    "reduction": (ValueError, lambda: F.cross_entropy(x, ids, reduction="avg"), ["avg", "reduction"]),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_mistakes_that_python_finds(name):
    kind, wrong, words = IN_PYTHON[name]
    with pytest.raises(kind) as caught:
        wrong()
    assert caught.type is kind and all(word in str(caught.value) for word in words), str(caught.value)
    assert any(e.path.name == "test_errors.py" for e in caught.traceback[1:])


def test_the_message_names_the_users_line():
    with pytest.raises(RuntimeError) as caught:
        line = inspect.currentframe().f_lineno + 1
        ones(2, 3).view(4)
    assert f"{pathlib.Path(__file__).name}:{line}" in str(caught.value)


# Indices that only the data has: the error comes when the step runs, and names op and line of what was recorded.
INDICES = {
    "gather": lambda i: ones(5).gather(0, i),
    "scatter_add": lambda i: ones(5).scatter_add(0, i, ones(2)),
    "index_select": lambda i: ones(5, 2).index_select(0, i),
    "embedding": lambda i: F.embedding(i, ones(5, 2)),
    "cross_entropy": lambda i: F.cross_entropy(ones(2, 5), i),
    "nll_loss": lambda i: F.nll_loss(ones(2, 5), i),
}


@pytest.mark.parametrize("mode", ["recorded", "followed", "eager"])
@pytest.mark.parametrize("op", INDICES)
def test_an_index_out_of_range_is_reported_with_its_op_and_line(op, mode):
    f = INDICES[op]
    for _ in range(3 if mode == "followed" else 0):
        f(smolder.tensor([0, 4])).tolist()
        smolder.mark_step()
    kept = ones(2) * 3
    kind = RuntimeError if op in ("gather", "scatter_add") else IndexError  # as torch
    with smolder.eager() if mode == "eager" else contextlib.nullcontext(), pytest.raises(kind) as caught:
        f(smolder.tensor([0, 5])).tolist()
    text = str(caught.value)
    assert op in text and f"{pathlib.Path(__file__).name}:{f.__code__.co_firstlineno} in " in text, text
    assert kept.tolist() == [3, 3]
    assert f(smolder.tensor([0, 4])).tolist() is not None


# Values that only the data has: what they are not, and those that are.
VALUES = {
    "floor_divide": (lambda v: ids // v, [0, 2], "ZeroDivisionError"),
    "remainder": (lambda v: ids % v, [0, 2], "ZeroDivisionError"),
    "fmod": (lambda v: smolder.fmod(ids, v), [2, 0], "ZeroDivisionError"),
    "div": (lambda v: smolder.div(ids, v, rounding_mode="trunc"), [2, 0], "ZeroDivisionError"),
    "number": (lambda v: 7 // v, [2, 0], "ZeroDivisionError"),
    "in place": (lambda v: ids.clone().remainder_(v), [2, 0], "ZeroDivisionError"),
    "operator in place": (lambda v: operator.ifloordiv(ids.clone(), v), [2, 0], "ZeroDivisionError"),
    "bernoulli": (lambda v: smolder.bernoulli(v), [0.5, 2.0], "p >= 0 and p <= 1"),
    "bernoulli of nan": (lambda v: smolder.bernoulli(v), [0.5, float("nan")], "p >= 0 and p <= 1"),
    "bernoulli_": (lambda v: ones(2).bernoulli_(v), [0.5, -1.0], "p >= 0 and p <= 1"),
    "normal": (lambda v: smolder.normal(ones(2), v), [0.5, -1.0], "std >= 0.0"),
}


@pytest.mark.parametrize("mode", ["recorded", "followed", "eager"])
@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_an_op_refuses_is_reported(name, mode):
    f, wrong, text = VALUES[name]
    fine = smolder.ones(2).to(smolder.tensor(wrong).dtype)
    for _ in range(3 if mode == "followed" else 0):
        f(fine).tolist()
        smolder.mark_step()
    kept = ones(2) * 3
    with smolder.eager() if mode == "eager" else contextlib.nullcontext():
        with pytest.raises(RuntimeError) as caught:
            f(smolder.tensor(wrong)).tolist()
        assert text in str(caught.value) and "checked" not in str(caught.value)
        assert kept.tolist() == [3, 3] and f(fine).tolist() is not None


def test_what_is_empty_is_divided_by_zero():
    none = smolder.zeros(0, dtype=smolder.int64)
    assert (none // 0).tolist() == (none % 0).tolist() == (none // none).tolist() == []
    assert (ones(2) // 0).tolist() == [float("inf")] * 2  # of floats it is no mistake


@pytest.mark.parametrize("index", [-1, -6])
def test_an_index_below_the_range_is_reported(index):
    with pytest.raises((IndexError, RuntimeError), match=r"gather.*test_errors.py:\d+ in "):
        ones(5).gather(0, smolder.tensor([0, index])).tolist()
    assert ones(2).tolist() == [1, 1]


@ONE_BY_ONE
def test_out_of_memory_is_an_exception_and_work_goes_on():
    w = ones(4) * 3
    smolder.mark_step()
    later = w * 2
    line = inspect.currentframe().f_lineno + 1
    huge = smolder.zeros(1 << 46) + 1  # more than an address space holds
    with pytest.raises(MemoryError) as caught:
        smolder.mark_step()
    text = str(caught.value)
    assert caught.type is smolder.OutOfMemoryError and issubclass(caught.type, RuntimeError)
    for word in ("out of memory", "256 TiB", f"[{1 << 46}] float32", f"{pathlib.Path(__file__).name}:{line} in "):
        assert word in text, text
    assert "full" in text or "add" in text, "the op is named"
    del huge
    assert w.tolist() == [3, 3, 3, 3] and later.tolist() == [6, 6, 6, 6]


@ONE_BY_ONE
@pytest.mark.runs_op_by_op
def test_a_step_whose_plan_finds_no_memory_runs_op_by_op():
    p = nn.Parameter(ones(1000))
    optimizer = smolder.optim.SGD([p], lr=0.5)
    p.grad = ones(1000)
    smolder.mark_step()
    smolder._core._fail_allocation_after(1)
    try:
        x = ones(100_000) * 2 + p.detach().sum()
        with pytest.warns(UserWarning, match="could not run as a plan and ran op by op: out of memory"):
            assert x.tolist() == [1002] * 100_000
    finally:
        smolder._core._fail_allocation_after(0)
    assert p.tolist() == [1] * 1000
    optimizer.step()
    assert p.tolist() == [0.5] * 1000


def test_unsupported_things_say_so():
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda.* device type at start of device string: lava"):
        smolder.device("lava")
    for name in ("mps", "xpu:1"):  # of torch's, which programs compare with
        assert str(smolder.device(name)) == name and not smolder.is_autocast_enabled(name.partition(":")[0])
        with pytest.raises(NotImplementedError, match=f"tensors on the device {name} are not supported"):
            smolder.zeros(2, device=name)
        with pytest.raises(NotImplementedError, match=f"tensors on the device {name} are not supported"):
            smolder.zeros(2).to(name)
