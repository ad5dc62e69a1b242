"""Types that annotations name. Those of the first block are for checkers and editors: at run time they are not here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, TypeVar

from smolder._core import Generator as Generator
from smolder._core import RemovableHandle as RemovableHandle
from smolder._core import Tensor as Tensor
from smolder._core import dtype as DType

if TYPE_CHECKING:
    from smolder._device import device
    from smolder._graph import Graph as Graph
    from smolder._layouts import layout as Layout
    from smolder._ops import OpOverload as OpOverload
    from smolder._tensor import Size as Size
    from smolder.distributions.constraints import Constraint as Constraint
    from smolder.nn.module import Module as Module
    from smolder.nn.parameter import Parameter as Parameter
    from smolder.optim.optimizer import Optimizer as Optimizer
    from smolder.profiler._events import EventList as EventList
    from smolder.utils.data.dataset import Dataset as Dataset

__all__ = [
    "Constraint", "DType", "Dataset", "Device", "EventList", "Forward", "Generator", "Graph", "Hook", "Ints", "Like",
    "Module", "Number", "OpOverload", "Optimizer", "Parameter", "Params", "PathLike", "RandomLike", "RemovableHandle",
    "Size", "Tensor",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

Number: TypeAlias = bool | int | float
Device: TypeAlias = "str | device | int | None"
Ints: TypeAlias = int | Sequence[int]
PathLike: TypeAlias = str | os.PathLike[str]
Hook: TypeAlias = Callable[..., Any]
Args: TypeAlias = tuple[Any, ...]
ForwardPreHook: TypeAlias = Callable[[Any, Args], Any] | Callable[[Any, Args, dict[str, Any]], Any]
ForwardHook: TypeAlias = Callable[[Any, Args, Any], Any] | Callable[[Any, Args, dict[str, Any], Any], Any]
BackwardPreHook: TypeAlias = Callable[[Any, Any], Any]
BackwardHook: TypeAlias = Callable[[Any, Any, Any], Any]
MemberHook: TypeAlias = Callable[[Any, str, Any], Any]
Params: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


class Like(Protocol):
    """A function that makes a tensor like another."""

    def __call__(
        self,
        input: Tensor,
        *,
        dtype: DType | None = None,
        device: Device = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        layout: Layout | None = None,
    ) -> Tensor: ...


class RandomLike(Protocol):
    """The same of random numbers."""

    def __call__(
        self,
        input: Tensor,
        *,
        generator: Generator | None = None,
        dtype: DType | None = None,
        device: Device = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        layout: Layout | None = None,
    ) -> Tensor: ...


class Forward(Protocol[P, R_co]):
    """A module, by its forward(): what calls of it take and return."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
