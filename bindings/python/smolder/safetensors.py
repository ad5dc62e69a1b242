"""Files of the safetensors format: a header in JSON that names tensors, and their elements."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Self

import numpy

from smolder import _core, _unheld
from smolder._device import CPU, moved, usable_device
from smolder._names import listing as _listing
from smolder._tensor import Tensor
from smolder._typing import Device, PathLike
from smolder.serialization import replacing

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]
__dir__ = _listing(__name__)

# In the order in which the package writes them: the widest first, so that all are aligned.
_NAMES = {_core.int64: "I64", _core.float64: "F64", _core.float32: "F32", _core.int32: "I32"}
_NAMES |= {_core.bfloat16: "BF16", _core.float16: "F16", _core.int16: "I16", _core.complex64: "C64"}
_NAMES |= {_core.uint8: "U8", _core.int8: "I8", _core.bool: "BOOL"}
_NAMES |= {_unheld.uint64: "U64", _unheld.uint32: "U32", _unheld.uint16: "U16"}
_NAMES |= {_unheld.float8_e4m3fn: "F8_E4M3", _unheld.float8_e5m2: "F8_E5M2"}
_ORDER = sorted(_NAMES, key=lambda dtype: -dtype.itemsize)
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_MOST_HEADER = 100_000_000  # bytes, as the safetensors package has it


class SafetensorError(Exception):
    """A file that is no safetensors file, or says what is not so."""


# -- writing


def _check(tensors):
    """Raises what the safetensors package does for what the format does not hold."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, smolder.Tensor] but received {type(tensors)}")
    names_of = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected smolder.Tensor but received {type(tensor)}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor must be a string, got {type(name).__name__}")
        if tensor.numel():
            names_of.setdefault(tensor._storage()[0], []).append(name)
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are "
                "trying to save tensors which are reference of each other in which case it's recommended to save only "
                "the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it "
                "before saving."
            )
    shared = [set(names) for names in names_of.values() if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
            f"loading them again: {shared}. Save one of each, or clone() them."
        )


def _parts(tensors, metadata):
    """The header, and the bytes of each tensor."""
    _check(tensors)
    if metadata is not None and not all(isinstance(t, str) for kv in metadata.items() for t in kv):
        raise TypeError("metadata must be a dict of strings")
    header, parts, at = {}, [], 0
    if metadata is not None:
        header["__metadata__"] = dict(metadata)
    for name, tensor in sorted(tensors.items(), key=lambda kv: (_ORDER.index(kv[1].dtype), kv[0])):
        data = tensor.detach().clone()._contents() if _is_part(tensor) else tensor._contents()
        entry = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape)}
        header[name] = entry | {"data_offsets": [at, at + data.nbytes]}
        parts.append(data)
        at += data.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *parts]


def _is_part(tensor):
    """Whether a tensor is not all of its storage."""
    holder = tensor._storage()[1]
    return holder.numel() != tensor.numel() or not holder.is_contiguous()


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file with tensors by name; metadata is a dict of strings."""
    return b"".join(bytes(part) for part in _parts(tensors, metadata))


def save_file(tensors: dict[str, Tensor], filename: PathLike, metadata: dict[str, str] | None = None) -> None:
    """Writes tensors by name to a file, which is replaced when all is written; metadata is a dict of strings."""
    parts = _parts(tensors, metadata)
    with replacing(filename) as file:
        for part in parts:
            file.write(part)


# -- reading


def _refuse(what):
    raise SafetensorError(f"Error while deserializing header: {what}")


def _unique(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        _refuse("a name occurs twice")
    return out


def _parse(text):
    if text[:1] != b"{":
        _refuse("InvalidHeaderStart")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as e:
        raise SafetensorError(f"Error while deserializing header: InvalidHeaderDeserialization: {e}") from None
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not (isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())):
        _refuse("__metadata__ is no dict of strings")
    return header, metadata


def _is_size(value):
    return type(value) is int and 0 <= value < 2**63


def _check_entry(name, entry):
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        _refuse(f"tensor `{name}` has not the fields dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(entry["dtype"], str):
        _refuse(f"the dtype of tensor `{name}` is no text")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        _refuse(f"tensor `{name}` has shape {shape!r:.100}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        _refuse(f"tensor `{name}` has offsets {offsets!r:.100}")


def _elements(shape):
    out = 1
    for n in shape if 0 not in shape else [0]:
        out *= n
        if out >= 2**63:  # no file has so many; a long list of such extents would take for ever
            break
    return out


class safe_open:
    """A file of tensors, of which each is read when it is asked for: `with safe_open(name) as f: f.get_tensor("w")`."""

    def __init__(self, filename: PathLike, framework: str = "pt", device: Device = "cpu") -> None:
        if framework not in ("pt", "torch", "pytorch"):
            raise NotImplementedError(f"safe_open: framework {framework!r} is not supported; tensors are Smolder's")
        self._device = usable_device(device)
        try:
            self._begin(open(filename, "rb"))  # noqa: SIM115 - closed by __exit__
        except SafetensorError as e:
            raise SafetensorError(f"{os.fspath(filename)}: {e}") from None

    def _begin(self, file):
        self._file = file
        try:
            self._read_header()
        except BaseException:
            file.close()
            raise

    def _read_header(self):
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if size < 8:
            _refuse("HeaderTooSmall")
        length = int.from_bytes(self._file.read(8), "little")
        if length > _MOST_HEADER:
            _refuse("HeaderTooLarge")
        if 8 + length > size:
            _refuse("InvalidHeaderLength")
        self._tensors, self._metadata = _parse(self._file.read(length))
        self._start = 8 + length
        self._check_layout(size - self._start)

    def _check_layout(self, size):
        """Every byte after the header belongs to one tensor, which has as many as its shape and dtype say."""
        at = 0
        for name, entry in self._tensors.items():
            _check_entry(name, entry)
        for name, entry in sorted(self._tensors.items(), key=lambda kv: kv[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            if begin != at or end < begin:
                _refuse(f"InvalidOffset: tensor `{name}` is at {begin} to {end}, and {at} is where it must begin")
            dtype = _DTYPES.get(entry["dtype"])
            if dtype is not None and _elements(entry["shape"]) * dtype.itemsize != end - begin:
                _refuse(f"TensorInvalidInfo: tensor `{name}` has {end - begin} bytes for shape {entry['shape']!r:.100}")
            at = end
        if at != size:
            _refuse(f"MetadataIncompleteBuffer: tensors take {at} bytes of {size}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """Names of tensors, sorted."""
        return sorted(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """The dict of strings that the file came with, or None."""
        return self._metadata

    def get_tensor(self, name: str) -> Tensor:
        """A tensor of the file."""
        entry = self._tensors.get(name)
        if entry is None:
            raise SafetensorError(f"File does not contain tensor {name}")
        if entry["dtype"] not in _DTYPES:
            raise NotImplementedError(
                f"safetensors: tensor `{name}` has dtype {entry['dtype']}, which is not supported; supported are "
                + ", ".join(_DTYPES)
            )
        begin, end = entry["data_offsets"]
        self._file.seek(self._start + begin)
        data = self._file.read(end - begin)
        if len(data) != end - begin:
            raise SafetensorError(f"the file ends within tensor `{name}`")
        array = numpy.frombuffer(data, dtype=numpy.uint8)
        dtype = _DTYPES[entry["dtype"]]
        if dtype == _core.bool:
            array = (array != 0).view(numpy.uint8)  # any other byte is no bool
        try:
            if isinstance(dtype, _unheld.UnheldDtype):
                from smolder import _bits

                return _bits.of_contents(array, entry["shape"], dtype).to(device=self._device)
            out = _core._from_contents(array, entry["shape"], dtype)
        except (RuntimeError, ValueError, TypeError) as error:  # extents or dimensions that no tensor has
            raise SafetensorError(f"tensor `{name}` cannot have shape {str(entry['shape'])[:200]}: {error}") from error
        return moved(out, self._device)


def load_file(filename: PathLike, device: Device = "cpu") -> dict[str, Tensor]:
    """The tensors of a file, by name."""
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of the bytes of a file, by name."""
    file = safe_open.__new__(safe_open)
    file._device = CPU
    file._begin(io.BytesIO(data))
    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
