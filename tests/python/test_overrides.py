"""Objects, classes of tensors and modes that answer calls of functions of tensors."""

import pickle
import threading

import pytest
from conftest import of_the_cpu
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import nn, overrides

BEFORE = """
from importlib import import_module
ov = import_module(torch.__name__ + ".overrides")
log = []
class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})
class Plain(torch.Tensor):
    pass
class Own:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})
class More(Own):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented if func.__name__ == "exp" else [t.__name__ for t in types]
class Mode(ov.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        log.append(func.__name__)
        return func(*args, **(kwargs or {}))
s, o = torch.ones(2, 3).as_subclass(Sub), Own()
def logged(use):
    log.clear()
    out = use()
    kinds = [type(x).__name__ for x in out] if isinstance(out, tuple) else type(out).__name__
    return kinds, list(log)
def within(use):
    with Mode():
        return logged(use)
def off(use):
    with ov.DisableTorchFunctionSubclass() if hasattr(ov, "DisableTorchFunctionSubclass") else torch._C.DisableTorchFunctionSubclass():
        return logged(use)
"""
USES = """
logged(lambda: s + 1) | logged(lambda: torch.add(s, 1)) | logged(lambda: 1 - s) | logged(lambda: s.sum()) | logged(lambda: torch.cat([s, s]))
logged(lambda: s[0]) | logged(lambda: s.to(torch.float64)) | logged(lambda: s.reshape(3, 2)) | logged(lambda: torch.max(s, dim=1)) | logged(lambda: s @ s.t())
off(lambda: s + 1) | within(lambda: torch.exp(torch.ones(2))) | within(lambda: torch.add(torch.ones(1), torch.ones(1)))
torch.add(o, torch.ones(2)) | torch.matmul(torch.ones(2), o) | torch.cat([torch.ones(2), o], dim=0) | torch.stack((o, o)) | torch.where(o, o, o)
torch.add(More(), o) | torch.add(o, More()) | torch.add(torch.ones(2).as_subclass(Plain), 1).__class__.__name__ | (torch.ones(2).as_subclass(Plain) * 2).__class__.__name__
type(torch.nn.Parameter(torch.ones(2)) + 1).__name__ | ov.has_torch_function((o,)) | ov.has_torch_function((1, torch.ones(1))) | ov.is_tensor_like(o) | ov.is_tensor_like(3)
ov.has_torch_function_unary(s) | ov.has_torch_function_variadic(1, o) | ov.handle_torch_function(torch.add, (o,), o, 1) | ov.is_tensor_method_or_property(torch.Tensor.add)
"""


@needs_torch
def test_who_is_asked_is_who_torch_asks():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


class Logged(smolder.Tensor):
    names = []  # noqa: RUF012 - what the test reads

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Boxed:
    """No tensor, with a value in it."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is smolder.lerp:
            return NotImplemented
        return Boxed(func(*(a.value if isinstance(a, Boxed) else a for a in args), **(kwargs or {})))


def test_a_class_of_tensors_is_asked_and_stays_through_operations():
    x = smolder.arange(6.0).reshape(2, 3).as_subclass(Logged)
    Logged.names.clear()
    y = smolder.cat([x * 2, x.exp()])[1:]
    assert isinstance(y, Logged) and Logged.names == ["mul", "exp", "cat", "__getitem__"]
    assert y.shape == (3, 3) and not isinstance(smolder.ones(2) + 1, Logged)
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        x.as_subclass(int)


def test_gradients_go_through_classes_of_tensors():
    w = smolder.ones(3, requires_grad=True)
    (w.as_subclass(Logged) * 3).sum().backward()
    assert w.grad.tolist() == [3, 3, 3]
    leaf = smolder.Tensor._make_subclass(nn.Parameter, smolder.ones(2), True)
    assert isinstance(leaf, nn.Parameter) and leaf.requires_grad and leaf.is_leaf
    assert type(leaf + 1) is smolder.Tensor and type(pickle.loads(pickle.dumps(leaf))) is nn.Parameter


def test_objects_that_are_no_tensors_answer():
    box = Boxed(smolder.ones(2))
    assert smolder.add(box, smolder.ones(2)).value.tolist() == [2, 2]
    with pytest.raises(
        TypeError, match=r"no implementation found for '.*lerp' on types that implement __torch_function__"
    ):
        smolder.lerp(box, box, 0.5)
    with pytest.raises(TypeError, match="must be Tensor"):
        smolder.exp(object())


@of_the_cpu("moves to the default device are calls too")
def test_modes_are_of_the_thread_that_entered_them():
    class Count(overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    with Count() as outer, Count() as inner:
        smolder.exp(smolder.ones(1))
        other = threading.Thread(target=lambda: smolder.exp(smolder.ones(1)))
        other.start()
        other.join()
    smolder.exp(smolder.ones(1))
    assert inner.calls == outer.calls == 2


def test_functions_in_python_ask_who_they_are_told_to():
    @overrides.wrap_torch_function(lambda a, b=None: (a, b))
    def pair(a, b=None):
        return "own"

    class Answers:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func is pair

    assert pair(1) == "own" and pair(1, Answers()) is True
    assert overrides.resolve_name(smolder.add) == "smolder.add"
    assert overrides.resolve_name(smolder.Tensor.add) == "smolder.Tensor.add" and overrides.resolve_name(len) is None
