"""DTensor: one tensor that several processes hold, each its part, and that computes as if it were whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core, _creation, overrides
from smolder._layouts import strided
from smolder._subclass import Tensor
from smolder.distributed import device_mesh as meshes
from smolder.distributed.tensor import _redistribute
from smolder.distributed.tensor.placement_types import DTensorSpec, Partial, Placement, Replicate, Shard
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter

if TYPE_CHECKING:
    from smolder.distributed.device_mesh import DeviceMesh

__all__ = [
    "DTensor",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "parameter_of",
    "plain",
    "rand",
    "randn",
    "wrap",
    "zeros",
]


def plain(x: Any) -> Any:
    """The local tensor of a DTensor, with the same history and gradient; anything else as it is."""
    return Tensor(x) if isinstance(x, DTensor) else x


class DTensor:
    """A tensor of which each process of a mesh has a part, a copy or a term, as its placements say.

    distribute_tensor and from_local make them. Ops on them are those that docs/distributed.md lists; others raise.
    Its objects are tensors; those that a module trains are parameters.
    """

    _spec: DTensorSpec

    def __new__(cls, *_: Any, **__: Any) -> Any:
        if cls is DTensor:
            raise TypeError("a DTensor is made by distribute_tensor or DTensor.from_local")
        return super().__new__(cls)

    @staticmethod
    def from_local(
        local_tensor: Any,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Any:
        """The tensor that this process has a part of. Without a shape, parts of all processes are as long as this one."""
        if isinstance(local_tensor, DTensor):
            raise RuntimeError("the local_tensor argument only accepts torch.Tensor but got DTensor")
        mesh = device_mesh or meshes.current()
        given = _normal(mesh, placements, local_tensor.dim())
        if run_check:
            for d, p in enumerate(given):
                if isinstance(p, Replicate) and mesh.size(d) > 1:
                    from smolder.distributed import broadcast

                    local_tensor = local_tensor.clone()
                    broadcast(local_tensor.detach(), group=mesh.get_group(d), group_src=0)
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time."
            )
        whole = list(local_tensor.shape) if shape is None else list(shape)
        if shape is None:
            for d, p in enumerate(given):
                if isinstance(p, Shard):
                    whole[p.dim] *= mesh.size(d)
        return wrap(local_tensor, DTensorSpec(mesh, given, tuple(whole)))

    def _become_parameter(self, parameter):
        """Makes a parameter that Parameter() began one of this tensor's kind. Returns the local tensor."""
        parameter.__class__, parameter._spec = _Trained, self._spec
        return plain(self)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """This process's part. The gradient comes in this tensor's placements, unless grad_placements are given."""
        x = plain(self)
        if grad_placements is not None and x.requires_grad:
            x = _with_gradient_from(x, self._spec, tuple(grad_placements))
        return x

    @property
    def _local_tensor(self) -> Any:
        return plain(self)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> Any:
        """The same in other placements."""
        del async_op  # the step is recorded: nothing is waited for here
        if forward_dtype is not None or backward_dtype is not None:
            raise NotImplementedError("DTensor.redistribute: forward_dtype and backward_dtype are not supported")
        if device_mesh is not None and device_mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        given = _normal(self._spec.mesh, placements, self._spec.ndim)
        if given == self._spec.placements:
            return self
        for before, after in zip(self._spec.placements, given, strict=True):
            if isinstance(after, Partial) and before != after:
                raise RuntimeError(
                    "Can not redistribute to Partial, redistributing to Partial is for internal use only!"
                )
        local = _redistribute.redistributed(plain(self), self._spec, given)
        return wrap(local, DTensorSpec(self._spec.mesh, given, self._spec.shape))

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """All of it, on each process."""
        whole = (Replicate(),) * self._spec.mesh.ndim
        return self.redistribute(placements=whole).to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies in each dimension of the mesh."""
        return self._spec.placements

    # -- what a tensor says of itself

    @property
    def shape(self) -> Any:
        """The shape of the whole."""
        return type(plain(self).shape)(self._spec.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape of the whole, or the length in one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """How many dimensions it has."""
        return len(self._spec.shape)

    def ndimension(self) -> int:
        """How many dimensions it has."""
        return self.dim()

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._spec.shape)

    def numel(self) -> int:
        """How many elements the whole has."""
        return math.prod(self._spec.shape)

    def nelement(self) -> int:
        """How many elements the whole has."""
        return self.numel()

    def stride(self, dim: int | None = None) -> Any:
        """As if it were dense."""
        strides = tuple(math.prod(self._spec.shape[d + 1 :]) for d in range(self.ndim))
        return strides if dim is None else strides[dim]

    def is_contiguous(self, **_: Any) -> bool:
        """True."""
        return True

    def __len__(self) -> int:
        if not self._spec.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._spec.shape[0]

    @property
    def grad(self) -> Any:
        """The gradient, in the same placements."""
        g = plain(self).grad
        return None if g is None else wrap(g, DTensorSpec(self._spec.mesh, _of_gradient(self._spec), self._spec.shape))

    @grad.setter
    def grad(self, value: Any) -> None:
        if isinstance(value, DTensor) and value._spec.placements != _of_gradient(self._spec):
            value = value.redistribute(placements=_of_gradient(self._spec))
        plain(self).grad = plain(value)

    @grad.deleter
    def grad(self) -> None:
        plain(self).grad = None

    @property
    def data(self) -> Any:
        """The same without history."""
        return wrap(plain(self).detach(), self._spec)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, DTensor) or value._spec.placements != self._spec.placements:
            raise RuntimeError("the data of a DTensor is a DTensor in the same placements")
        plain(self).data = plain(value)
        self._spec = value._spec

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Says whether a gradient is wanted."""
        plain(self).requires_grad_(requires_grad)
        return self

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Gradients of leaves. A sum of terms is the sum of all processes'."""
        x = self
        if any(isinstance(p, Partial) for p in self._spec.placements):
            x = self.redistribute(
                placements=[Replicate() if isinstance(p, Partial) else p for p in self._spec.placements]
            )
        plain(x).backward(plain(gradient), retain_graph, create_graph)

    def item(self) -> Any:
        """The value of a tensor of one element."""
        return self.full_tensor().item()

    def tolist(self) -> Any:
        """The whole as lists."""
        return self.full_tensor().tolist()

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __float__(self) -> float:
        return float(self.full_tensor())

    def __int__(self) -> int:
        return int(self.full_tensor())

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Raises: full_tensor() or to_local() has an array."""
        raise RuntimeError("a DTensor has no array: take that of full_tensor() or to_local()")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def __repr__(self, **_: Any) -> str:
        return f"DTensor(local_tensor={plain(self)!r}, device_mesh={self._spec.mesh!r}, placements={self._spec.placements})"

    def __str__(self) -> str:
        return self.__repr__()

    def __hash__(self) -> int:
        return id(self) >> 4

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = plain(self).detach().clone()
            memo[id(self)] = (
                parameter_of(copied, self._spec, plain(self).requires_grad)
                if isinstance(self, Parameter)
                else wrap(copied, self._spec).requires_grad_(plain(self).requires_grad)
            )
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a DTensor belongs to a group of processes and is not pickled: save it with distributed.checkpoint"
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from smolder.distributed.tensor import _dispatch

        return _dispatch.call(func, args, kwargs or {})


class _Made(DTensor, Tensor):
    pass


class _Trained(DTensor, Parameter):
    def __repr__(self) -> str:
        return "Parameter containing:\n" + DTensor.__repr__(self)


def _as_dtensor_is(kind):
    """Has methods of tensors ask the class, but for those that DTensor has itself."""
    kind.__name__ = kind.__qualname__ = "DTensor"
    own = set(vars(kind))
    overrides._of_new_class(kind)
    for name in vars(DTensor):
        if name in vars(kind) and name not in own:
            delattr(kind, name)


_as_dtensor_is(_Made)
_as_dtensor_is(_Trained)


def wrap(local: Any, spec: DTensorSpec) -> Any:
    """The DTensor that a local tensor is a part of, with its history."""
    out = _Made.__new__(_Made)
    Tensor.__init__(out, local)
    out._spec = spec
    return out


def parameter_of(local: Any, spec: DTensorSpec, requires_grad: bool = True) -> Any:
    """The same as a parameter, which shares the data."""
    out = _Trained.__new__(_Trained)
    Tensor.__init__(out, local.detach())
    out._spec = spec
    plain(out).requires_grad_(requires_grad)
    return out


def _of_gradient(spec):
    return tuple(Replicate() if isinstance(p, Partial) else p for p in spec.placements)


def _with_gradient_from(x, spec, given):
    """The same, whose gradient comes in other placements."""
    wanted = _of_gradient(spec)
    for d, (before, after) in enumerate(zip(given, wanted, strict=True)):
        if before == after or (isinstance(before, Replicate) and isinstance(spec.placements[d], Partial)):
            continue
        if isinstance(before, Partial) and isinstance(after, Replicate):
            x = _redistribute.copied(x, spec.mesh.get_group(d))
        else:
            raise NotImplementedError(
                f"to_local: grad_placements {given} of a DTensor with placements {spec.placements}"
            )
    return x


def _normal(mesh, placements, ndim):
    """As many placements as the mesh has dimensions, of dimensions counted from the first."""
    given = tuple(placements) if placements is not None else (Replicate(),) * mesh.ndim
    if len(given) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(given)}, and "
            f"device_mesh.ndim: {mesh.ndim}."
        )
    out = []
    for p in given:
        if not isinstance(p, Placement):
            raise TypeError(f"a placement is a Shard, a Replicate or a Partial, not {type(p).__name__}")
        if isinstance(p, Shard) and p.dim < 0:
            p = p.at(p.dim + ndim)
        if isinstance(p, Shard) and not 0 <= p.dim < max(ndim, 1):
            raise ValueError(f"{p!r}: the tensor has {ndim} dimensions")
        out.append(p)
    return tuple(out)


def distribute_tensor(
    tensor: Any,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """A tensor that all processes have, as a DTensor: each takes its part of what the first process of each group has.

    With src_data_rank=None nothing is sent, and each takes its part of its own. A leaf becomes a leaf.
    """
    mesh = device_mesh or meshes.current()
    if isinstance(tensor, DTensor):
        if tensor._spec.mesh != mesh or tensor._spec.placements != _normal(mesh, placements, tensor.dim()):
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor._spec.mesh} to a different device mesh {mesh}, or in "
                "other placements: use redistribute"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    given = _normal(mesh, placements, tensor.dim())
    if any(isinstance(p, Partial) for p in given):
        raise RuntimeError("Trying to distribute a tensor with placements Partial is not supported")
    spec = DTensorSpec(mesh, given, tuple(tensor.shape))
    local = tensor.detach()
    if src_data_rank is not None:
        local = _of_source(local, mesh, src_data_rank)
    part = local_part(local, spec)
    if isinstance(tensor, Parameter):
        return parameter_of(part, spec, tensor.requires_grad)
    return wrap(part, spec).requires_grad_(tensor.requires_grad)


def _of_source(local, mesh, source):
    """The part of the process with that place in each group."""
    from smolder.distributed._collectives import broadcast

    local = local.clone()
    for d in range(mesh.ndim):
        if mesh.size(d) > 1:
            broadcast(local, group=mesh.get_group(d), group_src=source)
    return local


def local_part(whole: Any, spec: DTensorSpec) -> Any:
    """A copy of this process's part of a tensor that it has all of."""
    part = whole
    for dim, (begin, size) in enumerate(spec.parts(spec.coordinate())):
        if size != part.shape[dim]:
            part = part.narrow(dim, begin, size)
    return part.detach().clone()


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Makes a module's parameters and buffers DTensors: as partition_fn(name, module, mesh) does, else replicated.

    input_fn(module, inputs, mesh) and output_fn(module, outputs, mesh) are called around its forward pass.
    """
    mesh = device_mesh or meshes.current()
    for name, child in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, child, mesh)
        for key, p in list(child._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                child.register_parameter(key, distribute_tensor(p, mesh))
        for key, b in list(child._buffers.items()):
            if b is not None and not isinstance(b, DTensor):
                child._buffers[key] = distribute_tensor(b, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module


def _check_strided(name, layout):
    if layout not in (None, strided):
        raise NotImplementedError(f"distributed.tensor.{name}: layout {layout} is not supported: DTensors are strided")


def _factory(name, make):
    def create(
        *size: Any,
        requires_grad: bool = False,
        dtype: Any = None,
        layout: Any = None,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
    ) -> Any:
        _check_strided(name, layout)
        shape = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
        mesh = device_mesh or meshes.current()
        spec = DTensorSpec(mesh, _normal(mesh, placements, len(shape)), tuple(shape))
        return wrap(make(shape, spec, dtype), spec).requires_grad_(requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"A DTensor, as smolder.{name} makes a tensor."
    return create


def _same_everywhere(function):
    return lambda shape, spec, dtype: function(list(spec.local_shape()), dtype=dtype)


zeros: Any = _factory("zeros", _same_everywhere(_creation.zeros))
ones: Any = _factory("ones", _same_everywhere(_creation.ones))
empty: Any = _factory("empty", _same_everywhere(_creation.empty))
# All processes draw all of it: with one seed they have parts of one tensor.
rand: Any = _factory("rand", lambda shape, spec, dtype: local_part(_core.rand(shape, dtype=dtype), spec))
randn: Any = _factory("randn", lambda shape, spec, dtype: local_part(_core.randn(shape, dtype=dtype), spec))


def full(
    size: Sequence[int],
    fill_value: float,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> Any:
    """A DTensor, as smolder.full makes a tensor."""
    _check_strided("full", layout)
    mesh = device_mesh or meshes.current()
    spec = DTensorSpec(mesh, _normal(mesh, placements, len(size)), tuple(size))
    local = _creation.full(list(spec.local_shape()), fill_value, dtype=dtype)
    return wrap(local, spec).requires_grad_(requires_grad)
