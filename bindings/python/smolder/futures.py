"""Values that come later: set by one thread, waited for by others."""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable, Iterable
from typing import Any

from smolder._names import listing as _listing

__all__ = ["Future", "collect_all", "wait_all"]
__dir__ = _listing(__name__)

T = typing.TypeVar("T")
S = typing.TypeVar("S")


class Future(typing.Generic[T]):
    """A value, or an error, that is set once. Callbacks run in the thread that sets it, or at once if it is set."""

    def __init__(self, *, devices: Any = None) -> None:
        self._done, self._lock = threading.Event(), threading.Lock()
        self._value, self._error, self._callbacks = None, None, []

    def done(self) -> bool:
        """Whether it is set."""
        return self._done.is_set()

    def wait(self) -> T:
        """The value, once it is set; raises the error if that was."""
        self._done.wait()
        return self.value()

    def value(self) -> T:
        """The value of one that is set; raises the error if that was."""
        if not self.done():
            raise RuntimeError("The future is not completed: call wait() instead")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: T) -> None:
        """Sets the value."""
        self._set(result, None)

    def set_exception(self, result: Exception) -> None:
        """Sets an error."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._set(None, result)

    def _set(self, value, error):
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error = value, error
            self._done.set()
            waiting, self._callbacks = self._callbacks, []
        for callback in waiting:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Calls callback(self) when it is set."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The future of callback(self), which is called when it is set."""
        out = Future()

        def call(future):
            try:
                out.set_result(callback(future))
            except Exception as error:
                out.set_exception(error)

        self.add_done_callback(call)
        return out


def collect_all(futures: Iterable[Future[T]]) -> Future[list[Future[T]]]:
    """The future of the list of futures, set when all of them are."""
    futures, out = list(futures), Future()
    left = [len(futures)]
    lock = threading.Lock()

    def count(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            out.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        out.set_result(futures)
    return out


def wait_all(futures: Iterable[Future[T]]) -> list[T]:
    """The values of futures, once all are set; raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
