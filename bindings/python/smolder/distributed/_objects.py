"""Collectives of Python objects.

Objects come as pickles. They are read as smolder.load reads files: containers, numbers, text and tensors, and classes
that smolder.serialization.add_safe_globals was told of. A pickle may run any code, so others are refused until
allow_pickle(True) asks for them.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from smolder import _core, _creation
from smolder.distributed._collectives import _peer, all_gather_into_tensor, broadcast, gather, recv, scatter, send
from smolder.distributed._groups import resolve

__all__ = [
    "all_gather_object",
    "allow_pickle",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]

_pickle_allowed = False


def allow_pickle(allowed: bool = True) -> None:
    """Whether objects of other processes may be of any class. Their pickles may then run any code in this process."""
    global _pickle_allowed
    _pickle_allowed = bool(allowed)


def _to_bytes(obj: Any, pg):
    from smolder import serialization

    file = io.BytesIO()
    serialization.save(obj, file)
    return _creation.from_numpy(np.frombuffer(file.getvalue(), dtype=np.uint8).copy()).to(pg.device())


def _from_bytes(data: bytes) -> Any:
    from smolder import serialization

    try:
        return serialization.load(io.BytesIO(data), weights_only=not _pickle_allowed)
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"an object that another process sent is refused: {error}. Tell smolder.serialization.add_safe_globals of its "
            "class, or call smolder.distributed.allow_pickle() where all processes are trusted"
        ) from None


def _read(tensor, size: int) -> Any:
    return _from_bytes(tensor[:size].contiguous().cpu().numpy().tobytes())


def _padded(tensor, size: int):
    out = _creation.zeros(size, dtype=_core.uint8, device=tensor.device)
    out[: tensor.numel()] = tensor
    return out


def _sizes(size: int, pg) -> list[int]:
    """The sizes that all processes give, in the order of ranks."""
    out = _creation.zeros(pg.size(), dtype=_core.int64, device=pg.device())
    all_gather_into_tensor(out, _creation.tensor([size], dtype=_core.int64, device=pg.device()), pg)
    return out.tolist()


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Every process gets the objects of all, in the order of ranks."""
    pg = resolve(group)
    if pg is None:
        return
    if len(object_list) != pg.size():
        raise ValueError(f"all_gather_object: object_list must have {pg.size()} places, one a process")
    mine = _to_bytes(obj, pg)
    sizes = _sizes(mine.numel(), pg)
    out = _creation.zeros([pg.size(), max(sizes)], dtype=_core.uint8, device=pg.device())
    all_gather_into_tensor(out, _padded(mine, max(sizes)), pg)
    for i, size in enumerate(sizes):
        object_list[i] = _read(out[i], size)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """The process `dst` gets the objects of all, in the order of ranks, in its object_gather_list."""
    pg = resolve(group)
    if pg is None:
        return
    root = _peer(pg, dst, group_dst, "dst", 0)
    here = pg.rank() == root
    if here and (object_gather_list is None or len(object_gather_list) != pg.size()):
        raise ValueError(f"gather_object: object_gather_list must have {pg.size()} places on the destination rank")
    mine = _to_bytes(obj, pg)
    sizes = _sizes(mine.numel(), pg)
    parts = [_creation.zeros(max(sizes), dtype=_core.uint8, device=pg.device()) for _ in sizes] if here else None
    gather(_padded(mine, max(sizes)), parts, group=pg, group_dst=root)
    if here and parts and object_gather_list is not None:
        for i, size in enumerate(sizes):
            object_gather_list[i] = _read(parts[i], size)
    elif _core._dist_pending():
        _core._run_recorded("collectives of objects")


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Every process gets the objects of `src`, in the places of its list."""
    pg = resolve(group)
    if pg is None:
        return
    _check_device(device, pg)
    root = _peer(pg, src, group_src, "src", 0)
    here = pg.rank() == root
    parts = [_to_bytes(o, pg) for o in object_list] if here else []
    sizes = _creation.tensor(
        [p.numel() for p in parts] if here else [0] * len(object_list), dtype=_core.int64, device=pg.device()
    )
    broadcast(sizes, group=pg, group_src=root)
    counts = sizes.tolist()
    data = _core.cat(parts) if here and parts else _creation.zeros(sum(counts), dtype=_core.uint8, device=pg.device())
    broadcast(data, group=pg, group_src=root)
    if here:
        _core._run_recorded("collectives of objects")
        return
    at = 0
    for i, size in enumerate(counts):
        object_list[i] = _read(data[at : at + size], size)
        at += size


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Every process gets its object of the list of `src`, as the first of its output list."""
    pg = resolve(group)
    if pg is None:
        return
    if not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = _peer(pg, src, group_src, "src", 0)
    here = pg.rank() == root
    parts = None
    if here:
        if scatter_object_input_list is None or len(scatter_object_input_list) != pg.size():
            raise ValueError(f"scatter_object_list: the source's list must have {pg.size()} objects, one a process")
        parts = [_to_bytes(o, pg) for o in scatter_object_input_list]
    sizes = _creation.tensor(
        [p.numel() for p in parts] if parts else [0] * pg.size(), dtype=_core.int64, device=pg.device()
    )
    broadcast(sizes, group=pg, group_src=root)
    counts = sizes.tolist()
    out = _creation.zeros(max(counts), dtype=_core.uint8, device=pg.device())
    scatter(out, [_padded(p, max(counts)) for p in parts] if parts else None, group=pg, group_src=root)
    scatter_object_output_list[0] = _read(out, counts[pg.rank()])


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None
) -> None:
    """Sends the objects."""
    pg = resolve(group)
    if pg is None:
        return
    _check_device(device, pg)
    to = _peer(pg, dst, group_dst, "dst")
    parts = [_to_bytes(o, pg) for o in object_list]
    send(_creation.tensor([p.numel() for p in parts], dtype=_core.int64, device=pg.device()), group=pg, group_dst=to)
    if parts:
        send(_core.cat(parts), group=pg, group_dst=to)
    _core._run_recorded("collectives of objects")


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> int:
    """Receives as many objects as there are places; returns the sender's rank."""
    pg = resolve(group)
    if pg is None:
        return -1
    _check_device(device, pg)
    sizes = _creation.zeros(len(object_list), dtype=_core.int64, device=pg.device())
    sender = recv(sizes, src, pg, group_src=group_src)
    counts = sizes.tolist()
    data = _creation.zeros(sum(counts), dtype=_core.uint8, device=pg.device())
    recv(data, sender, pg)
    at = 0
    for i, size in enumerate(counts):
        object_list[i] = _read(data[at : at + size], size)
        at += size
    return sender


def _check_device(device, pg):
    """Objects travel by the group's own device: another one must be of a type that the group has a backend for."""
    kind = getattr(device, "type", str(device)).partition(":")[0]
    if device is not None and kind not in pg._backends:
        raise ValueError(f"No backend type associated with device type {kind}")
