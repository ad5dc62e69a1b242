"""Several processes that run one function, of which the first to fail ends the others."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from smolder._names import listing as _listing
from smolder._warn import warn

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "spawn",
    "start_processes",
]  # fmt: skip
__dir__ = _listing(__name__)


class ProcessException(Exception):
    """A process that did not end well: which, and what was its id."""

    msg: str
    error_index: int
    error_pid: int

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process whose function raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process that ended with a status other than 0, or by a signal."""

    exit_code: int
    signal_name: str | None

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


_PR_SET_PDEATHSIG = 1


def _run(fn, i, args, error_file):
    """Runs fn(i, *args) in a process. A traceback goes to the file. The process ends when its parent does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    try:
        fn(i, *args)
    except (KeyboardInterrupt, Exception) as e:
        with open(error_file, "w") as file:
            file.write(traceback.format_exc())
        sys.exit(128 + signal.SIGINT if isinstance(e, KeyboardInterrupt) else 1)


class ProcessContext:
    """Processes that were started together."""

    processes: Sequence[Any]
    error_files: Sequence[str]
    sentinels: dict[Any, int]

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def _wait(self, seconds):
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends, at most so many seconds; returns whether all have. Where one failed, ends the
        others, after grace_period seconds that they have to end by themselves, and raises."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        raise self._error(failed)

    def _error(self, index):
        process, path = self.processes[index], self.error_files[index]
        if os.access(path, os.R_OK):
            with open(path) as file:
                text = file.read()
            os.unlink(path)
            return ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}", index, process.pid
            )
        code = process.exitcode
        if code >= 0:
            return ProcessExitedException(
                f"process {index} terminated with exit code {code}", index, process.pid, exit_code=code
            )
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {index} terminated with signal {name}", index, process.pid, exit_code=code, signal_name=name
        )


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs fn(i, *args) in nprocs processes. Waits for them, or without `join` returns their ProcessContext."""
    context = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for i in range(nprocs):
        path = os.path.join(tempfile.gettempdir(), f"smolder-errorfile-{os.getpid()}-{time.monotonic_ns()}-{i}")
        process = context.Process(target=_run, args=(fn, i, args, path), daemon=daemon)
        process.start()
        processes.append(process)
        error_files.append(path)
    started = ProcessContext(processes, error_files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """start_processes() of new interpreters."""
    if start_method != "spawn":
        warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:\n\t\t "
            "smolder.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
