"""The class of sparse tensors: a Tensor whose handle is that of its values, and whose every call is answered by a rule."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from smolder import _core
from smolder._layouts import check_format, sparse_coo, sparse_csc, sparse_csr
from smolder._sparse import _make, _movement, _parts, _str
from smolder._sparse._dispatch import RULES, call, rule, write
from smolder._sparse._parts import COO, CSC, CSR, is_sparse, kind, like, made, missing, need, values_of
from smolder._tensor import _CONVERSIONS, _TYPE_NAMES, Size, Tensor, size_of
from smolder.overrides import DisableTorchFunction


def _plain(name):
    """A member of Tensor that is the same of the values."""
    member = getattr(Tensor, name)
    get = getattr(member, "fget", None) or getattr(member, "__get__", None)

    def of_values(self):
        with DisableTorchFunction():
            return get(self)

    return property(of_values, doc=member.__doc__)


_OF_CONTEXTS = {"save_for_backward", "mark_dirty", "mark_non_differentiable"}  # what functions with own gradients keep


class SparseTensor(Tensor):
    """A tensor that keeps few of its elements; the others are zero. It has Tensor's members, and those that have no rule
    for its layout raise NotImplementedError."""

    _answers_private = True  # functions that programs do not name would take it for its values, too

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("sparse tensors are made by sparse_coo_tensor, sparse_csr_tensor or to_sparse")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.removesuffix("_of")
        if not name:  # a property of C++'s, as `dense.grad = sparse` sets
            with DisableTorchFunction():
                return func(*args)
        if name in _OF_CONTEXTS:
            if name == "save_for_backward":
                args[0]._sparse_saved = {i: t.detach() for i, t in enumerate(args[1:]) if is_sparse(t)}
            with DisableTorchFunction():
                return func(*args)
        return call(name, *args, **(kwargs or {}))

    # -- what it is

    dtype = _plain("dtype")
    device = _plain("device")
    is_leaf = _plain("is_leaf")
    grad_fn = _plain("grad_fn")
    is_cuda, is_cpu, is_meta = _plain("is_cuda"), _plain("is_cpu"), _plain("is_meta")
    _on_cpu, _device, retains_grad = _plain("_on_cpu"), _plain("_device"), _plain("retains_grad")
    layout = property(lambda self: _parts.LAYOUTS[kind(self)], doc="sparse_coo, sparse_csr or sparse_csc.")
    shape = property(lambda self: Size(_core._sparse_parts(self)[1]), doc="The extents, as a Size.")
    ndim = property(lambda self: len(self.shape), doc="Number of dimensions.")
    is_sparse = property(lambda self: kind(self) == COO, doc="Whether the layout is sparse_coo.")
    is_sparse_csr = property(lambda self: kind(self) == CSR, doc="Whether the layout is sparse_csr.")

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The extents, or that of one dimension."""
        return size_of(self.shape, dim)

    def numel(self) -> int:
        """Number of elements, the zeros too."""
        return self.shape.numel()

    def stride(self, dim: int | None = None) -> Any:
        """Zeros, as the elements have no strides; raises of a compressed layout."""
        if kind(self) != COO:
            raise RuntimeError(f"{_parts.word(self.layout)} tensors do not have strides")
        return (0,) * self.dim() if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False."""
        return False

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the values are in memory of the host that CUDA's devices read by themselves."""
        return values_of(self).is_pinned()

    def data_ptr(self) -> int:
        """Raises: there is no one address."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def tolist(self) -> Any:
        """Raises: to_dense() comes first."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def numpy(self, *, force: bool = False) -> Any:
        """Raises: to_dense() comes first."""
        raise TypeError(
            f"can't convert {_parts.word(self.layout)} layout tensor to numpy. Use Tensor.to_dense() first."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def untyped_storage(self) -> Any:
        """Raises: values and indices have storages."""
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    storage = _typed_storage = is_shared = share_memory_ = untyped_storage

    @property
    def nbytes(self) -> int:
        """Raises: values and indices have bytes."""
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of "
            "the indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by "
            "element_size()"
        )

    def item(self) -> Any:
        """The only element."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.to_dense().item()

    # -- its parts

    def sparse_dim(self) -> int:
        """How many dimensions the indices are of."""
        return _parts.sparse_dims(self)

    def dense_dim(self) -> int:
        """How many dimensions each value has."""
        return values_of(self).dim() - 1

    def _nnz(self) -> int:
        """How many values there are."""
        return _parts.count(self)

    def is_coalesced(self) -> bool:
        """Whether the indices are known to be in order, each once."""
        need("is_coalesced", self, sparse_coo)
        return _core._sparse_parts(self)[3]

    def coalesce(self) -> Tensor:
        """The tensor with values of one place added up, and places in order; itself when it is so. Ends the step."""
        need("coalesce", self, sparse_coo)
        return _parts.coalesced(self)

    def _coalesced_(self, coalesced: bool) -> Tensor:
        """Says whether the indices are in order, each once; nothing is checked."""
        indices, shape, kind, _ = _core._sparse_parts(self)
        _core._sparse_set(self, values_of(self), list(indices), shape, kind, coalesced)
        return self

    def indices(self) -> Tensor:
        """Where the values are, of a coalesced tensor: (sparse dimensions, values)."""
        need("indices", self, sparse_coo)
        if not self.is_coalesced():
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return self._indices()

    def values(self) -> Tensor:
        """The values, with their gradient; of a COO tensor that is coalesced."""
        if kind(self) == COO and not self.is_coalesced():
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return values_of(self)

    def _indices(self) -> Tensor:
        """Where the values are, in the order in which they were given."""
        need("_indices", self, sparse_coo)
        return _parts.indices_of(self)[0]

    def _values(self) -> Tensor:
        """The values on the tensor's storage, without history."""
        need("_values", self, sparse_coo)
        return values_of(self).detach()

    def crow_indices(self) -> Tensor:
        """Where each row begins among the values, and their number."""
        need("crow_indices", self, sparse_csr)
        return _parts.indices_of(self)[0]

    def col_indices(self) -> Tensor:
        """The column of each value."""
        need("col_indices", self, sparse_csr)
        return _parts.indices_of(self)[1]

    def ccol_indices(self) -> Tensor:
        """Where each column begins among the values, and their number."""
        need("ccol_indices", self, sparse_csc)
        return _parts.indices_of(self)[0]

    def row_indices(self) -> Tensor:
        """The row of each value."""
        need("row_indices", self, sparse_csc)
        return _parts.indices_of(self)[1]

    # -- other layouts, dtypes, devices

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The strided tensor of the same elements. The gradient is that of the values."""
        out = _parts.dense(self)
        return out if dtype is None else out.to(dtype)

    def to_sparse(
        self, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
    ) -> Tensor:
        """The same in another sparse layout, COO unless said."""
        return converted(self, sparse_dim, layout, blocksize, dense_dim)

    def to_sparse_coo(self) -> Tensor:
        """The same in coordinates."""
        return _parts.to_coo(self)

    def to_sparse_csr(self, dense_dim: int | None = None) -> Tensor:
        """The same by rows."""
        return _parts.to_compressed(self, CSR)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Tensor:
        """The same by columns."""
        return _parts.to_compressed(self, CSC)

    def to(self, *args: Any, memory_format: Any = None, **kwargs: Any) -> Tensor:
        """As Tensor.to: of the values, and of indices where it is a device."""
        if memory_format is not None:
            check_format("to", memory_format)
        args = tuple(values_of(a) if is_sparse(a) else a for a in args)
        values = values_of(self).to(*args, **kwargs)
        indices, shape, kind, coalesced = _core._sparse_parts(self)
        moved = values.device != self.device
        if not moved and values.dtype == self.dtype and not kwargs.get("copy") and not any(a is True for a in args):
            return self
        if moved:
            indices = [x.to(values.device) for x in indices]
        return made(values, indices, shape, kind, coalesced)

    def cpu(self) -> Tensor:
        """The tensor on the CPU: itself when it is there."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """The tensor on a device of CUDA: itself when it is there."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """As Tensor.type; the name of a COO tensor's type has "sparse" in it."""
        if dtype is None:
            package, _, name = _TYPE_NAMES[self.dtype].partition(".")
            where = ".cuda" if self.is_cuda else ""
            return f"{package}{where}.sparse.{name}" if kind(self) == COO else f"{package}{where}.{name}"
        name = dtype.replace("sparse.", "") if isinstance(dtype, str) else dtype
        if is_legacy(name):
            name = name.dtype
        return self.to(values_of(self).type(name).dtype)

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy."""
        if memory_format is not None:
            check_format("clone", memory_format)
        indices, shape, kind, coalesced = _core._sparse_parts(self)
        return made(values_of(self).clone(), [x.clone() for x in indices], shape, kind, coalesced)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Raises, as torch's."""
        raise RuntimeError("unsupported memory format option Contiguous")

    # -- gradients

    def detach(self) -> Tensor:
        """The same value without history; shares storage."""
        return like(self, values_of(self).detach())

    data = property(detach, doc="The same value without history; shares storage.")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted."""
        with DisableTorchFunction():
            return _REQUIRES_GRAD.__get__(self)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        with DisableTorchFunction():
            _REQUIRES_GRAD.__set__(self, on)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Says whether gradients are wanted; returns self."""
        self.requires_grad = requires_grad
        return self

    def retain_grad(self) -> None:
        """Makes a tensor that is no leaf keep its gradient."""
        with DisableTorchFunction():
            Tensor.retain_grad(self)

    @property
    def grad(self) -> Tensor | None:
        """The gradient, sparse and at the same places: zeros have none."""
        with DisableTorchFunction():
            out = _GRAD.__get__(self)
        return None if out is None else like(self, out)

    @grad.setter
    def grad(self, new: Tensor | None) -> None:
        if new is not None:
            if not is_sparse(new) or new.layout is not self.layout:
                raise RuntimeError("assigned grad has data of a different type")
            new = self._at_my_places(new)
        with DisableTorchFunction():
            _GRAD.__set__(self, new)

    def _at_my_places(self, other):
        if tuple(other.shape) != tuple(self.shape):
            raise RuntimeError(f"expected a gradient of size {list(self.shape)}, got one of size {list(other.shape)}")
        return values_of(_movement.sparse_mask(other, self)).detach()

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """As Tensor.backward; the gradient is a sparse tensor of the same shape."""
        if gradient is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if is_sparse(gradient):
            gradient = self._at_my_places(gradient)
        else:
            gradient = values_of(_movement.sparse_mask(gradient, self))
        values_of(self).backward(gradient, retain_graph, create_graph, inputs)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Calls hook(grad), a sparse tensor, when the gradient is computed; what it returns takes its place."""

        def of_values(grad):
            out = hook(like(self, grad))
            return None if out is None else values_of(_movement.sparse_mask(out, self))

        with DisableTorchFunction():
            return Tensor.register_hook(self, of_values)

    # -- Python's own

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return _str.to_string(self)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def _repr_html_(self) -> None:
        return None

    def __len__(self) -> int:
        if not self.dim():
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(call("unbind", self))

    def __getitem__(self, index: Any) -> Tensor:
        out, dim = self, 0
        index = index if isinstance(index, tuple) else (index,)
        if any(i is Ellipsis for i in index):
            at = next(n for n, i in enumerate(index) if i is Ellipsis)
            index = (*index[:at], *(slice(None),) * (self.dim() - len(index) + 1), *index[at + 1 :])
        if len(index) > self.dim():
            raise IndexError(f"too many indices for tensor of dimension {self.dim()}")
        for i in index:
            if isinstance(i, slice) and i == slice(None):
                dim += 1
            elif isinstance(i, int) and not isinstance(i, bool):
                out = _movement.select(out, dim, i) if is_sparse(out) else out.select(dim, i)
            else:
                raise missing("as_strided" if isinstance(i, slice) else "index.Tensor", self)
        return out

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("Cannot assign to a sparse tensor")

    __hash__ = Tensor.__hash__

    def __bool__(self) -> bool:
        if self.numel() != 1:
            what = "no values" if self.numel() == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self._only())

    def __int__(self) -> int:
        return int(self._only())

    def __complex__(self) -> complex:
        return complex(self._only())

    def __index__(self) -> int:
        raise TypeError("only integer tensors of a single element can be converted to an index")

    def _only(self):
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def __copy__(self) -> Tensor:
        return self.detach().requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        if id(self) not in memo:
            out = self.detach().clone().requires_grad_(self.requires_grad)
            vars(out).update(copy.deepcopy(vars(self), memo))
            memo[id(self)] = out
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        indices, shape, _, coalesced = _core._sparse_parts(self)
        data = (*indices, values_of(self).detach(), Size(shape))
        data += (coalesced,) if kind(self) == COO else ()
        return _unpickled, (self.layout, data, self.requires_grad)


_REQUIRES_GRAD, _GRAD = Tensor.requires_grad, Tensor.grad


def _unpickled(layout, data, requires_grad):
    return _make.rebuilt(layout, data).requires_grad_(requires_grad)


def is_legacy(x: Any) -> bool:
    """Whether it is one of torch's old classes, as sparse.FloatTensor."""
    return getattr(x, "_is_sparse_type", False)


def converted(
    x: Tensor, sparse_dim: int | None, layout: Any, blocksize: Any = None, dense_dim: int | None = None
) -> Tensor:
    """to_sparse, of strided tensors and of sparse ones."""
    if sparse_dim is not None and (layout is not None or blocksize is not None or dense_dim is not None):
        raise RuntimeError("to_sparse: sparse_dim goes with no layout, blocksize or dense_dim")
    wanted = COO if layout is None else _make._kind(layout, "to_sparse")
    if blocksize is not None:
        raise RuntimeError(f"to_sparse for {layout!r} layout does not use specified blocksize")
    if is_sparse(x):
        if sparse_dim is not None and sparse_dim != _parts.sparse_dims(x):
            raise RuntimeError(
                f"to_sparse: conversion from {_parts.word(x.layout)} to Sparse with sparse_dim argument !=self.sparse_dim() "
                "is not supported"
            )
        return _parts.to_coo(x) if wanted == COO else _parts.to_compressed(x, wanted)
    rank = x.dim()
    if sparse_dim is None:
        sparse_dim = rank - (dense_dim or 0)
    lowest = 1 if rank else 0
    if not lowest <= sparse_dim <= rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{lowest}, {rank}], but got {sparse_dim})"
        )
    if wanted != COO and sparse_dim != 2:
        raise RuntimeError(
            f"to_sparse: conversion to {layout!r} needs 2 sparse dimensions, got {sparse_dim}; batches of compressed "
            "matrices are not supported"
        )
    return _parts.from_dense(x, sparse_dim, wanted)


# -- rules that are members


def _member_rules():
    for name in (
        "to_dense",
        "to_sparse",
        "coalesce",
        "clone",
        "detach",
        "values",
        "indices",
        "sparse_dim",
        "dense_dim",
    ):
        RULES.setdefault(name, getattr(SparseTensor, name))
    for name in (
        "dim",
        "numel",
        "item",
        "is_contiguous",
        "stride",
        "to",
        "cpu",
        "requires_grad_",
        "is_pinned",
        "backward",
    ):
        RULES.setdefault(name, getattr(SparseTensor, name))


def _conversion(name, dtype):
    def convert(self, memory_format=None):
        return self.to(dtype)

    convert.__name__, convert.__doc__ = name, f"As to({dtype})."
    setattr(SparseTensor, name, convert)


for _name, _dtype in _CONVERSIONS.items():
    _conversion(_name, getattr(_core, _dtype))


# -- in place


@rule()
def zero_(self: Tensor) -> Tensor:
    """Forgets all values."""
    out = _make.empty_like(self.shape[: self.sparse_dim()], self.dtype, self.device, self.layout)
    empty = values_of(out).reshape((0, *values_of(self).shape[1:]))
    write("zero_", self, made(empty, _parts.indices_of(out), self.shape, kind(self), True))
    return self


@rule()
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Becomes what another tensor of the layout is."""
    if not is_sparse(src) or not is_sparse(self):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {self.type()} and src type = "
            f"{src.type() if isinstance(src, Tensor) else type(src).__name__}"
        )
    write("copy_", self, src.detach().clone().to(self.device))
    return self


def _resized(self, size, sparse_dim, dense_dim, keep):
    need("sparse_resize_", self, sparse_coo)
    if self.requires_grad:
        raise RuntimeError("sparse_resize_: a tensor that requires grad cannot be resized")
    size = tuple(size)
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
        )
    if keep and self._nnz():
        same = sparse_dim == self.sparse_dim() and size[sparse_dim:] == tuple(self.shape)[sparse_dim:]
        if not same or any(n < m for n, m in zip(size, self.shape, strict=False)):
            raise RuntimeError(
                "shrinking the size of sparse dimensions, or changing others, on a non-empty sparse tensor is not "
                f"supported: {list(self.shape)} to {list(size)}"
            )
        parts = values_of(self), [self._indices()]
    else:
        values, indices = values_of(self), self._indices()
        parts = values.new_zeros((0, *size[sparse_dim:])), [indices.new_zeros((sparse_dim, 0))]
    _core._sparse_set(self, *parts, size, COO, self.is_coalesced() or not keep)
    return self


@rule()
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """The same values in a tensor that is as large or larger."""
    return _resized(self, size, sparse_dim, dense_dim, True)


@rule()
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """A tensor of another size without values."""
    return _resized(self, size, sparse_dim, dense_dim, False)


@rule()
def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """As sparse_resize_ to the size of another."""
    return _resized(self, the_template.shape, the_template.sparse_dim(), the_template.dense_dim(), True)


@rule()
def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    """A tensor of the layout without values."""
    out = _make.empty_like(
        input.shape[: input.sparse_dim()], dtype or input.dtype, device or input.device, input.layout
    )
    empty = values_of(out).reshape((0, *values_of(input).shape[1:]))
    out = made(empty, _parts.indices_of(out), input.shape, kind(input), True)
    return out.requires_grad_() if options.get("requires_grad") else out


RULES["empty_like"] = zeros_like


@rule("new_zeros", "new_empty")
def new_zeros(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of the layout without values."""
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    out = _make.empty_like(size, dtype or self.dtype, device or self.device, self.layout)
    return out.requires_grad_(requires_grad)


@rule()
def new_tensor(self: Tensor, data: Any, **options: Any) -> Tensor:
    """A strided tensor of data, of self's dtype."""
    return values_of(self).new_tensor(data, **options)


# -- every other member


def _asks(name):
    def member(self, *args, **kwargs):
        return call(name, self, *args, **kwargs)

    member.__name__ = member.__qualname__ = name
    member.__doc__ = getattr(Tensor, name).__doc__
    return member


def _operator(name, reflected=False):
    def binary(self, other):
        return call(name, other, self) if reflected else call(name, self, other)

    return binary


def _in_place_operator(name):
    def binary(self, other):
        return call(f"{name}_", self, other)

    return binary


_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "pow": "pow"}
_BINARY |= {"matmul": "matmul", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
_BINARY |= {"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
_ALONE = {"neg": "neg", "abs": "abs", "invert": "bitwise_not", "pos": "positive"}
_OF_PROPERTIES = {"T": "T", "mT": "mT", "H": "H", "mH": "mH"}
# Members that say nothing of elements, or that are built of others.
_KEPT = [
    "__class__",
    "__torch_function__",
    "__init_subclass__",
    "__new__",
    "__init__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "__dir__",
    "__subclasshook__",
    "__reduce__",
    "__hash__",
    "__sizeof__",
    "__getstate__",
    "__doc__",
    "__module__",
    "__dict__",
    "__weakref__",
    "__array_priority__",
    "is_floating_point",
    "is_complex",
    "is_signed",
    "element_size",
    "itemsize",
    "nelement",
    "ndimension",
    "get_device",
    "is_same_size",
    "is_inference",
    "names",
    "is_xpu",
    "is_mps",
    "is_mtia",
    "is_xla",
    "is_ipu",
    "is_maia",
    "is_vulkan",
    "is_nested",
    "is_mkldnn",
    "is_quantized",
    "is_conj",
    "is_neg",
    "has_names",
    "is_distributed",
    "_is_same",
    "_version",
    "as_subclass",
    "record_stream",
    "is_nonzero",
    "_copies_gradient",
]


def _add_members():
    mine = {*vars(SparseTensor), *_KEPT}
    for name, of in _BINARY.items():
        setattr(SparseTensor, f"__{name}__", _operator(of))
        setattr(SparseTensor, f"__r{name}__", _operator(of, reflected=True))
        setattr(SparseTensor, f"__i{name}__", _in_place_operator(of))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(SparseTensor, f"__{name}__", _operator(name))
    for name, of in _ALONE.items():
        setattr(SparseTensor, f"__{name}__", lambda self, of=of: call(of, self))
    for name in _OF_PROPERTIES:
        setattr(SparseTensor, name, property(lambda self, name=name: _turned(name, self)))
    mine |= set(vars(SparseTensor))
    for name in dir(Tensor):
        if name in mine:
            continue
        member = getattr(Tensor, name)
        if callable(member):
            setattr(SparseTensor, name, _asks(name))
        else:
            setattr(SparseTensor, name, property(lambda self, name=name: call(name, self)))
    for name in RULES:
        if name not in vars(SparseTensor):
            setattr(SparseTensor, name, _asks(name) if hasattr(Tensor, name) else RULES[name])


def _turned(name, s):
    if name in ("mT", "mH"):
        if s.dim() < 2:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got {s.dim()}-D tensor."
            )
        out = _movement.transpose(s, -2, -1)
    else:
        if name == "H" and s.dim() not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {s.dim()}-D tensor.")
        out = _movement.permute(s, tuple(range(s.dim() - 1, -1, -1)))
    return call("conj", out) if name in ("H", "mH") and s.dtype.is_complex else out


_member_rules()
