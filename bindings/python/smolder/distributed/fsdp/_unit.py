"""The parameters that one fully_shard divides: brought together for a forward and a backward pass, their gradients
reduced to each process's part.

All is recorded: bringing them together is a differentiated op, whose gradient is the reduction. So a pass needs no
bookkeeping, and the plan of the step says when memory is free again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from smolder import _core, _creation
from smolder.autograd import Function, no_grad
from smolder.autograd.graph import _innermost_hooks, saved_tensors_hooks
from smolder.distributed.tensor import _redistribute as moves
from smolder.distributed.tensor._api import DTensor, local_part, parameter_of, plain, wrap
from smolder.distributed.tensor.placement_types import DTensorSpec, Replicate, Shard, _StridedShard

if TYPE_CHECKING:
    from smolder.distributed.device_mesh import DeviceMesh

__all__ = ["Unit", "managed_parameters"]


_active: list[Any] = []  # units whose forward passes are under way, innermost last


class _Place(NamedTuple):
    """A parameter of a unit."""

    name: str
    owners: list[Any]  # modules and names that it is known by
    shard: Any
    shape: tuple[int, ...]  # before it was divided
    within: DTensorSpec | None  # where it lay before: on a mesh of tensor parallel

    @property
    def inner(self):
        return math.prod(self.shape[1:])


def managed_parameters(module: Any, ignored: set[Any], taken: Any) -> list[tuple[str, Any, list[Any]]]:
    """(name, parameter, modules that have it) for each parameter below a module that no unit manages yet."""
    found: dict[int, tuple[str, Any, list[Any]]] = {}
    seen = set()

    def walk(child, path):
        seen.add(child)
        for name, p in child._parameters.items():
            if p is not None and p not in ignored:
                found.setdefault(id(p), (f"{path}{name}", p, []))[2].append((child, name))
        for name, below in child.named_children():
            if below not in seen and below not in taken:
                walk(below, f"{path}{name}.")

    walk(module, "")
    return list(found.values())


def _spec_of(p, mesh):
    """How a parameter lies on the mesh, divided along its first dimension; what it was on a mesh of its own before."""
    rank = mesh.ndim
    mine = [Replicate()] * (rank - 1) + [Shard(0)]
    if not isinstance(p, DTensor):
        return DTensorSpec(mesh, tuple(mine), tuple(p.shape)), None
    before = p._spec
    whole = mesh._whole()
    if before.mesh._whole() != whole or not whole.mesh_dim_names:
        raise ValueError(
            "fully_shard: a DTensor parameter must lie on a mesh that is sliced from the same mesh as the one that is given"
        )
    parts = math.prod(before.mesh.size(d) for d, q in enumerate(before.placements) if q == Shard(0))
    first = _StridedShard(0, parts) if parts > 1 else Shard(0)
    joint = whole[(*mesh.mesh_dim_names, *before.mesh.mesh_dim_names)]
    return DTensorSpec(joint, (*mine[:-1], first, *before.placements), before.shape), before


class Unit:
    """A module that fully_shard divided."""

    def __init__(
        self, module: Any, named: Any, mesh: DeviceMesh, reshard_after_forward: bool | None, policy: Any
    ) -> None:
        self.module = weakref.ref(module)
        self.mesh, self.policy, self.reshard_after_forward = mesh, policy, reshard_after_forward
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.sync = self.reduces_replicas = True
        self.divide_by = float(mesh.size())
        self.full: list[Any] | None = None
        self._depth = 0
        self._is_outermost: bool | None = None
        self._pending: dict[int, Any] = {}
        self._pending_parts: dict[int, Any] = {}
        self._again: tuple[int, list[Any]] | None = None
        # Work that runs beside the computation: see _Ahead.
        self._order: list[Unit] = []  # of the outermost one: units as its last forward pass came to them
        self._passed: list[Unit] = []  # the same of the pass that goes on
        self._before: Unit | None = None  # the one before it in that pass
        self._is_dropped = False  # the backward pass needs whole parameters again
        self._ahead: _Ahead | None = None
        self.places = [self._divide(*one) for one in named]
        self.reshard()

    def _divide(self, name, p, owners):
        if p.dim() == 0:
            raise ValueError(f"fully_shard: {name} is a scalar: make it a tensor of one element")
        if p.device.type not in (self.mesh.device_type, "meta"):
            raise ValueError(f"fully_shard: {name} is on {p.device}, and the mesh is of {self.mesh.device_type!r}")
        spec, within = _spec_of(p, self.mesh)
        local = plain(p).detach()
        alone = DTensorSpec(self.mesh, (Replicate(),) * (self.mesh.ndim - 1) + (Shard(0),), tuple(local.shape))
        shard = parameter_of(local_part(local, alone), spec, p.requires_grad)
        for key, value in vars(p).items():
            if not key.startswith("_"):
                setattr(shard, key, value)
        return _Place(name, owners, shard, tuple(local.shape), within)

    # -- together and apart

    def _compute_dtype(self, place):
        dtype = plain(place.shard).dtype
        wanted = self.policy.param_dtype
        return wanted if wanted is not None and dtype.is_floating_point else dtype

    def begin(self, shards: Any) -> list[tuple[list[int], Any]]:
        """Begins to bring parts together: one collective a dtype. By parameters, what finishes it."""
        begun = []
        for dtype, of in self._by_dtype(dict(enumerate(map(self._compute_dtype, self.places)))).items():
            parts = []
            for i in of:
                x = plain(shards[i]).detach().to(dtype)
                rows = self._chunk(i) - x.shape[0]
                parts.append(x.reshape(-1))
                if rows:
                    parts.append(_creation.zeros(rows * self.places[i].inner, dtype=dtype, device=x.device))
            begun.append((of, moves.begin_pieces(_core.cat(parts), [self._width(i) for i in of], self.group)))
        return begun

    def gather(self, shards: Any) -> list[Any]:
        """Whole parameters of parts."""
        ahead, self._ahead = self._ahead, None
        begun = None if ahead is None else ahead.take(shards)
        out: list[Any] = [None] * len(self.places)
        for of, finish in begun or self.begin(shards):
            flat, at = finish(), 0
            for i in of:
                place, n = self.places[i], self.group.size() * self._width(i)
                whole = flat[at : at + n].reshape([self.group.size() * self._chunk(i), *place.shape[1:]])
                out[i] = whole[: place.shape[0]]
                at += n
        return out

    def _chunk(self, i):
        return -(-self.places[i].shape[0] // self.group.size())

    def _width(self, i):
        """How many elements of a parameter each process has, with what fills up the last one's."""
        return self._chunk(i) * self.places[i].inner

    def _by_dtype(self, dtypes):
        """Numbers of parameters by dtype. Those of whole 16 bytes come first, so that whole tensors begin at such."""
        found: dict[Any, list[int]] = {}
        for i, dtype in dtypes.items():
            found.setdefault(dtype, []).append(i)
        for dtype, of in found.items():
            of.sort(key=lambda i: self._width(i) * dtype.itemsize % 16 != 0)
        return found

    def unshard(self) -> None:
        """Makes the module's parameters whole, unless they are."""
        if self.full is not None or not self.places:
            return
        self._adopt()
        full = _Unshard.apply(self, *(plain(p.shard) for p in self.places))
        self.full = list(full)
        for place, whole in zip(self.places, full, strict=True):
            value = whole
            if place.within is not None:
                value = wrap(whole, place.within)
            for module, name in place.owners:
                module._parameters[name] = value

    def _adopt(self):
        """Takes parameters that were put into the module as its parts, as load_state_dict(assign=True) does."""
        for i, place in enumerate(self.places):
            module, name = place.owners[0]
            given = module._parameters[name]
            if given is place.shard:
                continue
            if not isinstance(given, DTensor) or given._spec != place.shard._spec:
                of = given._spec if isinstance(given, DTensor) else type(given).__name__
                raise RuntimeError(
                    f"fully_shard: {place.name} was set to a parameter of {of}, where the module has one of "
                    f"{place.shard._spec}: distribute_tensor() makes that of a whole tensor"
                )
            self.places[i] = place._replace(shard=given)

    def reshard(self) -> None:
        """Gives the module its parts back."""
        self.full = None
        for place in self.places:
            for module, name in place.owners:
                module._parameters[name] = place.shard

    def write_back(self) -> None:
        """Takes over what was written to whole parameters."""
        for place, whole in zip(self.places, self.full or (), strict=True):
            alone = DTensorSpec(self.mesh, place.shard._spec.placements[: self.mesh.ndim], place.shape)
            plain(place.shard).detach().copy_(local_part(whole, alone))

    # -- a forward pass

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Within it parameters are whole. What the pass keeps of them is brought together again in the backward pass,
        where they are to be divided in between."""
        drops = self._drops()
        _active.append(self)
        if len(_active) == 1:
            self._order, self._passed = self._passed, []
        try:
            with self._whole(drops) if self.places else nullcontext():
                yield
        finally:
            _active.pop()
            if not _active:
                for unit in self._order:
                    unit._ahead = None  # what the pass before came to, and this one did not

    @contextmanager
    def _whole(self, drops):
        kept_before = self._depth == 0 and self.full is not None  # by unshard()
        self.unshard()
        if self._depth == 0:
            self._look_ahead()
        self._depth += 1
        hooks = nullcontext()
        if drops and _core.is_grad_enabled() and self.group.size() > 1:
            outer = _innermost_hooks()
            hooks = saved_tensors_hooks(partial(self._pack, outer), partial(self._unpack, outer))
        try:
            with hooks:
                yield
        finally:
            self._depth -= 1
            if self._depth == 0 and (self.reshard_after_forward or not kept_before):
                self.reshard()

    def _drops(self):
        """Whether whole parameters are freed after the forward pass: unless told, but for the outermost unit."""
        if self._is_outermost is None:  # known since the first pass: recomputation calls inner ones alone
            self._is_outermost = not _active
        return not self._is_outermost if self.reshard_after_forward is None else self.reshard_after_forward

    def _look_ahead(self):
        """Begins to bring together what came next in the last pass, beside what this unit computes."""
        outermost = _active[0]
        passed, order = outermost._passed, outermost._order
        at = len(passed)
        self._before = passed[-1] if passed else None
        self._is_dropped = False
        passed.append(self)
        if at + 1 < len(order) and order[at] is self and order[at + 1].full is None:
            order[at + 1]._ahead = _Ahead(order[at + 1])

    def _pack(self, outer, t):
        for i, full in enumerate(self.full or ()):
            if _core._is_same_value(t, full):
                self._is_dropped = True
                return _Dropped(i)
        return t if outer is None else outer.pack_hook(t)

    def _unpack(self, outer, kept):
        if isinstance(kept, _Dropped):
            return self._gathered_again()[kept.number]
        return kept if outer is None else outer.unpack_hook(kept)

    def _gathered_again(self):
        """Whole parameters, once a backward pass."""
        run = _core._current_backward()
        if self._again is None or self._again[0] != run or run == 0:
            self._again = run, self.gather([p.shard for p in self.places])
            self._is_dropped = False
            self._look_back()
        return self._again[1]

    def _look_back(self):
        """Begins to bring together what the backward pass comes to next, of what was freed."""
        before, passed = self._before, {self}
        while before is not None and before not in passed and not before._is_dropped:
            passed.add(before)
            before = before._before
        if before is not None and before._is_dropped and before._ahead is None:
            before._ahead = _Ahead(before)

    # -- a backward pass

    def reduce(self, grads: Any) -> list[Any]:
        """Gradients of the parts, of those of whole parameters, each of which this process has a term of."""
        self._again = self._ahead = None
        if self._depth == 0:
            self.reshard()  # what unshard() brought together
        self._look_back()
        found = dict(self._pending)
        for i, g in enumerate(grads):
            if g is not None:
                g = g.detach()
                found[i] = g if i not in found else found[i] + g
        if not self.sync:
            self._pending = found
            return [None] * len(grads)
        self._pending = {}
        out: list[Any] = [None] * len(grads)
        wanted = self.policy.reduce_dtype
        for dtype, of in self._by_dtype({i: wanted or found[i].dtype for i in sorted(found)}).items():
            flat = _core.cat([self._filled_up(i, found[i].to(dtype)) for i in of])
            part, at = moves.reduce_pieces(flat, [self._width(i) for i in of], self.group), 0
            for i in of:
                mine = plain(self.places[i].shard).shape
                out[i] = part[at : at + math.prod(mine)].reshape(mine)
                at += self._width(i)
            self._over_replicas(of, out)
        return [None if g is None else g.to(plain(self.places[i].shard).dtype) for i, g in enumerate(out)]

    def _filled_up(self, i, grad):
        """A whole gradient, flat, with as many rows for each process."""
        rows = self._chunk(i) * self.group.size()
        if rows != grad.shape[0]:
            missing = _creation.zeros([rows - grad.shape[0], *grad.shape[1:]], dtype=grad.dtype, device=grad.device)
            grad = _core.cat([grad, missing])
        return grad.reshape(-1)

    def _over_replicas(self, of, out):
        for i in of:
            if i in self._pending_parts:
                out[i] = out[i] + self._pending_parts.pop(i)
        if self.replicas is not None:
            if not self.reduces_replicas:
                for i in of:
                    self._pending_parts[i], out[i] = out[i], None
                return
            flat = moves.all_reduced(_core.cat([out[i].reshape(-1) for i in of]), self.replicas)
            for i, part in zip(of, flat.split([math.prod(out[i].shape) for i in of]), strict=True):
                out[i] = part.reshape(out[i].shape)
        if self.divide_by != 1.0:
            for i in of:
                out[i] = out[i] / self.divide_by


class _Ahead:
    """Parts of a unit that were begun to be brought together before they are needed."""

    def __init__(self, unit: Unit) -> None:
        self._parts = [plain(p.shard).detach() for p in unit.places]
        with no_grad():
            self._begun = unit.begin(self._parts)

    def take(self, shards: Any) -> Any:
        """Returns the function that finishes the gathering, or None if parts were written to since."""
        if not all(_core._is_same_value(a, plain(b).detach()) for a, b in zip(self._parts, shards, strict=True)):
            return None
        begun, self._begun = self._begun, []
        return begun

    def __del__(self) -> None:
        for _, finish in getattr(self, "_begun", ()):  # a device writes to its memory until it is waited for
            finish()


class _Dropped:
    """Stands in the graph for a whole parameter that is not kept."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _Unshard(Function):
    """Whole parameters of the parts of all processes."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, *shards: Any) -> Any:
        """One whole parameter for each part."""
        ctx.unit = unit
        ctx.set_materialize_grads(False)
        return tuple(unit.gather(shards))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # type: ignore[override]
        """The gradients of the parts."""
        return None, *ctx.unit.reduce(grads)
