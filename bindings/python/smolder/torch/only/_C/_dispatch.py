"""torch's dispatch keys: names, sets of them, and the guard that leaves some out."""

import contextlib
import enum

from smolder.amp import autocast

_NAMES = """Undefined CPU CUDA XPU Meta QuantizedCPU QuantizedCUDA SparseCPU SparseCUDA NestedTensorCPU NestedTensorCUDA
AutogradCPU AutogradCUDA AutogradXPU AutogradMeta AutogradOther AutogradFunctionality ADInplaceOrView BackendSelect Python
PythonDispatcher PythonTLSSnapshot FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode FuncTorchBatched
FuncTorchGradWrapper FuncTorchVmapMode Functionalize Conjugate Negative ZeroTensor PreDispatch AutocastCPU AutocastCUDA
AutocastXPU Autograd Dense CompositeExplicitAutograd CompositeImplicitAutograd CompositeExplicitAutogradNonFunctional
CompositeImplicitAutogradNestedTensor"""
DispatchKey = enum.IntEnum("DispatchKey", _NAMES.split(), start=0)
DispatchKey.__doc__ = "What an implementation of an op is for."


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, *keys):
        self._keys = frozenset(keys)

    def __or__(self, other):
        return DispatchKeySet(*self._keys, *other._keys)

    def __and__(self, other):
        return DispatchKeySet(*(self._keys & other._keys))

    def __sub__(self, other):
        return DispatchKeySet(*(self._keys - other._keys))

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def has(self, key):
        """Whether a key is in it."""
        return key in self._keys

    def add(self, key):
        """The set with one more key."""
        return self | DispatchKeySet(key)

    def remove(self, key):
        """The set without a key."""
        return self - DispatchKeySet(key)

    def __repr__(self):
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys))})"


_AUTOCAST = {DispatchKey.AutocastCPU: "cpu", DispatchKey.AutocastCUDA: "cuda"}


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys):
    """Within it there is no autocast on the devices whose autocast keys are in the set; other keys mean nothing here."""
    with contextlib.ExitStack() as stack:
        for key, device in _AUTOCAST.items():
            if keys.has(key):
                stack.enter_context(autocast(device, enabled=False))
        yield
