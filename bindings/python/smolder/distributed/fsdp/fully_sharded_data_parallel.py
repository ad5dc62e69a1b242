"""FullyShardedDataParallel: the wrapper that came before fully_shard, made of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder.distributed.checkpoint import state_dict as states
from smolder.distributed.device_mesh import DeviceMesh
from smolder.distributed.fsdp import wrap
from smolder.distributed.fsdp._fully_shard import MixedPrecisionPolicy, _units, fully_shard
from smolder.distributed.tensor._api import DTensor
from smolder.nn.module import Module

if TYPE_CHECKING:
    from smolder import Tensor

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]
__dir__ = _listing(__name__)


class ShardingStrategy(enum.Enum):
    """FULL_SHARD frees whole parameters between the passes, SHARD_GRAD_OP does not; HYBRID ones keep copies over the first
    dimension of a mesh."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When parameters come together for backward: the recorded step says it here."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """Form of state_dict(): whole tensors, or DTensors."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


@dataclass
class MixedPrecision:
    """dtypes, as those of MixedPrecisionPolicy; buffers are not converted."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Parameters are on the CPU."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Options of state_dict()."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """With rank0_only, only the first process gets whole tensors."""

    rank0_only: bool = False


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """None that changes anything."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Options of optim_state_dict()."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """With rank0_only, only the first process gets whole tensors."""

    rank0_only: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """None that changes anything."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """Form of state_dict() and of optim_state_dict()."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


_WHOLE = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())


def _settings(kind, config, optim_config):
    full = kind is StateDictType.FULL_STATE_DICT
    config = config or (FullStateDictConfig() if full else ShardedStateDictConfig())
    optim_config = optim_config or (FullOptimStateDictConfig() if full else ShardedOptimStateDictConfig())
    return StateDictSettings(kind, config, optim_config)


def _options_of(kind, config):
    full = kind is StateDictType.FULL_STATE_DICT
    only_first = full and getattr(config, "rank0_only", False)
    return states.StateDictOptions(full_state_dict=full, cpu_offload=only_first)


def _mesh_of(group):
    return None if group is None else DeviceMesh.from_group(group, "cpu")


class FullyShardedDataParallel(Module):
    """Runs a module whose parameters, gradients and optimizer states are divided over the processes: see fully_shard.

    auto_wrap_policy says which submodules come together by themselves. They are sharded in place, not wrapped. Parameters are
    DTensors; state_dict() gives whole tensors, under the names that the module has without the wrapper.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        # How gathers are timed, and that parameters keep their own tensors, which they do: none changes a result.
        del backward_prefetch, forward_prefetch, limit_all_gathers, use_orig_params
        if cpu_offload is not None and cpu_offload.offload_params:
            raise NotImplementedError("FullyShardedDataParallel: CPUOffload(offload_params=True) is not supported")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = device_mesh or _mesh_of(process_group)
        if strategy is ShardingStrategy.NO_SHARD:
            raise NotImplementedError(
                "FullyShardedDataParallel: NO_SHARD is not supported: use DistributedDataParallel"
            )
        hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
        if hybrid and (mesh is None or mesh.ndim != 2):
            raise ValueError("FullyShardedDataParallel: a hybrid strategy needs a device_mesh of two dimensions")
        if device_id is not None:
            module.to(f"cuda:{device_id}" if isinstance(device_id, int) else device_id)
        if param_init_fn is not None:
            raise NotImplementedError("FullyShardedDataParallel: param_init_fn is not supported")
        ignored = set(ignored_modules or ())
        states_ignored = list(ignored_states or ())
        ignored |= {m for m in states_ignored if isinstance(m, Module)}
        parameters = {p for m in ignored for p in m.parameters()} | {
            p for p in states_ignored if not isinstance(p, Module)
        }
        if sync_module_states:
            from smolder.distributed._data_parallel import _send_from_first
            from smolder.distributed._groups import resolve

            group = mesh.get_group() if mesh is not None and mesh.ndim == 1 else resolve(None)
            _send_from_first([*module.parameters(), *module.buffers()], group)
        frees = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        options = {"mesh": mesh, "mp_policy": _policy(mixed_precision), "ignored_params": parameters}
        for child in wrap.chosen(module, auto_wrap_policy, ignored) if auto_wrap_policy is not None else ():
            fully_shard(child, reshard_after_forward=frees, **options)
        self._fsdp_wrapped_module = fully_shard(module, reshard_after_forward=None if frees else False, **options)
        self._settings = _WHOLE

    @property
    def module(self) -> Module:
        """The module."""
        return self._fsdp_wrapped_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_fsdp_wrapped_module")
        if inner is None:
            return super().__getattr__(name)
        return getattr(inner, name)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients add up on each process. The first backward pass outside reduces what came together."""
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scales gradients so that the norm of the whole is at most max_norm; returns what it was."""
        from smolder.nn.utils import clip_grad_norm_

        total: Any = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    @staticmethod
    def _all_below(module):
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Sets the form of state_dict() and optim_state_dict(). Returns the form before."""
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("LOCAL_STATE_DICT is not supported: SHARDED_STATE_DICT has DTensors")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in FullyShardedDataParallel._all_below(module):
            m._settings = _settings(state_dict_type, state_dict_config, optim_state_dict_config)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Returns the form of state_dict() and optim_state_dict() that the outermost wrapper has."""
        return next((m._settings for m in FullyShardedDataParallel._all_below(module)), _WHOLE)

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """Sets the form of state_dict() and optim_state_dict() within a block."""
        before = [(m, m._settings) for m in FullyShardedDataParallel._all_below(module)]
        FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for m, settings in before:
                m._settings = settings

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Whole tensors, or DTensors, by the names of the module."""
        options = _options_of(self._settings.state_dict_type, self._settings.state_dict_config)
        found = states.get_model_state_dict(self.module, options=options)
        out = {} if destination is None else destination
        out.update({prefix + name: value for name, value in found.items()})
        return out

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Takes whole tensors or DTensors by the names of the module."""
        return states.set_model_state_dict(
            self.module, dict(state_dict), options=states.StateDictOptions(strict=strict)
        )

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """The optimizer's state by names of parameters, as state_dict() gives the model's."""
        if optim_state_dict is not None:
            raise NotImplementedError("optim_state_dict: a given optim_state_dict is not supported: give the optimizer")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        options = _options_of(settings.state_dict_type, settings.optim_state_dict_config)
        return states.get_optimizer_state_dict(model, optim, options=options)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """Takes this process's parts of an optim_state_dict(), for the optimizer's load_state_dict(). All
        processes give the state."""
        if is_named_optimizer:
            raise NotImplementedError("optim_state_dict_to_load: is_named_optimizer=True is not supported")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        if getattr(settings.optim_state_dict_config, "rank0_only", False):
            raise NotImplementedError("optim_state_dict_to_load: rank0_only=True is not supported: all give the state")
        loaded = states.optimizer_state_to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(loaded)
        return loaded

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Within it parameters are whole. What is written to them is kept, with writeback."""
        if rank0_only or with_grads:
            raise NotImplementedError("summon_full_params: rank0_only and with_grads are not supported")
        units = [_units[m] for m in module.modules() if m in _units]
        with no_grad():
            for unit in units:
                unit.unshard()
        try:
            yield
        finally:
            with no_grad():
                for unit in units:
                    if writeback:
                        unit.write_back()
                    unit.reshard()


def _policy(given):
    if given is None:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=given.param_dtype, reduce_dtype=given.reduce_dtype)
