"""Control flow that is recorded: branches and loops that depend on what tensors hold."""

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F

YES, NO = smolder.tensor(True), smolder.tensor(False)


def counters():
    return smolder.metrics()["counters"]


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.tolist()), np.asarray(b.tolist()), rtol=1e-6, atol=1e-6)


# -- cond


@pytest.mark.parametrize("eager", [False, True])
def test_cond_runs_the_branch_that_its_predicate_says(eager):
    x = smolder.tensor([1.0, 2.0, 3.0])
    mode = smolder.eager() if eager else smolder.enable_grad()
    with mode:
        for threshold in (0, 100):
            y = smolder.cond(x.sum() > threshold, lambda x: x.sin(), lambda x: x.cos(), (x,))
            assert y.tolist() == (x.sin() if threshold == 0 else x.cos()).tolist()


def test_cond_ends_no_step_and_only_the_taken_branch_runs():
    x = smolder.arange(6.0).reshape(2, 3)
    index = smolder.tensor([7])  # out of range: the branch that reads there raises when it runs
    smolder.mark_step()
    before = counters().get("syncs", 0)
    y = smolder.cond(x.sum() > 100, lambda x: x[:, index].sum(1), lambda x: x.sum(1), (x,)) + 1
    assert counters().get("syncs", 0) == before
    assert y.tolist() == [4, 13]
    with pytest.raises(IndexError):
        smolder.cond(x.sum() < 100, lambda x: x[:, index].sum(1), lambda x: x.sum(1), (x,)).tolist()


def test_cond_compiles_nothing_once_both_branches_ran():
    x = smolder.linspace(0, 1, 50)

    def step(i):
        return smolder.cond(
            (x.sum() * i) % 100 > 50, lambda x: (x * i).exp().sum(), lambda x: x.tanh().sum() - 1000, (x,)
        ).item()

    for i in (1, 3, 1, 3):
        step(i)
    before = counters()
    taken = [step(i) > 0 for i in range(1, 1001)]
    after = counters()
    assert 0 < sum(taken) < 1000
    for name in ("kernels.compiled", "plans.compiled", "traces.recorded"):
        assert after.get(name, 0) == before.get(name, 0), name


@pytest.mark.parametrize("taken", [YES, NO])
def test_gradients_of_cond_are_those_of_the_branch(taken):
    def run(choose):
        x = smolder.tensor([0.5, 1.5], requires_grad=True)
        w = smolder.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        h = x * 2  # no leaf, and reached by closure
        out = choose(lambda x: (w @ x + h).sin(), lambda x: (x * h).exp() * w[0], x)
        (first,) = smolder.autograd.grad((out**2).sum(), x, create_graph=True)
        (first * smolder.tensor([1.0, 3.0])).sum().backward()
        return out, first, x.grad, w.grad

    pairs = zip(
        run(lambda yes, no, x: smolder.cond(taken, yes, no, (x,))),
        run(lambda yes, no, x: (yes if taken.item() else no)(x)),
        strict=True,
    )
    for mine, direct in pairs:
        close(mine, direct)


def test_a_gradient_sees_values_as_they_were_and_detached_ones_as_constants():
    x = smolder.tensor([2.0], requires_grad=True)
    w = smolder.tensor([3.0])
    y = smolder.cond(YES, lambda x: x * w * x.detach(), lambda x: x * 1, (x,))
    w.add_(100)
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_a_gradient_goes_through_functions_of_users():
    class Triple(smolder.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            return grad * 100

    x = smolder.tensor([1.0, 2.0], requires_grad=True)
    smolder.cond(YES, lambda x: Triple.apply(x) + x, lambda x: x * 2, (x,)).sum().backward()
    assert x.grad.tolist() == [101.0, 101.0]


def test_cond_without_gradients_records_none():
    x = smolder.tensor([1.0], requires_grad=True)
    with smolder.no_grad():
        assert not smolder.cond(YES, lambda x: x * 2, lambda x: x * 3, (x,)).requires_grad
    assert smolder.cond(YES, lambda x: x * 2, lambda x: x * 3, (x,)).requires_grad
    assert not smolder.cond(YES, lambda x: x.argmax(), lambda x: x.argmin(), (x,)).requires_grad


def test_what_a_branch_reaches_is_never_stale():
    x, scale, shift = smolder.tensor([1.0]), smolder.tensor([2.0]), 0

    def step():
        return smolder.cond(x.sum() > 0, lambda x: x * scale + shift, lambda x: x - scale, (x,)).tolist()

    assert step() == [2.0]
    scale.fill_(5)
    assert step() == [5.0]
    shift = 7
    assert step() == [12.0]
    scale = smolder.tensor([1.0])
    assert step() == [8.0]


def test_operands_may_be_trees_and_views():
    base = smolder.arange(12.0).reshape(3, 4)
    tree = ({"a": base.T, "b": [base[1:, ::2]]},)
    yes = lambda d: {"sum": d["a"] * 2, "rest": (d["b"][0].sum(), 3)}  # noqa: E731
    no = lambda d: {"sum": d["a"] * 3, "rest": (d["b"][0].prod(), 3)}  # noqa: E731
    for predicate in (YES, NO):
        out, direct = smolder.cond(predicate, yes, no, tree), (yes if predicate else no)(*tree)
        assert out["sum"].tolist() == direct["sum"].tolist()
        assert out["rest"][0].item() == direct["rest"][0].item()
        assert out["rest"][1] == 3


def test_arrays_that_others_see_are_read_when_cond_is_recorded():
    array = np.ones(3, np.float32)
    x = smolder.from_numpy(array)
    y = smolder.cond(YES, lambda: x * 2, lambda: x * 3)
    array[:] = 100
    assert y.tolist() == [2, 2, 2]


def test_cond_nests():
    def choose(x, a, b):
        inner = lambda x: smolder.cond(b, lambda x: x * 2, lambda x: x * 3, (x,))  # noqa: E731
        return smolder.cond(a, lambda x: inner(x) + 1, lambda x: inner(x * x), (x,))

    for a in (YES, NO):
        for b in (YES, NO):
            x = smolder.tensor([3.0], requires_grad=True)
            y = choose(x, a, b)
            times = 2 if b.item() else 3
            assert y.item() == (3 * times + 1 if a.item() else 9 * times)
            y.backward()
            assert x.grad.item() == (times if a.item() else 6 * times)


def test_cond_of_modules():
    smolder.manual_seed(0)
    left, right = nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x = smolder.randn(5, 4)
    for flag in (YES, NO):
        for m in (left, right):
            m.zero_grad()
        smolder.cond(flag, left, right, (x,)).square().sum().backward()
        mine = [p.grad for m in (left, right) for p in m.parameters()]
        taken = left if flag.item() else right
        grads = [p.grad for p in taken.parameters()]
        taken.zero_grad()
        taken(x).square().sum().backward()
        for g, p in zip(grads, taken.parameters(), strict=True):
            close(g, p.grad)
        other = right if flag.item() else left
        assert all((p.grad == 0).all() for p in other.parameters())
        assert len(mine) == 6


def test_branches_in_a_region_of_autocast_compute_in_its_dtype():
    w = nn.Linear(4, 4)
    x = smolder.randn(2, 4)
    with smolder.autocast("cpu", dtype=smolder.bfloat16):
        y = smolder.cond(YES, lambda x: w(x), lambda x: w(x) * 2, (x,))
        assert y.dtype == smolder.bfloat16
        assert y.tolist() == w(x).tolist()
    y.float().sum().backward()
    assert w.weight.grad is not None


@pytest.mark.parametrize("flag", [YES, NO])
def test_random_numbers_of_branches_are_those_of_the_branch_by_itself(flag):
    x = smolder.zeros(8)

    def draws(choose):
        smolder.manual_seed(3)
        return choose(lambda x: x + smolder.rand(8), lambda x: x - smolder.rand(8)).tolist(), smolder.rand(3).tolist()

    direct = draws(lambda yes, no: (yes if flag.item() else no)(x))
    assert draws(lambda yes, no: smolder.cond(flag, yes, no, (x,))) == direct
    smolder.manual_seed(3)
    fast = smolder.compile(
        lambda x: smolder.cond(flag, lambda x: x + smolder.rand(8), lambda x: x - smolder.rand(8), (x,)), fullgraph=True
    )
    first, second = fast(x).tolist(), fast(x).tolist()
    assert first == direct[0]
    assert first != second  # each call draws anew


def test_cond_in_a_compiled_function():
    w = smolder.tensor([2.0, 3.0], requires_grad=True)

    @smolder.compile(fullgraph=True)
    def step(x):
        y = smolder.cond(x.sum() > 0, lambda x: x * w, lambda x: (x - w).exp(), (x,))
        return (y * y).sum()

    for x in ([1.0, 2.0], [-1.0, -2.0], [3.0, 1.0], [-5.0, 1.0]):
        x = smolder.tensor(x)
        w.grad = None
        out = step(x)
        out.backward()
        mine = out.item(), w.grad.tolist()
        w.grad = None
        direct = x * w if x.sum().item() > 0 else (x - w).exp()
        (direct * direct).sum().backward()
        np.testing.assert_allclose(mine[0], (direct * direct).sum().item(), rtol=1e-6)
        np.testing.assert_allclose(mine[1], w.grad.tolist(), rtol=1e-6)


def test_many_results():
    x = smolder.arange(4.0).requires_grad_()
    out = smolder.cond(YES, lambda x: [x * i for i in range(40)], lambda x: [x + i for i in range(40)], (x,))
    sum(out).sum().backward()
    assert x.grad.tolist() == [780.0] * 4


def test_a_python_predicate_chooses_at_once():
    x = smolder.ones(2)
    for predicate in (True, 1, 2.5):
        assert smolder.cond(predicate, lambda x: x, lambda x: 1 / 0, (x,)) is x
    assert smolder.cond(False, lambda x: 1 / 0, lambda x: x, (x,)) is x
    assert smolder.cond(smolder.tensor([0.5]), lambda: x * 1, lambda: x * 2).tolist() == [1, 1]


W = smolder.ones(2)
REFUSED = [
    (lambda x: x, "aliasing"),
    (lambda x: x[:1], "aliasing"),
    (lambda x: (lambda y: (y, y))(x + 1), "tree_spec"),
    (lambda x: x.double(), "expected same dtype but got float32 and float64"),
    (lambda x: x[:1] * 1, "expected same shape"),
    (lambda x: (x + 1,), "Unmatched output spec"),
    (lambda x: x.add_(1), "input mutation"),
    (lambda x: W.add_(1) * 1, "input mutation"),
    (lambda x: x + x.sum().item(), "can't be read"),
    (lambda x: x + 1 if x.sum() > 1 else x, "can't be read"),
    (lambda x: 1.5, "only but got"),
]


@pytest.mark.parametrize(("branch", "message"), REFUSED)
def test_branches_that_are_refused(branch, message):
    x = smolder.ones(2)
    with pytest.raises(RuntimeError, match=message):
        smolder.cond(YES, lambda x: x * 2, branch, (x,))
    assert (x + W).tolist() == [2, 2]  # the step goes on


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((smolder.ones(2), F.relu, F.relu, ()), "single-element tensor"),
        (("a", F.relu, F.relu, ()), "Expected pred to be bool or tensor, but got a."),
        ((YES, 1, F.relu, ()), "Expect both branches to be callable."),
        ((YES, F.relu, F.relu, (1,)), "only consists of tensor leaves"),
        ((YES, F.relu, F.relu, smolder.ones(2)), "Expect operands to be a tuple"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        smolder.cond(*arguments)
