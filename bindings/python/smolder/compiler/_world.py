"""The world of a function, which it reads besides its arguments: the objects that it can reach, with their contents.

A walk goes from the function through its closure, its defaults, the globals that its code names, and on through
attributes and items of what it finds there. A walk made before a call visits every function; one made afterwards only
those whose code ran, which is what is guarded; and of objects of the program's classes only the attributes which that
code names, so that a count of steps beside a model is no reason to record anew. What it meets has to be of kinds that
_allowed.py lists; it runs no code of the program.
"""

import abc
import builtins
import collections
import dis
import functools
import importlib.util
import re
import sys
import types
import typing
import weakref

from smolder import _core
from smolder.compiler import _allowed
from smolder.compiler._allowed import CONSTANTS, is_library, is_library_module, is_made_by_class
from smolder.nn.members import Members

MOST_OBJECTS = 100_000
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType, type(_core.default_generator.get_state))
_BUILTINS = vars(builtins)
_BEGIN = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"}
_GO_ON = {"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST_TEXT = 100  # in which names may be; longer ones are for people
_WITHOUT_ATTRIBUTES = {object, abc.ABC, typing.Generic, typing.Protocol}
_MODULE = type.__dict__["__module__"].__get__
_FACTORY = collections.defaultdict.default_factory
_NOT_READ = {
    "__doc__",
    "__module__",
    "__dict__",
    "__weakref__",
    "__annotations__",
    "__abstractmethods__",
    "__qualname__",
}
_NOT_READ |= {"__dataclass_fields__", "__dataclass_params__", "__orig_bases__", "__parameters__", "__type_params__"}


def codes_of(code):
    """Code, and what is nested in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes_of(const)


@functools.lru_cache(maxsize=4096)
def _named_by(code):
    """Globals that code, and what is nested in it, names, each with the attributes that follow; all attributes; imports."""
    paths, attributes, imports = {}, set(), set()
    for part in codes_of(code):
        path, constants = None, []
        for i in dis.get_instructions(part):
            if i.opname in _BEGIN:
                path = [i.argval]
            elif i.opname in _GO_ON:
                attributes.add(i.argval)
                if path is not None:
                    path.append(i.argval)
            elif i.opname == "IMPORT_NAME":
                imports.add((i.argval, *constants[-2:]))
            elif i.opname != "EXTENDED_ARG":
                path = None
            if i.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):  # Python 3.14 has the second
                constants.append(i.argval)
            if path is not None:
                paths.setdefault(path[0], set()).add(tuple(path[1:]))
    longest = {
        name: [p for p in found if not any(q[: len(p)] == p != q for q in found)] for name, found in paths.items()
    }
    return longest, frozenset(attributes), frozenset(imports)


@functools.lru_cache(maxsize=4096)
def _spelled(code):
    """All names in code, those in its strings as well; None where it may read attributes of any name."""
    if code.co_filename in _allowed.READS_ALL:
        return None
    if not is_library(code.co_filename) and (
        _allowed.DYNAMIC_NAMES & {*code.co_names} or dis.opmap.get("MATCH_CLASS", -1) in code.co_code[::2]
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


def _module_of(kind):
    name = _MODULE(kind)
    return sys.modules.get(name) if type(name) is str else None


def _is_of_library(kind):
    module = _module_of(kind)
    return _allowed.is_class_of_ours(kind) or (module is not None and is_library_module(module))


@functools.lru_cache(maxsize=4096)
def _read_besides(kind):
    """Names that may be read of an object by what is no Python: none of the program's classes, of this package's those in
    its functions and of its members. None: any, as classes of Python's library compare and print all that they have."""
    names, ours = set(), [base for base in kind.__mro__ if _allowed.is_class_of_ours(base)]
    for base in kind.__mro__:
        if base not in ours and base not in _WITHOUT_ATTRIBUTES and _is_of_library(base):
            return None
    for base in kind.__mro__ if ours else ():
        names.update(base.__dict__)
    for base in ours:
        for member in base.__dict__.values():
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            for code in codes_of(function.__code__) if isinstance(function, types.FunctionType) else ():
                names.update(code.co_names)
    return frozenset(names)


def attributes_of(o):
    """The dict of an object's attributes, whatever its class defines; None where it has none."""
    for base in type(o).__mro__:
        own = base.__dict__.get("__dict__")
        if type(own) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return own.__get__(o)
    return None


def _slot(member, o):
    """The contents of a slot, in a tuple; an empty one for nothing."""
    try:
        return (member.__get__(o),)
    except AttributeError:
        return ()


class Unguarded(Exception):
    """Something was reached whose state cannot be guarded."""


class World:
    """A walk. `ran` is the code that ran, or None for a walk of everything; `every_name`: of all attributes even so;
    `without`: a class whose objects are not entered.

    `items` lists (kind, path, object, ...) as _Guards takes them, `tensors` lists (tensor, path), `codes` is the code
    of all functions that were met, `unguarded` says what stands in the way of guarding.
    """

    def __init__(self, ran=None, every_name=False, without=()):
        self.ran, self.items, self.tensors, self.codes, self.generators = ran, [], [], set(), []
        self.unguarded, self.dynamic, self._without = None, False, without
        self._seen, self._kept, self._entries, self._found = set(), [], set(), []
        spelled = [None] if ran is None or every_name else [_spelled(code) for code in ran]
        self.named = None if None in spelled else frozenset().union(*spelled)  # None: any attribute may be

    def walk(self, root, path):
        """Visits what `root` reaches."""
        self._found.append((root, path))
        while self._found:
            self._visit(*self._found.pop())

    def knows(self, o):
        """Whether an object was met."""
        return id(o) in self._seen

    def modules(self):
        """Items that say which parameters, buffers and children modules have."""
        return [item for item in self.items if type(item[2]) is Members]

    def _refuse(self, why):
        self.unguarded = self.unguarded or why

    def _see(self, o):
        if id(o) in self._seen:
            return False
        self._seen.add(id(o))
        self._kept.append(o)  # so that its id stays its own
        if len(self._seen) > MOST_OBJECTS:
            raise Unguarded(f"the function reaches more than {MOST_OBJECTS} objects")
        return True

    def _visit(self, o, path):
        kind = type(o)
        if kind in CONSTANTS or not self._see(o) or issubclass(kind, self._without):
            return
        if issubclass(kind, _core.Tensor):
            self.tensors.append((o, path))
            if members := attributes_of(o):
                self._dict(members, path)
            if _core.Tensor in kind.__bases__ or is_made_by_class(kind):
                self._later(kind, f"type({path})")
        elif kind is types.FunctionType:
            self._function(o, path)
        elif issubclass(kind, type):
            self._class(o, path)
        elif kind is types.MethodType:
            self._later(o.__self__, path)
            self._later(o.__func__, path)
        elif kind in _BOUND:
            self._bound(o, path)
        elif kind is types.ModuleType:
            self._module(o, path)
        elif kind is types.CellType:
            self._cell(o, path)
        elif kind is functools.partial:
            self._slots(o, kind, path)
            self._dict(attributes_of(o), path)
        elif kind is _core._Compiled:
            self._later(o._function, path)
        elif kind is _core.Generator:
            self.generators.append(o)
        elif kind is staticmethod or kind is classmethod:
            self._later(o.__func__, path)
        elif kind is property:
            for part in (o.fget, o.fset, o.fdel):
                self._later(part, path)
        elif kind is functools.cached_property:
            self._later(o.func, path)
        elif kind.__name__ in ("nb_func", "nb_method"):
            if not _allowed.is_function_of_ours(o):
                self._refuse(f"{path} is {o.__name__}(), which tells, or changes, what is not guarded")
        elif not _allowed.is_constant(kind):
            self._object(o, kind, path)

    def _later(self, o, path):
        self._found.append((o, path))

    def _bound(self, o, path):
        if _allowed.is_dynamic(o):
            self.dynamic = True
        if not isinstance(o.__self__, types.ModuleType | type):
            self._later(o.__self__, path)
        elif type(o) is types.BuiltinMethodType and not _allowed.is_function(o):
            self._refuse(f"{path} is {o.__qualname__}(), a function in C that is on no list")

    def _object(self, o, kind, path):
        made = is_made_by_class(kind)
        refused = _allowed.refused_base(kind) if made else None if self._is_known(o, kind) else kind
        if refused is not None:
            return self._refuse(f"{path} is a {refused.__module__}.{refused.__name__}, whose state cannot be guarded")
        if issubclass(kind, dict):
            self._dict(o, path, seen=True)
            if issubclass(kind, collections.OrderedDict) and len(o) > 1:
                self.items.append(("order", path, o, tuple(collections.OrderedDict.__iter__(o))))
            if issubclass(kind, collections.defaultdict):
                self._slot(_FACTORY, o, path)
        elif issubclass(kind, list | tuple | set | frozenset):
            base = next(b for b in (list, tuple, set, frozenset) if issubclass(kind, b))
            parts = list(base.__iter__(o))
            if base is list or base is set:
                self.items.append((base.__name__, path, o, parts if base is list else frozenset(parts)))
            for i, part in enumerate(parts):
                self._later(part, f"{path}[{i}]")
        own = attributes_of(o)
        if made:
            self.items.append(("object", path, o, (kind, own)))
            self._later(kind, f"type({path})")
            self._slots(o, kind, path)
        if own is not None and (made or own):
            self._dict(own, path, kind)

    def _is_known(self, o, kind):
        """Whether objects of a class in C, which is no class of the program's, are guarded by what is visited of them."""
        return issubclass(kind, tuple) or kind in _allowed.BASES

    def _slots(self, o, kind, path):
        """Visits the state that is kept beside the attributes' dict."""
        for base in kind.__mro__:
            ours = _allowed.is_class_of_ours(base)
            if base is not functools.partial and not is_made_by_class(base):
                continue
            for member in base.__dict__.values():
                if type(member) is types.MemberDescriptorType:
                    self._slot(member, o, f"{path}.{member.__name__}", ours)

    def _slot(self, member, o, path, ours=False):
        content = _slot(member, o)
        if ours and content and type(content[0]) is weakref.ref:
            return
        self.items.append(("attribute", path, o, member, content))
        for value in content:
            self._later(value, path)

    def _dict(self, o, path, kind=None, seen=False):
        """Visits the attributes of an object of that kind: those that the code which ran names."""
        if o is sys.modules or o is _BUILTINS:
            return self._refuse(f"{path} is the dict of {'builtins' if o is _BUILTINS else 'all modules'}")
        if not seen and not self._see(o):
            return None
        names, ours = None, kind is not None and any(map(_allowed.is_class_of_ours, kind.__mro__))
        if kind and self.named is not None and (besides := _read_besides(kind)) is not None:
            names = self.named | besides | {n for n in o if besides and str(n).startswith("_")}
        held = {n: v for n, v in dict.items(o) if names is None or n in names}
        self.items.append(("dict", path, o, held, names))
        for key, value in held.items():
            at = f"{path}.{key}" if kind else f"{path}[{key!r}]" if type(key) in (str, int) else f"{path}[...]"
            self._later(key, f"{path}.keys()")
            if not (ours and type(value) is weakref.ref):
                self._later(value, at)

    def _cell(self, o, path, ours=False):
        try:
            content = o.cell_contents
        except ValueError:  # an empty one
            content = None
        self.items.append(("cell", path, o, content))
        if not (ours and type(content) is weakref.ref):
            self._later(content, path)

    def _class(self, o, path):
        if not is_made_by_class(o):
            if not _allowed.is_class_in_c(o):
                self._refuse(f"{path} is {o.__module__}.{o.__qualname__}, a class in C that is on no list")
            self.dynamic = self.dynamic or _allowed.is_dynamic(o)
            return
        if issubclass(type(o), abc.ABCMeta) and self._see(abc.get_cache_token):
            self.items.append(("token", "abc.ABC.register", abc.get_cache_token, abc.get_cache_token()))
        for base in o.__mro__:
            if not is_made_by_class(base) or _is_of_library(base) or (base is not o and not self._see(base)):
                continue
            if type(base) is not type:
                self._later(type(base), f"type({base.__qualname__})")
            self.items.append(("class", base.__qualname__, base, (type(base), base.__mro__, dict(base.__dict__))))
            for name, member in base.__dict__.items():
                at = f"{base.__qualname__}.{name}"
                if (type(member) is types.FunctionType and (member.__dict__ or self._runs(member.__code__))) or (
                    name not in _NOT_READ and (self.named is None or name in self.named or name.startswith("__"))
                ):
                    self._later(member, at)

    def _runs(self, code):
        return self.ran is None or not self.ran.isdisjoint(codes_of(code))

    def _function(self, o, path):
        code = o.__code__
        if self.ran is None or self._runs(code) or is_library(code.co_filename):
            self.codes.update(codes_of(code))
            for name, cell in zip(code.co_freevars, o.__closure__ or ()):
                if self._see(cell):
                    self._cell(cell, name, _allowed.is_ours(code.co_filename))
        members = o.__dict__ or None
        if is_library(code.co_filename):
            self.dynamic = self.dynamic or _allowed.is_dynamic(o)
            if _allowed.is_numpys(code.co_filename):
                self._refuse(f"{path} is a function of NumPy that is on no list")
            for name, value in (members or {}).items():
                self._later(value, f"{path}.{name}")
            return
        self.items.append(("function", path, o, (code, o.__defaults__, o.__kwdefaults__, members)))
        for name in ("__defaults__", "__kwdefaults__", "__dict__"):
            self._later(getattr(o, name) or None, f"{path}.{name}")
        if self._runs(code):
            self._globals(o.__globals__, code)

    def _globals(self, space, code):
        paths, attributes, imports = _named_by(code)
        for name in attributes:
            if _allowed.special(name):
                self._refuse(f"{code.co_qualname} reads {name}, which is not guarded")
        for name, found in paths.items():
            self._entry(space, name, name)
            if name not in space:
                self._entry(_BUILTINS, name, name)
            value = space[name] if name in space else _BUILTINS.get(name)
            if type(value) is types.ModuleType:
                for path in found:
                    self._along(value, path, name)
            else:
                self._later(value, name)
        for name, level, wanted in imports:
            self._import(space, name, level, wanted)

    def _along(self, value, path, at):
        """Walks what code names of a module by `path`, of a module in it, and so on."""
        for name in path:
            at = f"{at}.{name}"
            self._entry(value.__dict__, name, at)
            if name not in value.__dict__:
                name = "__getattr__"
            value = value.__dict__.get(name)
            if type(value) is not types.ModuleType:
                break
        self._later(value, at)

    def _import(self, space, name, level, wanted):
        if level:
            package = space.get("__package__") or str(space.get("__name__")).rpartition(".")[0]
            try:
                name = importlib.util.resolve_name("." * level + name, package)
            except ImportError:
                return
        parts = name.split(".")
        for i in range(len(parts)):
            self._entry(sys.modules, ".".join(parts[: i + 1]), f"sys.modules[{'.'.join(parts[: i + 1])!r}]")
        module = sys.modules.get(name if wanted else parts[0])
        for part in wanted or ():
            if type(module) is types.ModuleType:
                self._along(module, (part,), name)
        if not wanted or type(module) is not types.ModuleType:
            self._later(module, name)

    def _module(self, module, path):
        """A module that code has as a value: what has a name that any code spells."""
        space, library = module.__dict__, is_library_module(module)
        if module.__name__.partition(".")[0] in _allowed.OURS:
            for name in space.keys() & (self.named or ()):  # its values are not the program's
                self._entry(space, name, f"{path}.{name}")
                if getattr(space[name], "__self__", None) is None and not _allowed.is_function_of_ours(space[name]):
                    self._later(space[name], f"{path}.{name}")
        elif self.named is None and library and self.ran is not None:
            self._refuse(f"{path} is a module, of which attributes of any name may be read")
        elif self.named is None and not library:
            self._dict(space, path)
        else:
            for name in self.named or ():
                if name in space or not library:
                    self._along(module, (name,), path)

    def _entry(self, space, name, path):
        if (id(space), name) in self._entries:
            return
        self._entries.add((id(space), name))
        self._kept.append(space)
        self.items.append(("entry", path, space, name, space.get(name)))

    def contents(self):
        """The value of each item, by its owner."""
        return {(i[0], id(i[2]), i[3] if i[0] in ("entry", "attribute") else None): i for i in self.items}


def same(a, b):
    """Whether contents are the same: the same objects, or equal constants."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is dict:
        return len(a) == len(b) and all(map(same, a.items(), b.items()))
    if kind is tuple or kind is list:
        return len(a) == len(b) and all(map(same, a, b))
    if kind is float:
        return a.hex() == b.hex()
    if kind is frozenset:
        return a == b
    return kind in CONSTANTS and a == b


def difference(before, after, free):
    """The changes that a call made to the world, as text, or None; numbers in `free`, {id(dict): keys}, may change."""
    known = before.contents()
    for key, (kind, path, _, *content) in after.contents().items():
        if key not in known:
            space = known.get(("dict", key[1], None))
            if kind == "entry" and (space is None or same(space[3].get(content[0]), content[1])):
                continue  # of a module that code has as a value
            return f"{path} is reached only since the call"
        then, now = (known[key][3], content[0]) if kind == "dict" else (known[key][-1], content[-1])
        if kind == "dict" and content[1] is not None:
            then = {n: v for n, v in then.items() if n in content[1]}
        if same(then, now):
            continue
        if kind != "dict":
            return f"{path} was changed by the call"
        ours = free.get(key[1], ())
        if len(then) != len(now) or any(map(lambda a, b: not same(a, b), then, now)):
            return f"{path}: its keys were changed by the call"
        for name in then:
            if name not in ours and not same(then[name], now[name]):
                named = f".{name}" if isinstance(name, str) else "[...]"
                return f"{path}{named} was changed by the call"
    return None
