"""save and load: nested dictionaries of tensors, whole or divided, and of plain values."""

from __future__ import annotations

import base64
import io
import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from smolder import _core, serialization
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder.distributed import _groups
from smolder.distributed.checkpoint._files import FileSystemReader, FileSystemWriter
from smolder.distributed.tensor._api import DTensor, plain
from smolder.distributed.tensor.placement_types import Shard
from smolder.futures import Future

__all__ = [
    "AsyncSaveResponse",
    "CheckpointException",
    "Stateful",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]
__dir__ = _listing(__name__)


class CheckpointException(RuntimeError):
    """The failures of a save or a load, by the rank that each was on."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        """The texts of errors, by rank."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{list(self._failures)}"]
        return "\n".join([*lines, *(f"rank {r}: {text}" for r, text in self._failures.items())])


@runtime_checkable
class Stateful(Protocol):
    """An object that is saved by its state_dict(), and loaded by load_state_dict()."""

    def state_dict(self) -> dict[str, Any]:
        """The state to be saved."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what was saved."""
        ...


@dataclass
class AsyncSaveResponse:
    """The two parts of a save that goes on."""

    staging_completion: Any
    upload_completion: Any


# -- what is in a state_dict


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Values by their path. Empty containers are values."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif isinstance(value, list) and value:
        for i, below in enumerate(value):
            yield from _leaves(below, (*path, i))
    else:
        yield ".".join(map(str, path)), value


def _put(value, leaves, path=()):
    """The same containers with other leaves; containers are changed in place."""
    if isinstance(value, dict) and value:
        for key in value:
            value[key] = _put(value[key], leaves, (*path, key))
        return value
    if isinstance(value, list) and value:
        for i in range(len(value)):
            value[i] = _put(value[i], leaves, (*path, i))
        return value
    return leaves[".".join(map(str, path))]


def _states(state_dict):
    return {k: v.state_dict() if _is_stateful(v) else v for k, v in state_dict.items()}


def _is_stateful(value):
    return not isinstance(value, _core.Tensor | dict) and isinstance(value, Stateful)


def _box(tensor):
    """Where this process's part lies: begins and lengths. None where another process is to write it."""
    if not isinstance(tensor, DTensor):
        return [(0, n) for n in tensor.shape]
    spec = tensor._spec
    coordinate = spec.coordinate()
    for d, p in enumerate(spec.placements):
        if not isinstance(p, Shard) and coordinate[d] != 0:
            return None
    whole, names = spec.mesh._whole(), spec.mesh.mesh_dim_names or ()
    if whole is not spec.mesh and set(names) <= set(whole.mesh_dim_names):
        others = [d for d, n in enumerate(whole.mesh_dim_names) if n not in names]
        if any(whole.get_coordinate()[d] != 0 for d in others):
            return None  # a process of another slice of the mesh has the same
    return spec.parts(coordinate)


# -- processes


class _Peers:
    """All processes, or this one alone."""

    def __init__(self, group, no_dist):
        alone = no_dist or not _groups.is_initialized()
        self.group = None if alone else _groups.resolve(group)
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()

    def all(self, value):
        """Collects an object of each process, in the order of ranks."""
        from smolder.distributed._objects import all_gather_object

        if self.group is None:
            return [value]
        out = [None] * self.size
        all_gather_object(out, value, self.group)
        return out

    def agree(self, what):
        """Runs what() everywhere; where it fails on one, all raise CheckpointException."""
        failure, out = None, None
        try:
            out = what()
        except Exception as error:
            if self.group is None:
                raise
            failure = f"{type(error).__name__}: {error}"
        found = self.all((failure, out))
        failures = {r: text for r, (text, _) in enumerate(found) if text is not None}
        if failures:
            raise CheckpointException(f"a checkpoint failed on ranks {list(failures)}", failures)
        return [value for _, value in found]


def _folder(checkpoint_id, storage, kind):
    if storage is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
        return kind(checkpoint_id)
    if checkpoint_id is not None:
        import os

        storage.path = os.fspath(checkpoint_id)
    return storage


# -- saving


def _taken(state_dict, rank):
    """The part that this process writes: tensors under names in its file, their places, and values."""
    tensors, parts, values = {}, [], {}
    for path, value in _leaves(_states(state_dict)):
        if not isinstance(value, _core.Tensor):
            if rank == 0:
                file = io.BytesIO()
                serialization.save(value, file)
                values[path] = base64.b64encode(file.getvalue()).decode()
            continue
        shape = list(value.shape)
        box = _box(value)
        if box is None or (not isinstance(value, DTensor) and rank != 0):
            continue
        local = plain(value).detach().contiguous().clone()
        name = str(len(tensors))
        tensors[name] = local
        dtype = str(local.dtype).rpartition(".")[2]
        parts.append({"path": path, "name": name, "shape": shape, "box": [list(b) for b in box], "dtype": dtype})
    return tensors, parts, values


def _write(writer, peers, taken):
    tensors, parts, values = taken
    name = peers.agree(lambda: writer.begin() if peers.rank == 0 else None)[0]
    return _conclude(writer, peers, lambda: (writer.write(name, peers.rank, tensors), parts), values)


def _conclude(writer, peers, written, values):
    """Makes the index, once all have written what they hold."""
    files = peers.agree(written)
    tensors: dict[str, Any] = {}  # each part once, however many have it
    for file, of in files:
        for part in of:
            tensors.setdefault(f"{part['path']} {part['box']}", dict(part, file=file))
    index = {"files": [file for file, _ in files], "tensors": list(tensors.values()), "values": values}
    peers.agree(lambda: writer.finish(index) if peers.rank == 0 else None)
    return index


def _check_coordinator(name: str, rank: int) -> None:
    if rank != 0:
        raise NotImplementedError(
            f"distributed.checkpoint.{name}: coordinator_rank={rank} is not supported: rank 0 it is"
        )


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> dict[str, Any]:
    """Writes a checkpoint into a folder: DTensors each process its part, other tensors and values the first process.

    All processes of the group call it. Values with state_dict() are saved by it. What was in the folder stays until all is
    written; a failure of one process is CheckpointException on all.
    """
    del use_collectives  # how processes agree, which changes nothing that is written
    if planner is not None:
        raise NotImplementedError("distributed.checkpoint.save: a planner is not supported")
    peers = _Peers(process_group, no_dist)
    writer = _folder(checkpoint_id, storage_writer, FileSystemWriter)
    return _write(writer, peers, _taken(state_dict, peers.rank))


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> dict[str, Any]:
    """The name that save had."""
    _check_coordinator("save_state_dict", coordinator_rank)
    return save(
        state_dict, storage_writer=storage_writer, planner=planner, process_group=process_group, no_dist=no_dist
    )


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Any:
    """The same, of values as they are now; the result is a future, and files are written meanwhile by a thread.

    The checkpoint is there once all processes have called result(); call it before the next save.
    """
    del use_collectives  # how processes agree, which changes nothing that is written
    for name, given in (("async_checkpointer_type", async_checkpointer_type), ("async_stager", async_stager)):
        if given is not None:
            raise NotImplementedError(f"distributed.checkpoint.async_save: {name} is not supported: a thread writes")
    if planner is not None:
        raise NotImplementedError("distributed.checkpoint.async_save: a planner is not supported")
    peers = _Peers(process_group, no_dist)
    writer = _folder(checkpoint_id, storage_writer, FileSystemWriter)
    tensors, parts, values = _taken(state_dict, peers.rank)
    name = peers.agree(lambda: writer.begin() if peers.rank == 0 else None)[0]
    for t in tensors.values():
        t.data_ptr()  # a thread writes what is in memory: steps are recorded by the program
    return _Later(writer, peers, name, tensors, parts, values)


class _Later(Future[Any]):
    """A save that is under way. result() ends it: the files of all are there then, and the index names them."""

    def __init__(self, writer, peers, name, tensors, parts, values):
        super().__init__()
        self._peers, self._writer, self._parts, self._values = peers, writer, parts, values
        self._error: Exception | None = None
        self._file, self._ended = None, False

        def work():
            try:
                self._file = writer.write(name, peers.rank, tensors)
            except Exception as error:
                self._error = error

        self._thread = threading.Thread(target=work, name="smolder-checkpoint")
        self._thread.start()

    def done(self) -> bool:
        """Whether this process's file is written."""
        return not self._thread.is_alive()

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the files of all processes, and makes the index. All call it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"the file was not written within {timeout} s")
        if not self._ended:
            self._ended = True
            _conclude(self._writer, self._peers, self._written, self._values)

    wait = value = result

    def _written(self):
        if self._error is not None:
            raise self._error
        return self._file, self._parts


# -- loading


def _fill(tensor, path, parts, reader):
    """Copies into this process's part what is saved of it."""
    target = plain(tensor).detach()
    shape = list(tensor.shape)
    box = tensor._spec.parts(tensor._spec.coordinate()) if isinstance(tensor, DTensor) else [(0, n) for n in shape]
    if any(size == 0 for _, size in box):
        return
    filled, boxes = 0, []
    for part in parts:
        if part["shape"] != shape:
            raise ValueError(f"Size mismatch between saved {part['shape']} and current: {shape} for {path}")
        lows = [max(a[0], b[0]) for a, b in zip(box, part["box"], strict=True)]
        highs = [min(a[0] + a[1], b[0] + b[1]) for a, b in zip(box, part["box"], strict=True)]
        if any(low >= high for low, high in zip(lows, highs, strict=True)):
            continue
        into, piece, count = target, reader.read(part["file"], part["name"]), 1
        if list(piece.shape) != [size for _, size in part["box"]]:
            raise RuntimeError(f"the checkpoint has {list(piece.shape)} where its index says {part['box']} of {path}")
        for dim, (low, high) in enumerate(zip(lows, highs, strict=True)):
            into = into.narrow(dim, low - box[dim][0], high - low)
            piece = piece.narrow(dim, low - part["box"][dim][0], high - low)
            count *= high - low
        into.copy_(piece)
        filled += count
        boxes.append((lows, highs))
    wanted = 1
    for _, size in box:
        wanted *= size
    twice = _overlap(boxes)
    if filled != wanted or twice:
        more = ", some of them twice" if twice else ""
        raise RuntimeError(f"the checkpoint has {filled} of {wanted} elements of this process's part of {path}{more}")


def _value(path, text):
    try:
        return serialization.load(io.BytesIO(base64.b64decode(text)), weights_only=True)
    except (ValueError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise RuntimeError(f"the checkpoint's value of {path} cannot be read: {error}") from error


def _overlap(boxes):
    """Whether two boxes, of first places and places after the last, have an element in common."""
    boxes = sorted(boxes)
    for i, (lows, highs) in enumerate(boxes):
        for others, ends in boxes[i + 1 :]:
            if lows and others[0] >= highs[0]:
                break
            if all(a < d and c < b for a, b, c, d in zip(lows, highs, others, ends, strict=True)):
                return True
    return False


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Reads a checkpoint into the tensors of a state_dict, in place, however many processes wrote it and however their
    tensors lay. Values that are no tensors are replaced. What has load_state_dict() is given its part.

    Everything that state_dict has must be in the checkpoint. All processes of the group call it.
    """
    if planner is not None:
        raise NotImplementedError("distributed.checkpoint.load: a planner is not supported")
    peers = _Peers(process_group, no_dist)
    reader = _folder(checkpoint_id, storage_reader, FileSystemReader)

    def read():
        index = reader.read_metadata()
        parts: dict[str, list[Any]] = {}
        for part in index["tensors"]:
            parts.setdefault(part["path"], []).append(part)
        states = _states(state_dict)
        leaves = {}
        try:
            with no_grad():
                for path, value in _leaves(states):
                    if isinstance(value, _core.Tensor):
                        if path not in parts:
                            raise RuntimeError(f"Missing key in checkpoint state_dict: {path}.")
                        _fill(value, path, parts[path], reader)
                        leaves[path] = value
                    else:
                        if path not in index["values"]:
                            raise RuntimeError(f"Missing key in checkpoint state_dict: {path}.")
                        leaves[path] = _value(path, index["values"][path])
                _core._run_recorded("loading a checkpoint")
        finally:
            reader.close()
        for key, value in state_dict.items():
            loaded = _put(states[key], leaves, (key,))
            if _is_stateful(value):
                value.load_state_dict(loaded)
            else:
                state_dict[key] = loaded

    peers.agree(read)


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: FileSystemReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> None:
    """The name that load had."""
    _check_coordinator("load_state_dict", coordinator_rank)
    load(state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group, no_dist=no_dist)
