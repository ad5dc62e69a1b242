"""State of models and optimizers by the names of parameters, in parts or whole, whatever a model is wrapped in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from smolder import _core, _creation
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder.distributed import _groups
from smolder.distributed.tensor._api import DTensor, local_part, plain, wrap
from smolder.distributed.tensor.placement_types import DTensorSpec

if TYPE_CHECKING:
    from smolder.nn.module import Module
    from smolder.optim import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]
__dir__ = _listing(__name__)

_WRAPPERS = {"_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod"}


@dataclass
class StateDictOptions:
    """How states are taken and given.

    full_state_dict: whole tensors instead of DTensors. cpu_offload: with it, only the first process gets them.
    ignore_frozen_params, strict: as their names say. broadcast_from_rank0: only the first process gives whole tensors.
    flatten_optimizer_state_dict: an optimizer's state under names, `state.NAME.KEY` and `param_groups.NAME.KEY`.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


def _options(options):
    options = options or StateDictOptions()
    if not options.keep_submodule_prefixes:
        raise NotImplementedError("StateDictOptions: keep_submodule_prefixes=False is not supported")
    return options


def _name(path):
    """Without what wrappers put into paths."""
    return ".".join(p for p in path.split(".") if p not in _WRAPPERS)


def _inner(model):
    """The module that DistributedDataParallel or FullyShardedDataParallel wraps."""
    from smolder.distributed.fsdp import FullyShardedDataParallel
    from smolder.nn.parallel import DistributedDataParallel

    return model.module if isinstance(model, DistributedDataParallel | FullyShardedDataParallel) else model


def _state_of(model, **options):
    """Returns state_dict() in parts: wrappers below would give whole copies."""
    from smolder.distributed.fsdp import FullyShardedDataParallel, StateDictType

    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        return model.state_dict(**options)


def _first():
    return not _groups.is_initialized() or _groups.get_rank() == 0


def _given_out(value, options):
    """A tensor as the options want it; None for one that this process does not get."""
    if not options.full_state_dict:
        return value
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    if options.cpu_offload:
        whole = whole.detach().clone() if _first() else None
    return whole


def _no_submodules(submodules):
    if submodules is not None:
        raise NotImplementedError("state dicts of some submodules are not supported: call it with the submodule")


@no_grad()
def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Parameters and buffers by name: DTensors in parts, or whole by the options. All processes call it."""
    _no_submodules(submodules)
    options = _options(options)
    model = _inner(model)
    frozen = {_name(n) for n, p in model.named_parameters() if not p.requires_grad}
    out = {}
    for path, value in _state_of(model).items():
        if options.ignore_frozen_params and _name(path) in frozen:
            continue
        if isinstance(value, _core.Tensor):
            value = _given_out(value, options)
            if value is None:
                continue
        elif options.full_state_dict and options.cpu_offload and not _first():
            continue
        out[_name(path)] = value
    return out


def _received(whole, shape, dtype, device):
    """A whole tensor that only the first process has."""
    from smolder.distributed._collectives import broadcast

    if _first():
        given = whole.detach().to(device, dtype).clone()
    else:
        given = _creation.empty(list(shape), dtype=dtype, device=device)
    broadcast(given, group_src=0)
    return given


def _told(value):
    """An object that only the first process has."""
    from smolder.distributed._objects import broadcast_object_list

    told = [value]
    broadcast_object_list(told, group_src=0)
    return told[0]


def _put_in(target, value, options):
    """Copies a value, whole or in parts, into a tensor of a model, which gets memory where it has none yet."""
    if plain(target).is_meta:
        where = target._spec.mesh.device_type if isinstance(target, DTensor) else _groups._default().device()
        plain(target).data = _creation.empty_like(plain(target), device=where)
    if options.broadcast_from_rank0:
        value = _received(value, target.shape, plain(target).dtype, target.device)
    local = plain(target).detach()
    if tuple(value.shape) != tuple(target.shape):
        raise RuntimeError(f"a shape of {tuple(value.shape)} does not fit {tuple(target.shape)}")
    if not isinstance(target, DTensor):
        local.copy_(value.full_tensor() if isinstance(value, DTensor) else value)
    elif isinstance(value, DTensor):
        same = value._spec.mesh == target._spec.mesh
        if not same:
            value = wrap(local_part(value.full_tensor(), target._spec), target._spec)
        local.copy_(plain(value.redistribute(placements=target._spec.placements)))
    else:
        local.copy_(local_part(value, target._spec))


@no_grad()
def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> _IncompatibleKeys:
    """Gives a model parameters and buffers by name, whole or in parts. All processes call it."""
    options = _options(options)
    model = _inner(model)
    own = {_name(path): value for path, value in _state_of(model, keep_vars=True).items()}
    names = set(model_state_dict)
    if options.broadcast_from_rank0:
        names = set(_told(sorted(names)))
    missing = [n for n in own if n not in names]
    unexpected = [n for n in names if n not in own]
    if options.strict and (missing or unexpected):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__}: Missing key(s): {missing}. Unexpected key(s): "
            f"{sorted(unexpected)}."
        )
    for name, target in own.items():
        if name in names and isinstance(target, _core.Tensor):
            _put_in(target, model_state_dict.get(name), options)
    return _IncompatibleKeys(missing, sorted(unexpected))


def _names_of(model):
    return {id(p): _name(path) for path, p in model.named_parameters()}


def _optimizers(optimizers):
    return list(optimizers) if isinstance(optimizers, tuple | list | set) else [optimizers]


@no_grad()
def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """State of optimizers by names of parameters, and their groups with names. All processes call it."""
    _no_submodules(submodules)
    options = _options(options)
    names = _names_of(_inner(model))
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            of = [names[id(p)] for p in group["params"]]
            groups.append({k: v for k, v in group.items() if k not in ("params", "param_names")} | {"params": of})
            for p, name in zip(group["params"], of, strict=True):
                entry = {}
                for key, value in optimizer.state.get(p, {}).items():
                    entry[key] = (
                        _given_out(_as_its_parameter(value, p), options) if isinstance(value, _core.Tensor) else value
                    )
                state[name] = entry
    if options.full_state_dict and options.cpu_offload and not _first():
        return {}
    out = {"state": state, "param_groups": groups}
    return _flattened(out) if options.flatten_optimizer_state_dict else out


def _init_optim_state(optimizer):
    """Torch's name, which programs import. Makes the state of an optimizer that has none yet, so that there is something to load into: by a step that changes
    nothing."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in params):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    for p in params:
        if p.requires_grad:
            p.grad = _core.zeros_like(p)
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if "lr" in group:
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def _as_its_parameter(value, p):
    """State that has the shape of a parameter's part lies as the parameter does."""
    if isinstance(p, DTensor) and not isinstance(value, DTensor) and value.dim() and value.shape == plain(p).shape:
        return wrap(value, p._spec)
    return value


def _flattened(whole):
    out = {f"state.{n}.{k}": v for n, entry in whole["state"].items() for k, v in entry.items()}
    for group in whole["param_groups"]:
        out |= {f"param_groups.{n}.{k}": v for n in group["params"] for k, v in group.items() if k != "params"}
    return out


def _unflattened(flat, names):
    state: dict[str, Any] = {n: {} for n in names}
    options: dict[str, Any] = {n: {} for n in names}
    for path, value in flat.items():
        part, _, rest = path.partition(".")
        name = next((n for n in names if rest.startswith(f"{n}.") and "." not in rest[len(n) + 1 :]), None)
        if name is not None:
            (state if part == "state" else options)[name][rest[len(name) + 1 :]] = value
    return state, options


@no_grad()
def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Gives optimizers the state by names of parameters, whole or in parts. All processes call it."""
    options = _options(options)
    names = _names_of(_inner(model))
    given = optim_state_dict
    flat = options.flatten_optimizer_state_dict or (bool(given) and "param_groups" not in given)
    if options.broadcast_from_rank0 and not _first():
        state, by_name = {}, {}
    elif flat:
        state, by_name = _unflattened(given, list(names.values()))
    else:
        state = given["state"]
        by_name = {n: {k: v for k, v in g.items() if k != "params"} for g in given["param_groups"] for n in g["params"]}
    whole = state
    if options.broadcast_from_rank0:
        state, by_name = _told(({n: _described(entry) for n, entry in state.items()}, by_name))
    for optimizer in _optimizers(optimizers):
        for group in optimizer.param_groups:
            for p in group["params"]:
                name = names[id(p)]
                if name not in state:
                    if options.strict:
                        raise RuntimeError(f"Missing optimizer state of {name}")
                    continue
                group.update({k: v for k, v in by_name.get(name, {}).items() if k in group})
                entry = state[name]
                if options.broadcast_from_rank0:
                    entry = _received_entry(entry, whole.get(name, {}), plain(p).device)
                optimizer.state[p] = {k: _state_for(k, v, p) for k, v in entry.items()}


def _described(entry):
    """State of a parameter as it is told to other processes: instead of tensors their shapes and dtypes."""
    tensors = {k: v for k, v in entry.items() if isinstance(v, _core.Tensor) and v.dim()}
    others = {k: v.item() if isinstance(v, _core.Tensor) else v for k, v in entry.items() if k not in tensors}
    return others, {k: (tuple(v.shape), v.dtype) for k, v in tensors.items()}


def _received_entry(described, whole, device):
    others, tensors = described
    return others | {k: _received(whole.get(k), *kind, device) for k, kind in tensors.items()}


@no_grad()
def optimizer_state_to_load(model: Module, optimizer: Optimizer, given: dict[str, Any]) -> dict[str, Any]:
    """Turns state by names of parameters, whole or in parts, into what the optimizer's own load_state_dict takes."""
    names = _names_of(_inner(model))
    by_name = {n: {k: v for k, v in g.items() if k != "params"} for g in given["param_groups"] for n in g["params"]}
    state: dict[int, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        first = len(state)
        for p in group["params"]:
            name = names[id(p)]
            if name not in given["state"]:
                raise RuntimeError(f"Missing optimizer state of {name}")
            state[len(state)] = {k: _state_for(k, v, p) for k, v in given["state"][name].items()}
        options = by_name[names[id(group["params"][0])]] if group["params"] else {}
        kept = {k: v for k, v in group.items() if k != "params"}
        groups.append(kept | options | {"params": list(range(first, len(state)))})
    return {"state": state, "param_groups": groups}


def _state_for(key, value, p):
    if not isinstance(value, _core.Tensor):
        return value
    if not isinstance(p, DTensor) or value.dim() == 0:
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        if key == "step":
            return int(whole)
        return whole.detach().clone()
    if isinstance(value, DTensor) and value._spec == p._spec:
        return value.detach().clone()
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    spec = DTensorSpec(p._spec.mesh, p._spec.placements, tuple(whole.shape))
    return wrap(local_part(whole, spec), spec)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state of the model, and the state of its optimizers."""
    model_state = get_model_state_dict(model, submodules=submodules, options=options)
    return model_state, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> _IncompatibleKeys:
    """Gives both back."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
