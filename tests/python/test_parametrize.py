"""Parametrizations and pruning: what modules hold, compute, print and raise is torch's."""

import copy

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import nn
from smolder.nn.utils import parametrizations, parametrize, prune

BEFORE = """
import copy
if torch.__name__ == "torch":
    import torch.nn.utils.prune
nn, par, prune = torch.nn, torch.nn.utils.parametrize, torch.nn.utils.prune
class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)
class Double(nn.Module):
    def forward(self, x):
        return x * 2
    def right_inverse(self, x):
        return x / 2
class Product(nn.Module):
    def forward(self, a, b):
        return a * b
    def right_inverse(self, x):
        return x, torch.ones_like(x)
class To(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
    def forward(self, x):
        return self.f(x)
class Back(To):
    def forward(self, *x):
        return x[0]
    def right_inverse(self, x):
        return self.f(x)
def linear(*parametrizations, n=3, name="weight", **options):
    m = nn.Linear(n, n).double()
    with torch.no_grad():
        m.weight.copy_(torch.sin(torch.arange(n * n).double() * 1.7).reshape(n, n))
        m.bias.copy_(torch.arange(n))
    for p in parametrizations:
        par.register_parametrization(m, name, p, **options)
    return m
def seen(m):
    x = torch.cos(torch.arange(3.0).double())
    y = m(x).sum() * 2
    y.backward()
    state = {k: v.tolist() for k, v in m.state_dict().items()}
    return y.tolist(), state, {k: None if p.grad is None else p.grad.tolist() for k, p in m.named_parameters()}, repr(m)
def conv(f):
    m = nn.Conv2d(2, 4, 2).double()
    with torch.no_grad():
        m.weight.copy_(torch.sin(torch.arange(32.0).double() * 1.3).reshape(4, 2, 2, 2))
    f(m)
    return m.weight_mask.tolist(), [k for k, _ in m.named_parameters()], [k for k, _ in m.named_buffers()]
"""
RUN = """
def removed(m, *args):
    par.remove_parametrizations(m, "weight", *args)
    return seen(m)
def assigned():
    m = linear(Double(), Symmetric(), unsafe=True)
    m = linear(Double(), Double())
    m.weight = torch.ones(3, 3).double()
    return seen(m)
def twice(m):
    prune.l1_unstructured(m, "weight", 0.25)
    prune.ln_structured(m, "weight", 1, 2, 0)
    prune.l1_unstructured(m, "weight", 3)
def together():
    a, b = linear(), linear(n=3)
    with torch.no_grad():
        b.weight.mul_(0.5)
    prune.global_unstructured([(a, "weight"), (b, "weight"), (a, "bias")], prune.L1Unstructured, amount=0.5)
    prune.remove(b, "weight")
    return seen(a), seen(b), prune.is_pruned(a), prune.is_pruned(b)
def trained():
    m = linear()
    prune.l1_unstructured(m, "weight", 4)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    m(torch.ones(3).double()).sum().backward()
    o.step()
    m(torch.ones(3).double())
    out = m.weight.tolist()
    prune.remove(m, "weight")
    return out, seen(m)
out = [
    seen(linear(Symmetric())), seen(linear(Double())), seen(linear(Double(), Symmetric())), seen(linear(Product())),
    seen(linear(To(lambda x: x + 1), name="bias")),
    removed(linear(Symmetric())), removed(linear(Double()), False), removed(linear(Product())), assigned(),
    seen(copy.deepcopy(linear(Double(), Symmetric()))),
    conv(lambda m: prune.l1_unstructured(m, "weight", 5)), conv(lambda m: prune.l1_unstructured(m, "weight", 0.5)),
    conv(lambda m: prune.ln_structured(m, "weight", 0.5, 2, 0)), conv(lambda m: prune.ln_structured(m, "weight", 1, 1, -1)),
    conv(lambda m: prune.ln_structured(m, "weight", 1, float("inf"), 1)), conv(lambda m: prune.identity(m, "weight")),
    conv(lambda m: prune.custom_from_mask(m, "weight", torch.arange(32).reshape(4, 2, 2, 2) % 2)), conv(twice),
    conv(lambda m: prune.l1_unstructured(m, "weight", 5, -m.weight)), together(), trained(),
    prune.L1Unstructured(2).prune(torch.tensor([1.0, -3.0, 0.5, 2.0])).tolist(),
    prune.L1Unstructured(2).prune(torch.tensor([1.0, -3.0, 0.5, 2.0]), importance_scores=torch.arange(4.0)).tolist(),
]
"""
USES = """
linear(To(lambda x: x.float())) | linear(To(lambda x: x[0])) | linear(To(lambda x: 3)) | linear(Back(lambda x: x.float()))
linear(Back(lambda x: 3)) | linear(Back(lambda x: [x, 3])) | linear(Double(), To(lambda x: x.float())) | linear(Double(), To(lambda x: x[0]))
linear(Double(), To(lambda x: 3)) | linear(Double(), Back(lambda x: 3)) | linear(Double(), Back(lambda x: x[0]))
linear(Double(), name="other") | linear(To(lambda x: x[0]), unsafe=True).weight.shape | setattr(linear(Symmetric()), "weight", torch.ones(3, 3))
setattr(linear(Double()), "weight", torch.ones(3, 3)) | par.remove_parametrizations(linear(), "weight")
par.remove_parametrizations(linear(Product()), "weight", False) | linear(Double()).__class__.__name__ | par.is_parametrized(linear())
par.is_parametrized(linear(Double())) | par.is_parametrized(linear(Double()), "bias") | par.type_before_parametrizations(linear(Double())).__name__
linear(Double()).__getstate__() | par.ParametrizationList([], torch.ones(1)) | linear(Double()).parametrizations
par.transfer_parametrizations_and_params(linear(Double()), nn.Linear(3, 3).double())
prune.l1_unstructured(linear(), "weight", 1.5) | prune.l1_unstructured(linear(), "weight", -1) | prune.l1_unstructured(linear(), "weight", 10)
prune.l1_unstructured(linear(), "weight", "x") | prune.ln_structured(linear(), "bias", 1, 2, 0) | prune.ln_structured(linear(), "weight", 1, 2, 2)
prune.remove(linear(), "weight") | prune.is_pruned(linear()) | prune.custom_from_mask(linear(), "weight", torch.ones(2))
prune.l1_unstructured(linear(), "weight", 1, torch.ones(2)) | prune.global_unstructured(3, prune.L1Unstructured)
prune.global_unstructured([(linear(), "weight")], prune.LnStructured, amount=1, n=2) | prune.PruningContainer().add_pruning_method(3)
prune.global_unstructured([(linear(), "weight")], prune.L1Unstructured, [], amount=1) | prune.l1_unstructured(linear(), "weight", 1)
"""


def assert_near(a, b, where=""):
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_near(x, y, f"{where}[{i}]")
    elif isinstance(a, float):
        np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=where)
    else:
        assert a == b, where


@needs_torch
def test_modules_hold_and_compute_what_those_of_torch_do():
    assert_near(run_here(BEFORE + RUN), run_torch(BEFORE + RUN))


@needs_torch
def test_errors_are_those_of_torch():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


def test_what_is_cached_is_computed_once():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 2

    m = nn.Linear(2, 2)
    parametrize.register_parametrization(m, "weight", Counted(), unsafe=True)
    with parametrize.cached():
        assert m.weight is m.weight
        with parametrize.cached():
            m(smolder.ones(2))
    assert len(calls) == 1 and m.weight is not m.weight
    assert type(copy.deepcopy(m)).__name__ == "ParametrizedLinear"


def test_random_pruning_takes_as_many():
    m = nn.Linear(20, 10)
    prune.random_unstructured(m, "weight", 0.3)
    assert m.weight_mask.sum().item() == 140 and (m.weight == 0).sum().item() == 60
    prune.random_structured(m, "weight", 2, 0)
    assert sum(row == 0 for row in m.weight_mask.sum(1).tolist()) == 2
    smolder.manual_seed(1)
    assert prune.RandomUnstructured(3).prune(smolder.ones(10)).sum().item() == 7


@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(4, 3), lambda: nn.Conv2d(2, 3, 2), lambda: nn.ConvTranspose1d(2, 3, 2)]
)
def test_weights_of_norm_one(make):
    m = make()
    before = m.weight.detach().clone()
    parametrizations.weight_norm(m)
    assert sorted(m.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert np.allclose(m.weight.numpy(force=True), before.numpy(), atol=1e-6)
    old = make()
    nn.utils.weight_norm(old)
    m.load_state_dict(old.state_dict())
    assert np.allclose(m.weight.numpy(force=True), old.weight.numpy(force=True))
    spectral = make()
    parametrizations.spectral_norm(spectral)
    for _ in range(30):
        weight = spectral.weight
    dim = 1 if isinstance(spectral, nn.ConvTranspose1d) else 0
    rows = np.moveaxis(weight.numpy(force=True), dim, 0).reshape(weight.shape[dim], -1)
    assert abs(np.linalg.norm(rows, 2) - 1) < 1e-4


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (2, 4, 3)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("use_trivialization", [True, False])
def test_orthogonal_weights_stay_so_in_training(shape, orthogonal_map, use_trivialization):
    m = nn.Module()
    m.weight = nn.Parameter(smolder.tensor(np.random.default_rng(3).normal(size=shape)))
    parametrizations.orthogonal(m, "weight", orthogonal_map, use_trivialization=use_trivialization)
    start = m.weight.detach().clone()

    def off(w):
        w = w if w.size(-2) >= w.size(-1) else w.mT
        return (w.mT @ w - smolder.eye(w.size(-1), dtype=w.dtype)).abs().max().item()

    assert off(start) < 1e-12
    for _ in range(3):
        (m.weight * smolder.arange(m.weight.numel()).reshape(shape)).sum().backward()
        with smolder.no_grad():
            m.parametrizations.weight.original -= 0.01 * m.parametrizations.weight.original.grad
    assert off(m.weight) < 1e-12 and (m.weight - start).abs().max() > 1e-3
    if use_trivialization or orthogonal_map == "householder":
        m.weight = start
        assert smolder.allclose(m.weight, start, atol=1e-12)
    else:
        with pytest.raises(NotImplementedError, match="It is not possible to assign"):
            m.weight = start


def test_orthogonal_asks_for_matrices_and_a_map_of_its_own():
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        parametrizations.orthogonal(nn.LayerNorm(3))
    with pytest.raises(ValueError, match="Got: qr"):
        parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="qr")
    with pytest.raises(ValueError, match="does not support complex tensors"):
        parametrizations.orthogonal(nn.Linear(3, 3, dtype=smolder.complex64), orthogonal_map="householder")
