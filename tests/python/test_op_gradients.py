"""Gradients of every row against finite differences in float64, at the row's cases and their edges."""

import numpy as np
from op_results import generated
from op_rows import (
    ERRORS,
    WITH_TENSORS,
    arguments,
    call,
    edges,
    elementwise_edges,
    made,
    own_cases,
    results,
    rng_of,
    sampled,
)

import smolder

FLAT = {"sign", "floor", "ceil", "round", "trunc", "floor_div", "trunc_divide", "div.rounding"}  # steps between zeros
SIZED = {"resample", "resample_backward"}  # of which an argument says where gradients look, at the sizes of its case


class Function:
    """A row at a case, as a scalar function of its operands that have a gradient: its results weighted and summed."""

    def __init__(self, row, case):
        self.row, self.label = row, case.label
        self.writes = not (row["function"] or row["method"])
        self.arrays, self.words = arguments(row, case, "float64")
        # Results in another dtype have other differences, and a row of padding has no gradient by definition.
        for name in ("dtype", "padding_idx"):
            if name in self.words and row["key"] in ("sum", "softmax", "log_softmax", "to", "embedding"):
                del self.words[name]

    def leaves(self, tensors):
        named = self.row["differentiable"] or list(tensors)
        flat = [t for k, v in tensors.items() if k in named for t in (v if isinstance(v, list) else [v])]
        return [t for t in flat if t.dtype.is_floating_point]

    def __call__(self, steps=None, recorded=True):
        """The scalar and the operands that it depends on, these moved by `steps`."""
        arrays, moves = dict(self.arrays), iter(steps or [])
        leaves = []
        for name, value in made(self.arrays).items():
            given = value if isinstance(value, list) else [value]
            mine = set(map(id, self.leaves({name: given})))
            for i, t in enumerate(given):
                if id(t) in mine:
                    given[i] = smolder.tensor(t.numpy() + next(moves)) if steps else t
                    leaves.append(given[i].requires_grad_(recorded))
            # A leaf must not be written in place.
            arrays[name] = given if isinstance(value, list) else given[0] * 1 if self.writes else given[0]
        tensors = arrays
        smolder.manual_seed(0)
        outs = [t for t in results(call(self.row, tensors, self.words)) if t.dtype.is_floating_point]
        total = smolder.zeros((), dtype=smolder.float64)
        for i, out in enumerate(outs):
            weights = rng_of("weights", self.row["key"], self.label, i).normal(size=tuple(out.shape))
            total = total + (out * smolder.tensor(weights)).sum()
        return total, leaves


def check(row, case):
    """Whether the case has a gradient; it agrees with differences then."""
    f = Function(row, case)
    total, leaves = f()
    if not total.requires_grad:
        return False
    total.backward()
    rng = rng_of("direction", row["key"], case.label)
    steps = [rng.normal(size=tuple(t.shape)) * 1e-6 for t in leaves]
    for t in leaves:
        assert t.grad is None or (t.grad.shape == t.shape and t.grad.dtype == t.dtype), (row["key"], str(case))
    slope = sum((t.grad.numpy() * d).sum() for t, d in zip(leaves, steps) if t.grad is not None) / 1e-6
    up, down = (f([sign * d for d in steps], recorded=False)[0].item() for sign in (1, -1))
    if not np.isfinite(up):  # the mean of nothing
        return not any(t.numel() for t in leaves)
    want = 0.0 if row["key"] in FLAT else (up - down) / 2e-6
    np.testing.assert_allclose(slope, want, rtol=2e-5, atol=2e-6, err_msg=f"{row['key']}, {case}")
    return True


# Optimizers' steps and gradients that are only differentiated through other rows have none.
DIFFERENTIABLE = [r for r in WITH_TENSORS if r["differentiable"]]
COMPOSITE = [r for r in WITH_TENSORS if r["kind"] == "composite"]
REST = [r for r in WITH_TENSORS if not r["differentiable"] and r["kind"] != "composite"]
REST = [r for r in REST if "F" in r.get("dtypes", "F").upper() or r.get("dtypes") in ("all", "number")]


@generated(DIFFERENTIABLE)
def test_gradients_agree_with_differences(row, shows):
    took = [check(row, case) for case in own_cases(row)]
    for t in took:
        shows("first", "float64", t)
    assert any(took)


@generated(COMPOSITE)
def test_gradients_through_composites_agree_with_differences(row, shows):
    for case in own_cases(row):
        shows("first", "float64", check(row, case))


@generated([r for r in DIFFERENTIABLE if r["key"] not in SIZED])
def test_gradients_agree_with_differences_on_edges(row, shows):
    elementwise = [(case,) for case in elementwise_edges(row)] if row["elementwise"] else []
    # Odd sizes are left out: they are large, and differences of large sums say little.
    small = [case for case in edges(row) if case.edge != "odd"]
    for (case,) in sampled(row, "gradient", [(case,) for case in small]) + elementwise:
        try:
            Function(row, case)(recorded=False)[0].item()
        except ERRORS:
            continue  # refused, as test_recorded_and_eager_agree_on_edges compares
        try:
            shows("first", "float64", check(row, case))
        except IndexError as e:
            assert "has no elements" in str(e) and case.edge == "empty"  # classes, which the result did not need


@generated(REST)
def test_rows_without_a_gradient_say_so(row, shows):
    for case in own_cases(row):
        total, _ = Function(row, case)()
        assert not total.requires_grad, f"{row['key']}, {case}"
        shows("first", "float64", False)
