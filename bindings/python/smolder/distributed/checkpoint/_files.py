"""A checkpoint in a folder: safetensors files, and an index that says which parts of which tensors are in them.

What is saved anew goes to files of new names. When all are written, the index is replaced, which is atomic, and the
files of the one before are removed. So a save that is cut off at any point leaves the checkpoint before as it was.
"""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

from smolder import safetensors
from smolder._names import listing as _listing

__all__ = ["INDEX", "FileSystemReader", "FileSystemWriter"]
__dir__ = _listing(__name__)

INDEX = "index.json"
_VERSION = 1


class FileSystemWriter:
    """Where a checkpoint is written. torch's options of how many files and threads there are change nothing."""

    path: str
    sync_files: bool
    overwrite: bool

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        del single_file_per_rank, thread_count, per_thread_copy_ahead, cache_staged_state_dict
        self.path, self.sync_files, self.overwrite = os.fspath(path), sync_files, overwrite

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return self.path

    def begin(self) -> str:
        """The name that the files of this save begin with. One process asks, and tells the others."""
        os.makedirs(self.path, exist_ok=True)
        if not self.overwrite and os.path.exists(os.path.join(self.path, INDEX)):
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        return uuid.uuid4().hex[:12]

    def write(self, name: str, rank: int, tensors: dict[str, Any]) -> str:
        """Writes what a process holds; the file's name."""
        file = f"{name}-{rank}.safetensors"
        path = os.path.join(self.path, file)
        safetensors.save_file(tensors, path)
        if self.sync_files:
            _to_disk(path)
        return file

    def finish(self, index: dict[str, Any]) -> None:
        """Makes the index, when all have written, and removes what it names no more."""
        path = os.path.join(self.path, INDEX)
        text = json.dumps({"version": _VERSION, **index})
        part = f"{path}.{uuid.uuid4().hex[:8]}"
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _to_disk(self.path)
        kept = set(index["files"])
        for entry in os.listdir(self.path):
            if (entry.endswith(".safetensors") and entry not in kept) or entry.startswith(f"{INDEX}."):
                os.remove(os.path.join(self.path, entry))


def _to_disk(path):
    at = os.open(path, os.O_RDONLY)
    try:
        os.fsync(at)
    finally:
        os.close(at)


def _is_part(part):
    """Whether an entry of an index says what part of what tensor is where."""
    if not isinstance(part, dict) or not all(isinstance(part.get(k), str) for k in ("path", "file", "name")):
        return False
    shape, box = part.get("shape"), part.get("box")
    if not isinstance(shape, list) or not isinstance(box, list) or len(shape) != len(box):
        return False
    for extent, side in zip(shape, box, strict=True):
        if not isinstance(side, list) or len(side) != 2 or any(type(n) is not int for n in (extent, *side)):
            return False
        if not (side[0] >= 0 and side[1] >= 0 and side[0] + side[1] <= extent < 2**63):
            return False
    return True


class FileSystemReader:
    """Where a checkpoint is read from."""

    path: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._open: dict[str, Any] = {}

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return self.path

    def read_metadata(self) -> dict[str, Any]:
        """The index."""
        path = os.path.join(self.path, INDEX)
        try:
            with open(path, encoding="utf-8") as file:
                index = json.load(file)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no checkpoint in {self.path}: no {INDEX}") from None
        except ValueError as error:
            raise RuntimeError(f"{path} is no index of a checkpoint: {error}") from None
        if not isinstance(index, dict) or index.get("version") != _VERSION:
            raise RuntimeError(f"{path} is no index of a checkpoint of version {_VERSION}")
        tensors, values = index.get("tensors"), index.get("values")
        if not isinstance(tensors, list) or not isinstance(values, dict):
            raise RuntimeError(f"{path} is no index of a checkpoint: it lists no tensors and values")
        for part in tensors:
            if not _is_part(part):
                raise RuntimeError(f"{path} is no index of a checkpoint: {str(part)[:200]} is no part of a tensor")
        for name, value in values.items():
            if not isinstance(value, str):
                raise RuntimeError(f"{path} is no index of a checkpoint: value {name!r} is no text")
        return index

    def read(self, file: str, name: str) -> Any:
        """A tensor of a file."""
        if os.path.basename(file) != file:
            raise RuntimeError(f"the index of {self.path} names a file elsewhere: {file!r}")
        try:
            if file not in self._open:
                self._open[file] = safetensors.safe_open(os.path.join(self.path, file))
            return self._open[file].get_tensor(name)
        except (OSError, ValueError, NotImplementedError, safetensors.SafetensorError) as error:
            raise RuntimeError(f"{name} of {file} of the checkpoint in {self.path} cannot be read: {error}") from error

    def close(self) -> None:
        """Closes the files."""
        for file in self._open.values():
            file.__exit__(None, None, None)
        self._open.clear()
