"""Functions of functions: values, forms and errors are torch's."""

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import func, nn

BEFORE = """
F = torch.func
x, y = torch.sin(torch.arange(6).double()).reshape(2, 3), torch.cos(torch.arange(3).double())
def f(a, b):
    return (a * b).sin() @ b
def s(a, b):
    return f(a, b).pow(2).sum()
def d(t):
    return {"p": t["a"] * t["b"], "q": (t["a"].sum(), t["b"] ** 2)}
tree = {"a": y, "b": y + 1}
def shown(t):
    if isinstance(t, torch.Tensor):
        return [list(t.shape), t.tolist(), t.requires_grad]
    return {k: shown(v) for k, v in t.items()} if isinstance(t, dict) else [shown(v) for v in t]
"""
RUN = """
w = y.clone().requires_grad_()
def outer():
    g = F.grad(lambda a: (a ** 3 * w).sum())(w)
    g.sum().backward()
    return [shown(g), shown(w.grad)]
def inside_no_grad():
    with torch.no_grad():
        return shown(F.grad(lambda a: (a ** 3 * w).sum())(w))
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()).double()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.sin(torch.arange(p.numel()).double()).reshape(p.shape))
params = {k: v.detach() * 2 for k, v in model.named_parameters()}
def loss(params, x):
    return F.functional_call(model, params, (x,)).sum()
out = [shown(t) for t in (
    F.grad(s)(x, y), F.grad(s, 1)(x, y), F.grad(s, (0, 1))(x, y), F.grad(lambda a: (s(a, y), a.sum()), has_aux=True)(x),
    F.grad_and_value(s)(x, y), F.grad_and_value(lambda a: (s(a, y), {"n": a}), has_aux=True)(x),
    F.grad(lambda a: F.grad(lambda b: (b ** 3).sum())(a).pow(2).sum())(y), F.grad(lambda t: (t["a"] * t["b"]).sum())(tree),
    F.vjp(f, x, y)[0], F.vjp(f, x, y)[1](torch.ones(2).double()), F.vjp(d, tree)[1](d(tree)),
    F.jvp(f, (x, y), (x + 1, y)), F.jvp(d, (tree,), ({"a": y, "b": y},)), F.jvp(lambda a: (a * 2, a), (y,), (y,), has_aux=True),
    F.jacrev(f)(x, y), F.jacrev(f, (0, 1))(x, y), F.jacrev(d)(tree), F.jacfwd(f, 1)(x, y), F.jacrev(lambda a: (a * 2, a), has_aux=True)(y),
    F.hessian(lambda a: (a ** 3).sum() * a[0])(y), F.hessian(s, (0, 1))(x, y), F.jacrev(F.grad(s))(x, y), F.jacrev(lambda a: a.sum())(x),
    F.vmap(torch.dot, (0, None))(x, y), F.vmap(f, (None, 0))(x, torch.stack([y, y * 2])), F.vmap(lambda a: (a.sum(), a), 1, (0, 1))(x),
    F.vmap(lambda t: t["a"] * 2, ({"a": 0, "b": None},))(tree), F.vmap(F.grad(lambda a: (a ** 2).sum()))(x), F.vmap(F.vmap(torch.sin))(x),
    F.vmap(lambda a: {"k": a}, -1, {"k": -1})(x), F.jacrev(F.vmap(lambda a: a ** 2))(x), F.vmap(lambda a, n: a * n, (0, None))(x, 3),
    F.vmap(lambda a: a * 2, chunk_size=1)(x), F.grad(loss)(params, x), F.vmap(F.grad(loss), (None, 0))(params, x), F.vmap(loss, (None, 0))(params, x),
    F.functional_call(model, [params, {}], x), torch.vmap(torch.neg)(x), F.grad(lambda a: torch.ones(()).double())(y),
)] + [outer(), inside_no_grad()]
"""
USES = """
F.grad(f)(x, y) | F.grad(lambda a: 3)(x) | F.grad(s, 2)(x, y) | F.grad(s, ())(x, y) | F.grad(s, (0, 0))(x, y) | F.grad(s, "x")(x, y)
F.grad(s)(3, y) | F.grad(s, has_aux=True)(x, y) | F.vjp(lambda a: 3, x) | F.vjp(lambda a: (a > 0).int(), x) | F.jvp(s, x, y)
F.jvp(s, (x, y), (x,))[:0] | F.jvp(s, (3,), (3,)) | F.jacrev(s, chunk_size=0) | F.vmap(f, "x")(x, y) | F.vmap(f)() | F.vmap(f, (0,))(x, 3)
F.vmap(f, 3)(x, y) | F.vmap(f, (0, 0))(x, y) | F.vmap(f, (None, None))(x, y) | F.vmap(lambda a: 3)(x) | F.vmap(f, randomness="x")
F.vmap(f, chunk_size=0) | F.vmap(f, 0)(x, 3) | F.vmap(lambda a: torch.rand(2) + a.sum())(x).shape
F.vmap(lambda a: torch.rand(2) + a.sum(), randomness="different")(x).shape | F.functional_call(torch.nn.Linear(1, 1), 3)
F.functional_call(torch.nn.Linear(1, 1), [3]) | F.functional_call(torch.nn.Linear(1, 1), [{"a": x}, {"a": x}])
F.stack_module_state([]) | F.stack_module_state([torch.nn.Linear(1, 1), torch.nn.ReLU()])
F.stack_module_state([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).eval()])
"""


def assert_near(a, b, where=""):
    if isinstance(a, dict):
        assert list(a) == list(b), where
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list):
        assert len(a) == len(b), where
        for i, (p, q) in enumerate(zip(a, b, strict=True)):
            assert_near(p, q, f"{where}[{i}]")
    elif isinstance(a, float):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=where)
    else:
        assert a == b, where


@needs_torch
def test_values_are_those_of_torch():
    assert_near(run_here(BEFORE + RUN), run_torch(BEFORE + RUN))


@needs_torch
def test_errors_are_those_of_torch():
    differ = [
        "F.jvp(s, (x, y), (x,))[:0]",
        'F.vmap(f, "x")(x, y)',
        "F.vmap(f, (0,))(x, 3)",
    ]  # forms of trees are printed
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE, differ)


def test_random_numbers_of_a_batch():
    same = func.vmap(lambda a: smolder.rand(2) + 0 * a, randomness="same")(smolder.zeros(3)).tolist()
    assert same[0] == same[1] == same[2]
    different = func.vmap(lambda a: smolder.rand(2) + 0 * a, randomness="different")(smolder.zeros(3)).tolist()
    assert different[0] != different[1]
    assert func.vmap(smolder.sin)(smolder.zeros(0, 2)).shape == (0, 2)


def test_modules_get_their_parameters_back():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("n", smolder.zeros(1))

        def forward(self, x):
            self.n = self.n + 1
            return self.b(self.a(x)) + self.n

    m, x = Tied(), smolder.ones(1, 2)
    weight, n = m.a.weight, m.n
    given = {"a.weight": smolder.eye(2), "n": smolder.full((1,), 5.0)}
    assert func.functional_call(m, given, x).tolist() == [[7.0, 7.0]]
    assert m.a.weight is weight is m.b.weight and m.n is n and n.item() == 0
    untied = func.functional_call(m, {"a.weight": smolder.zeros(2, 2)}, x, tie_weights=False)
    assert untied.tolist() == [[1.0, 1.0]]
    for wrong, error in (
        ({"c": x}, AttributeError),
        ({"a.weight": 3}, TypeError),
        ({"a.weight": x, "b.weight": x + 1}, ValueError),
    ):
        with pytest.raises(error):
            func.functional_call(m, wrong, x)
    with pytest.raises(RuntimeError, match=r"unexpected key\(s\) 'c'; missing key\(s\) 'a.weight'"):
        func.functional_call(m, {"c": x, "n": n, "b.weight": x}, x, strict=True)
    assert m.a.weight is weight


def test_models_are_stacked():
    models = [nn.BatchNorm1d(2) for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    assert tuple(parameters["weight"].shape) == (3, 2) and parameters["weight"].requires_grad
    assert tuple(buffers["running_mean"].shape) == (3, 2) and parameters["weight"].is_leaf
