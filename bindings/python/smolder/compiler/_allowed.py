"""Names that default `smolder.compile` can prove it has seen: the functions in C, the types and modules of libraries whose
every answer follows from their arguments and from state that guards compare. What is on none of these lists makes a
call an ordinary one.
"""

import abc
import builtins
import collections
import copy
import dataclasses
import enum
import functools
import inspect
import operator
import os
import pprint
import re
import sysconfig
import types
import typing

import numpy

from smolder import _core
from smolder._device import device
from smolder._types import finfo, iinfo
from smolder._unheld import UnheldDtype

_PACKAGE = __file__.rsplit("compiler", 1)[0]
# The first names of modules of this package's classes; smolder.torch adds torch's.
OURS = {"smolder"}
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_NUMPY = os.path.dirname(numpy.__file__) + os.sep

# Compared by their values.
CONSTANTS = (
    type(None), bool, int, float, complex, str, bytes, range, slice, type(...), type(NotImplemented), _core.dtype, device,
    finfo, iinfo, UnheldDtype,
)  # fmt: skip
_CONSTANTS = frozenset(CONSTANTS)

# Immutable, so that which object it is says all. (Of `functools.partial` and the like, parts are visited.)
_IMMUTABLE = {
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.CodeType, types.GenericAlias, types.UnionType, typing.TypeVar, re.Pattern,
    numpy.dtype, operator.itemgetter, type(collections.namedtuple("Pair", "first").first), object, inspect.Signature,
}  # fmt: skip
_IMMUTABLE_OURS = {"nb_func", "nb_method", "layout", "memory_format"}  # of this package and what it is bound with
# Bases that classes of programs may have: their state is seen by the walk, or there is none.
BASES = {object, type, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, collections.OrderedDict}
BASES |= {collections.defaultdict, types.SimpleNamespace, types.DynamicClassAttribute, typing.Generic}
BASES |= {_core.Tensor, _core._ModuleCall}

_FUNCTIONS = {
    "abs", "all", "any", "ascii", "bin", "callable", "chr", "delattr", "dir", "divmod", "format", "getattr", "hasattr",
    "hex", "isinstance", "issubclass", "iter", "len", "max", "min", "next", "oct", "ord", "pow", "repr", "round",
    "setattr", "sorted", "sum", "vars", "__build_class__",
}  # fmt: skip
_MODULES_IN_C = {
    "math", "cmath", "_operator", "itertools", "_functools", "_collections", "_bisect", "_heapq", "_struct", "_abc",
    "_typing", "_string",
}  # fmt: skip
_CLASSES_IN_C = {
    *BASES, *CONSTANTS, bytearray, enumerate, filter, map, reversed, zip, super, property, staticmethod, classmethod,
    types.FunctionType, types.MethodType, types.GeneratorType, types.ModuleType, functools.partial, functools.lru_cache,
    operator.itemgetter, operator.attrgetter, operator.methodcaller, numpy.ndarray, types.MappingProxyType,
}  # fmt: skip
_METHODS_OF = _CLASSES_IN_C - {types.MappingProxyType, numpy.ndarray, types.ModuleType} | {
    type({}.keys()), type({}.values()), type({}.items()), types.BuiltinFunctionType, re.Pattern, re.Match, collections.deque,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
}  # fmt: skip

# Code in Python whose answers follow from its arguments, and whose effects are on them.
_MODULES = {
    "_collections_abc", "abc", "bisect", "collections", "contextlib", "copy", "copyreg", "dataclasses", "enum",
    "fractions", "functools", "heapq", "inspect", "keyword", "numbers", "operator", "pprint", "re", "reprlib",
    "statistics", "types", "typing",
}  # fmt: skip
_MODULES_OF_OURS = {
    "_along", "_autocast", "_bessel", "_call_errors", "_checks", "_control_flow", "_creation", "_device", "_draw", "_exchange", "_factors", "_fake_quantize",
    "_foreach", "_forms", "_functions", "_indexing", "_integer_functions", "_integrals", "_layouts", "_ldl", "_limits", "_linalg_factors", "_lowrank", "_members", "_memory_formats",
    "_modes", "_normal_tails", "_old_linalg", "_ops", "_other_forms", "_out", "_pieces", "_polynomials", "_random", "_random_tensors", "_reflectors", "_samplers", "_schema",
    "_segments", "_settings", "_size", "_statistics", "_strided", "_tensor", "_tensor_str", "_types", "_views", "_views_in_place", "_warn", "_windows", "amp", "autograd", "backends",
    "compiler", "cpu", "cuda", "distributed", "distributions", "fft", "func", "library", "linalg", "masked", "nn", "optim", "random",
    "return_types", "signal", "special", "utils",
}  # fmt: skip
_NOT_OF_OURS = {"utils/data", "utils/benchmark", "utils/tensorboard", "utils/collect_env.py", "utils/model_zoo.py"}
_NOT_OF_OURS |= {"cuda/_monitor.py", "cuda/memory.py", "cuda/nvtx.py", "cuda/profiler.py"}
# Functions of ours in C that tell, or change, what no guard compares.
_STATE_OF_OURS = {
    "empty_cache", "forget_traces", "get_num_threads", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
    "memory_stats", "metrics", "metrics_report", "reset_metrics", "set_num_threads", "set_options", "tell_fallback",
    "wait_for_compiles",
}  # fmt: skip

# Functions that read attributes by names that code does not spell.
_DYNAMIC = {
    getattr, setattr, hasattr, delattr, vars, dir, operator.attrgetter, operator.methodcaller, dataclasses.asdict,
    dataclasses.astuple, dataclasses.fields, dataclasses.replace,
}  # fmt: skip
DYNAMIC_NAMES = {"__dict__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__", "format", "format_map"}
READS_ALL = tuple(
    m.__file__ for m in (copy, dataclasses, inspect, pprint, typing)
)  # of an object, whatever its attributes' names

# Attributes of Python's own that are named so, and tell of nothing but what is walked. Others are refused.
_SPECIAL = {n for t in (object, int, float, str, list, dict, set, tuple) for n in dir(t) if n.startswith("__")}
_SPECIAL |= {"__call__", "__enter__", "__exit__", "__next__", "__post_init__", "__mro__", "__bases__", "__getattr__"}
_SPECIAL |= {
    "__name__", "__qualname__", "__version__", "__all__", "__set_name__", "__get__", "__set__", "__missing__",
    "__bool__", "__matmul__",
}  # fmt: skip


def is_library(filename):
    """Whether code of this file is Python's own, NumPy's or this package's."""
    if filename.startswith((_PACKAGE, _NUMPY, "<frozen", "<__array_function__")):
        return True
    return filename.startswith(_STDLIB) and "site-packages" not in filename


def is_ours(filename):
    """Whether code of this file is this package's."""
    return filename.startswith(_PACKAGE)


def is_class_of_ours(kind):
    """Whether a class is this package's."""
    return kind.__module__.partition(".")[0] in OURS


def is_numpys(filename):
    """Whether code of this file is NumPy's, which the package calls; a program is to name what is on a list."""
    return filename.startswith((_NUMPY, "<__array_function__"))


def is_library_module(module):
    """Whether a module is Python's own, NumPy's or this package's."""
    filename = getattr(module, "__file__", None)
    return is_library(filename) if isinstance(filename, str) else getattr(module, "__spec__", None) is not None


def is_constant(kind):
    """Whether objects of a class are compared by their values, or cannot change."""
    return kind in _CONSTANTS or kind in _IMMUTABLE or _is_ours_immutable(kind) or _is_number_of_numpy(kind)


def _is_ours_immutable(kind):
    return kind.__name__ in _IMMUTABLE_OURS and kind.__module__.partition(".")[0] in ("nanobind", *OURS)


def _is_number_of_numpy(kind):
    return numpy.generic in kind.__mro__ and kind.__module__ == "numpy" and kind not in (numpy.void, numpy.object_)


def special(name):
    """Whether an attribute is named as Python's own are, and is on no list."""
    return name.startswith("__") and name.endswith("__") and name not in _SPECIAL


def is_dynamic(o):
    """Whether calling it may read attributes of any name."""
    return type(o) in (types.BuiltinFunctionType, type, types.FunctionType) and o in _DYNAMIC


def is_function(o):
    """Whether a function in C answers by its arguments alone; a method of an object is its class's."""
    owner = o.__self__
    if isinstance(owner, types.ModuleType):
        if owner is builtins:
            return o.__name__ in _FUNCTIONS and getattr(builtins, o.__name__, None) is o
        return owner.__name__ in _MODULES_IN_C
    return (owner if isinstance(owner, type) else type(owner)) in _METHODS_OF or _is_of_ours(owner)


def is_called(o):
    """Likewise, of what was seen to be called, which may be a descriptor, or, of a method, its class."""
    owner = o if isinstance(o, type) else getattr(o, "__objclass__", None) or o.__self__
    if isinstance(owner, type):
        return owner in _METHODS_OF or is_made_by_class(owner) or _is_of_ours(owner)
    return is_function(o)


def _is_of_ours(owner):
    kind = owner if isinstance(owner, type) else type(owner)
    return is_class_of_ours(kind)


def is_function_of_ours(o):
    """Whether a function of this package in C is one that guards know all about."""
    return getattr(o, "__name__", None) not in _STATE_OF_OURS


@functools.lru_cache(maxsize=4096)
def is_module(filename):
    """Whether code of a library's file may be part of a recorded step."""
    if filename.startswith(_PACKAGE):
        path = filename[len(_PACKAGE) :]
        if path.startswith(tuple(_NOT_OF_OURS)):
            return False
        return path == "__init__.py" or path.partition(os.sep)[0].removesuffix(".py") in _MODULES_OF_OURS
    if filename.startswith("<frozen importlib") or is_numpys(filename):
        return True  # what is imported, and named of NumPy, is looked at by its name
    name = filename[len(_STDLIB) :] if filename.startswith(_STDLIB) else filename[1:-1].removeprefix("frozen ")
    return name.partition(os.sep)[0].removesuffix(".py") in _MODULES


def is_made_by_class(kind):
    """Whether a class was made by Python's `class`; else it is one in C."""
    return _core._is_made_by_class(kind)


def refused_base(kind):
    """A class in C that a class made by Python is derived from, and is on no list; None where there is none."""
    for base in kind.__mro__:
        if not is_made_by_class(base) and base not in BASES:
            return base
    return None


def is_class_in_c(kind):
    """Whether code may name a class in C: to make such objects, or ask whether one is."""
    if kind in _CLASSES_IN_C or _is_of_ours(kind) or _is_number_of_numpy(kind) or kind is numpy.generic:
        return True
    if issubclass(kind, BaseException) or kind.__module__ in ("itertools", "collections", "types", "typing"):
        return True
    return kind.__module__ == "collections" or kind is collections.deque or kind is abc.ABC or kind is enum.Enum
