"""Samples: their moments, the gradients through them, and that a policy learns from log probabilities."""

import subprocess
import sys

import pytest

import smolder
from smolder import distributions as D

N = 20000
CONTINUOUS = {
    "normal": lambda: D.Normal(1.0, 2.0),
    "uniform": lambda: D.Uniform(-1.0, 3.0),
    "exponential": lambda: D.Exponential(0.5),
    "laplace": lambda: D.Laplace(1.0, 0.5),
}


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_samples_have_the_moments_and_the_quantiles(name):
    smolder.manual_seed(0)
    made = CONTINUOUS[name]()
    x = made.sample((N,))
    assert abs(x.mean().item() - made.mean.item()) < 0.08 and abs(x.std().item() / made.stddev.item() - 1) < 0.05
    below = made.cdf(x)
    assert abs(below.mean().item() - 0.5) < 0.02 and abs(below.var().item() - 1 / 12) < 0.01


def test_categories_come_as_often_as_they_should():
    smolder.manual_seed(0)
    probs = smolder.tensor([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    for x in (D.Categorical(probs).sample((N,)), D.OneHotCategorical(probs).sample((N,)).argmax(-1)):
        for row in range(2):
            often = smolder.bincount(x[:, row], minlength=3) / N
            assert (often - probs[row]).abs().max().item() < 0.02
    assert abs(D.Bernoulli(0.3).sample((N,)).mean().item() - 0.3) < 0.02


def test_samples_of_vectors_have_the_covariance():
    smolder.manual_seed(0)
    covariance = smolder.tensor([[2.0, 0.5], [0.5, 1.0]])
    x = D.MultivariateNormal(smolder.tensor([1.0, -1.0]), covariance).sample((N,))
    centered = x - x.mean(0)
    assert (centered.t() @ centered / N - covariance).abs().max().item() < 0.06


def test_gradients_go_through_rsample_and_not_through_sample():
    loc, scale = smolder.zeros(2, requires_grad=True), smolder.ones(2, requires_grad=True)
    made = D.Normal(loc, scale)
    assert not made.sample((4,)).requires_grad
    noise = made.rsample((4,))
    noise.sum().backward()
    assert loc.grad.tolist() == [4.0, 4.0]
    assert (scale.grad - noise.detach().sum(0)).abs().max().item() < 1e-5


def test_a_policy_learns_which_arm_pays():
    smolder.manual_seed(0)
    logits = smolder.zeros(3, requires_grad=True)
    optimizer = smolder.optim.Adam([logits], lr=0.1)
    pays = smolder.tensor([0.0, 1.0, 0.2])
    for _ in range(60):
        policy = D.Categorical(logits=logits)
        action = policy.sample((32,))
        loss = -(policy.log_prob(action) * (pays[action] - 0.4)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert D.Categorical(logits=logits).probs[1].item() > 0.9


def test_nothing_is_read_where_nothing_is_checked():
    smolder.mark_step()
    before = smolder.metrics()["counters"].get("syncs", 0)
    made = D.Normal(smolder.zeros(3), smolder.ones(3), validate_args=False)
    total = (made.log_prob(made.rsample()) + made.entropy()).sum()
    assert total.dim() == 0 and smolder.metrics()["counters"].get("syncs", 0) == before
    D.Normal(smolder.zeros(3), smolder.ones(3))
    assert smolder.metrics()["counters"]["syncs"] > before


def test_the_gradient_of_a_concentration_of_one_is_there():
    one = smolder.ones((), requires_grad=True)
    D.Gamma(one, 1.0).log_prob(smolder.tensor(2.0)).backward()
    assert abs(one.grad.item() - 1.2703629) < 1e-6  # log(2) and Euler's constant


UNDER_THE_ALIAS = """
import smolder.torch
smolder.torch.install()
import importlib
import torch
from smolder.torch import _names
from torch.distributions.constraints import _GreaterThan, _Interval
from torch.distributions.multivariate_normal import _batch_mahalanobis, _precision_to_scale_tril
from torch.distributions.utils import _standard_normal, _sum_rightmost, broadcast_all, lazy_property

paths = [p for p in _names.modules() if p.startswith("distributions")]
for path in paths:
    module = importlib.import_module(f"torch.{path}")
    row = _names.row(path)
    for name in row.public():
        if row.kinds[name] != "value" and row.homes[name].startswith("distributions"):
            getattr(module, name)
from torch.distributions.gamma import Gamma
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.kl import kl_divergence
print(len(paths) > 40, Gamma is torch.distributions.Gamma, Gamma, torch.distributions.Chi2(2.0).expand((3,)).batch_shape)
"""


def test_every_path_of_torchs_is_there():
    run = subprocess.run([sys.executable, "-c", UNDER_THE_ALIAS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "True True <class 'torch.distributions.gamma.Gamma'> torch.Size([3])\n"
