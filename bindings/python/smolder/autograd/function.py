"""Functions whose gradient the user writes."""

from __future__ import annotations

import functools
import inspect
from typing import Any, NoReturn

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import F

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]
__dir__ = _listing(__name__)

FunctionCtx = _core._FunctionBase


class BackwardCFunction(_core._FunctionBase):
    """The context of one call, which is also the grad_fn of its results."""

    _sparse_saved: dict[int, Any] | None = (
        None  # what is sparse of the tensors saved, of which the core keeps the values
    )

    def save_for_forward(self, *tensors: Any) -> None:
        """Nothing: it is of what a jvp needs, and none is called (see smolder.autograd.forward_ad)."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that save_for_backward was given."""
        saved = super().saved_tensors
        if self._sparse_saved is None:
            return saved
        from smolder._sparse._parts import like

        of = self._sparse_saved
        return tuple(like(of[i], t) if i in of else t for i, t in enumerate(saved))

    def apply(self, *args: Any) -> Any:
        """Gradients of the inputs; called by the engine."""
        function = self._forward_cls
        backward, vjp = function.backward, function.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        return (vjp if vjp is not Function.vjp else backward)(self, *args)

    def name(self) -> str:
        """The function's name with Backward."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"


class Function:
    """Base of functions with a gradient of their own.

    Write forward(ctx, *args), or forward(*args) and setup_context(ctx, inputs, output), and
    backward(ctx, *grad_outputs), all static. Call the class's apply(*args).
    """

    generate_vmap_rule = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        members = {"_forward_cls": cls, "__module__": Function.__module__}
        cls._backward_cls = type(cls.__name__ + "Backward", (BackwardCFunction,), members)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            "Please use new-style autograd function with static forward method."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results; no gradient is recorded within."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what backward needs, where forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **kwargs: Any) -> Any:
        """One gradient for each argument of forward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Forward mode is not supported."""
        raise NotImplementedError("forward-mode derivatives (jvp) of an autograd.Function are not supported")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The results for a batch, and the dimension of it in each: info has batch_size and randomness, in_dims says
        where each argument has it, or None. A class with generate_vmap_rule = True needs none."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls forward; its results have the gradient that backward computes."""
        if _core._vmap_depth():
            from smolder.autograd import _function_vmap

            level = _function_vmap.level_of((args, kwargs))
            if level:
                return _function_vmap.apply(cls, level, args, kwargs)
        return cls._apply(*args, **kwargs)

    @classmethod
    def _apply(cls, *args, **kwargs):
        ctx = cls._backward_cls()
        split = cls.setup_context is not Function.setup_context
        if split:
            args, kwargs = _bind(cls.forward, args, kwargs)
        elif kwargs:
            args, kwargs = _bind(cls.forward, (ctx, *args), kwargs)
            args = args[1:]
        ctx.needs_input_grad = ctx._begin(args)
        before = _core.is_grad_enabled()
        _core.set_grad_enabled(False)
        try:
            if split:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        finally:
            _core.set_grad_enabled(before)
        if isinstance(result, tuple | list):
            return tuple(ctx._finish(cls.__name__, list(result)))
        return ctx._finish(cls.__name__, [result])[0]


def _bind(function, args, kwargs):
    """The arguments by position where they have one, defaults filled in."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


class InplaceFunction(Function):
    """An old name of Function."""


class _Refuse(Function):
    """Has no gradient, and says so when asked for one."""

    @staticmethod
    def forward(ctx, message, *grads):
        ctx.message = message
        return tuple(None if g is None else g.clone() for g in grads)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)


def once_differentiable(fn: F) -> F:
    """Decorates a backward that is not made of differentiable ops: differentiating it is an error."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        before = _core.is_grad_enabled()
        _core.set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            _core.set_grad_enabled(before)
        if not before or not any(isinstance(a, _core.Tensor) and a.requires_grad for a in args):
            return outputs
        several = isinstance(outputs, tuple)
        outputs = outputs if several else (outputs,)
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        leaves = [
            None if g is None else g.detach().requires_grad_() if g.dtype.is_floating_point else g for g in outputs
        ]
        refused = _Refuse.apply(message, *leaves)
        return refused if several else refused[0]

    return wrapper


class NestedIOFunction(Function):
    """torch's, which takes nested arguments: not supported."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("NestedIOFunction is not supported: pass tensors as arguments of a Function")
