"""Modes of the calling thread, as context managers that decorate functions too."""

import functools

from smolder import _core

__all__ = [
    "eager",
    "enable_grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "strict",
]


class _Mode:
    """Sets a switch on entry and puts back what it was on exit; nests, and decorates functions."""

    def _get(self):
        raise NotImplementedError

    def _set(self, on):
        raise NotImplementedError

    def __init__(self, on):
        self.on = on
        self.previous = []

    def __enter__(self):
        self.previous.append(self._get())
        self._set(self.on)
        return self

    def __exit__(self, *exception):
        self._set(self.previous.pop())

    def clone(self):
        return type(self)()

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return inside


class _GradMode(_Mode):
    def __new__(cls, function=None):
        """`@no_grad` without parentheses decorates as well."""
        self = super().__new__(cls)
        if callable(function):
            self.__init__()
            return self(function)
        return self

    def _get(self):
        return _core.is_grad_enabled()

    def _set(self, on):
        _core.set_grad_enabled(on)


class no_grad(_GradMode):
    """Within it, nothing is recorded for gradients."""

    def __init__(self, function=None):
        super().__init__(False)


class enable_grad(_GradMode):
    """Within it, gradients are recorded again."""

    def __init__(self, function=None):
        super().__init__(True)


class set_grad_enabled(_Mode):
    """Turns gradients on or off: at once as a function, until exit as a context manager."""

    def __init__(self, mode):
        super().__init__(bool(mode))
        self.previous.append(_core.is_grad_enabled())
        _core.set_grad_enabled(self.on)

    _get = _GradMode._get
    _set = _GradMode._set

    def __enter__(self):
        _core.set_grad_enabled(self.on)
        return self

    def __call__(self, function):
        self._set(self.previous.pop())
        return super().__call__(function)

    def clone(self):
        return set_grad_enabled(self.on)


class inference_mode(_GradMode):
    """As no_grad."""

    def __init__(self, mode=True):
        super().__init__(not mode if isinstance(mode, bool) else False)

    def clone(self):
        return inference_mode(not self.on)


class eager(_Mode):
    """Within it, every op runs at once on its own kernel: the same bits, op by op."""

    def __init__(self):
        super().__init__(True)

    def _get(self):
        return _core.is_eager_enabled()

    def _set(self, on):
        _core.set_eager_enabled(on)


class strict(_Mode):
    """Within it, an op that the compiler has no lowering for raises NotImplementedError when recorded.

    Elsewhere such an op runs its eager kernel inside the step, is counted in `fallbacks`, and is warned of once
    a line. The switch is one for all threads.
    """

    def __init__(self):
        super().__init__(True)

    def _get(self):
        return _core.is_strict()

    def _set(self, on):
        _core.set_strict(on)
