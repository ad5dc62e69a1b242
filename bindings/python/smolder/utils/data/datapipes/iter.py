"""Pipes of samples in turn."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder.utils.data.collate import default_collate
from smolder.utils.data.datapipes import IterDataPipe, functional_datapipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "Batcher", "Collator", "Concater", "Filter", "IterableWrapper", "Mapper", "Shuffler", "UnBatcher", "Zipper",
]  # fmt: skip
__dir__ = _listing(__name__)


def _applied(fn, sample, input_col, output_col):
    """A sample with what a function makes of it, or of some of its columns, put where it belongs."""
    if input_col is None:
        if output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        return fn(sample)
    columns = list(input_col) if isinstance(input_col, list | tuple) else [input_col]
    made = fn(*(sample[c] for c in columns))
    out = dict(sample) if isinstance(sample, dict) else list(sample)
    if output_col == -1:
        out.append(made)
    else:
        out[columns[0] if output_col is None else output_col] = made
    return tuple(out) if isinstance(sample, tuple) else out


def _length(pipe, of):
    try:
        return len(of)
    except TypeError:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length") from None


class IterableWrapper(IterDataPipe[Any]):
    """The elements of an iterable, of which each iteration has a copy unless told otherwise."""

    iterable: Iterable[Any]
    deepcopy: bool

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return _length(self, self.iterable)


@functional_datapipe("map")
class Mapper(IterDataPipe[Any]):
    """What a function makes of each sample, or of columns of it."""

    datapipe: Any
    fn: Callable[..., Any]
    input_col: Any
    output_col: Any

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield _applied(self.fn, sample, self.input_col, self.output_col)

    def __len__(self) -> int:
        return _length(self, self.datapipe)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches of samples as tensors."""

    def __init__(self, datapipe: Any, collate_fn: Callable[..., Any] | None = None) -> None:
        super().__init__(datapipe, collate_fn or default_collate)


@functional_datapipe("filter")
class Filter(IterDataPipe[Any]):
    """The samples of which a function, of the sample or of columns of it, is true."""

    datapipe: Any
    filter_fn: Callable[..., Any]
    input_col: Any

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        columns = self.input_col if isinstance(self.input_col, list | tuple) else [self.input_col]
        for sample in self.datapipe:
            given = [sample] if self.input_col is None else [sample[c] for c in columns]
            if self.filter_fn(*given):
                yield sample


@functional_datapipe("batch")
class Batcher(IterDataPipe[Any]):
    """Lists of so many samples; the last may have fewer, or is dropped."""

    datapipe: Any
    batch_size: int
    drop_last: bool
    wrapper_class: Any

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = list) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(_length(self, self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe[Any]):
    """The samples of lists, or of lists of lists as deep as said; -1: all."""

    datapipe: Any
    unbatch_level: int

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        def flat(sample, level):
            if level == 0 or (level < 0 and not isinstance(sample, list)):
                yield sample
            elif not isinstance(sample, list):
                raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
            else:
                for part in sample:
                    yield from flat(part, level - 1)

        for sample in self.datapipe:
            yield from flat(sample, self.unbatch_level)


@functional_datapipe("shuffle")
class Shuffler(IterDataPipe[Any]):
    """The samples in a random order, through a buffer: a seed comes from the generator of tensors."""

    datapipe: Any
    buffer_size: int

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size, self._enabled, self._seed = buffer_size, True, None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Says whether it shuffles at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """The seed of the next iteration."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        seed, self._seed = self._seed, None
        rng = random.Random(int(_core.randint(2**31, (1,)).item()) if seed is None else seed)
        buffer: list[Any] = []
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            at = rng.randint(0, len(buffer) - 1)
            out, buffer[at] = buffer[at], sample
            yield out
        rng.shuffle(buffer)
        yield from buffer

    def __len__(self) -> int:
        return _length(self, self.datapipe)


@functional_datapipe("concat")
class Concater(IterDataPipe[Any]):
    """The samples of one pipe after those of another."""

    datapipes: tuple[Any, ...]

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(_length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(IterDataPipe[Any]):
    """Tuples of a sample of each pipe, as long as all have one."""

    datapipes: tuple[Any, ...]

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(_length(self, pipe) for pipe in self.datapipes)
