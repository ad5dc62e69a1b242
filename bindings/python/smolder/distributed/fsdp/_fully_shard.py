"""fully_shard: parameters, gradients and optimizer states divided over the processes of a mesh."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder.distributed.device_mesh import DeviceMesh, init_device_mesh
from smolder.distributed.fsdp._unit import Unit, managed_parameters
from smolder.utils._pytree import tree_map

if TYPE_CHECKING:
    from smolder.nn.module import Module

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "unit_of",
]

# By module. It is no attribute of the module: what a unit notes changes in each step.
_units: weakref.WeakKeyDictionary[Any, Unit] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """dtypes of a unit: in which parameters come together and are computed with, in which gradients are reduced, and of
    what the module returns. None: as they are. Parts, their gradients and what optimizers keep stay as they were."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing is moved elsewhere."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters are on the CPU: as they are anyway, unless they are on CUDA's devices, where it is refused."""

    pin_memory: bool = True


def unit_of(module: Any) -> Unit:
    """The unit that fully_shard made of a module."""
    return _units[module]


class UnshardHandle:
    """The result of unshard(async_op=True): that is recorded, and there is nothing to wait for."""

    def wait(self) -> None:
        """Nothing."""


def _cast(dtype, values):
    def change(x):
        floating = isinstance(x, _core.Tensor) and x.dtype.is_floating_point
        return x.to(dtype) if floating and x.dtype != dtype else x

    return tree_map(change, values)


class FSDPModule:
    """The class from which fully_shard has a module's class derive."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the class that was sharded, which is not."""
        original = cls.__mro__[2]
        made = original.__new__(original)
        made.__init__(*args, **kwargs)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _within(self, super().__call__, args, kwargs)  # type: ignore[misc]

    def reshard(self) -> None:
        """Frees the whole parameters."""
        unit_of(self).reshard()

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As any module's, of this process's parts: whole parameters are freed."""
        unit_of(self).reshard()
        return super().state_dict(*args, **kwargs)  # type: ignore[misc]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Brings the parameters together, until reshard(), state_dict() or the end of a backward pass."""
        unit_of(self).unshard()
        return UnshardHandle() if async_op else None

    def _below(self, recurse):
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [_units[m] for m in modules if m in _units]

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward passes reduce gradients. Where they do not, whole gradients add up on each process, and the
        next pass that does reduces what came together."""
        for unit in self._below(recurse):
            unit.sync = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Nothing: nothing is waited for at the end of a backward pass."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Says whether backward passes reduce over a mesh's first dimension of two. Where they do not, parts add up."""
        for unit in self._below(recurse):
            unit.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are freed between the forward and the backward pass."""
        for unit in self._below(recurse):
            unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Raises where it is False: after a backward pass nobody has the whole parameters."""
        if not reshard_after_backward:
            raise NotImplementedError("set_reshard_after_backward(False) is not supported")

    def set_modules_to_forward_prefetch(self, modules: Sequence[Any]) -> None:
        """Nothing: what came next in the forward pass before is begun ahead anyway."""

    def set_modules_to_backward_prefetch(self, modules: Sequence[Any]) -> None:
        """Nothing, as above."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Sets the divisor of summed gradients, in place of the number of processes."""
        unit_of(self).divide_by = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Nothing: parameters come together in a backward pass where it needs them, and only there."""

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Nothing."""


def _within(module, call, args, kwargs):
    unit = unit_of(module)
    policy = unit.policy
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        args, kwargs = _cast(policy.param_dtype, (args, kwargs))
    with unit.forward():
        out = call(*args, **kwargs)
    return out if policy.output_dtype is None else _cast(policy.output_dtype, out)


_classes: dict[type, type] = {}


def _class_of(kind):
    if kind not in _classes:
        _classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    return _classes[kind]


def fully_shard(
    module: Module | Sequence[Module],
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[..., Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divides a module's parameters over the processes of a mesh, each a part along the first dimension.

    A forward pass brings those of this call together in one collective, and so does the backward pass, unless
    reshard_after_forward is False; the gradients are reduced to each process's part in one. Parameters of submodules that
    were sharded before are left to them: apply it from the inside out, and to the whole model last. All processes must
    have the same values. Parameters become DTensors, and so do gradients and what optimizers keep: make the optimizer after.

    reshard_after_forward=None is True, but for the outermost, which is needed in backward at once. A mesh of two dimensions
    keeps copies over the first, and divides over the second. Returns the module, which is changed in place.
    """
    if not isinstance(module, _core._ModuleCall):
        raise NotImplementedError("fully_shard: of a list of modules this is not supported: shard what contains them")
    if shard_placement_fn is not None:
        raise NotImplementedError(
            "fully_shard: shard_placement_fn is not supported: parameters are divided along dimension 0"
        )
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard: dp_mesh_dims is not supported: slice the mesh by names")
    if module in _units:
        raise ValueError(f"fully_shard has already been applied to this {type(module).__name__}")
    if isinstance(offload_policy, CPUOffloadPolicy) and any(p.device.type == "cuda" for p in module.parameters()):
        raise NotImplementedError("fully_shard: CPUOffloadPolicy of parameters on CUDA is not supported")
    from smolder.nn import ModuleDict, ModuleList

    if isinstance(module, ModuleList | ModuleDict) and type(module).forward is ModuleList.forward:
        raise ValueError(f"fully_shard does not support containers that do not implement forward: {module}")
    mesh = mesh or init_device_mesh(_device_type(module), (_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if not (reshard_after_forward is None or isinstance(reshard_after_forward, bool)):
        raise NotImplementedError(
            "fully_shard: reshard_after_forward as a number of processes is not supported: True or False"
        )
    named = managed_parameters(module, ignored_params or set(), _units)
    _units[module] = Unit(module, named, mesh, reshard_after_forward, mp_policy or MixedPrecisionPolicy())
    module.__class__ = _class_of(type(module))
    return module


def _device_type(module):
    found = next((p.device.type for p in module.parameters()), "cpu")
    return found if found == "cuda" else "cpu"


def _world_size():
    from smolder.distributed import _groups

    if not _groups.is_initialized():
        _groups.init_process_group()
    return _groups.get_world_size()


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Has another method than forward run with whole parameters."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name).__func__
    of = weakref.ref(module)

    def call(*args, **kwargs):
        return _within(of(), lambda *a, **k: method(of(), *a, **k), args, kwargs)

    setattr(module, method_name, call)
