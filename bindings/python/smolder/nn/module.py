"""The base class of layers and models."""

from __future__ import annotations

import builtins
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Self

from smolder import _core
from smolder._names import listing as _listing
from smolder._other_forms import as_dtype
from smolder._typing import Device, DType, Tensor
from smolder.nn import hooks
from smolder.nn.constructors import named_after
from smolder.nn.members import Members
from smolder.nn.parameter import Buffer, Parameter, zero_gradients
from smolder.nn.state import State

__all__ = ["Module"]
__dir__ = _listing(__name__)

_GROUPS = ("_parameters", "_buffers", "_modules")
_compile: Any = None  # smolder.compile: smolder.compiler, which builds on this package, puts it here


def _indent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


class Module(hooks.Hooks, State, _core._ModuleCall):
    """A tree of modules that own parameters and buffers. Subclasses define forward(), which a call runs between hooks."""

    def __init__(self) -> None:
        put = super().__setattr__
        put("training", True)
        for group in _GROUPS:
            put(group, Members(self))
        put("_non_persistent_buffers_set", set())
        for kind in hooks.OWN:
            put(kind, OrderedDict())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        named_after(cls)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    _compiled_call_impl = None

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles calls of this module, as smolder.compile does; the module stays what it is."""
        self.__dict__["_compiled_call_impl"] = _compile(self._call_impl, *args, **kwargs)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update({kind: OrderedDict() for kind in hooks.OWN})
        self.__dict__.update(state)
        for group in _GROUPS:
            self.__dict__[group] = Members(self, state.get(group, ()))

    # -- attributes: parameters, buffers and modules live in dictionaries of their own as well (see Members)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._make_room(name, "_parameters", "parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            _only_none(value, f"parameter '{name}' (smolder.nn.Parameter or None expected)")
            own["_parameters"][name] = None
        elif isinstance(value, Module):
            self._make_room(name, "_modules", "module")
            own["_modules"][name] = hooks.registered("module", self, name, value)
        elif name in own.get("_modules", ()):
            _only_none(value, f"child module '{name}' (smolder.nn.Module or None expected)")
            own["_modules"][name] = hooks.registered("module", self, name, None)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            if not isinstance(value, _core.Tensor):
                _only_none(value, f"buffer '{name}' (smolder.nn.Buffer, smolder.Tensor or None expected)")
            lasting = getattr(value, "persistent", None) if isinstance(value, Buffer) else None
            if lasting is None:
                lasting = name not in own["_non_persistent_buffers_set"]
            # A subclass may have a register_buffer of its own, without the third argument.
            self.register_buffer(name, value, *(() if lasting else (False,)))
        elif name in _GROUPS:
            members = dict(value)
            own.get(name, {}).clear()
            own[name] = Members(self, members)
        else:
            super().__setattr__(name, value)

    def _make_room(self, name, kept, what):
        """Forgets what has the name unless it is in the group `kept`: there it is replaced, and keeps its place."""
        own = self.__dict__
        if kept not in own:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        for group in _GROUPS:
            if group != kept:
                own[group].pop(name, None)
        if name not in own[kept]:
            own.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __getattr__(self, name: str) -> Any:
        # Python asks here for names it found nowhere else; subclasses call it from a __getattr__ of their own, and
        # libraries of names that are there.
        for group in _GROUPS:
            if name in self.__dict__.get(group, ()):
                return self.__dict__[group][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for group in _GROUPS:
            if name in self.__dict__[group]:
                del self.__dict__[group][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted(name for name in set(super().__dir__()) if not name[:1].isdigit())

    def _check_name(self, name, group, kind):
        members = self.__dict__.get(group)
        if members is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in members:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter, or None: a place for one."""
        self._check_name(name, "_parameters", "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (smolder.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = None if param is None else hooks.registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is saved and moved with the module but not trained."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, _core.Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (smolder Tensor or None required)"
            )
        self._buffers[name] = hooks.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name(name, "_modules", "module")
        self._modules[name] = hooks.registered("module", self, name, module)

    register_module = add_module

    def _walk(self, target, kind):
        """The module that a dotted path names, and what is wrong when there is none."""
        module = self
        for part in target.split(".") if target else []:
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not {kind}")
        return module

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted path."""
        return self._walk(target, "an nn.Module")

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path, in the place of the one there; with strict there has to be one."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {builtins.type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._parameters:
            raise AttributeError(f"{type(module).__name__} has no parameter `{name}`")
        return module._parameters[name]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # -- walks

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Path and module of this one and all below it, each once, but for those in memo, which the others join."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Name and module of the direct children, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(self, group, prefix, recurse, remove_duplicate):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in getattr(module, group).items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Path and parameter, each parameter once."""
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Path and buffer, each buffer once."""
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Calls fn(module) on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- modes and conversions

    def train(self, mode: bool = True) -> Self:
        """Training mode on or off, here and below."""
        if not isinstance(mode, builtins.bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """As train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says for every parameter whether gradients are wanted."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or zeroes them in place."""
        zero_gradients(self.parameters(), set_to_none)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Gives parameters the data fn(data), and replaces buffers. Derived classes add what else is to be moved."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        for group in (self._parameters, self._buffers):
            for name, member in group.items():
                if member is not None:
                    group[name] = _converted(member, fn)
        return self

    def _convert(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """The same, of which shared buffers stay shared."""
        done: dict[int, tuple[Tensor, Tensor]] = {}

        def once(member: Tensor) -> Tensor:
            if id(member) not in done:
                done[id(member)] = member, change(member)
            return done[id(member)][1]

        return self._apply(once) if recurse else self._apply(once, recurse)  # overrides may take the function alone

    def to(
        self,
        *args: DType | Device | Tensor,
        dtype: DType | None = None,
        device: Device = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Self:
        """Moves parameters and buffers, converts those of floats: to(device), to(dtype), to(device, dtype), to(tensor).

        Parameters stay the objects they are, so that an optimizer made before goes on training them.
        """
        from smolder._device import usable_device

        for arg in map(as_dtype, args):
            if isinstance(arg, _core.dtype):
                dtype = arg
            elif isinstance(arg, _core.Tensor):
                dtype, device = arg.dtype, arg.device
            elif arg is not None:
                device = arg
        if device is not None:
            device = usable_device(device)
        dtype = as_dtype(dtype)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")
        if dtype is None and device is None and memory_format is None:
            return self

        def changed(t: Tensor) -> Tensor:
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use smolder.nn.Module.to_empty() instead of "
                    "smolder.nn.Module.to() when moving module from meta to a different device."
                )
            dtype_of = dtype if t.dtype.is_floating_point or t.dtype.is_complex else None
            return t.to(device, dtype_of, memory_format=memory_format if t.dim() in (4, 5) else None)

        return self._convert(changed)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Gives parameters and buffers memory on a device that holds anything; with recurse those of children too."""
        from smolder._creation import empty_like

        return self._convert(lambda t: empty_like(t, device=device), recurse)

    def share_memory(self) -> Self:
        """Moves parameters and buffers to memory that other processes see."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def float(self) -> Self:
        """Converts to float32."""
        return self.to(_core.float32)

    def double(self) -> Self:
        """Converts to float64."""
        return self.to(_core.float64)

    def half(self) -> Self:
        """Converts to float16."""
        return self.to(_core.float16)

    def bfloat16(self) -> Self:
        """Converts to bfloat16."""
        return self.to(_core.bfloat16)

    def type(self, dst_type: DType | str) -> Self:
        """Converts all parameters and buffers to a dtype, those of integers too; or to a type of tensors' by its name."""
        return self._convert(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Device = None) -> Self:
        """Moves parameters and buffers to a device of CUDA, the current one unless said."""
        return self.to("cuda" if device is None else device)

    # -- printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text in the parentheses after the name."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(module), 2)}" for name, module in self._modules.items()]
        head = self._get_name() + "("
        if len(extra_lines) == 1 and not children:
            return head + extra_lines[0] + ")"
        lines = extra_lines + children
        return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _only_none(value, expected):
    if value is not None:
        raise TypeError(f"cannot assign '{_typename(value)}' as {expected}")


def _typename(x):
    kind = type(x)
    if callable(x) and hasattr(x, "__qualname__"):  # a function, by its own name
        return f"{x.__module__}.{x.__qualname__}"
    if isinstance(x, _core.Tensor):
        return "smolder." + kind.__name__
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _grad_off():
    from smolder._modes import no_grad

    return no_grad()


def _converted(member, change):
    with _grad_off():
        new = change(member)
        if new is member or not isinstance(member, Parameter):
            return new
        member.data = new
        if member.grad is not None:
            member.grad.data = change(member.grad)
    return member
