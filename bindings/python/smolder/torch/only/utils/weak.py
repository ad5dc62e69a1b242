"""torch.utils.weak: dictionaries whose keys are objects themselves, whatever they equal, and keep none alive."""

import weakref
from collections.abc import MutableMapping


class WeakIdRef(weakref.ref):
    """A weak reference that equals references to the same object alone."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        one = self()
        return self is other if one is None else isinstance(other, WeakIdRef) and other() is one


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary from objects, by identity, to values; what is gone is no key any more."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        if dict is not None:
            self.update(dict)

    def _key(self, key):
        own = weakref.ref(self)

        def forget(ref):
            if (me := own()) is not None:
                me.data.pop(ref, None)

        return self.ref_type(key, forget)

    def __getitem__(self, key):
        found = self.data.get(self.ref_type(key), self)
        if found is self:
            raise KeyError(key)
        return found

    def __setitem__(self, key, value):
        self.data[self._key(key)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # nothing refers weakly to it
            return False

    def __iter__(self):
        return iter([key for ref in list(self.data) if (key := ref()) is not None])

    def __len__(self):
        return len(list(iter(self)))

    def keyrefs(self):
        """The references."""
        return list(self.data)

    def copy(self):
        """A dictionary of the same keys and values."""
        return type(self)(self)

    __copy__ = copy

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor):
        self.ref = WeakIdRef(tensor)

    def __call__(self):
        return self.ref()
