"""Short-time Fourier transforms: stft and its inverse."""

from __future__ import annotations

import math

from smolder import _core
from smolder._autocast import listed
from smolder._call_errors import name_what_is_no_tensor
from smolder._creation import ones
from smolder._tensor import Tensor

__all__ = ["istft", "stft"]

_LEAST = 1e-11  # of a window's squares that lie over one another


def _window(name, window, win_length, n_fft, like):
    """The window, with zeros on both sides up to n_fft."""
    if window is None:
        window = ones(win_length, dtype=like.dtype.to_real(), device=like.device)
    if window.dim() != 1 or window.size(0) != win_length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    return _core.pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


def _lengths(name, n_fft, hop_length, win_length):
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={win}")
    return hop, win


@listed("stft")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Transforms of windows on a signal (..., time), hop_length apart: (..., frequencies, windows).

    Args:
        n_fft: points of a transform.
        hop_length: n_fft // 4 unless told.
        win_length: of the window, n_fft unless told; it is in the middle of the n_fft points.
        window: factors of the points; ones unless told.
        center: the first window is around time 0: the signal is padded by n_fft // 2 points at both ends, as pad_mode says.
        normalized: by 1 / sqrt(n_fft).
        onesided: frequencies up to the middle alone, which is so for real signals unless told.
        return_complex: False returns real and imaginary parts along a last dimension.

    Raises RuntimeError where windows or lengths do not fit.
    """
    if return_complex is None:
        if not input.dtype.is_complex and (window is None or not window.dtype.is_complex):
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if input.dim() not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got a {input.dim()}D tensor")
    if align_to_window and center:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    from smolder import fft

    hop, win = _lengths("stft", n_fft, hop_length, win_length)
    factors = _window("stft", window, win, n_fft, input)
    x = input.unsqueeze(0) if input.dim() == 1 else input
    if center:
        x = _core.pad(x.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    elif align_to_window:
        x = _core.pad(x, ((n_fft - win) // 2, (n_fft - win) // 2))
    if not 0 < n_fft <= x.size(-1):
        raise RuntimeError(
            f"stft({list(input.shape)}, n_fft={n_fft}): expected 0 < n_fft <= {x.size(-1)}, but got n_fft={n_fft}"
        )
    frames = x.unfold(-1, n_fft, hop) * factors
    complex_frames = frames.dtype.is_complex
    if onesided is None:
        onesided = not complex_frames
    if onesided and complex_frames:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    norm = "ortho" if normalized else None
    out = (fft.rfft if onesided else fft.fft)(frames, norm=norm).transpose(-1, -2)
    if input.dim() == 1:
        out = out.squeeze(0)
    return out if return_complex else _core.view_as_real(out)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal (..., time) of which stft made (..., frequencies, windows): windows are added where they overlap, and
    divided by the sum of their squares (Griffin and Lim, 1984).

    Args:
        length: of the signal; what the windows cover unless told.
        return_complex: the signal is complex.

    Raises RuntimeError where the squares of windows sum to nothing somewhere.
    """
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.dim() not in (2, 3):
        raise RuntimeError(f"istft: input should be a tensor with 2 or 3 dimensions, but got {input.dim()}")
    from smolder import fft

    hop, win = _lengths("istft", n_fft, hop_length, win_length)
    if onesided is None:
        onesided = input.size(-2) != n_fft
    expected = n_fft // 2 + 1 if onesided else n_fft
    if input.size(-2) != expected:
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft "
            f"{'/ 2 + 1 ' if onesided else ''}when onesided={onesided}, but got {input.size(-2)}"
        )
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    factors = _window("istft", window, win, n_fft, input)
    spectrum = (input.unsqueeze(0) if input.dim() == 2 else input).transpose(-1, -2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = fft.ifft(spectrum, norm=norm)
    else:
        frames = fft.irfft(spectrum if onesided else spectrum[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = frames.size(-2)
    total = n_fft + hop * (count - 1)
    signal = _overlapped(frames * factors, hop, total)
    envelope = _overlapped((factors * factors).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    kept = min(end, total)
    signal, envelope = signal[..., start:kept], envelope[..., start:kept]
    least = envelope.abs().min().item() if envelope.numel() else math.inf
    if not least > _LEAST:
        raise RuntimeError(f"istft(...) window overlap add min: {least:g}")
    signal = signal / envelope
    if end > total:
        signal = _core.pad(signal, (0, end - total))
    return signal.squeeze(0) if input.dim() == 2 else signal


def _overlapped(frames, hop, total):
    """(..., windows, points) added up where they lie, to (..., total)."""
    count, size = frames.shape[-2:]
    at = _core.arange(0, count, dtype=_core.int64).unsqueeze(1) * hop + _core.arange(0, size, dtype=_core.int64)
    at = at.to(frames.device).reshape(-1)
    out = frames.new_zeros((*frames.shape[:-2], total))
    return out.index_add(-1, at, frames.reshape(*frames.shape[:-2], count * size))


Tensor.stft, Tensor.istft = stft, istft


name_what_is_no_tensor(globals())
