"""Torch's module of several processes, as far as there is one process: it says that no group is there.

Torch's other names are here too, so that programs can be imported which use them only when they are told to. Functions
raise NotImplementedError, and so do classes when an object of them is made; each names itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.cuda._refused import refused, refused_class

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "ReduceOp",
    "get_rank",
    "get_world_size",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]
__dir__ = _listing(__name__)

_WHY = "Smolder runs in one process"
_FUNCTIONS = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "split_group",
]
_CLASSES = [
    "Backend",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "ProcessGroupNCCL",
    "Store",
    "TCPStore",
    "Work",
    "group",
]


def __getattr__(name: str) -> Any:
    full = f"distributed.{name}"
    if name in _FUNCTIONS:
        made = refused(full, _WHY)
    elif name in _CLASSES:
        made = refused_class(full, _WHY)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {_WHY}")
    globals()[name] = made
    return made


def is_available() -> bool:
    """False: there is no group of processes to be joined."""
    return False


def is_initialized() -> bool:
    """False: there is no group of processes."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether there is a library of that name that processes could talk through: none."""
    return False


def is_gloo_available() -> bool:
    """False: processes talk through no library."""
    return False


is_mpi_available: Callable[[], bool] = is_gloo_available
is_nccl_available: Callable[[], bool] = is_gloo_available
is_ucc_available: Callable[[], bool] = is_gloo_available
is_xccl_available: Callable[[], bool] = is_gloo_available


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _no_group() -> Callable[..., Any]:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_rank(group: Any = None) -> None:
    """Raises ValueError, as torch's does where there is no group."""
    _no_group()


def get_world_size(group: Any = None) -> None:
    """Raises ValueError, as torch's does where there is no group."""
    _no_group()


class ReduceOp:
    """Names of ways to reduce over processes, which default arguments mention."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = (
        f"ReduceOp.{name}" for name in ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"]
    )
