"""The structures that functions take and return: what guards compare of arguments, how results are put together."""

from collections import OrderedDict

from smolder import _core
from smolder._tensor import Tensor
from smolder.compiler._allowed import CONSTANTS
from smolder.compiler._world import attributes_of, same


def describe(o, path, tensors, world):
    """The description of an argument that guards compare; its tensors go into `tensors` and its objects into the world."""
    kind = type(o)
    if issubclass(kind, _core.Tensor):
        tensors.append((o, path))
        return ("tensor", path, o)
    if kind in CONSTANTS:
        return ("value", path, o)
    if kind is tuple or kind is list or (issubclass(kind, tuple) and "_fields" in kind.__dict__):
        base = list if kind is list else tuple
        parts = [describe(p, f"{path}[{i}]", tensors, world) for i, p in enumerate(base.__iter__(o))]
        world.walk(kind, f"type({path})")
        return ("sequence", path, kind, parts)
    if kind is dict and all(type(k) in CONSTANTS for k in o):
        parts = [describe(p, f"{path}[{k!r}]", tensors, world) for k, p in o.items()]
        return ("dict", path, kind, parts, list(o))
    world.walk(o, path)
    return ("object", path, o)


def unchanged(a, b):
    """Whether two descriptions of one call's arguments, before and after it, are the same."""
    if a[0] != b[0]:
        return False
    if a[0] in ("tensor", "object"):
        return a[2] is b[2]
    if a[0] == "value":
        return same(a[2], b[2])
    return len(a[3]) == len(b[3]) and all(map(unchanged, a[3], b[3])) and a[4:] == b[4:]


class Results:
    """The result of a call, taken apart: `tensors` in order, and how to put it together.

    `why` says what of it cannot be made anew.
    """

    def __init__(self, o, world, given):
        self.tensors, self.why = [], None
        self._world, self._given, self._seen = world, given, set()
        self._spec = self._take(o)

    def _take(self, o):
        kind = type(o)
        if issubclass(kind, _core.Tensor):
            self.tensors.append(o)
            return ("tensor", len(self.tensors) - 1)
        if kind in CONSTANTS or self._world.knows(o):
            return ("value", o)
        if id(o) in self._given:
            self.why = f"the function returns a {kind.__name__} that it was given"
            return ("value", None)
        if id(o) in self._seen and not (kind is tuple and not o):
            self.why = f"the function returns a {kind.__name__} in two places"
            return ("value", None)
        self._seen.add(id(o))
        if kind is tuple or kind is list:
            return (kind.__name__, kind, list(map(self._take, o)))
        if issubclass(kind, tuple) and all(type(part) is int for part in tuple.__iter__(o)):  # a Size
            return ("value", o)
        if issubclass(kind, tuple) and ("_make" in kind.__dict__ or "n_sequence_fields" in kind.__dict__):
            return ("named", getattr(kind, "_make", kind), list(map(self._take, o)))
        if kind is dict or kind is OrderedDict:
            return ("dict", kind, list(map(self._take, o.values())), list(o))
        own = attributes_of(o)
        if (
            own is not None
            and kind.__new__ is object.__new__
            and not any("__slots__" in base.__dict__ for base in kind.__mro__)
        ):
            return ("object", kind, list(map(self._take, own.values())), list(own))
        self.why = f"the function returns a {kind.__name__}"
        return ("value", None)

    def check(self, known):
        """Looks for tensors that no recorded step can return: of a class of their own, unless they are `known`."""
        for t in self.tensors:
            if type(t) is not Tensor and not any(t is k for k in known):
                self.why = self.why or f"the function returns a new {type(t).__name__}"

    def spec(self, places):
        """How _Compiled puts it together, given where each tensor is among what is made; -1 - place among inputs."""

        def placed(s):
            if s[0] == "tensor":
                place = places[s[1]]
                return ("made", place) if place >= 0 else ("input", -1 - place)
            return s if s[0] == "value" else (*s[:2], list(map(placed, s[2])), *s[3:])

        return placed(self._spec)


def containers(o, ids):
    """Adds the ids of the containers that arguments are made of."""
    if type(o) in (tuple, list):
        ids.add(id(o))
        for part in o:
            containers(part, ids)
    elif type(o) is dict:
        ids.add(id(o))
        for part in o.values():
            containers(part, ids)
    return ids
