"""Modules that are compiled."""

from smolder.nn import Module


class OptimizedModule(Module):
    """A module whose calls are compiled. What else it is asked for is the original's, which is `_orig_mod`."""

    def __init__(self, module, call):
        super().__init__()
        self._orig_mod = module
        self.__dict__["_compiled_call"] = call
        self.__dict__["forward"] = call
        self.training = module.training

    def __call__(self, *args, **kwargs):
        return self._compiled_call(*args, **kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return super().__getattr__(name)
        return getattr(self.__dict__["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name == "training" and "_orig_mod" in self.__dict__:
            self.__dict__["_orig_mod"].training = value
        super().__setattr__(name, value)

    def train(self, mode=True):
        super().train(mode)
        return self
