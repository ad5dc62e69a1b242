"""Groups of processes: how they meet, who is in them, and how they part."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from smolder import _core, _creation
from smolder._device import device as _device
from smolder.distributed._errors import DistError, DistNetworkError, DistStoreError
from smolder.distributed._stores import FileStore, PrefixStore, Store, TCPStore, _before_waiting, seconds_of

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "default_pg_timeout",
    "destroy_process_group",
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
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

default_pg_timeout: timedelta = timedelta(minutes=30)
# How long who leaves waits for the others, so that nobody is cut off within the last collective.
_PARTING = 5.0


class Backend(str):
    """The name of a library of collectives, in lower case."""

    UNDEFINED: str = "undefined"
    GLOO: str = "gloo"
    NCCL: str = "nccl"
    UCC: str = "ucc"
    MPI: str = "mpi"
    XCCL: str = "xccl"
    backend_list: tuple[str, ...] = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI)

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish but got {type(name)}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Some of the processes, in an order. init_process_group and new_group make them."""

    def __init__(
        self, number: int, name: str, ranks: list[int], rank: int, backends: dict[str, str], timeout: float
    ) -> None:
        self._number, self._name, self._ranks, self._rank = number, name, ranks, rank
        self._backends, self._timeout, self._beside = backends, timeout, 0
        self._backend = backends.get("cuda", "gloo")

    def device(self) -> Any:
        """Where what the group needs for itself goes: the CPU, unless its only backend is of CUDA's devices."""
        return "cpu" if "cpu" in self._backends else _current_cuda()

    def check_device(self, tensor: Any) -> None:
        """Raises where no backend of the group takes a tensor's device."""
        if tensor.device.type not in self._backends:
            raise RuntimeError(
                f"No backend type associated with device type {tensor.device.type}: {self._name} has "
                f"{_config_of(self._backends)}"
            )

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes there are."""
        return len(self._ranks)

    def name(self) -> str:
        """The backend's."""
        return self._backend

    @property
    def group_name(self) -> str:
        """The group's own."""
        return self._name

    @property
    def group_desc(self) -> str:
        """The same."""
        return self._name

    def __repr__(self) -> str:
        return f"<{self._name}: rank {self._rank} of {len(self._ranks)}, over {self._backend}>"

    def __reduce__(self) -> Any:
        raise TypeError("a process group is this process's own, and is not pickled")


class GroupMember:
    """Result of new_group in a process that is not in the group; the default group."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: int = -100


class _Group(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group; None where there is none."""
        return GroupMember.WORLD


class group(metaclass=_Group):
    """Names of groups that default arguments mention."""


class _World:
    """The groups that this process is in, and how it reaches the others."""

    store: Store | None = None
    store_rank = -1  # who serves it, where that is known
    address = "127.0.0.1"
    next_number = 0  # of the groups that all processes make in the same order
    inits = 0
    process = 0  # that joined: a child that it forks has not
    groups: dict[int, ProcessGroup] = {}  # noqa: RUF012


_world = _World()


def is_available() -> bool:
    """True: groups can be made. Of several processes where is_gloo_available() says so."""
    return True


def is_initialized() -> bool:
    """Whether there is a default group."""
    return GroupMember.WORLD is not None


def is_gloo_available() -> bool:
    """Whether Smolder was built with Gloo, and Gloo is on this machine."""
    return _core._dist_has_gloo()


def is_nccl_available() -> bool:
    """Whether there are a CUDA device and NCCL."""
    return _core._dist_has_nccl()


def is_mpi_available() -> bool:
    """False: there is no such backend."""
    return False


is_ucc_available: Callable[[], bool] = is_mpi_available
is_xccl_available: Callable[[], bool] = is_mpi_available


def is_backend_available(backend: str) -> bool:
    """Whether there is such a backend."""
    found = {"gloo": is_gloo_available, "nccl": is_nccl_available}.get(backend.lower())
    return found is not None and found()


def is_torchelastic_launched() -> bool:
    """Whether torchrun, or Smolder's launcher, started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device: Any) -> str:
    """The backend for a device: gloo for the CPU, nccl for CUDA's devices."""
    kind = getattr(device, "type", str(device)).partition(":")[0]
    if kind not in _OF_DEVICE:
        raise ValueError(f"Default backend not registered for device : {kind}")
    return _OF_DEVICE[kind]


def settle() -> None:
    """Runs collectives that are recorded: before this process waits for others in another way."""
    if GroupMember.WORLD is not None and _core._dist_pending():
        _core._run_recorded("waiting for other processes")


_before_waiting.append(settle)


# -- meeting


_OF_DEVICE = {"cpu": "gloo", "cuda": "nccl"}


def _backends_of(backend):
    """Backends by device, however they are asked for: None, "gloo", "nccl", "cpu:gloo,cuda:nccl"."""
    text = "" if backend is None else str(backend).lower()
    if text in ("", "undefined"):
        found = {"cpu": "gloo"} if is_gloo_available() or not is_nccl_available() else {}
        return {**found, "cuda": "nccl"} if is_nccl_available() else found
    pairs = [tuple(part.split(":", 1)) for part in text.split(",")] if ":" in text else [("", text)]
    out = {}
    for device, name in pairs:
        if name not in Backend.backend_list or name == "undefined":
            raise ValueError(f"Invalid backend: '{name}': there are gloo and nccl")
        if name == "mpi":
            raise RuntimeError(
                "Distributed package doesn't have MPI built in. Of processes that mpirun starts, use the gloo or nccl "
                "backend: each joins by init_process_group('gloo', init_method='tcp://HOST:PORT', "
                "rank=int(os.environ['OMPI_COMM_WORLD_RANK']), world_size=int(os.environ['OMPI_COMM_WORLD_SIZE'])), "
                "with the host of rank 0 (PMI_RANK and PMI_SIZE where MPICH starts them)"
            )
        if name not in _OF_DEVICE.values():
            raise RuntimeError(
                f"Distributed package doesn't have {name.upper()} built in: Smolder's collectives are Gloo's, on the "
                "CPU, and NCCL's, on CUDA's devices"
            )
        takes = next(d for d, n in _OF_DEVICE.items() if n == name)
        if device not in ("", takes):
            raise ValueError(f"the backend {backend!r}: {name} is of tensors on {takes}, not on {device}")
        out[takes] = name
    if "cuda" in out and not is_nccl_available():
        raise RuntimeError(
            "Distributed package doesn't have NCCL built in: a CUDA device and NCCL (pip install nvidia-nccl-cu13) "
            "are needed"
        )
    return out


def _config_of(backends):
    return ",".join(f"{device}:{name}" for device, name in backends.items())


def _current_cuda():
    return f"cuda:{_core._cuda_current_device()}"


def _from_environment(name):
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return value


def _count(text, name):
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, which is no number") from None


def _meet(init_method, rank, world_size, timeout):
    """The store, rank and number of processes that an init_method leads to."""
    url = urlparse(init_method)
    query = {k: v[-1] for k, v in parse_qs(url.query).items()}
    if rank < 0 and "rank" in query:
        rank = _count(query["rank"], "rank")
    if world_size < 0 and "world_size" in query:
        world_size = _count(query["world_size"], "world_size")
    if url.scheme == "env":
        if rank < 0:
            rank = _count(_from_environment("RANK"), "RANK")
        if world_size < 0:
            world_size = _count(_from_environment("WORLD_SIZE"), "WORLD_SIZE")
        host = os.environ.get("MASTER_ADDR", "127.0.0.1")
        port = _count(_from_environment("MASTER_PORT"), "MASTER_PORT")
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            port += 1  # torchrun serves a store of torch's on that port
    elif url.scheme == "tcp":
        if not url.hostname or not url.port:
            raise ValueError(f"tcp:// rendezvous: {init_method!r} must be tcp://HOST:PORT")
        host, port = url.hostname, url.port
    elif url.scheme == "file":
        if not url.path:
            raise ValueError("file:// rendezvous: path missing: file:///PATH")
        host, port = "127.0.0.1", None
    else:
        raise RuntimeError(f"No rendezvous handler for {url.scheme}://: there are env, tcp and file")
    if rank < 0 or world_size < 0:
        raise ValueError(f"{url.scheme}:// rendezvous: rank and world_size must be given")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is none of {world_size} processes")
    if port is None:
        store = FileStore(url.path, world_size)
        store._of.seconds = timeout
    else:
        store = TCPStore(
            host, port, world_size, is_master=rank == 0, timeout=timedelta(seconds=timeout), multi_tenant=True
        )
    return store, rank, world_size, host


def _own_address(host):
    """The address that others reach this process at: the loopback, where the master is there."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    if interface:
        import fcntl
        import socket
        import struct

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            asked = struct.pack("256s", interface.split(",")[0].encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(s.fileno(), 0x8915, asked)[20:24])  # SIOCGIFADDR
    return _core._own_address(host)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Joins the default group, and waits until all processes have.

    init_method is "env://" (the default: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the environment, as torchrun
    and its like set), "tcp://HOST:PORT" or "file:///PATH"; or the store is given, with rank and world_size. All that
    listens does so on the loopback, unless MASTER_ADDR or HOST is another machine's.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if pg_options is not None:
        raise NotImplementedError("init_process_group: pg_options are those of other backends")
    backends = _backends_of(backend)
    _take_device("init_process_group", device_id, backends)
    seconds = seconds_of(default_pg_timeout if timeout is None else timeout)
    given = store
    if store is not None:
        if init_method is not None:
            raise ValueError("Cannot specify both init_method and store.")
        if rank < 0 or world_size < 1:
            raise ValueError("with a store, rank and world_size must be given")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is none of {world_size} processes")
        at = store
        while isinstance(at, PrefixStore):
            at = at.underlying_store
        host = at.host if isinstance(at, TCPStore) else "127.0.0.1"
    else:
        store, rank, world_size, host = _meet(init_method or "env://", rank, world_size, seconds)
    _world.inits += 1
    _world.process = os.getpid()
    _world.store = PrefixStore(f"smolder/{group_name or 'default'}", store) if group_name else store
    _world.store_rank = 0 if given is None and isinstance(store, TCPStore) else -1
    _world.address = _own_address(host) if world_size > 1 else "127.0.0.1"
    _world.next_number = 0
    store._of.announce(rank)
    try:
        GroupMember.WORLD = _make("the default group", list(range(world_size)), rank, backends, seconds)
    except BaseException:
        _world.store = None
        raise


def _take_device(what, device_id, backends):
    """Makes the device that this process says it has the current one."""
    if device_id is None:
        return
    device = _device(f"cuda:{device_id}" if isinstance(device_id, int) else device_id)
    if device.type not in backends:
        raise ValueError(f"{what}: device_id={device_id!r}: no backend of {_config_of(backends)} is of its type")
    if device.type == "cuda" and device.index is not None:
        _core._cuda_set_current_device(device.index)


def _make(name, ranks, rank, backends, seconds):
    """The group, connected; None for who is not in it. All processes come here in the same order."""
    number = _world.next_number
    _world.next_number += 1
    if rank not in ranks:
        return None
    at = ranks.index(rank)
    # Numbers are never used twice in a process: ops of an older group name it by its own.
    mine = number + 1_000_000 * (_world.inits - 1)
    return _connect(ProcessGroup(mine, name, ranks, at, backends, seconds))


def _connect(made):
    _core._dist_connect(
        made._number,
        made._name,
        made._ranks,
        made._rank,
        _world.store._of,
        _world.store_rank,
        made._backends.get("cpu", ""),
        made._backends.get("cuda", ""),
        _world.address,
        made._timeout,
    )
    _world.groups[made._number] = made
    return made


def make_beside(group: ProcessGroup) -> ProcessGroup:
    """Another group of the same processes, which alone come here: what goes on in one does not wait for the other."""
    group._beside += 1
    number = 1_000_000_000 + 1000 * group._number + group._beside
    name = f"the group beside {group.group_name}"
    return _connect(ProcessGroup(number, name, group._ranks, group._rank, group._backends, group._timeout))


def _default():
    if GroupMember.WORLD is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return GroupMember.WORLD


def resolve(group: Any) -> ProcessGroup | None:
    """The group of an argument; None for one that this process is not in."""
    world = _default()
    if group is None:
        return world
    if group is GroupMember.NON_GROUP_MEMBER or group == GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"a process group is expected, not {type(group).__name__}")
    if group._number not in _world.groups:
        raise ValueError("Invalid process group specified: it was destroyed")
    return group


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes. All processes call it, those that are not in the group too, in the same order."""
    if pg_options is not None:
        raise NotImplementedError("new_group: pg_options are those of other backends")
    if use_local_synchronization:
        raise NotImplementedError("new_group: use_local_synchronization=True is not supported: all processes call it")
    world = _default()
    chosen = list(range(world.size())) if ranks is None else sorted(int(r) for r in ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"new_group: a rank comes twice: {chosen}")
    for r in chosen:
        if not 0 <= r < world.size():
            raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    settle()
    seconds = world._timeout if timeout is None else seconds_of(timeout)
    name = group_desc or f"the group of ranks {', '.join(map(str, chosen))}"
    backends = world._backends if backend is None else _backends_of(backend)
    _take_device("new_group", device_id, backends)
    made = _make(name, chosen, world.rank(), backends, seconds)
    return GroupMember.NON_GROUP_MEMBER if made is None else made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the given ranks, which have none in common; the one of this process, and all."""
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        if seen & set(ranks):
            raise ValueError(f"The new group's rank {min(seen & set(ranks))} has been in another subgroup")
        seen |= set(ranks)
    made = [new_group(r, timeout, backend, pg_options, group_desc=group_desc) for r in ranks_per_subgroup_list]
    own = next((g for g in made if isinstance(g, ProcessGroup)), None)
    return own, made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of group_size ranks each, those next to each other; the one of this process, and all."""
    if group is not None:
        raise NotImplementedError("new_subgroups: group is not supported: the groups are of the whole world")
    if group_size is None:
        raise NotImplementedError("new_subgroups: group_size must be given: it is that of a machine's GPUs in torch")
    n = get_world_size()
    if group_size < 1 or group_size > n:
        raise ValueError(f"Invalid group_size {group_size}: there are {n} processes")
    if n % group_size != 0:
        raise ValueError("The world size must be divisible by 'group_size'")
    parts = [list(range(at, at + group_size)) for at in range(0, n, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The part of the default group, by split_ranks, that this process is in."""
    if resolve(parent_pg) is not GroupMember.WORLD:
        raise NotImplementedError("split_group: parent_pg must be the default group")
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    return new_subgroups_by_enumeration(split_ranks, timeout, None, pg_options, group_desc)[0]


# -- who is there


def get_rank(group: Any = None) -> int:
    """This process's rank in the group; -1 where it is not in it."""
    found = resolve(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """How many processes are in the group; -1 where this one is not."""
    found = resolve(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> Backend:
    """The name of the group's backend."""
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified: this process is not in it")
    return Backend(found._backend)


def get_backend_config(group: Any = None) -> str:
    """Which backend serves which device."""
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified: this process is not in it")
    return _config_of(found._backends)


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of the group's processes in the default group."""
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified: this process is not in it")
    return list(found._ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in the group of a process by its rank in the default group."""
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the default group of a process by its rank in the group."""
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's rank on its machine: LOCAL_RANK, which launchers set."""
    if "LOCAL_RANK" in os.environ:
        return _count(os.environ["LOCAL_RANK"], "LOCAL_RANK")
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work"
    )


# -- parting


def destroy_process_group(group: Any = None) -> None:
    """Leaves a group; the default one, and all with it, where none is named. All its processes call it."""
    found = resolve(group)
    if found is None:
        return
    settle()
    if found is not GroupMember.WORLD:
        _core._dist_drain(found._number)
        _core._dist_remove(found._number)
        del _world.groups[found._number]
        return
    try:
        _part(found)
    finally:
        _forget()


def _part(world):
    """Waits for the others, within bounds: who ends first would cut off those that are within the last collective."""
    broken, failed = any(_core._dist_failure(number) for number in _world.groups), None
    store = _world.store._of
    if not broken and world.size() > 1:
        for number in _world.groups:
            _core._dist_drain(number)
        try:
            _core._dist_set_timeout(world._number, _PARTING)
            _core._dist_call("barrier", _creation.zeros(0, device=world.device()), world._number, [], [0])
            _core._run_recorded("the end of the process")
        except DistError as error:
            broken, failed = True, error
    try:
        store.compare_set(
            f"gone/{world._ranks[world.rank()]}", "", "it left after a collective had failed" if broken else "it left"
        )
        left = store.add("left", 1)
        serves = isinstance(_world.store, TCPStore) and _world.store._of.serves
        until = time.monotonic() + (0.5 if broken else _PARTING)
        while world.size() > 1 and time.monotonic() < until:
            if serves and left >= world.size():
                break
            if not serves and not isinstance(_world.store, TCPStore):
                break
            time.sleep(0.005)  # who serves the store goes last; the others see that it went
            left = store.add("left", 0)
    except (DistNetworkError, DistStoreError):
        pass  # the store is gone already
    if failed and "the ranks do not do the same" in str(failed):
        raise failed


def _forget():
    for number in list(_world.groups):
        _core._dist_remove(number)
    _world.groups.clear()
    _core._dist_forget()
    GroupMember.WORLD = None
    _world.store = None


@atexit.register
def _leave():
    """A process that ends runs what it recorded; one that ends by an exception says so to the others."""
    world = GroupMember.WORLD
    if world is None or os.getpid() != _world.process:
        return
    error = getattr(sys, "last_value", None)
    try:
        if error is not None:
            _core._dist_fail(f"{type(error).__name__}: {error}".splitlines()[0][:500])
            _core._dist_see_off()
            return
        settle()
        _part(world)
    except (DistError, RuntimeError) as failed:
        print(f"smolder.distributed: rank {world.rank()} ended within a collective: {failed}", file=sys.stderr)
    finally:
        _forget()
