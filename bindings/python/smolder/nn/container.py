"""Modules that hold modules or parameters in order."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.nn.module import Module, _indent
from smolder.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential", "as_parameter", "named_pairs", "value_line"]
__dir__ = _listing(__name__)


def _position(index, count):
    i = operator.index(index)
    if not -count <= i < count:
        raise IndexError(f"index {i} is out of range")
    return i % count


class _Ordered(Module):
    """Children under the names 0, 1, 2, ..."""

    _insertable = Module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._of(list(self._modules.items())[index])
        return list(self._modules.values())[_position(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        key = list(self._modules)[_position(index, len(self))]
        setattr(self, key, module)

    def __delitem__(self, index: int | slice) -> None:
        kept = list(self._modules.values())
        if isinstance(index, slice):
            del kept[index]
        else:
            del kept[_position(index, len(self))]
        self._modules = {str(i): module for i, module in enumerate(kept)}

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before position `index`."""
        if not isinstance(module, self._insertable):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        later = [self._modules[str(i)] for i in range(index % n if index < 0 else index, n)]
        for i, moved in enumerate([module, *later], n - len(later)):
            self._modules[str(i)] = moved
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def pop(self, index: int) -> Module:
        """Takes a module out and returns it."""
        out = self[index]
        del self[index]
        return out


def _check_iterable(called, of, values):
    if not isinstance(values, Iterable) or isinstance(values, _core.Tensor):
        raise TypeError(f"{called} should be called with an iterable{of}, but got {type(values).__name__}")


def named_pairs(kind: str, values: Any) -> Iterator[Any]:
    """The pairs of name and value that an update of a container of this kind is given, one by one, checked."""
    for i, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{kind} update sequence element #{i} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{kind} update sequence element #{i} has length {len(pair)}; 2 is required")
        yield pair


def _sequence(other):
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
    return other


class Sequential(_Ordered):
    """Modules applied one after another; given as arguments or in an OrderedDict."""

    def __init__(self, *args: Module | OrderedDict[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _of(self, items):
        return type(self)(OrderedDict(items))

    def __add__(self, other: Tensor) -> Sequential:
        return Sequential(*self, *_sequence(other))

    def __iadd__(self, other: Tensor) -> Self:
        return self.extend(list(_sequence(other)))

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*self._repeated(times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(self._repeated(times)[len(self) :])

    def _repeated(self, times):
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return list(self) * times

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Ordered):
    """A list of modules whose parameters count as this one's."""

    _insertable = Module | None

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _of(self, items):
        return type(self)([module for _, module in items])

    def insert(self, index: int, module: Module) -> None:
        """Adds a module before position `index`."""
        super().insert(index, module)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        _check_iterable("ModuleList.extend", "", modules)
        return super().extend(modules)

    def __add__(self, other: Tensor) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Equal neighbours are shown once, with how many there are."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        groups = []
        for i, text in enumerate(texts):
            if groups and groups[-1][2] == text:
                groups[-1][1] = i
            else:
                groups.append([i, i, text])
        lines = []
        for first, last, text in groups:
            shown = f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            lines.append(_indent(shown, 2))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name, in order."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()

    def pop(self, key: str) -> Module:
        """Takes a module out and returns it."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Takes every module out."""
        self._modules.clear()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules from a mapping or from pairs."""
        _check_iterable("ModuleDict.update", " of key/value pairs", modules)
        mapping = isinstance(modules, Mapping | ModuleDict)
        for name, module in modules.items() if mapping else named_pairs("ModuleDict", modules):
            self[name] = module


class ParameterList(Module):
    """A list of parameters; tensors put into it become parameters, other values stay what they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(len(self))[index])
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), as_parameter(value))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("ParameterList should not be called.")

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        setattr(self, str(self._size), as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        _check_iterable("ParameterList.extend", "", values)
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(value_line(i, p, repr(getattr(p, "dtype", None))) for i, p in enumerate(self))


def as_parameter(value: Any) -> Any:
    """The value, a tensor as a parameter."""
    return Parameter(value) if isinstance(value, _core.Tensor) and not isinstance(value, Parameter) else value


def value_line(name: str, value: Any, kind: str) -> str:
    """A value of a container of parameters as it is printed; `kind` says what sort of tensor it is."""
    if not isinstance(value, _core.Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.shape)
    device = f" ({value.device})" if value.device.type == "cuda" else ""
    whole = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {whole} containing: [{kind} of size {size}{device}]"
