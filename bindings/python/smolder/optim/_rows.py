"""The rows that a sparse gradient has, each once."""

from __future__ import annotations

from smolder import _core
from smolder._sparse import _parts
from smolder._typing import Tensor


class Rows:
    """A sparse gradient by rows of its parameter (by elements, where all its dimensions are sparse).

    Values of one row are added up without reading how many rows there are, so that the step goes on: there are as many
    places as values, and those past the last row count for nothing.
    """

    values: Tensor

    def __init__(self, parameter: Tensor, grad: Tensor) -> None:
        n = _parts.sparse_dims(grad)
        self._shape = tuple(parameter.shape)
        self._flat = (-1, *self._shape[n:])
        rows, self.values = _parts.flat(grad._indices(), self._shape[:n]), grad._values()
        self._rows, self._counts = rows, None
        if not grad.is_coalesced():
            self._add_up(rows)

    def _add_up(self, rows):
        order = _core.argsort(rows, stable=True)
        rows = rows.index_select(0, order)
        first = _core.cat([_core.ones_like(rows[:1]), (rows[1:] != rows[:-1]).to(rows.dtype)])
        place = first.cumsum(0) - 1
        self.values = _core.index_add(_core.zeros_like(self.values), 0, place, self.values.index_select(0, order))
        self._rows = _core.zeros_like(rows).scatter(0, place, rows)
        counts = _core.zeros_like(rows).index_add(0, place, first) > 0
        self._counts = counts.reshape((-1,) + (1,) * (self.values.dim() - 1))

    def of(self, tensor: Tensor) -> Tensor:
        """The rows of a tensor of the parameter's shape."""
        return tensor.detach().reshape(self._flat).index_select(0, self._rows)

    def added(self, tensor: Tensor, change: Tensor) -> Tensor:
        """The tensor with changes added to the rows."""
        if self._counts is not None:
            change = _core.where(self._counts, change, _core.zeros_like(change))
        flat = tensor.detach().reshape(self._flat)
        return _core.index_add(flat, 0, self._rows, change).reshape(self._shape)
