"""Images of bytes in another size, as torch's and Pillow's CPU code makes them: rows first, then columns, each with weights
of 16 bits, and rounded to bytes in between."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy

from smolder import _core
from smolder._creation import from_numpy
from smolder._typing import Tensor

__all__ = ["resized"]

_MOST_BITS = 22
_WEIGHT_BITS = 15  # of a signed integer of 16


def _linear(x: float, antialias: bool) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float, antialias: bool) -> float:
    """Keys' kernel: of a = -1/2 where it is spread over what is left out, as Pillow's, else of torch's -3/4."""
    a, x = (-0.5 if antialias else -0.75), abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


_KERNELS = {"bilinear": (_linear, 2), "bicubic": (_cubic, 4)}


def _spread_row(i: int, size: int, scale: float, kernel: Any, width: int) -> tuple[list[int], list[float]]:
    """With antialias: the kernel is as wide as what becomes one pixel, and is cut at the borders."""
    support, center = width * 0.5 * max(scale, 1.0), scale * (i + 0.5)
    first = max(int(center - support + 0.5), 0)
    places = list(range(first, min(int(center + support + 0.5), size)))
    weights = [kernel((j - center + 0.5) / max(scale, 1.0), True) for j in places]
    total = sum(weights)
    return places, [w / total for w in weights] if total else weights


def _row(i: int, size: int, scale: float, kernel: Any, width: int, aligned: bool) -> tuple[list[int], list[float]]:
    """Without: the pixels around, of which those behind a border are what is at it."""
    at = scale * i if aligned else scale * (i + 0.5) - 0.5
    if width == 2:
        at = max(at, 0.0)
    whole = min(math.floor(at), size - 1)
    share = min(max(at - whole, 0.0), 1.0)
    places = [whole - width // 2 + 1 + j for j in range(width)]
    weights = [kernel(j - width // 2 + 1 - share, False) for j in range(width)]
    return [min(max(p, 0), size - 1) for p in places], weights


@functools.lru_cache(maxsize=64)
def _matrix(size: int, wanted: int, factor: float | None, mode: str, aligned: bool, antialias: bool) -> tuple[Any, int]:
    """The weights of one axis, a row for each pixel that is made, as whole numbers; and by how many bits they are larger."""
    kernel, width = _KERNELS[mode]
    of_corners = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    scale = of_corners if aligned else 1 / factor if factor else size / wanted
    rows = numpy.zeros((wanted, size))
    for i in range(wanted):
        if antialias:
            places, weights = _spread_row(i, size, scale, kernel, width)
        else:
            places, weights = _row(i, size, scale, kernel, width, aligned)
        for place, weight in zip(places, weights, strict=True):
            rows[i, place] += weight
    largest, bits = rows.max(initial=0.0), 0
    while bits < _MOST_BITS and int(0.5 + largest * (1 << (bits + 1))) < 1 << _WEIGHT_BITS:
        bits += 1
    grown = rows * (1 << bits)
    return numpy.trunc(grown + numpy.copysign(0.5, grown)).astype(numpy.float32), bits


def resized(
    input: Tensor, sizes: tuple[int, ...], factors: Any, mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    """Images [N, C, H, W] of uint8 in sizes (H, W), by `mode` bilinear or bicubic.

    factors: by how much each axis grows, where that was given in place of the sizes, else none. Sums of bytes by weights
    are less than 2^24, so that products of float32 are exact.
    """
    out = input
    for axis in (3, 2):
        size, wanted = input.size(axis), sizes[axis - 2]
        factor = factors[axis - 2] if factors else None
        if size == wanted and (factor is None or factor == 1):
            continue
        weights, bits = _matrix(size, wanted, factor, mode, align_corners, antialias)
        by = from_numpy(weights).to(input.device)
        values = out.to(_core.float32)
        sums = values @ by.t() if axis == 3 else by @ values
        out = ((sums + float(1 << (bits - 1))) / float(1 << bits)).floor().clamp(0.0, 255.0).to(_core.uint8)
    return out.clone() if out is input else out
