"""Convolutions on CUDA: cuDNN's and our own kernels against the host."""

import numpy as np
import pytest

import smolder
from smolder import backends, cuda, nn
from smolder.nn import functional as F

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")
needs_cudnn = pytest.mark.skipif(not backends.cudnn.is_available(), reason="there is no cuDNN")

CASES = {  # images, filters, arguments
    "3x3": ((4, 16, 20, 20), (32, 16, 3, 3), {"padding": 1}),
    "strided": ((4, 6, 15, 17), (8, 6, 3, 5), {"stride": 2, "padding": (1, 2)}),
    "dilated": ((2, 8, 20, 20), (8, 8, 3, 3), {"dilation": 2}),
    "grouped": ((2, 8, 12, 12), (12, 4, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 16, 12, 12), (16, 1, 3, 3), {"groups": 16, "padding": 1}),
    "1x1": ((8, 64, 7, 7), (32, 64, 1, 1), {}),
    "line": ((3, 5, 40), (7, 5, 4), {"stride": 3}),
    "volume": ((2, 3, 6, 7, 8), (4, 3, 2, 3, 3), {"padding": 1}),
}
EXACT, TF32 = 2e-6, 2e-3  # of the largest element
UNITS = {"float32": EXACT, "float16": 2e-3, "bfloat16": 1.6e-2}


def plans():
    return smolder.metrics()["counters"].get("cudnn.plans", 0)


def convolve(where, case, dtype="float32"):
    """The result and its gradients, of one set of numbers in float32."""
    images, filters, arguments = CASES[case]
    rng = np.random.default_rng(0)
    half = getattr(smolder, "bfloat16" if dtype == "bfloat16" else "float16")

    def operand(shape):
        x = smolder.tensor(rng.standard_normal(shape), dtype=smolder.float32).to(half).float()
        return x.to(where).to(getattr(smolder, dtype)).detach().requires_grad_()

    x, w = operand(images), operand(filters)
    convolution = (F.conv1d, F.conv2d, F.conv3d)[len(images) - 3]
    y = convolution(x, w, **arguments)
    y.backward(operand(tuple(y.shape)).detach())
    return [t.detach().float().cpu().numpy() for t in (y, x.grad, w.grad)]


def check(got, wanted, unit):
    for name, a, b in zip(("result", "input", "weight"), got, wanted, strict=True):
        off = np.abs(a - b).max() / np.abs(b).max()
        assert off < unit, (name, off)


@pytest.mark.parametrize("enabled", [False, pytest.param(True, marks=needs_cudnn)])
@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("case", CASES)
def test_convolutions_are_those_of_the_host(case, dtype, enabled):
    before = plans()
    with backends.cudnn.flags(enabled=enabled, allow_tf32=False):
        got = convolve("cuda", case, dtype)
    check(got, convolve("cpu", case, dtype), UNITS[dtype])
    assert (plans() > before) is enabled


@needs_cudnn
def test_tf32_is_allowed_unless_it_is_not():
    wanted = convolve("cpu", "3x3")
    off = {}
    for allow in (True, False):
        with backends.cudnn.flags(enabled=True, allow_tf32=allow):
            got = convolve("cuda", "3x3")
        off[allow] = np.abs(got[0] - wanted[0]).max() / np.abs(wanted[0]).max()
    assert off[False] < EXACT and off[True] < TF32


@needs_cudnn
def test_a_race_of_plans_gives_the_same_numbers():
    wanted = convolve("cpu", "3x3", "float16")
    for deterministic in (False, True):
        with backends.cudnn.flags(enabled=True, benchmark=True, deterministic=deterministic):
            check(convolve("cuda", "3x3", "float16"), wanted, UNITS["float16"])


@needs_cudnn
def test_each_run_has_the_same_bits():
    for dtype in UNITS:
        with backends.cudnn.flags(enabled=True):
            first = convolve("cuda", "3x3", dtype)
            for _ in range(3):
                for a, b in zip(convolve("cuda", "3x3", dtype), first, strict=True):
                    np.testing.assert_array_equal(a, b)


def losses(enabled, steps=12):
    """A network is trained for some steps, which are replayed as graphs once their addresses come again."""
    with backends.cudnn.flags(enabled=enabled, allow_tf32=False):
        smolder.manual_seed(0)
        layers = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()
        model = nn.Sequential(*layers, nn.Linear(16 * 7 * 7, 10)).to("cuda")
        optimizer = smolder.optim.SGD(model.parameters(), lr=0.05)
        x = smolder.randn(8, 3, 16, 16).to("cuda")
        y = smolder.arange(8).to("cuda")
        found = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            smolder.mark_step()
            found.append(loss.item())
        return found


@needs_cudnn
def test_graphs_replay_cudnn():
    before = smolder.metrics()["counters"].get("graphs.replayed", 0)
    got = losses(True)
    assert smolder.metrics()["counters"]["graphs.replayed"] > before
    np.testing.assert_allclose(got, losses(False), rtol=1e-4)
    assert got[-1] < got[0]
