"""Fourier transforms against NumPy, their gradients against finite differences, and short-time ones."""

from contextlib import nullcontext

import numpy as np
import pytest

import smolder
from smolder import fft
from smolder.autograd import gradcheck, gradgradcheck

NORMS = [None, "backward", "ortho", "forward"]
REAL_INPUT = {"rfft", "ihfft", "rfft2", "rfftn"}


def signal(name, *shape):
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape)
    return x if name in REAL_INPUT else x + 1j * rng.standard_normal(shape)


def same(ours, expected):
    assert ours.numpy().dtype == expected.dtype
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 4, 7, 11])
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_along_an_axis(name, dim, n, norm):
    x = signal(name, 6, 5)
    same(getattr(fft, name)(smolder.from_numpy(x.copy()), n, dim, norm), getattr(np.fft, name)(x, n, dim, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s", [None, (4, 7)])
@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_along_several(name, s, norm):
    x = signal(name, 3, 6, 5)
    dims = (0, 2) if name.endswith("n") else (-2, -1)
    given = {"s": s, "norm": norm} | ({"dim": dims} if name.endswith("n") else {})
    same(getattr(fft, name)(smolder.from_numpy(x.copy()), **given), getattr(np.fft, name)(x, s=s, axes=dims, norm=norm))


def test_hermitian_ones_of_several_axes_undo_one_another():
    x = smolder.randn(3, 4, 6, dtype=smolder.float64)
    for name, back in (("ihfft2", "hfft2"), ("ihfftn", "hfftn")):
        y = getattr(fft, name)(x)
        np.testing.assert_allclose(getattr(fft, back)(y).numpy(), x.numpy(), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 30, 101, 128, 1000, 1009])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths_in_float32(name, n):
    x = signal(name, 3, n).astype("float32" if name in REAL_INPUT else "complex64")
    x = x[:, : n // 2 + 1] if name in ("irfft", "hfft") else x
    given = (n,) if name in ("irfft", "hfft") else ()
    out = getattr(fft, name)(smolder.from_numpy(x.copy()), *given)
    expected = getattr(np.fft, name)(x.astype("float64" if name in REAL_INPUT else "complex128"), *given)
    assert out.dtype in (smolder.float32, smolder.complex64)
    np.testing.assert_allclose(out.numpy(), expected, atol=2e-6 * np.abs(expected).max() + 1e-6)


@pytest.mark.parametrize("eager", [True, False])
def test_any_strides_go_in(eager):
    a = np.random.default_rng(0).standard_normal((4, 6, 10))
    with smolder.eager() if eager else nullcontext():
        x = smolder.from_numpy(a)
        for given, same_one in ((x.transpose(0, 2), a.T), (x[:, ::2, 1::3], a[:, ::2, 1::3]), (x.flip(1), a[:, ::-1])):
            same(fft.rfftn(given), np.fft.rfftn(same_one))
            z, w = smolder.complex(given, given * 2), same_one * (1 + 2j)
            same(fft.fftn(z, dim=(2, 0)), np.fft.fftn(w, axes=(2, 0)))
            same(fft.irfft(z.transpose(0, 1), 7, 0), np.fft.irfft(w.swapaxes(0, 1), 7, 0))
        same(fft.fft(x[0, 0, :1].expand(3, 4)), np.fft.fft(np.broadcast_to(a[0, 0, :1], (3, 4))))


def test_of_no_rows():
    for shape in ((0, 4), (3, 0, 4)):
        x = smolder.ones(shape, requires_grad=True)
        for out in (fft.fft(x), fft.rfft(x), fft.irfft(x), fft.fftn(x, dim=(-1,))):
            assert out.shape[:-1] == x.shape[:-1] and out.numel() == 0
            (grad,) = smolder.autograd.grad(out.abs().sum(), x)
            assert grad.shape == x.shape


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["rfft", "fft", "irfft"])
def test_bits_depend_on_neither_threads_nor_rows(name, threads):
    transform, rows = getattr(fft, name), [0, 1, 69]
    x = smolder.randn(70, 1000)
    alone = [transform(x[i]).numpy() for i in rows]
    before = smolder.get_num_threads()
    smolder.set_num_threads(threads)
    try:
        np.testing.assert_array_equal(transform(x).numpy()[rows], alone)
        np.testing.assert_array_equal(transform(x.t().contiguous(), dim=0).numpy().T[rows], alone)
    finally:
        smolder.set_num_threads(before)


def counters():
    found = smolder.metrics()["counters"]
    return {name: found.get(name, 0) for name in ("syncs", "plans.compiled", "fallbacks", "steps.op_by_op")}


def test_a_step_with_transforms_is_one_plan():
    """A spectral step of the vorticity equation, and its gradient."""
    n = 16
    k = fft.fftfreq(n, 1 / n)
    kx, ky = k.unsqueeze(1), k[: n // 2 + 1].abs().unsqueeze(0)
    square = (kx * kx + ky * ky).clamp_min(1)

    def step(w):
        what = fft.rfft2(w)
        psi = what / square
        u, v = fft.irfft2(1j * ky * psi, (n, n)), fft.irfft2(-1j * kx * psi, (n, n))
        wx, wy = fft.irfft2(1j * kx * what, (n, n)), fft.irfft2(1j * ky * what, (n, n))
        change = fft.rfft2(u * wx + v * wy)
        return fft.irfft2((what - 0.01 * change) / (1 + 1e-3 * square), (n, n))

    w = smolder.randn(n, n, requires_grad=True)
    smolder.mark_step()
    before = counters()
    out = step(step(w))
    (grad,) = smolder.autograd.grad(out.square().sum(), w)
    smolder.mark_step()
    after = counters()
    assert (after["syncs"], after["plans.compiled"]) == (before["syncs"] + 1, before["plans.compiled"] + 1)
    assert (after["fallbacks"], after["steps.op_by_op"]) == (before["fallbacks"], before["steps.op_by_op"])
    with smolder.eager():
        again = step(step(w.detach()))
    np.testing.assert_allclose(out.detach().numpy(), again.numpy(), atol=1e-6)
    assert np.isfinite(grad.numpy()).all()


def test_another_batch_is_the_same_plan():
    def run(rows):
        fft.irfft(fft.rfft(smolder.ones(rows, 24)) * 2).numpy()

    run(5), run(7)
    before = smolder.metrics()["counters"]
    run(9)
    after = smolder.metrics()["counters"]
    for name in ("kernels.compiled", "plans.compiled"):
        assert after.get(name, 0) == before.get(name, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
def test_precision_is_the_inputs(dtype):
    x = smolder.ones(4).to(getattr(smolder, dtype))
    assert fft.fft(x).dtype == (smolder.complex128 if dtype == "float64" else smolder.complex64)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("last", [4, 5])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn", "hfftn"])
def test_gradients(name, last, norm):
    half = name in ("irfft", "hfft", "irfftn", "hfftn")

    def parts(x):
        given = x if name in REAL_INPUT else smolder.view_as_complex(x)
        size = (last,) if not name.endswith("n") else (3, last)
        out = getattr(fft, name)(given, size[0] if not name.endswith("n") else size, norm=norm) if half else None
        out = getattr(fft, name)(given, norm=norm) if out is None else out
        return smolder.view_as_real(out) if out.is_complex() else out

    shape = (3, last) if name in REAL_INPUT else (3, last // 2 + 1 if half else last, 2)
    x = smolder.randn(shape, dtype=smolder.float64, requires_grad=True)
    assert gradcheck(parts, (x,)) and gradgradcheck(parts, (x,))


def test_vmap_is_one_more_dimension():
    x = smolder.randn(5, 8)
    np.testing.assert_allclose(smolder.vmap(fft.rfft)(x).numpy(), fft.rfft(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: fft.fft(x, 0), "Invalid number of data points"),
        (lambda x: fft.fft(x, norm="loud"), "Invalid normalization mode"),
        (lambda x: fft.fftn(x, dim=(0, 0)), "FFT dims must be unique"),
        (lambda x: fft.rfft(x.to(smolder.complex64)), "expects a real input tensor"),
        (lambda x: fft.fft(x, dim=2), "Dimension out of range"),
        (lambda x: fft.fft(x.half()), "Unsupported dtype Half"),
        (lambda x: fft.fft(x[:, :0]), "Invalid number of data points"),
        (lambda x: fft.irfft(x[:, :1]), r"Invalid number of data points \(0\) specified"),
        (lambda x: fft.fft2(x, (2,)), "When given, dim and shape arguments must have the same length"),
        (lambda x: fft.fftn(x, (2, 2, 2)), "Got shape with 3 values but input tensor only has 2 dimensions"),
    ],
)
def test_mistakes_raise(call, message):
    with pytest.raises((RuntimeError, IndexError), match=message):
        call(smolder.ones(3, 4))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
def test_short_time_transforms(center, normalized, onesided):
    x = np.random.default_rng(0).standard_normal((2, 64))
    window = smolder.hann_window(12, dtype=smolder.float64) + 0.1
    how = {
        "n_fft": 16,
        "hop_length": 4,
        "win_length": 12,
        "center": center,
        "normalized": normalized,
        "onesided": onesided,
    }
    spectrum = smolder.stft(smolder.from_numpy(x.copy()), window=window, return_complex=True, **how)
    padded = np.pad(x, ((0, 0), (8, 8)), mode="reflect") if center else x
    factors = np.pad(window.numpy(), 2)
    frames = np.stack([padded[:, i : i + 16] * factors for i in range(0, padded.shape[1] - 15, 4)], 1)
    expected = (np.fft.rfft if onesided else np.fft.fft)(frames, norm="ortho" if normalized else None).swapaxes(1, 2)
    np.testing.assert_allclose(spectrum.numpy(), expected, atol=1e-12)
    if center:
        back = smolder.istft(spectrum, window=window, length=64, **how)
        np.testing.assert_allclose(back.numpy(), x, atol=1e-10)


def test_short_time_transforms_refuse_what_does_not_fit():
    x = smolder.ones(64)
    with pytest.raises(RuntimeError, match="return_complex"):
        smolder.stft(x, 16)
    with pytest.raises(RuntimeError, match="expected 0 < win_length <= n_fft"):
        smolder.stft(x, 16, win_length=17, return_complex=True)
    with pytest.raises(RuntimeError, match="expected a 1D window"):
        smolder.stft(x, 16, window=smolder.ones(3), return_complex=True)
    spectrum = smolder.stft(x, 16, return_complex=True)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        smolder.istft(spectrum, 16, window=smolder.zeros(16))
