"""Files of torch.save and torch.load: an archive with a pickle and, raw, the storages of its tensors.

What is written here torch.load reads, and the other way round. Tensors that share storage share it again when loaded.
"""

from __future__ import annotations

import collections.abc
import contextlib
import io
import os
import pickle
import struct
import sys
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from mmap import MAP_PRIVATE, MAP_SHARED
from typing import IO, Any, ClassVar

import numpy

from smolder import _core, _layouts, _unheld
from smolder._creation import from_numpy
from smolder._device import CPU, device, moved, usable_device
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._strided import view_of
from smolder._tensor import Size, Tensor
from smolder._typing import PathLike
from smolder._unpickler import Unpickler, UnpicklingError
from smolder.nn.members import Members
from smolder.nn.parameter import Parameter, is_lazy

__all__ = [
    "MAP_LOCATION", "add_safe_globals", "clear_safe_globals", "get_default_mmap_options", "get_safe_globals", "load",
    "register_package", "safe_globals", "save", "set_default_mmap_options",
]  # fmt: skip
__dir__ = _listing(__name__)

# Type of load's map_location, as programs annotate it.
MAP_LOCATION: Any = collections.abc.Callable[[Any, str], Any] | device | str | dict[str, str] | None

_ALIGNMENT = 64  # of storages in the file, as in torch's
_LOCAL_HEADER = 30  # bytes of a zip record's header before its name
_MOST_ALIGNED = 16  # bytes: the largest element's
_COMMENT = 0x4246  # the field that torch fills up with to align them

# torch's names of storages.
_STORAGES = {"float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16"}
_STORAGES |= {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}
_STORAGES |= {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}
_STORAGES = {getattr(_core, k): f"{v}Storage" for k, v in _STORAGES.items()}
_OTHER_STORAGES = ("QInt8", "QUInt8", "QInt32")
# Those whose storages have no type: torch writes bytes, and the dtype beside them.
_UNTYPED = {n: getattr(_unheld, n) for n in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")}


_packages: list[tuple[int, Any, Any]] = []  # of register_package, in the order in which they are asked
_PRIORITIES = {"cpu": 10, "cuda": 20}  # torch's, of the devices that are here


def register_package(priority: int, tagger: Any, deserializer: Any) -> None:
    """Says where storages belong: for devices that are not here, and, where priority is low, for those that are.

    tagger(storage) names the device that a file shall tell, or gives None; deserializer(storage, location) puts a
    storage of a file, which has cpu() and cuda(), where it shall be, and returns it, or gives None. The first that
    does not give None, by priority, decides; the CPU has 10, CUDA 20.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def _tag(tensor):
    """The device of a tensor as a file tells it."""
    own = str(tensor.device)
    before = _PRIORITIES.get(tensor.device.type, float("inf"))
    tags = (tagger(tensor.untyped_storage()) for priority, tagger, _ in _packages if priority < before)
    return next((tag for tag in tags if tag is not None), own)


def _is_restored(storage, location, kind):
    """Whether a package put a storage where it shall be."""
    before = _PRIORITIES.get(kind, float("inf"))
    return any(put(storage, location) is not None for priority, _, put in _packages if priority < before)


# -- writing


class _Global:
    """A name of torch's, which pickles as such."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *arguments):
        raise TypeError(f"{self.module}.{self.name} is only a name")


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_SPARSE = _Global("torch._utils", "_rebuild_sparse_tensor")
_LAYOUT = _Global("torch.serialization", "_get_layout")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_REBUILD_WITH_STATE = _Global("torch._tensor", "_rebuild_from_type_v2")
_REBUILD_WRAPPER = _Global("torch._utils", "_rebuild_wrapper_subclass")
_CLASSES = {Tensor: _Global("torch", "Tensor"), Parameter: _Global("torch.nn.parameter", "Parameter")}
_REBUILD_UNTYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_DTYPES = {d: _Global("torch", repr(d).removeprefix("smolder.")) for d in _STORAGES}
_DTYPES |= {d: _Global("torch", name) for name, d in _UNTYPED.items()}
_UNTYPED_STORAGE = _Global("torch.storage", "UntypedStorage")
_TYPED_STORAGES = {d: _Global("torch", name) for d, name in _STORAGES.items()}
_SIZE, _DEVICE = _Global("torch", "Size"), _Global("torch", "device")


class _PersistentStorage:
    def __init__(self, pid):
        self.pid = pid


class _Pickler(pickle._Pickler):  # the one in C imports what it names
    """Pickles tensors, sizes, dtypes and devices as torch does, and notes the storages they need."""

    def __init__(self, file: Any, protocol: Any) -> None:
        super().__init__(file, protocol)
        self.storages = {}  # of who holds one: key, tensor, dtype of those that are saved

    def persistent_id(self, obj: object) -> Any:
        return obj.pid if type(obj) is _PersistentStorage else None

    def save_global(self, obj: object, name: str | None = None) -> Any:
        if type(obj) is not _Global:
            return super().save_global(obj, name)
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    # A module's dictionaries of members are plain ones in files, as torch's are.
    dispatch: ClassVar = {**pickle._Pickler.dispatch, _Global: save_global, Members: pickle._Pickler.save_dict}

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, Tensor):
            return NotImplemented if is_lazy(obj) else self._reduce_tensor(obj)
        if isinstance(obj, Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, _layouts.layout):
            return _LAYOUT, (f"torch.{obj.name}",)
        if isinstance(obj, device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        if isinstance(obj, _core.dtype):
            obj = _DTYPES[obj]
        elif isinstance(obj, type) and obj in _CLASSES:
            obj = _CLASSES[obj]
        super().save(obj, save_persistent_id)

    def _reduce_tensor(self, tensor):
        if tensor.layout is not _layouts.strided:
            return _REBUILD_SPARSE, tensor.__reduce_ex__(2)[1][:2]
        state = {k: v for k, v in vars(tensor).items() if k != "grad"}
        if _core._is_wrapper(tensor):  # its elements are in tensors among its attributes
            parts = _REBUILD_WRAPPER, (
                type(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
                tensor.layout, tensor.device, tensor.requires_grad,
            )  # fmt: skip
        elif type(tensor) is Parameter:
            parts = _REBUILD_PARAMETER, (tensor.detach(), tensor.requires_grad, OrderedDict())
        else:
            identity, holder = tensor._storage()
            size = _elements_of(holder) * holder.itemsize
            key, _, dtype = self.storages.setdefault(identity, (str(len(self.storages)), holder, tensor.dtype))
            if dtype != tensor.dtype:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different types"
                )
            elements = size // tensor.itemsize  # which the holder may have as pairs of parts
            where = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
            if isinstance(tensor.dtype, _unheld.UnheldDtype):
                storage = ("storage", _UNTYPED_STORAGE, key, _tag(tensor), size)
                return _REBUILD_UNTYPED, (_PersistentStorage(storage), *where, False, OrderedDict(), tensor.dtype)
            storage = ("storage", _TYPED_STORAGES[tensor.dtype], key, _tag(tensor), elements)
            parts = _REBUILD_TENSOR, (_PersistentStorage(storage), *where, tensor.requires_grad, OrderedDict())
        if not state and type(tensor) in (Tensor, Parameter):
            return parts
        return _REBUILD_WITH_STATE, (parts[0], type(tensor), parts[1], state)


def _elements_of(holder):
    """How many elements the storage has that a tensor holds: gaps count where it was somebody else's memory."""
    if not holder.numel():
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(holder.shape, holder.stride(), strict=True))


def _write_record(archive, name, data):
    """Adds a record whose bytes start at a multiple of the alignment."""
    info = zipfile.ZipInfo(name)
    size = memoryview(data).nbytes
    head = 30 + len(name.encode()) + 4  # of what is written before them
    if size > zipfile.ZIP64_LIMIT / 1.05:  # where zipfile adds a field of its own
        head += 20
    fill = -(archive.fp.tell() + head) % _ALIGNMENT
    info.extra = _COMMENT.to_bytes(2, "little") + fill.to_bytes(2, "little") + b"Z" * fill
    info.file_size = size
    with archive.open(info, "w") as record:
        record.write(data)


def _write(obj, file, name, protocol):
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        records = {"data.pkl": pickled.getvalue(), ".format_version": b"1", ".storage_alignment": b"64"}
        records |= {"byteorder": b"little"}
        for key, data in records.items():
            _write_record(archive, f"{name}/{key}", data)
        for key, holder, _ in pickler.storages.values():  # the first read computes all that is pending
            _write_record(archive, f"{name}/data/{key}", holder.cpu()._contents())
        _write_record(archive, f"{name}/version", b"3\n")


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file that takes the place of the one at `path` when all is written: what was there is whole until then."""
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        with open(path, "wb") as file:
            yield file
        return
    handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".tmp", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode_of(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _mode_of(path):
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path).st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def save(
    obj: object,
    f: PathLike | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes obj to a file, by name or open for writing. Everything pending is computed once.

    A file by name is replaced when all is written, so that a process killed meanwhile leaves the old one.
    """
    if pickle_module is not pickle:
        raise NotImplementedError("save: pickle_module is not supported: tensors are pickled by a pickler of our own")
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("save: the format before torch 1.6 is not supported")
    if isinstance(f, str | os.PathLike):
        folder = os.path.dirname(os.fspath(f))
        if folder and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
        with replacing(f) as file:
            _write(obj, file, os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive", pickle_protocol)
    elif hasattr(f, "write"):
        _write(obj, f, "archive", pickle_protocol)
    else:
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )


# -- reading

_safe = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Marks classes and functions as safe: load makes objects of those, and calls these.

    A pair of one, or of a dtype, and a path, as "package.module.Name", stands for what a file calls so.
    """
    for cls in safe_globals:
        of, path = cls if isinstance(cls, tuple) and len(cls) == 2 else (cls, "")
        is_dtype = isinstance(of, _core.dtype | _unheld.UnheldDtype) and bool(path)
        if not (is_dtype or (callable(of) and hasattr(of, "__qualname__"))) or not isinstance(path, str):
            raise TypeError(f"add_safe_globals() takes classes and functions, got {cls!r}")
        if cls not in _safe:
            _safe.append(cls)


def get_safe_globals() -> list[Any]:
    """The classes and functions that were marked as safe."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Takes the marks off again."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Within it, classes and functions are marked as safe."""
    before = list(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before


class _UnsupportedDtype:
    def __init__(self, name):
        self.name = name

    def refuse(self):
        raise NotImplementedError(
            f"load: {self.name} is not supported; supported are " + ", ".join(repr(d) for d in _STORAGES)
        )


class _StorageType:
    def __init__(self, dtype, untyped=False):
        self.dtype, self.untyped = dtype, untyped


class _Storage:
    """A storage that tensors of a file are views of. The tensor that holds it is made for the first of them."""

    def __init__(self, data, dtype):
        self.data, self.dtype, self.elements, self.holder = data, dtype, data.nbytes // dtype.itemsize, None
        self.device = CPU

    def cpu(self):
        """For a map_location that is a function: the storage goes to the CPU."""
        self.device = CPU
        return self

    def cuda(self, device=None):
        """The same: it goes to a device of CUDA, the current one unless said."""
        self.device = usable_device("cuda" if device is None else device)
        return self

    def tensor(self, offset, size, stride):
        _check_window(self, offset, size, stride)
        if self.holder is None:
            whole = offset == 0 and Size(size).numel() == self.elements and _is_row_major(size, stride)
            shape = size if whole else (self.elements,)
            self.holder = moved(self._made(shape), self.device)
            self.data = None
            if whole:
                return self.holder
        flat = self.holder.detach().reshape(self.elements)
        return view_of(flat, offset, size, stride).detach()

    def _made(self, shape):
        """A tensor of the bytes: a copy, or, where they are those of a file in memory, of these themselves."""
        if not self.data.flags.writeable:
            return _core._from_contents(self.data, list(shape), self.dtype)
        return from_numpy(self.data).view(self.dtype).reshape(shape)


def _check_window(storage, offset, size, stride):
    numbers = (offset, *size, *stride)
    if not all(type(n) is int for n in numbers) or len(size) != len(stride):
        raise UnpicklingError(
            f"a tensor has size {size!r:.200}, stride {stride!r:.200} and storage offset {offset!r:.200}"
        )
    if min(size, default=0) < 0 or offset < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension or offset: {list(size)}, {offset}")
    if min(stride, default=0) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    elements = Size(size).numel()
    needed = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if elements else 0
    if needed > storage.elements or elements >= 2**63:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{storage.dtype.itemsize} requiring a storage size of {needed * storage.dtype.itemsize} are out of bounds "
            f"for storage of size {storage.elements * storage.dtype.itemsize}"
        )


def _is_row_major(size, stride):
    expected = 1
    for n, s in zip(reversed(size), reversed(stride), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= max(n, 1)
    return True


def _restore_location(location, map_location, storage):
    """Sends a storage that was on some device to where it shall be."""
    if map_location is None:
        target = location
    elif isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif isinstance(map_location, str | device):
        target = str(map_location)
    else:
        if map_location(storage, location) is not None:  # the storage itself, which knows where it goes
            return
        target = location
    kind = str(target).partition(":")[0]
    if _packages and _is_restored(storage, target, kind):
        return
    if kind not in _PRIORITIES:
        raise RuntimeError(f"don't know how to restore data location of a storage (tagged with {target})")
    if kind == "cuda" and not _core._cuda_is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but there is none. If you are running on a CPU-only "
            "machine, please use smolder.load with map_location='cpu' to map your storages to the CPU."
        )
    storage.device = usable_device(target)


def _rebuild_tensor(storage, offset, size, stride, requires_grad=False, backward_hooks=None, metadata=None):
    if metadata:
        raise NotImplementedError(f"load: tensors with metadata {metadata!r:.200} are not supported")
    if not isinstance(storage, _Storage):
        raise UnpicklingError(f"a tensor has a {type(storage).__name__} for a storage")
    with no_grad():
        out = storage.tensor(offset, tuple(size), tuple(stride))
    return out.requires_grad_() if requires_grad else out


def _rebuild_untyped(storage, offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    """A tensor of a dtype that storages have no type of, whose bytes are read now."""
    from smolder import _bits

    if not isinstance(dtype, _core.dtype):
        raise UnpicklingError(f"a tensor has {dtype!r:.200} for a dtype")
    carrier = _bits.carrier_of(dtype)
    if isinstance(storage, _Storage) and storage.holder is None:
        storage.dtype, storage.elements = carrier, storage.data.nbytes // carrier.itemsize
    if getattr(storage, "dtype", None) != carrier:
        raise NotImplementedError("load: tensors of different types on one storage are not supported")
    out = _rebuild_tensor(storage, offset, size, stride, requires_grad, backward_hooks, metadata)
    return _bits.of_bits(out, dtype) if isinstance(dtype, _unheld.UnheldDtype) else out


def _rebuild_parameter(data, requires_grad=True, backward_hooks=None, state=None):
    return _with_state(Parameter(data, bool(requires_grad)), state)


def _rebuild_from_type(function, kind, arguments, state):
    out = function(*arguments)
    if kind is not type(out):
        if not (isinstance(kind, type) and issubclass(kind, Tensor)):  # which the unpickler allows, or took on trust
            raise UnpicklingError(f"a tensor of type {kind!r:.200} is not allowed")
        if kind is Parameter:
            out = Parameter(out, out.requires_grad)
        else:
            out = Tensor(out) if kind is Tensor else Tensor._make_subclass(kind, out, out.requires_grad)
    return _with_state(out, state)


def _rebuild_wrapper(kind, dtype, size, stride, storage_offset, layout, where, requires_grad):
    options = {"layout": layout, "device": where, "requires_grad": requires_grad, "storage_offset": storage_offset}
    return Tensor._make_wrapper_subclass(kind, size, strides=stride, dtype=dtype, **options)


def _with_state(tensor, state):
    if isinstance(state, tuple) and len(state) == 2:  # attributes, and those of slots
        state = state[0]
    if state:
        vars(tensor).update(state)
    return tensor


def _rebuild_sparse(layout, data):
    from smolder._sparse._make import rebuilt

    if not isinstance(data, tuple) or not isinstance(layout, _layouts.layout):
        raise UnpicklingError("a sparse tensor has no parts")
    return rebuilt(layout, data)


def _layout(name):
    found = {f"torch.{c.name}": c for c in _layouts.CONSTANTS if isinstance(c, _layouts.layout)}
    if name not in found:
        raise UnpicklingError(f"the layout {name!r:.100} is not supported")
    return found[name]


def _size(extents):
    if not isinstance(extents, tuple):
        raise UnpicklingError("a size is made of a tuple")
    return Size(extents)


def _names():
    """The names that torch's pickles use for the parts of tensors."""
    out = {f"torch.{name}": _StorageType(dtype) for dtype, name in _STORAGES.items()}
    out |= {f"torch.{repr(d).removeprefix('smolder.')}": d for d in _STORAGES}
    out |= {f"torch.{n}Storage": _UnsupportedDtype(n) for n in _OTHER_STORAGES}
    out |= {f"torch.{n}": d for n, d in _UNTYPED.items()}
    out |= {"torch.storage.UntypedStorage": _StorageType(_core.uint8, untyped=True)}
    out |= {"torch._utils._rebuild_tensor_v3": _rebuild_untyped}
    out |= {"torch.Tensor": Tensor, "torch.nn.parameter.Parameter": Parameter}
    out |= {"torch.Size": _size, "torch.device": device, "smolder._core.dtype_named": _core.dtype_named}
    out |= {f"smolder._layouts.{c.name}": c for c in _layouts.CONSTANTS}
    out |= {"torch._utils._rebuild_tensor_v2": _rebuild_tensor, "torch._utils._rebuild_parameter": _rebuild_parameter}
    out |= {"torch._utils._rebuild_parameter_with_state": _rebuild_parameter}
    out |= {"torch._tensor._rebuild_from_type_v2": _rebuild_from_type}
    out |= {"torch._utils._rebuild_wrapper_subclass": _rebuild_wrapper}
    out |= {"torch._utils._rebuild_sparse_tensor": _rebuild_sparse, "torch.serialization._get_layout": _layout}
    return out


_NAMES = _names()


class _FullUnpickler(pickle.Unpickler):
    """Runs whatever a pickle says; what it calls torch's is ours."""

    def __init__(self, file, persistent_load):
        super().__init__(file)
        self._load_storage = persistent_load

    def find_class(self, module, name):
        known = _NAMES.get(f"{module}.{name}")
        return super().find_class(module, name) if known is None else known

    def persistent_load(self, pid):
        return self._load_storage(pid)


_mmap_options = MAP_PRIVATE  # of files that load(mmap=True) reads


def get_default_mmap_options() -> int:
    """How load(mmap=True) maps a file: mmap.MAP_PRIVATE, or mmap.MAP_SHARED, with which writes to tensors go to it."""
    return _mmap_options


class set_default_mmap_options:
    """Sets how load(mmap=True) maps a file, until the end of a `with`, or for good: mmap.MAP_PRIVATE or mmap.MAP_SHARED."""

    prev: int

    def __init__(self, flags: int) -> None:
        global _mmap_options
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev, _mmap_options = _mmap_options, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _mmap_options
        _mmap_options = self.prev


class _Archive:
    """The records of a file, none of them larger than the file says it is; `mapped` are the file's bytes in memory."""

    def __init__(self, file, mapped=None):
        self.file, self.mapped = file, mapped
        try:
            self.zip = zipfile.ZipFile(file)
            infos = self.zip.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, EOFError, OSError) as e:
            raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {e}") from e
        self.infos = {info.filename: info for info in infos}
        self.prefix = infos[0].filename.partition("/")[0] if infos else ""
        size = file.seek(0, os.SEEK_END)
        if len(self.infos) != len(infos) or sum(info.file_size for info in infos) > size:
            raise RuntimeError("PytorchStreamReader failed reading zip archive: records overlap or are compressed")

    def has(self, name):
        return f"{self.prefix}/{name}" in self.infos

    def _info(self, name):
        info = self.infos.get(f"{self.prefix}/{name}")
        if info is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it is compressed or encrypted")
        return info

    def bytes_of(self, name):
        """The bytes of a record: read, or, of a file that is mapped, where they are, unless they are not aligned."""
        if self.mapped is None:
            return numpy.frombuffer(self.read(name), dtype=numpy.uint8)
        info = self._info(name)
        header = bytes(self.mapped[info.header_offset : info.header_offset + _LOCAL_HEADER])
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: its header is damaged")
        begin = info.header_offset + _LOCAL_HEADER + sum(struct.unpack("<HH", header[-4:]))
        data = self.mapped[begin : begin + info.file_size]
        if len(data) != info.file_size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: the file ends before it does")
        return data if begin % _MOST_ALIGNED == 0 else data.copy()

    def read(self, name):
        info = self._info(name)
        try:
            return self.zip.read(info)
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, struct.error, OSError) as e:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: {e}") from e


class _Storages:
    """Makes storages of persistent ids, each once."""

    def __init__(self, archive, map_location):
        self.archive, self.map_location, self.known = archive, map_location, {}
        order = archive.read("byteorder") if archive.has("byteorder") else b"little"
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order!r:.100}")
        self.swapped = order.decode() != sys.byteorder

    def __call__(self, pid):
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise UnpicklingError(f"Unknown typename for persistent_load, expected 'storage' but got {pid!r:.200}")
        _, kind, key, location, elements = pid
        if isinstance(kind, _UnsupportedDtype):
            kind.refuse()
        if not isinstance(kind, _StorageType) or not isinstance(key, str) or not isinstance(location, str):
            raise UnpicklingError(f"a storage is described as {pid!r:.200}")
        if key not in self.known:
            if kind.untyped and self.swapped:
                raise NotImplementedError("load: storages without a type in another byte order are not supported")
            self.known[key] = self._read(kind.dtype, key, location, elements)
        storage = self.known[key]
        if storage.dtype != kind.dtype and not kind.untyped:
            raise NotImplementedError("load: tensors of different types on one storage are not supported")
        return storage

    def _read(self, dtype, key, location, elements):
        data = self.archive.bytes_of(f"data/{key}")
        if data.nbytes != dtype.itemsize * elements:
            raise RuntimeError(
                f"storage {key} has {data.nbytes} bytes in the file, but is said to hold {elements!r:.100} elements of {dtype}"
            )
        if dtype == _core.bool:
            if data.max(initial=0) > 1:
                data = (data != 0).view(numpy.uint8)  # any other byte is no bool
        elif self.swapped:
            data = data.view(f"u{dtype.itemsize}").byteswap().view(numpy.uint8)
        storage = _Storage(data, dtype)
        _restore_location(location, self.map_location, storage)
        return storage


def load(
    f: PathLike | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what save or torch.save wrote to a file, given by name or open for reading.

    Reading runs no code: a pickle that names other than tensors, containers and numbers raises
    pickle.UnpicklingError. weights_only=False unpickles anything, and so runs whatever the file says: only for files
    from where you trust. map_location says where storages go that were on another device, as "cpu". With mmap tensors
    on the CPU are the file's bytes, read as they are asked for; a write to one changes it alone, unless
    set_default_mmap_options said otherwise. The file must stay as it is.
    """
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if pickle_module not in (None, pickle):
        raise NotImplementedError("load: pickle_module is not supported")
    if set(pickle_load_args) - {"encoding"}:
        raise TypeError(f"load() got unexpected arguments {sorted(set(pickle_load_args) - {'encoding'})}")
    if not (map_location is None or isinstance(map_location, str | device | dict) or callable(map_location)):
        raise TypeError(f"load: map_location must be a device, a string, a dict or a function, got {map_location!r}")
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return _load(file, map_location, weights_only, _mapped(f) if mmap else None)
    if not hasattr(f, "read") or not hasattr(f, "seek"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute '{'seek' if hasattr(f, 'read') else 'read'}'. You can only "
            "load from a file that is seekable. Please pre-load the data into a buffer like io.BytesIO and try to load "
            "from it instead."
        )
    return _load(f, map_location, weights_only)


def _mapped(name):
    return (
        numpy.memmap(name, numpy.uint8, "r+" if _mmap_options == MAP_SHARED else "c") if os.path.getsize(name) else None
    )


def _load(file, map_location, weights_only, mapped=None):
    start = file.read(4)
    file.seek(-len(start), os.SEEK_CUR)
    if not start:
        raise EOFError("Ran out of input")
    if start != b"PK\x03\x04":
        raise UnpicklingError(
            "load: this is no archive as torch.save writes since torch 1.6; files from before are not supported"
        )
    archive = _Archive(file, mapped)
    if archive.has("constants.pkl"):
        raise RuntimeError("load: this is a TorchScript archive, which is not supported")
    pickled, storages = archive.read("data.pkl"), _Storages(archive, map_location)
    if not weights_only:
        return _FullUnpickler(io.BytesIO(pickled), storages).load()
    try:
        return Unpickler(pickled, _NAMES, storages, _safe).load()
    except UnpicklingError as e:
        raise UnpicklingError(
            f"Weights only load failed. Re-running `smolder.load` with `weights_only` set to `False` will likely "
            "succeed, but it can result in arbitrary code execution. Do it only if you got the file from a trusted "
            f"source.\nWeightsUnpickler error: {e}"
        ) from None
