"""Trees of lists, tuples, dictionaries and leaves: taken apart, put together, mapped."""

from collections import OrderedDict, defaultdict, deque, namedtuple

__all__ = [
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

_Node = namedtuple("_Node", ("flatten", "unflatten"))

# Parts of a node and what else puts it together again; the node of both.
_nodes = {
    list: _Node(lambda x: (x, None), lambda parts, _: list(parts)),
    tuple: _Node(lambda x: (list(x), None), lambda parts, _: tuple(parts)),
    dict: _Node(lambda x: (list(x.values()), list(x)), lambda parts, keys: dict(zip(keys, parts, strict=True))),
    OrderedDict: _Node(
        lambda x: (list(x.values()), list(x)), lambda parts, keys: OrderedDict(zip(keys, parts, strict=True))
    ),
    defaultdict: _Node(
        lambda x: (list(x.values()), (x.default_factory, list(x))),
        lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
    ),
    deque: _Node(lambda x: (list(x), x.maxlen), lambda parts, maxlen: deque(parts, maxlen)),
}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, **options):
    """Makes instances of a class nodes: flatten_fn(x) is (parts, context), unflatten_fn(parts, context) is x again.

    The options are for saving trees, which are not saved here.
    """
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _nodes[cls] = _Node(flatten_fn, unflatten_fn)


def _node_of(x):
    kind = type(x)
    if kind in _nodes:
        return _nodes[kind]
    if isinstance(x, tuple) and hasattr(kind, "_fields"):
        return _Node(lambda x: (list(x), kind), lambda parts, kind: kind(*parts))
    return None


class TreeSpec:
    """The form of a tree: its root's type (None is a leaf), context, and the forms of its children."""

    def __init__(self, type=None, context=None, children=(), node=None):
        self.type, self.context, self.children, self._node = type, context, list(children), node
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in self.children)

    def is_leaf(self):
        """Whether the tree is a leaf."""
        return self.type is None

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self.children) == (other.type, other.context, other.children)

    def __hash__(self):
        return hash((self.type, self.num_leaves))

    def __repr__(self):
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children})"


def tree_flatten(tree, is_leaf=None):
    """The leaves, in order, and the form."""
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        return [tree], TreeSpec()
    parts, context = node.flatten(tree)
    leaves, children = [], []
    for part in parts:
        of_part, child = tree_flatten(part, is_leaf)
        leaves += of_part
        children.append(child)
    return leaves, TreeSpec(type(tree), context, children, node)


def tree_unflatten(leaves, treespec):
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
    return spec._node.unflatten([_put_together(leaves, c) for c in spec.children], spec.context)


def tree_leaves(tree, is_leaf=None):
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree of func of the leaves of trees, which all have the first one's form."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = []
    for rest in rests:
        more, form = tree_flatten(rest, is_leaf)
        if form != spec:
            raise ValueError(f"tree_map: expected trees of one form, got {spec} and {form}")
        others.append(more)
    return tree_unflatten([func(*given) for given in zip(leaves, *others, strict=True)], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls func on the leaves, and returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(type_or_types_or_pred, func, tree, is_leaf=None):
    """The tree with func of those leaves that are of a type, or for which a function holds."""
    chosen = type_or_types_or_pred
    if not isinstance(chosen, type | tuple) and not hasattr(chosen, "__args__"):
        return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)
    return tree_map(lambda x: func(x) if isinstance(x, chosen) else x, tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether pred holds of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether pred holds of any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
