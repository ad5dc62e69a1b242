"""The names of classes and dtypes while `torch` is Smolder: libraries compare them."""

import sys
import types

from smolder import _core, _layouts, _tensor, _types, _unheld
from smolder.compiler import _allowed
from smolder.torch import _names


class TorchVersion(str):
    """A version as text, which compares with others, and with tuples, by its numbers."""

    @staticmethod
    def _numbers(version):
        parts = version if isinstance(version, tuple | list) else str(version).partition("+")[0].split(".")
        out = []
        for part in parts:
            digits = str(part)[: len(str(part)) - len(str(part).lstrip("0123456789"))]
            out.append(int(digits or 0))
        while out and out[-1] == 0:
            out.pop()
        return out

    def __eq__(self, other):
        return str.__eq__(self, other) or self._numbers(self) == self._numbers(other)

    def __ne__(self, other):
        return not self == other

    def __lt__(self, other):
        return self._numbers(self) < self._numbers(other)

    def __le__(self, other):
        return self._numbers(self) <= self._numbers(other)

    def __gt__(self, other):
        return self._numbers(self) > self._numbers(other)

    def __ge__(self, other):
        return self._numbers(self) >= self._numbers(other)

    __hash__ = str.__hash__


def take_names():
    """dtypes, sizes and types of tensors print as torch's from here on."""
    _allowed.OURS.add("torch")
    _core.dtype.__repr__ = _unheld.UnheldDtype.__repr__ = lambda self: f"torch.{_types.name_of(self)}"
    _tensor._TYPE_NAMES.update({d: n.replace("smolder.", "torch.", 1) for d, n in _tensor._TYPE_NAMES.items()})
    _layouts._Named.__repr__ = lambda self: f"torch.{self.name}"
    _tensor.Size.__repr__ = lambda self: f"torch.Size({list(self)})"


def name_classes(path):
    """Gives the classes of a module of Smolder's the modules of torch that say they define them."""
    for of, name in _defined().get(path, ()):
        module = sys.modules.get(f"smolder.{path}" if path else "smolder")
        kind = module.__dict__.get(name) if module is not None else None
        if isinstance(kind, type) and kind.__module__.partition(".")[0] == "smolder":
            kind.__module__ = f"torch.{of}" if of else "torch"
    if path == "nn.modules.linear":
        from smolder.nn.transformer import NonDynamicallyQuantizableLinear

        NonDynamicallyQuantizableLinear.__module__ = "torch.nn.modules.linear"
    if path in _PICKLED:
        for name, function in vars(sys.modules[f"smolder.{path}"]).items():
            is_own = isinstance(function, types.FunctionType) and function.__module__.startswith("smolder.nn.")
            if is_own and function.__qualname__ == name:
                function.__module__ = f"torch.{path}"


_PICKLED = ("nn.functional", "nn.init")  # whose functions modules have as attributes


def _defined():
    """By the path of a module, (module that defines it, class) for the classes that are best known there."""
    if not _cache:
        for of in _names.modules():
            here = _names.row(of)
            for name in here.defines:
                at, _, short = here.homes[name].rpartition(".")
                _cache.setdefault(at, []).append((of, short))
                if at != of:
                    _cache.setdefault(of, []).append((of, name))
    return _cache


_cache = {}
