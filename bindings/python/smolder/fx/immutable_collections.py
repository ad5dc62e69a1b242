"""Lists and dicts that arguments of nodes are kept in: changing one in place would pass the graph by."""

from __future__ import annotations

from typing import Any, NoReturn

from smolder._names import listing as _listing
from smolder.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]
__dir__ = _listing(__name__)


def _no_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to modify the kwargs or args of "
        "a torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n    node.args = new_args"
    )


class immutable_list(list[Any]):
    """A list that can't be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that can't be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


for _name in [
    "__delitem__",
    "__iadd__",
    "__imul__",
    "__setitem__",
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
]:
    setattr(immutable_list, _name, _no_mutation)
for _name in ["__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update"]:
    setattr(immutable_dict, _name, _no_mutation)

_pytree.register_pytree_node(
    immutable_list,
    lambda x: (list(x), None),
    lambda parts, _: immutable_list(parts),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda x: (list(x.values()), list(x)),
    lambda parts, keys: immutable_dict(zip(keys, parts, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
)
