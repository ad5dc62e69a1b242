"""Parameters, buffers and submodules of a module by their paths, taken out and put in as they are.

Values are not copied, and no parameter is made of a tensor: what a function is differentiated with respect to can stand in
a layer's place for a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.nn.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]
__dir__ = _listing(__name__)

_MISSING: Any = object()  # in place of a tensor that is not there


def _check_module(module: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")


def _check_tensor(tensor: Any) -> None:
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, _core.Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")


def _check_name(what: str, name: str) -> None:
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{what} name can\'t be empty string ""')


def _members(module: Module, name: str) -> dict[str, Any] | None:
    """Those of a module that a name is among: its parameters or buffers, or None where it is another attribute."""
    return next((members for members in (module._parameters, module._buffers) if name in members), None)


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Puts a tensor in the place of a parameter, a buffer or another attribute."""
    _check_module(module)
    _check_tensor(None if tensor is _MISSING else tensor)
    _check_name("tensor", name)
    members = _members(module, name)
    if members is None:
        setattr(module, name, tensor)
    else:
        members[name] = tensor


def swap_tensor(module: Module, name: str, tensor: Tensor, allow_missing: bool = False) -> Tensor:
    """Puts a tensor in the place of a parameter, a buffer or another attribute, and returns what was there."""
    _check_module(module)
    _check_tensor(tensor)
    _check_name("tensor", name)
    members = _members(module, name)
    if members is not None:
        before = members[name]
        if tensor is _MISSING:
            del members[name]
        else:
            members[name] = tensor
        return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, _core.Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Puts a module in the place of another, which is returned."""
    _check_module(module)
    _check_module(submodule)
    _check_name("submodule", name)
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Members of a module by paths as "layer1.conv1.weight"; submodules are looked up once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        """The submodule at a path; the module itself at an empty one."""
        if not name:
            return self.module
        if name in self.memo:
            return self.memo[name]
        prefix, _, attr = name.rpartition(".")
        module = self.get_submodule(prefix)
        try:
            submodule = getattr(module, attr)
        except AttributeError as ex:
            raise AttributeError(f"{module._get_name()} has no attribute `{attr}`") from ex
        if not isinstance(submodule, Module):
            raise TypeError(f"submodule `{name}`: {submodule} is not an instance of torch.nn.Module")
        self.memo[name] = submodule
        return submodule

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Puts a module in the place of the one at a path, which is returned."""
        prefix, _, attr = path.rpartition(".")
        return swap_submodule(self.get_submodule(prefix), attr, value)

    def get_tensor(self, name: str) -> Tensor:
        """The tensor at a path, or None where None is there."""
        prefix, _, attr = name.rpartition(".")
        submodule = self.get_submodule(prefix)
        try:
            tensor = getattr(submodule, attr)
        except AttributeError as ex:
            raise AttributeError(f"{submodule._get_name()} has no attribute `{name}`") from ex
        _check_tensor(tensor)
        return tensor

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Puts a tensor at a path."""
        prefix, _, attr = name.rpartition(".")
        set_tensor(self.get_submodule(prefix), attr, value)

    def del_tensor(self, name: str) -> None:
        """Deletes the attribute at a path."""
        prefix, _, attr = name.rpartition(".")
        submodule = self.get_submodule(prefix)
        try:
            delattr(submodule, attr)
        except AttributeError as ex:
            raise AttributeError(f"{submodule._get_name()} has no attribute `{name}`") from ex

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Tensor:
        """Puts a tensor at a path, and returns what was there."""
        prefix, _, attr = name.rpartition(".")
        return swap_tensor(self.get_submodule(prefix), attr, value, allow_missing=allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """The tensors at paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Puts tensors at paths."""
        for name, value in _pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """Puts tensors at the paths that are their keys."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Deletes the attributes at paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Tensor], allow_missing: bool = False) -> list[Tensor]:
        """Puts tensors at paths, and returns what was there."""
        return [self.swap_tensor(name, value, allow_missing=allow_missing) for name, value in _pairs(names, values)]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Tensor], list[str]]:
        """Puts tensors at the paths that are their keys; returns what was there, and the paths where nothing was.

        Where this raises, all is as it was.
        """
        before: dict[str, Tensor] = {}
        missing = []
        try:
            for name, tensor in named_tensors.items():
                was = self.swap_tensor(name, tensor, allow_missing=True)
                if was is _MISSING:
                    missing.append(name)
                before[name] = was
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, was in before.items():
                self.swap_tensor(name, was, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """The paths of the module's tensors that are not among these, and those of these that lead to none."""
        asked, known = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - asked), sorted(asked - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The module's parameters, with their paths."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The module's buffers, with their paths."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The module's parameters and buffers, with their paths."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The module and those in it, with their paths."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _pairs(names: Iterable[str], values: Iterable[Tensor]) -> Iterator[tuple[str, Tensor]]:
    names, values = list(names), list(values)
    if len(names) != len(values):
        raise AssertionError(
            f"names and values must have the same length, got {len(names)} names and {len(values)} values"
        )
    yield from zip(names, values, strict=True)
