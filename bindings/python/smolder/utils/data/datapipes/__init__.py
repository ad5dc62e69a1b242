"""Pipes of data: data sets made of data sets, by names that follow each other, `pipe.map(f).shuffle().batch(4)`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from smolder._names import listing as _listing
from smolder.utils.data.dataset import Dataset, IterableDataset

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe"]
__dir__ = _listing(__name__)

T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound=type)


class _Pipe:
    """What both kinds have: the pipes that were registered are methods of all."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")
        return functools.wraps(function)(functools.partial(function, self))

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes a function of pipes a method of them."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type[Any], enable_df_api_tracing: bool = False
    ) -> None:
        """Makes a class of pipes a method of them, which gives the class the pipe first."""
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe: enable_df_api_tracing is not supported")
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__


class IterDataPipe(_Pipe, IterableDataset[T_co]):
    """Samples in turn: a subclass has __iter__."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def reset(self) -> None:
        """Called by those that keep a state, before they begin again."""


class MapDataPipe(_Pipe, Dataset[T_co]):
    """Samples by key: a subclass has __getitem__, and __len__ where keys are numbers."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class functional_datapipe:
    """A decorator of classes of pipes: gives all pipes of the kind a method of that name."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name: str = name
        self.enable_df_api_tracing: bool = enable_df_api_tracing

    def __call__(self, cls: C) -> C:
        if not (isinstance(cls, type) and issubclass(cls, _Pipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
        kind = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        options = {"enable_df_api_tracing": True} if self.enable_df_api_tracing else {}
        kind.register_datapipe_as_function(self.name, cls, **options)
        return cls
