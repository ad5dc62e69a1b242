"""Hooks on modules: around forward and backward, of one module or of all."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NoReturn

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import BackwardPreHook, ForwardHook, ForwardPreHook, Hook, MemberHook
from smolder._warn import warn
from smolder.utils.hooks import BackwardHook, RemovableHandle

if TYPE_CHECKING:
    from smolder._typing import BackwardHook as ModuleBackwardHook
    from smolder._typing import Module

__all__ = [
    "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip
__dir__ = _listing(__name__)

# Hooks of all modules, which run before a module's own. Beside each list of hooks are their options, in the same order.
_forward_pre, _forward, _backward_pre, _backward = (OrderedDict() for _ in range(4))
_with_kwargs, _always = OrderedDict(), OrderedDict()
_registration = {kind: OrderedDict() for kind in ("parameter", "buffer", "module")}

# The dictionaries of hooks that each module has.
OWN = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def _add(hooks, hook, prepend=False, **options):
    """Puts a hook into `hooks`, and notes it in each of the dictionaries given as options that are true."""
    noted = [d for d, on in options.values() if on]
    handle = RemovableHandle(hooks, extra_dict=noted)
    hooks[handle.id] = hook
    for d in noted:
        d[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_parameter_registration_hook(hook: MemberHook) -> RemovableHandle:
    """Calls hook(module, name, parameter) whenever a module gets a parameter; what it returns takes its place."""
    return _add(_registration["parameter"], hook)


def register_module_buffer_registration_hook(hook: MemberHook) -> RemovableHandle:
    """Calls hook(module, name, buffer) whenever a module gets a buffer; what it returns takes its place."""
    return _add(_registration["buffer"], hook)


def register_module_module_registration_hook(hook: MemberHook) -> RemovableHandle:
    """Calls hook(module, name, submodule) whenever a module gets a child; what it returns takes its place."""
    return _add(_registration["module"], hook)


def register_module_forward_pre_hook(hook: ForwardPreHook) -> RemovableHandle:
    """As Module.register_forward_pre_hook, for all modules."""
    return _add(_forward_pre, hook)


def register_module_forward_hook(
    hook: ForwardHook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """As Module.register_forward_hook, for all modules."""
    return _add(_forward, hook, kwargs=(_with_kwargs, with_kwargs), always=(_always, always_call))


def register_module_full_backward_pre_hook(hook: BackwardPreHook) -> RemovableHandle:
    """As Module.register_full_backward_pre_hook, for all modules."""
    return _add(_backward_pre, hook)


def register_module_full_backward_hook(hook: ModuleBackwardHook) -> RemovableHandle:
    """As Module.register_full_backward_hook, for all modules."""
    return _add(_backward, hook)


def register_module_backward_hook(hook: Hook) -> NoReturn:
    """torch's deprecated hook, which misses gradients: not supported."""
    raise NotImplementedError("register_module_backward_hook is not supported: use register_module_full_backward_hook")


def registered(kind: str, module: Module, name: str, value: Any) -> Any:
    """Passes a member that a module is about to get through the hooks, and returns it."""
    for hook in tuple(_registration[kind].values()):
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


class Hooks:
    """Module's methods of hooks."""

    def register_forward_pre_hook(
        self, hook: ForwardPreHook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args) before forward; what it returns, unless None, replaces the arguments.

        With with_kwargs it gets the keyword arguments, too, and returns both.
        """
        return _add(self._forward_pre_hooks, hook, prepend, kwargs=(self._forward_pre_hooks_with_kwargs, with_kwargs))

    def register_forward_hook(
        self, hook: ForwardHook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args, output) after forward; what it returns, unless None, replaces the output.

        With with_kwargs it gets the keyword arguments after args; with always_call it runs even if forward raises.
        """
        return _add(
            self._forward_hooks,
            hook,
            prepend,
            kwargs=(self._forward_hooks_with_kwargs, with_kwargs),
            always=(self._forward_hooks_always_called, always_call),
        )

    def register_full_backward_pre_hook(self, hook: BackwardPreHook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_output) before the module's gradients are computed; may return others."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: ModuleBackwardHook, prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) when the gradients of the inputs are computed; may return others."""
        return _add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: ModuleBackwardHook) -> RemovableHandle:
        """As register_full_backward_hook. torch's own tells of the module's last op alone what it knows of the inputs."""
        return _add(self._backward_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls hook(module, prefix, keep_vars) before state_dict() reads the module."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, local_metadata) after state_dict() read the module."""
        hook._from_public_api = True
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        before load_state_dict() writes the module."""
        return _add(self._load_state_dict_pre_hooks, lambda *args: hook(self, *args))

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add(self._load_state_dict_pre_hooks, (lambda *args: hook(self, *args)) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls hook(module, incompatible_keys) after load_state_dict() wrote the module."""
        return _add(self._load_state_dict_post_hooks, hook)


def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """module.forward(*args, **kwargs) with all hooks around it."""
    called = set()
    try:
        return _call(module, args, kwargs, called)
    except Exception:
        _call_those_left(module, args, kwargs, called)
        raise


def _call_those_left(module, args, kwargs, called):
    """Hooks that run even though something raised; of theirs, only warnings come."""
    for hooks, with_kwargs, always in (
        (_forward, _with_kwargs, _always),
        (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called),
    ):
        for key, hook in tuple(hooks.items()):
            if key not in always or key in called:
                continue
            try:
                hook(module, args, kwargs, None) if key in with_kwargs else hook(module, args, None)
            except Exception as e:
                what = "global module forward hook" if hooks is _forward else "module forward hook"
                warn(
                    f"{what} with ``always_call=True`` raised an exception that was silenced as another error was "
                    f"raised in forward: {e}"
                )


def _before(module, args, kwargs):
    """Passes the arguments through the hooks that run before forward."""
    with_kwargs = module._forward_pre_hooks_with_kwargs
    for key, hook in (*_forward_pre.items(), *module._forward_pre_hooks.items()):
        if key in with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                )
            args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _call(module, args, kwargs, called):
    args, kwargs = _before(module, args, kwargs)
    after = [*_backward.values(), *module._backward_hooks.values()]
    before = [*_backward_pre.values(), *module._backward_pre_hooks.values()]
    backward = BackwardHook(module, after, before) if after or before else None
    if backward:
        args = backward.setup_input_hook(args)
    result = module.forward(*args, **kwargs)
    for hooks, with_kwargs, always in (
        (_forward, _with_kwargs, _always),
        (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called),
    ):
        for key, hook in tuple(hooks.items()):
            if key in always:
                called.add(key)
            changed = hook(module, args, kwargs, result) if key in with_kwargs else hook(module, args, result)
            if changed is not None:
                result = changed
    if backward:
        if not isinstance(result, _core.Tensor | tuple):
            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}"
            )
            return result
        result = backward.setup_output_hook(result)
    return result


_core._set_module_hooks([_forward, _forward_pre, _backward, _backward_pre], call)
