"""Classes of tensors with a __torch_dispatch__: ops on them are what the class says."""

import copy
import gc
import pathlib
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F
from smolder.utils._python_dispatch import TorchDispatchMode
from smolder.utils._pytree import tree_map

aten = smolder.ops.aten
Tensor = smolder.Tensor


def plain(x):
    if isinstance(x, Scaled):
        return x.dequantized()
    return [plain(v) for v in x] if isinstance(x, list | tuple) else x


class Scaled(Tensor):
    """Integers and the scale of each row."""

    __slots__ = ("integers", "scale")
    __torch_function__ = smolder.overrides._disabled_torch_function_impl
    seen = ()

    @staticmethod
    def __new__(cls, integers, scale):
        return Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scale.dtype, device=integers.device)

    def __init__(self, integers, scale):
        self.integers, self.scale = integers, scale

    def dequantized(self):
        return self.integers.to(self.scale.dtype) * self.scale

    def __tensor_flatten__(self):
        return ["integers", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        Scaled.seen = (*Scaled.seen, str(func))
        assert types == (Scaled,) and not smolder.is_grad_enabled()
        if func in (aten.detach.default, aten.clone.default):
            return cls(func(args[0].integers), func(args[0].scale))
        if func is aten.t.default and args[0].scale.dim() == 2:
            return cls(args[0].integers.t(), args[0].scale.t())
        if func is aten.mul_.Tensor:
            args[0].scale.mul_(args[1])
            return args[0]
        if func is aten.sin.default:
            return NotImplemented
        return func(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})


rng = np.random.default_rng(0)


def numbers(*shape):
    return smolder.tensor(rng.standard_normal(shape).astype(np.float32))


def scaled(rows=4, columns=8):
    integers = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
    scale = rng.random((rows, 1)).astype(np.float32) * 0.01 + 0.001
    w = Scaled(smolder.tensor(integers), smolder.tensor(scale))
    Scaled.seen = ()
    return w, integers.astype(np.float64) * scale


def test_has_what_it_was_made_with():
    w, _ = scaled()
    assert type(w) is Scaled and w.shape == (4, 8) and w.dtype == smolder.float32 and w.stride() == (8, 1)
    assert not w.requires_grad and w.device.type == "cpu" and w.numel() == 32 and len(w) == 4
    assert "integers" in vars(w)  # slots are no place that objects of one value share
    turned = Tensor._make_wrapper_subclass(Scaled, (4, 8), strides=(1, 4), dtype=smolder.float16, requires_grad=True)
    assert turned.stride() == (1, 4) and not turned.is_contiguous() and turned.requires_grad
    assert turned.dtype == smolder.float16


def test_linear_and_its_gradient_are_those_of_what_it_stands_for():
    w, expected = scaled()
    x = numbers(3, 8).requires_grad_()
    y = F.linear(x, w)
    assert type(y) is Tensor and y.requires_grad
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy() @ expected.T, rtol=1e-5, atol=1e-6)
    y.square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.detach().numpy() @ expected, rtol=1e-5, atol=1e-6)
    assert Scaled.seen == ("aten.t.default", "aten.mm.default", "aten.mm.default")


def test_results_of_the_class_are_objects_of_it():
    w, expected = scaled()
    t = w.t()
    assert type(t) is Scaled and t.integers.shape == (8, 4)
    np.testing.assert_allclose((t + 0.5).numpy(), expected.T + 0.5, rtol=1e-6, atol=1e-6)
    assert type(w + w) is Tensor and type(2 * w) is Tensor
    np.testing.assert_allclose(smolder.cat([w, w]).numpy(), np.concatenate([expected] * 2), rtol=1e-6)
    np.testing.assert_allclose(w.to(smolder.float64).numpy(), expected, rtol=1e-6)
    assert Scaled.seen[-1] == "aten._to_copy.default"
    values, places = w.max(dim=1)
    np.testing.assert_allclose(values.numpy(), expected.max(1), rtol=1e-6)
    np.testing.assert_array_equal(places.numpy(), expected.argmax(1))


def test_parameters_are_of_the_class():
    w, expected = scaled()
    layer = nn.Linear(8, 4, bias=False)
    layer.weight = nn.Parameter(w, requires_grad=False)
    p = layer.weight
    assert type(p) is Scaled and isinstance(p, nn.Parameter) and p is not w
    assert not isinstance(w, nn.Parameter) and not isinstance(p, nn.Buffer) and not p.requires_grad
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert type(layer.state_dict()["weight"]) is Scaled
    x = numbers(2, 8)
    np.testing.assert_allclose(layer(x).numpy(), x.numpy() @ expected.T, rtol=1e-5, atol=1e-6)
    twin = copy.deepcopy(layer)
    assert type(twin.weight) is Scaled and isinstance(twin.weight, nn.Parameter)
    twin.weight.integers.zero_()
    assert twin(x).abs().sum() == 0 and layer(x).abs().sum() > 0


def test_files_have_what_they_are_made_of(tmp_path):
    w, expected = scaled()
    layer = nn.Linear(8, 4)
    layer.weight = nn.Parameter(w, requires_grad=False)
    smolder.save(layer.state_dict(), tmp_path / "state.pt")
    with pytest.raises(pickle.UnpicklingError, match="Scaled was not an allowed global"):
        smolder.load(tmp_path / "state.pt")
    with smolder.serialization.safe_globals([Scaled]):
        back = smolder.load(tmp_path / "state.pt")["weight"]
    assert type(back) is Scaled and back.shape == (4, 8)
    np.testing.assert_allclose(back.dequantized().numpy(), expected, rtol=1e-6)


def test_what_c_plus_plus_kept_is_an_object_of_the_class_again():
    class Times(smolder.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w.dequantized().t()

        @staticmethod
        def backward(ctx, g):
            _, w = ctx.saved_tensors
            assert type(w) is Scaled and w.integers is not None
            return g @ w.dequantized(), None

    w, expected = scaled()
    x = numbers(3, 8).requires_grad_()
    Times.apply(x, w).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(expected.sum(0), (3, 8)), rtol=1e-5, atol=1e-6)


def test_gradients_of_a_parameter_of_the_class():
    w, expected = scaled()
    p = nn.Parameter(w)
    x = numbers(3, 8)
    (F.linear(x, p) * 2).sum().backward()
    np.testing.assert_allclose(p.grad.numpy(), np.broadcast_to(2 * x.numpy().sum(0), (4, 8)), rtol=1e-5)
    assert p.requires_grad and expected.shape == p.shape


def test_writes_in_place_are_the_classs():
    w, expected = scaled()
    assert w.mul_(2) is w
    w *= 2
    np.testing.assert_allclose(w.dequantized().numpy(), expected * 4, rtol=1e-6)
    assert Scaled.seen == ("aten.mul_.default", "aten.mul_.default")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        w.data = smolder.zeros(4, 8)
    other, expected = scaled()
    w.data = other
    np.testing.assert_allclose(w.dequantized().numpy(), expected, rtol=1e-6)
    target = smolder.zeros(4, 8)
    target.copy_(w).add_(w)
    np.testing.assert_allclose(target.numpy(), 2 * expected, rtol=1e-6)


def test_modes_are_asked_first():
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), types))
            return func(*args, **(kwargs or {}))

    seen = []
    w, expected = scaled()
    with Log():
        y = w.exp()
    assert seen[0] == ("aten.exp.default", (Scaled,)) and Scaled.seen[0] == "aten.exp.default"
    np.testing.assert_allclose(y.numpy(), np.exp(expected), rtol=1e-5)


def test_torch_function_comes_before():
    class Counted(Scaled):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Counted.calls += func is F.linear
            with smolder.overrides.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*map(plain, args), **(kwargs or {}))

    w, expected = scaled()
    x = numbers(2, 8)
    y = F.linear(x, Counted(w.integers, w.scale))
    np.testing.assert_allclose(y.numpy(), x.numpy() @ expected.T, rtol=1e-5, atol=1e-6)
    assert Counted.calls == 1


def test_elements_that_are_not_there():
    w, _ = scaled()
    with pytest.raises(RuntimeError, match="Cannot access data pointer of Tensor that doesn't have storage"):
        w.numpy()
    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"):
        w.sin()


def test_mistakes():
    class Silent(Tensor):
        pass

    with pytest.raises(TypeError, match="Silent must define __torch_dispatch__"):
        Tensor._make_wrapper_subclass(Silent, (2,))
    with pytest.raises(TypeError, match=r"cls must be a type \(got int\)"):
        Tensor._make_wrapper_subclass(3, (2,))
    with pytest.raises(NotImplementedError, match=r"strides .* leave gaps"):
        Tensor._make_wrapper_subclass(Scaled, (2, 3), strides=(6, 2))
    with pytest.raises(NotImplementedError, match="dispatch_device=True is not supported"):
        Tensor._make_wrapper_subclass(Scaled, (2, 3), dispatch_device=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        Tensor._make_wrapper_subclass(Scaled, (2, 3), colour=1)


def test_attributes_go_with_the_tensor():
    class Flag:
        pass

    w, _ = scaled()
    w.flag = Flag()
    gone = weakref.ref(w.flag)
    y = w.detach()
    del w
    gc.collect()
    assert gone() is None and type(y) is Scaled


class Wrapped(Tensor):
    """A tensor and the ops that were asked of it; what it answers is of it too."""

    __torch_function__ = smolder.overrides._disabled_torch_function_impl
    seen = ()

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        out = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=requires_grad
        )
        out.inner = inner
        return out

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Wrapped.seen = (*Wrapped.seen, str(func))
        args, kwargs = tree_map(lambda x: x.inner if isinstance(x, Wrapped) else x, (args, kwargs or {}))
        return tree_map(lambda x: cls(x) if type(x) is Tensor else x, func(*args, **kwargs))


def wrapped(values, requires_grad=False):
    out = Wrapped(smolder.tensor(values), requires_grad)
    Wrapped.seen = ()
    return out


def test_writes_in_place_with_history_are_refused():
    y = wrapped([1.0, 2.0, 3.0], True) * 2
    with pytest.raises(NotImplementedError, match=r"Wrapped\.mul_\(\).*where an operand requires grad"):
        y.mul_(3)
    with pytest.raises(NotImplementedError, match=r"Wrapped\.mul_\(\)"):
        y *= 3
    plain_source = smolder.ones(3, requires_grad=True)
    w = wrapped([1.0, 2.0, 3.0])
    with pytest.raises(NotImplementedError, match=r"Wrapped\.copy_\(\)"):
        w.copy_(plain_source)
    with pytest.raises(NotImplementedError, match=r"Wrapped\.add_\(\)"):
        w.add_(other=plain_source)
    leaf = wrapped([1.0, 2.0, 3.0], True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        leaf.mul_(3)
    with smolder.no_grad():
        leaf.mul_(3)
    assert leaf.inner.tolist() == [3, 6, 9] and w.inner.tolist() == [1, 2, 3]


def test_writes_at_an_index_are_the_classs():
    w = wrapped([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    w[0] = 5
    w[1, 1:] = smolder.tensor([7.0, 8.0])
    w[1, 0] += 2
    assert w.inner.tolist() == [[5, 5, 5], [2, 7, 8]]
    assert Wrapped.seen[:2] == ("aten.select.default", "aten.fill_.default")
    w[0] = wrapped([1.0, 2.0, 3.0])
    assert w.inner.tolist() == [[1, 2, 3], [2, 7, 8]]
    w[w.inner > 6] = 0
    w[:, smolder.tensor([0])] = -1
    assert w.inner.tolist() == [[-1, 2, 3], [-1, 0, 0]]
    s, _ = scaled()
    with pytest.raises(NotImplementedError, match=r"Scaled\[\.\.\.\] = value is not supported.*a Tensor"):
        s[0] = 5


def test_what_a_value_leaves_behind_may_record():
    program = """
import faulthandler
faulthandler.dump_traceback_later(60, exit=True)
import smolder
from test_wrapper_classes import wrapped
class Records:
    def __del__(self):
        print((smolder.zeros(3) + 1).sum().item())
w = wrapped([1.0, 2.0, 3.0], True)
(w * w).sum().backward()
w.grad.note = Records()
(w * w).sum().backward()
print(w.grad.inner.tolist())
w.grad = None
a = wrapped([1.0])
a.data = wrapped([2.0])
(smolder.ones(3) * 2).sum().item()
print(a.inner.tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=pathlib.Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    assert "[4.0, 8.0, 12.0]" in done.stdout and "3.0" in done.stdout and "[2.0]" in done.stdout


def test_arguments_by_name():
    w, expected = scaled()
    x = numbers(3, 8)
    y = F.linear(x, weight=w)
    assert type(y) is Tensor
    np.testing.assert_allclose(y.numpy(), x.numpy() @ expected.T, rtol=1e-5, atol=1e-6)
    joined = smolder.cat(tensors=[wrapped([1.0, 2.0]), smolder.zeros(1)])
    assert type(joined) is Wrapped and joined.inner.tolist() == [1, 2, 0]
    assert type(smolder.detach(input=w)) is Scaled and Scaled.seen[-1] == "aten.detach.default"


def test_parameters_stay_parameters():
    layer = nn.Linear(3, 1, bias=False)
    layer.weight = nn.Parameter(wrapped([[1.0, 1.0, 1.0]]))
    layer.weight.note = "kept"
    layer(smolder.ones(2, 3)).sum().backward()
    smolder.optim.SGD(layer.parameters(), lr=0.1).step()
    np.testing.assert_allclose(layer.weight.inner.numpy(), [[0.8, 0.8, 0.8]], rtol=1e-6)
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.note == "kept"


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop"]
)
def test_optimizers_step(name):
    options = {"lr": 0.1} | ({"momentum": 0.9} if name == "SGD" else {})
    ends = []
    for make in (wrapped, smolder.tensor):
        p = nn.Parameter(make([1.0, 2.0, 3.0]))
        optimizer = getattr(smolder.optim, name)([p], **options)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        assert isinstance(p, nn.Parameter)
        ends.append((p.inner if type(p) is Wrapped else p).detach().numpy())
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


def test_tensors_like_them_are_asked_of_the_class():
    w = wrapped([1.0, 2.0])
    made = [
        smolder.zeros_like(w), smolder.ones_like(w), smolder.empty_like(w), smolder.rand_like(w), smolder.randn_like(w),
        smolder.randint_like(w, 5), w.new_empty(3), w.new_zeros(3),
    ]  # fmt: skip
    assert all(type(m) is Wrapped for m in made)
    assert made[0].inner.tolist() == [0, 0] and made[1].inner.tolist() == [1, 1]
    assert Wrapped.seen[:2] == ("aten.zeros_like.default", "aten.ones_like.default")
    filled = smolder.full_like(w, 3, dtype=smolder.float64, requires_grad=True)
    assert filled.dtype == smolder.float64 and filled.requires_grad and filled.inner.tolist() == [3, 3]
    assert w.new_full((2, 1), 5.0).inner.tolist() == [[5], [5]] and w.new_ones(size=(1,)).inner.tolist() == [1]
    assert type(w.new_tensor([1])) is Tensor


def test_writes_to_another_kind_are_named():
    x = smolder.zeros(3)
    with pytest.raises(NotImplementedError, match=r"add_: a write in place of a Wrapped to a Tensor"):
        x.add_(wrapped([1.0, 2.0, 3.0]))
    with pytest.raises(NotImplementedError, match=r"copy_: a write in place of a Wrapped to a Tensor"):
        x.copy_(wrapped([1.0, 2.0, 3.0]))


def test_modes_see_what_is_not_recorded():
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), types))
            return func(*args, **(kwargs or {}))

    seen = []
    w = wrapped([1.0, 2.0])
    with Log():
        d = w.detach()
        w.mul_(2)
        w.copy_(w + 1)
    names = [name for name, _ in seen]
    assert type(d) is Wrapped and w.inner.tolist() == [3, 5]
    assert [n for n in names if n != "aten.add.default"] == [
        "aten.detach.default", "aten.mul_.default", "aten.copy_.default"
    ]  # fmt: skip
    assert seen[0] == ("aten.detach.default", (Wrapped,))


def test_history_is_of_the_result_and_not_of_the_answer():
    answers = []

    class Keeps(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_dispatch__(func, types, args, kwargs)
            answers.append(out)
            return out

    w = Keeps(smolder.ones(2, 3), True)
    y = w.t()
    assert y.requires_grad and y.stride() == (1, 3) and not answers[0].requires_grad
    (y * smolder.arange(6.0).reshape(3, 2)).sum().backward()
    np.testing.assert_array_equal(
        (w.grad.inner if isinstance(w.grad, Wrapped) else w.grad).numpy(), np.arange(6.0).reshape(3, 2).T
    )
    assert (w.detach().t() * 2).stride() == (1, 3)
