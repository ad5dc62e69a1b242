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


_fill = Tensor.__init__


_OWN = {Tensor}  # and what derives from it here


def _new(cls, *args, **kwargs):
    """A tensor of the class. What a class's own __new__ asks for is made here, as in torch, and else by __init__."""
    out = Tensor._blank(cls)
    if (args or kwargs) and getattr(cls, "_has_own_new", False):
        next(vars(base)["__init__"] for base in cls.__mro__ if base in _OWN and "__init__" in vars(base))(
            out, *args, **kwargs
        )
    return out


def _init(self, *args, **kwargs):
    if not self._is_made():  # by a class's own __new__
        _fill(self, *args, **kwargs)


def _made(self, *args, **kwargs):
    """Does nothing: the class's own __new__ made the tensor."""


def _heed_own_new(cls):
    """Where a class has a __new__ of its own and no __init__, the latter is not asked what the arguments mean."""
    own = [vars(base) for base in cls.__mro__ if base not in _OWN and issubclass(base, Tensor)]
    cls._has_own_new = any("__new__" in names for names in own)
    if cls._has_own_new and not any("__init__" in names for names in own):
        cls.__init__ = _made


def _init_subclass(cls, **options):
    super(Tensor, cls).__init_subclass__(**options)
    if cls.__module__.partition(".")[0] == "smolder":
        _OWN.add(cls)
    else:
        _heed_own_new(cls)
        from smolder import overrides

        overrides._of_new_class(cls)


Tensor.__new__ = staticmethod(_new)
Tensor.__init__ = _init
Tensor.as_subclass = as_subclass
Tensor._make_subclass = staticmethod(_make_subclass)
Tensor.__torch_function__ = classmethod(_default)
Tensor.__init_subclass__ = classmethod(_init_subclass)
