"""Arguments of layers, losses, optimizers and gradients: torch's, by name and position, honoured or refused by name."""

import copy
import math
import warnings

import numpy as np
import pytest

import smolder
from smolder import nn, optim
from smolder.nn import functional as F


def parameter(values, grad=None):
    p = nn.Parameter(smolder.tensor(values))
    if grad is not None:
        p.grad = smolder.tensor(grad)
    return p


# -- gradients


@pytest.mark.parametrize("owner", ["optimizer", "module"])
def test_zeroed_gradients_are_the_same_tensors(owner):
    m = nn.Linear(2, 1)
    m(smolder.ones(3, 2)).sum().backward()
    held = m.weight.grad
    zero = optim.SGD(m.parameters(), lr=0.1) if owner == "optimizer" else m
    zero.zero_grad(set_to_none=False)
    assert held.tolist() == m.weight.grad.tolist() == [[0.0, 0.0]]
    m.weight.grad.add_(1)
    assert held.tolist() == [[1.0, 1.0]]
    zero.zero_grad()
    assert m.weight.grad is None


def test_a_zeroed_gradient_has_no_history():
    p = parameter([3.0])
    (p**3).sum().backward(create_graph=True)
    assert p.grad.requires_grad
    optim.SGD([p], lr=0.1).zero_grad(set_to_none=False)
    assert not p.grad.requires_grad and p.grad.tolist() == [0.0]


def test_backward_of_some_inputs():
    x, y = parameter([1.0, 2.0]), parameter([3.0, 4.0])
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3.0, 4.0] and y.grad is None
    held = x.grad
    smolder.autograd.backward((x * y).sum(), inputs=x)
    assert held.tolist() == x.grad.tolist() == [6.0, 8.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).sum().backward(inputs=[])
    smolder.autograd.backward([x * y], grad_variables=[smolder.ones(2)])
    assert y.grad.tolist() == [1.0, 2.0]


def test_gradients_of_what_was_not_used():
    x, y = parameter([1.0]), parameter([[2.0]])
    used, unused = smolder.autograd.grad((2 * x).sum(), [x, y], materialize_grads=True)
    assert used.tolist() == [2.0] and unused.tolist() == [[0.0]]
    with pytest.raises(ValueError, match="allow_unused"):
        smolder.autograd.grad((2 * x).sum(), [x, y], allow_unused=False, materialize_grads=True)


# -- copies


def test_a_shallow_copy_shares_storage():
    x = smolder.zeros(2)
    y = copy.copy(x)
    y.add_(1)
    assert x.tolist() == [1.0, 1.0] and y is not x
    p = parameter([1.0])
    q = copy.copy(p)
    assert type(q) is nn.Parameter and q.requires_grad and q.is_leaf
    with smolder.no_grad():
        q.mul_(5)
    assert p.tolist() == [5.0]
    assert copy.copy(p * 2).is_leaf


# -- optimizers


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
def test_choices_of_implementation(kind):
    plain, chosen = parameter([1.0, 2.0], [0.5, 0.25]), parameter([1.0, 2.0], [0.5, 0.25])
    kind([plain], lr=0.1).step()
    o = kind([chosen], lr=0.1, foreach=True, fused=None, differentiable=False)
    o.step()
    assert plain.tolist() == chosen.tolist() and o.param_groups[0]["foreach"] is True
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        kind([plain], foreach=True, fused=True)
    with pytest.raises(NotImplementedError, match="differentiable"):
        kind([plain], differentiable=True)


def test_adam_with_decoupled_decay_is_adamw():
    a, b = parameter([1.0], [0.5]), parameter([1.0], [0.5])
    optim.Adam([a], lr=0.1, weight_decay=0.1, capturable=True, decoupled_weight_decay=True).step()
    optim.AdamW([b], lr=0.1, weight_decay=0.1).step()
    assert a.tolist() == b.tolist()


def test_cosine_annealing_keeps_what_is_set_in_between():
    o = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.CosineAnnealingLR(o, T_max=4, eta_min=0.1)
    rates = []
    for epoch in range(10):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        schedule.step()
        assert schedule.get_last_lr() == [o.param_groups[0]["lr"]], epoch
    closed = [0.1 + 0.9 * (1 + math.cos(math.pi * e / 4)) / 2 for e in range(10)]
    np.testing.assert_allclose(rates, closed, rtol=1e-9)

    o = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.CosineAnnealingLR(o, T_max=4)
    o.param_groups[0]["lr"] = 10.0
    schedule.step()
    assert o.param_groups[0]["lr"] == pytest.approx(10 * (1 + math.cos(math.pi / 4)) / 2)


# -- modules


def test_embedding_arguments():
    table = smolder.arange(6.0).reshape(3, 2)
    e = nn.Embedding(3, 2, _weight=table)
    assert e(smolder.tensor([2])).tolist() == [[4.0, 5.0]] and e.weight.requires_grad
    frozen = nn.Embedding.from_pretrained(table, padding_idx=-1)
    assert not frozen.weight.requires_grad and frozen.padding_idx == 2
    table.mul_(2)
    assert frozen(smolder.tensor([1])).tolist() == [[4.0, 6.0]]  # it shares the matrix
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match="Shape of weight"):
        nn.Embedding(2, 2, _weight=table)
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(smolder.ones(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda d: nn.Linear(2, 2, device=d),
        lambda d: nn.Embedding(2, 2, device=d),
        lambda d: nn.LayerNorm(2, device=d),
        lambda d: nn.MultiheadAttention(4, 2, device=d),
        lambda d: nn.TransformerEncoderLayer(4, 2, 4, device=d),
    ],
)
def test_devices_of_modules(make):
    assert all(not p.is_cuda for p in make("cpu").parameters())
    with pytest.raises(RuntimeError, match="lava"):
        make("lava")


def test_attention_takes_its_options_by_place():
    assert nn.MultiheadAttention(4, 2, 0.0, True, False, False, 4, 4, True).batch_first


def test_sequences_add_and_repeat():
    a, b = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
    both = a + b
    assert [type(m) for m in both] == [nn.Linear, nn.ReLU, nn.Linear] and both[0] is a[0] and len(a) == 1
    a += b
    assert len(a) == 3 and a[1] is b[0]
    assert [id(m) for m in b * 2] == [id(m) for m in [*b, *b]] and len(2 * b) == 4
    b *= 3
    assert len(b) == 6
    with pytest.raises(ValueError, match="Sequential"):
        a.__add__([nn.ReLU()])
    with pytest.raises(ValueError, match="Non-positive"):
        a * 0


def test_a_state_dict_may_be_assigned():
    m, saved = nn.Linear(2, 1), nn.Linear(2, 1).double().state_dict()
    m.load_state_dict(saved, assign=True)
    assert m.weight.dtype == smolder.float64 and isinstance(m.weight, nn.Parameter) and m.weight.requires_grad
    with smolder.no_grad():
        saved["weight"].fill_(3)
    assert m.weight.tolist() == [[3.0, 3.0]]


def test_conversions_keep_the_parameters_that_an_optimizer_has():
    m = nn.Linear(2, 1)
    m.register_buffer("seen", smolder.zeros(1))
    before = list(m.parameters())
    o = optim.SGD(m.parameters(), lr=0.1)
    m(smolder.ones(1, 2)).sum().backward()
    grad = m.weight.grad
    assert m.double() is m
    assert all(a is b for a, b in zip(before, m.parameters(), strict=True))
    assert m.weight.dtype == m.weight.grad.dtype == grad.dtype == m.seen.dtype == smolder.float64
    assert m.weight.is_leaf and m.weight.requires_grad
    o.zero_grad()
    was = m.weight.tolist()
    m(smolder.ones(1, 2, dtype=smolder.float64)).sum().backward()
    o.step()
    np.testing.assert_allclose(m.weight.tolist(), np.array(was) - 0.1, rtol=1e-12)


# -- functions


@pytest.mark.parametrize("function", [F.elu, F.leaky_relu, F.relu, F.silu])
def test_activations_in_place(function):
    x = smolder.tensor([-1.0, 2.0])
    want = function(x).tolist()
    assert function(x, inplace=True) is x and x.tolist() == want


LOSSES = [
    (F.mse_loss, nn.MSELoss, ()),
    (F.l1_loss, nn.L1Loss, ()),
    (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss, (None,)),
]


@pytest.mark.parametrize("function, module, before", LOSSES)
def test_losses_take_the_parameters_before_reduction(function, module, before):
    x, y = smolder.tensor([0.5, 2.0]), smolder.tensor([1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total, each = function(x, y, reduction="sum").tolist(), function(x, y, reduction="none").tolist()
        assert function(x, y, *before, None, None, "sum").tolist() == total
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert function(x, y, *before, False).tolist() == total
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert function(x, y, reduce=False).tolist() == each
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert module(size_average=False)(x, y).tolist() == total


def test_class_losses_take_the_parameters_before_reduction():
    x, y = smolder.randn(4, 3), smolder.tensor([0, 2, 1, 2])
    for function, module in ((F.cross_entropy, nn.CrossEntropyLoss), (F.nll_loss, nn.NLLLoss)):
        want = function(x, y, ignore_index=2, reduction="sum").tolist()
        assert function(x, y, None, None, 2, None, "sum").tolist() == want
        assert module(None, None, 2, None, "sum")(x, y).tolist() == want


def test_losses_with_weights():
    x, y, w = smolder.tensor([1.0, 4.0]), smolder.tensor([0.0, 1.0]), smolder.tensor([1.0, 3.0])
    assert F.mse_loss(x, y, weight=w).item() == 7.0 and F.l1_loss(x, y, weight=w, reduction="sum").item() == 10.0
    with pytest.raises(ValueError, match="same size"):
        F.mse_loss(x, y, weight=smolder.ones(1))
