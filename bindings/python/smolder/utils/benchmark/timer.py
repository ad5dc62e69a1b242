"""Runs of a statement, timed."""

from __future__ import annotations

import ast
import contextlib
import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from smolder import _core, cuda
from smolder._names import listing as _listing
from smolder.cuda._refused import refused
from smolder.utils.benchmark.measurement import Measurement, TaskSpec

__all__ = ["Language", "Timer", "timer"]
__dir__ = _listing(__name__)


def timer() -> float:
    """Seconds, of a clock that is read when devices have done what they were given."""
    if cuda.is_available():
        cuda.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """Languages of statements."""

    PYTHON = 0
    CPP = 1


_KEPT, _END = "_smolder_result", "_smolder_end_of_run"


def _as_a_step(stmt):
    """The statement, such that what it ends with is held, and then that the step ends: so it is computed, each time."""
    tree = ast.parse(stmt or "pass")
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Assign([ast.Name(_KEPT, ast.Store())], tree.body[-1].value, lineno=0)
    tree.body.append(ast.Expr(ast.Call(ast.Name(_END, ast.Load()), [], [])))
    return ast.unparse(ast.fix_missing_locations(tree))


@contextlib.contextmanager
def _threads(n):
    before = _core.get_num_threads()
    _core.set_num_threads(n)
    try:
        yield
    finally:
        _core.set_num_threads(before)


def _dedented(text):
    return textwrap.dedent(text).removeprefix("\n").rstrip()


class Timer:
    """Times a statement of Python. A run of it is a step: what it gives, or assigns, is computed before the next."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = Language.PYTHON,
    ) -> None:
        import smolder

        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError("utils.benchmark.Timer: language='c++' is not supported: statements are Python's")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        self._globals = {"smolder": smolder, **(globals or {}), _END: _core.mark_step}
        stmt, setup = _dedented(stmt), _dedented(setup)
        self._timer = timeit.Timer(stmt=_as_a_step(stmt), setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number, times):
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The time of so many runs, after a hundredth of them."""
        with _threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            _core.wait_for_compiles()
            return self._measured(number, [self._timeit(number)])

    def _block(self, min_run_time):
        """How many runs take so long that the clock does not matter."""
        with _threads(self._task_spec.num_threads):
            self._timeit(2)
            _core.wait_for_compiles()
            overhead, number = float(np.median([self._timeit(0) for _ in range(5)])), 1
            while True:
                taken = self._timeit(number)
                enough = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
                if enough or taken > min_run_time or number * 10 > 2147483647:
                    return number
                number *= 10

    def _measure(self, number, enough, min_run_time, max_run_time=None, callback=None):
        times, total = [], 0.0
        with _threads(self._task_spec.num_threads):
            while total < min_run_time or not enough(times):
                times.append(self._timeit(number))
                total += times[-1]
                if callback:
                    callback(number, times[-1])
                if max_run_time and total > max_run_time:
                    break
        return self._measured(number, times)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Times of blocks of runs, for at least min_run_time seconds."""
        return self._measure(self._block(min_run_time), bool, min_run_time, callback=callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0, callback: Any = None
    ) -> Measurement:
        """The same until the quartiles are within threshold of the median, for at most max_run_time seconds."""
        number = self._block(0.05)

        def enough(times):
            return len(times) > 3 and self._measured(number, times).meets_confidence(threshold)

        return self._measure(number, enough, min_run_time, max_run_time, callback)

    repeat: ClassVar[Callable[..., Any]] = refused("Timer.repeat", "see Timer.blocked_autorange")
    autorange: ClassVar[Callable[..., Any]] = refused("Timer.autorange", "see Timer.blocked_autorange")
    collect_callgrind: ClassVar[Callable[..., Any]] = refused(
        "Timer.collect_callgrind", "there is no interface to Valgrind"
    )
