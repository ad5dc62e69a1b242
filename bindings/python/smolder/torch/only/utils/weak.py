"""torch.utils.weak: dictionaries whose keys are objects themselves, whatever they equal, and keep none alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from smolder._names import listing as _listing

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]
__dir__ = _listing(__name__)


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals references to the same object alone."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        one = self()
        return self is other if one is None else isinstance(other, WeakIdRef) and other() is one


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary from objects, by identity, to values; what is gone is no key any more."""

    data: dict[Any, Any]
    ref_type: type[WeakIdRef]

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.data, self.ref_type = {}, ref_type
        if dict is not None:
            self.update(dict)

    def _key(self, key):
        own = weakref.ref(self)

        def forget(ref):
            if (me := own()) is not None:
                me.data.pop(ref, None)

        return self.ref_type(key, forget)

    def __getitem__(self, key: Any) -> Any:
        found = self.data.get(self.ref_type(key), self)
        if found is self:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self._key(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # nothing refers weakly to it
            return False

    def __iter__(self) -> Iterator[Any]:
        return iter([key for ref in list(self.data) if (key := ref()) is not None])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def keyrefs(self) -> list[WeakIdRef]:
        """The references."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A dictionary of the same keys and values."""
        return type(self)(self)

    __copy__ = copy

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    ref: WeakIdRef

    def __init__(self, tensor: Any) -> None:
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        return self.ref()
