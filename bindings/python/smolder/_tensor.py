"""Members that Python adds to the bound Tensor: sizes, conversions, indexing, printing, pickling."""

from __future__ import annotations

import builtins
import copy
import copyreg
import functools
import operator
import weakref

import numpy

from smolder import _core, _exchange, _indexing, _notebook, _strided, _tensor_str
from smolder._device import CPU, META, device, is_on, moved, usable_device
from smolder._other_forms import as_dtype, factor_named, multiplied
from smolder._size import Size
from smolder._unheld import UnheldDtype

__all__ = ["Size", "Tensor", "device"]

Tensor = _core.Tensor

_shape = Tensor.shape.__get__
_to = Tensor.to
_backward = Tensor.backward
_requires_grad_ = Tensor.requires_grad_
_item = Tensor.item


def _methods(cls):
    """Adds the functions below to Tensor, under their own names."""

    def add(function):
        setattr(Tensor, function.__name__, property(function) if cls is property else function)
        return function

    return add


_method, _property = _methods(None), _methods(property)


# -- sizes


@_property
def shape(self):
    """The extents, as a Size."""
    return Size(_shape(self))


@_property
def ndim(self):
    """Number of dimensions."""
    return self.dim()


_device_named = functools.cache(device)


@_property
def device_of(self):
    """Where the tensor lives."""
    if self._on_cpu:
        return CPU
    name = self._device
    return META if name == "meta:0" else _device_named(name)


Tensor.device = Tensor.device_of
del Tensor.device_of


@_property
def is_cuda(self):
    """Whether the tensor is on a device of CUDA."""
    return not self._on_cpu and self.device.type == "cuda"


@_property
def is_cpu(self):
    """Whether the tensor is on the CPU."""
    return self._on_cpu


@_method
def size(self, dim=None):
    """The extents, or that of one dimension."""
    extents = _shape(self)
    if builtins.type(dim) is builtins.int and -len(extents) <= dim < len(extents):
        return extents[dim]
    return size_of(extents, dim)


def size_of(extents, dim):
    """The result of size(dim) for a tensor of such extents."""
    if dim is None:
        return Size(extents)
    if builtins.isinstance(dim, builtins.bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"size(): argument 'dim' (position 1) must be int, not {builtins.type(dim).__name__}")
    dim = operator.index(dim)
    rank = len(extents)
    bound = max(rank, 1)
    if not -bound <= dim < bound or rank == 0:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
            if rank
            else "Dimension specified as " + str(dim) + " but tensor has no dimensions"
        )
    return extents[dim]


@_method
def nelement(self):
    """Number of elements."""
    return self.numel()


@_method
def element_size(self):
    """Bytes an element takes."""
    return self.dtype.itemsize


@_property
def itemsize(self):
    """Bytes an element takes."""
    return self.dtype.itemsize


@_property
def nbytes(self):
    """Bytes all elements take."""
    return self.numel() * self.dtype.itemsize


@_method
def data_ptr(self):
    """The address of the first element, which a later write may move. Computes the tensor, so ends the step."""
    if not self._on_cpu:
        return 0 if self.is_meta else self._device_address()
    if not self.numel():
        return 0
    holder = self._storage()[1]  # nothing is exported, so that asking moves nothing
    if not holder.is_contiguous():
        return self.detach()._numpy().__array_interface__["data"][0]
    return self._owner()._device_address() + self.storage_offset() * self.itemsize


@_method
def get_device(self):
    """The number of the device of CUDA that the tensor is on; -1 on the CPU."""
    return -1 if self._on_cpu else self.device.index


@_method
def is_pinned(self, device=None):
    """Whether it is in memory of the host that CUDA's devices read by themselves; `device` may name cuda alone."""
    _check_pins(device)
    return self._is_pinned()


@_method
def pin_memory(self, device=None):
    """A copy in such memory, which `to(device, non_blocking=True)` does not wait for; self when it is there."""
    _check_pins(device)
    if not _core._cuda_is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return self if self._is_pinned() else self._pin_memory()


def _check_pins(where):
    if where is not None and device(where).type != "cuda":
        raise NotImplementedError(f"memory is pinned for cuda, not for {where}")


def _set_part(name):
    def assign(self, value):
        getattr(self, name).copy_(value if isinstance(value, Tensor) else _core.full((), value, dtype=_core.float64))

    return assign


Tensor.real = property(
    lambda self: _core.real(self), _set_part("real"), doc="The real part, a view that may be assigned to."
)
Tensor.imag = property(
    lambda self: _core.imag(self), _set_part("imag"), doc="The imaginary part, a view that may be assigned to."
)


@_property
def H(self):
    """A matrix with its dimensions swapped, and conjugate."""
    if self.dim() not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor.")
    return self.conj() if self.dim() == 0 else self.conj().transpose(0, 1)


@_property
def mH(self):
    """The tensor with its last two dimensions swapped, and conjugate."""
    return self.adjoint()


@_method
def __complex__(self):
    return builtins.complex(_only(self))


@_property
def is_meta(self):
    """Whether the tensor is on the device "meta", and so without elements."""
    return not self._on_cpu and self._device == "meta:0"


for _name in ("is_mkldnn", "is_quantized", "is_sparse"):
    setattr(Tensor, _name, property(lambda self: False, doc="False: tensors are strided, in the CPU's memory."))


@_method
def is_floating_point(self):
    """Whether the dtype is a floating-point one."""
    return self.dtype.is_floating_point


@_method
def stride(self, dim=None):
    """Elements from one to the next of each dimension, or of one; views are windows on their base."""
    if dim is not None:
        self.size(dim)  # raises when there is no such dimension
        return self._strides()[dim]
    return tuple(self._strides())


@_property
def T(self):
    """The tensor with its dimensions in reverse order."""
    return self.permute(tuple(range(self.dim() - 1, -1, -1)))


@_property
def mT(self):
    """The tensor with its last two dimensions swapped; a tensor without dimensions as it is."""
    if self.dim() == 0:
        return self
    if self.dim() < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {self.dim()}-D tensor."
        )
    return self.transpose(-2, -1)


def _set_data(self, new):
    if not isinstance(new, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {builtins.type(new).__name__}")
    if self.requires_grad and not (new.dtype.is_floating_point or new.dtype.is_complex):
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    self._set_data(new)


_doc = "The same value without history; shares storage. What is assigned shares its storage with self from then on."
Tensor.data = property(lambda self: self.detach(), _set_data, doc=_doc)


@_method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes self a tensor on the storage of source, whatever its shape; without one, an empty tensor. With a size it is
    the view of that storage that as_strided makes."""
    if source is not None and not isinstance(source, Tensor):
        raise NotImplementedError(
            f"set_() takes a tensor; a source of type {builtins.type(source).__name__} is not supported"
        )
    if self.requires_grad and self.is_leaf and _core.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    source = _core.zeros((0,), dtype=self.dtype) if source is None else source
    if source.dtype != self.dtype:
        raise RuntimeError(f"set_(): the source has dtype {source.dtype} and self {self.dtype}; they must be the same")
    if size is not None:
        size = Size(size)
        dense = [Size(size[i + 1 :]).numel() for i in builtins.range(len(size))]
        source = source.as_strided(size, dense if stride is None else stride, storage_offset)
    elif storage_offset != 0 or stride is not None:
        raise TypeError("set_() takes a storage_offset and a stride with a size alone")
    self._set_data(source)
    return self


# -- reading values: each of these ends the step


@_method
def tolist(self):
    """The elements as nested lists of Python numbers."""
    return self._to_numpy().tolist()


for _function in (
    _exchange.as_numpy,
    _exchange.__array__,
    _exchange.__array_wrap__,
    _exchange.__dlpack__,
    _exchange.__dlpack_device__,
):
    _method(_function)
_property(_exchange.__cuda_array_interface__)

Tensor.__array_priority__ = 1000  # array + tensor is the tensor's to answer


@_method
def __bool__(self):
    n = self.numel()
    if n != 1:
        kind = "no values" if n == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    if _core._vmap_level(self):
        _core._vmap_refuse("bool")
    return builtins.bool(_item(self))


def _only(self):
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return _item(self)


def _real(self, kind):
    """The only element as a number without an imaginary part, which a complex one has of 0."""
    value = _only(self)
    if not isinstance(value, builtins.complex):
        return value
    if value.imag != 0:
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
    return value.real


@_method
def __float__(self):
    return builtins.float(_real(self, "double"))


@_method
def __int__(self):
    return builtins.int(_real(self, "int64_t"))


@_method
def __index__(self):
    if self.dtype.is_floating_point or self.dtype.is_complex or self.numel() != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return builtins.int(_item(self))


@_method
def __len__(self):
    extents = _shape(self)
    if not extents:
        raise TypeError("len() of a 0-d tensor")
    return extents[0]


@_method
def __iter__(self):
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@_method
def __reversed__(self):
    return self if self.dim() == 0 else self.flip((0,))


@_method
def __contains__(self, element):
    if not isinstance(element, Tensor | builtins.int | builtins.float | builtins.bool):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    return builtins.bool(_item((self == element).any()))


@_method
def __delitem__(self, index):
    raise TypeError("Tensor does not support deleting items")


@_method
def __repr__(self):
    return _tensor_str.to_string(self)


@_method
def _repr_html_(self):
    return _notebook.tensor_html(self)


@_method
def __format__(self, spec):
    if self.dim() == 0 and type(self) is Tensor:
        return _item(self).__format__(spec)
    return object.__format__(self, spec)


@_method
def is_nonzero(self):
    """Whether the only element is nonzero."""
    return builtins.bool(self)


# -- conversions


@_method
def to(self, *args, dtype=None, device=None, copy=False, non_blocking=False, memory_format=None):
    """The tensor with another dtype: to(dtype), to(device), to(device, dtype), to(other); then non_blocking and copy.

    With non_blocking the host goes on before pinned memory was read; all else is asynchronous anyway.
    """
    flags = [arg for arg in args if isinstance(arg, builtins.bool)]
    if flags:
        non_blocking, copy = flags if len(flags) > 1 else (flags[0], copy)
    for arg in args:
        arg = as_dtype(arg)
        if isinstance(arg, _core.dtype):
            dtype = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif arg is not None and not isinstance(arg, builtins.bool):
            device = arg
    dtype = as_dtype(dtype)
    out = self
    if isinstance(dtype, UnheldDtype):
        from smolder import _bits

        return _bits.cast(self, dtype).to(device=device, copy=copy)
    if dtype is not None and dtype != self.dtype:
        out = _to(self, dtype)
    if device is not None:
        where = usable_device(device)
        if where.type == "meta":
            out = moved(out, where)
        elif not is_on(out, where):
            out = out._to_device(str(where), non_blocking)
    if memory_format is not None:
        from smolder._memory_formats import converted

        out = converted("to", out, memory_format, self)
    return out.clone() if copy and out is self else out


def _converter(name, dtype):
    def convert(self, memory_format=None):
        out = self if self.dtype == dtype else _to(self, dtype)
        if memory_format is None:
            return out
        from smolder._memory_formats import converted

        return converted(name, out, memory_format, self)

    convert.__name__, convert.__qualname__, convert.__doc__ = name, name, f"As to({dtype})."
    setattr(Tensor, name, convert)


_CONVERSIONS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16"}
_CONVERSIONS |= {"long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool"}
_CONVERSIONS |= {"cfloat": "complex64", "cdouble": "complex128"}
for _name, _dtype in _CONVERSIONS.items():
    _converter(_name, getattr(_core, _dtype))


@_method
def cpu(self):
    """The tensor on the CPU: itself when it is there."""
    return self if self._on_cpu else self._to_device("cpu")


@_method
def cuda(self, device=None, non_blocking=False):
    """The tensor on a device of CUDA, the current one unless said: itself when it is there."""
    return self.to("cuda" if device is None else device, non_blocking=non_blocking)


# torch's names of tensors' types, which type() returns and takes.
_TYPE_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"}
_TYPE_NAMES |= {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}
_TYPE_NAMES |= {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}
_TYPE_NAMES = {getattr(_core, k): f"smolder.{v}Tensor" for k, v in _TYPE_NAMES.items()}


def kind_name(dtype):
    """The name of a dtype in torch's errors: `Long` for int64."""
    return _TYPE_NAMES[dtype].rpartition(".")[2].removesuffix("Tensor")


@_method
def type(self, dtype=None, non_blocking=False):
    """The tensor with another dtype, or of a type such as "smolder.DoubleTensor", which may be called torch's; without one,
    the type's name."""
    if dtype is None:
        name = _TYPE_NAMES[self.dtype]
        return name.replace(".", ".cuda.", 1) if self.is_cuda else name
    where = None
    if isinstance(dtype, str):
        named = {name.partition(".")[2]: d for d, name in _TYPE_NAMES.items()}
        where, name = ("cuda" if ".cuda." in dtype else "cpu"), dtype.replace(".cuda.", ".", 1)
        name = name.removeprefix("smolder.").removeprefix("torch.")
        if name not in named:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = named[name]
    elif not isinstance(dtype, _core.dtype) and hasattr(dtype, "dtype"):  # LongTensor, for one
        where, dtype = ("cuda" if dtype.__module__.endswith(".cuda") else "cpu"), dtype.dtype
    if not isinstance(dtype, _core.dtype):
        raise TypeError(f"type() expects a dtype such as smolder.float32, got {dtype!r}")
    return self.to(dtype, device=where, non_blocking=non_blocking)


type = builtins.type  # noqa: F811 - the method above is Tensor's; here the name stays Python's


# -- gradients


@_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds d(self)/d(leaf) to the grad of every leaf that self depends on, or of `inputs` alone.

    self must be a scalar unless `gradient`, of its shape, is given. retain_graph defaults to create_graph.
    """
    if inputs is not None or create_graph:
        from smolder import autograd

        autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        return
    _backward(self, gradient, bool(retain_graph), False)


@_method
def register_post_accumulate_grad_hook(self, hook):
    """Calls hook(self) after a gradient was added to self.grad; self is a leaf."""
    this = weakref.ref(self)

    def of_leaf(leaf):
        kept = this()  # the object that the user knows, as long as there is one
        return hook(leaf if kept is None else kept)

    return self._register_leaf_hook(of_leaf)


@_method
def requires_grad_(self, requires_grad=True):
    """Says whether gradients are wanted; returns self."""
    _requires_grad_(self, requires_grad)
    return self


@_method
def detach_(self):
    """Cuts self off from its history, in place."""
    self._detach_()
    return self


# Methods whose in-place forms change the shape: see _views_in_place.py.
_SHAPES = ("t", "squeeze", "unsqueeze", "transpose", "swapaxes", "swapdims")


@_method
def index_put_(self, indices, values, accumulate=False):
    """self[indices] = values in place, for a tuple of index tensors, masks or None; or += with accumulate."""
    if isinstance(indices, Tensor):
        raise TypeError("index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not Tensor")
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put_(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    pending = _indexing.pending_of(self, tuple(indices))
    if values.dtype != self.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {self.dtype} for the destination and "
            f"{values.dtype} for the source."
        )
    if not accumulate and len(pending) == 1 and pending[0][1].dtype == _core.bool:
        _indexing._set_at(self, pending, values)
    else:
        _indexing.put(self, pending, values, accumulate)
    return self


@_method
def index_put(self, indices, values, accumulate=False):
    """A copy of self with values at a tuple of index tensors, or added there."""
    return self.clone().index_put_(indices, values, accumulate)


@_method
def nonzero(self, *, as_tuple=False):
    """Positions of elements that are not zero: a row each, or a vector for each dimension."""
    if not as_tuple:
        return self._nonzero()
    return (self.reshape(1) if self.dim() == 0 else self)._nonzero().unbind(1)


def _functions():
    from smolder import _functions  # which needs this module

    return _functions


@_method
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    """Slices of source reduced (prod, mean, amax or amin) into those of dim that the vector index names."""
    return _functions().index_reduce(self, dim, index, source, reduce, include_self=include_self)


@_method
def index_reduce_(self, dim, index, source, reduce, *, include_self=True):
    """The same in place."""
    return self.copy_(_functions().index_reduce(self, dim, index, source, reduce, include_self=include_self))


@_method
def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Different elements, in order always, or slices along dim; which of them each is, and how often they occur."""
    return _functions().unique(self, sorted, return_inverse, return_counts, dim)


@_method
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """Elements without those that equal the one before."""
    return _functions().unique_consecutive(self, return_inverse, return_counts, dim)


@_method
def equal(self, other):
    """Whether two tensors have the same shape and elements; a Python bool."""
    return _functions().equal(self, other)


@_method
def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close; a Python bool."""
    return _functions().allclose(self, other, rtol, atol, equal_nan)


@_method
def is_complex(self):
    """Whether the dtype is complex."""
    return self.dtype.is_complex


# -- copying and pickling

# Functions of the module are pickled by name, as Python's are, and so copied as themselves.
copyreg.pickle(builtins.type(_core.gelu), lambda function: function.__name__)
# Methods, as those of torch, are what their class calls so.
copyreg.pickle(builtins.type(_core.Tensor.add), lambda method: (getattr, (Tensor, method.__name__)))


def _generator(state):
    out = _core.Generator()
    out.set_state(state)
    return out


copyreg.pickle(_core.Generator, lambda generator: (_generator, (generator.get_state(),)))


def _rebuild(kind, array, dtype, order, extents, requires_grad, device="cpu"):
    out = _core.from_numpy_copy(array)
    if out.dtype != dtype:
        out = _to(out, dtype)
    out = out.to(device)
    if order is not None:
        out = out.permute(numpy.argsort(order).tolist()).expand(extents).detach()
    if kind is Tensor:
        return out.requires_grad_() if requires_grad else out
    return Tensor._make_subclass(kind, out, requires_grad)


@_method
def __copy__(self):
    """A leaf that shares self's storage."""
    plain = type(self) is Tensor or _core._is_wrapper(self)
    out = self.detach() if plain else Tensor._make_subclass(type(self), self, self.requires_grad)
    if plain:
        out.requires_grad_(self.requires_grad)
    vars(out).update(vars(self))
    return out


@_method
def __deepcopy__(self, memo):
    """Tensors that share memory do so in the copy."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    if id(self) in memo:
        return memo[id(self)]
    is_wrapper = _core._is_wrapper(self)
    copied = self.detach().clone() if is_wrapper else _copy_in(memo, self.detach())
    made = copied if is_wrapper or type(self) is Tensor else Tensor._make_subclass(type(self), copied)
    out = made.requires_grad_(self.requires_grad)
    memo[id(self)] = out
    if self.grad is not None and getattr(self, "_copies_gradient", True):  # a parameter's is not copied, as in torch
        out.grad = copy.deepcopy(self.grad, memo)
    vars(out).update(copy.deepcopy(vars(self), memo))
    return out


def _copy_in(memo, tensor):
    """A copy of a tensor on the memo's copy of its storage; of its elements alone where that has gaps."""
    identity, holder = tensor._storage()
    if not (tensor.numel() and holder.is_contiguous()):
        return tensor.clone()
    key = ("storage", identity)
    if key not in memo:
        memo[key] = holder.detach().clone(), holder  # which stays alive, or another might have its identity
    # A storage of complex numbers may have tensors of their parts, and is looked at as those.
    whole, parts = _parts(memo[key][0].detach()), _parts(tensor)
    where = parts.storage_offset(), tuple(parts.shape), parts.stride()
    if where != (0, tuple(whole.shape), whole.stride()):
        whole = _strided.view_of(whole.reshape(-1), *where)
        if whole is None:
            return tensor.clone()
    return (_core.view_as_complex(whole) if tensor.is_complex() else whole).detach()


def _parts(tensor):
    """The pairs of parts of complex numbers; of others the tensor itself."""
    return _core.view_as_real(tensor) if tensor.is_complex() else tensor


@_method
def __reduce_ex__(self, protocol):
    """Pickled as a NumPy array of its elements in their order in memory (bfloat16 as float32, exactly), and
    with their device."""
    strides, extents = self.stride(), _shape(self)
    order = None
    packed = self.detach()
    if not self.is_contiguous():
        order = sorted(range(len(extents)), key=lambda i: -strides[i])
        once = tuple(builtins.slice(1) if strides[i] == 0 else builtins.slice(None) for i in order)
        packed = packed.permute(order)[once]
    array = numpy.ascontiguousarray(packed._to_numpy()).reshape(_shape(packed))
    arguments = type(self), array, self.dtype, order, extents, self.requires_grad, str(self.device)
    return (_rebuild, arguments, vars(self)) if vars(self) else (_rebuild, arguments)


_copy_here = Tensor.copy_


@_method
def copy_(self, src, non_blocking=False):
    """Writes src, a tensor that may be on another device and broadcasts, or a number."""
    if isinstance(src, Tensor) and src.device != self.device:
        src = src.to(self.device, non_blocking=non_blocking)
    return _copy_here(self, src)


def _returning_self(name):
    """In-place methods return the very object they were called on, as torch's do."""
    bound, factor = getattr(Tensor, name), factor_named(name)

    def in_place(self, *args, **kwargs):
        if factor and kwargs:
            args, kwargs = multiplied(args, kwargs, factor)
        bound(self, *args, **kwargs)
        return self

    in_place.__name__, in_place.__doc__ = name, bound.__doc__
    setattr(Tensor, name, in_place)


_RETURNING = {"requires_grad_", "detach_", "index_put_", *(f"{name}_" for name in _SHAPES)}
for _name in dir(Tensor):
    if _name.endswith("_") and not _name.startswith("_") and _name not in _RETURNING:
        _returning_self(_name)
