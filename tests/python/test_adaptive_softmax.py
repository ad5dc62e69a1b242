"""AdaptiveLogSoftmaxWithLoss against its definition in NumPy, and against PyTorch."""

import json

import numpy as np
import pytest
from torch_peer import needs_torch, run_here, run_torch

import smolder
from smolder import nn


def layer(dtype=smolder.float64, **options):
    smolder.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(8, 30, [5, 12, 20], 2.0, dtype=dtype, **options)


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def all_classes(m, x):
    head = log_softmax(x @ m.head.weight.numpy(force=True).T + (m.head.bias.numpy(force=True) if m.head_bias else 0))
    parts = [head[:, :5]]
    for i, (down, up) in enumerate(m.tail):
        cluster = log_softmax(x @ down.weight.numpy(force=True).T @ up.weight.numpy(force=True).T)
        parts.append(cluster + head[:, 5 + i : 6 + i])
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("bias", [False, True])
def test_log_probabilities_are_the_definitions(bias):
    m = layer(head_bias=bias)
    rng = np.random.default_rng(1)
    x, target = rng.standard_normal((11, 8)), np.array([0, 4, 5, 11, 12, 19, 20, 29, 3, 3, 25])
    expected = all_classes(m, x)
    np.testing.assert_allclose(m.log_prob(smolder.tensor(x)).numpy(force=True), expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(expected).sum(1), 1)
    output, loss = m(smolder.tensor(x), smolder.tensor(target))
    np.testing.assert_allclose(output.numpy(force=True), expected[range(11), target], rtol=1e-12)
    np.testing.assert_allclose(loss.item(), -expected[range(11), target].mean(), rtol=1e-12)
    assert m.predict(smolder.tensor(x)).tolist() == expected.argmax(1).tolist()
    one = m(smolder.tensor(x[3]), smolder.tensor(target[3]))
    assert one.output.shape == () and abs(one.output.item() - expected[3, target[3]]) < 1e-12
    for rows in ([0, 1], [7], [2, 3]):  # of the head alone, and of one cluster
        got = m(smolder.tensor(x[rows]), smolder.tensor(target[rows])).output
        np.testing.assert_allclose(got.numpy(force=True), expected[rows, target[rows]], rtol=1e-12)


def test_gradients():
    m = layer()
    target = smolder.tensor([0, 29, 13, 7])
    x = smolder.randn(4, 8, dtype=smolder.float64, requires_grad=True)
    assert smolder.autograd.gradcheck(lambda x: m(x, target).loss, (x,))
    m(x, target).loss.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in m.parameters())


def test_mistakes_name_themselves():
    m, x = layer(), smolder.randn(3, 8, dtype=smolder.float64)
    with pytest.raises(RuntimeError, match=r"in \[0, 29\], but values in range \[1, 30\]"):
        m(x, smolder.tensor([1, 2, 30]))
    with pytest.raises(RuntimeError, match="same size in the batch"):
        m(x, smolder.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="multi-target"):
        m(x, smolder.tensor([[1, 2, 3]]))
    for cutoffs in ([], [5, 3], [5, 5], [0, 4], [5, 30], [1.5]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 30, cutoffs)


@needs_torch
def test_a_step_of_training_is_torchs():
    code = """
import json
m = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 30, [5, 12, 20], 2.0, True, dtype=torch.float64)
with torch.no_grad():
    for i, p in enumerate(m.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float64) + i).reshape(p.shape))
x = torch.cos(torch.arange(64, dtype=torch.float64)).reshape(8, 8).requires_grad_()
result = m(x, torch.tensor([0, 4, 5, 12, 19, 29, 3, 25]))
result.loss.backward()
out = [str(m), type(result).__name__, list(m.state_dict()), result.output.tolist(), x.grad.tolist(), m.predict(x).tolist()]
out += [p.grad.tolist() for p in m.parameters()]
"""
    here, there = run_here(code), run_torch(code)
    assert here[:3] == there[:3]
    for ours, theirs in zip(here[3:], there[3:], strict=True):
        np.testing.assert_allclose(json.loads(json.dumps(ours)), theirs, rtol=1e-10, atol=1e-13)
