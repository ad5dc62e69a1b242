"""The loader: batches of a data set, in this process or from workers."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic

from smolder import cuda
from smolder._names import listing as _listing
from smolder._typing import Generator
from smolder._warn import warn
from smolder.utils.data import worker
from smolder.utils.data.collate import default_collate, default_convert
from smolder.utils.data.dataset import IterableDataset, T_co
from smolder.utils.data.pin_memory import pin_memory
from smolder.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed

if TYPE_CHECKING:
    from smolder._typing import Dataset

__all__ = ["DataLoader"]
__dir__ = _listing(__name__)

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
_POLL_SECONDS = 5.0  # how often the loader looks whether its workers are still there
_JOIN_SECONDS = 5.0
# Queues of workers that run. What collects a cycle ends the threads of a queue in it before it calls any `__del__`, after
# which no worker could be told to end.
_queues: set[Any] = set()


class _Forever(Sampler[None]):
    """Numbers that nobody reads: an iterable data set is asked for its next samples."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Iterates over a data set: samples, or batches made of them by collate_fn, in this process or by workers.

    With pin_memory tensors come in memory that is pinned for CUDA, where there is a device.
    """

    num_workers: int
    timeout: float
    prefetch_factor: int | None
    pin_memory: bool
    pin_memory_device: str
    worker_init_fn: Callable[..., Any] | None
    multiprocessing_context: Any
    persistent_workers: bool
    in_order: bool
    generator: Generator | None
    batch_size: int | None
    drop_last: bool
    sampler: Sampler[Any] | Iterable[Any]
    batch_sampler: BatchSampler | Sampler[Any] | Iterable[Any] | None

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[T_co]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset: Dataset[T_co]
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.persistent_workers, self.in_order, self.generator = persistent_workers, in_order, generator
        self._check_workers(prefetch_factor)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            self._check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if iterable:
                sampler = _Forever()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = (
            batch_size,
            drop_last,
            sampler,
            batch_sampler,
        )
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._iterator = self._told_length = None
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and getattr(self, "_ready", False):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def _check_workers(self, prefetch_factor):
        workers, context = self.num_workers, self.multiprocessing_context
        if workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if self.timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if workers > 0 and self.prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if self.persistent_workers and workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if context is not None and workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={workers}"
            )
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{methods!r}, but got multiprocessing_context={context!r}"
                )
            self.multiprocessing_context = multiprocessing.get_context(context)
        there = len(os.sched_getaffinity(0))
        if workers > there:
            warn(
                f"This DataLoader will create {workers} worker processes in total. Our suggested max number of worker in "
                f"current system is {there}, which is smaller than what this DataLoader is going to create. Please be "
                "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
                "number to avoid potential slowness/freeze if necessary."
            )

    @staticmethod
    def _check_iterable(shuffle, sampler, batch_sampler):
        options = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, given in options.items():
            if given is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}"
                )

    # torch's names, which those who iterate a loader of their own ask for.

    @property
    def _index_sampler(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _dataset_kind(self):
        return _DatasetKind.Iterable if isinstance(self.dataset, IterableDataset) else _DatasetKind.Map

    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory and not cuda.is_available():
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."
            )
        if self.num_workers == 0:
            return _Counted(self, _here(self))
        if not self.persistent_workers:
            return _Counted(self, _MultiProcessingDataLoaderIter(self))
        if self._iterator is None:
            self._iterator = _MultiProcessingDataLoaderIter(self)
        else:
            self._iterator.restart()
        return _Counted(self, self._iterator)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        # The reported length is remembered, so that more samples than that are warned of.
        length = self._told_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


class _DatasetKind:
    Map, Iterable = 0, 1


def _here(loader):
    """Batches made in this process. One that raises does not end the iteration: the next one can still be asked for."""
    if loader.timeout:
        raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
    # Drawn as for workers, so that numbers drawn later do not depend on how many there are.
    draw_seed(loader.generator)
    iterable = loader._dataset_kind == _DatasetKind.Iterable
    fetcher = worker.Fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last, iterable)
    return map(fetcher.fetch, loader._index_sampler)


class _BaseDataLoaderIter:
    """The iterator of a loader, under the name that programs ask isinstance about."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches made in this process, of a loader or of whatever has its members."""

    def __init__(self, loader):
        self.batches = _here(loader)
        self.pins = loader.pin_memory and cuda.is_available()

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self.batches)
        return pin_memory(batch) if self.pins else batch


class _Counted(_BaseDataLoaderIter):
    """An iterator that warns when there is more than its loader reported."""

    def __init__(self, loader, batches):
        self.loader, self.batches, self.count = loader, batches, 0
        self.pins = loader.pin_memory and cuda.is_available()

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader)

    def __next__(self):
        batch = next(self.batches)
        self.count += 1
        told = self.loader._told_length
        if told is not None and self.count > told and isinstance(self.loader.dataset, IterableDataset):
            warn(
                f"Length of IterableDataset {self.loader.dataset} was reported to be {told}(when accessing "
                f"len(dataloader)), but {self.count} samples have been fetched. "
            )
        return pin_memory(batch, self.loader.pin_memory_device) if self.pins else batch


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches from worker processes, in the order of the sampler unless the loader says otherwise."""

    def __init__(self, loader):
        self.loader, self.epoch, self.closed, self.owner = loader, -1, False, os.getpid()
        context = loader.multiprocessing_context or multiprocessing
        self.results = context.Queue()
        self.tasks, self.processes = [], []
        seed = draw_seed(loader.generator)
        for i in range(loader.num_workers):
            job = worker.Job(
                loader.dataset,
                loader.batch_sampler is not None,
                loader.collate_fn,
                loader.drop_last,
                loader.worker_init_fn,
                i,
                loader.num_workers,
            )
            tasks = context.Queue()
            tasks.cancel_join_thread()
            arguments = (job, (seed + i) % 2**63, tasks, self.results, os.getpid())
            process = context.Process(target=worker.run, args=arguments, daemon=True)
            process.start()
            self.tasks.append(tasks)
            _queues.add(tasks)
            self.processes.append(process)
        self._begin()

    def restart(self):
        """Goes through the data set again with the same workers."""
        self._begin()
        for tasks in self.tasks:
            tasks.put(self.epoch)
        self._prefetch()

    def _begin(self):
        first = self.epoch < 0
        self.epoch += 1
        self.numbers = iter(self.loader._index_sampler)
        self.sent = self.taken = 0  # numbers of batches
        self.of, self.arrived = {}, {}  # which worker makes a batch; batches that came before their turn
        self.working = [True] * len(self.processes)
        self.turn = itertools.cycle(range(len(self.processes)))
        if first:
            self._prefetch()

    def _prefetch(self):
        for _ in range(self.loader.prefetch_factor * len(self.processes)):
            self._send()

    def _send(self):
        chosen = next((w for w in itertools.islice(self.turn, len(self.processes)) if self.working[w]), None)
        if chosen is None:
            return
        try:
            index = next(self.numbers)
        except StopIteration:
            return
        self.tasks[chosen].put((self.epoch, self.sent, index))
        self.of[self.sent] = chosen
        self.sent += 1

    def __iter__(self):
        return self

    def __next__(self):
        while self.of:
            number = next(iter(self.of)) if self.loader.in_order else None
            if number not in self.arrived:
                got, what = self._receive()
                if self.loader.in_order and got != number:
                    self.arrived[got] = what
                    continue
                number = got
            else:
                what = self.arrived.pop(number)
            chosen = self.of.pop(number)
            if isinstance(what, worker.End):
                self.working[chosen] = False
                self._send()
                continue
            self._send()
            if isinstance(what, worker.Failure):
                what.reraise()
            return what
        if not self.loader.persistent_workers:
            self.close()
        raise StopIteration

    def _receive(self):
        """The next result of this epoch."""
        end = time.monotonic() + self.loader.timeout if self.loader.timeout else None
        while True:
            wait = _POLL_SECONDS if end is None else min(_POLL_SECONDS, max(0.0, end - time.monotonic()))
            try:
                epoch, number, what = pickle.loads(self.results.get(timeout=wait))
            except queue.Empty:
                gone = [p.pid for p in self.processes if not p.is_alive()]
                if gone:
                    self.close()
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {', '.join(map(str, gone))}) exited unexpectedly"
                    ) from None
                if end is not None and time.monotonic() >= end:
                    raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds") from None
                continue
            if epoch == self.epoch:
                return number, what

    def close(self):
        """Ends the workers. A process forked meanwhile has a copy of this, and leaves them alone."""
        if self.closed or os.getpid() != self.owner:
            return
        self.closed = True
        _queues.difference_update(self.tasks)
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join(_JOIN_SECONDS)
            if process.is_alive():
                process.terminate()
        for q in (*self.tasks, self.results):
            q.cancel_join_thread()
            q.close()

    def __del__(self):
        if getattr(self, "processes", None):
            self.close()
