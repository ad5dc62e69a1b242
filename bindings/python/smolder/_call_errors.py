"""Error messages for arguments that do not fit a C++ function: in torch's form, from the function's signatures."""

import ast
import collections.abc
import difflib
import functools
import inspect
import operator
import re
import types

from smolder import _core, _unheld

_CORE = "smolder._core."
_WORDS = {
    "int | float | bool": "Number",
    "Tensor | int | float | bool": "Tensor or Number",
    "int | Sequence[int]": "int or tuple of ints",
    "collections.abc.Callable": "callable",
}
_ABSTRACT = {
    "bool": lambda v: _is_bool(v),
    "int": lambda v: hasattr(v, "__index__") and not isinstance(v, _core.Tensor) and not _is_bool(v),
    "float": lambda v: (hasattr(v, "__float__") or hasattr(v, "__index__")) and not isinstance(v, _core.Tensor),
    "object": lambda v: True,
    "None": lambda v: v is None,
    "ndarray": lambda v: hasattr(v, "__array__") or hasattr(v, "__dlpack__") or hasattr(v, "__buffer__"),
    "Callable": callable,
    "Tensor": lambda v: isinstance(v, _core.Tensor),
} | {t.__name__: (lambda v, t=t: isinstance(v, t)) for t in (str, list, dict, tuple, type, set, bytes)}


def _is_bool(value):
    kind = type(value)
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def _is_int(tensor):
    dtype = tensor.dtype
    return tensor.dim() == 0 and not (dtype.is_floating_point or dtype.is_complex or dtype == _core.bool)


class _Argument:
    """One that a signature has: its name, its types as text, how it may be given."""

    def __init__(self, node, default, positional, keyword):
        self.name = node.arg
        self.types = [] if node.annotation is None else _alternatives(ast.unparse(node.annotation))
        self.required = not default
        self.positional = positional
        self.keyword = keyword

    def takes(self, value):
        return not self.types or any(_fits(t, value) for t in self.types)

    def words(self):
        types = [t for t in self.types if t != "None"]
        together = " | ".join(types)
        return _WORDS.get(together) or " or ".join(_word(t) for t in types)


class _Signature:
    """One overload of a function."""

    def __init__(self, text, is_method):
        text = re.sub(r"\\\d+", "...", text.strip().splitlines()[-1])
        text = re.sub(r"ndarray\[[^\]]*\]", "ndarray", text)
        of = ast.parse(text + ": ...").body[0].args
        places = of.posonlyargs + of.args
        first_default = len(places) - len(of.defaults)
        self.arguments = [
            _Argument(a, i >= first_default, True, i >= len(of.posonlyargs)) for i, a in enumerate(places)
        ]
        self.arguments += [
            _Argument(a, d is not None, False, True) for a, d in zip(of.kwonlyargs, of.kw_defaults, strict=True)
        ]
        if is_method:
            self.arguments = self.arguments[1:]  # self is what the method was looked up on
        self.more = of.vararg is not None
        self.more_named = of.kwarg is not None
        self.named = {a.name: a for a in self.arguments if a.keyword}

    def fault(self, args, kwargs):
        """(how near the call is to this signature, what is wrong with it); nothing where all of it fits."""
        places = [a for a in self.arguments if a.positional]
        unknown = [] if self.more_named else [k for k in kwargs if k not in self.named]
        if unknown:
            return (0, -len(unknown)), ("unknown", unknown[0])
        if len(args) > len(places) and not self.more:
            return (1, 0), ("many", len(places))
        given = list(zip(places, args, strict=False))
        twice = [a.name for a, _ in given if a.name in kwargs]
        if twice:
            return (1, 1), ("twice", twice[0])
        missing = [a.name for a in self.arguments[len(given) :] if a.required and a.name not in kwargs]
        values = [(i, a, v) for i, (a, v) in enumerate(given)]
        values += [(None, self.named[k], v) for k, v in kwargs.items() if k in self.named]
        wrong = [value for value in values if not value[1].takes(value[2])]
        if wrong:
            return (2 if missing else 3, -len(wrong)), ("wrong", *wrong[0])
        return ((2, 1), ("missing", missing)) if missing else None


def error(function, args, kwargs):
    """The exception of such a call: a TypeError, but of a number beyond 64 bits what torch raises."""
    kind, number = _beyond(function, args, kwargs)
    text = message(function, args, kwargs)
    return kind(text) if number is not None and str(number) in text else TypeError(text)


def _beyond(function, args, kwargs):
    """The class of the error for a number too large for its argument, and the number; else TypeError and None."""
    is_method = type(function).__name__ == "nb_method"
    for s in function.__nb_signature__:
        of = _Signature(s[0], is_method)
        places = [a for a in of.arguments if a.positional]
        given = list(zip(places, args[is_method:], strict=False))
        given += [(of.named[k], v) for k, v in kwargs.items() if k in of.named]
        for argument, value in given:
            if not isinstance(value, int) or -(2**63) <= value < 2**63:
                continue
            if "float" in argument.types:
                return OverflowError, value
            if "int" in argument.types:
                return ValueError, value
    return TypeError, None


def message(function, args, kwargs):
    """Why `function`, bound from C++, takes neither these arguments nor, where it is a method, such a first one."""
    is_method = type(function).__name__ == "nb_method"
    name = function.__name__
    for value in (*args, *kwargs.values()):
        if isinstance(value, _unheld.UnheldDtype):
            return f"{name}(): {_unheld.why(value)}"
    if is_method and args:
        owner = getattr(_core, function.__qualname__.partition(".")[0], None)
        if isinstance(owner, type) and not isinstance(args[0], owner):
            return (
                f"descriptor '{name}' for '{owner.__name__}' objects doesn't apply to a '{_kind(args[0])}' object: "
                f"call it on a {owner.__name__}"
            )
        args = args[1:]
    name = name.removesuffix("_of")  # of what a function of Python calls
    if name == "__init__":
        name = function.__qualname__.split(".")[0]
    signatures = [_Signature(s[0], is_method) for s in function.__nb_signature__]
    faults = [f for s in signatures if (f := s.fault(args, kwargs))]
    if len(faults) < len(signatures):  # a value that its type does not tell
        return _no_fit(name, signatures, args, kwargs)
    kind, *what = max(faults, key=lambda f: f[0])[1]
    return _TEXTS[kind](name, signatures, args, *what)


def size_message(function, name, given):
    """Why what a function was given for a size, spread out or as one sequence, is none."""
    items, place = (given[0], "") if len(given) == 1 else (given, None)
    start = f"{function}(): argument '{name}' (position 1) must be tuple of ints, "
    if place is None or isinstance(items, list | tuple):
        for i, item in enumerate(items):
            if isinstance(item, bool) or not hasattr(item, "__index__") or isinstance(item, _core.Tensor):
                return f"{start}but found element of type {_kind(item)} at pos {i}"
            if not -(2**63) <= operator.index(item) < 2**63:
                return f"{function}(): Overflow when unpacking long: the number {item} doesn't fit 64 bits"
    return f"{start}not {_kind(items)}"


def as_int(function, name, value):
    """An argument of a function that is written in Python, which must be an integer of 64 bits, and no bool.

    A tensor without dimensions may be one, as in torch.
    """
    if _is_bool(value) or not hasattr(value, "__index__") or (isinstance(value, _core.Tensor) and not _is_int(value)):
        raise TypeError(f"{function}(): argument '{name}' must be int, not {_kind(value)}")
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{function}(): Overflow when unpacking long: the number {number} doesn't fit 64 bits")
    return number


def name_what_is_no_tensor(members):
    """Has the functions of a module, which are written in Python, name an argument that is no tensor, as C++'s do."""
    for name in members["__all__"]:
        if isinstance(members[name], types.FunctionType):
            members[name] = _naming(members[name])


def _naming(function):
    written = inspect.unwrap(function)
    names = written.__code__.co_varnames[: written.__code__.co_argcount]
    places = [(i, n) for i, n in enumerate(names) if written.__annotations__.get(n) == "Tensor"]
    if not places:
        return function

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except AttributeError:
            for i, name in places:
                value = args[i] if i < len(args) else kwargs.get(name, _NO_VALUE)
                if value is _NO_VALUE or isinstance(value, _core.Tensor) or hasattr(value, "__torch_function__"):
                    continue
                text = f"{function.__name__}(): argument '{name}' (position {i + 1}) must be Tensor, not {_kind(value)}"
                raise TypeError(text) from None
            raise

    return call


_NO_VALUE = object()


def check_dtype(function, dtype):
    """Raises TypeError in torch's form unless `dtype` is a dtype, or None."""
    if dtype is not None and not isinstance(dtype, _core.dtype):
        raise TypeError(f"{function}(): argument 'dtype' must be smolder.dtype, not {_kind(dtype)}")


def _unknown(name, signatures, args, word):
    known = dict.fromkeys(n for s in signatures for n in s.named)
    near = difflib.get_close_matches(word, known, 1)
    hint = f". Did you mean '{near[0]}'?" if near else f". It takes {', '.join(known)}" if known else ""
    return f"{name}() got an unexpected keyword argument '{word}'{hint}"


def _many(name, signatures, args, most):
    most = max(sum(a.positional for a in s.arguments) for s in signatures)
    return f"{name}() takes {most} positional argument{'s' * (most != 1)} but {len(args)} were given"


def _twice(name, signatures, args, word):
    return f"{name}() got multiple values for argument '{word}'"


def _missing(name, signatures, args, words):
    listed = ", ".join(f'"{w}"' for w in words)
    return f"{name}() missing {len(words)} required positional argument{'s' * (len(words) != 1)}: {listed}"


def _wrong(name, signatures, args, at, argument, value):
    place = "" if at is None else f" (position {at + 1})"
    called = f"argument '{argument.name}'{place}" if argument.keyword else f"argument {at + 1}"
    text = f"{name}(): {called} must be {argument.words()}, "
    if isinstance(value, list | tuple):
        for t in argument.types:
            for i, item in enumerate(value) if _element(t) else ():
                if not any(_fits(e, item) for e in _alternatives(_element(t))):
                    return f"{text}but found element of type {_kind(item)} at pos {i}"
    return f"{text}not {_kind(value)}"


_TEXTS = {"unknown": _unknown, "many": _many, "twice": _twice, "missing": _missing, "wrong": _wrong}


def _no_fit(name, signatures, args, kwargs):
    values = [*args, *kwargs.values()]
    for value in (v for g in values for v in (g if isinstance(g, list | tuple) else [g])):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"{name}(): Overflow when unpacking long: the number {value} doesn't fit 64 bits"
    given = ", ".join([_kind(a) for a in args] + [f"{k}={_kind(v)}" for k, v in kwargs.items()])
    forms = "".join(f"\n * ({', '.join(f'{a.words()} {a.name}'.strip() for a in s.arguments)})" for s in signatures)
    return f"{name}() received an invalid combination of arguments - got ({given}), but expected one of:{forms}"


def _alternatives(types):
    """The types between the bars of `int | Sequence[int | None] | None`."""
    out, depth = [""], 0
    for c in types:
        depth += (c == "[") - (c == "]")
        if c == "|" and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return list(dict.fromkeys(t.strip() for t in out))


def _element(type_text):
    """The type of the elements of a sequence; nothing for other types."""
    found = re.fullmatch(r"(?:collections\.abc\.)?Sequence\[(.*)\]", type_text)
    return found[1] if found else None


def _fits(type_text, value):
    element = _element(type_text)
    if element is not None:
        if isinstance(value, str | bytes | _core.Tensor) or not isinstance(value, collections.abc.Sequence):
            return False
        if element == "Tensor" and not isinstance(value, list | tuple):
            return False
        return all(any(_fits(t, v) for t in _alternatives(element)) for v in value)
    if type_text.startswith(_CORE):
        return isinstance(value, getattr(_core, type_text[len(_CORE) :], object))
    check = _ABSTRACT.get(type_text.partition("[")[0].rpartition(".")[2])
    return check is None or check(value)


def _word(type_text):
    element = _element(type_text)
    if element is not None:
        of = " or ".join(_word(t) for t in _alternatives(element) if t != "None")
        return f"tuple of {of}s" if element != "object" else "tuple"
    short = type_text[len(_CORE) :] if type_text.startswith(_CORE) else type_text
    return {"dtype": "smolder.dtype"}.get(short, _WORDS.get(short, short))


def _kind(value):
    """The name of a value's type, as users write it."""
    kind = type(value)
    if issubclass(kind, _core.dtype):
        return "smolder.dtype"
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
