"""State of a parameter: steps count with numbers, and readers get torch's tensors of one element."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from typing import Any, Self

from smolder import _core
from smolder._creation import tensor
from smolder._modes import inference_mode

__all__ = ["NUMBERS", "State", "get", "put"]

NUMBERS = ("step", "mu_product", "eta", "mu")  # what torch has tensors for

# How a step reads and writes a state: numbers as they are, and without the time that a method in Python takes.
get, put = dict.get, dict.__setitem__


class State(dict):
    """A dict whose numbers, where torch keeps tensors, become tensors when they are read.

    Such a tensor stays in the dict until the next step, so that a program may write to it, as to any it put there. A
    number that a program put there is read as that number until a step counts on.
    """

    __slots__ = ("plain", "shown", "skipped")

    plain: dict[str, Any]  # numbers that the program wrote
    shown: dict[str, tuple[Any, int, float]]  # tensors that were read, their versions, and the numbers they stand for
    skipped: bool  # whether a step may have been skipped, so that counts are tensors which only the device knows

    def __init__(self, *values: Any, **more: Any) -> None:
        super().__init__(*values, **more)
        self.plain, self.shown, self.skipped = {}, {}, False

    def _show(self, key):
        value = get(self, key)
        if key in NUMBERS and type(value) in (int, float) and self.plain.get(key) != value:
            wide = _core._default_dtype() == _core.float64
            with inference_mode(False):  # as one that the step made
                made = tensor(float(value), dtype=_core.float64 if wide else _core.float32, device="cpu")
            put(self, key, made)
            self.shown[key] = made, made._version, value

    def _show_all(self):
        for key in NUMBERS:
            self._show(key)

    def __getitem__(self, key: Any) -> Any:
        self._show(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key in NUMBERS:
            self.plain[key] = value if type(value) in (int, float) else None
        super().__setitem__(key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        self._show(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """As a dict's."""
        self._show(key)
        return super().pop(key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *values: Any, **more: Any) -> None:
        """As a dict's."""
        for key, value in dict(*values, **more).items():
            self[key] = value

    def __ior__(self, values: Any) -> Self:
        self.update(values)
        return self

    def __iter__(self) -> Iterator[Any]:
        self._show_all()
        return super().__iter__()

    def items(self) -> ItemsView[Any, Any]:
        """As a dict's."""
        self._show_all()
        return super().items()

    def values(self) -> ValuesView[Any]:
        """As a dict's."""
        self._show_all()
        return super().values()

    def copy(self) -> dict[Any, Any]:
        """As a dict's."""
        return dict(self.items())

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)  # as torch's, which reads what is pickled


def _taken(state: Any, key: str, first: float) -> Any:
    """The count that a step goes on from: a number, or a tensor where steps may have been skipped.

    A tensor that a program read stands for its number, unless it was written to; any other is read.
    """
    value = get(state, key, first)
    if not isinstance(value, _core.Tensor) or type(state) is not State:
        return value
    made, version, number = state.shown.pop(key, (None, 0, first))
    if made is value and value._version == version:
        return number
    return value if state.skipped else type(first)(value)
