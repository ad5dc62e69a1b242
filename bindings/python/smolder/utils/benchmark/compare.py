"""Tables of measurements: a row for each statement, a column for each description."""

from __future__ import annotations

import enum
import math

import numpy as np

from smolder._names import listing as _listing
from smolder.utils.benchmark.measurement import Measurement, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]
__dir__ = _listing(__name__)

_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
_END = "\033[0m"


class Colorize(enum.Enum):
    """The baseline that times are compared with to choose their colours."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _coloured(text, value, best):
    if value <= best * 1.01 or value <= best + 100e-9:
        return _BEST + text + _END * 2
    if value <= best * 1.1:
        return _GOOD + text + _END * 2
    if value >= best * 5:
        return _VERY_BAD + text + _END * 2
    return _BAD + text + _END if value >= best * 2 else text


class _Table:
    def __init__(self, results, colorize, trim, highlight):
        self.results, self.colorize, self.trim, self.highlight = results, colorize, trim, highlight
        self.unit, self.scale = select_unit(min(r.median for r in results))
        self.rows = sorted({self._row(r): None for r in results}, key=lambda row: (row[0], row[1] or ""))
        self.columns = list({r.description: None for r in results})
        self.at = {(self._row(r), r.description): r for r in results}
        self.formats = [self._format(column) for column in self.columns]

    @staticmethod
    def _row(r):
        return r.num_threads, r.env, r.as_row_name

    def _format(self, column):
        """How times of a column are written, and whether those that vary are marked."""
        results = [r for r in self.results if r.description == column]
        digits = [math.ceil(np.log10(np.float32(r.median / self.scale))) for r in results]
        decimals = 1
        if self.trim:
            decimals = min(max(r.significant_figures - d, 0) for r, d in zip(results, digits, strict=True))
        marked = self.highlight and any(r.has_warnings for r in results)
        return f"{{:>{max(digits) + decimals + (1 if decimals else 0)}.{decimals}f}}{{:>{7 if marked else 0}}}", marked

    def _cell(self, r, how):
        template, marked = how
        if r is None:
            return " " * len(template.format(1, ""))
        value = r.median / self.scale
        value = trim_sigfig(value, r.significant_figures) if self.trim else value
        return template.format(value, f" (! {r.iqr / r.median * 100:.0f}%)" if marked and r.has_warnings else "")

    def _best(self, row, column):
        if self.colorize == Colorize.ROWWISE:
            return min(self.at[row, c].median for c in self.columns if (row, c) in self.at)
        return min(self.at[r, column].median for r in self.rows if r[0] == row[0] and (r, column) in self.at)

    def render(self):
        envs = {r.env for r in self.results}
        wide = max(len(env or "Unspecified env") for env in envs) if len(envs) > 1 else 0
        names, before = [], (None, None)
        for threads, env, name in self.rows:
            shown = f"({env or 'Unspecified env'})" if wide and (threads, env) != before else ""
            names.append("  " + shown.ljust(wide + 4) + name)
            before = threads, env
        cells = [
            [self._cell(self.at.get((row, c)), f) for c, f in zip(self.columns, self.formats)] for row in self.rows
        ]
        heads = [str(c or "") for c in self.columns]
        widths = [max(len(text) for text in column) for column in zip(heads, *cells, strict=True)]
        first = max(map(len, names))
        lines = ["  |  ".join([" " * first, *(h.center(w) for h, w in zip(heads, widths))])]
        total, threads = len(lines[0]), None
        for row, name, texts in zip(self.rows, names, cells, strict=True):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(total, "-"))
            parts = [name.ljust(first)]
            for column, text, width in zip(self.columns, texts, widths, strict=True):
                text, r = text.center(width), self.at.get((row, column))
                if r is not None and self.colorize != Colorize.NONE:
                    text = _coloured(text, r.median, self._best(row, column))
                parts.append(text)
            lines.append("  |  ".join(parts))
        label = f" {self.results[0].label or ''} "
        title = f"[{label.center(total - 2, '-')}]"
        out = "\n".join([title, *lines, "", f"Times are in {unit_to_english(self.unit)}s ({self.unit}).", ""])
        if self.highlight and any(r.has_warnings for r in self.results):
            out += "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
        return out


class Compare:
    """Measurements in tables, one for each label."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results = []
        self.extend_results(results)
        self._trim, self._colorize, self._highlight = False, Colorize.NONE, False

    def extend_results(self, results: list[Measurement]) -> None:
        """Adds measurements; those of the same task are joined."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows figures that mean something alone."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours times by how they compare with the best of their column, or of their row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Marks times that vary much."""
        self._highlight = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        groups = {}
        for r in Measurement.merge(self._results):
            groups.setdefault(r.label, []).append(r)
        return "\n".join(_Table(g, self._colorize, self._trim, self._highlight).render() for g in groups.values())
