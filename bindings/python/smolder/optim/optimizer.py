"""The base of optimizers: parameter groups, state, saving."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, overload

from smolder import _core
from smolder._creation import full
from smolder._modes import enable_grad, no_grad
from smolder._names import listing as _listing
from smolder._typing import Params, T, Tensor
from smolder._warn import warn
from smolder.nn.parameter import zero_gradients
from smolder.optim._state import NUMBERS, State, _taken, get, put

if TYPE_CHECKING:
    from smolder.utils.hooks import RemovableHandle

__all__ = [
    "Optimizer",
    "check_betas",
    "check_options",
    "implementation",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
    "steps_conditionally",
]
__dir__ = _listing(__name__)


class _Required:
    def __repr__(self):
        return "<required parameter>"


required: Any = _Required()


_SPELLED = {"lr": "learning rate", "eps": "epsilon value"}


def real_parts(x: Tensor) -> Tensor:
    """A complex tensor as its pairs of parts, a view."""
    return _core.view_as_real(x) if x.dtype.is_complex else x


def check_options(**options: Any) -> None:
    """Raises ValueError for one that is negative or nan."""
    for name, value in options.items():
        if name == "lr" and isinstance(value, _core.Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not value >= 0.0:
            raise ValueError(f"Invalid {_SPELLED.get(name, f'{name} value')}: {value}")


def check_betas(betas: tuple[float, float]) -> None:
    """Raises ValueError unless both are in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def implementation(foreach: bool, fused: bool, differentiable: bool, fusible: bool = True) -> dict[str, Any]:
    """torch's choices of how a step is computed, as options of a group, for programs that make them.

    foreach and fused change nothing: the compiler makes one step of all parameters' updates and fuses it. A step is
    not differentiated through.
    """
    if differentiable:
        raise NotImplementedError("optimizers: differentiable=True is not supported: a step has no history")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    chosen = {"foreach": foreach, "differentiable": differentiable}
    return chosen | {"fused": fused} if fusible else chosen


# Hooks of all optimizers, and the optimizers: a step has hooks around it from when there is one.
_global_optimizer_pre_hooks, _global_optimizer_post_hooks = OrderedDict(), OrderedDict()
_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()


def unbound_step(optimizer: Optimizer) -> Callable[..., Any]:
    """step() as a function of the optimizer and its arguments: the class's, or what hooks and schedulers put around it."""
    step = optimizer.step
    if getattr(step, "__self__", None) is optimizer:
        return step.__func__  # without the optimizer, which would keep itself alive

    @functools.wraps(step)
    def of_the_optimizer(_, *args, **kwargs):
        return step(*args, **kwargs)

    return of_the_optimizer


def _between_hooks(optimizer):
    """Its step, between the hooks of all optimizers and those of its own."""
    step, this = unbound_step(optimizer), weakref.ref(optimizer)

    @functools.wraps(step)
    def between(*args, **kwargs):
        optimizer = this()
        for hook in (*_global_optimizer_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values()):
            given = hook(optimizer, args, kwargs)
            if given is not None:
                if not (isinstance(given, tuple) and len(given) == 2):
                    raise RuntimeError(
                        f"{step.__qualname__} must return None or a tuple of (new_args, new_kwargs), but got {given}."
                    )
                args, kwargs = given
        out = step(optimizer, *args, **kwargs)
        for hook in (*optimizer._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(optimizer, args, kwargs)
        return out

    return between


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As Optimizer.register_step_pre_hook, for all optimizers."""
    return _global_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As Optimizer.register_step_post_hook, for all optimizers."""
    return _global_hook(_global_optimizer_post_hooks, hook)


def _global_hook(hooks, hook):
    from smolder.utils.hooks import RemovableHandle

    for optimizer in list(_optimizers):
        optimizer._make_hooked()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


_NOT_COPIED = (
    "step",
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class Optimizer:
    """Updates parameters from their gradients. Subclasses define _options(group) and _update(parameter, grad, options)."""

    defaults: dict[str, Any]
    param_groups: list[dict[str, Any]]
    state: dict[Any, dict[str, Any]]

    _skip = None  # a bool on the device: where it is true, a step changes nothing
    _counted = None  # in such a step: counts before, if it is made, and then

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, _core.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + type(params).__name__
            )
        self.defaults, self.param_groups, self.state = defaults, [], defaultdict(dict)
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._known()

    def _known(self):
        """Takes part in hooks of all optimizers."""
        _optimizers.add(self)
        if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
            self._make_hooked()

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and pickles: without hooks, as torch's."""
        return {k: v for k, v in vars(self).items() if k not in _NOT_COPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._known()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own; options not given are the optimizer's."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, _core.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        group["params"] = params = self._without_names(group, list(params))
        for p in params:
            if not isinstance(p, _core.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        if len({id(p) for p in params}) != len(params):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information"
            )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if known & {id(p) for p in params}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def _without_names(self, group, params):
        """Parameters that came as of named_parameters(); their names go into the group."""
        named = [isinstance(p, tuple) for p in params]
        if (any(named) and not all(named)) or any(any(named) != ("param_names" in g) for g in self.param_groups):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if any(named):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        return params

    _counts_as_torch = True  # whether torch's optimizer of this name counts in tensors

    def _counts(self):
        """Whether its steps are those of a class of ours that counts so."""
        kind = type(self)._update
        ours = kind is not Optimizer._update and kind.__module__.startswith(__package__ + ".")
        return ours and self._counts_as_torch

    def _state_of(self, parameter):
        """The state of a parameter, also from a dict of the program's, or of a copy of the optimizer."""
        state = self.state[parameter]
        if type(state) is not State and self._counts_as_torch:
            state = self.state[parameter] = State(state)
        return state

    def _options(self, group):
        """The options that _update needs, read from a group once a step for all its parameters."""
        return group

    def _update(self, parameter, grad, options):
        raise NotImplementedError(f"{type(self).__name__} defines no update")

    def _update_sparse(self, parameter, grad, options):
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    @staticmethod
    def _numbers(group, *names):
        """Options as steps take them. Floats always: an int where a float was before would be another op to compile."""
        out = {"maximize": group["maximize"]}
        for name in names:
            if name == "betas":
                out["beta1"], out["beta2"] = map(float, group["betas"])
            else:
                out[name] = float(group[name])
        if _core._is_capturing() and "lr" in out:
            out["lr"] = _run_time_number(group, "lr")
        return out

    def _count(self, state, parameter):
        """Counts a step of a parameter. A number, or, since the first step that may have been skipped, a tensor."""
        step = self._advance(state, "step", 0, lambda step: step + 1, parameter, shared=True)
        capturing = _core._is_capturing() and type(step) is int
        return _run_time_number(state, "step", counts=True) if capturing else step

    def _advance(self, state, name, first, advance, parameter, shared=False):
        """The next value of a number that a parameter's state has. Parameters may share a tensor of it."""
        value = _taken(state, name, first)
        if self._skip is None:
            value = advance(value)
            put(state, name, value)
            return value
        made = isinstance(value, _core.Tensor)
        key = name, (id(value) if made else value) if shared else id(parameter)
        if key not in self._counted:
            before = value if made else full((), float(value), device=parameter.device)
            after = advance(before)
            self._counted[key] = before, after, _core.where(self._skip, before, after)
        _, after, kept = self._counted[key]
        put(state, name, kept)
        if type(state) is State:
            state.skipped = True
        return after

    def _write(self, tensor, value):
        """Gives a parameter or its state a new value, unless the step is skipped."""
        _core.assign(tensor, value if self._skip is None else _core.where(self._skip, tensor, value))

    def _assign(self, parameter, state, names, step, grad, numbers):
        """Makes a step: new values of the parameter and of its state, which begins as zeros; None is no state."""
        for name in names:
            if name is not None and name not in state:
                put(state, name, _core.zero_state(parameter))
        old = [None if name is None else get(state, name) for name in names]
        new, *made = step(parameter, grad, *old, **numbers)
        self._write(parameter, new)
        for tensor, value in zip(old, made, strict=True):
            if tensor is not None:
                self._write(tensor, value)

    def _can_skip(self):
        """Whether the state is such that the next step may be one that depends on the device."""
        return True

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], T]) -> T: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. Returns the closure's loss, if there is a closure."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._counted = {}
        _core._restore_on_failure(self.state, updates=True)
        with no_grad():
            for group in self.param_groups:
                options = self._options(group)
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if grad.is_sparse:
                        self._update_sparse(p, grad, options)
                    else:
                        self._update(p, grad, options)
        self._counted = None  # held on, the step would have to produce them
        _core.step_boundary("optimizer.step")
        return loss

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) before each step; it may return other (args, kwargs). Returns a handle."""
        return self._step_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) after each step. Returns a handle."""
        return self._step_hook("step_post", hook)

    def _make_hooked(self):
        if "_optimizer_step_pre_hooks" not in vars(self):
            self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
            self.step = _between_hooks(self)

    def _step_hook(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        self._make_hooked()
        return self._hook(kind, hook)

    def _hook(self, kind, hook, prepend=False):
        from smolder.utils.hooks import RemovableHandle

        hooks = vars(self).setdefault(f"_optimizer_{kind}_hooks", OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def _call_hooks(self, kind, *given):
        """Calls the hooks of a kind, each with what the one before returned in place of the last argument, and returns it."""
        for hook in tuple(vars(self).get(f"_optimizer_{kind}_hooks", {}).values()):
            out = hook(self, *given)
            given = given if out is None else (out,)
        return given[0] if given else None

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) before state_dict(), with prepend before the hooks there are. Returns a handle."""
        return self._hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) on what state_dict() returns; it may return another. Returns a handle."""
        return self._hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) before it is loaded; it may return another. Returns a handle."""
        return self._hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) after a state is loaded. Returns a handle."""
        return self._hook("load_state_dict_post", hook, prepend)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or zeroes them in place."""
        for group in self.param_groups:
            zero_gradients(group["params"], set_to_none)

    # -- saving

    def state_dict(self) -> dict[str, Any]:
        """State by the parameter's number in the groups, and the groups with numbers for parameters."""
        self._call_hooks("state_dict_pre")
        numbers, groups = {}, []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers.get(id(p), p): dict(values) for p, values in self.state.items()}
        _unshare(state)
        return self._call_hooks("state_dict_post", {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() of an optimizer with the same groups returned."""
        state_dict = self._call_hooks("load_state_dict_pre", dict(state_dict))
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        by_number = {}
        for group, old in zip(self.param_groups, saved):
            if len(group["params"]) != len(old["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
            by_number |= dict(zip(old["params"], group["params"]))
            group.update({k: deepcopy(v) for k, v in old.items() if k != "params"})
        self.state = defaultdict(dict)
        kind, copied = (State, _copied) if self._counts() else (dict, _copied_as_it_is)
        for number, values in state_dict["state"].items():
            p = by_number.get(number)
            self.state[number if p is None else p] = kind({k: copied(k, v, p) for k, v in values.items()})
        self._call_hooks("load_state_dict_post")

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([*lines, ")"])


def _run_time_number(values, name, counts=False):
    """A number of a dict as an operand, where a step is recorded that reads it anew each time it runs.

    With `counts` that is after adding 1 to it. Nothing may be computed of it here.
    """
    value = get(values, name)
    plain = type(value) in ((int,) if counts else (int, float))
    return _core._run_time_number(values, name, counts) if plain else value


def steps_conditionally(optimizer: Optimizer) -> bool:
    """Whether a step depends on the device where `_skip` says so, which nobody's own step does."""
    kind, patched = type(optimizer), vars(optimizer).get("step")
    if not isinstance(optimizer, Optimizer) or kind.step is not Optimizer.step:
        return False
    ours = kind._update.__module__.startswith(__package__)
    return ours and (patched is None or hasattr(patched, "_wrapped_by_lr_sched")) and optimizer._can_skip()


def _unshare(state):
    """Gives each parameter a count of its own, as torch's: steps that may be skipped count once for all."""
    seen = set()
    for values in state.values():
        for name in NUMBERS:
            if isinstance(value := values.get(name), _core.Tensor):
                values[name] = value.clone() if id(value) in seen else value
                seen.add(id(value))


def _copied(name, value, parameter):
    """Converts a state that is loaded: we keep numbers where torch has tensors."""
    if name in NUMBERS and isinstance(value, _core.Tensor):
        return int(value) if name == "step" else float(value)
    return _copied_as_it_is(name, value, parameter)


def _copied_as_it_is(name, value, parameter):
    if not isinstance(value, _core.Tensor):
        return deepcopy(value)
    if name == "step":
        return value.detach().clone()
    value = value.detach().clone()
    return value.to(parameter.dtype) if parameter is not None and value.dtype.is_floating_point else value
