"""Guards of smolder.compile: one thing changes between two calls, and the compiled function does what the function does."""

import dataclasses
import functools
import math
import types
from collections import deque
from dataclasses import asdict as as_a_dict

import numpy as np
import pytest
from compile_results import bits, fresh, told  # noqa: F401
from conftest import DEVICE

import smolder
from smolder import nn
from smolder.compiler import events
from smolder.nn import functional as F

SCALE = 2.0


def randn(*shape, **options):
    return smolder.randn(*shape, **options)


class Helper:
    factor = 3.0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.register_buffer("shift", smolder.zeros(2))
        self.scale, self.names = 2.0, ["relu"]
        self.config = {"power": 2}

    def forward(self, x):
        x = self.first(x)
        for name in self.names:
            x = getattr(F, name)(x)
        x = F.dropout(x, 0.5, self.training)
        return self.second(x) ** self.config["power"] * self.scale + self.shift


def set_attribute(name, value):
    return lambda m: setattr(m, name, value)


def set_default(m):
    Model.forward.__defaults__ = ()


def change_weight(m):
    with smolder.no_grad():
        m.first.weight.mul_(2)


def replace_class_function(m):
    Model.forward = lambda self, x: self.first(x)


MODULE_CHANGES = {
    "training": lambda m: m.eval(),
    "child training": lambda m: m.second.eval(),
    "scale": set_attribute("scale", 3.0),
    "scale's type": set_attribute("scale", 2),
    "scale to nan": set_attribute("scale", float("nan")),
    "scale's sign of zero": set_attribute("scale", -0.0),
    "list item": lambda m: m.names.__setitem__(0, "tanh"),
    "list length": lambda m: m.names.append("sigmoid"),
    "list itself": set_attribute("names", ["tanh"]),
    "dict item": lambda m: m.config.__setitem__("power", 3),
    "weight's value": change_weight,
    "weight's data": lambda m: setattr(m.first.weight, "data", smolder.ones(4, 3)),
    "weight": lambda m: setattr(m.first, "weight", nn.Parameter(smolder.ones(4, 3))),
    "bias to None": lambda m: setattr(m.first, "bias", None),
    "buffer": lambda m: setattr(m, "shift", smolder.ones(2)),
    "buffer in place": lambda m: m.shift.add_(1),
    "buffer's dtype": lambda m: setattr(m, "shift", smolder.ones(2, dtype=smolder.float64)),
    "requires_grad": lambda m: m.requires_grad_(False),
    "one requires_grad": lambda m: m.first.bias.requires_grad_(False),
    "child": lambda m: setattr(m, "first", nn.Linear(3, 4, bias=False)),
    "forward hook": lambda m: m.first.register_forward_hook(lambda m, i, o: o * 2),
    "pre hook": lambda m: m.register_forward_pre_hook(lambda m, i: (i[0] + 1,)),
    "forward of the instance": set_attribute("forward", lambda x: x * 2),
    "forward of the class": replace_class_function,
    "new attribute": set_attribute("extra", 5),
    "dtype": lambda m: m.double(),
    "state dict": lambda m: m.load_state_dict({k: smolder.ones_like(v) for k, v in m.state_dict().items()}),
}


@pytest.mark.parametrize("change", MODULE_CHANGES)
def test_a_change_to_a_module_is_seen(change):
    forward = Model.forward
    try:

        def calls(compile):
            smolder.manual_seed(2)
            m = Model()
            f = compile(m)
            out = [run(m, f) for _ in range(3)]
            MODULE_CHANGES[change](m)
            out += [run(m, f) for _ in range(3)]
            Model.forward = forward
            return out, f

        def run(m, f):
            x = smolder.randn(5, 3, dtype=m.first.weight.dtype if hasattr(m.first, "weight") else smolder.float32)
            y = f(x)
            m.zero_grad()
            if y.requires_grad:
                y.sum().backward()
            return bits(y), [None if p.grad is None else bits(p.grad) for p in m.parameters()]

        got, f = calls(smolder.compile)
        want, _ = calls(lambda m: m)
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert a == b, i
        assert sum(f._compiled_call._hits()) >= 3, list(events)
    finally:
        Model.forward = forward


def closure():
    state = {"k": 2.0, "t": smolder.ones(3), "g": 1.0}

    def function(x):
        return x * state["k"] + state["t"] * state["g"]

    return function, state


def set_global(value):
    def change(state):
        global SCALE
        SCALE = value

    return change


CLOSURE_CHANGES = {
    "number": lambda s: s.update(k=3.0),
    "type of a number": lambda s: s.update(k=2),
    "tensor": lambda s: s.update(t=smolder.zeros(3)),
    "tensor's value": lambda s: s["t"].add_(1),
    "tensor's shape": lambda s: s.update(t=smolder.ones(1)),
    "key": lambda s: s.update(new=1),
}


@pytest.mark.parametrize("change", CLOSURE_CHANGES)
def test_a_change_to_a_closure_is_seen(change):
    x = randn(3)

    def calls(compile):
        function, state = closure()
        f = compile(function)
        out = [bits(f(x)), bits(f(x))]
        CLOSURE_CHANGES[change](state)
        return [*out, bits(f(x)), bits(f(x))]

    assert calls(smolder.compile) == calls(lambda f: f)


@pytest.mark.parametrize(
    "where", ["global", "global in a call", "module attribute", "class attribute", "default", "code"]
)
def test_a_change_to_what_a_function_names_is_seen(where, monkeypatch):
    def reads_global(x):
        return x * SCALE

    def calls_it(x):
        return reads_global(x) + 1

    def reads_module(x):
        return x * math.tau * np.pi * smolder_test_module.K

    def reads_class(x):
        return x * Helper.factor

    def has_default(x, k=2.0):
        return x * k

    smolder_test_module = type(math)("smolder_test_module")
    smolder_test_module.K = 2.0
    function, change = {
        "global": (reads_global, lambda: monkeypatch.setitem(globals(), "SCALE", 5.0)),
        "global in a call": (calls_it, lambda: monkeypatch.setitem(globals(), "SCALE", 5.0)),
        "module attribute": (reads_module, lambda: setattr(smolder_test_module, "K", 3.0)),
        "class attribute": (reads_class, lambda: monkeypatch.setattr(Helper, "factor", 4.0)),
        "default": (has_default, lambda: setattr(has_default, "__defaults__", (3.0,))),
        "code": (has_default, lambda: setattr(has_default, "__code__", (lambda x, k: x + k).__code__)),
    }[where]
    f = smolder.compile(function)
    x = randn(3)
    assert bits(f(x)) == bits(function(x))
    assert bits(f(x)) == bits(function(x))
    assert sum(f._hits()) == 1
    change()
    assert bits(f(x)) == bits(function(x))
    assert len(told("missed")) == 1


ARGUMENTS = {
    "shape": lambda: (randn(4, 3), 2.0),
    "rank": lambda: (randn(3), 2.0),
    "dtype": lambda: (randn(2, 3).double(), 2.0),
    "strides": lambda: (randn(3, 2).t(), 2.0),
    "offset": lambda: (randn(3, 3)[1:], 2.0),
    "requires_grad": lambda: (randn(2, 3).requires_grad_(), 2.0),
    "no leaf": lambda: (randn(2, 3).requires_grad_() * 2, 2.0),
    "number": lambda: (randn(2, 3), 3.0),
    "int": lambda: (randn(2, 3), 2),
    "bool": lambda: (randn(2, 3), True),
    "tensor for a number": lambda: (randn(2, 3), smolder.tensor(2.0)),
    "parameter": lambda: (nn.Parameter(randn(2, 3)), 2.0),
    "on an array": lambda: (smolder.from_numpy(np.ones((2, 3), np.float32)), 2.0),
    "keyword": lambda: (randn(2, 3), 2.0, {"z": 1}),
}


def arguments(x, y, z=0):
    return x * y + z, x.is_contiguous(), x.stride(), x.storage_offset(), x.is_leaf, type(y).__name__


@pytest.mark.parametrize("change", ARGUMENTS)
def test_a_change_to_arguments_is_seen(change):
    if DEVICE != "cpu" and change == "on an array":
        pytest.skip("of the CPU: NumPy shares no memory of a device")
    f = smolder.compile(arguments)
    for _ in range(2):
        args = (randn(2, 3), 2.0)
        assert bits(f(*args)) == bits(arguments(*args))
    *args, keywords = [*ARGUMENTS[change](), {}] if change != "keyword" else ARGUMENTS[change]()
    assert bits(f(*args, **keywords)) == bits(arguments(*args, **keywords))
    assert len(told("missed")) == 1
    assert sum(f._hits()) == 1


def test_the_structure_of_arguments_is_guarded():
    def f(tree, **options):
        return sum(options.values(), smolder.zeros(2)) + sum(tree["a"]) * len(tree) + (tree.get("b") or 0)

    compiled = smolder.compile(f)
    x = smolder.ones(2)
    for tree in (
        {"a": [x]},
        {"a": [x]},
        {"a": [x, x]},
        {"a": (x, x)},
        {"a": [x], "b": 2},
        {"b": 2, "a": [x]},
        {"a": [x]},
    ):
        for options in ({}, {"k": 1.0}, {"k": 2.0, "l": x}):
            assert bits(compiled(tree, **options)) == bits(f(tree, **options))
    assert len(told("recorded")) == 18  # of 21 calls


MODES = {
    "no_grad": smolder.no_grad,
    "inference": smolder.inference_mode,
    "autocast": lambda: smolder.autocast("cpu"),
    "eager": smolder.eager,
    "strict": smolder.strict,
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_are_guarded(mode):
    m = nn.Linear(3, 2)
    compiled = smolder.compile(m)
    x = randn(4, 3)
    for _ in range(2):
        assert bits(compiled(x)) == bits(m(x))
        with MODES[mode]():
            assert bits(compiled(x)) == bits(m(x))
        with MODES[mode]():
            assert bits(compiled(x)) == bits(m(x))
        assert bits(compiled(x)) == bits(m(x))


def test_a_miss_names_its_guard():
    f = smolder.compile(lambda x, k: x * k)
    f(randn(2), 1.0)
    f(randn(3), 1.0)
    f(randn(3), 2.0)
    assert told("missed")[0] == "args[0]: shape was [2] and is [3]"
    assert told("missed")[1] == "args[1] was 1.0 and is 2.0"
    with smolder.no_grad():
        f(randn(3), 2.0)
    assert told("missed")[2] == "grad mode was 1 and is 0"


def test_functions_of_the_library_that_a_program_keeps_are_guarded():
    """As in TransformerEncoderLayer, which has its activation as an attribute."""
    x, module, bias = smolder.arange(-3.0, 3.0), nn.Identity(), smolder.ones(6)
    module.activation, add = F.gelu, bias.add
    halved = functools.partial(smolder.mul, other=0.5)
    f = smolder.compile(lambda x: halved(add(module.activation(x))))
    for activation in (F.gelu, F.gelu, F.gelu, F.relu, F.relu):
        module.activation = activation
        assert f(x).tolist() == ((activation(x) + 1) * 0.5).tolist()
    bias.fill_(2)
    assert f(x).tolist() == ((F.relu(x) + 2) * 0.5).tolist()
    assert sum(f._hits()) >= 3


class Trainer:
    """Keeps beside what a step reads what it does not."""

    def __init__(self):
        self.model, self.scale = nn.Linear(3, 2), np.float32(2.0)
        self.optimizer = smolder.optim.SGD(self.model.parameters(), 0.1)
        self.losses, self.number, self.recent, self.started = [], 0, deque([1.0]), np.float32(3)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().sum() * self.scale
        loss.backward()
        self.optimizer.step()
        return loss


def test_attributes_that_no_code_names_may_change():
    compiled, plain = Trainer(), Trainer()
    plain.model.load_state_dict(compiled.model.state_dict())
    step = smolder.compile(compiled.step)
    for i in range(8):
        x = smolder.full((4, 3), float(i))
        losses = step(x).item(), plain.step(x).item()
        assert losses[0] == losses[1]
        compiled.losses.append(losses[0])
        compiled.recent.append(losses[0])
        compiled.number += 1
        compiled.model.calls = compiled.number
        if i == 5:
            compiled.scale = plain.scale = np.float32(3)  # which it names
    # All but the first two, when the optimizer's state is made, and the one with its scale.
    assert sum(step._hits()) == 5


@dataclasses.dataclass
class Gains:
    first: float = 2.0


class ByName:
    factor = 2.0

    def __init__(self):
        self.other, self.name, self.count = 5.0, "factor", 0
        self.gains, self.space = Gains(), types.SimpleNamespace(mode=1)

    def spelled(self, x):
        return x * self.factor

    def looked_up(self, x):
        return x * getattr(self, self.name)

    def in_text(self, x):
        return x * float(f"{self.factor}")

    def of_all(self, x):
        return x * sum(v for v in vars(self).values() if isinstance(v, float))

    def matched(self, x):
        match self:
            case ByName(other=5.0):
                return x
        return -x

    def taken_apart(self, x):
        return x * sum(as_a_dict(self.gains).values())

    def compared(self, x):
        return x * 2 if self.space == types.SimpleNamespace(mode=1) else x * 3

    def counted(self, x):
        self.count += 1
        return x * self.factor

    def kept(self, x):
        self.latest = float(x.shape[0])
        return x * self.factor


@pytest.mark.parametrize(
    "name", ["spelled", "looked_up", "in_text", "of_all", "matched", "taken_apart", "compared", "counted", "kept"]
)
def test_attributes_are_guarded_however_code_reads_them(name):
    """Found in the class, or set on the object later; by a name that no code spells; or written."""
    o, wanted, x = ByName(), ByName(), smolder.ones(3)
    f, g = smolder.compile(getattr(o, name)), getattr(wanted, name)
    changes = [
        lambda o: None,
        lambda o: setattr(o, "factor", 4.0),
        lambda o: setattr(o, "other", 6.0),
        lambda o: setattr(o, "name", "other"),
        lambda o: (setattr(o.gains, "first", 3.0), setattr(o.space, "mode", 2)),
        lambda o: delattr(o, "factor"),
        lambda o: setattr(o, "unknown", 7.0),
        lambda o: None,
    ]
    for change in changes:
        change(o), change(wanted)
        x = smolder.ones(x.shape[0] + 1)
        for _ in range(3):
            assert f(x).tolist() == g(x).tolist()
            assert vars(o) == vars(wanted)


def test_a_detached_tensor_that_no_code_names_sees_what_is_written():
    trainer = Trainer()
    trainer.before = trainer.model.weight.detach()
    step = smolder.compile(trainer.step)
    for _ in range(5):
        step(smolder.ones(4, 3))
        assert trainer.before.tolist() == trainer.model.weight.tolist()
    assert sum(step._hits()) == 3
    late = trainer.late = trainer.model.weight.detach()
    for _ in range(3):
        step(smolder.ones(4, 3))
        assert late.tolist() == trainer.before.tolist() == trainer.model.weight.tolist()
