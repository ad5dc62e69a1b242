"""The memory that tensors share, as objects: torch's storages. Addresses are those of data_ptr()."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, overload

from smolder import _core
from smolder._names import listing as _listing
from smolder._types import name_of
from smolder._typing import Device, DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smolder._device import device as _device

__all__ = ["TypedStorage", "UntypedStorage"]
__dir__ = _listing(__name__)

Tensor = _core.Tensor


def _package() -> str:
    return repr(_core.uint8).partition(".")[0]  # torch under smolder.torch


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
            self._own = True
            holder = (
                zeros(given, dtype=uint8, device=device) if isinstance(given, int) else tensor(list(given), dtype=uint8)
            )
        self._identity, self._holder = holder._storage()

    _own = False  # whether no tensor but the holder is in the memory

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
        """Whether other processes see the memory."""
        return self._holder.is_shared()

    def share_memory_(self) -> Self:
        """Moves the memory to where other processes see it."""
        self._holder.share_memory_()
        self._identity = self._holder._storage()[0]
        return self

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
        """Makes the memory have so many bytes; those there are stay, and new ones are 0.

        Memory that tensors lie in only grows: they keep their shapes.
        """
        old = self.nbytes()
        if size == old:
            return self
        item = 1 if self._own else self._holder.itemsize
        if size < old and not self._own:
            raise NotImplementedError(
                f"UntypedStorage.resize_: {size} bytes for a tensor of {old} are not supported: tensors keep their shapes"
            )
        if size % item:
            raise NotImplementedError(
                f"UntypedStorage.resize_: {size} bytes are no whole number of elements of {name_of(self._holder.dtype)}"
            )
        holder, count = self._holder.detach(), min(size, old) // item
        larger = holder.new_zeros(size // item)
        larger[:count].copy_(holder.reshape(-1)[:count])
        if self._own:
            self._identity, self._holder = larger._storage()
        else:
            owner = self._holder._owner()
            owner._set_data(larger[:count].as_strided(owner.shape, owner.stride()))
            self._identity, self._holder = owner._storage()
        return self

    def _write(self, array: NDArray[Any]) -> Self:
        """Makes the bytes those of an array."""
        from smolder._creation import frombuffer, zeros

        holder = self._holder.detach()
        if holder.numel():
            made = frombuffer(bytearray(array.tobytes()), dtype=holder.dtype)
            holder.copy_(made.reshape(holder.shape) if made.numel() else zeros(holder.shape))
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> Self:
        """Writes the bytes of another storage of the same size."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        return self._write(source._bytes())

    def fill_(self, value: int) -> Self:
        """Makes each byte `value`."""
        import numpy

        return self._write(numpy.full(self.nbytes(), value, numpy.uint8))

    def __setitem__(self, index: int | slice, value: int) -> None:
        changed = self._bytes().copy()
        changed[index] = value
        self._write(changed)

    def cpu(self) -> UntypedStorage:
        """The bytes on the CPU: itself where they are there."""
        return self if self._holder.is_cpu else UntypedStorage(self._holder.detach().cpu())

    def cuda(self, device: Device = None, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a device of CUDA."""
        return UntypedStorage(self._holder.detach().cuda(device, non_blocking))

    def get_device(self) -> int:
        """The number of the device of CUDA that it is on; -1 on the CPU."""
        return self._holder.get_device()

    untyped = untyped_storage

    def __repr__(self) -> str:
        elements = "".join(f" {byte}\n" for byte in self.tolist())
        return f"{elements}[{_package()}.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


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
        """Whether other processes see the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> Self:
        """Moves the memory to where other processes see it."""
        self._untyped_storage.share_memory_()
        return self

    def resize_(self, size: int) -> Self:
        """Makes it have so many elements, as UntypedStorage.resize_ makes bytes."""
        self._untyped_storage.resize_(size * self.element_size())
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> Self:
        """Writes the elements of another storage of the same size and dtype."""
        self._untyped_storage.copy_(source._untyped_storage)
        return self

    def cpu(self) -> TypedStorage:
        """The elements on the CPU."""
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a device of CUDA."""
        return self._untyped_storage.is_cuda

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
        elements = "".join(f" {element}\n" for element in self.tolist())
        kind = f"{_package()}.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{elements}[{kind} of size {self.size()}]"
