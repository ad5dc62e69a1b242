"""Modes of the calling thread, as context managers that decorate functions too."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Self, overload

from smolder import _core
from smolder._typing import F, Tensor
from smolder._warn import warn

__all__ = ["eager", "enable_grad", "inference_mode", "is_inference", "no_grad", "set_grad_enabled", "strict"]


def _resumed_within(mode, function):
    """A generator function that is in the mode while it runs, and out of it while its caller does."""

    @functools.wraps(function)
    def inside(*args, **kwargs):
        generator = function(*args, **kwargs)
        try:
            with mode.clone():
                out = generator.send(None)
            while True:
                try:
                    sent = yield out
                except GeneratorExit:
                    with mode.clone():
                        generator.close()
                    raise
                except BaseException:
                    with mode.clone():
                        out = generator.throw(sys.exc_info()[1])
                else:
                    with mode.clone():
                        out = generator.send(sent)
        except StopIteration as end:
            return end.value

    return inside


class _Mode:
    """Sets a switch on entry and puts back what it was on exit; nests, and decorates functions and generators."""

    previous: list[Any]

    def _get(self):
        raise NotImplementedError

    def _set(self, on):
        raise NotImplementedError

    def __init__(self, on: bool) -> None:
        self.on = on
        self.previous = []

    def __enter__(self) -> Self:
        self.previous.append(self._get())
        self._set(self.on)
        return self

    def __exit__(self, *exception: object) -> None:
        self._set(self.previous.pop())

    def clone(self) -> Self:
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
            )
            function.__init__ = self(function.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return _resumed_within(self, function)

        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return inside


class _GradMode(_Mode):
    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    @overload
    def __new__(cls, orig_func: F) -> F: ...
    def __new__(cls, orig_func: Any = None) -> Any:
        """`@no_grad` without parentheses decorates as well."""
        self = object.__new__(cls)
        if callable(orig_func):
            self.__init__()
            return self(orig_func)
        return self

    def __init__(self, orig_func: Any = None) -> None:
        self.previous: list[Any] = []

    # Few frames: entering and leaving takes as long as recording several ops.

    def __enter__(self) -> Self:
        self.previous.append(_core.is_grad_enabled())
        _core.set_grad_enabled(self.on)
        return self

    def __exit__(self, *exception: object) -> None:
        _core.set_grad_enabled(self.previous.pop())


class no_grad(_GradMode):
    """Within it, nothing is recorded for gradients."""

    on = False


class enable_grad(_GradMode):
    """Within it, gradients are recorded again."""

    on = True


class set_grad_enabled(_Mode):
    """Turns gradients on or off: at once as a function, until exit as a context manager."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        super().__init__(mode)
        self.previous.append(_core.is_grad_enabled())
        _core.set_grad_enabled(self.on)

    def __enter__(self) -> Self:
        _core.set_grad_enabled(self.on)
        return self

    def __exit__(self, *exception: object) -> None:
        _core.set_grad_enabled(self.previous.pop())

    def __call__(self, function: F) -> F:
        _core.set_grad_enabled(self.previous.pop())
        return super().__call__(function)

    def clone(self) -> Self:
        return set_grad_enabled(self.on)


class inference_mode(_GradMode):
    """Within it, nothing is recorded for gradients, and new tensors may never be part of what is."""

    mode: bool

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...
    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls, mode)

    def __init__(self, mode: Any = True) -> None:
        super().__init__()
        self.mode = mode if isinstance(mode, bool) else True

    def __enter__(self) -> Self:
        self.previous.append((_core.is_grad_enabled(), _core.is_inference_mode_enabled()))
        _core.set_grad_enabled(not self.mode)
        _core._set_inference_mode(self.mode)
        return self

    def __exit__(self, *exception: object) -> None:
        grad, inference = self.previous.pop()
        _core.set_grad_enabled(grad)
        _core._set_inference_mode(inference)

    def clone(self) -> Self:
        return inference_mode(self.mode)


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


class eager(_Mode):
    """Within it, every op runs at once on its own kernel: the same bits, op by op."""

    def __init__(self) -> None:
        super().__init__(True)

    def _get(self):
        return _core.is_eager_enabled()

    def _set(self, on):
        _core.set_eager_enabled(on)


class strict(_Mode):
    """Within it, an op that can be no part of a compiled step raises NotImplementedError when called.

    That is one without a lowering, or one of a user without a shape rule. Elsewhere its kernel runs eagerly; it is
    counted in `fallbacks`, and warned of once a line. The switch is one for all threads.
    """

    def __init__(self) -> None:
        super().__init__(True)

    def _get(self):
        return _core.is_strict()

    def _set(self, on):
        _core.set_strict(on)
