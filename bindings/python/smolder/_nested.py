"""The class of nested tensors: a Tensor whose handle is that of its values, packed one after another, and whose calls are
answered by rules: most ops see the values alone, some the tensors padded to one length."""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from smolder import _core
from smolder._layouts import jagged, layout, strided
from smolder._tensor import Size, Tensor
from smolder._typing import F
from smolder.overrides import DisableTorchFunction

_numbers = itertools.count(1)


class RaggedSize(int):
    """The extent of the dimension in which the tensors of a nested one differ: a symbol, j1, which equals itself."""

    def __new__(cls, total: int) -> RaggedSize:
        """The number is that of all elements along it."""
        out = super().__new__(cls, total)
        out._number = next(_numbers)
        return out

    _number: int

    def __repr__(self) -> str:
        return f"j{self._number}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


class Pieces:
    """Where each tensor of a nested one lies among its values: tensors of the same Pieces fit together."""

    def __init__(self, offsets: Tensor, begins: list[int] | None = None) -> None:
        self.offsets = offsets
        self._begins = begins
        self._size: RaggedSize | None = None
        self._places: dict[str, Tensor] = {}

    @classmethod
    def of(cls, offsets: Tensor) -> Pieces:
        """The same for the same tensor of offsets."""
        kept = getattr(offsets, "_nested_pieces", None)
        found = None if kept is None else kept()
        if found is None:
            found = cls(offsets)
            offsets._nested_pieces = weakref.ref(found)
        return found

    @property
    def begins(self) -> list[int]:
        """The offsets as numbers."""
        if self._begins is None:
            self._begins = self.offsets.tolist()
        return self._begins

    @property
    def count(self) -> int:
        """How many tensors there are."""
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> list[int]:
        """The extent of each."""
        return [b - a for a, b in itertools.pairwise(self.begins)]

    @property
    def longest(self) -> int:
        """The largest extent."""
        return max(self.lengths, default=0)

    @property
    def size(self) -> RaggedSize:
        """The extent, as shapes name it."""
        if self._size is None:
            self._size = RaggedSize(self.begins[-1])
        return self._size

    def fits(self, other: Pieces) -> bool:
        """Whether tensors of both have the same extents."""
        return self is other or self.offsets._is_same(other.offsets) or self.begins == other.begins

    def _place(self, name, make):
        if name not in self._places:
            self._places[name] = _ints(make()).to(self.offsets.device)
        return self._places[name]

    def from_values(self) -> Tensor:
        """For each place of the padded tensors that of its value; 0 for padding."""
        return self._place(
            "values",
            lambda: [
                a + i if i < b - a else 0 for a, b in itertools.pairwise(self.begins) for i in range(self.longest)
            ],
        )

    def from_padded(self) -> Tensor:
        """For each value its place among the padded tensors."""
        longest = self.longest
        return self._place("padded", lambda: [k * longest + i for k, n in enumerate(self.lengths) for i in range(n)])

    def rows(self) -> Tensor:
        """For each value the number of its tensor."""
        return self._place("rows", lambda: [k for k, n in enumerate(self.lengths) for _ in range(n)])

    def inside(self) -> Tensor:
        """(count, longest): whether a place of the padded tensors has a value."""
        lengths = self.offsets[1:] - self.offsets[:-1]
        return _core.arange(self.longest).to(lengths.device).unsqueeze(0) < lengths.unsqueeze(1)


def _ints(values):
    import numpy

    from smolder._creation import from_numpy

    return from_numpy(numpy.array(values, numpy.int64))


def is_nested(x: object) -> bool:
    """Whether an object is a nested tensor."""
    return isinstance(x, NestedTensor)


def plain(x: Tensor) -> Tensor:
    """The values of a nested tensor, with their history; any other as it is."""
    if not isinstance(x, NestedTensor):
        return x
    with DisableTorchFunction():
        return x.as_subclass(Tensor)


def made(values: Tensor, pieces: Pieces, ragged: int, kind: layout = jagged) -> NestedTensor:
    """A nested tensor of packed values, whose dimension number `ragged`, the batch's being 0, has the extents of pieces."""
    with DisableTorchFunction():
        out: NestedTensor = values.as_subclass(NestedTensor)
    out._pieces, out._ragged, out._kind = pieces, ragged, kind
    return out


def like(x: NestedTensor, values: Any, ragged: int | None = None) -> Any:
    """Other values at the places of a nested tensor; of a tuple each."""
    if isinstance(values, tuple | list):
        return type(values)(like(x, v, ragged) for v in values)
    if not isinstance(values, Tensor):
        return values
    return made(values, x._pieces, x._ragged if ragged is None else ragged, x._kind)


def missing(name: str, why: str = "") -> NotImplementedError:
    """The error of a call that has no rule."""
    return NotImplementedError(f"{name} of a nested tensor is not supported{': ' if why else ''}{why}")


def padded(x: NestedTensor, padding: float) -> Tensor:
    """A tensor of all, each filled up with `padding` to the longest."""
    values, at, pieces = plain(x), x._ragged - 1, x._pieces
    shape, longest = list(values.shape), pieces.longest
    if shape[at] == 0:
        return _core.full(
            (pieces.count, *shape[:at], longest, *shape[at + 1 :]), padding, dtype=values.dtype, device=values.device
        )
    out = values.index_select(at, pieces.from_values())
    out = out.reshape((*shape[:at], pieces.count, longest, *shape[at + 1 :])).movedim(at, 0)
    inside = pieces.inside().reshape((pieces.count, *[1] * at, longest, *[1] * (len(shape) - at - 1)))
    return _core.where(inside, out, _core.full((), padding, dtype=out.dtype))


def unpadded(out: Tensor, pieces: Pieces, ragged: int, kind: layout) -> NestedTensor:
    """The nested tensor of what is no padding in a tensor of all."""
    at = ragged - 1
    packed = out.movedim(0, at)
    shape = packed.shape
    packed = packed.reshape((*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    return made(packed.index_select(at, pieces.from_padded()), pieces, ragged, kind)


RULES: dict[str, Callable[..., Any]] = {}
_SEE_VALUES_ALONE = """
    abs acos acosh add addcdiv addcmul alpha_dropout and asin asinh atan atan2 atanh bernoulli bfloat16 bitwise_and
    bitwise_not bitwise_or bitwise_xor bool ceil celu clamp clamp_max clamp_min clip clone contiguous copy_ copysign
    cos cosh detach div double dropout elu empty_like eq erf erfc erfinv exp exp2 expm1 fill_ float floor
    floor_divide floordiv fmod frac full_like ge gelu gt half hardshrink hardsigmoid hardswish hardtanh int invert
    isfinite isinf isnan le leaky_relu lerp lgamma log log10 log1p log2 log_sigmoid logaddexp logical_and logical_not
    logical_or logical_xor logit logsigmoid long lt masked_fill maximum minimum mish mod mul nan_to_num ne neg normal_
    ones_like or positive pow rand_like randn_like reciprocal relu relu6 remainder requires_grad_ round rsqrt rsub
    selu sigmoid sign silu sin sinh softplus softshrink softsign sqrt square sub tan tanh tanhshrink threshold to
    truediv true_divide trunc type_as uniform_ where xlogy xor zero_ zeros_like
"""
POINTWISE = set(_SEE_VALUES_ALONE.split())


def rule(*names: str) -> Callable[[F], F]:
    """Makes a function the rule of ops."""

    def add(function: F) -> F:
        for name in names:
            RULES[name] = function
        return function

    return add


def _first(args):
    return next(x for x in args if isinstance(x, NestedTensor))


def _fitting(name, x, value):
    """An operand beside a nested tensor: its values, or a tensor that broadcasts against those of x."""
    if isinstance(value, NestedTensor):
        if value._ragged != x._ragged or not value._pieces.fits(x._pieces):
            raise RuntimeError(
                f"cannot call binary pointwise function {name} with inputs of shapes {tuple(x.shape)} and "
                f"{tuple(value.shape)}"
            )
        return plain(value)
    if not isinstance(value, Tensor) or value.dim() < x.dim():
        return value
    if value.dim() > x.dim() or value.shape[x._ragged] != 1:
        raise RuntimeError(
            f"cannot call binary pointwise function {name} with inputs of shapes {tuple(x.shape)} and {tuple(value.shape)}"
        )
    if value.shape[0] == 1:
        return value.squeeze(0)
    at = x._ragged - 1  # a number for each tensor: one for each of its values
    return value.squeeze(x._ragged).movedim(0, at).index_select(at, x._pieces.rows())


def _pointwise(func, name, args, kwargs):
    x = _first((*args, *kwargs.values()))
    given = [_fitting(name, x, v) for v in args]
    named = {k: _fitting(name, x, v) for k, v in kwargs.items()}
    with DisableTorchFunction():
        out = func(*given, **named)
    return args[0] if name.endswith("_") and not name.endswith("__") else like(x, out)


class NestedTensor(Tensor):
    """Tensors of a batch that differ in one extent, kept one after another. values() and offsets() are its parts; ops that have
    no rule raise NotImplementedError."""

    _pieces: Pieces
    _ragged: int
    _kind: layout

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            "nested tensors are made by nested.nested_tensor, as_nested_tensor or nested_tensor_from_jagged"
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__.removesuffix("_of")
        base = name.strip("_") if name.startswith("__") else name
        if not base:  # a property of C++'s
            with DisableTorchFunction():
                return func(*args, **kwargs)
        found = RULES.get(base)
        if found is not None:
            return found(*args, **kwargs)
        turned = base[1:] if name.startswith("__r") or name.startswith("__i") else base
        if POINTWISE & {base, base.removesuffix("_"), turned}:
            return _pointwise(func, name, args, kwargs)
        raise missing(name)

    # -- what it is

    is_nested = property(lambda self: True, doc="True.")
    layout = property(lambda self: self._kind, doc="jagged or strided.")

    @property
    def shape(self) -> Size:
        """The extents; that in which the tensors differ is a symbol."""
        extents = list(plain(self).shape)
        extents[self._ragged - 1] = self._pieces.size
        return Size((self._pieces.count, *extents))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return plain(self).dim() + 1

    def dim(self) -> int:
        """Number of dimensions."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """The extents, or that of one dimension."""
        if dim is None:
            return self.shape
        at = _axis(self, dim)
        if at == self._ragged and self._kind is strided:
            lengths = set(self._pieces.lengths)
            if len(lengths) != 1:
                raise RuntimeError(f"Given dimension {at} is irregular and does not have a size.")
            return lengths.pop()
        return self.shape[at]

    def numel(self) -> int:
        """Number of elements of all."""
        return plain(self).numel()

    def __len__(self) -> int:
        return self._pieces.count

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())

    @property
    def grad(self) -> Any:
        """The gradient, nested alike."""
        with DisableTorchFunction():
            found = Tensor.grad.__get__(self)
        return None if found is None else like(self, plain(found))

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        with DisableTorchFunction():
            Tensor.grad.__set__(self, None if value is None else plain(value))

    # -- its parts

    def values(self) -> Tensor:
        """The values of all, one after another."""
        return plain(self)

    def offsets(self) -> Tensor:
        """Where each begins along the dimension in which they differ, and where the last ends."""
        return self._pieces.offsets

    def lengths(self) -> Tensor | None:
        """None: there is nothing between the tensors."""
        return None

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The tensors; views of the values."""
        if _axis(self, dim) != 0:
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        values, at = plain(self), self._ragged - 1
        return tuple(values.narrow(at, a, b - a) for a, b in itertools.pairwise(self._pieces.begins))

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """All in one tensor, each filled up with `padding` to the longest, or to the sizes of output_size."""
        out = padded(self, padding)
        if output_size is None:
            return out
        if len(output_size) != out.dim() or any(n < m for n, m in zip(output_size, out.shape, strict=True)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        more = [n - m for n, m in zip(output_size, out.shape, strict=True)]
        pads = [v for n in reversed(more) for v in (0, n)]
        return _core.pad(out, pads, value=padding) if any(more) else out

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the values are contiguous and differ in their first dimension."""
        return self._ragged == 1 and plain(self).is_contiguous()

    def tolist(self) -> Any:
        """The numbers of each."""
        return [t.tolist() for t in self.unbind()]

    def numpy(self, *, force: bool = False) -> Any:
        """Raises: unbind() or to_padded_tensor() come first."""
        raise missing("numpy", "call to_padded_tensor() or unbind() first")

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int):
            return self.unbind()[at]
        return _indexed(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        raise missing("assignment to an index")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        history = plain(self)
        told = ""
        if history.grad_fn is not None:
            told = f", grad_fn=<{type(history.grad_fn).__name__}>"
        elif history.requires_grad:
            told = ", requires_grad=True"
        if self._kind is strided:
            inner = ",\n".join("  " + repr(t.detach()).replace("\n", "\n  ") for t in self.unbind())
            return f"nested_tensor([\n{inner}\n]{told})"
        sizes = ", ".join(map(str, self.shape))
        return f"NestedTensor(size=({sizes}), offsets={self._pieces.offsets}{told}, contiguous={self.is_contiguous()})"

    __str__ = __repr__
    __hash__ = Tensor.__hash__

    def __deepcopy__(self, memo: Any) -> NestedTensor:
        return like(self, copy.deepcopy(plain(self), memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise missing("pickling", "keep values() and offsets()")


def _axis(x, dim):
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got {dim})"
        )
    return dim % x.ndim


def _inner(name, x, dim):
    """A dimension among those of the values; that of the batch raises."""
    at = _axis(x, dim)
    if at == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return at - 1


def _regular(name, x, dim):
    at = _inner(name, x, dim)
    if at == x._ragged - 1:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return at


def _indexed(x, at):
    at = at if isinstance(at, tuple) else (at,)
    if at and at[0] is Ellipsis:
        at = (slice(None),) * (x.ndim - sum(i is not None for i in at[1:])) + at[1:]
    before = list(at[: x._ragged + 1])
    whole = slice(None)
    if any(not isinstance(i, int | slice) for i in at) or at[0] != whole or before[x._ragged :] not in ([], [whole]):
        raise missing("this index", "the batch and the dimension in which the tensors differ are taken whole")
    gone = sum(isinstance(i, int) for i in before)
    return like(x, plain(x)[at[1:]], x._ragged - gone)


def length_mask(pieces: Pieces) -> Tensor:
    """(count, 1, 1, longest): True where the padded tensors have values."""
    return pieces.inside().reshape((pieces.count, 1, 1, pieces.longest))


from smolder import _nested_rules as _nested_rules  # noqa: E402 - which needs the class
