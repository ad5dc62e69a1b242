"""Libraries register by torch's older forms and keys, as torch takes them."""

import numpy as np
import pytest

import smolder
from smolder import library


@pytest.fixture
def lib():
    made = library.Library("key_ops", "FRAGMENT")
    yield made
    made._destroy()


def test_keys_of_autograd_take_the_whole_call(lib):
    lib.define("half(Tensor x) -> Tensor")
    lib.impl("half", lambda x: x / 2, "CPU")
    library.register_fake("key_ops::half", smolder.empty_like)
    calls = []

    class Half(smolder.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with smolder._ops.BelowAutograd():
                return smolder.ops.key_ops.half(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    def whole(x):
        calls.append("cpu")
        return Half.apply(x)

    lib.impl("half", whole, "AutogradCPU")
    lib.impl("half", lambda x: calls.append("any"), "Autograd")  # weaker than that of one type of devices
    x = smolder.tensor([2.0, 4.0], requires_grad=True)
    y = smolder.ops.key_ops.half(x)
    y.sum().backward()
    assert calls == ["cpu"]
    np.testing.assert_array_equal(y.detach().numpy(), [1, 2])
    np.testing.assert_array_equal(x.grad.numpy(), [7, 7])


def test_kernels_before_their_op(lib):
    @library.impl("key_ops::later", ["CPU"])
    def later(x):
        return x + 1

    lib.impl("later", smolder.empty_like, "Meta")
    lib.define("later(Tensor x) -> Tensor")
    np.testing.assert_array_equal(smolder.ops.key_ops.later(smolder.ones(2)).numpy(), [2, 2])


def test_libraries_as_first_arguments(lib):
    @library.define(lib, "more(Tensor x) -> Tensor")
    def more(x):
        return x + 3

    lib.define("most(Tensor x) -> Tensor")

    @library.impl(lib, "most", "CompositeImplicitAutograd")
    def most(x):
        return x * 5

    assert more(1) == 4 and most(1) == 5
    np.testing.assert_array_equal(smolder.ops.key_ops.more(smolder.ones(2)).numpy(), [4, 4])
    np.testing.assert_array_equal(smolder.ops.key_ops.most(smolder.ones(2)).numpy(), [5, 5])


def test_numbers_that_may_be_absent(lib):
    def bounded(x: smolder.Tensor, low: int | float | bool | None = None) -> smolder.Tensor:
        return x.clone() if low is None else x.clamp(min=low)

    schema = library.infer_schema(bounded, mutates_args=())
    assert schema == "(Tensor x, Scalar? low=None) -> Tensor"
    lib.define("bounded" + schema)
    lib.impl("bounded", bounded, "CPU")
    library.register_fake("key_ops::bounded", lambda x, low=None: smolder.empty_like(x))
    x = smolder.tensor([-1.0, 2.0])
    np.testing.assert_array_equal(smolder.ops.key_ops.bounded(x).numpy(), [-1, 2])
    np.testing.assert_array_equal(smolder.ops.key_ops.bounded(x, 1).numpy(), [1, 2])


def test_kernels_for_devices_that_there_are_none_of(lib):
    lib.define("same(Tensor x) -> Tensor")
    library.impl("key_ops::same", ["CPU", "MPS"], lambda x: x.clone())
    library.register_kernel("key_ops::same", "xpu", lambda x: x + 1)
    library.register_fake("key_ops::same", smolder.empty_like)
    np.testing.assert_array_equal(smolder.ops.key_ops.same(smolder.ones(2)).numpy(), [1, 1])
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        library.register_kernel("key_ops::same", "abacus", lambda x: x + 1)
