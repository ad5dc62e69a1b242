"""A reader of pickles that runs no code: it knows containers, numbers and text, and calls what its caller allows.

pickle.Unpickler is no base for it: its memo grows to whatever index a file names, and it sets attributes of any object.
"""

import _compat_pickle
import codecs
import pickle
import struct
from collections import Counter, OrderedDict

UnpicklingError = pickle.UnpicklingError


def _encode(text, encoding):
    if encoding != "latin1":  # how protocol 2 spells bytes; codecs at large do far more
        raise UnpicklingError(f"_codecs.encode with encoding {encoding!r} is not allowed")
    return codecs.encode(text, encoding)


def _bytearray(data=b"", encoding="latin1"):
    if not isinstance(data, bytes | bytearray | str):  # a number would be a size
        raise UnpicklingError(f"bytearray of {type(data).__name__} is not allowed")
    return bytearray(data, encoding) if isinstance(data, str) else bytearray(data)


# Names that any pickle may use. What is called instead of them is safe whatever it is given.
_CALLABLES = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "builtins.bytearray": _bytearray,
    "_codecs.encode": _encode,
}


_MOST_IN_KEY = 10_000


def _key(value):
    """A key of a dict, or an element of a set: no tuple that Python cannot hash. It hashes what is in one as often as that
    is in it, by recursion that it does not count: it would never end, or end the process."""
    todo, seen = [value], 0
    while todo:
        value_in = todo.pop()
        if isinstance(value_in, tuple):
            seen += len(value_in)
            if seen > _MOST_IN_KEY:
                raise UnpicklingError(f"a key is a tuple of more than {_MOST_IN_KEY} values")
            todo.extend(value_in)
    return value


def _check_elements(function, arguments):
    """Checks the elements that a container is made of and will hash."""
    for argument in arguments:
        if not isinstance(argument, list | tuple):
            continue
        for item in argument:
            if function is not OrderedDict:
                _key(item)
            elif isinstance(item, list | tuple) and item:
                _key(item[0])


class _Mark:
    pass


_MARK = _Mark()
_DAMAGES = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error)


class Unpickler:
    """Reads one pickle from bytes.

    `names` maps global names to what stands for them; `persistent_load` makes objects of persistent ids; `classes` are
    types of the user's, which may be made and given a state.
    """

    def __init__(self, data, names, persistent_load, classes=()):
        self.data, self.at = data, 0
        self.names = {**_CALLABLES, **names}
        named = (c if isinstance(c, tuple) else (c, f"{c.__module__}.{c.__qualname__}") for c in classes)
        self.classes = {name: c for c, name in named}
        self.persistent_load = persistent_load
        self.stack, self.memo = [], {}

    def load(self):
        """The object. Raises UnpicklingError for what is refused, damaged or no pickle."""
        try:
            while True:
                opcode = self._read(1)
                if opcode == b".":
                    return self.stack.pop()
                step = _STEPS.get(opcode)
                if step is None:
                    raise UnpicklingError(f"Unsupported operand {opcode[0]}")
                step(self)
        except _DAMAGES as e:
            raise UnpicklingError(f"the pickle is damaged: {type(e).__name__}: {e}") from e

    # -- bytes

    def _read(self, n):
        out = self.data[self.at : self.at + n]
        if len(out) < n:
            raise UnpicklingError("the pickle is truncated")
        self.at += n
        return out

    def _unpack(self, form):
        return struct.unpack(form, self._read(struct.calcsize(form)))[0]

    def _line(self):
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise UnpicklingError("the pickle is truncated")
        out = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return out

    # -- the stack

    def _push(self, value):
        self.stack.append(value)

    def _pop_to_mark(self):
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                items = self.stack[at + 1 :]
                del self.stack[at:]
                return items
        raise UnpicklingError("the pickle is damaged: no mark on the stack")

    def _pop(self, n):
        if len(self.stack) < n:
            raise IndexError("the stack is too short")
        items = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        if any(item is _MARK for item in items):
            raise ValueError("a mark in place of a value")
        return items

    def _top(self, *types):
        top = self.stack[-1]
        if type(top) not in types:
            raise UnpicklingError(f"Can only add items to {types[0].__name__}, but got {type(top).__name__}")
        return top

    def _get(self, index):
        self._push(self.memo[index])

    def _put(self, index):
        self.memo[index] = self.stack[-1]

    # -- objects

    def _global(self, module, name):
        full = f"{module}.{name}"
        if (module, name) in _compat_pickle.NAME_MAPPING:
            full = ".".join(_compat_pickle.NAME_MAPPING[module, name])
        elif module in _compat_pickle.IMPORT_MAPPING:
            full = f"{_compat_pickle.IMPORT_MAPPING[module]}.{name}"
        if full in self.names:
            return self._push(self.names[full])
        if full in self.classes:
            return self._push(self.classes[full])
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
            f"`smolder.serialization.add_safe_globals([{name}])` or the "
            f"`smolder.serialization.safe_globals([{name}])` context manager to allowlist this global if you trust "
            "this class/function."
        )

    def _stack_global(self):
        module, name = self._pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise UnpicklingError("the pickle is damaged: STACK_GLOBAL needs two strings")
        self._global(module, name)

    def _is_allowed(self, function):
        return any(function is known for table in (self.names, self.classes) for known in table.values())

    def _reduce(self):
        function, arguments = self._pop(2)
        if type(arguments) is not tuple or not self._is_allowed(function):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {function!r:.200}")
        if function in (set, frozenset, Counter, OrderedDict):
            _check_elements(function, arguments)
        self._push(function(*arguments))

    def _new_object(self):
        cls, arguments = self._pop(2)
        if not isinstance(cls, type) or cls not in (OrderedDict, Counter, *self.classes.values()):
            raise UnpicklingError(f"Can not create new object for unallowed class {cls!r:.200}")
        self._push(cls.__new__(cls, *arguments))

    def _build(self):
        (state,) = self._pop(1)
        instance = self.stack[-1]
        if type(instance) not in (OrderedDict, *self.classes.values()):
            raise UnpicklingError(f"Can not set the state of an object of type {type(instance)}")
        if type(instance) is not OrderedDict and hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
        else:
            instance.__dict__.update(state)

    def _persistent(self):
        (pid,) = self._pop(1)
        self._push(self.persistent_load(pid))

    # -- containers

    def _append(self, items):
        self._top(list).extend(items)

    def _set_items(self, items):
        top = self._top(dict, OrderedDict, Counter)
        if len(items) % 2:
            raise ValueError("an odd number of keys and values")
        for key, value in zip(items[::2], items[1::2], strict=True):
            dict.__setitem__(top, _key(key), value) if type(top) is dict else top.__setitem__(_key(key), value)

    def _add_items(self, items):
        self._top(set).update(map(_key, items))


def _steps():
    def text(form):
        return lambda u: u._push(str(u._read(u._unpack(form)), "utf-8", "surrogatepass"))

    def data(form):
        return lambda u: u._push(bytes(u._read(u._unpack(form))))

    def number(form):
        return lambda u: u._push(u._unpack(form))

    def constant(make):
        return lambda u: u._push(make())

    return {
        pickle.PROTO: lambda u: u._read(1),
        pickle.FRAME: lambda u: u._read(8),
        pickle.GLOBAL: lambda u: u._global(u._line(), u._line()),
        pickle.STACK_GLOBAL: Unpickler._stack_global,
        pickle.REDUCE: Unpickler._reduce,
        pickle.NEWOBJ: Unpickler._new_object,
        pickle.BUILD: Unpickler._build,
        pickle.BINPERSID: Unpickler._persistent,
        pickle.NONE: constant(lambda: None),
        pickle.NEWTRUE: constant(lambda: True),
        pickle.NEWFALSE: constant(lambda: False),
        pickle.EMPTY_TUPLE: constant(tuple),
        pickle.EMPTY_LIST: constant(list),
        pickle.EMPTY_DICT: constant(dict),
        pickle.EMPTY_SET: constant(set),
        pickle.MARK: constant(lambda: _MARK),
        pickle.BININT: number("<i"),
        pickle.BININT1: number("<B"),
        pickle.BININT2: number("<H"),
        pickle.BINFLOAT: number(">d"),
        pickle.LONG1: lambda u: u._push(pickle.decode_long(u._read(u._unpack("<B")))),
        pickle.BINUNICODE: text("<I"),
        pickle.SHORT_BINUNICODE: text("<B"),
        pickle.SHORT_BINSTRING: text("<B"),
        pickle.BINBYTES: data("<I"),
        pickle.SHORT_BINBYTES: data("<B"),
        pickle.BYTEARRAY8: lambda u: u._push(bytearray(u._read(u._unpack("<Q")))),
        pickle.TUPLE1: lambda u: u._push(tuple(u._pop(1))),
        pickle.TUPLE2: lambda u: u._push(tuple(u._pop(2))),
        pickle.TUPLE3: lambda u: u._push(tuple(u._pop(3))),
        pickle.TUPLE: lambda u: u._push(tuple(u._pop_to_mark())),
        pickle.FROZENSET: lambda u: u._push(frozenset(map(_key, u._pop_to_mark()))),
        pickle.APPEND: lambda u: u._append(u._pop(1)),
        pickle.APPENDS: lambda u: u._append(u._pop_to_mark()),
        pickle.SETITEM: lambda u: u._set_items(u._pop(2)),
        pickle.SETITEMS: lambda u: u._set_items(u._pop_to_mark()),
        pickle.ADDITEMS: lambda u: u._add_items(u._pop_to_mark()),
        pickle.BINGET: lambda u: u._get(u._unpack("<B")),
        pickle.LONG_BINGET: lambda u: u._get(u._unpack("<I")),
        pickle.BINPUT: lambda u: u._put(u._unpack("<B")),
        pickle.LONG_BINPUT: lambda u: u._put(u._unpack("<I")),
        pickle.MEMOIZE: lambda u: u._put(len(u.memo)),
    }


_STEPS = _steps()
