"""Members of Tensor that programs ask for although they say little here: about its storage, its kind, its history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core, _shared
from smolder._tensor import Tensor
from smolder._typing import Device, DType, T
from smolder._unheld import UnheldDtype

if TYPE_CHECKING:
    from smolder.storage import TypedStorage, UntypedStorage


def _add(function: T) -> T:
    setattr(Tensor, function.__name__, function)
    return function


@_add
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor is in, as bytes."""
    from smolder.storage import UntypedStorage

    return UntypedStorage(self)


@_add
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor is in, as elements of its dtype."""
    from smolder.storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


Tensor._typed_storage = storage


def view_as(self: Tensor, dtype: DType) -> Tensor:
    """Views the bytes as elements of another dtype, as view(dtype) does; the last dimension grows or shrinks to fit.

    Shares the memory, and is no part of a graph of gradients.
    """
    if isinstance(dtype, UnheldDtype):
        from smolder._bits import view_bits

        return view_bits(self, dtype)
    if dtype == self.dtype:
        return self.view(self.shape)
    return _core._view_bits(self.detach(), _sizes_in(self, dtype), dtype)


def _sizes_in(self: Tensor, dtype: DType) -> list[int]:
    old, new, shape = self.itemsize, dtype.itemsize, list(self.shape)
    if old == new:
        return shape
    if not shape:
        raise RuntimeError(f"self.dim() cannot be 0 to view {self.dtype} as {dtype} (different element sizes)")
    if self.stride(-1) != 1 and shape[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 to view {self.dtype} as {dtype} (different element sizes)")
    if shape[-1] * old % new:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {new // old} to view {self.dtype} as {dtype} (different element sizes), "
            f"but got {shape[-1]}"
        )
    if new > old:
        for what, n in [("storage_offset()", self.storage_offset())] + [
            (f"stride({i})", self.stride(i)) for i in range(self.dim() - 1)
        ]:
            if n * old % new:
                raise RuntimeError(
                    f"self.{what} must be divisible by {new // old} to view {self.dtype} as {dtype} (different element "
                    f"sizes), but got {n}"
                )
    return [*shape[:-1], shape[-1] * old // new]


@_add
def is_shared(self: Tensor) -> bool:
    """Whether other processes see the memory: CUDA's counts as shared, and that of the CPU after share_memory_()."""
    return self.is_cuda or (self.is_cpu and _shared.is_shared(self))


@_add
def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor's storage to memory that other processes see; returns self. On CUDA nothing changes.

    Processes that are forked from then on, or are sent the tensor, read what any of them writes. Each reads and writes
    when its step runs, and nothing orders these.
    """
    if self.is_cpu:
        _shared.move_there(self)
    return self


@_add
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether another tensor has the same shape."""
    return self.shape == other.shape


@_add
def is_signed(self: Tensor) -> bool:
    """Whether elements may be negative."""
    return self.dtype.is_signed


@_add
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether another tensor has the same storage, shape and strides."""
    mine, other = self._storage()[0], tensor._storage()[0]
    same_place = self.storage_offset() == tensor.storage_offset() and self.stride() == tensor.stride()
    return mine == other and same_place and self.shape == tensor.shape


@_add
def is_distributed(self: Tensor) -> bool:
    """False: tensors are of one process."""
    return False


@_add
def is_conj(self: Tensor) -> bool:
    """False: no tensor stands for the conjugate of what it holds."""
    return False


Tensor.is_neg = Tensor.has_names = is_conj


@_add
def resolve_conj(self: Tensor) -> Tensor:
    """The tensor."""
    return self


Tensor.resolve_neg = resolve_conj


@_add
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by a Python function of it; on the CPU alone, and slow."""
    if self.is_cuda:
        raise TypeError("apply_ is only implemented on CPU tensors")
    from smolder._creation import tensor

    elements = [callable(v) for v in self.detach().reshape(-1).tolist()]
    self.detach().copy_(tensor(elements, dtype=self.dtype).reshape(self.shape))
    return self


@_add
def new(self: Tensor, *args: Any, device: Device = None) -> Tensor:
    """A tensor of self's dtype, and where it is, as the legacy constructors make it: of a size, or of data."""
    from smolder._layouts import _constructed

    return _constructed(self.dtype, "new", args, self.device if device is None else device)


@_add
def record_stream(self: Tensor, s: Any) -> None:
    """Says that a stream uses the memory, which here is kept for what was given to any stream."""


def _add_in_place(name: str) -> None:
    """Adds `name`, which writes what the function without the underscore returns into the tensor."""

    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self.copy_(getattr(self, name[:-1])(*args, **kwargs))

    in_place.__name__, in_place.__doc__ = name, f"As {name[:-1]}, of the tensor itself."
    setattr(Tensor, name, in_place)


for _name in ("conj_physical_", "float_power_", "i0_", "igamma_", "igammac_", "mvlgamma_", "nextafter_", "polygamma_"):
    if not hasattr(Tensor, _name):
        _add_in_place(_name)


@_add
def unsafe_split(self: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """As split."""
    return self.split(split_size, dim)


@_add
def unsafe_split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """As split."""
    return self.split(split_sizes, dim)


@_add
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces each element by a Python function of it and of another tensor's; on the CPU alone, and slow."""
    if self.is_cuda:
        raise TypeError("map_ is only implemented on CPU tensors")
    other = iter(tensor.detach().expand_as(self).reshape(-1).tolist())
    return self.apply_(lambda value: callable(value, next(other)))


@_add
def _is_view(self: Tensor) -> bool:
    """Whether the tensor is a view of another."""
    return self._base is not None


def _output_nr(self: Tensor) -> int:
    return _core._gradient_node(self)[1] if self.grad_fn is not None else 0


Tensor.output_nr = property(_output_nr, doc="Which result of the op that computed it; 0 of a leaf.")


@_add
def dim_order(self: Tensor) -> tuple[int, ...]:
    """The dimensions from the one with the largest stride to that with the smallest."""
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda i: -strides[i]))


Tensor.names = property(lambda self: (None,) * self.dim(), doc="None for each dimension: they have no names.")
for _name in ("is_xpu", "is_mps", "is_mtia", "is_xla", "is_ipu", "is_maia", "is_vulkan", "is_nested", "is_sparse_csr"):
    setattr(Tensor, _name, property(lambda self: False, doc="False: there are no such tensors."))


_requires_grad = Tensor.requires_grad


def _set_requires_grad(self, on):
    if on is True and not self.is_leaf:
        raise RuntimeError("you can only change requires_grad flags of leaf variables.")
    _requires_grad.__set__(self, on)


Tensor.requires_grad = property(_requires_grad.fget, _set_requires_grad, doc=_requires_grad.__doc__)
