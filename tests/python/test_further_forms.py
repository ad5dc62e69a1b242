"""Functions under further names of torch's: gradients of convolutions, steps of optimizers, pools, and small forms."""

import numpy as np
import pytest

import smolder
from smolder import nn, optim
from smolder.nn import functional as F
from smolder.torch.only.optim.adam import adam
from smolder.torch.only.optim.adamw import adamw
from smolder.torch.only.optim.sgd import sgd
from smolder.utils.dlpack import DLDeviceType

CONVOLUTIONS = {1: ((2, 4, 9), (6, 2, 3)), 2: ((2, 4, 7, 6), (6, 2, 3, 2)), 3: ((1, 4, 4, 5, 4), (4, 2, 2, 3, 2))}


def numbers(*shapes, dtype=smolder.float64):
    rng = np.random.default_rng(7)
    return [smolder.tensor(rng.standard_normal(shape), dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(dims):
    """A convolution is linear in each operand: <grad, conv(x, w)> is <input gradient, x> and <weight gradient, w>."""
    shape, weight_shape = CONVOLUTIONS[dims]
    x, w = numbers(shape, weight_shape)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    out = getattr(F, f"conv{dims}d")(x, w, **options)
    (grad,) = numbers(out.shape)
    of_input = getattr(nn.grad, f"conv{dims}d_input")(shape, w, grad, **options)
    of_weight = getattr(nn.grad, f"conv{dims}d_weight")(x, weight_shape, grad, **options)
    assert of_input.shape == x.shape and of_weight.shape == w.shape
    np.testing.assert_allclose((of_input * x).sum().item(), (grad * out).sum().item(), rtol=1e-10)
    np.testing.assert_allclose((of_weight * w).sum().item(), (grad * out).sum().item(), rtol=1e-10)
    step = smolder.zeros_like(x)
    step.view(-1)[5] = 1.0  # one element of the gradient, as the result changes with it
    change = getattr(F, f"conv{dims}d")(step, w, **options)
    np.testing.assert_allclose(of_input.view(-1)[5].item(), (grad * change).sum().item(), rtol=1e-10)


def test_gradients_of_convolutions_have_a_history():
    x, w = numbers(*CONVOLUTIONS[2])
    grad = F.conv2d(x, w, groups=2)
    w.requires_grad_()
    assert smolder.autograd.gradcheck(lambda w: nn.grad.conv2d_input(x.shape, w, grad, groups=2), (w,))
    with smolder.no_grad():
        assert not nn.grad.conv2d_input(x.shape, w, grad, groups=2).requires_grad


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ["max_pool", "adaptive_max_pool"])
def test_pools_with_indices(dims, name):
    (x,) = numbers(CONVOLUTIONS[dims][0])
    values, at = getattr(F, f"{name}{dims}d_with_indices")(x, 2)
    np.testing.assert_array_equal(values.numpy(), getattr(F, f"{name}{dims}d")(x, 2).numpy())
    taken = np.take_along_axis(x.numpy().reshape(*x.shape[:2], -1), at.numpy().reshape(*x.shape[:2], -1), -1)
    np.testing.assert_array_equal(taken.reshape(values.shape), values.numpy())


def test_rsub_with_a_factor():
    a, b = smolder.tensor([1.0, 2.0]), smolder.tensor([5.0, 7.0])
    assert smolder.rsub(a, b, alpha=2).tolist() == [3.0, 3.0]
    assert smolder.rsub(a, 3, alpha=0.5).tolist() == [2.5, 2.0]
    assert smolder.rsub(a, 3).tolist() == [2.0, 1.0]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        smolder.rsub(smolder.tensor([1]), 3, alpha=1.5)
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        smolder.rsub(a, 3, alpha=True)


def test_one_hot_of_as_many_classes_as_a_tensor_says():
    assert F.one_hot(smolder.tensor([0, 1]), smolder.tensor(3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(TypeError, match="num_classes"):
        F.one_hot(smolder.tensor([0, 1]), smolder.tensor(3.0))


def test_foreach_in_place_gives_the_list():
    given = [smolder.tensor([1.0, 4.0]), smolder.tensor([9.0])]
    assert smolder._foreach_sqrt_(given) is given and given[0].tolist() == [1.0, 2.0]
    assert smolder._foreach_addcmul_(given, given, given) is given and given[1].tolist() == [12.0]
    assert smolder._foreach_copy_(given, [g * 2 for g in given]) is given and given[1].tolist() == [24.0]
    assert smolder._foreach_zero_(given) is given and given[1].tolist() == [0.0]


def test_output_nr():
    x = smolder.ones(2, 3, requires_grad=True)
    assert (x.output_nr, x.detach().output_nr, (x * 2).output_nr) == (0, 0, 0)
    q, r = smolder.linalg.qr(x.mT @ x)
    assert (q.output_nr, r.output_nr) == (0, 1)


def test_threads_of_backward_are_a_mode():
    x = smolder.ones(2, requires_grad=True)
    with smolder.autograd.set_multithreading_enabled(False):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert smolder.autograd.set_multithreading_enabled(True)(lambda: 3)() == 3


def test_devices_of_dlpack_have_names():
    assert DLDeviceType(smolder.ones(2).__dlpack_device__()[0]) is DLDeviceType.kDLCPU


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("function, kind", [(adam, optim.Adam), (adamw, optim.AdamW)])
def test_steps_of_adam(function, kind, amsgrad):
    start, *gradients = numbers((3, 2), (3, 2), (3, 2))
    one, other = (start.clone().requires_grad_() for _ in range(2))
    by = kind([one], lr=0.1, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.05, amsgrad=amsgrad)
    state = [[smolder.zeros_like(start)] for _ in range(3)]
    steps = [smolder.tensor(0.0)]
    for grad in gradients:
        one.grad = grad
        by.step()
        function(
            [other], [grad], *state, steps,
            amsgrad=amsgrad, beta1=0.8, beta2=0.9, lr=smolder.tensor(0.1, dtype=smolder.float64), weight_decay=0.05,
            eps=1e-6, maximize=False,
        )  # fmt: skip
    assert steps[0].item() == 2
    np.testing.assert_allclose(other.detach().numpy(), one.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(state[1][0].numpy(), by.state[one]["exp_avg_sq"].numpy(), rtol=1e-12)


@pytest.mark.parametrize("momentum, nesterov", [(0, False), (0.9, False), (0.9, True)])
def test_steps_of_sgd(momentum, nesterov):
    start, *gradients = numbers((3, 2), (3, 2), (3, 2))
    one, other = (start.clone().requires_grad_() for _ in range(2))
    by = optim.SGD([one], lr=0.1, momentum=momentum, weight_decay=0.05, nesterov=nesterov)
    buffers = [None]
    for grad in gradients:
        one.grad = grad
        by.step()
        options = {"weight_decay": 0.05, "momentum": momentum, "lr": 0.1, "dampening": 0}
        sgd([other], [grad], buffers, **options, nesterov=nesterov, maximize=False)
    np.testing.assert_allclose(other.detach().numpy(), one.detach().numpy(), rtol=1e-12)
    assert (buffers[0] is None) == (momentum == 0)


def test_steps_that_are_not_supported_say_so():
    options = {"amsgrad": False, "beta1": 0.9, "beta2": 0.9, "lr": 0.1, "weight_decay": 0, "eps": 1e-8}
    for name, value in (("differentiable", True), ("grad_scale", smolder.tensor(2.0))):
        with pytest.raises(NotImplementedError, match=name):
            adam([], [], [], [], [], [], **{name: value}, **options, maximize=False)
    with pytest.raises(RuntimeError, match="state_steps"):
        adam([], [], [], [], [], [1], **options, maximize=False)


def test_tensordot_takes_a_dimension_of_one_for_equal_elements():
    a, b = smolder.arange(24.0).reshape(2, 3, 4), smolder.arange(8.0).reshape(2, 1, 4)
    expected = (a * b).sum()
    assert smolder.tensordot(a, b, 3) == expected == smolder.tensordot(b, a, 3)
    assert smolder.tensordot(a.int(), b.int(), 3).dtype == smolder.int32
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        smolder.tensordot(a, smolder.ones(2, 2, 4), 3)
