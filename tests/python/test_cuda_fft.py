"""Fourier transforms on a device, by cuFFT: against NumPy's, wherever numbers lie, and what is without it."""

import numpy as np
import pytest

import smolder
from smolder import fft

pytestmark = pytest.mark.skipif(not smolder.cuda.is_available(), reason="there is no CUDA device")

NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL_INPUT = ("rfft", "ihfft", "rfftn")


def fallbacks():
    return smolder.metrics()["counters"]["fallbacks"]


@pytest.fixture(autouse=True)
def nothing_goes_through_the_host():
    before = fallbacks()
    yield
    assert fallbacks() == before


def given(name, shape, dtype="float64"):
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape)
    x = x if name in REAL_INPUT else x + 1j * rng.standard_normal(shape)
    return x.astype(np.result_type(dtype, np.complex64) if x.dtype.kind == "c" else dtype)


def same(ours, expected, bound=1e-10):
    assert ours.is_cuda
    np.testing.assert_allclose(ours.cpu().numpy(), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 6, 7])
@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_along_an_axis(name, dim, n, norm):
    x = given(name, (3, 5, 4))
    same(getattr(fft, name)(smolder.tensor(x, device="cuda"), n, dim, norm), getattr(np.fft, name)(x, n, dim, norm))


@pytest.mark.parametrize("dims", [(0, 1), (2, 0), (1, 3), (0, 1, 2), (3, 0, 1, 2)])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_along_several(name, dims):
    x = given(name, (3, 4, 2, 5), "float32")
    wide = x.astype("float64" if name == "rfftn" else "complex128")
    out = getattr(fft, name)(smolder.tensor(x, device="cuda"), dim=dims)
    same(out, getattr(np.fft, name)(wide, axes=dims), 1e-4)


def test_many_rows_before_an_axis_and_numbers_at_odd_addresses():
    x = np.random.default_rng(0).standard_normal((40, 6, 3))
    z = smolder.tensor(x + 1j * x[::-1], device="cuda")
    same(fft.fft(z, dim=1), np.fft.fft(x + 1j * x[::-1], axis=1))
    flat = smolder.tensor(x.reshape(-1).astype("float32"), device="cuda")
    same(fft.rfft(flat[1:]), np.fft.rfft(x.reshape(-1)[1:]), 1e-3)
    pairs = smolder.view_as_complex(flat[2:12].reshape(5, 2))
    same(fft.ifft(pairs[1:]), np.fft.ifft((x.reshape(-1)[2:12].reshape(5, 2) @ [1, 1j])[1:]), 1e-5)
    same(fft.irfft(z.transpose(0, 2), 8), np.fft.irfft((x + 1j * x[::-1]).swapaxes(0, 2), 8))
    assert fft.fft(z[:0]).shape == (0, 6, 3)


def test_what_is_transformed_stays_as_it_is():
    z = smolder.randn(4, 5, dtype=smolder.complex64, device="cuda")
    before = z.cpu().numpy()
    fft.irfft(z), fft.fft(z), fft.irfft2(z), fft.hfft(z)
    smolder.mark_step()
    np.testing.assert_array_equal(z.cpu().numpy(), before)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "ihfft", "rfftn", "irfftn"])
def test_gradients_are_those_of_the_cpu(name):
    x = given(name, (3, 4), "float32")
    grads = []
    for device in ("cpu", "cuda"):
        t = smolder.tensor(x, device=device, requires_grad=True)
        out = getattr(fft, name)(t)
        weights = smolder.arange(out.numel(), device=device).reshape(out.shape) % 5
        (grad,) = smolder.autograd.grad(((out.abs() + out.real) * weights).sum(), t)
        grads.append(grad.cpu().numpy())
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-4, atol=1e-4)


def test_a_loop_is_replayed():
    x = smolder.randn(8, 8, device="cuda")
    start = x.cpu().numpy()
    for _ in range(6):
        x = fft.irfft2(fft.rfft2(x) * 0.5, (8, 8))
        smolder.mark_step()
    same(x, start / 64, 1e-6)
    if smolder.metrics()["counters"].get("graphs.captured", 0):
        assert smolder.metrics()["counters"]["graphs.replayed"] > 0


def test_short_time_transforms():
    x = smolder.randn(2, 64)
    how = {"n_fft": 16, "window": smolder.hann_window(16), "return_complex": True}
    there = {**how, "window": how["window"].to("cuda")}
    same(smolder.stft(x.to("cuda"), **there), smolder.stft(x, **how).numpy(), 1e-5)
