"""Why steps were compiled: what is kept, logged, warned of or refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

from smolder import _core
from smolder._modes import _Mode
from smolder._typing import F

__all__ = ["on_recompile", "recompiles", "set_logs"]

_ACTIONS = ("ignore", "warn", "raise")


@dataclasses.dataclass(frozen=True)
class BuiltKernel:
    """A kernel that was in no cache: its name, its key there, the line it is told by, what it took."""

    name: str
    key: str
    where: str
    milliseconds: float


@dataclasses.dataclass(frozen=True)
class Recompile:
    """A step that no known plan ran.

    `cause` says what first differs from the step most like it: "shape", "dtype", "attribute", "topology" (which ops
    there are, and what they take from each other), "liveness" (which results are held when the step ends), "mode", or
    "new" where nothing like it was known. `where` and `before` are the lines of that difference, now and in the other
    step. Where `compiled` is false the step was recorded anew and ran a known plan.
    """

    cause: str
    reason: str
    where: str
    before: str
    compiled: bool
    milliseconds: float
    kernels: list[BuiltKernel]
    _text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self._text


def recompiles(*, clear: bool = False) -> list[Recompile]:
    """The last 256 steps of this process that were compiled, oldest first, each with its reason.

    Steps that were recorded anew but ran a known plan are among them while `set_logs(recompiles_verbose=True)` is on.
    `clear` forgets them once they are told.
    """
    out = [
        Recompile(
            **{f.name: entry[f.name] for f in dataclasses.fields(Recompile) if f.name not in ("kernels", "_text")},
            kernels=[BuiltKernel(**kernel) for kernel in entry["kernels"]],
            _text=entry["text"],
        )
        for entry in _core._recompiles()
    ]
    if clear:
        _core._forget_recompiles()
    return out


def set_logs(*, recompiles: bool = False, recompiles_verbose: bool = False) -> None:
    """Chooses what is written to stderr, as torch._logging.set_logs does: what is not named is off.

    `recompiles` tells of every step that is compiled although others are known, `recompiles_verbose` of new steps and
    of those that are only recorded anew as well. SMOLDER_LOGS=recompiles does the same from the start.
    """
    _core._set_recompile_log(2 if recompiles_verbose else 1 if recompiles else 0)


class on_recompile(_Mode):
    """Sets what happens when a step is compiled: "ignore" (the default), "warn" or "raise"; for the whole process.

    At once as a function, until exit as a context manager. After a warm-up nothing should be compiled: "raise" then
    raises a RuntimeError that says why and where, once the step has run.
    """

    def __init__(self, action: Callable[..., Any]) -> None:
        if action not in _ACTIONS:
            raise ValueError(f'on_recompile expects one of "ignore", "warn" and "raise", got {action!r}')
        super().__init__(_ACTIONS.index(action))
        self.previous.append(self._get())
        self._set(self.on)

    def __enter__(self) -> Self:
        self._set(self.on)
        return self

    def __call__(self, function: F) -> F:
        self._set(self.previous.pop())
        return super().__call__(function)

    def _get(self):
        return _core._on_recompile()

    def _set(self, on):
        _core._set_on_recompile(on)

    def clone(self) -> Self:
        return type(self)(_ACTIONS[self.on])
