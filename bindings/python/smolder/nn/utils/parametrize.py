"""Parametrizations: a parameter that is computed, by modules, of others, each time it is read."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.nn.container import ModuleDict, ModuleList
from smolder.nn.parameter import Parameter

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip
__dir__ = _listing(__name__)

_caching, _cache = 0, {}


@contextmanager
def cached() -> Iterator[None]:
    """Within it, what is computed is kept until the end, and not computed again."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _register(module, name, tensor):
    (module.register_parameter if isinstance(tensor, Parameter) else module.register_buffer)(name, tensor)


class ParametrizationList(ModuleList):
    """The modules that compute a tensor, each of what the one before gave, and what the first begins with.

    That is `original`, or original0, original1 and so on where the last's right_inverse returns several tensors.
    """

    is_tensor: bool
    ntensors: int

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, _core.Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, _core.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep(original, new)
        else:
            self._keep_parts(original, new)
        if not unsafe:
            self._check_result(self(), shape, dtype)

    def _keep(self, original, new):
        for name, before, after in (("dtype", original.dtype, new.dtype), ("device", original.device, new.device)):
            if before != after:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {name}.\noriginal.{name}: {before}\n"
                    f"right_inverse(original).{name}: {after}"
                )
        with no_grad():
            original.set_(new)
        _register(self, "original", original)

    def _keep_parts(self, original, parts):
        for i, part in enumerate(parts):
            if not isinstance(part, _core.Tensor):
                raise ValueError(
                    f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {i} of "
                    f"the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)

    @staticmethod
    def _check_result(result, shape, dtype):
        if not isinstance(result, _core.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        for name, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {name} of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized {name}: {before}\nparametrized {name}: {after}"
                )

    def right_inverse(self, value: Tensor) -> None:
        """Sets what the tensor is computed of, so that it becomes value."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                self._set(value)
            else:
                self._set_parts(value)

    def _set(self, value):
        if not isinstance(value, _core.Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                f"{self.original.dtype}"
            )
        self.original.set_(value)

    def _set_parts(self, values):
        if not isinstance(values, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(values).__name__}.")
        if len(values) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
                f"{len(values)}."
            )
        for i, value in enumerate(values):
            original = getattr(self, f"original{i}")
            if not isinstance(value, _core.Tensor):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got element {i} of type {type(value).__name__}."
                )
            if original.dtype != value.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {value.dtype} while `original{i}` has dtype "
                    f"{original.dtype}"
                )
            original.set_(value)

    def forward(self) -> Tensor:
        """The tensor, computed."""
        first, *others = self
        x = first(self.original) if self.is_tensor else first(*self._parts())
        for module in others:
            x = module(x)
        return x

    def _parts(self):
        return (getattr(self, f"original{i}") for i in range(self.ntensors))


def _own_class(module):
    """Gives a module a class of its own, whose properties are its parametrized tensors."""
    base = type(module)

    def copied(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        memo[id(self)] = made = self.__new__(type(self))
        made.__setstate__(deepcopy(self.__dict__, memo))
        for slot in copyreg._slotnames(type(self)):
            if hasattr(self, slot):
                setattr(made, slot, deepcopy(getattr(self, slot), memo))
        return made

    def state(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    members = {"__getstate__": state}
    if not hasattr(base, "__deepcopy__"):
        members["__deepcopy__"] = copied
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)


def _property(name):
    def computed(self):
        parametrization = self.parametrizations[name]
        if not _caching:
            return parametrization()
        key = id(self), name
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def set_original(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(computed, set_original)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer of a module what a module, parametrization, computes of it.

    Where that has right_inverse, the tensor stays what it is, and can be assigned to. unsafe lets it change shape and
    dtype, and leaves out the checks.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        if hasattr(module, tensor_name):
            raise AssertionError(f"Module already has an attribute named '{tensor_name}'")
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _check_another(module, name, parametrization):
    """Raises unless a further module keeps shape and dtype, there and back."""

    def check(before, after, what, shown):
        if not isinstance(after, _core.Tensor):
            raise ValueError(what[0].format(type(after).__name__))
        for attribute in ("dtype", "shape"):
            a, b = getattr(before, attribute), getattr(after, attribute)
            if a != b:
                raise ValueError(
                    what[1].format(attribute) + ", unless the `unsafe` flag is enabled.\n"
                    f"module.{name}.{attribute}: {a}\n{shown.format(attribute)}: {b}"
                )

    before = getattr(module, name)
    after = parametrization(before)
    texts = (
        "A parametrization must return a tensor. Got {}.",
        "Registering a parametrization may not change the {} of the tensor",
    )
    check(before, after, texts, f"parametrization(module.{name}).{{}}")
    if hasattr(parametrization, "right_inverse"):
        with suppress(NotImplementedError):
            texts = (
                "parametrization.right_inverse must return a tensor. Got: {}",
                f"The tensor returned by parametrization.right_inverse must have the same {{}} as module.{name}",
            )
            check(before, parametrization.right_inverse(after), texts, "returned {}")


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module, or any, is computed."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a tensor a parameter or buffer again: with the computed value, or else with the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            with no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module before a tensor of it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives a module the parametrizations of another, of one tensor or of all, with what they compute of."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for module in source:
            register_parametrization(to_module, name, module)
        target = to_module.parametrizations[name]
        for part in ("original",) if source.is_tensor else (f"original{i}" for i in range(source.ntensors)):
            setattr(target, part, getattr(source, part))
    return to_module
