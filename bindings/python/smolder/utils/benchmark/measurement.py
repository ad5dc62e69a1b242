"""Measurements of a statement, and how they are printed."""

from __future__ import annotations

import collections
import dataclasses
import math
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

from smolder._names import listing as _listing
from smolder._typing import Tensor

__all__ = ["Measurement", "TaskSpec", "select_unit", "trim_sigfig", "unit_to_english"]
__dir__ = _listing(__name__)

_MOST_FIGURES = 4
_LEAST_INTERVAL = 25e-9  # seconds: a clock is no better
_SPREAD, _GROSS_SPREAD = 0.1, 0.25  # of the quartiles, to the median

_UNITS = {-3: ("ns", "nanosecond", 1e-9), -2: ("us", "microsecond", 1e-6), -1: ("ms", "millisecond", 1e-3)}


def select_unit(t: Tensor) -> tuple[str, float]:
    """The unit of a time in seconds, and how many seconds that is."""
    exponent = int(np.log10(np.float32(t)) // 3) if t > 0 else -3
    unit, _, scale = _UNITS.get(exponent, ("s", "second", 1))
    return unit, scale


def unit_to_english(u: str) -> str:
    """A unit in words."""
    return {unit: word for unit, word, _ in (*_UNITS.values(), ("s", "second", 1))}[u]


def trim_sigfig(x: Tensor, n: int) -> float:
    """x with n figures."""
    scale = 10 ** (math.ceil(np.log10(np.float32(abs(x)))) - n)
    return float(np.round(np.float32(x / scale)) * scale)


@dataclasses.dataclass(repr=False, frozen=True)
class TaskSpec:
    """A statement, and what it is called in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The statement that is measured, in a line where that is possible."""
        sub = f": {self.sub_label}" if self.sub_label else ""
        if self.label is not None:
            return self.label + sub
        if "\n" not in self.stmt:
            return self.stmt + sub
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup, if there is one."""
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """All of it."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


_FIELDS = tuple(field.name for field in dataclasses.fields(TaskSpec))


@dataclasses.dataclass(repr=False)
class Measurement:
    """Times of a statement: raw_times are of number_per_run runs each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds of one run, each."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of times."""
        return float(np.quantile(self.times, 0.5)) if self.raw_times else -1.0

    @property
    def mean(self) -> float:
        """The mean of times."""
        return float(np.mean(self.times)) if self.raw_times else -1.0

    def _quartiles(self):
        return tuple(np.quantile(self.times, [0.25, 0.75]).tolist()) if self.raw_times else (-1.0, -1.0)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles."""
        low, high = self._quartiles()
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something."""
        n = len(self.raw_times)
        middle = np.array(sorted(self.times)[n // 4 : math.ceil(3 * n / 4)], np.float32)
        interval = max(1.645 * float(middle.std()) / math.sqrt(len(middle)), _LEAST_INTERVAL)
        return min(max(math.floor(np.log10(np.float32(self.median / interval))), 1), _MOST_FIGURES)

    def meets_confidence(self, threshold: float = _SPREAD) -> bool:
        """Whether the quartiles are near each other."""
        return self.iqr / self.median < threshold

    def _warnings(self):
        if not self.raw_times or self.meets_confidence():
            return ()
        gross = not self.meets_confidence(_GROSS_SPREAD)
        why = (
            "This suggests significant environmental influence." if gross else "This could indicate system fluctuation."
        )
        part = self.iqr / self.median * 100
        return (f"  WARNING: Interquartile range is {part:.1f}% of the median measurement.\n           {why}",)

    @property
    def has_warnings(self) -> bool:
        """Whether times are spread."""
        return bool(self._warnings())

    @property
    def title(self) -> str:
        """The title of a measurement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The name of a row of a table."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n, (unit, scale), (low, high) = len(self.raw_times), select_unit(self.median), self._quartiles()
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}")
        if n >= 4:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low / scale:.2f} to {high / scale:.2f})")
        per = "per measurement," if n > 1 else ","
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines.append(f"  {n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs {per} {threads}")
        return "\n".join([*lines, *self._warnings()]).strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same as one."""
        groups = collections.defaultdict(list)
        for m in measurements:
            groups[m.task_spec].extend(m.times)
        return [Measurement(number_per_run=1, raw_times=times, task_spec=spec) for spec, times in groups.items()]
