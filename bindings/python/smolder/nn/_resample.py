"""Functions that read images between their pixels, take them apart into windows, or deal their channels anew."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from smolder import _core
from smolder._core import channel_shuffle, pixel_shuffle, pixel_unshuffle
from smolder._typing import Ints, Tensor
from smolder._warn import warn
from smolder.nn._spatial import _numbers

__all__ = [
    "affine_grid", "channel_shuffle", "fold", "grid_sample", "interpolate", "pixel_shuffle", "pixel_unshuffle",
    "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

_SMOOTH = {3: "linear", 4: "bilinear", 5: "trilinear"}  # mode by dimensions of the input


def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Tensor:
    """The columns of a convolution of images: [N, C * h * w, positions] out of [N, C, H, W]."""
    return _core.im2col(input, *(_numbers(v, 2) for v in (kernel_size, dilation, padding, stride)))


def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """Sums of columns where unfold takes them from: [N, C, H, W] out of [N, C * h * w, positions]."""
    return _core.col2im(input, *(_numbers(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)))


def _sizes(input, size, dims):
    if not isinstance(size, tuple | list):
        size = (size,) * dims
    if len(size) != dims:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got "
            f"input with spatial dimensions of {list(input.shape[2:])} and output size of {size}. "
            "Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            "output size in (o1, o2, ...,oK) format."
        )
    if not all(hasattr(n, "__index__") and not isinstance(n, bool) for n in size):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
            f"Tuple[int, int, int], but got size with types {[type(n) for n in size]}"
        )
    return tuple(operator.index(n) for n in size)


def _scales(input, scale, dims):
    if not isinstance(scale, tuple | list):
        return (float(scale),) * dims
    if len(scale) != dims:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but "
            f"got input with spatial dimensions of {list(input.shape[2:])} and "
            f"scale_factor of shape {scale}. "
            "Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            "scale_factor in (s1, s2, ...,sK) format."
        )
    return tuple(float(s) for s in scale)


def _check_mode(input, mode, antialias):
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode in ("nearest", "nearest-exact", "area") and input.dim() in _SMOOTH:
        return
    if (mode == "bicubic" and input.dim() == 4) or mode == _SMOOTH.get(input.dim()):
        return
    if mode in _SMOOTH.values() and input.dim() in _SMOOTH:
        raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_dims_of(mode)}D input")
    if mode == "lanczos":
        raise NotImplementedError("interpolate: mode 'lanczos' is not supported")
    raise NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported"
        f" (got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact"
        f" (got {mode})"
    )


def _dims_of(mode):
    return next(dims for dims, name in _SMOOTH.items() if name == mode)


def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Signals, images or volumes in another size, given or by factors of the one they have."""
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if size is not None:
        sizes, scales = _sizes(input, size, dims), ()
    else:
        scales = _scales(input, scale_factor, dims)
        sizes = tuple(math.floor(n * s) for n, s in zip(input.shape[2:], scales, strict=True))
        if any(n >= 2**63 for n in sizes):
            raise RuntimeError(f"value cannot be converted to type int64_t without overflow: sizes are {sizes}")
        if recompute_scale_factor or mode == "area":
            scales = ()
    _check_mode(input, mode, antialias)
    if mode == "area":  # which autocast lists as what it is
        return getattr(_core, f"adaptive_avg_pool{dims}d")(input, sizes)
    if input.dtype == _core.uint8 and mode in ("bilinear", "bicubic"):
        from smolder.nn._resample_bytes import resized

        return resized(input, sizes, scales, mode, bool(align_corners), antialias)
    scales = dict(zip(("scale_width", "scale_height", "scale_depth"), reversed(scales), strict=False))
    return _core.interpolate_to(input, sizes, mode, bool(align_corners), antialias, **scales)


def upsample(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The name that interpolate had."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode nearest."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode bilinear, corners aligned."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _aligned(align_corners, name):
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
            f"align_corners=True if the old behavior is desired. See the documentation of {name} for details."
        )
    return bool(align_corners)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Elements of images, or volumes, at points of coordinates from -1 to 1, the last dimension's first."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    return _core.grid_sample(input, grid, mode, padding_mode, _aligned(align_corners, "grid_sample"))


def affine_grid(theta: Tensor, size: Ints | None, align_corners: bool | None = None) -> Tensor:
    """The points where grid_sample looks for an output of size [N, C, H, W], or [N, C, D, H, W], after the map theta."""
    aligned = _aligned(align_corners, "affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = tuple(size)
    dims = len(size) - 2
    if dims in (2, 3) and (theta.dim() != 3 or tuple(theta.shape[1:]) != (dims, dims + 1)):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if dims in (2, 3) and min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _core.affine_grid(theta, size, aligned)
