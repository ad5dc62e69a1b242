"""Ops and kernels written in Python; where torch is installed, what it does with the same."""

import gc
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import of_the_cpu
from torch_peer import needs_torch, run_torch

import smolder
from smolder import library

pytestmark = of_the_cpu("kernels of users are")


def counters():
    return smolder.metrics()["counters"]


def count(name):
    return counters().get(name, 0)


@pytest.fixture
def lib():
    made = library.Library("testlib", "FRAGMENT")
    yield made
    made._destroy()


def scaled(x, by=2.0, more=0):
    return x.numpy() * np.float32(by) + np.float32(more)


@pytest.fixture
def op(lib):
    lib.define("scaled(Tensor x, float by=2.0, int more=0) -> Tensor")
    lib.impl("scaled", scaled, "CPU")
    library.register_fake("testlib::scaled", lambda x, by, more: smolder.empty_like(x))
    return smolder.ops.testlib.scaled


def test_a_call_is_a_step_of_the_plan(op):
    x = smolder.tensor([1.0, 2.0])
    smolder.mark_step()
    syncs, fallbacks = count("syncs"), count("fallbacks")
    y = op(x + 1, 3.0) * 10
    assert count("syncs") == syncs
    assert y.tolist() == [60.0, 90.0]
    assert (count("syncs"), count("fallbacks")) == (syncs + 1, fallbacks)
    assert op(x, more=5).tolist() == [7.0, 9.0]
    with smolder.eager():
        assert op(x, 4.0).tolist() == [4.0, 8.0]


def test_repeated_steps_are_followed_and_numbers_are_in_no_key(op):
    x = smolder.tensor([1.0, 2.0])
    for i in range(6):
        if i == 3:
            compiled, hits = count("plans.compiled"), count("predictor.hits")
        y = op(x, float(i)) + 1
        smolder.mark_step()
        assert y.tolist() == [i + 1.0, 2.0 * i + 1]
    assert count("plans.compiled") == compiled
    assert count("predictor.hits") == hits + 3


def test_operands_are_cast_in_regions_of_autocast(lib):
    lib.define("twice(Tensor x, Tensor[] rest) -> Tensor")
    lib.impl("twice", lambda x, rest: x + rest[0], "CPU")
    library.register_fake("testlib::twice", lambda x, rest: smolder.empty_like(x))
    library.register_autocast("testlib::twice", "cpu", smolder.float16)
    twice, x = smolder.ops.testlib.twice, smolder.full((3,), 1 / 3)
    third = float(np.float16(1 / 3))
    with smolder.autocast("cpu"):
        out = twice(x, [x])
        assert out.dtype == smolder.float16 and out.tolist() == [2 * third] * 3
        assert twice(x.double(), [x.double()]).dtype == smolder.float64
        with smolder.autocast("cpu", enabled=False):
            assert twice(x, [x]).dtype == smolder.float32
    assert twice(x, [x]).dtype == smolder.float32
    with pytest.raises(ValueError, match="Unknown device type: nothing"):
        library.register_autocast("testlib::twice", "nothing", smolder.float16)


def test_kernels_see_strides_and_share_memory(lib):
    seen = []

    def kernel(x):
        seen.append(x.numpy().strides)
        x.numpy()  # again, the same memory
        return smolder.from_numpy(np.ascontiguousarray(x.numpy()))

    lib.define("look(Tensor x) -> Tensor")
    lib.impl("look", kernel, "CPU")
    library.register_fake("testlib::look", smolder.empty_like)
    x = smolder.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert smolder.ops.testlib.look(x.t()).tolist() == x.t().tolist()
    assert len(seen) == 1
    assert smolder.ops.testlib.look(x.flip(0)).tolist() == x.flip(0).tolist()
    assert smolder.ops.testlib.look(x[1:, ::2]).tolist() == [[3.0, 5.0]]


def test_kernels_and_shape_rules_may_be_made_of_tensors(lib):
    lib.define("norm(Tensor x, int dim) -> (Tensor, Tensor)")
    lib.impl("norm", lambda x, dim: (x / x.sum(dim, keepdim=True), x.sum(dim)), "CPU")
    library.register_fake("testlib::norm", lambda x, dim: (x * 1.0, x.sum(dim)))
    x = smolder.rand(3, 4)
    a, b = smolder.ops.testlib.norm(x, 1)
    assert a.shape == (3, 4) and b.shape == (3,)
    np.testing.assert_allclose(a.numpy(), x.numpy() / x.numpy().sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), x.numpy().sum(1), rtol=1e-6)
    assert smolder.ops.testlib.norm(x, 0)[1].shape == (4,)


def test_every_type_of_argument_arrives(lib):
    got = []

    def kernel(x, w, xs, s, n, f, b, name, dims, fs, t, *, on, nn):
        got.append((w is None, len(xs), s, n, f, b, name, dims, fs, t, on, nn))
        return x.clone()

    lib.define(
        "all(Tensor x, Tensor? w, Tensor[] xs, Scalar s, int n, float f, bool b, str name, int[] dims, float[] fs, "
        "ScalarType t, *, bool? on=None, int? nn=3) -> Tensor"
    )
    lib.impl("all", kernel, "CPU")
    library.register_fake("testlib::all", lambda x, *args, **kwargs: smolder.empty_like(x))
    x = smolder.ones(2)
    text = "någon lång text"
    for on, w, xs in [(None, None, [x]), (True, x, [x, x + 1, x]), (False, None, [])]:
        y = smolder.ops.testlib.all(x, w, xs, 7, -5, 1, True, text, [3, -4], [0.5, 2], smolder.float64, on=on)
        assert y.tolist() == [1.0, 1.0]
        assert got.pop() == (w is None, len(xs), 7, -5, 1.0, True, text, [3, -4], [0.5, 2.0], smolder.float64, on, 3)


def test_without_a_shape_rule_the_kernel_runs_at_once(lib):
    lib.define("now(Tensor x) -> Tensor")
    lib.impl("now", lambda x: x.numpy() + 1, "CPU")
    assert smolder.ops.testlib.now(smolder.ones(2) * 2).tolist() == [3.0, 3.0]
    with smolder.strict(), pytest.raises(NotImplementedError, match="testlib::now has no shape rule"):
        smolder.ops.testlib.now(smolder.ones(2))


def test_gradients(op):
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.by = inputs[1]

    library.register_autograd(
        "testlib::scaled", lambda ctx, grad: (grad * ctx.by, None, None), setup_context=setup_context
    )
    x = smolder.tensor([1.0, 2.0], requires_grad=True)
    y = op(x, 3.0)
    assert type(y.grad_fn).__name__ == "GeneratedBackwardFor_testlib_scaled_defaultBackward"
    (y * y).sum().backward()
    assert x.grad.tolist() == [18.0, 36.0]
    with smolder.no_grad():
        assert not op(x).requires_grad


def test_gradients_of_calls_that_cpp_made(lib, op):
    def setup_context(ctx, inputs, output):
        assert inputs[1:] == (3.0, 1) and output.shape == inputs[0].shape
        ctx.save_for_backward(output)
        ctx.by = inputs[1]

    backwards = [lambda ctx, grad: (grad * ctx.by * ctx.saved_tensors[0], None, None), lambda ctx, grad: grad * 5]
    library.register_autograd("testlib::scaled", backwards[0], setup_context=setup_context)
    call = smolder.ops.testlib.scaled._core.call  # what OpHandle calls, with no Function around it
    x = smolder.tensor([1.0, 2.0], requires_grad=True)
    (g,) = smolder.autograd.grad(call((x, 3.0, 1)).sum(), x, create_graph=True)
    assert g.tolist() == [12.0, 21.0]
    assert smolder.autograd.grad(g.sum(), x)[0].tolist() == [3.0 * 12, 3.0 * 21]
    library.register_autograd("testlib::scaled", backwards[1])
    assert smolder.autograd.grad(call((x, 3.0, 1)).sum(), x)[0].tolist() == [5.0, 5.0]

    lib.define("products(Tensor? y, Tensor[] xs, *, int by) -> (Tensor, Tensor)")
    lib.impl("products", lambda y, xs, *, by: (xs[0].numpy() * xs[1].numpy() * by, xs[0].numpy() + 1), "CPU")
    library.register_fake("testlib::products", lambda y, xs, *, by: (smolder.empty_like(xs[0]),) * 2)

    def setup_products(ctx, inputs, keyword_only_inputs, output):
        ctx.xs, ctx.by = inputs[1], keyword_only_inputs["by"]
        assert inputs[0] is None and len(output) == 2

    def backward(ctx, g, h):
        assert h.tolist() == [0.0]
        return None, [g * ctx.xs[1] * ctx.by, None]

    library.register_autograd("testlib::products", backward, setup_context=setup_products)
    a, b = smolder.tensor([2.0], requires_grad=True), smolder.tensor([3.0], requires_grad=True)
    first, _ = smolder.ops.testlib.products._core.call((None, [a, b], 2))
    first.sum().backward()
    assert a.grad.tolist() == [6.0] and b.grad is None


def test_second_derivatives_and_lists(lib):
    lib.define("cubes(Tensor[] xs) -> Tensor")
    lib.impl("cubes", lambda xs: sum(x.numpy() ** 3 for x in xs), "CPU")
    library.register_fake("testlib::cubes", lambda xs: smolder.empty_like(xs[0]))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[0])

    library.register_autograd(
        "testlib::cubes", lambda ctx, g: ([3 * x * x * g for x in ctx.saved_tensors],), setup_context=setup_context
    )
    x, y = (smolder.tensor([v], requires_grad=True, dtype=smolder.float64) for v in (2.0, 3.0))
    total = smolder.ops.testlib.cubes([x, y])
    (gx, gy) = smolder.autograd.grad(total.sum(), (x, y), create_graph=True)
    assert (gx.item(), gy.item()) == (12.0, 27.0)
    assert smolder.autograd.grad(gx.sum() * gy.sum(), x)[0].item() == 12.0 * 27.0


def test_a_missing_gradient_is_named(op):
    x = smolder.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"Trying to backward through testlib.scaled.default but no autograd formula"
    ):
        op(x).sum().backward()


def test_composites_fuse(lib):
    lib.define("halfway(Tensor a, Tensor b, float w=0.5) -> Tensor")
    lib.impl("halfway", lambda a, b, w=0.5: a + w * (b - a), "CompositeImplicitAutograd")
    a = smolder.zeros(3, requires_grad=True)
    y = smolder.ops.testlib.halfway(a, smolder.ones(3), 0.25)
    assert y.tolist() == [0.25] * 3
    y.sum().backward()
    assert a.grad.tolist() == [0.75] * 3


def test_custom_op_by_annotations():
    @library.custom_op("testlib::f", mutates_args=())
    def f(x: smolder.Tensor, dims: list[int], scale: float = 2.0, *, name: str | None = None) -> smolder.Tensor:
        """Doubles."""
        return x.numpy() * np.float32(scale)

    f.register_fake(lambda x, dims, scale, name=None: smolder.empty_like(x))
    assert f.__doc__ == "Doubles."
    assert f._opoverload._schema == (
        "testlib::f(Tensor x, SymInt[] dims, float scale=2.0, *, str? name=None) -> Tensor"
    )
    assert f(smolder.ones(2), [1]).tolist() == [2.0, 2.0]
    assert smolder.ops.testlib.f(smolder.ones(2), dims=(1, 2), scale=3.0, name="x").tolist() == [3.0, 3.0]
    assert library.opcheck(f, (smolder.ones(2), [0])) == dict.fromkeys(
        ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"), "SUCCESS"
    )

    # Defined again it is another op, whatever was recorded of the first.
    before = f(smolder.ones(2), [1])

    @library.custom_op("testlib::f", mutates_args=())
    def f(x: smolder.Tensor) -> smolder.Tensor:
        return x.numpy() - 1

    f.register_fake(smolder.empty_like)
    assert f(smolder.ones(2)).tolist() == [0.0, 0.0]
    assert before.tolist() == [2.0, 2.0]


def test_written_arguments():
    @library.custom_op("testlib::bump", mutates_args={"x"})
    def bump(x: smolder.Tensor, by: smolder.Tensor) -> None:
        x.numpy()[...] += by.numpy()

    assert bump._opoverload._schema == "testlib::bump(Tensor(a0!) x, Tensor by) -> ()"
    base = smolder.zeros(2, 3)
    before = base + 0
    assert bump(base[1], smolder.ones(3)) is None
    bump(base[1], smolder.ones(3))
    assert base.tolist() == [[0.0] * 3, [2.0] * 3]
    assert before.tolist() == [[0.0] * 3] * 2
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        bump.register_autograd(lambda ctx, g: g)

    @library.custom_op("testlib::add_and_sum", mutates_args="x")
    def add_and_sum(x: smolder.Tensor) -> smolder.Tensor:
        x.add_(1)
        return x.sum()

    add_and_sum.register_fake(lambda x: smolder.empty((), dtype=x.dtype))
    x = smolder.zeros(3)
    assert (add_and_sum(x) * 1).item() == 3.0 and x.tolist() == [1.0] * 3


def test_overrides_of_built_in_kernels():
    x = smolder.tensor([1.0, 4.0])
    with_before = x.sqrt()
    override = library.Library("aten", "IMPL")
    override.impl("sqrt", lambda x: x.numpy() * 0 + 9, "CPU")
    override.impl("mul", lambda self, other: np.full_like(self.numpy(), 5), "CPU")
    assert with_before.tolist() == [1.0, 2.0]
    fallbacks = count("fallbacks")
    assert (x.sqrt() + 1).tolist() == [10.0, 10.0]
    assert (x * 2.0).tolist() == [5.0, 5.0]
    assert count("fallbacks") == fallbacks
    with smolder.eager():
        assert x.sqrt().tolist() == [9.0, 9.0]
    recorded = x.sqrt()
    override._destroy()
    assert recorded.tolist() == [9.0, 9.0]
    assert x.sqrt().tolist() == [1.0, 2.0]
    assert (x * 2.0).tolist() == [2.0, 8.0]


def test_an_override_sees_attributes_and_keeps_the_gradient():
    got = []
    override = library.Library("aten", "IMPL")

    def mean(self, dim=None, keepdim=False, dtype=None):
        got.append((dim, keepdim, dtype))
        return self.numpy().sum(axis=tuple(dim), keepdims=keepdim)

    override.impl("mean", mean, "CPU")
    x = smolder.ones(2, 3, requires_grad=True)
    y = x.mean(1, keepdim=True)
    assert y.tolist() == [[3.0], [3.0]] and got == [([1], True, None)]
    y.sum().backward()
    assert x.grad.tolist() == [[pytest.approx(1 / 3)] * 3] * 2
    override._destroy()


def test_exceptions_reach_the_user_as_they_were(lib):
    def kernel(x):
        raise KeyError("no such row")

    lib.define("fails(Tensor x) -> Tensor")
    lib.impl("fails", kernel, "CPU")
    library.register_fake("testlib::fails", smolder.empty_like)
    before = smolder.ones(2) + 1
    y = smolder.ops.testlib.fails(before)  # the user's line
    with pytest.raises(KeyError, match="no such row") as caught:
        y.tolist()
    notes = "\n".join(caught.value.__notes__)
    assert "a kernel of testlib::fails" in notes and "test_library.py" in notes
    assert before.tolist() == [2.0, 2.0]
    with smolder.eager(), pytest.raises(KeyError):
        smolder.ops.testlib.fails(before)


@pytest.mark.parametrize(
    ("kernel", "error", "what"),
    [
        (lambda x: x.numpy()[:1], RuntimeError, r"testlib::bad: its kernel returned a tensor of shape \[1\]"),
        (lambda x: x.numpy().astype("float64"), RuntimeError, "dtype float64, its shape rule says"),
        (lambda x: (x, x), RuntimeError, "testlib::bad: its kernel must return 1 tensor"),
        (lambda x: 3, TypeError, "testlib::bad: its kernel returned a int, expected a Tensor or a NumPy array"),
        (lambda x: None, TypeError, "returned a NoneType"),
        (lambda x: x, RuntimeError, "may not alias any inputs"),
    ],
)
def test_wrong_results_of_kernels(lib, kernel, error, what):
    lib.define("bad(Tensor x) -> Tensor")
    lib.impl("bad", kernel, "CPU")
    library.register_fake("testlib::bad", smolder.empty_like)
    with pytest.raises(error, match=what):
        smolder.ops.testlib.bad(smolder.ones(2)).tolist()


def test_a_kernel_may_not_keep_its_arguments(lib):
    kept = []
    lib.define("keeps(Tensor x) -> Tensor")
    lib.impl("keeps", lambda x: kept.append(x.numpy()) or x.numpy() + 1, "CPU")
    library.register_fake("testlib::keeps", smolder.empty_like)
    with pytest.raises(RuntimeError, match="testlib::keeps: its kernel kept an argument"):
        smolder.ops.testlib.keeps(smolder.ones(2) + 1).tolist()


@pytest.mark.runs_op_by_op
def test_kernels_may_read_other_tensors(lib):
    outside = []
    lib.define("reads(Tensor x) -> Tensor")
    lib.impl("reads", lambda x: x.numpy() + outside[0].numpy(), "CPU")
    library.register_fake("testlib::reads", smolder.empty_like)
    outside.append(smolder.tensor([1.0, 1.0]))
    assert smolder.ops.testlib.reads(smolder.ones(2)).tolist() == [2.0, 2.0]
    # One that the step itself computes has no value before: the step then runs op by op.
    outside[0] = smolder.ones(2) + 1
    assert (smolder.ops.testlib.reads(smolder.ones(2)) + outside[0]).tolist() == [5.0, 5.0]
    # Recorded later, it has none at all.
    y = smolder.ops.testlib.reads(smolder.ones(2))
    outside[0] = smolder.ones(2) + 2
    with pytest.raises(RuntimeError, match="part of the step that is being recorded or run"):
        y.tolist()


def test_wrong_shape_rules(lib):
    lib.define("shapes(Tensor x) -> Tensor")
    lib.impl("shapes", lambda x: x.clone(), "CPU")
    rule = []
    library.register_fake("testlib::shapes", lambda x: rule[-1](x))
    op = smolder.ops.testlib.shapes
    rule.append(lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        op(smolder.ones(2))
    assert "shape rule (register_fake) of testlib::shapes" in caught.value.__notes__[0]
    rule.append(lambda x: x.numpy())
    with pytest.raises(RuntimeError, match="a shape rule cannot read the values of tensors"):
        op(smolder.ones(2))
    rule.append(lambda x: 7)
    with pytest.raises(TypeError, match="testlib::shapes: its shape rule returned a int"):
        op(smolder.ones(2))
    rule.append(lambda x: smolder.empty_like(x) * 2)
    assert op(smolder.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="already has a fake impl"):
        library.register_fake("testlib::shapes", smolder.empty_like)


MISTAKES = [
    ("op(3.0)", RuntimeError, "Expected a value of type 'Tensor' for argument 'x' but instead found type 'float'"),
    ("op(x, 'a')", RuntimeError, "Expected a value of type 'float' for argument 's' but instead found type 'str'"),
    ("op()", RuntimeError, "is missing value for argument 'x'"),
    ("op(x, zz=1)", RuntimeError, "Unknown keyword argument 'zz' for operator 'peer::f'"),
    ("op(x, 1.0, 1, 5)", RuntimeError, "expected at most 3 argument(s) but received 4 argument(s)"),
    ("t.ops.peer.nope", AttributeError, "'_OpNamespace' 'peer' object has no attribute 'nope'"),
    ("lib.define('f(Tensor x) -> Tensor')", RuntimeError, "Tried to register an operator"),
    ("t.ops.peer.bare(x)", NotImplementedError, "Could not run 'peer::bare' with arguments from the 'CPU' backend"),
    ("lib.impl('f', abs, 'XPUX')", RuntimeError, "could not parse dispatch key: XPUX"),
    ("t.library.Library('peer', 'FOO')", ValueError, "Unsupported kind: "),
    ("t.library.Library('peer', 'DEF')", RuntimeError, "Only a single TORCH_LIBRARY can be used to register the name"),
    ("t.library.Library('aten', 'DEF')", RuntimeError, "Only a single TORCH_LIBRARY can be used to register the name"),
    ("t.library.register_fake('peer::zz', abs)", RuntimeError, "operator peer::zz does not exist"),
    ("t.library.custom_op('peer::g', lambda x: x, mutates_args=())", ValueError, "must have a type annotation"),
    ("t.library.custom_op('peer::g', untyped, mutates_args=())", ValueError, "No return type annotation was provided"),
    ("t.library.custom_op('peer::g', wrong, mutates_args=())", ValueError, "Parameter x has unsupported type"),
    (
        "t.library.custom_op('peer::g', abs, mutates_args={'zz'}, schema='(Tensor x) -> Tensor')",
        ValueError,
        "Attempted to create a custom op with `mutates_args={'zz'}` and `schema=(Tensor x) -> Tensor. The schema sugg",
    ),
    (
        "t.library.register_kernel('peer::f', 'toaster', abs)",
        RuntimeError,
        "device type at start of device string: toas",
    ),
]
SETUP = """
lib = t.library.Library("peer", "DEF")
lib.define("f(Tensor x, float s=2., SymInt n=1) -> Tensor")
lib.define("bare(Tensor x) -> Tensor")
lib.impl("f", lambda x, s=2.0, n=1: x * s, "CPU")
def untyped(x: t.Tensor): return x
def wrong(x: dict) -> t.Tensor: return x
op = t.ops.peer.f
x = t.ones(2)
"""


@pytest.mark.parametrize("code", [m[0] for m in MISTAKES])
def test_mistakes(code):
    (error, what) = next(m[1:] for m in MISTAKES if m[0] == code)
    names = {"t": smolder}
    exec(SETUP, names)
    try:
        with pytest.raises(error) as caught:
            eval(code, names)
        assert what in str(caught.value)
    finally:
        names["lib"]._destroy()


def test_what_a_kernel_raises_passes_through_ops_made_of_others(lib):
    lib.define("raises(Tensor x) -> Tensor")
    lib.impl("raises", fail, "CPU")
    library.register_fake("testlib::raises", smolder.empty_like)
    x = smolder.ops.testlib.raises(smolder.ones(2))
    with pytest.raises(LookupError, match="this: is what the kernel says"):
        smolder.masked_select(smolder.ones(2), x > 0)  # reads how many, so the kernel runs
    override = library.Library("aten", "IMPL")
    override.impl("index_select", fail, "CPU")
    try:
        with smolder.eager(), pytest.raises(LookupError, match="this: is what the kernel says"):
            smolder.masked_select(smolder.ones(2), smolder.ones(2) > 0)
    finally:
        override._destroy()


def fail(*args):
    raise LookupError("this: is what the kernel says")


@needs_torch
def test_mistakes_are_those_of_torch():
    program = (
        "import torch as t, warnings\nwarnings.simplefilter('ignore')\nout = []\n"
        + SETUP
        + f"for code in {[m[0] for m in MISTAKES]!r}:\n"
        "    try:\n        eval(code)\n        out.append('nothing')\n"
        "    except Exception as e:\n        out.append(f'{type(e).__name__} | {e}')\n"
    )
    for (code, error, what), said in zip(MISTAKES, run_torch(program), strict=True):
        assert said.startswith(error.__name__ + " "), (code, said)
        assert what in said, (code, said)


def test_what_is_not_supported_is_refused_by_name(lib, op):
    for schema, what in [
        ("a(Device d, Tensor x) -> Tensor", "the type 'Device' of d"),
        ("a(Tensor x) -> int", "a result of type 'int'"),
        ("a(Tensor x) -> Tensor[]", r"a result of type 'Tensor\[\]'"),
        ("a.out(Tensor x) -> Tensor", "an overload name"),
        ("a(Tensor(a) x) -> Tensor(a)", "a result that is an argument"),
    ]:
        with pytest.raises(NotImplementedError, match=what):
            lib.define(schema)
    with pytest.raises(NotImplementedError, match="Python"):
        lib.impl("scaled", scaled, "Python")
    with pytest.raises(NotImplementedError, match="the gradient of a built-in op can't be replaced"):
        lib.impl("aten::sin", smolder.sin, "AutogradCPU")
    with pytest.raises(TypeError, match="tags: expected members of Tag, but got 'x'"):
        lib.define("a(Tensor x) -> Tensor", tags=("x",))
    with pytest.raises(NotImplementedError, match='mutates_args="unknown"'):
        library.infer_schema(
            test_gradients.__wrapped__ if hasattr(test_gradients, "__wrapped__") else typed, mutates_args="unknown"
        )


def typed(x: smolder.Tensor) -> smolder.Tensor:
    return x


def test_opcheck_finds_what_is_wrong(lib):
    lib.define("writes(Tensor x) -> Tensor")
    lib.impl("writes", lambda x: x.add_(1).clone(), "CPU")
    library.register_fake("testlib::writes", lambda x: smolder.empty(3))
    found = library.opcheck(smolder.ops.testlib.writes, (smolder.ones(2, requires_grad=True),), raise_exception=False)
    assert "shape" in str(found["test_faketensor"])
    assert "no autograd formula was registered" in str(found["test_autograd_registration"])
    with pytest.raises(library.OpCheckError, match="test_faketensor failed with"):
        library.opcheck("testlib::writes", (smolder.ones(2),), test_utils="test_faketensor")


def test_threads_that_record_wait_for_kernels_without_holding_them_up(lib):
    # A thread with the GIL waits for the step, whose kernel wants the GIL.
    lib.define("slow(Tensor x) -> Tensor")

    def kernel(x):
        for _ in range(200):
            gc.collect(0)
        return x.numpy() + 1

    lib.impl("slow", kernel, "CPU")
    library.register_fake("testlib::slow", smolder.empty_like)
    wrong = []

    def work(n):
        for _ in range(10):
            if smolder.ops.testlib.slow(smolder.full((2,), float(n)) * 2).tolist() != [2.0 * n + 1] * 2:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)


def test_forks(op):
    x = smolder.ones(2)
    op(x).tolist()
    pending = op(x, 3.0)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if pending.tolist() == [3.0, 3.0] and op(x, 4.0).tolist() == [4.0, 4.0] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert pending.tolist() == [3.0, 3.0]


def test_kernels_may_start_processes(lib):
    lib.define("forks(Tensor x) -> Tensor")

    def kernel(x):
        out = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
        return np.full_like(x.numpy(), float(out.stdout))

    lib.impl("forks", kernel, "CPU")
    library.register_fake("testlib::forks", smolder.empty_like)
    assert smolder.ops.testlib.forks(smolder.ones(2)).tolist() == [42.0, 42.0]


def test_exit_with_ops_registered_and_pending(tmp_path):
    program = tmp_path / "exits.py"
    program.write_text(
        "import smolder, numpy\n"
        "@smolder.library.custom_op('x::f', mutates_args=())\n"
        "def f(x: smolder.Tensor) -> smolder.Tensor:\n    return x.numpy() + 1\n"
        "f.register_fake(smolder.empty_like)\n"
        "lib = smolder.library.Library('aten', 'IMPL')\n"
        "lib.impl('exp', lambda x: x.numpy(), 'CPU')\n"
        "kept = f(smolder.ones(2))\nprint(f(smolder.ones(2)).exp().tolist())\n"
    )
    out = subprocess.run([sys.executable, program], capture_output=True, text=True, env=os.environ)
    assert (out.returncode, out.stdout, out.stderr) == (0, "[2.0, 2.0]\n", "")


def test_the_example(tmp_path):
    example = pathlib.Path(__file__).parents[2] / "examples" / "custom_op.py"
    out = subprocess.run([sys.executable, example], capture_output=True, text=True, env=os.environ, check=True).stdout
    assert out.startswith("weight 1.000, loss ") and out.endswith("1 call of our exp\n"), out
