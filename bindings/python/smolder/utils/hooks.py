"""Handles that take hooks off again, and hooks on the gradients of modules."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self

from smolder import _core
from smolder._names import listing as _listing
from smolder._warn import warn
from smolder.autograd import Function

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = ["BackwardHook", "RemovableHandle"]
__dir__ = _listing(__name__)


class RemovableHandle:
    """Takes a hook off again: remove(), or at the end of a with block."""

    id: Any
    dicts: Any

    _ids = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = ()) -> None:
        self.id = next(RemovableHandle._ids)
        extra = extra_dict if isinstance(extra_dict, list | tuple) else [extra_dict]
        # Weakly: a handle keeps no module alive.
        self.dicts = [weakref.ref(d) for d in (hooks_dict, *extra)]

    def remove(self) -> None:
        """Takes the hook off; once more does nothing."""
        for reference in self.dicts:
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __getstate__(self) -> dict[str, Any]:
        return [r() for r in self.dicts], self.id

    def __setstate__(self, state: Any) -> None:
        hooks, self.id = state
        self.dicts = [weakref.ref(OrderedDict() if d is None else d) for d in hooks]
        RemovableHandle._ids = itertools.count(max(next(RemovableHandle._ids), self.id + 1))


class BackwardHookFunction(Function):
    """Hands tensors through, so that they have a node in common."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Any, ...]:
        ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> tuple[Any, ...]:
        return args


def _as_many(result, gradients, what, kind):
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(gradients):
        raise RuntimeError(
            f"Backward {what} returned an invalid number of {kind}, got {len(result)}, but expected {len(gradients)}"
        )
    return result


class BackwardHook:
    """Calls a module's full backward hooks when the gradients of its inputs are computed, and its pre hooks when those
    of its outputs are. Used once, around one call."""

    module: Module
    user_hooks: Any
    user_pre_hooks: Any
    n_inputs: int
    n_outputs: int
    grad_outputs: Any
    input_at: list[int] | None
    output_at: list[int] | None

    def __init__(self, module: Module, user_hooks: Any, user_pre_hooks: Any) -> None:
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs = None
        self.n_inputs = self.n_outputs = -1
        self.input_at = self.output_at = None

    @staticmethod
    def _spread(indices, values, n):
        out = [None] * n
        for i, v in zip(indices, values, strict=True):
            out[i] = v
        return tuple(out)

    def _through_node(self, fn, args):
        """args with its tensors handed through one node, on which fn(grad_fn) sets hooks; None without history."""
        at = [i for i, a in enumerate(args) if isinstance(a, _core.Tensor)]
        if not (_core.is_grad_enabled() and any(args[i].requires_grad for i in at)):
            return args, None
        new = BackwardHookFunction.apply(*(args[i] for i in at))
        nodes = [t.grad_fn for t in new if t.grad_fn is not None and t.grad_fn.name() == "BackwardHookFunctionBackward"]
        if not nodes:
            raise RuntimeError("Error while setting up backward hooks: no result has a node")
        fn(nodes[0])
        out = list(args)
        for i, t in zip(at, new, strict=True):
            out[i] = t
        return (type(args)(*out) if hasattr(args, "_fields") else tuple(out)), at

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, watched."""

        def watch(grad_fn):
            def hook(grad_input, _):
                if self.grad_outputs is None:
                    return None
                grads = self._spread(self.input_at, grad_input, self.n_inputs)
                changed = None
                for user_hook in self.user_hooks:
                    out = user_hook(self.module, grads, self.grad_outputs)
                    if out is None:
                        continue
                    changed = grads = _as_many(out, grads, "hook", "grad_input")
                self.grad_outputs = None
                return None if changed is None else tuple(changed[i] for i in self.input_at)

            grad_fn.register_hook(hook)

        out, at = self._through_node(watch, args)
        self.n_inputs, self.input_at = len(args), at
        return out

    def _call_without_inputs(self):
        """Calls the hooks when no input requires a gradient."""
        warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients."
        )
        for user_hook in self.user_hooks:
            out = user_hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if out is not None and not (isinstance(out, tuple) and all(o is None for o in out)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None

    def setup_output_hook(self, args: tuple[Any, ...]) -> Any:
        """The result, watched."""

        def watch(grad_fn):
            def hook(_, grad_output):
                self.grad_outputs = self._spread(self.output_at, grad_output, self.n_outputs)
                for user_hook in self.user_pre_hooks:
                    out = user_hook(self.module, self.grad_outputs)
                    if out is not None:
                        self.grad_outputs = _as_many(out, self.grad_outputs, "pre hook", "grad_output")
                grads = self.grad_outputs
                if self.input_at is None:
                    self._call_without_inputs()
                return tuple(grads[i] for i in self.output_at)

            grad_fn.register_hook(hook)

        single = isinstance(args, _core.Tensor)
        wrapped = (args,) if single else args
        out, at = self._through_node(watch, wrapped)
        self.n_outputs, self.output_at = len(wrapped), at
        return out[0] if single else out
