"""Fourier transforms against NumPy, their gradients against finite differences, and short-time ones."""

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


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "ifft2"])
def test_with_numpys_own_functions_alone(name, dtype, norm, monkeypatch):
    from smolder import _transforms

    x = signal(name, 6, 5)
    x = smolder.from_numpy(x.astype(dtype if name in REAL_INPUT else f"complex{2 * int(dtype[-2:])}"))
    expected = getattr(fft, name)(x, norm=norm)
    monkeypatch.setattr(_transforms, "_is_plain", False)  # as with NumPy 1
    out = getattr(fft, name)(x, norm=norm)
    assert out.dtype == expected.dtype
    np.testing.assert_allclose(out.numpy(), expected.numpy(), atol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
def test_precision_is_the_inputs(dtype):
    x = smolder.ones(4).to(getattr(smolder, dtype))
    assert fft.fft(x).dtype == (smolder.complex128 if dtype == "float64" else smolder.complex64)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn"])
def test_gradients(name):
    def parts(x):
        given = x if name in REAL_INPUT else smolder.view_as_complex(x)
        out = getattr(fft, name)(given)
        return smolder.view_as_real(out) if out.is_complex() else out

    shape = (3, 4) if name in REAL_INPUT else (3, 4, 2)
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
