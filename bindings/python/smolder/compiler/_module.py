"""Modules that are compiled."""

from smolder.nn import Module

_OWN = {"_orig_mod", "_compiled_call", "_options"}


class OptimizedModule(Module):
    """A module whose calls are compiled. All else, hooks and attributes among it, is the original's: `_orig_mod`."""

    def __init__(self, module, options):
        super().__init__()
        super().__setattr__("_orig_mod", module)
        self._compile(options)

    def _compile(self, options):
        from smolder.compiler import _compiled

        call = _compiled(self._orig_mod.__call__, *options)
        self.__dict__.update(_options=options, _compiled_call=call, forward=call)
        for name in vars(Module()):  # what hooks and modes are kept in; members have names of their own in state_dict()
            if name not in ("_parameters", "_buffers", "_modules"):
                self.__dict__.pop(name, None)

    def __call__(self, *args, **kwargs):
        return self._compiled_call(*args, **kwargs)

    def __getattr__(self, name):
        if name in _OWN or "_orig_mod" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name in _OWN or "_orig_mod" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __len__(self):
        return len(self._orig_mod)

    def __iter__(self):
        return iter(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __contains__(self, item):
        return item in self._orig_mod

    def __bool__(self):
        return True

    def __dir__(self):
        return [*super().__dir__(), *dir(self._orig_mod)]

    def __reduce_ex__(self, protocol):
        return OptimizedModule, (self._orig_mod, self._options)
