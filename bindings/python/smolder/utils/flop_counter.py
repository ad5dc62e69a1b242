"""Counts floating point operations of matrix products, convolutions and attention, by module."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from smolder import _core, _ops
from smolder._dispatch import TorchDispatchMode
from smolder._names import listing as _listing
from smolder._warn import warn
from smolder.utils._pytree import tree_map
from smolder.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]
__dir__ = _listing(__name__)

aten: Any = _ops.ops.aten
flop_registry: dict[Any, Any] = {}  # by op: formula(shapes for tensors among the arguments, out_val=result)


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Makes a function the formula of ops: it is given the call's arguments, shapes in place of tensors, and out_shape.

    With get_raw, tensors are given as they are, and out_val.
    """

    def decorate(formula):
        for target in targets if isinstance(targets, list | tuple) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _given_shapes(formula)
        return formula

    return decorate


def _shape_of(value):
    return value.shape if isinstance(value, _core.Tensor) else value


def _given_shapes(formula):
    def of_shapes(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(_shape_of, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return of_shapes


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A product and a sum for each element of each row with each column."""
    return a_shape[0] * a_shape[1] * b_shape[1] * 2


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """As mm."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """As mm, for each matrix of the batch."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """As bmm."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """A product and a sum for each weight of a filter, at each place where it is put."""
    places = math.prod((x_shape if transposed else out_shape)[2:])
    return x_shape[0] * places * math.prod(w_shape) * 2


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    *args: Any, out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Operations of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula([_ops.own("conv_backward_input"), _ops.own("conv_backward_weight")])
def conv_backward_flop(grad_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Each gradient takes as much as the convolution; a transposed convolution is recorded as the first."""
    w_shape = args[0] if len(args[0]) == len(grad_shape) and args[0][0] == grad_shape[1] else out_shape
    return conv_flop_count(grad_shape, w_shape, grad_shape)


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Products of queries with keys, and of scores with values."""
    *heads, queries, inner = query_shape
    keys, columns = key_shape[-2], value_shape[-1]
    return math.prod(heads) * queries * keys * (inner + columns) * 2


def _heads_first(shapes, rows_first):
    return [(*s[:-3], s[-2], s[-3], s[-1]) if rows_first else s for s in shapes]


@register_flop_formula(
    [
        aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_efficient_attention,
        aten._scaled_dot_product_flash_attention_for_cpu,
    ]
)  # fmt: skip
def sdpa_flop(
    query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, rows_first: bool = False,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Operations of attention."""
    return sdpa_flop_count(*_heads_first((query_shape, key_shape, value_shape), rows_first))


@register_flop_formula(
    [
        aten._scaled_dot_product_flash_attention_backward, aten._scaled_dot_product_efficient_attention_backward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward, _ops.own("flash_attention_backward_joined"),
    ]
)  # fmt: skip
def sdpa_backward_flop(
    grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None,
    rows_first: bool = False, **kwargs: Any,
) -> int:  # fmt: skip
    """Its gradients take the scores again, and products for the gradients of scores, queries, keys and values."""
    query, key, value = _heads_first((query_shape, key_shape, value_shape), rows_first)
    *heads, queries, inner = query
    return math.prod(heads) * queries * key[-2] * (3 * inner + 2 * value[-1]) * 2


def _suffixed(number):
    for unit, suffix in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= unit:
            return f"{number / unit:.3f}{suffix}"
    return str(number)


class FlopCounterMode(TorchDispatchMode):
    """Within it, what ops compute is counted, by formulas of their shapes, and by the modules that they are of."""

    flop_counts: dict[str, dict[Any, int]]
    flop_registry: dict[Any, Any]
    mod_tracker: ModuleTracker
    depth: int
    display: bool

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        super().__init__()
        if mods is not None:
            warn("mods argument is not needed anymore, you can stop passing it")
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.mod_tracker = ModuleTracker()
        custom = {op: _given_shapes(f) for op, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **custom}

    def get_total_flops(self) -> int:
        """All that was counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module, and by op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts of modules down to a depth, as text; needs the package tabulate."""
        import tabulate

        depth = self.depth if depth is None else depth
        total, rows = max(self.get_total_flops(), 1), []
        for name in sorted(self.flop_counts):
            level = 0 if name == "Global" else name.count(".") + 1
            if level <= depth:
                count = sum(self.flop_counts[name].values())
                rows.append([" " * level + name, _suffixed(count), f"{count / total * 100:.2f}%"])
                rows += [
                    [" " * level + f" - {op}", _suffixed(n), f"{n / total * 100:.2f}%"]
                    for op, n in self.flop_counts[name].items()
                ]
        rows.sort(key=lambda row: not row[0].startswith("Global"))  # a stable sort: the whole first
        return tabulate.tabulate(rows or [["Global", "0", "0%"]], headers=["Module", "FLOP", "% Total"])

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        formula = self.flop_registry.get(func)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in set(self.mod_tracker.parents):
                self.flop_counts[name][func] += count
        return out
