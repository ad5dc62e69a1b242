"""DistributedDataParallel: a copy of the module in each process, and gradients that are the mean of all copies'.

The whole step is recorded. As the backward pass is, each bucket of gradients whose last one was made becomes one
all_reduce, which runs while the rest of the backward pass does. When the pass is recorded, the results are waited for.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from smolder import _core, _creation
from smolder._warn import warn
from smolder.autograd import no_grad
from smolder.cuda._index import index_of
from smolder.distributed._collectives import _check, all_gather_into_tensor, all_reduce, broadcast
from smolder.distributed._groups import _world, make_beside, resolve
from smolder.nn.module import Module
from smolder.utils._pytree import tree_map

if TYPE_CHECKING:
    from smolder import Tensor
    from smolder.futures import Future

__all__ = ["DistributedDataParallel", "GradBucket"]

_MIB = 1 << 20
_FIRST_BUCKET = _MIB  # small, so that the first bytes are soon under way
_reducers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by DistributedDataParallel


class GradBucket:
    """Gradients that travel together, as a hook of register_comm_hook sees them."""

    def __init__(self, index: int, parameters: list[Tensor], flat: Tensor, is_last: bool) -> None:
        self._index, self._parameters, self._flat, self._is_last = index, parameters, flat, is_last

    def index(self) -> int:
        """Its number."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients, one after the other."""
        return self._flat

    def set_buffer(self, buffer: Tensor) -> None:
        """Puts another tensor in their place."""
        self._flat = buffer

    def gradients(self) -> list[Tensor]:
        """Each gradient in its own shape."""
        parts = self._flat.split([p.numel() for p in self._parameters])
        return [part.reshape(p.shape) for part, p in zip(parts, self._parameters, strict=True)]

    def parameters(self) -> list[Tensor]:
        """The parameters that they are of."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether no bucket comes after."""
        return self._is_last


class DistributedDataParallel(Module):
    """Runs a module on this process's part of the batch, and averages gradients over the processes of the group.

    Parameters and buffers are those of rank 0 at first. Where broadcast_buffers is on, each forward pass takes the
    buffers of rank 0. A backward pass must reach every parameter, unless find_unused_parameters=True says that it may
    not; which ones were reached is then exchanged in each pass.
    """

    module: Module
    process_group: Any
    broadcast_buffers: bool
    find_unused_parameters: bool
    static_graph: bool
    dim: int
    gradient_as_bucket_view: bool
    device: Any
    device_ids: list[int] | None
    output_device: int | None
    require_backward_grad_sync: bool

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
        ):
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")
        if skip_all_reduce_unused_params:
            raise NotImplementedError("DistributedDataParallel: skip_all_reduce_unused_params is not supported")
        group = resolve(process_group)
        if group is None:
            raise ValueError("DistributedDataParallel: this process is not in the group")
        if check_reduction:  # every reduction is complete
            warn(
                "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.",
                FutureWarning,
            )
        self.dim = dim  # of no effect where a process has one device, as in torch
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.device, self.device_ids, self.output_device = _devices(module, device_ids, output_device)
        self.module = module
        self.process_group, self.broadcast_buffers = group, broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in named if n not in ignored]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        for name, p in named:
            _check(p, name)
            group.check_device(p)
        self._buffers_sent = [b for n, b in module.named_buffers() if n not in ignored]
        cap = 25.0 if bucket_cap_mb is None else float(bucket_cap_mb)
        if not cap > 0:
            raise ValueError(f"DistributedDataParallel: bucket_cap_mb must be positive, got {bucket_cap_mb}")
        if init_sync:
            frozen = [p for n, p in module.named_parameters() if not p.requires_grad and n not in ignored]
            _check_alike([n for n, _ in named], [p for _, p in named], group)
            _send_from_first([*(p for _, p in named), *frozen, *self._buffers_sent], group)
        _reducers[self] = _Reducer(self, named, int(cap * _MIB))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's own, with the buffers of rank 0."""
        if self.broadcast_buffers and self.require_backward_grad_sync and self._buffers_sent:
            _send_from_first(self._buffers_sent, self.process_group)
        if self.device_ids:
            inputs, kwargs = _moved((inputs, kwargs), self.device)
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients are of this process alone, and add up. The first backward pass outside averages all."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Future[Any]]) -> None:
        """Has hook(state, bucket) reduce each bucket, which is not divided yet; its future gives the reduced tensor."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        reducer = _reducers[self]
        if reducer.comm_hook is not None:
            raise RuntimeError("register_comm_hook can only be called once.")
        reducer.comm_hook = (state, hook)

    def join(self, *_: Any, **__: Any) -> Any:
        """Raises: inputs of different number are not supported."""
        raise NotImplementedError(
            "DistributedDataParallel.join is not supported: give all processes as many batches (DistributedSampler does)"
        )

    def __getstate__(self) -> Any:
        raise TypeError("DistributedDataParallel is not pickled: save its module, or its state_dict()")


def _devices(module, device_ids, output_device):
    """The device of a module, and device_ids and output_device as numbers."""
    found = {p.device for p in module.parameters()}
    if not device_ids and output_device is None:
        return next(iter(found), None), None, None
    if len(found) != 1 or next(iter(found)).type != "cuda" or len(device_ids or [0]) != 1:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
            "GPU modules or CPU modules, but got "
            f"device_ids {device_ids}, output_device {output_device}, and module parameters {found}."
        )
    device = next(iter(found))
    numbers = [index_of(d) for d in (device_ids or [device])]
    output = numbers[0] if output_device is None else index_of(output_device)
    if numbers != [device.index] or output != device.index:
        raise ValueError(
            f"DistributedDataParallel: device_ids {device_ids} and output_device {output_device} are not {device}, where "
            "the module is"
        )
    return device, numbers, output


def _moved(values, device):
    return tree_map(lambda x: x.to(device) if isinstance(x, _core.Tensor) else x, values)


class _Reducer:
    """Handles gradients in a backward pass. It is no attribute of the module: what it notes changes in each step."""

    def __init__(self, module, named, cap):
        self._module = weakref.ref(module)
        self.group, self._views = module.process_group, module.gradient_as_bucket_view
        self.names, self.parameters = [n for n, _ in named], [p for _, p in named]
        self.buckets = _buckets_of(self.parameters, cap)
        self.bucket_of = {i: b for b, of in enumerate(self.buckets) for i in of}
        self.comm_hook: tuple[Any, Callable[..., Any]] | None = None
        self._pass = 0  # the backward pass that is being recorded
        self._flying: list[Any] = []
        self._control = _control_group(self.group) if module.find_unused_parameters else None
        for i, p in enumerate(self.parameters):
            p.register_post_accumulate_grad_hook(partial(_ready, weakref.ref(self), i))

    def ready(self, number):
        """The gradient of a parameter was recorded."""
        module = self._module()
        if module is None or not module.require_backward_grad_sync:
            return
        run = _core._current_backward()
        if run != self._pass:
            self._begin_pass(run)
        bucket = self.bucket_of[number]
        self._missing[bucket] -= 1
        self._left -= 1
        while self._next < len(self.buckets) and self._missing[self._next] <= 0:
            self._launch()
        if self._left == 0:
            self._end_pass()

    def _begin_pass(self, run):
        reached = [_core._backward_reaches(p) for p in self.parameters]
        unused = [n for n, r in zip(self.names, reached, strict=True) if not r]
        if unused and self._control is None:
            raise RuntimeError(
                f"DistributedDataParallel: the backward pass does not reach {', '.join(unused[:5])}"
                f"{' and others' if len(unused) > 5 else ''}. Other processes wait for these gradients. Pass "
                "find_unused_parameters=True where parameters may take no part in the loss"
            )
        self._used = reached
        if self._control is not None:
            self._used = self._control(reached)
        self._pass, self._next, self._flying = run, 0, []
        self._left = sum(reached)
        self._missing = [sum(reached[i] for i in bucket) for bucket in self.buckets]

    def _launch(self):
        number, self._next = self._next, self._next + 1
        of = [i for i in self.buckets[number] if self._used[i]]
        if not of:
            return
        parameters = [self.parameters[i] for i in of]
        with no_grad():
            parts = [
                _creation.zeros(p.shape, dtype=p.dtype, device=p.device) if p.grad is None else p.grad
                for p in parameters
            ]
            flat = _core.cat([g.detach().reshape(-1) for g in parts])
            bucket = GradBucket(number, parameters, flat, number == len(self.buckets) - 1)
            if self.comm_hook is None:
                future = _mean(self.group, bucket)
            else:
                state, hook = self.comm_hook
                future = hook(state, bucket)
        self._flying.append((bucket, future))

    def _end_pass(self):
        while self._next < len(self.buckets):
            self._launch()
        flying, self._flying, self._pass = self._flying, [], 0
        with no_grad():
            for bucket, future in flying:
                value = future.wait()
                bucket.set_buffer(value[0] if isinstance(value, list | tuple) else value)
                for p, g in zip(bucket.parameters(), bucket.gradients(), strict=True):
                    if self._views:
                        p.grad = g
                    elif p.grad is None:
                        p.grad = g.clone()
                    else:
                        p.grad.copy_(g)


def _ready(reducer, number, _):
    """The hook of a parameter, which keeps neither the reducer nor, by that, the parameters."""
    found = reducer()
    if found is not None:
        found.ready(number)


def _mean(group, bucket):
    work = all_reduce(bucket.buffer() / group.size(), group=group, async_op=True)
    assert work is not None
    return work.get_future()


def _buckets_of(parameters, cap):
    """Indices of parameters, from the last to the first, as their gradients come; each bucket of one dtype."""
    buckets, open_buckets = [], {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        bucket, size = open_buckets.get(p.dtype, (None, 0))
        limit = _FIRST_BUCKET if len(buckets) <= 1 else cap
        if bucket is None or size >= min(limit, cap):
            bucket, size = [], 0
            buckets.append(bucket)
        bucket.append(i)
        open_buckets[p.dtype] = (bucket, size + p.numel() * p.element_size())
    return buckets


def _control_group(group):
    """Asks all processes of the group who of them reached what, beside the step: by another group on the CPU, or by the
    store where there is no backend of it."""
    if "cpu" in group._backends:
        number = make_beside(group)._number
        return lambda reached: [u > 0 for u in _core._dist_all_reduce_now(number, [int(r) for r in reached])]
    return partial(_any_by_store, make_beside(group)._number, group, count(1))


def _any_by_store(number, group, passes, reached):
    store, now = _world.store, next(passes)
    key = f"reached/{number}/{{}}/{{}}"
    store.set(key.format(now, group.rank()), bytes(map(int, reached)))
    said = [store.get(key.format(now, r)) for r in range(group.size())]
    store.delete_key(key.format(now - 1, group.rank()))  # which all have read who are here
    return [any(of) for of in zip(*said, strict=True)]


def _check_alike(names, parameters, group):
    """Throws where the processes' parameters differ in number, name, shape or dtype."""
    text = repr([(n, tuple(p.shape), str(p.dtype)) for n, p in zip(names, parameters, strict=True)])
    where = group.device()
    digest = _creation.tensor(list(hashlib.sha256(text.encode()).digest()), dtype=_core.uint8, device=where)
    out = _creation.zeros([group.size(), 32], dtype=_core.uint8, device=where)
    all_gather_into_tensor(out, digest, group)
    rows = out.tolist()
    for r, row in enumerate(rows):
        if row != rows[0]:
            raise RuntimeError(
                f"DistributedDataParallel: the parameters of rank {group._ranks[r]} are not those of rank "
                f"{group._ranks[0]}: names, shapes or dtypes differ. This process's are {text[:300]}"
            )


def _send_from_first(tensors, group):
    """Gives tensors the values that they have on the first rank: one broadcast a dtype."""
    by_dtype: dict[Any, list[Any]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    with no_grad():
        for same in by_dtype.values():
            flat = _core.cat([t.detach().reshape(-1) for t in same])
            broadcast(flat, group=group, group_src=0)
            if group.rank() == 0:
                continue
            for t, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
                t.copy_(part.reshape(t.shape))
