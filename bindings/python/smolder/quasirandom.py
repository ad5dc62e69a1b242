"""Sobol sequences: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, Self

import numpy

from smolder import _core
from smolder._core import Generator
from smolder._creation import from_numpy
from smolder._names import listing as _listing
from smolder._types import get_default_dtype
from smolder._typing import Tensor

__all__ = ["SobolEngine"]
__dir__ = _listing(__name__)

_FILE = pathlib.Path(__file__).with_name("sobol.json")


@functools.cache
def _table() -> list[str]:
    """By dimension after the first: a primitive polynomial, and the first direction numbers."""
    return json.loads(_FILE.read_text())["directions"]


def _directions(dimension: int, bits: int) -> numpy.ndarray[Any, numpy.dtype[numpy.int64]]:
    """Direction numbers, [dimension, bits], each shifted to its place (Bratley and Fox, 1988)."""
    out = numpy.ones((dimension, bits), numpy.int64)
    for row, text in zip(out[1:], _table(), strict=False):
        polynomial, *first = map(int, text.split())
        degree = len(first)
        row[:degree] = first[:bits]
        for j in range(degree, bits):
            new = int(row[j - degree])
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    new ^= int(row[j - k]) << k
            row[j] = new
    return out << numpy.arange(bits - 1, -1, -1)


class SobolEngine:
    """Draws the points of a Sobol sequence in turn.

    Arguments:
        dimension (int): of the points, up to MAXDIM
        scramble (bool): whether digits are permuted at random (Owen, 1998): a linear matrix scramble and a shift
        seed (int): of the generator that scrambles; without one, the default generator does

    The direction numbers are Joe and Kuo's (2008), as torch's, of which there are those of polynomials to degree 13.
    """

    MAXBIT: int = 30
    MAXDIM: int = 1111

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed: int | None = seed
        self.scramble: bool = scramble
        self.dimension: int = dimension
        state = _directions(dimension, self.MAXBIT)
        shift = numpy.zeros(dimension, numpy.int64)
        if scramble:
            state, shift = self._scrambled(state)
        self.sobolstate: Tensor = from_numpy(state)
        self.shift: Tensor = from_numpy(shift)
        self.quasi: Tensor = self.shift.clone()
        self.num_generated: int = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, [n, dimension]; of dtype, or the default one. They are no part of a step that is recorded."""
        points = numpy.empty((n, self.dimension), numpy.int64)
        points[:1] = self.quasi.numpy()
        if self.num_generated:
            points[:1] ^= self._changes(1)
        if n > 1:
            points[1:] = self._changes(n - 1, self.num_generated + 1)
        numpy.bitwise_xor.accumulate(points, axis=0, out=points)
        if n:
            self.quasi = from_numpy(points[-1].copy())
        self.num_generated += n
        result = from_numpy(points).to(dtype or get_default_dtype()) * 2.0**-self.MAXBIT
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points, where all points together are a power of two, which keeps them balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Goes back to the first point."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Passes over n points."""
        if n:
            self.draw(n)
        return self

    def _changes(self, n, first=None):
        """The differences of the points first, ..., first + n - 1 from the point before each."""
        k = numpy.arange(n) + (self.num_generated if first is None else first)
        lowest = k & -k  # a Gray code: of k in turn, the lowest bit says which direction changes
        return self.sobolstate.numpy().T[numpy.log2(lowest).astype(numpy.int64)]

    def _scrambled(self, state):
        g = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        shift = _core.randint(2, (self.dimension, bits), generator=g).numpy() @ (1 << numpy.arange(bits))
        lower = numpy.tril(_core.randint(2, (self.dimension, bits, bits), generator=g).numpy(), -1)
        return _multiplied(lower + numpy.eye(bits, dtype=numpy.int64), state), shift

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(parts)})"


def _multiplied(matrices, numbers):
    """Numbers, [d, n], whose digits, the highest first, are multiplied by matrices, [d, bits, bits], modulo 2."""
    places = numpy.arange(matrices.shape[-1] - 1, -1, -1)
    digits = numbers[:, :, None] >> places & 1
    return (numpy.einsum("dpk,djk->djp", matrices, digits) % 2 << places).sum(-1)
