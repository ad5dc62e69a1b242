"""Checkpoints of several processes: each writes what it holds, and any number of processes reads it again."""

from smolder._names import listing as _listing
from smolder.distributed.checkpoint import state_dict
from smolder.distributed.checkpoint._files import FileSystemReader, FileSystemWriter
from smolder.distributed.checkpoint._saving import (
    AsyncSaveResponse,
    CheckpointException,
    Stateful,
    async_save,
    load,
    load_state_dict,
    save,
    save_state_dict,
)

__all__ = [
    "AsyncSaveResponse",
    "CheckpointException",
    "FileSystemReader",
    "FileSystemWriter",
    "Stateful",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
    "state_dict",
]
__dir__ = _listing(__name__)
