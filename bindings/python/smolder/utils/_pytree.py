"""Trees of lists, tuples, dictionaries and leaves: taken apart, put together, mapped, written as text."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import typing
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any

from smolder._warn import warn

__all__ = [
    "DictKey", "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec",
    "broadcast_to_and_flatten", "key_get", "keystr", "map_only", "register_constant", "register_dataclass",
    "register_namedtuple", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure",
    "tree_unflatten", "treespec_dumps", "treespec_leaf", "treespec_loads", "treespec_pprint", "treespec_tuple",
]  # fmt: skip

PyTree = typing.Any
Context = typing.Any
KeyEntry = typing.Any
KeyPath = tuple


# -- steps from a node to a child


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """A place in a list, a tuple or a deque."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        """The member there."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True, slots=True)
class MappingKey:
    """A key of a dictionary."""

    key: typing.Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        """The member there."""
        return mapping[self.key]


DictKey = MappingKey


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """An attribute of an object."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        """The member there."""
        return getattr(obj, self.name)


def keystr(kp):
    """A path as text, such as `['a'][0].b`."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """The node at a path in a tree."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- nodes


class _Node(typing.NamedTuple):
    """How objects of a class are taken apart and put together; `keys`: the steps to their parts."""

    flatten: typing.Callable
    unflatten: typing.Callable
    keys: typing.Callable | None = None
    name: str | None = None  # in text, with functions that make JSON of contexts and the opposite
    dump: typing.Callable | None = None
    load: typing.Callable | None = None


def _at_places(parts, _):
    return [SequenceKey(i) for i in range(len(parts))]


def _at_names(_, keys):
    return [MappingKey(key) for key in keys]


def _load_type(text):
    module, _, name = text.rpartition(".")
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _name_of_type(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def _dump_default(context):
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _load_default(text):
    return [_load_type(f"{text['default_factory_module']}.{text['default_factory_name']}"), text["dict_context"]]


_nodes = {
    list: _Node(lambda x: (list(x), None), lambda parts, _: list(parts), _at_places, "builtins.list"),
    tuple: _Node(lambda x: (list(x), None), lambda parts, _: tuple(parts), _at_places, "builtins.tuple"),
    dict: _Node(
        lambda x: (list(x.values()), list(x)),
        lambda parts, keys: dict(zip(keys, parts, strict=True)),
        _at_names,
        "builtins.dict",
    ),
    OrderedDict: _Node(
        lambda x: (list(x.values()), list(x)),
        lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
        _at_names,
        "collections.OrderedDict",
    ),
    defaultdict: _Node(
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
        lambda parts, context: _at_names(parts, context[1]),
        "collections.defaultdict",
        _dump_default,
        _load_default,
    ),
    deque: _Node(
        lambda x: (list(x), x.maxlen), lambda parts, maxlen: deque(parts, maxlen), _at_places, "collections.deque"
    ),
    # Namedtuples have many classes: the context is the class.
    namedtuple: _Node(
        lambda x: (list(x), type(x)),
        lambda parts, kind: kind(*parts),
        lambda _, kind: [GetAttrKey(name) for name in kind._fields],
        "collections.namedtuple",
        _name_of_type,
        _load_type,
    ),
}
_dict_flatten, _dict_unflatten = _nodes[dict].flatten, _nodes[dict].unflatten


def _dict_flatten_with_keys(d):
    """The parts of a dictionary with their keys, and what else puts it together: programs give it for classes of theirs."""
    parts, keys = _dict_flatten(d)
    return list(zip(_at_names(parts, keys), parts, strict=True)), keys


SUPPORTED_NODES = _nodes
BUILTIN_TYPES = frozenset(_nodes)
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})


def register_pytree_node(
    cls: type[Any],
    flatten_fn: Callable[..., Any],
    unflatten_fn: Callable[..., Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[..., Any] | None = None,
    from_dumpable_context: Callable[..., Any] | None = None,
    flatten_with_keys_fn: Callable[..., Any] | None = None,
) -> None:
    """Makes instances of a class nodes: flatten_fn(x) is (parts, context), unflatten_fn(parts, context) is x again.

    flatten_with_keys_fn(x) is ([(key, part), ...], context). treespec_dumps writes the class by serialized_type_name, and
    what to_dumpable_context makes of the context, which from_dumpable_context is given when it is read.
    """
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    _nodes[cls] = _Node(
        flatten_fn, unflatten_fn, None, serialized_type_name, to_dumpable_context, from_dumpable_context
    )
    if flatten_with_keys_fn is not None:
        _keyed[cls] = flatten_with_keys_fn


_keyed = {}  # functions that give a class's parts with their keys


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **options):
    """The same under the name that it had."""
    warn(
        "`smolder.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`smolder.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
    )
    if cls in _nodes:
        warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.")
        _deregister_pytree_node(cls)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


_private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls):
    _nodes.pop(cls)
    _keyed.pop(cls, None)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Makes objects of a dataclass nodes, whose parts are their fields."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"register_dataclass: {cls} is no dataclass")
    dropped = set(drop_field_names or ())
    every = [field.name for field in dataclasses.fields(cls) if field.init]
    names = [name for name in every if name not in dropped] if field_names is None else list(field_names)
    if unknown := (set(names) | dropped) - set(every):
        raise ValueError(f"register_dataclass: {cls} has no fields {sorted(unknown)}")
    if left := set(every) - set(names) - dropped:
        raise ValueError(f"register_dataclass: the fields {sorted(left)} of {cls} are in neither list of names")

    def split(x):
        present = [name for name in names if getattr(x, name) is not None]
        absent = [name for name in names if getattr(x, name) is None]
        return present, [present, absent]

    register_pytree_node(
        cls,
        lambda x: ([getattr(x, name) for name in split(x)[0]], split(x)[1]),
        lambda parts, context: cls(**dict(zip(context[0], parts, strict=True)), **dict.fromkeys(context[1])),
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=lambda x: ([(GetAttrKey(name), getattr(x, name)) for name in split(x)[0]], split(x)[1]),
    )


def register_namedtuple(cls, *, serialized_type_name):
    """Gives a class of namedtuples, which are nodes anyway, the name that treespec_dumps writes."""
    if not _is_namedtuple_class(cls):
        raise TypeError(f"register_namedtuple: {cls} is no class of namedtuples")
    _names_of_tuples[cls] = serialized_type_name


_register_namedtuple = register_namedtuple
_names_of_tuples = {}


def register_constant(cls):
    """Registers a class whose objects are nodes without children, kept in the form of the tree and compared by ==."""
    if cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        method = "__eq__" if cls.__eq__ is object.__eq__ else "__hash__"
        raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{method}` implementation.")
    register_pytree_node(cls, lambda x: ([], x), lambda _, x: x, flatten_with_keys_fn=lambda x: ([], x))
    _constants.add(cls)


CONSTANT_NODES = _constants = set()


def is_constant_class(cls):
    """Whether register_constant was told of a class."""
    return cls in _constants


def _is_namedtuple_class(kind):
    return isinstance(kind, type) and issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def is_namedtuple(obj):
    """Whether it is a namedtuple, or a class of them."""
    return _is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


is_namedtuple_class = _is_namedtuple_class


def is_namedtuple_instance(obj):
    """Whether it is a namedtuple."""
    return _is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls):
    """Whether it is a class of tuples with names that C makes, as that of time.localtime()."""
    counts = (getattr(cls, f"n_{of}", None) for of in ("fields", "sequence_fields", "unnamed_fields"))
    return isinstance(cls, type) and cls.__bases__ == (tuple,) and all(isinstance(n, int) for n in counts)


def is_structseq_instance(obj):
    """Whether it is a tuple with names that C makes."""
    return is_structseq_class(type(obj))


def is_structseq(obj):
    """Whether it is a tuple with names that C makes, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(x):
    kind = type(x)
    return namedtuple if kind not in _nodes and _is_namedtuple_class(kind) else kind


def tree_is_leaf(tree, is_leaf=None):
    """Whether a tree is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in _nodes


# -- the form of a tree


class TreeSpec:
    """The form of a tree: its root's type (None is a leaf), context, and the forms of its children."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any = None, context: Any = None, children_specs: Any = ()) -> None:
        self.type, self._context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        self.num_nodes = 1 + sum(c.num_nodes for c in self._children)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in self._children)

    @property
    def context(self):
        """The context that puts the root together again."""
        return self._context

    @property
    def children_specs(self):
        """The forms of the children."""
        return self._children

    def children(self):
        """The forms of the children, in a list of their own."""
        return self._children.copy()

    def child(self, index):
        """The form of a child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return self.type is None

    def unflatten(self, leaves):
        """The tree of leaves in this form."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree):
        """The parts of a tree where this form, which is one it begins with, has its leaves."""
        if self.is_leaf():
            return [tree]
        parts, out = self._parts_of(tree), []
        for child, part in zip(self._children, parts, strict=True):
            out += child.flatten_up_to(part)
        return out

    def _parts_of(self, tree):
        kind = _get_node_type(tree)
        both = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind != self.type and not both:
            what = "Node type" if self.type in BUILTIN_TYPES else "Type"
            raise ValueError(f"{what} mismatch; expected {self.type!r}, but got {kind!r}.")
        parts, context = _nodes[kind].flatten(tree)
        if len(parts) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(parts)}.")
        if both:
            return self._by_keys(tree)
        if context != self._context and kind is not deque:
            if self.type not in BUILTIN_TYPES:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self._context!r}, but got {context!r}."
            )
        return parts

    def _by_keys(self, tree):
        wanted = self._context[1] if self.type is defaultdict else self._context
        if set(wanted) != set(tree):
            missing, extra = set(wanted) - set(tree), set(tree) - set(wanted)
            text = (f"; missing key(s): {missing}" if missing else "") + (f"; extra key(s): {extra}" if extra else "")
            raise ValueError(f"Node keys mismatch{text}.")
        return [tree[key] for key in wanted]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self._context, self._children) == (other.type, other._context, other._children)

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        indent += 2
        children = (",\n" + " " * indent).join(child.__repr__(indent) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __reduce__(self):
        return TreeSpec, (self.type, self._context, self._children)


class _OfLeaves(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, TreeSpec) and instance.is_leaf()

    def __call__(cls):
        return _LEAF_SPEC


class LeafSpec(TreeSpec, metaclass=_OfLeaves):
    """The form of a leaf: isinstance(form, LeafSpec) says whether a form is one."""

    __slots__ = ()


_LEAF_SPEC = TreeSpec()


def treespec_leaf():
    """The form of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable=(), /):
    """The form of a tuple, of the forms of its items."""
    children = list(iterable)
    if any(not isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_pprint(treespec):
    """The form as a tree with stars for leaves."""

    class Star:
        def __repr__(self):
            return "*"

    return repr(tree_unflatten([Star() for _ in range(treespec.num_leaves)], treespec))


# -- trees


def tree_flatten(tree: Any, is_leaf: Callable[..., Any] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the form."""
    leaves = []
    return leaves, _flatten_into(leaves, tree, is_leaf)


def _flatten_into(leaves, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    parts, context = _nodes[kind].flatten(tree)
    return TreeSpec(kind, context, [_flatten_into(leaves, part, is_leaf) for part in parts])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of leaves and a form."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})."
        )
    return _put_together(iter(leaves), treespec)


def _put_together(leaves, spec):
    if spec.is_leaf():
        return next(leaves)
    return _nodes[spec.type].unflatten([_put_together(leaves, c) for c in spec._children], spec._context)


def tree_iter(tree, is_leaf=None):
    """The leaves, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for part in _nodes[_get_node_type(tree)].flatten(tree)[0]:
        yield from tree_iter(part, is_leaf)


def tree_leaves(tree: Any, is_leaf: Callable[..., Any] | None = None) -> list[Any]:
    """The leaves, in order."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Callable[..., Any] | None = None) -> TreeSpec:
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[..., Any] | None = None) -> Any:
    """The tree of func of the leaves of a tree, and of what other trees, which begin with its form, have there."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten([func(*given) for given in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[..., Any] | None = None) -> Any:
    """Calls func on the leaves, and returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _predicate(chosen):
    if isinstance(chosen, type | tuple) or hasattr(chosen, "__args__"):
        return lambda x: isinstance(x, chosen)
    if not callable(chosen):
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return chosen


def map_only(type_or_types_or_pred, /):
    """Decorates a function of leaves: others than those of a type, or for which a function holds, stay what they are."""
    chosen = _predicate(type_or_types_or_pred)

    def decorate(func):
        return functools.wraps(func)(lambda x: func(x) if chosen(x) else x)

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[..., Any], tree: Any, is_leaf: Callable[..., Any] | None = None
) -> Any:
    """The tree with func of those leaves that are of a type, or for which a function holds."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Calls func on those leaves, and returns the tree."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[..., Any] | None = None) -> bool:
    """Whether pred holds of all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[..., Any] | None = None) -> bool:
    """Whether pred holds of any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """Whether pred holds of all leaves of a type."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """Whether pred holds of any leaf of a type."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a tree, each as often as the form, which begins with that of the tree, has leaves there; else None."""
    whole, out = tree_unflatten([0] * treespec.num_leaves, treespec), []

    def repeat(leaf, part):
        out.extend([leaf] * tree_structure(part, is_leaf).num_leaves)

    try:
        tree_map_(repeat, tree, whole, is_leaf=is_leaf)
    except ValueError:
        return None
    return out


_broadcast_to_and_flatten = broadcast_to_and_flatten


# -- trees with the paths to their leaves


def _with_paths(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _get_node_type(tree)
    if kind in _keyed:
        entries = _keyed[kind](tree)[0]
    elif _nodes[kind].keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    else:
        parts, context = _nodes[kind].flatten(tree)
        entries = zip(_nodes[kind].keys(parts, context), parts, strict=True)
    for key, part in entries:
        yield from _with_paths((*path, key), part, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """Pairs of a path and the leaf there, in order."""
    return list(_with_paths((), tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """The same, and the form."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """As tree_map of a function that is given the path first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten([func(*pair, *given) for pair, *given in zip(pairs, *others, strict=True)], spec)


# -- forms as text

_PROTOCOL = 1


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = _nodes[spec.type]
    if node.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    context = spec.context
    if spec.type is namedtuple:
        context = _names_of_tuples.get(context) or node.dump(context)
    elif node.dump is not None:
        context = node.dump(context)
    try:
        text = context if node.dump is not None else json.dumps(context)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a custom serializer using "
            "_register_pytree_node."
        ) from error
    return {"type": node.name, "context": text, "children_spec": list(map(_to_json, spec.children_specs))}


def _from_json(text):
    if text["type"] is None and not text["children_spec"]:
        return _LEAF_SPEC
    found = [kind for kind, node in _nodes.items() if node.name == text["type"]]
    if not found:
        raise ValueError(f"treespec_loads: no class is registered as {text['type']!r}")
    node, context = _nodes[found[0]], text["context"]
    if found[0] is namedtuple:
        named = {name: kind for kind, name in _names_of_tuples.items()}
        context = named.get(context) or node.load(context)
    else:
        context = json.loads(context) if node.load is None else node.load(context)
    return TreeSpec(found[0], context, list(map(_from_json, text["children_spec"])))


def treespec_dumps(treespec, protocol=None):
    """The form as text."""
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps((_PROTOCOL, _to_json(treespec)))


def treespec_loads(serialized):
    """The form that text says."""
    protocol, text = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _from_json(text)
