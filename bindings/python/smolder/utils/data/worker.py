"""The worker process of a loader: it makes batches of the numbers that it is sent."""

from __future__ import annotations

import os
import pickle
import queue
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy

from smolder._names import listing as _listing
from smolder._random import manual_seed
from smolder.utils.data.dataset import IterableDataset, collated_of

__all__ = ["End", "Failure", "Fetcher", "Job", "WorkerInfo", "get_worker_info", "run"]
__dir__ = _listing(__name__)

_POLL_SECONDS = 5.0  # how often a worker looks whether the process that started it is still there

_here = None


@dataclass
class WorkerInfo:
    """A worker, to itself."""

    id: int
    num_workers: int
    seed: int
    dataset: object


def get_worker_info() -> WorkerInfo | None:
    """In a worker: its id, how many there are, its seed and its copy of the data set. Elsewhere None."""
    return _here


class _Lines(str):
    """A text that KeyError, which shows its argument's repr, shows as it is."""

    __slots__ = ()
    __repr__ = str.__str__


class Failure:
    """An exception of a worker, to be raised where the batch was asked for."""

    kind: type[BaseException]
    where: str
    text: str

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind, self.where = type(error), where
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> NoReturn:
        text = _Lines(f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}")
        try:
            error = self.kind(text)
        except Exception:  # a kind that is made of something else than a text
            error = RuntimeError(text)
        raise error


class End:
    """The data set of a worker has no more samples."""


class Fetcher:
    """Samples by what a sampler gives, as a batch where it gives lists."""

    dataset: Any
    batched: bool
    collate: Callable[[Any], Any]
    drop_last: bool
    plain: bool
    samples: Iterator[Any] | None
    ended: bool

    def __init__(
        self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool, iterable: bool
    ) -> None:
        from smolder.utils.data.collate import default_collate

        self.dataset, self.batched, self.collate, self.drop_last = dataset, batched, collate, drop_last
        self.plain = collate is default_collate
        self.samples = iter(dataset) if iterable else None
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The batch of a list of numbers, or a sample; StopIteration where an iterable data set has no more."""
        if self.samples is not None:
            return self._next(index)
        if not self.batched:
            return self.collate(self.dataset[index])
        if self.plain and (batch := collated_of(self.dataset, index)) is not None:
            return batch
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.collate(self.dataset.__getitems__(index))
        return self.collate([self.dataset[i] for i in index])

    def _next(self, index):
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate(next(self.samples))
        batch = [sample for _, sample in zip(index, self.samples, strict=False)]
        self.ended = len(batch) < len(index)
        if not batch or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate(batch)


@dataclass
class Job:
    """The arguments that a worker is started with."""

    dataset: object
    batched: bool
    collate: object
    drop_last: bool
    init: object
    id: int
    num_workers: int

    def fetcher(self) -> Fetcher:
        iterable = isinstance(self.dataset, IterableDataset)
        return Fetcher(self.dataset, self.batched, self.collate, self.drop_last, iterable)


def _begin(job, seed):
    global _here
    random.seed(seed)
    manual_seed(seed)
    numpy.random.seed(numpy.random.SeedSequence(seed).generate_state(4))
    _here = WorkerInfo(job.id, job.num_workers, seed, job.dataset)


def _packed(epoch, number, what, where):
    try:
        return pickle.dumps((epoch, number, what))
    except Exception as error:
        return pickle.dumps((epoch, number, Failure(error, where)))


def run(job: Job, seed: int, tasks: Any, results: Any, parent: int) -> None:
    """Answers (epoch, number, index) with (epoch, number, batch, or Failure or End); None ends it, a lone epoch restarts it."""
    where, failure, fetcher, epoch = f"in DataLoader worker process {job.id}", None, None, 0
    try:
        _begin(job, seed)
        if job.init is not None:
            job.init(job.id)
        fetcher = job.fetcher()
    except Exception as error:
        failure = Failure(error, where)
    while os.getppid() == parent:
        try:
            task = tasks.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
        if task is None:
            break
        if isinstance(task, int):
            epoch = task
            try:
                fetcher = job.fetcher()
            except Exception as error:
                failure = Failure(error, where)
            continue
        _, number, index = task
        try:
            what = failure or fetcher.fetch(index)
        except StopIteration:
            what = End()
        except Exception as error:
            what = Failure(error, where)
        if isinstance(what, Failure):
            failure = None
        # Packed here, not by the queue's thread: reading tensors runs what they wait for.
        results.put(_packed(epoch, number, what, where))
    results.cancel_join_thread()
    results.close()
