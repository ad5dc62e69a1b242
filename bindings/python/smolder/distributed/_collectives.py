"""Collectives, recorded as ops: they run with the step, in the order of the program, and end no step by themselves.

With async_op=True the step goes on while the bytes are under way, and Work.wait() records where the result is needed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smolder import _core, _creation
from smolder.autograd import no_grad
from smolder.distributed._groups import get_group_rank, resolve, settle
from smolder.distributed._stores import seconds_of
from smolder.futures import Future

if TYPE_CHECKING:
    from smolder import Tensor

__all__ = [
    "P2POp",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]


class ReduceOp(enum.Enum):
    """How values of the processes become one. AVG is of floating-point values; BAND, BOR and BXOR are of integers'."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined] # torch's members are of a class within
reduce_op = ReduceOp
_NUMBERS = {
    ReduceOp.SUM: 0,
    ReduceOp.AVG: 0,
    ReduceOp.PRODUCT: 1,
    ReduceOp.MIN: 2,
    ReduceOp.MAX: 3,
    ReduceOp.BAND: 4,
    ReduceOp.BOR: 5,
    ReduceOp.BXOR: 6,
}


class Work:
    """A collective that was begun. Its tensors have their new values once wait() was called."""

    # Also of an instance of a class derived from it that does not call __init__.
    _finish: Callable[[], Any] | None = None
    _tensors: Sequence[Tensor] = ()
    _group: Any = None

    def __init__(
        self, finish: Callable[[], Any] | None = None, tensors: Sequence[Tensor] = (), group: Any = None
    ) -> None:
        self._finish = finish
        self._tensors, self._group = list(tensors), group

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Records that what comes next needs the result. The timeout is the group's: one given here must not be shorter."""
        if timeout is not None and self._group is not None and seconds_of(timeout) < self._group._timeout:
            raise NotImplementedError(
                "Work.wait: a timeout of its own is not supported: give it to init_process_group or new_group"
            )
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """True, once it has: the step is run up to here."""
        self.wait()
        settle()
        return True

    def is_success(self) -> bool:
        """Whether it went well; as is_completed, it waits."""
        return self.is_completed()

    def exception(self) -> None:
        """None: what goes wrong is raised where the step runs."""
        return None

    def synchronize(self) -> None:
        """The same as wait()."""
        self.wait()

    def result(self) -> list[Tensor]:
        """The tensors, with their new values."""
        self.wait()
        return list(self._tensors)

    def source_rank(self) -> int:
        """Who sent what was received from any process, by its rank in the default group. Ends the step."""
        self.wait()
        if self._group is None:
            raise ValueError("source_rank is of what was received")
        return self._group._ranks[_core._dist_last_sender()]

    def get_future(self) -> Future[list[Tensor]]:
        """A future of result(): who asks for its value waits."""
        return Later(self.result)

    def __del__(self) -> None:
        if self._finish is not None:  # nobody waits, and who reads the tensors later must see the result
            try:
                self.wait()
            except Exception as error:
                from smolder._warn import warn

                warn(f"a collective that nobody waited for failed: {error}")


class Later(Future[Any]):
    """A future whose value is found by who asks for it first. It is done: nobody else sets it."""

    def __init__(self, find: Callable[[], Any]) -> None:
        super().__init__()
        self._find: Callable[[], Any] | None = find

    def done(self) -> bool:
        """True."""
        return True

    def wait(self) -> Any:
        """The value."""
        return self.value()

    def value(self) -> Any:
        """The value."""
        if self._find is not None:
            self._value, self._find = self._find(), None
        return self._value

    def then(self, callback: Callable[[Future[Any]], Any]) -> Later:
        """The future of callback(self)."""
        return Later(lambda: callback(self))

    def add_done_callback(self, callback: Callable[[Future[Any]], Any]) -> None:
        """Calls callback(self) at once."""
        callback(self)


def _check(tensor, name):
    if not isinstance(tensor, _core.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor, got {type(tensor)}"
        )
    return tensor


def _check_list(tensors, name):
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]")
    return [_check(t, name) for t in tensors]


def _same(tensor, other, name):
    if tensor.dtype != other.dtype:
        raise ValueError(f"{name}: tensors must be of one dtype, got {tensor.dtype} and {other.dtype}")


# Dtypes that NCCL has no numbers for.
_NOT_OF_NCCL = {_core.int16: "Short"}


def _reduction(op, tensor):
    if tensor.device.type == "cuda":
        if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
            raise ValueError(f"Cannot use {op} with NCCL")
        if tensor.dtype in _NOT_OF_NCCL:
            raise TypeError(
                f"Input tensor data type is not supported for NCCL process group: {_NOT_OF_NCCL[tensor.dtype]}"
            )
    if op not in _NUMBERS:
        raise NotImplementedError(f"{op} is not supported: multiply before a SUM")
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and tensor.is_floating_point():
        raise TypeError(f"{op} works on the bits of integers, got {tensor.dtype}")
    if op is ReduceOp.AVG and not tensor.is_floating_point():
        raise ValueError(f"ReduceOp.AVG is of floating-point tensors, got {tensor.dtype}")
    return _NUMBERS[op]


def _peer(group, rank, group_rank, name, default=None):
    """A rank in the group, given by the rank in the world or in the group."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"group_{name}={group_rank} is no rank of {group.group_name}")
        return group_rank
    if rank is None:
        if default is None:
            raise ValueError(f"Must specify {name} or group_{name}")
        return default
    return get_group_rank(group, rank)


def _record(name, x, group, detail, shape, async_op, write, tensors):
    """Records a collective; `write` is given the result, and puts it where it goes."""

    pairs = x.is_complex()

    def put(result):
        with no_grad():
            write(_core.view_as_complex(result) if pairs else result)

    group.check_device(x)
    x = x.detach()
    if pairs:  # complex numbers are moved as pairs of numbers
        x, shape = _core.view_as_real(x), [*shape, 2]
    if not async_op:
        put(_core._dist_call(name, x, group._number, detail, shape))
        return None
    begun = _core._dist_begin(name, x, group._number, detail, shape)
    return Work(lambda: put(_core._dist_finish(name, begun, x, group._number, detail, shape)), tensors, group)


def _as_real(tensor, op, name):
    """Complex numbers are summed as pairs of numbers. What is written to the view is written to the tensor."""
    if not tensor.is_complex():
        return tensor
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"{name} does not support {op} on complex tensors")
    return _core.view_as_real(tensor)


def _averaged(result, op, group):
    return result / group.size() if op is ReduceOp.AVG else result


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process gets the sum, or what op says, of all tensors, in place."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    x = _as_real(tensor, op, "all_reduce")
    number = _reduction(op, x)
    return _record(
        "all_reduce", x, pg, [number], list(x.shape), async_op, lambda r: x.copy_(_averaged(r, op, pg)), [tensor]
    )


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The process `dst` gets the sum, or what op says, of all tensors, in place. The others' stay."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    root = _peer(pg, dst, group_dst, "dst")
    x = _as_real(tensor, op, "reduce")
    number = _reduction(op, x)

    def write(r):
        if pg.rank() == root:
            x.copy_(_averaged(r, op, pg))

    return _record("reduce", x, pg, [number, root], list(x.shape), async_op, write, [tensor])


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Every process gets the tensor of `src`, in place."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    root = _peer(pg, src, group_src, "src")

    def write(r):
        if pg.rank() != root:
            tensor.copy_(r)

    return _record("broadcast", tensor, pg, [root], list(tensor.shape), async_op, write, [tensor])


def _fill(tensors, rows):
    for i, t in enumerate(tensors):
        t.copy_(rows[i].reshape(t.shape))


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process gets the tensors of all, in the order of ranks."""
    _check_list(tensor_list, "tensor_list")
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    _check_parts("all_gather", tensor_list, tensor, pg)
    shape = [pg.size(), tensor.numel()]
    return _record("all_gather", tensor, pg, [], shape, async_op, lambda r: _fill(tensor_list, r), tensor_list)


def _check_parts(name, parts, tensor, pg):
    if len(parts) != pg.size():
        raise ValueError(f"{name}: there must be a tensor for each of {pg.size()} processes, got {len(parts)}")
    for t in parts:
        _same(t, tensor, name)
        if t.shape != tensor.shape:
            raise ValueError(f"{name}: tensors must be of one shape, got {tuple(t.shape)} and {tuple(tensor.shape)}")


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets the tensors of all in one: one after the other along the first axis, or stacked."""
    _check(output_tensor, "output_tensor")
    _check(input_tensor, "input_tensor")
    pg = resolve(group)
    if pg is None:
        return None
    _same(output_tensor, input_tensor, "all_gather_into_tensor")
    if output_tensor.numel() != pg.size() * input_tensor.numel():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    shape = [pg.size(), input_tensor.numel()]
    return _record(
        "all_gather",
        input_tensor,
        pg,
        [],
        shape,
        async_op,
        lambda r: output_tensor.copy_(r.reshape(output_tensor.shape)),
        [output_tensor],
    )


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The process `dst` gets the tensors of all, in the order of ranks, in its gather_list."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    root = _peer(pg, dst, group_dst, "dst", 0)
    here = pg.rank() == root
    if here:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _check_parts("gather", _check_list(gather_list, "gather_list"), tensor, pg)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    shape = [pg.size() if here else 0, tensor.numel()]
    return _record(
        "gather", tensor, pg, [root], shape, async_op, lambda r: _fill(gather_list or [], r), gather_list or []
    )


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Every process gets its tensor of the scatter_list of `src`."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    root = _peer(pg, src, group_src, "src", 0)
    if pg.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        _check_parts("scatter", _check_list(scatter_list, "scatter_list"), tensor, pg)
        x = _core.cat([t.detach().reshape(-1) for t in scatter_list])
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    else:
        x = _creation.empty(0, dtype=tensor.dtype, device=tensor.device)
    return _record("scatter", x, pg, [root], list(tensor.shape), async_op, lambda r: tensor.copy_(r), [tensor])


def _reduce_scatter(output, x, op, pg, async_op):
    x, to = _as_real(x, op, "reduce_scatter"), _as_real(output, op, "reduce_scatter")
    number = _reduction(op, to)
    return _record(
        "reduce_scatter", x, pg, [number], list(to.shape), async_op, lambda r: to.copy_(_averaged(r, op, pg)), [output]
    )


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets the sum, or what op says, of all processes' tensors for it."""
    _check(output, "output")
    _check_list(input_list, "input_list")
    pg = resolve(group)
    if pg is None:
        return None
    _check_parts("reduce_scatter", input_list, output, pg)
    return _reduce_scatter(output, _core.cat([t.detach().reshape(-1) for t in input_list]), op, pg, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The same, where the tensors for each process are one after the other in one."""
    _check(output, "output")
    _check(input, "input")
    pg = resolve(group)
    if pg is None:
        return None
    _same(output, input, "reduce_scatter_tensor")
    if input.numel() != pg.size() * output.numel():
        raise ValueError("input tensor must be the same size as output size times world size")
    return _reduce_scatter(output, input.detach().reshape(-1), op, pg, async_op)


def _exchange(x, to_each, of_each, pg, async_op, write, tensors):
    counts = [n * (2 if x.is_complex() else 1) for n in (*to_each, *of_each)]
    return _record("all_to_all", x, pg, counts, [sum(of_each)], async_op, write, tensors)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets, of each, its tensor for it. Shapes may differ, as long as both sides of a pair agree."""
    outputs = _check_list(output_tensor_list, "output_tensor_list")
    inputs = _check_list(input_tensor_list, "input_tensor_list")
    pg = resolve(group)
    if pg is None:
        return None
    if len(outputs) != pg.size() or len(inputs) != pg.size():
        raise ValueError(f"all_to_all: there must be a tensor for each of {pg.size()} processes")
    for t in [*outputs, *inputs]:
        _same(t, inputs[0], "all_to_all")
    of_each = [t.numel() for t in outputs]

    def write(r):
        for t, part in zip(outputs, r.split(of_each), strict=True):
            t.copy_(part.reshape(t.shape))

    x = _core.cat([t.detach().reshape(-1) for t in inputs])
    return _exchange(x, [t.numel() for t in inputs], of_each, pg, async_op, write, outputs)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """The same, where the parts are one after the other along the first axis: of equal length, if none are given."""
    _check(output, "output")
    _check(input, "input")
    pg = resolve(group)
    if pg is None:
        return None
    _same(output, input, "all_to_all_single")
    to_each = _splits(input, input_split_sizes, pg, "input")
    of_each = _splits(output, output_split_sizes, pg, "output")
    return _exchange(
        input.detach().reshape(-1),
        to_each,
        of_each,
        pg,
        async_op,
        lambda r: output.copy_(r.reshape(output.shape)),
        [output],
    )


def _splits(tensor, sizes, pg, name):
    """Elements for each process."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % pg.size() != 0:
            raise ValueError(f"Tensor's dim 0 does not divide equally across group size: {name} has {rows} rows")
        sizes = [rows // pg.size()] * pg.size()
    if len(sizes) != pg.size() or sum(sizes) != rows or min(sizes) < 0:
        raise ValueError(f"Split sizes doesn't match total dim 0 size: {name} has {rows} rows, the sizes are {sizes}")
    of_row = tensor.numel() // rows if rows else 0
    return [s * of_row for s in sizes]


# -- point to point


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a copy of the tensor. The step goes on at once."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return
    peer = _peer(pg, dst, group_dst, "dst")
    if peer == pg.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        )
    pg.check_device(tensor)
    _check_tag(tensor, tag)
    x = _core.view_as_real(tensor) if tensor.is_complex() else tensor
    _core._dist_call("send", x.detach(), pg._number, [peer, tag], [0])


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """The same, with a handle: nothing is left to wait for, since what is sent is a copy."""
    if resolve(group) is None:
        return None
    send(tensor, dst, group, tag, group_dst)
    return Work(lambda: None, [tensor], resolve(group))


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives into the tensor; returns the sender's rank. Without src, from whoever sends first, which ends the step."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return -1
    peer = _source(pg, src, group_src)
    _check_tag(tensor, tag, peer)
    x = _creation.empty(0, dtype=tensor.dtype, device=tensor.device)
    _record("receive", x, pg, [peer, tag], list(tensor.shape), False, tensor.copy_, [tensor])
    return pg._ranks[_core._dist_last_sender() if peer < 0 else peer]


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begins to receive into the tensor, which has its new value after wait()."""
    _check(tensor, "tensor")
    pg = resolve(group)
    if pg is None:
        return None
    x = _creation.empty(0, dtype=tensor.dtype, device=tensor.device)
    peer = _source(pg, src, group_src)
    _check_tag(tensor, tag, peer)
    return _record("receive", x, pg, [peer, tag], list(tensor.shape), True, tensor.copy_, [tensor])


def _check_tag(tensor, tag, peer=0):
    """NCCL knows neither tags nor receiving from whoever sends."""
    if tensor.device.type == "cuda" and peer < 0:
        raise ValueError("NCCL receives from a rank that is named: src is needed")
    if tensor.device.type == "cuda" and tag:
        raise NotImplementedError(f"tag={tag}: NCCL has no tags: what is sent comes in its order")


def _source(pg, src, group_src):
    if src is None and group_src is None:
        return -1
    peer = _peer(pg, src, group_src, "src")
    if peer == pg.rank():
        raise ValueError("Invalid source rank: source rank should not be the same as the rank of the current process.")
    return peer


class P2POp:
    """A send or a receive, for batch_isend_irecv."""

    op: Callable[..., Any]
    tensor: Tensor
    group: Any
    tag: int
    group_peer: int
    peer: int | None

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or irecv.")
        self.op, self.group, self.tag = op, group, tag
        self.tensor = _check(tensor, "tensor")
        pg = resolve(group)
        self.group_peer = 0 if pg is None else _peer(pg, peer, group_peer, "peer")
        self.peer = peer if pg is None else pg._ranks[self.group_peer]


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins them all."""
    if not p2p_op_list or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    works = []
    for p in p2p_op_list:
        peer = {"group_dst" if p.op is isend else "group_src": p.group_peer}
        works.append(p.op(p.tensor, group=p.group, tag=p.tag, **peer))
    return [w for w in works if w is not None]


# -- several at once


def all_reduce_coalesced(
    tensors: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """all_reduce of each, as one."""
    _check_list(tensors, "tensors")
    pg = resolve(group)
    if pg is None:
        return None
    for t in tensors:
        _same(t, tensors[0], "all_reduce_coalesced")
    real = [_as_real(t, op, "all_reduce_coalesced") for t in tensors]
    number = _reduction(op, real[0])
    sizes = [t.numel() for t in real]

    def write(r):
        for t, part in zip(real, _averaged(r, op, pg).split(sizes), strict=True):
            t.copy_(part.reshape(t.shape))

    x = _core.cat([t.detach().reshape(-1) for t in real])
    return _record("all_reduce", x, pg, [number], [sum(sizes)], async_op, write, tensors)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """all_gather of each; output_tensor_lists has a list of tensors for each process."""
    inputs = _check_list(input_tensor_list, "input_tensor_list")
    works = [
        all_gather([of_rank[i] for of_rank in output_tensor_lists], t, group, async_op) for i, t in enumerate(inputs)
    ]
    if not async_op or resolve(group) is None:
        return None
    return Work(lambda: [w.wait() for w in works if w], [t for of in output_tensor_lists for t in of], resolve(group))


# -- waiting for each other


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Runs what is recorded, and waits until all processes of the group have come here."""
    pg = resolve(group)
    if pg is None:
        return None
    if device_ids is not None and "cuda" not in pg._backends:
        raise RuntimeError(f"Function argument device_ids not supported for the selected backend {pg._backend}")
    work = _record("barrier", _creation.empty(0, device=pg.device()), pg, [], [0], async_op, lambda r: None, [])
    if not async_op:
        _core._run_recorded("barrier")
    return work


_barriers: dict[int, int] = {}


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier that says who did not come: rank 0 names the others that it waits for in vain."""
    from smolder.distributed._errors import DistStoreError
    from smolder.distributed._groups import _world

    pg = resolve(group)
    if pg is None:
        return
    settle()
    seconds = pg._timeout if timeout is None else seconds_of(timeout)
    turn = _barriers[pg._number] = _barriers.get(pg._number, 0) + 1
    store = _world.store._of
    place = f"barrier/{pg._number}/{turn}"
    store.set(f"{place}/{pg.rank()}", "here")
    if pg.rank() == 0:
        missing = []
        for r in range(1, pg.size()):
            try:
                store.wait([f"{place}/{r}"], seconds if not missing else 0.001)
            except DistStoreError:
                missing.append(pg._ranks[r])
                if not wait_all_ranks:
                    break
        if missing:
            text = f"Rank {pg._ranks[0]} timed out in monitoredBarrier after {int(seconds * 1000)} ms. Rank(s) "
            text += f"{', '.join(map(str, missing))} failed to pass monitoredBarrier"
            store.set(f"{place}/end", text)
            raise RuntimeError(text)
        store.set(f"{place}/end", "")
        return
    store.wait([f"{place}/end"], seconds * 2 + 5)
    said = store.get(f"{place}/end").decode()
    if said:
        raise RuntimeError(said)
