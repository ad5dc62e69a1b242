"""Classes derived from Tensor: how tensors become theirs, and __torch_function__."""

from smolder import _core

Tensor = _core.Tensor


def as_subclass(self, cls):
    """The same value as a tensor of a class derived from Tensor; shares storage and history."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): argument 'cls' must be a subclass of Tensor, got {cls!r}")
    out = Tensor.__new__(cls)  # a class's own __new__ may take what is not here, and may be what calls this
    Tensor.__init__(out, self)
    return out


def _make_subclass(cls, data, require_grad=False, **options):
    """A leaf of a class derived from Tensor, which shares the storage of data."""
    if options:
        raise NotImplementedError(f"Tensor._make_subclass: {', '.join(options)} is not supported")
    return as_subclass(data.detach(), cls).requires_grad_(require_grad)


def _default(cls, func, types, args=(), kwargs=None):
    from smolder import overrides

    return overrides._default(cls, func, types, args, kwargs)


def _disabled(cls, func, types, args=(), kwargs=None):
    """Calls the function on tensors as they are."""
    from smolder import overrides

    with overrides.DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _init_subclass(cls, **options):
    super(Tensor, cls).__init_subclass__(**options)
    if cls.__module__.partition(".")[0] != "smolder":
        from smolder import overrides

        overrides._of_new_class(cls)


Tensor.as_subclass = as_subclass
Tensor._make_subclass = staticmethod(_make_subclass)
Tensor.__torch_function__ = classmethod(_default)
Tensor.__init_subclass__ = classmethod(_init_subclass)
