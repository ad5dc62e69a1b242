"""Hundreds of tensors under many print options, printed as torch prints them."""

import json
import random
import re

import pytest
from torch_peer import needs_torch, run_torch

import smolder

PRINT = """
def printed(T, recipes):
    out, names = [], {"T": T, "nan": float("nan"), "inf": float("inf")}
    for options, text in recipes:
        T.set_printoptions(profile="default")
        if options:
            T.set_printoptions(**options)
        x = eval(text, names)
        out.append([repr(x), str(x)])
    T.set_printoptions(profile="default")
    return out
"""
OPTIONS = [None] * 6 + [{"precision": p} for p in (0, 2, 7)] + [{"sci_mode": True}, {"sci_mode": False}]
OPTIONS += [{"linewidth": 40}, {"linewidth": 120}, {"edgeitems": 1, "threshold": 5}, {"edgeitems": 2, "threshold": 10}]
OPTIONS += [{"profile": "short"}, {"profile": "full"}, {"threshold": 0}, {"edgeitems": 0, "threshold": 3}]
OPTIONS += [{"precision": 3, "sci_mode": True, "linewidth": 50}]
FIXED = """
T.arange(1001) | T.arange(1000) | T.arange(2000.0).view(40, 50) | T.zeros(20, 60) | T.zeros(3, 3, 200)
T.ones(1001) * 1e-5 | T.arange(2000).view(2, 1000) * 1000000 | T.zeros(5, 6, 7, 8) | T.zeros(0) | T.zeros(0, 3)
T.zeros(2, 0, dtype=T.int64) | T.zeros(0, dtype=T.bool) | T.zeros(0, 3, requires_grad=True) | T.tensor([])
T.zeros(0, requires_grad=True) * 2 | T.tensor(1e-30) | T.tensor(1e30) | T.tensor([1e8]) | T.tensor([1e8 + 1e3])
T.tensor([1000.5, 1.0]) | T.tensor([0.99999]) | T.tensor([9.99999]) | T.tensor([99999999.0]) | T.tensor([0.00011, 0.5])
T.tensor([0.00009, 0.05]) | T.tensor([nan, nan]) | T.tensor([inf, 1.0]) | T.tensor([inf, 1.5]) | T.tensor([nan, 100.0])
T.tensor(nan) | T.tensor(-inf, dtype=T.float64) | T.tensor([True, False]) | T.tensor(True) | T.tensor([[[]]])
T.tensor([-0.0, 0.0]) | T.tensor([65504.0], dtype=T.float16) | T.tensor([6e-8], dtype=T.float16) | T.tensor([1e-45])
T.full((3,), 1e-4) | T.full((3,), 1e-5) | T.tensor([1e-4, 1e-1]) | T.tensor([2**53 + 1, 1]) | T.tensor([-2**63])
T.arange(1001.0).requires_grad_() | T.arange(30).view(5, 6).float().requires_grad_()[1:3] | T.ones(1, 1, 1001)
T.nn.Parameter(T.ones(2, 2)) | T.nn.Parameter(T.ones(2000)) | T.nn.Parameter(T.zeros(0)) | [T.ones(2), T.zeros(1)]
T.ones(4, requires_grad=True).view(2, 2) | T.ones(4, requires_grad=True).max(0) | T.ones(2, 2).max(1) | T.ones(3).sort()
T.ones(4, requires_grad=True).clone().add_(1) | T.ones(2, 2).unbind(0) | {'a': T.ones(2)} | T.ones(2).shape
"""


def number(rng, kind):
    if kind == "integer":
        return rng.choice([0, 1, -1, 5, 12, 100, -345, 99999, 2**31 - 1, 123456])
    chance = rng.random()
    if chance < 0.08:
        return rng.choice(["nan", "inf", "-inf"])
    if chance < 0.2:
        return rng.choice([0.0, -0.0, 1.0, 2.0, -3.0, 100.0])
    if kind == "whole":
        return float(rng.randint(-1000, 1000))
    low, high = {"small": (0, 0), "wide": (-8, 12), "middle": (-3, 4)}[kind]
    return rng.uniform(-1, 1) * 10 ** rng.randint(low, high)


def nested(rng, shape, kind):
    if not shape:
        return str(number(rng, kind))
    return "[" + ", ".join(nested(rng, shape[1:], kind) for _ in range(shape[0])) + "]"


def tensor(rng):
    """The text of an expression for a tensor of any dtype, shape and history."""
    rank = rng.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4])
    shape = [rng.choice([1, 1, 2, 3, 4, 5, 7, 11, 25] if rank < 3 else [1, 2, 3, 4, 7]) for _ in range(rank)]
    dtype = rng.choice(
        ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    )
    if dtype == "uint8":
        return f"T.tensor({nested(rng, shape, 'integer')}).remainder(256).to(T.uint8)"
    if dtype in ("int8", "int16"):
        return f"T.tensor({nested(rng, shape, 'integer')}).to(T.{dtype})"
    if dtype == "bool":
        return f"(T.tensor({nested(rng, shape, 'whole')}) > 0)"
    floats = not dtype.startswith("int")
    kind = rng.choice(["small", "whole", "wide", "middle"]) if floats else "integer"
    text = f"T.tensor({nested(rng, shape, kind)}, dtype=T.{dtype})"
    chance = rng.random()
    if chance < 0.1 and floats:
        return f"{text}.requires_grad_()"
    if chance < 0.2 and floats:
        return (
            f"{text}.requires_grad_(){rng.choice(['.mul(2)', '.neg()', '.sum()', '.relu()', '.detach()', '.view(-1)'])}"
        )
    if chance < 0.3 and rank == 2:
        return f"{text}.t()"
    if chance < 0.35 and rank:
        return f"{text}[::2]"
    return f"{text}.expand({', '.join(map(str, [2, *shape]))})" if chance < 0.4 else text


def comparable(text):
    """Names of the library differ in length, and so where what follows the elements is broken into lines."""
    return re.sub(r",\s+(dtype=|requires_grad=|grad_fn=|size=)", r", \1", text.replace("torch.", "smolder."))


@needs_torch
@pytest.mark.parametrize("seed", range(3))
def test_tensors_print_as_torchs(seed):
    rng = random.Random(seed)
    fixed = [text.strip() for line in FIXED.strip().splitlines() for text in line.split(" | ")]
    recipes = [(rng.choice(OPTIONS), tensor(rng)) for _ in range(300)] + [(rng.choice(OPTIONS), t) for t in fixed]
    scope = {}
    exec(PRINT, scope)
    ours = scope["printed"](smolder, recipes)
    theirs = []
    for i in range(0, len(recipes), 60):  # an argument may be only so long
        theirs += run_torch(f"{PRINT}\nout = printed(torch, json.loads(argv[0]))", json.dumps(recipes[i : i + 60]))
    for recipe, a, b in zip(recipes, ours, theirs, strict=True):
        assert [comparable(x) for x in a] == [comparable(x) for x in b], recipe


# Printed by torch 2.15.
PRINTED = [
    ({"sci_mode": True}, "T.tensor([-0.75412, 0.61921])", "tensor([-7.5412e-01,  6.1921e-01])"),
    ({"sci_mode": True}, "T.tensor([nan, 2.0, -37.0])", "tensor([        nan,  2.0000e+00, -3.7000e+01])"),
    ({"sci_mode": True}, "T.tensor([0.0])", "tensor([0.])"),
    ({"sci_mode": False}, "T.tensor([-2459.1, 0.0009])", "tensor([-2459.1001,     0.0009])"),
    (None, "T.full((2,), 1e-4)", "tensor([1.0000e-04, 1.0000e-04])"),
    (None, "T.ones(2, requires_grad=True).view(1, 2)", "tensor([[1., 1.]], grad_fn=<ViewBackward0>)"),
    (None, "T.ones(2, requires_grad=True).max(0)[0]", "tensor(1., grad_fn=<MaxBackward0>)"),
]


@pytest.mark.parametrize(("options", "text", "expected"), PRINTED, ids=str)
def test_modes_widths_and_names(options, text, expected):
    scope = {}
    exec(PRINT, scope)
    assert scope["printed"](smolder, [(options, text)]) == [[expected, expected]]


def test_a_class_of_the_users_prints_its_name():
    class Mine(smolder.Tensor):
        pass

    assert repr(Mine(smolder.ones(2))) == "Mine([1., 1.])"
    assert repr(smolder.nn.Parameter(smolder.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"
