"""Samplers: orders of the numbers of samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from smolder import _core
from smolder._creation import as_tensor
from smolder._names import listing as _listing
from smolder._typing import Generator, Tensor

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
    "draw_seed",
]  # fmt: skip
__dir__ = _listing(__name__)


def draw_seed(generator: Generator | None = None) -> int:
    """A seed out of a generator, or out of the default one."""
    return _core.randint(0, 2**63 - 1, (), generator=generator).item()


def _check_bool(name, value):
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be a boolean value, but got {name}={value}")


def _check_count(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Numbers of samples in turn, or lists of them: a subclass has __iter__, and __len__ where loaders are to have one."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Samples in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Samples in a random order, or num_samples of them drawn with replacement."""

    data_source: Sized
    replacement: bool
    generator: Generator | None

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many are drawn: those of the data set, unless told otherwise."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = _core.Generator()
            generator.manual_seed(draw_seed())
        if self.replacement:
            for at in range(0, left, 4096):
                yield from _core.randint(0, n, (min(4096, left - at),), generator=generator).tolist()
            return
        while left > 0:
            yield from _core.randperm(n, generator=generator).tolist()[:left]
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given numbers in a random order."""

    indices: Sequence[int]
    generator: Generator | None

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in _core.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """num_samples numbers drawn with weights, with replacement or each at most once."""

    weights: Tensor
    num_samples: int | None
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int | None,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count("num_samples", num_samples)
        _check_bool("replacement", replacement)
        weights = as_tensor(weights, dtype=_core.float64)
        if weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}")
        self.weights, self.num_samples, self.replacement = weights, num_samples, replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = _core.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of batch_size numbers of another sampler; the last one is shorter, or left out with drop_last."""

    sampler: Any

    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size)
        _check_bool("drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else (n + self.batch_size - 1) // self.batch_size
