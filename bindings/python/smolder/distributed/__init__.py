"""Several processes: groups, stores and collectives, under torch.distributed's names.

Collectives are recorded as other ops are, and run with the step. docs/distributed.md is the guide.
"""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing
from smolder.cuda._refused import refused_class
from smolder.distributed._collectives import (
    P2POp,
    ReduceOp,
    Work,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_op,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    send,
)
from smolder.distributed._errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from smolder.distributed._groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from smolder.distributed._objects import (
    all_gather_object,
    allow_pickle,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from smolder.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from smolder.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = [
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
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "allow_pickle",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
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
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "split_group",
]
__dir__ = _listing(__name__)

# Names that exist so that programs can be imported which use them only when they are told to. What they are raises.
_WHY_NOT_BUILT = "docs/distributed.md says what there is of torch.distributed"
_WHY_NO_BACKEND = "a group is a ProcessGroup, whatever its backend"
_CLASSES = {
    "ProcessGroupGloo": _WHY_NO_BACKEND,
    "ProcessGroupNCCL": _WHY_NO_BACKEND,
    "ProcessGroupXCCL": _WHY_NO_BACKEND,
}
_MODULES = ("algorithms", "checkpoint", "fsdp", "nn", "pipelining", "run", "tensor")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"smolder.distributed.{name}")
    if name == "GradBucket":
        from smolder.distributed._data_parallel import GradBucket

        return GradBucket
    full = f"distributed.{name}"
    if name in _CLASSES:
        made = refused_class(full, _CLASSES[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {_WHY_NOT_BUILT}")
    globals()[name] = made
    return made
