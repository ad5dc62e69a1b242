# ruff: noqa: F401
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike, NDArray

from smolder._tensor import Size
from smolder._tensor import device as _device

_Number: TypeAlias = _bool | _int | _float

class dtype:
    """The type of a tensor's elements."""

    @property
    def itemsize(self) -> _int: ...
    @property
    def is_floating_point(self) -> _bool: ...

_dtype: TypeAlias = dtype

float64: dtype
float32: dtype
float16: dtype
bfloat16: dtype
int64: dtype
int32: dtype
uint8: dtype
bool: dtype

class Node:
    """An op in the history of a tensor that requires a gradient."""

    def name(self) -> str: ...
    @property
    def next_functions(self) -> tuple[tuple[Node | None, _int], ...]: ...
    @property
    def variable(self) -> Tensor: ...
    def register_hook(
        self, fn: Callable[[tuple[Tensor | None, ...], tuple[Tensor | None, ...]], Any]
    ) -> RemovableHandle:
        """Calls fn(grad_inputs, grad_outputs) after the node ran; may return other grad_inputs."""

    def register_prehook(self, fn: Callable[[tuple[Tensor | None, ...]], Any]) -> RemovableHandle:
        """Calls fn(grad_outputs) before the node runs; may return others."""

class RemovableHandle:
    """Takes a hook off again: remove(), or at the end of a block."""

    def remove(self) -> None: ...
    @property
    def id(self) -> _int: ...
    def __enter__(self) -> RemovableHandle: ...
    def __exit__(self, *exception: Any) -> None: ...

class Generator:
    """A stream of random numbers."""

    def __init__(self, device: str | _device = "cpu") -> None: ...
    @property
    def device(self) -> _device: ...
    def manual_seed(self, seed: _int) -> Generator:
        """Restarts the stream, and returns the generator."""

    def seed(self) -> _int:
        """Restarts the stream from a seed that nobody can guess, which it returns."""

    def initial_seed(self) -> _int:
        """The seed that the stream began from."""

    def get_state(self) -> Tensor:
        """Where the stream is: bytes for set_state."""

    def set_state(self, new_state: Tensor) -> None:
        """Goes to where a stream was when get_state was called."""

    def clone_state(self) -> Generator:
        """Another generator whose stream goes on from here as well."""

# opgen: return types

class Tensor:
    """An array that knows how it is computed; see the op page."""

    __array_priority__: _int
    def __init__(self, other: Tensor) -> None: ...

    # -- what it is

    @property
    def shape(self) -> Size: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def device(self) -> _device: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def is_cuda(self) -> _bool: ...
    def dim(self) -> _int: ...
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: _int) -> _int: ...
    def numel(self) -> _int: ...
    def nelement(self) -> _int: ...
    def element_size(self) -> _int: ...
    def is_floating_point(self) -> _bool: ...
    def is_contiguous(self) -> _bool: ...
    def stride(self, dim: _int | None = None) -> Any: ...
    def storage_offset(self) -> _int: ...
    def is_nonzero(self) -> _bool: ...

    # -- its elements: each of these ends the step

    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    def numpy(self, *, force: _bool = False) -> NDArray[Any]: ...
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> NDArray[Any]: ...
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: _bool | None = None
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __bool__(self) -> _bool: ...
    def __float__(self) -> _float: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __reversed__(self) -> Tensor: ...
    def __contains__(self, element: object) -> _bool: ...

    # -- parts and views

    def set_(
        self, source: Tensor | None = None, storage_offset: _int = 0, size: Any = None, stride: Any = None
    ) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Tensor | _Number | ArrayLike) -> None: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...

    # -- what depends on data, writes at indices, shapes changed in place

    def nonzero(self, *, as_tuple: _bool = False) -> Any: ...
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: _bool = False,
        return_counts: _bool = False,
        dim: _int | None = None,
    ) -> Any: ...
    def unique_consecutive(
        self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
    ) -> Any: ...
    def equal(self, other: Tensor) -> _bool: ...
    def allclose(
        self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
    ) -> _bool: ...
    def is_complex(self) -> _bool: ...
    def index_put(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor: ...
    def index_put_(self, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False) -> Tensor: ...
    def t_(self) -> Tensor: ...
    def squeeze_(self, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
    def unsqueeze_(self, dim: _int) -> Tensor: ...
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor: ...
    def swapaxes_(self, axis0: _int, axis1: _int) -> Tensor: ...
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor: ...

    # -- conversions

    def to(
        self,
        *args: Any,
        dtype: _dtype | None = None,
        device: Any = None,
        copy: _bool = False,
        non_blocking: _bool = False,
    ) -> Tensor: ...
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> str: ...
    @overload
    def type(self, dtype: _dtype | str, non_blocking: _bool = False) -> Tensor: ...
    def cpu(self) -> Tensor: ...
    def double(self) -> Tensor: ...
    def float(self) -> Tensor: ...
    def half(self) -> Tensor: ...
    def bfloat16(self) -> Tensor: ...
    def long(self) -> Tensor: ...
    def int(self) -> Tensor: ...
    def byte(self) -> Tensor: ...
    def bool(self) -> Tensor: ...

    # -- gradients

    requires_grad: _bool
    grad: Tensor | None
    @property
    def data(self) -> Tensor: ...
    @property
    def is_leaf(self) -> _bool: ...
    def is_inference(self) -> _bool:
        """Whether it was made in inference mode."""

    @property
    def grad_fn(self) -> Node | None: ...
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: _bool | None = None,
        create_graph: _bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None: ...
    def requires_grad_(self, requires_grad: _bool = True) -> Tensor: ...
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Calls hook(grad) when the gradient is computed; what it returns, unless None, takes its place."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle: ...
    def retain_grad(self) -> None:
        """Makes a tensor that is no leaf keep its gradient."""

    @property
    def retains_grad(self) -> _bool: ...
    def detach(self) -> Tensor: ...
    def detach_(self) -> Tensor: ...

    # -- tensors like this one

    def new_tensor(self, data: Any, *, dtype: _dtype | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_full(
        self,
        size: _int | Sequence[_int],
        fill_value: _Number,
        *,
        dtype: _dtype | None = None,
        requires_grad: _bool = False,
    ) -> Tensor: ...
    def new_zeros(self, *size: Any, dtype: _dtype | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_ones(self, *size: Any, dtype: _dtype | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_empty(self, *size: Any, dtype: _dtype | None = None, requires_grad: _bool = False) -> Tensor: ...

    # -- operators

    def __hash__(self) -> _int: ...
    def __copy__(self) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __matmul__(self, other: Tensor | NDArray[Any]) -> Tensor: ...
    def __rmatmul__(self, other: Tensor) -> Tensor: ...
    # opgen: operators

    # -- ops
    # opgen: methods

def set_num_threads(n: _int) -> None:
    """How many threads kernels may use."""

def get_num_threads() -> _int:
    """How many threads kernels use."""

def mark_step() -> None:
    """Ends the step: what was recorded is computed."""

def step_boundary(reason: str) -> None:
    """Ends the step where step boundaries do so."""

def set_options(
    *,
    predict: _bool | None = None,
    fuse: _bool | None = None,
    simplify: _bool | None = None,
    soft_bound: _int | None = None,
    hard_bound: _int | None = None,
    hash_mask: _int | None = None,
) -> None:
    """Switches for tests and tools; those not given stay. Forgets recorded traces."""

def forget_traces() -> None:
    """Forgets recorded traces and their plans."""

def metrics() -> dict[str, Any]:
    """Counters, and the events of late."""

def metrics_report() -> str:
    """The metrics as text."""

def reset_metrics() -> None:
    """Sets counters to zero and forgets events."""

def memory_stats() -> dict[str, _int]:
    """Bytes live, at most live, and kept for reuse."""

def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the system."""

def promote_types(a: dtype, b: dtype) -> dtype:
    """The dtype that values of both convert to."""

def dtype_named(name: str) -> dtype: ...

default_generator: Generator

def set_grad_enabled(on: _bool) -> None: ...
def is_grad_enabled() -> _bool: ...
def is_inference_mode_enabled() -> _bool:
    """Whether new tensors are inference tensors."""

def is_anomaly_enabled() -> _bool:
    """Whether errors in backward name the forward line."""

def is_anomaly_check_nan_enabled() -> _bool:
    """Whether gradients that are nan are errors in anomaly mode."""

def set_eager_enabled(on: _bool) -> None: ...
def is_eager_enabled() -> _bool: ...
def set_strict(on: _bool) -> None: ...
def is_strict() -> _bool: ...
def tell_fallback(what: str, consequence: str) -> None: ...
def backward(
    tensors: Sequence[Tensor],
    grad_tensors: Sequence[Tensor | None],
    retain_graph: _bool,
    create_graph: _bool,
    inputs: Sequence[Tensor] = ...,
) -> None: ...
def grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None],
    retain_graph: _bool,
    create_graph: _bool,
    allow_unused: _bool,
) -> tuple[Tensor | None, ...]: ...
def assign(tensor: Tensor, source: Tensor) -> None: ...
def update_adam(
    parameter: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Tensor | None,
    step: _int,
    lr: _float,
    beta1: _float,
    beta2: _float,
    eps: _float,
    weight_decay: _float,
    maximize: _bool,
    decoupled: _bool,
) -> None: ...
def from_numpy_copy(array: numpy.ndarray) -> Tensor: ...

# -- ops
# opgen: functions
