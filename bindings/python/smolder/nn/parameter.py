"""Parameters: tensors that a module trains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self, SupportsIndex

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._subclass import _disabled
from smolder._typing import Device, DType, Tensor
from smolder._unheld import UnheldDtype

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy",
    "tensor_of", "zero_gradients",
]  # fmt: skip
__dir__ = _listing(__name__)


def _check_kernels(name, data):
    """Raises for a dtype that kernels do not know: such a tensor is of another class."""
    if isinstance(data.dtype, UnheldDtype):
        raise NotImplementedError(
            f"{name}() of {data.dtype} is not supported: assign the tensor, or use register_buffer()"
        )


class Parameter(_core.Tensor):
    """A tensor that becomes a parameter of the module it is assigned to. Shares data with it."""

    _copies_gradient = False
    __torch_function__: ClassVar[Any] = classmethod(_disabled)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Of a tensor of a class with a __torch_dispatch__ it is one of that class, and isinstance() finds it a Parameter."""
        data = args[0] if args else kwargs.get("data")
        if cls is not Parameter or not isinstance(data, _core.Tensor) or not _core._is_wrapper(data):
            return _core.Tensor.__new__(cls, *args, **kwargs)
        out = data.detach().requires_grad_(args[1] if len(args) > 1 else kwargs.get("requires_grad", True))
        if type(out) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
                f"instance of the same type, but return type {type(out).__name__} was found instead. To use the type as a "
                f"Parameter, please correct the detach() semantics defined by its __torch_dispatch__() implementation."
            )
        out._is_param = True
        return out

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        if self._is_made():  # by the __new__ of a class of the user's
            return
        if data is None:
            data = _core.zeros((0,), dtype=_core._default_dtype())
        if not isinstance(data, _core.Tensor):
            raise TypeError(f"Parameter() expects a tensor, got {type(data).__name__}")
        if type(data) is not _core.Tensor and (data.is_sparse or data.is_sparse_csr):
            raise NotImplementedError(
                "Parameter() of a sparse tensor is not supported: make its values a parameter, or the tensor a buffer"
            )
        _check_kernels("Parameter", data)
        if type(self) is Parameter and hasattr(
            type(data), "_become_parameter"
        ):  # of a tensor that several processes hold
            data = data._become_parameter(self)
        super().__init__(data.detach())
        if self.requires_grad != requires_grad:
            self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


Parameter.__new__.__wrapped__ = Parameter.__init__  # whose signature is that of both
_core._set_parameter_class(Parameter)
_ParameterMeta = type(Parameter)  # torch's name, which libraries derive their own from


class Buffer(_core.Tensor):
    """A tensor that becomes a buffer of the module it is assigned to. Shares data with it."""

    __torch_function__: ClassVar[Any] = classmethod(_disabled)

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        if data is not None:
            _check_kernels("Buffer", data)
        super().__init__(_core.zeros((0,), dtype=_core._default_dtype()) if data is None else data.detach())
        self.persistent = persistent
        if data is not None and data.requires_grad:
            self.requires_grad_()


def tensor_of(parameter: Tensor) -> Tensor:
    """A plain tensor that shares the parameter's data and gradient."""
    return _core.Tensor(parameter)


def zero_gradients(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Forgets the gradients, or zeroes them in place: who holds one sees it become zero."""
    for p in parameters:
        grad = p.grad
        if grad is None:
            continue
        if set_to_none:
            p.grad = None
            continue
        if grad.requires_grad:  # it has a history of its own, which ends here
            p.grad = grad = grad.detach()
        with no_grad():
            grad.zero_()


# Members that a tensor without a shape has.
_ALLOWED = frozenset(
    [
        "bfloat16",
        "copy_",
        "cpu",
        "cuda",
        "detach",
        "double",
        "float",
        "get_device",
        "half",
        "is_complex",
        "is_floating_point",
        "materialize",
        "register_hook",
        "requires_grad_",
        "size",
        "to",
    ]
)


def _unusable(name, kind):
    return ValueError(
        f"Attempted to use an uninitialized parameter in {name}. This error happens when you are using a `LazyModule` or "
        f"explicitly manipulating `smolder.nn.parameter.{kind}` objects. When using LazyModules Call `forward` with a "
        "dummy batch to initialize the parameters before calling smolder functions"
    )


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet. Its methods raise; materialize() makes a Parameter or a Tensor of it."""

    data: Tensor

    def materialize(self, shape: Sequence[int], device: Device = None, dtype: DType | None = None) -> None:
        """Gives it a shape, and memory that holds anything."""
        from smolder._creation import empty

        device = self.device if device is None else device
        self.data = empty(shape, device=device, dtype=self.dtype if dtype is None else dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _ALLOWED and callable(getattr(_core.Tensor, name, None)):
            raise _unusable(f"Tensor.{name}", type(self).__name__)
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return type(self), (self.requires_grad,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


def _raises(name):
    def call(self, *_):
        raise _unusable(f"Tensor.{name}", type(self).__name__)

    return call


_OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lt", "le", "gt", "ge",
    "eq", "ne", "neg", "getitem", "len", "setitem",
]  # fmt: skip
for _name in _OPERATORS:
    for _spelled in (f"__{_name}__", f"__r{_name}__"):
        if hasattr(_core.Tensor, _spelled):
            setattr(UninitializedTensorMixin, _spelled, _raises(_spelled))
UninitializedTensorMixin.__hash__ = _core.Tensor.__hash__


def is_lazy(param: object) -> bool:
    """Whether it has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


def _nothing(device, dtype):
    from smolder._creation import empty

    return empty(0, device=device, dtype=dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Device = None, dtype: DType | None = None) -> None:
        Parameter.__init__(self, _nothing(device, dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, _core.Tensor):
    """A buffer whose shape is not known yet."""

    cls_to_become = _core.Tensor

    def __init__(
        self, requires_grad: bool = False, device: Device = None, dtype: DType | None = None, persistent: bool = True
    ) -> None:
        _core.Tensor.__init__(self, _nothing(device, dtype))
        self.persistent = persistent
        self.requires_grad_(requires_grad)
