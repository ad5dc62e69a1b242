"""Trees: their forms, paths, maps and text are torch's."""

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from torch_peer import assert_torch_says, needs_torch

from smolder.utils import _pytree as tree

Pair = namedtuple("Pair", "x y")

BEFORE = """
import collections
from importlib import import_module
tree = import_module(torch.__name__ + ".utils._pytree")
t = {"a": [1, (2, 3)], "b": None, "c": collections.OrderedDict(k=collections.deque([4], 3))}
d = collections.defaultdict(list, {"z": 5})
"""
USES = """
tree.tree_structure(t) | tree.tree_structure([1, [2, [3, 4]]]) | tree.treespec_pprint(tree.tree_structure(t)) | tree.tree_leaves_with_path(t)
tree.treespec_dumps(tree.tree_structure(t)) | tree.treespec_dumps(tree.tree_structure(d)) | tree.treespec_loads(tree.treespec_dumps(tree.tree_structure(d))) == tree.tree_structure(d)
[tree.keystr(p) for p, _ in tree.tree_leaves_with_path(t)] | tree.tree_map_with_path(lambda p, x: (tree.keystr(p), x), {"a": [1, 2]})
tree.tree_map(lambda x, y: [x] + y, [5, 6], [[7, 9], [1, 2]]) | tree.tree_map(lambda x, y: x, {"a": 1}, collections.OrderedDict(a=2))
tree.tree_map(lambda x, y: x, [1, (2, 3)], [1, 2]) | tree.tree_map(lambda x, y: x, {"a": 1}, {"b": 1}) | tree.tree_map(lambda x, y: x, [1], [1, 2])
tree._broadcast_to_and_flatten([0, 1], tree.tree_structure([[1, 2], 3])) | tree._broadcast_to_and_flatten([0], tree.tree_structure([[1, 2], 3]))
tree.tree_structure(t).num_leaves | tree.tree_structure(t).num_nodes | tree.tree_structure(t).num_children | tree.tree_structure(t).child(0)
list(tree.tree_iter(t)) | tree.tree_all_only(int, lambda x: x > 0, t) | tree.tree_any_only(int, lambda x: x > 4, t) | tree.tree_is_leaf([1]) | tree.tree_is_leaf(1)
tree.treespec_tuple([tree.treespec_leaf()]) | isinstance(tree.treespec_leaf(), tree.LeafSpec) | tree.tree_structure((1,)) == tree.treespec_tuple([tree.LeafSpec()])
tree.key_get({"a": [1, 2]}, (tree.MappingKey("a"), tree.SequenceKey(1))) | tree.tree_structure([1, 2]).flatten_up_to([[1], 2]) | tree.treespec_dumps(tree.treespec_leaf(), 7)
"""


@needs_torch
def test_trees_are_torchs():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


def test_what_is_taken_apart_is_put_together():
    t = {"a": [1, (2,)], "b": OrderedDict(k=deque([4], 3)), "c": Pair(5, None), "d": defaultdict(list, {"z": 6})}
    leaves, form = tree.tree_flatten(t)
    again = tree.tree_unflatten(leaves, form)
    assert again == t and isinstance(again["c"], Pair) and again["d"].default_factory is list
    assert again["b"]["k"].maxlen == 3 and leaves == [1, 2, 4, 5, None, 6]
    assert tree.treespec_loads(tree.treespec_dumps(form)) == form
    assert {form: 1}[tree.tree_structure(t)] == 1 and form != tree.tree_structure([1])


@dataclasses.dataclass
class Point:
    x: int
    y: object = None


class Bag:
    def __init__(self, *items):
        self.items = items


class Kind(str):
    pass


def test_classes_of_programs_are_nodes():
    tree.register_dataclass(Point, serialized_type_name="Point")
    tree.register_pytree_node(Bag, lambda b: (list(b.items), None), lambda parts, _: Bag(*parts))
    tree.register_constant(Kind)
    try:
        assert tree.tree_map(lambda v: v + 1, [Point(1), Point(2, 3)]) == [Point(2), Point(3, 4)]
        assert [tree.keystr(p) for p, _ in tree.tree_leaves_with_path(Point(1, [2]))] == [".x", ".y[0]"]
        assert tree.treespec_loads(tree.treespec_dumps(tree.tree_structure(Point(1)))) == tree.tree_structure(Point(1))
        assert tree.tree_map(str, Bag(1, Bag(2))).items[1].items == ("2",)
        assert tree.tree_leaves([Kind("a"), 1]) == [1] and tree.tree_structure(Kind("a")) != tree.tree_structure(
            Kind("b")
        )
        with pytest.raises(ValueError, match="already registered"):
            tree.register_pytree_node(Bag, None, None)
        with pytest.raises(NotImplementedError, match="No registered serialization name"):
            tree.treespec_dumps(tree.tree_structure(Bag(1)))
        with pytest.raises(ValueError, match="flatten_with_keys_fn"):
            tree.tree_leaves_with_path(Bag(1))
        with pytest.raises(ValueError, match="Type mismatch"):
            tree.tree_map(lambda a, b: a, Bag(1), [1])
    finally:
        for kind in (Point, Bag, Kind):
            tree._deregister_pytree_node(kind)


def test_maps_of_some_leaves_only():
    assert tree.map_only(int)(lambda x: -x)("a") == "a" and tree.tree_map_only((int, str), str, [1, "a", None]) == [
        "1",
        "a",
        None,
    ]
    assert tree.tree_map_only(lambda x: x == 1, str, [1, 2]) == ["1", 2]
    seen = []
    assert tree.tree_map_only_(int, seen.append, t := [1, "a"]) is t and seen == [1]
    with pytest.raises(TypeError, match="must be a type"):
        tree.map_only(3)
