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
    with smolder.autocast(x.device.type, dtype=smolder.bfloat16):
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


# -- while_loop


def below(limit):
    return lambda i, *_: i < limit


ZERO = smolder.tensor(0)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_while_loop_runs_until_its_condition_is_false(turns, eager):
    x = smolder.tensor([1.0, 2.0])
    with smolder.eager() if eager else smolder.enable_grad():
        i, tree = smolder.while_loop(
            below(turns),
            lambda i, d: (i + 1, {"a": d["a"] * 2 + x, "b": d["a"].sum()}),
            (ZERO, {"a": x, "b": ZERO.float()}),
        )
        a, b = x, ZERO.float()
        for _ in range(turns):
            a, b = a * 2 + x, a.sum()
    assert (i.item(), tree["a"].tolist(), tree["b"].item()) == (turns, a.tolist(), b.item())


def test_while_loop_ends_no_step_and_compiles_once():
    smolder.mark_step()

    def newton(x):
        keep = lambda g: ((g * g - x).abs() > 1e-6).any()  # noqa: E731
        return smolder.while_loop(keep, lambda g: ((g + x / g) / 2,), (smolder.ones_like(x),))[0]

    before = counters().get("syncs", 0)
    root = newton(smolder.tensor([2.0, 9.0], dtype=smolder.float64))
    assert counters().get("syncs", 0) == before
    np.testing.assert_allclose(root.tolist(), [2**0.5, 3], rtol=1e-7)
    newton(smolder.tensor([5.0, 7.0], dtype=smolder.float64)).tolist()
    before = counters()
    for k in range(100):  # other numbers of turns
        newton(smolder.tensor([1.0 + k, 3.0 * k + 1], dtype=smolder.float64)).tolist()
    after = counters()
    for name in ("kernels.compiled", "plans.compiled", "traces.recorded"):
        assert after.get(name, 0) == before.get(name, 0), name


def test_gradients_of_while_loop():
    def run(loop):
        x = smolder.tensor([0.5, 1.5], requires_grad=True)
        w = smolder.tensor([1.1, 0.9], requires_grad=True)
        h = w * 2
        _, y = loop(x * 1, lambda y: (y * w + h).sin())
        y.square().sum().backward()
        return y, x.grad, w.grad

    def direct(y, f, turns):
        for _ in range(turns):
            y = f(y)
        return turns, y

    for turns in (0, 1, 5):
        mine = run(lambda y, f: smolder.while_loop(below(turns), lambda i, y: (i + 1, f(y)), (ZERO, y)))  # noqa: B023
        for a, b in zip(mine, run(lambda y, f: direct(y, f, turns)), strict=True):  # noqa: B023
            if b is None:  # no turn: w was not used
                assert a is None or a.tolist() == [0, 0]
            else:
                close(a, b)


def test_second_derivatives_of_while_loop_are_refused():
    x = smolder.tensor([2.0], requires_grad=True)
    _, y = smolder.while_loop(below(3), lambda i, y: (i + 1, y * x), (ZERO, x * 1))
    (g,) = smolder.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [32.0]
    with pytest.raises(NotImplementedError, match="second derivative"):
        smolder.autograd.grad(g.sum(), x)


def test_while_loop_in_a_compiled_function_and_with_random_numbers():
    x = smolder.zeros(4)
    walk = lambda n: smolder.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x + smolder.rand(4)), (ZERO, x))[1]  # noqa: E731

    def direct(turns):
        y = x
        for _ in range(turns):
            y = y + smolder.rand(4)
        return y

    fast = smolder.compile(walk, fullgraph=True)
    n = smolder.tensor(3)
    runs = []
    for f in (lambda: direct(3), lambda: walk(n), lambda: fast(n), lambda: fast(n)):
        smolder.manual_seed(11)
        runs.append(f().tolist())
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert fast(n).tolist() != fast(n).tolist()


def test_ints_are_carried_as_tensors():
    i, x = smolder.while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x + i), (0, smolder.zeros(3)))
    assert (int(i), x.tolist()) == (3, [3, 3, 3])


@pytest.mark.parametrize(
    ("condition", "body", "message"),
    [
        (below(3), lambda i, x: (i + 1,), "same number of outputs"),
        (below(3), lambda i, x: (i + 1, x.double()), r"pair\[1\] differ in 'dtype: float64 vs float32'"),
        (below(3), lambda i, x: (i + 1, x[:1] * 1), r"pair\[1\] differ in 'shape: \[1\] vs \[2\]'"),
        (below(3), lambda i, x: (i + 1, x), "aliasing"),
        (below(3), lambda i, x: (i + 1, x.add_(1)), "input mutation"),
        (lambda i, x: x < 3, lambda i, x: (i + 1, x + 1), "return a scalar tensor or a bool"),
        (lambda i, x: (3 - i).float(), lambda i, x: (i + 1, x + 1), "return a scalar tensor or a bool"),
        (lambda i, x: True, lambda i, x: (i + 1, x + 1), "infinite loop"),
        (1, 2, "to be callable"),
    ],
)
def test_loops_that_are_refused(condition, body, message):
    with pytest.raises(RuntimeError, match=message):
        smolder.while_loop(condition, body, (ZERO, smolder.ones(2)))


# -- scan


def scan_by_hand(f, init, xs, dim=0, reverse=False):
    ys, n = [], xs[0].shape[dim]
    for k in reversed(range(n)) if reverse else range(n):
        init, y = f(init, [x.select(dim, k) for x in xs])
        ys.append(y)
    if reverse:
        ys.reverse()
    return init, [smolder.stack(y, dim) for y in zip(*ys, strict=True)]


def rnn(w, u):
    def step(carry, x):
        h = (carry[0] @ w + x[0] @ u).tanh()
        return [h, carry[1] + x[1]], [h * 2, h.sum(-1)]

    return step


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scan_and_its_derivatives(dim, reverse, eager):
    def run(scan):
        smolder.manual_seed(0)
        w, u, xs, h = (smolder.randn(*s, requires_grad=True) for s in ((3, 3), (2, 3), (5, 4, 2), (4, 3)))
        moved = xs.movedim(0, dim)
        carry, ys = scan(rnn(w, u), [h, smolder.zeros(4)], [moved, smolder.ones(5, 4).movedim(0, dim)])
        loss = carry[0].sum() + ys[0].square().sum() + (ys[1] * 3).sum()
        grads = smolder.autograd.grad(loss, (w, u, xs, h), create_graph=True)
        second = smolder.autograd.grad(sum(g.square().sum() for g in grads), (w, xs))
        return carry + ys + list(grads) + list(second)

    with smolder.eager() if eager else smolder.enable_grad():
        mine = run(lambda f, init, xs: smolder.scan(f, init, xs, dim=dim, reverse=reverse))
        for a, b in zip(mine, run(lambda f, init, xs: scan_by_hand(f, init, xs, dim, reverse)), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=2e-4, atol=2e-4)


def test_scan_in_a_compiled_training_step():
    smolder.manual_seed(0)
    cell, xs = nn.GRUCell(3, 5), smolder.randn(6, 2, 3)
    optimizer = smolder.optim.SGD(cell.parameters(), lr=0.1)

    def step(xs):
        optimizer.zero_grad()
        h, _ = smolder.scan(lambda h, x: ((h := cell(x, h)), h.sum(-1)), smolder.zeros(2, 5), xs)
        loss = h.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    start = {k: v.clone() for k, v in cell.state_dict().items()}
    direct = [step(xs).item() for _ in range(5)]
    cell.load_state_dict(start)
    fast = smolder.compile(step, fullgraph=True)
    assert [fast(xs).item() for _ in range(5)] == direct
    assert direct[-1] < direct[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_random_numbers_of_scan_are_those_of_the_loop(reverse):
    x = smolder.zeros(4, 3).requires_grad_()
    noisy = lambda c, x: ([c[0] + F.dropout(x[0] + 1, 0.5)], [c[0] * smolder.rand(3)])  # noqa: E731

    def run(scan):
        smolder.manual_seed(5)
        x.grad = None
        carry, ys = scan(noisy, [smolder.ones(3)], [x])
        (carry[0].sum() + ys[0].sum()).backward()
        return carry[0].tolist(), ys[0].tolist(), x.grad.tolist(), smolder.rand(2).tolist()

    mine = run(lambda f, c, x: smolder.scan(f, c, x, reverse=reverse))
    direct = run(lambda f, c, x: scan_by_hand(f, c, x, reverse=reverse))
    for a, b in zip(mine, direct, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_scan_of_nothing_and_of_counts():
    add = lambda c, x: (c + x, c * x)  # noqa: E731
    carry, ys = smolder.scan(add, smolder.ones(2), smolder.zeros(0, 2))
    assert (carry.tolist(), ys.shape) == ([1, 1], (0, 2))
    assert smolder.scan(add, 5, ()) == (5, [])
    carry, ys = smolder.scan(lambda c, _: (c * 2, c + 0), smolder.ones(1), None, length=4)
    assert (carry.tolist(), ys.tolist()) == ([16], [[1], [2], [4], [8]])
    carry, none = smolder.scan(lambda c, x: (c + x, None), smolder.zeros(2), smolder.ones(3, 2))
    assert (carry.tolist(), none) == ([3, 3], None)


@pytest.mark.parametrize(
    ("error", "arguments", "options", "message"),
    [
        (RuntimeError, (1, smolder.ones(2), smolder.ones(2, 2)), {}, "Combine_fn must be a callable, but got 1"),
        (RuntimeError, (F.relu, (), smolder.ones(2)), {}, "requires init leaves"),
        (RuntimeError, (F.relu, smolder.ones(2), smolder.ones(2)), {"reverse": 1}, "Reverse must be a bool"),
        (RuntimeError, (F.relu, smolder.ones(2), (smolder.ones(2), smolder.ones(3))), {}, "same scan dimension size"),
        (IndexError, (F.relu, smolder.ones(2), smolder.ones(2)), {"dim": 5}, "Dimension out of range"),
        (
            RuntimeError,
            (lambda c, x: (c.double() + x, c + x), smolder.ones(()), smolder.ones(2)),
            {},
            "float32 vs float64",
        ),
        (RuntimeError, (lambda c, x: (c + x, c), smolder.ones(()), smolder.ones(2)), {}, "aliasing"),
    ],
)
def test_scans_that_are_refused(error, arguments, options, message):
    with pytest.raises(error, match=message):
        smolder.scan(*arguments, **options)


# -- what else a function may do while it is recorded


def test_other_things_within_a_function():
    x = smolder.tensor([1.0, 2.0], requires_grad=True)
    fast = smolder.compile(lambda x: x * 3)
    assert smolder.cond(YES, lambda x: fast(x), lambda x: x * 1, (x,)).tolist() == [3, 6]  # as it is by itself
    with pytest.raises(RuntimeError, match=r"backward\(\) in a function of control flow"):
        smolder.cond(YES, lambda x: (x.sum().backward(), x * 1)[1], lambda x: x * 1, (x,))
    assert x.grad is None
    inner = smolder.cond(YES, lambda x: smolder.autograd.grad((x**3).sum(), x)[0], lambda x: x * 1, (x,))
    assert inner.tolist() == [3, 12]
    with pytest.raises(RuntimeError, match="state of a generator"):
        smolder.cond(YES, lambda x: (smolder.manual_seed(0), x * 1)[1], lambda x: x * 1, (x,))
    with pytest.raises(ZeroDivisionError):
        smolder.cond(YES, lambda x: x / (1 // 0), lambda x: x * 1, (x,))
    assert smolder.cond(YES, lambda x: x * 2, lambda x: x * 1, (x,)).tolist() == [2, 4]


def test_memory_of_what_was_recorded_is_given_back():
    x = smolder.ones(1000, requires_grad=True)

    def step():
        y = smolder.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))
        _, y = smolder.while_loop(below(3), lambda i, y: (i + 1, y * x), (ZERO, y))
        smolder.scan(lambda c, x: (c + x, c * x), smolder.zeros(()), y)[0].backward()
        x.grad = None
        smolder.mark_step()

    for _ in range(3):
        step()
    before = smolder.memory_stats()["live"]
    for _ in range(5):
        step()
    assert smolder.memory_stats()["live"] == before


# -- in graphs that are captured and saved


def captured_function(x, n):
    y = smolder.cond(
        x.sum() > 0, lambda x: smolder.cond(n > 2, lambda x: x * W3 + 1, lambda x: x - 1, (x,)), smolder.exp, (x,)
    )
    _, z = smolder.while_loop(lambda i, z: i < n, lambda i, z: (i + 1, z * 0.5 + W3), (ZERO, y))
    carry, ys = smolder.scan(lambda c, x: (c + x, c * x), smolder.zeros(3), smolder.stack([y, z]), reverse=True)
    return z, carry, ys


W3 = smolder.tensor([1.0, 2.0, 3.0])
CALLS = [([1.0, -2.0, 3.0], 3), ([1.0, 2.0, 3.0], 1), ([-1.0, -2.0, -3.0], 0)]


def test_graphs_with_control_flow_are_differentiated(tmp_path):
    path = tmp_path / "flow.safetensors"
    smolder.capture(captured_function, smolder.tensor(CALLS[0][0]), smolder.tensor(CALLS[0][1])).save(path)
    gradient = smolder.load_graph(path).differentiate(["x"])
    gradient.save(path)
    gradient = smolder.load_graph(path).to(W3.device)
    for x, n in CALLS:
        x, n = smolder.tensor(x, requires_grad=True), smolder.tensor(n)
        results = captured_function(x, n)
        given = [smolder.randn(t.shape) for t in results]
        (expected,) = smolder.autograd.grad(results, x, given)
        found = gradient.run(x.detach(), n, *given)
        np.testing.assert_allclose(found[0].tolist(), expected.tolist(), rtol=1e-5, atol=1e-6)


def test_a_run_of_a_graph_with_control_flow_has_a_gradient():
    graph = smolder.capture(captured_function, smolder.tensor(CALLS[0][0]), smolder.tensor(CALLS[0][1]))
    for x, n in CALLS:
        x, n = smolder.tensor(x, requires_grad=True), smolder.tensor(n)
        for f in (graph, captured_function):
            sum(t.square().sum() for t in f(x, n)).backward()
        mine, both = graph(x, n), x.grad.clone()
        assert mine[0].requires_grad
        x.grad = None
        sum(t.square().sum() for t in captured_function(x, n)).backward()
        np.testing.assert_allclose(both.tolist(), (2 * x.grad).tolist(), rtol=1e-5)


def test_damaged_text_of_control_flow_is_refused():
    text = str(smolder.capture(captured_function, smolder.tensor(CALLS[0][0]), smolder.tensor(CALLS[0][1])))
    damages = [
        ("true_graph=", "true_graph=9"),
        ("false_graph=", "false_graph=-"),
        ("tensors=3", "tensors=300"),
        ("carried=2", "carried=200"),
        ("carried=2", "carried=-2"),
        ("scanned=1", "scanned=5"),
        ("smolder::cond_1", "smolder::cond_2"),
        ("smolder::cond_1", "smolder::cond_999"),
    ]
    smolder.Graph.parse(text)
    for old, new in damages:
        assert old in text
        with pytest.raises(ValueError):
            smolder.Graph.parse(text.replace(old, new))


def test_onnx_names_control_flow_as_what_it_has_not():
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    with pytest.raises(smolder.onnx.UnsupportedOperatorError, match="cond_1"):
        smolder.onnx.export(
            lambda x: smolder.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,)), smolder.ones(3)
        )
