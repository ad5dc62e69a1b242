"""torch.utils._contextlib: context managers that decorate functions, for libraries that derive their own."""

from smolder._modes import _Mode


class _DecoratorContextManager(_Mode):
    """A context manager that decorates: each call of the function is in a context of its own, which clone() makes."""

    def __init__(self):
        pass

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, *exception):
        raise NotImplementedError


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates without being called first."""

    def __new__(cls, orig_func=None):
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
