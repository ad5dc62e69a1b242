"""What a function reads besides its arguments: the objects that it can reach, with their contents.

A walk goes from the function through its closure, its defaults, the globals that its code names, and on through
attributes and items of what it finds there. Code of this package and of Python's library is not walked: what it does
follows from the objects it is given. A walk made before a call visits every function; one made afterwards only those
whose code ran, which is what is guarded; and of objects of the program's classes only the attributes which that code
names, so that a count of steps beside a model is no reason to record anew.
"""

import abc
import collections
import dataclasses
import dis
import enum
import functools
import inspect
import os
import pprint
import re
import sys
import sysconfig
import types
import typing

import numpy

from smolder import _core
from smolder._device import device
from smolder._types import finfo, iinfo

_PACKAGE = __file__.rsplit("compiler", 1)[0]
_LIBRARIES = ("<frozen", sysconfig.get_paths()["stdlib"])
_NUMPY = os.path.dirname(numpy.__file__) + os.sep

CONSTANTS = (
    type(None), bool, int, float, complex, str, bytes, range, slice, type(...), type(NotImplemented), _core.dtype, device,
    finfo, iinfo,
)  # fmt: skip
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType, type(_core.default_generator.get_state))
# What has no state that a recorded step could depend on, or is looked at elsewhere.
_OPAQUE = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, types.CodeType,
    types.GenericAlias, numpy.generic, enum.Enum, type(dict.__dict__), type(sys.flags),
    type(collections.namedtuple("Pair", "first").first),
)  # fmt: skip
_STATELESS = {
    ("_thread", "lock"), ("_thread", "RLock"), ("re", "Pattern"), ("weakref", "ref"), ("weakref", "ReferenceType"),
    ("logging", "Logger"), ("typing", "TypeVar"), ("_random", "Random"), ("random", "Random"), ("builtins", "weakref"),
    ("numpy", "dtype"), ("numpy", "ufunc"), ("types", "UnionType"), ("_abc", "_abc_data"),
    ("datetime", "date"), ("datetime", "datetime"), ("datetime", "timedelta"), ("decimal", "Decimal"),
    ("operator", "itemgetter"), ("nanobind", "nb_func"), ("nanobind", "nb_method"), ("nanobind", "nb_bound_method"),
}  # fmt: skip
MOST_OBJECTS = 100_000


def _is_library_module(module):
    filename = getattr(module, "__file__", None)
    return is_library(filename) if filename else module.__name__ in sys.builtin_module_names


def is_library(filename):
    """Whether code of this file is Python's own or this package's."""
    if filename.startswith((_PACKAGE, _NUMPY)):
        return True
    return filename.startswith(_LIBRARIES) and "site-packages" not in filename


@functools.lru_cache(maxsize=4096)
def _names(code):
    """Globals that code, and what is nested in it, names; attributes that it names; modules that it imports."""
    names, attributes, modules = set(), set(), set()
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(i.argval)
        elif i.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(i.argval)
        elif i.opname == "IMPORT_NAME":
            modules.add(i.argval)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            inner = _names(const)
            names |= inner[0]
            attributes |= inner[1]
            modules |= inner[2]
    return frozenset(names), frozenset(attributes), frozenset(modules)


# What reads attributes by names that its code does not spell.
_DYNAMIC = {
    "getattr", "setattr", "hasattr", "delattr", "vars", "dir", "locals", "globals", "eval", "exec", "__dict__",
    "__getattribute__", "attrgetter", "asdict", "astuple", "fields", "replace", "dumps", "__match_args__", "__slots__",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST_TEXT = 100  # in which names may be; longer ones are for people
_READS_ALL = tuple(m.__file__ for m in (dataclasses, inspect, pprint))  # of an object, whatever its attributes' names
_WITHOUT_ATTRIBUTES = {object, abc.ABC, typing.Generic, typing.Protocol}


@functools.lru_cache(maxsize=4096)
def _spelled(code):
    """All names in code, those in its strings as well; None where it may read attributes of any name."""
    if code.co_filename in _READS_ALL:
        return None
    if not is_library(code.co_filename) and (
        _DYNAMIC & {*code.co_names} or dis.opmap.get("MATCH_CLASS", -1) in code.co_code[::2]
    ):
        return None
    names, constants = set(code.co_names), [*code.co_consts]
    while constants:
        const = constants.pop()
        if isinstance(const, str) and len(const) <= _LONGEST_TEXT:
            names.update(_WORD.findall(const))
        elif isinstance(const, tuple | frozenset):
            constants += const
    return frozenset(names)


@functools.lru_cache(maxsize=4096)
def _read_besides(kind):
    """Names that may be read of an object by what is no Python: none of the program's classes, of this package's those in
    its functions and of its members. None: any, as classes of Python's library compare and print all that they have."""
    names, ours = set(), [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "smolder"]
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__)
        if base not in ours and base not in _WITHOUT_ATTRIBUTES and (module is None or _is_library_module(module)):
            return None
    for base in kind.__mro__ if ours else ():
        names.update(base.__dict__)
    for base in ours:
        for member in base.__dict__.values():
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            for code in _codes(function.__code__) if isinstance(function, types.FunctionType) else ():
                names.update(code.co_names)
    return frozenset(names)


def _codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


class Unguarded(Exception):
    """Something was reached whose state cannot be guarded."""


class World:
    """A walk. `ran` is the code that ran, or None for a walk of everything; `every_name`: of all attributes even so.

    `items` lists (kind, path, object, ...) as _Guards takes them, `tensors` lists (tensor, path), `codes` is the code
    of all functions that were met, `unguarded` says what stands in the way of guarding.
    """

    def __init__(self, ran=None, every_name=False):
        self.ran, self.items, self.tensors, self.codes, self.generators = ran, [], [], set(), []
        self.unguarded = None
        self._seen, self._kept, self._entries, self._found = set(), [], set(), []
        spelled = [None] if ran is None or every_name else [_spelled(code) for code in ran]
        self._named = None if None in spelled else frozenset().union(*spelled)  # None: any attribute may be

    def walk(self, root, path):
        """Visits what `root` reaches."""
        self._found.append((root, path))
        while self._found:
            self._visit(*self._found.pop())

    def knows(self, o):
        """Whether an object was met."""
        return id(o) in self._seen

    def _visit(self, o, path):
        if isinstance(o, CONSTANTS) or id(o) in self._seen:
            return
        self._seen.add(id(o))
        self._kept.append(o)  # so that its id stays its own
        if len(self._seen) > MOST_OBJECTS:
            raise Unguarded(f"the function reaches more than {MOST_OBJECTS} objects")
        kind = type(o)
        if isinstance(o, _core.Tensor):
            self.tensors.append((o, path))
            if getattr(o, "__dict__", None):
                self._dict(o.__dict__, path)
        elif kind is types.FunctionType:
            self._function(o, path)
        elif isinstance(o, type):
            self._class(o, path)
        elif kind is types.MethodType:
            self._later(o.__self__, path)
            self._later(o.__func__, path)
        elif kind in _BOUND:
            self._container(o, kind, path)
            if not isinstance(o.__self__, types.ModuleType):
                self._later(o.__self__, path)
        elif kind is types.ModuleType:
            self._module(o, path, o.__dict__.keys())  # by a name that is no global's: all of it
        elif kind is types.CellType:
            self._cell(o, path)
        elif isinstance(o, functools.partial):
            for part in (o.func, o.args, o.keywords):
                self._later(part, path)
        elif isinstance(o, _core._Compiled):
            self._later(o._function, path)
        elif isinstance(o, _core.Generator):
            self.generators.append(o)
        elif isinstance(o, staticmethod | classmethod):
            self._later(o.__func__, path)
        elif kind is property or kind is functools.cached_property:
            for part in ("fget", "func"):
                self._later(getattr(o, part, None), path)
        else:
            self._container(o, kind, path)

    def _later(self, o, path):
        self._found.append((o, path))

    def _container(self, o, kind, path):
        known = False
        if isinstance(o, dict):
            self._dict(o, path)
            known = True
        elif isinstance(o, list):
            self.items.append(("list", path, o, list(o)))
            known = True
        elif isinstance(o, set):
            self.items.append(("set", path, o, frozenset(o)))
            known = True
        if known or isinstance(o, tuple | frozenset):
            if not isinstance(o, dict):
                for i, part in enumerate(o):
                    self._later(part, f"{path}[{i}]")
            known = True
        if type(getattr(o, "__self__", None)).__module__.startswith("numpy.random"):
            self.unguarded = self.unguarded or f"{path} draws random numbers of NumPy"
        if isinstance(o, _OPAQUE) or (kind.__module__, kind.__name__) in _STATELESS:
            return
        members = getattr(o, "__dict__", None)
        if isinstance(members, dict):
            self._dict(members, path, kind)
            self._later(kind, f"type({path})")
            known = True
        for base in kind.__mro__:
            slots = () if base.__module__.startswith("smolder") else base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                known = True
                if name not in ("__dict__", "__weakref__") and hasattr(o, name):
                    self.items.append(("attribute", f"{path}.{name}", o, name, getattr(o, name)))
                    self._later(getattr(o, name), f"{path}.{name}")
        if not known and kind.__module__.partition(".")[0] != "smolder":
            self.unguarded = self.unguarded or f"{path} is a {kind.__name__}, whose state cannot be guarded"

    def _dict(self, o, path, kind=None):
        """Of an object of that kind the attributes: those that the code which ran names."""
        if id(o) in self._seen and kind:
            return
        self._seen.add(id(o))
        self._kept.append(o)
        names = None
        if kind and self._named is not None and (besides := _read_besides(kind)) is not None:
            names = self._named | besides | {n for n in o if besides and str(n).startswith("_")}
        held = dict(o) if names is None else {n: v for n, v in o.items() if n in names}
        self.items.append(("dict", path, o, held, names))
        for key, value in held.items():
            at = f"{path}.{key}" if kind else f"{path}[{key!r}]" if isinstance(key, str | int) else f"{path}[...]"
            self._later(key, f"{path}.keys()")
            self._later(value, at)

    def _cell(self, o, path):
        try:
            self.items.append(("cell", path, o, o.cell_contents))
            self._later(o.cell_contents, path)
        except ValueError:  # an empty one
            self.items.append(("cell", path, o, None))

    def _class(self, o, path):
        for base in o.__mro__:
            module = sys.modules.get(base.__module__)
            if (module is not None and _is_library_module(module)) or (base is not o and id(base) in self._seen):
                continue
            self._seen.add(id(base))
            self._kept.append(base)
            members = dict(base.__dict__)
            self.items.append(("class", base.__qualname__, base, members))
            for name, member in members.items():
                if name not in ("__doc__", "__module__", "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"):
                    self._later(member, f"{base.__qualname__}.{name}")

    def _function(self, o, path):
        code = o.__code__
        codes = set(_codes(code))
        if self.ran is not None and not codes & self.ran and not is_library(code.co_filename):
            return
        self.codes |= codes
        for name, cell in zip(code.co_freevars, o.__closure__ or ()):
            self._later(cell, name)
        if o.__dict__:
            for name, value in o.__dict__.items():
                self._later(value, f"{path}.{name}")
        if is_library(code.co_filename):
            return
        self.items.append(("function", path, o, (code, o.__defaults__, o.__kwdefaults__)))
        self._later(o.__defaults__, f"{path}.__defaults__")
        self._later(o.__kwdefaults__, f"{path}.__kwdefaults__")
        self._globals(o.__globals__, code)

    def _globals(self, space, code):
        names, attributes, modules = _names(code)
        if "getattr" in names:
            attributes |= {"getattr"}  # then any
        for name in modules & sys.modules.keys():
            self._module(sys.modules[name], name, attributes)
        for name in names:
            if name in space:
                value = space[name]
                self._entry(space, name, name)
                if type(value) is types.ModuleType:
                    self._module(value, name, attributes)
                else:
                    self._later(value, name)
            else:
                self._entry(space, name, name)  # a builtin, as long as no global is in its place

    def _module(self, module, path, attributes):
        """What code names of a module, of the modules in it, and so on."""
        if module is numpy and "random" in attributes:
            self.unguarded = self.unguarded or "numpy.random is used"
        if _is_library_module(module):
            return
        space = module.__dict__
        for name in list(space) if "getattr" in attributes else attributes & space.keys():
            value = space[name]
            if (id(space), name) in self._entries:
                continue
            self._entry(space, name, f"{path}.{name}")
            if type(value) is types.ModuleType:
                self._module(value, f"{path}.{name}", attributes)
            else:
                self._later(value, f"{path}.{name}")

    def _entry(self, space, name, path):
        if (id(space), name) in self._entries:
            return
        self._entries.add((id(space), name))
        self._kept.append(space)
        self.items.append(("entry", path, space, name, space.get(name)))

    def contents(self):
        """What each item held, by what it is of."""
        return {(i[0], id(i[2]), i[3] if i[0] in ("entry", "attribute") else None): i for i in self.items}


def same(a, b):
    """Whether contents are the same: the same objects, or equal constants."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(k in b and same(v, b[k]) for k, v in a.items())
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, frozenset):
        return a == b
    return isinstance(a, CONSTANTS) and a == b


def difference(before, after, free):
    """What a call changed of the world, as text; None where nothing, but for numbers in `free`: {id(dict): keys}."""
    known = before.contents()
    for key, (kind, path, _, *content) in after.contents().items():
        if key not in known:
            return f"{path} is reached only since the call"
        then, now = (known[key][3], content[0]) if kind == "dict" else (known[key][-1], content[-1])
        if kind == "dict" and content[1] is not None:
            then = {n: v for n, v in then.items() if n in content[1]}
        if same(then, now):
            continue
        if isinstance(now, dict) and isinstance(then, dict):
            ours = free.get(key[1], ())
            for name in [*then, *(n for n in now if n not in then)]:
                if name in ours and name in then and name in now:
                    continue
                if name not in then or name not in now or not same(then[name], now[name]):
                    named = f".{name}" if isinstance(name, str) else "[...]"
                    return f"{path}{named} was changed by the call"
            continue
        return f"{path} was changed by the call"
    return None
