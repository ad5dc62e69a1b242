"""The types of torch.optim.optimizer that programs annotate with: they say nothing when a program runs."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from smolder._core import Tensor
from smolder._device import device
from smolder._names import listing as _listing
from smolder.optim.optimizer import Optimizer

__all__: list[str] = []
__dir__ = _listing(__name__)

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
StateDict: TypeAlias = dict[str, Any]
DeviceDict: TypeAlias = dict[device | None, Tensor]
DeviceDtypeDict: TypeAlias = dict[tuple[device, Any] | None, Tensor]
TensorListList: TypeAlias = list[list[Tensor | None]]
Indices: TypeAlias = list[int]
GlobalOptimizerPreHook: TypeAlias = Callable[[Optimizer, Args, Kwargs], tuple[Args, Kwargs] | None]
GlobalOptimizerPostHook: TypeAlias = Callable[[Optimizer, Args, Kwargs], None]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
