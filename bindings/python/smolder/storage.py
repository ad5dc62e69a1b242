"""The memory that tensors share, as objects: torch's storages. Addresses are those of data_ptr()."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from smolder import _core
from smolder._names import listing as _listing
from smolder._types import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

    from numpy.typing import NDArray

    from smolder._device import device as _device
    from smolder._typing import Device, DType

__all__ = ["TypedStorage", "UntypedStorage"]
__dir__ = _listing(__name__)

Tensor = _core.Tensor


class UntypedStorage:
    """The bytes that a tensor's storage has. Storages of one memory are equal; reading one ends the step."""

    def __init__(self, *args: Any, device: Device = None) -> None:
        from smolder._creation import zeros

        if len(args) == 1 and isinstance(args[0], Tensor):
            holder = args[0]
        else:
            from smolder._creation import tensor

            given = args[0] if args else 0
            uint8 = _core.uint8
            holder = (
                zeros(given, dtype=uint8, device=device) if isinstance(given, int) else tensor(list(given), dtype=uint8)
            )
        self._identity, self._holder = holder._storage()

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file, which are read as they are asked for. With shared, writes go to the file."""
        import numpy

        mapped = numpy.memmap(filename, dtype=numpy.uint8, mode="r+" if shared else "c", shape=(nbytes,))
        return cls._of_array(mapped)

    @classmethod
    def _of_array(cls, array: NDArray[Any]) -> UntypedStorage:
        from smolder._creation import from_numpy

        out = cls.__new__(cls)
        out._holder = from_numpy(array)
        out._identity = out._holder._storage()[0]
        return out

    def data_ptr(self) -> int:
        """The address of the first byte, which a later write may move."""
        return self._holder.data_ptr()

    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._holder.numel() * self._holder.itemsize

    def size(self) -> int:
        """The same."""
        return self.nbytes()

    def __len__(self) -> int:
        return self.nbytes()

    @property
    def device(self) -> _device:
        """Where it is."""
        return self._holder.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a device of CUDA."""
        return self._holder.is_cuda

    @property
    def _cdata(self) -> int:
        return self._identity

    def is_shared(self) -> bool:
        """False: no memory is shared between processes."""
        return False

    def is_pinned(self, device: Device = None) -> bool:
        """Whether it is in memory that CUDA's devices read by themselves."""
        return self._holder.is_pinned()

    def element_size(self) -> int:
        """1."""
        return 1

    def _bytes(self) -> NDArray[Any]:
        return self._holder.detach().reshape(-1).cpu().numpy().view("uint8")

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        return self._bytes().tolist()

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> UntypedStorage: ...
    def __getitem__(self, index: int | slice) -> int | UntypedStorage:
        if isinstance(index, slice):
            return UntypedStorage._of_array(self._bytes()[index])
        return int(self._bytes()[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        out = self._bytes()
        return out if dtype is None else out.astype(dtype)

    def untyped_storage(self) -> Self:
        """Itself."""
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def clone(self) -> UntypedStorage:
        """A copy in memory of its own."""
        return UntypedStorage(self._holder.detach().clone())

    def resize_(self, size: int) -> Self:
        """Raises unless the size is what it is: memory is of the size of the tensor that holds it."""
        if size != self.nbytes():
            raise NotImplementedError("UntypedStorage.resize_ is not supported: memory has the size of its tensor")
        return self

    untyped = untyped_storage

    def __repr__(self) -> str:
        return f"[storage of {self.nbytes()} bytes on {self.device}]"


class TypedStorage:
    """The same as elements of a dtype."""

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: DType) -> None:
        self._untyped_storage = wrap_storage
        self.dtype: DType = dtype

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """The address of the first element, which a later write may move."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes an element takes."""
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements it has."""
        return self.nbytes() // self.element_size()

    __len__ = _size = size

    @property
    def device(self) -> _device:
        """Where it is."""
        return self._untyped_storage.device

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def is_shared(self) -> bool:
        """False: no memory is shared between processes."""
        return False

    def tolist(self) -> list[Any]:
        """The elements as numbers."""
        return self._untyped_storage._holder.detach().reshape(-1).tolist()

    def __getitem__(self, index: int | slice) -> Any:
        return self.tolist()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        return f"[storage of {self.size()} elements of {name_of(self.dtype)} on {self.device}]"
