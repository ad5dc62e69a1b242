"""Torch's wrappers that run copies of a module: in several processes, or on several devices, as far as that is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core, cuda
from smolder._device import device
from smolder._missing import missing
from smolder._names import listing as _listing
from smolder._typing import Device
from smolder.cuda._index import index_of
from smolder.cuda._refused import refused
from smolder.nn.module import Module
from smolder.utils._pytree import tree_map

if TYPE_CHECKING:
    from smolder.distributed._data_parallel import DistributedDataParallel

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip
__dir__ = _listing(__name__)

_WHY = "a process runs copies of a module on one device; DistributedDataParallel is for several processes"


class DataParallel(Module):
    """Runs a module on one device: on "cuda:0", where it moves the module and inputs to, or, without CUDA, as it is."""

    device_ids: list[int]
    output_device: int
    dim: int
    src_device_obj: device

    def __init__(
        self, module: Module, device_ids: Sequence[Device] | None = None, output_device: Device = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        if not cuda.is_available():
            self.device_ids = []
            return
        self.device_ids = [0] if device_ids is None else [index_of(d) for d in device_ids]
        self.output_device = self.device_ids[0] if output_device is None else index_of(output_device)
        if {*self.device_ids, self.output_device} != {0}:
            raise NotImplementedError(f"nn.DataParallel: device_ids={device_ids} is not supported: {_WHY}")
        self.dim, self.src_device_obj = dim, device("cuda", 0)
        self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for t in (*self.module.parameters(), *self.module.buffers()):
            if t.device != self.src_device_obj:
                raise RuntimeError(
                    f"module must have its parameters and buffers on device {self.src_device_obj} (device_ids[0]) but "
                    f"found one of them on device: {t.device}"
                )
        inputs, kwargs = tree_map(self._moved, (inputs, kwargs))
        return self.module(*inputs, **kwargs)

    def _moved(self, x):
        return x.to(self.src_device_obj) if isinstance(x, _core.Tensor) else x


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Device] | None = None,
    output_device: Device = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """The module's output for a tensor or a tuple of inputs, as DataParallel's."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":  # which needs what is imported after nn
        from smolder.distributed._data_parallel import DistributedDataParallel

        return DistributedDataParallel
    raise missing(__name__, name)


gather: Callable[..., Any] = refused("nn.parallel.gather", _WHY)
parallel_apply: Callable[..., Any] = refused("nn.parallel.parallel_apply", _WHY)
replicate: Callable[..., Any] = refused("nn.parallel.replicate", _WHY)
scatter: Callable[..., Any] = refused("nn.parallel.scatter", _WHY)
