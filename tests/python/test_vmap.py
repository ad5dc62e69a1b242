"""vmap: what torch gives and refuses, ops of users, compiled functions, and that a batch is recorded once."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import of_the_cpu
from peer_sweep import sweep
from test_sweeps import FOLDER, differs

import smolder
from smolder import func, library, nn

GOLDEN = Path(__file__).parents[1] / "golden/vmap.json"  # peer_sweep.py torch sweeps/vmap.py


def count(name):
    return smolder.metrics()["counters"].get(name, 0)


def test_cases_give_what_torch_gave():
    theirs = json.loads(GOLDEN.read_text())
    ours = sweep(smolder, FOLDER / "vmap.py")
    assert ours.keys() == theirs.keys()
    wrong = {case: text for case in ours if (text := differs(ours[case], theirs[case]))}
    assert not wrong, "\n".join(f"{case}: {text}" for case, text in wrong.items())


REFUSED = {
    "item": (lambda a: a.sum().item(), "vmap: It looks like you're calling .item() on a Tensor."),
    "bool": (lambda a: a if a.sum() > 0 else -a, "vmap: It looks like you're attempting to use a Tensor in some"),
    "numpy": (lambda a: a.numpy(), "Cannot access data pointer of Tensor that doesn't have storage"),
    "nonzero": (smolder.nonzero, "vmap: We do not support batching operators that can output dynamic shape."),
    "unique": (smolder.unique, "vmap: We do not support batching operators that can output dynamic shape."),
    "random": (lambda a: a + smolder.rand(4), "vmap: called random operation while in randomness error mode."),
    "write": (lambda a: smolder.zeros(4).copy_(a), "vmap: inplace arithmetic(self, *extra_args) is not possible"),
    "slice": (
        lambda a: smolder.zeros(4)[1:].mul_(a[1:]),
        "vmap: inplace arithmetic(self, *extra_args) is not possible",
    ),
    "history": (lambda a: a.requires_grad_(), "You are attempting to call Tensor.requires_grad_()"),
    "backward": (lambda a: a.sum().backward(), "backward() called inside a functorch transform."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_batch_can_do_raises_torchs_error(name):
    f, text = REFUSED[name]
    with pytest.raises(RuntimeError, match="^" + re.escape(text)):
        func.vmap(f)(smolder.ones(3, 4))
    assert func.vmap(smolder.sum)(smolder.ones(2, 3)).tolist() == [3.0, 3.0]  # no level is left


def test_an_element_is_of_its_call():
    kept = []
    func.vmap(lambda a: kept.append(a) or a)(smolder.ones(3))
    with pytest.raises(RuntimeError, match="outside of the vmap that it is of"):
        kept[0] + 1
    with pytest.raises(RuntimeError, match="outside of the vmap that it is of"):
        func.vmap(lambda a: a + kept[0])(smolder.ones(3))


@of_the_cpu("what is printed names the device")
def test_an_element_prints_as_all_of_them():
    seen = []
    func.vmap(lambda a: seen.append(repr(a)) or a)(smolder.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert seen == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 2.],\n            [3., 4.]])\n)"]


def net():
    smolder.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))


def per_sample(model):
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, x, y):
        return nn.functional.cross_entropy(func.functional_call(model, p, (x[None],)), y[None])

    return lambda x, y: func.vmap(func.grad(loss), (None, 0, 0))(params, x, y)


def recorded(f):
    smolder.mark_step()
    before = count("ops.recorded")
    out = f()
    smolder.mark_step()
    return count("ops.recorded") - before, out


def test_a_batch_of_any_size_is_recorded_once():
    f = per_sample(net())
    sizes = {}
    for n in (2, 64):
        x, y = smolder.ones(n, 1, 6, 6), smolder.zeros(n, dtype=smolder.int64)
        sizes[n], _ = recorded(lambda x=x, y=y: f(x, y))
    assert sizes[2] == sizes[64] < 120, sizes


def test_a_compiled_function_batches():
    f, rng = per_sample(net()), np.random.default_rng(0)
    compiled = smolder.compile(f)
    for _ in range(3):
        x = smolder.tensor(rng.normal(size=(5, 1, 6, 6)).astype("float32"))
        y = smolder.tensor(rng.integers(0, 3, 5))
        for a, b in zip(f(x, y).values(), compiled(x, y).values(), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@of_the_cpu("its op has a kernel of the CPU alone")
def test_an_op_of_a_user_is_called_for_each_element_and_warned_of_once():
    lib = library.Library("vmaptest", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x.numpy() * np.float32(2), "CPU")
    library.register_fake("vmaptest::twice", lambda x: smolder.empty_like(x), lib=lib)
    x, before = smolder.arange(6.0).reshape(3, 2), count("vmap.loops")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            assert func.vmap(smolder.ops.vmaptest.twice)(x).tolist() == (x * 2).tolist()
    assert count("vmap.loops") == before + 2
    assert [str(w.message).count("no batching rule for") for w in seen].count(1) == 1
    lib._destroy()


def test_gradients_through_a_copy_that_is_written_later():
    def f(a):
        b = a.exp()
        c = b.sin()
        b.mul_(2)
        return (c * b).sum()

    x = smolder.tensor([[0.1, 0.2], [0.3, 0.4]])
    inside = func.vmap(func.grad(f))(x)
    outside = func.grad(lambda x: func.vmap(f)(x).sum())(x)
    one = smolder.stack([func.grad(f)(row) for row in x])
    np.testing.assert_allclose(inside.numpy(), one.numpy(), rtol=1e-6)
    np.testing.assert_allclose(outside.numpy(), one.numpy(), rtol=1e-6)


def test_dropout_draws_the_same_in_the_backward_pass():
    def f(a):
        return (nn.functional.dropout(a) * a).sum()

    x = smolder.ones(4, 50)
    for randomness in ("same", "different"):
        smolder.manual_seed(3)
        g, v = func.vmap(func.grad_and_value(f), randomness=randomness)(x)
        np.testing.assert_allclose(g.sum(1).numpy(), 2 * v.numpy(), rtol=1e-6)  # f is quadratic
    smolder.manual_seed(3)
    _, product = func.vjp(lambda a: nn.functional.dropout(a), x[0])
    kept = product(smolder.ones(50))[0]
    rows = func.vmap(lambda s: product(s)[0])(smolder.ones(2, 50))
    np.testing.assert_array_equal(rows.numpy(), np.stack([kept.numpy()] * 2))


def test_control_flow_refuses_elements():
    def f(a):
        return smolder.cond(a.sum() > 0, lambda x: x + 1, lambda x: x - 1, (a,))

    with pytest.raises((NotImplementedError, RuntimeError), match="vmap"):
        func.vmap(f)(smolder.ones(3, 2))


@pytest.mark.parametrize("name", ("det", "inv", "cholesky", "matrix_exp"))
def test_functions_of_the_host_within_two_levels(name):
    of = getattr(smolder.linalg, name)

    def function(x):
        return of(x).sum()

    x = smolder.tensor(np.random.default_rng(1).normal(size=(2, 2, 3, 3)))
    x = x @ x.mT + 3 * smolder.eye(3, dtype=x.dtype)
    expected = [[func.grad(function)(x[i, j]) for j in range(2)] for i in range(2)]
    found = func.vmap(func.grad(lambda y: func.vmap(function)(y).sum()))(x)
    np.testing.assert_allclose(found, smolder.stack([smolder.stack(row) for row in expected]), rtol=1e-9)
    np.testing.assert_allclose(func.grad(lambda y: func.vmap(func.vmap(function))(y).sum())(x), found, rtol=1e-9)


def test_out_dims_of_one_result_are_one():
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure of `outputs`"):
        func.vmap(lambda x: x, out_dims=(0, 1))(smolder.ones(2, 3))


def test_results_of_whole_numbers_have_zero_tangents():
    x = smolder.tensor([1.0, -2.0])
    (sign, twice), (of_sign, of_twice) = func.jvp(lambda y: ((y > 0).long(), y * 2), (x,), (smolder.ones(2),))
    assert sign.tolist() == [1, 0] and of_sign.tolist() == [0, 0] and of_sign.dtype == smolder.int64
    assert twice.tolist() == [2, -4] and of_twice.tolist() == [2, 2]
    assert smolder.func.jacfwd(lambda y: (y > 0).long())(x).tolist() == [[0, 0], [0, 0]]
