"""Functions that make tensors of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from smolder import _core
from smolder._creation import _finish, _in_format, _named_like, _size
from smolder._device import placed, placed_like
from smolder._out import takes_out
from smolder._tensor import Tensor
from smolder._typing import Device, DType, Generator, RandomLike

if TYPE_CHECKING:
    from smolder._layouts import layout as Layout

__all__ = ["normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]


@takes_out
@placed
def rand(
    *given: int | Sequence[int],
    size: int | Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    return _finish(
        _core.rand(_size("rand", given, size), dtype=dtype or _core._default_dtype(), generator=generator),
        requires_grad,
    )


@takes_out
@placed
def randn(
    *given: int | Sequence[int],
    size: int | Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """Normal random numbers of mean 0 and deviation 1."""
    return _finish(
        _core.randn(_size("randn", given, size), dtype=dtype or _core._default_dtype(), generator=generator),
        requires_grad,
    )


@takes_out
@placed
def randint(
    low: int | None = None,
    high: int | None = None,
    size: int | Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """Random integers in [low, high), or in [0, low) when only one bound is given; int64 by default."""
    if size is None:  # randint(high, size)
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    low = 0 if low is None else low
    if size is None or high is None:
        raise TypeError('randint() missing 1 required positional argument: "size"')
    return _finish(
        _core.randint(low, high, _size("randint", (size,)), dtype=dtype or _core.int64, generator=generator),
        requires_grad,
    )


_LARGEST_EXACT = {
    _core.uint8: 255, _core.int8: 127, _core.int16: 2**15 - 1, _core.int32: 2**31 - 1, _core.bfloat16: 2**8,
    _core.float16: 2**11, _core.float32: 2**24, _core.float64: 2**53,
}  # fmt: skip


@takes_out
@placed
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """0, 1, ... n - 1 in a random order; int64 by default."""
    if dtype is _core.bool:
        raise NotImplementedError("randperm of dtype bool is not supported: its numbers go beyond 1")
    most = _LARGEST_EXACT.get(dtype)
    if most is not None and n - 1 > most:
        raise RuntimeError(
            f"randperm: n cannot be greater than {most + 1} for dtype {dtype}, which has no larger integers"
        )
    return _finish(_core.randperm(n, dtype=dtype or _core.int64, generator=generator), requires_grad)


@takes_out
@placed
def normal(
    mean: float | Tensor = 0.0,
    std: float | Tensor = 1.0,
    size: int | Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """Normal random numbers: mean and deviation are tensors, which broadcast, or numbers with a size."""
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not given:
        if size is None:
            raise TypeError("normal() of two numbers needs a size")
        size = _size("normal", (size,))
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        return _finish(
            _core.empty(size, dtype=dtype or _core._default_dtype()).normal_(mean, std, generator=generator),
            requires_grad,
        )
    if size is not None or dtype is not None:
        raise TypeError("normal() takes a size and a dtype only with two numbers")
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    like = mean + std if len(given) == 2 else given[0]
    noise = _core.empty_like(like).normal_(generator=generator)
    return noise * (_core.checked_deviations(std) if isinstance(std, Tensor) else std) + mean


def _random_like(make: Callable[..., Tensor]) -> RandomLike:
    @placed_like
    def like(
        input,
        *,
        generator=None,
        dtype=None,
        device=None,
        requires_grad=False,
        pin_memory=False,
        layout=None,
        memory_format=None,
    ) -> Tensor:
        made = make(input, dtype=dtype, generator=generator)
        return _finish(_in_format(make.__name__, made, memory_format), requires_grad)

    return _named_like(like, make)


rand_like: RandomLike = _random_like(_core.rand_like)
randn_like: RandomLike = _random_like(_core.randn_like)


@placed_like
def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
    memory_format: object = None,
) -> Tensor:
    """Random integers from low, or 0 where one bound is given, below high; of input's shape and dtype."""
    if low is None and high is None:
        raise TypeError('randint_like() missing 1 required positional arguments: "high"')
    low, high = (0, low) if high is None else (low or 0, high)
    made = _core.randint(low, high, tuple(input.shape), dtype=dtype or input.dtype, generator=generator)
    made._lay_out_as(input)
    return _finish(_in_format("randint_like", made, memory_format), requires_grad)
