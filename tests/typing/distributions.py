"""Random numbers, distributions, linear algebra, trees."""

import smolder
from smolder import Tensor, linalg
from smolder.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    ExpTransform,
    Gamma,
    Independent,
    MixtureSameFamily,
    Normal,
    Transform,
    TransformedDistribution,
    biject_to,
    constraints,
    kl_divergence,
)
from smolder.utils import _pytree  # as torch's users import it


def surprise(distribution: Distribution, value: Tensor) -> Tensor:
    return -distribution.log_prob(value)


generator = smolder.Generator().manual_seed(1)
noise: Tensor = smolder.randn(3, generator=generator)
normal = Normal(smolder.zeros(3), smolder.ones(3))
sample: Tensor = normal.rsample((2,))
bits: Tensor = surprise(normal, sample)
choice = Categorical(logits=smolder.randn(4))
which: Tensor = choice.sample()
probabilities: Tensor = choice.probs
coin = Bernoulli(0.5)
wide = Independent(normal, 1)
divergence: Tensor = kl_divergence(normal, Normal(1.0, 2.0))
entropy: float = choice.entropy().item()
waiting = Gamma(smolder.ones(3), 2.0)
wait: Tensor = waiting.rsample((2,))
mixture = MixtureSameFamily(choice, Normal(smolder.zeros(4), 1.0))
grown = TransformedDistribution(normal, [ExpTransform()])
to_positive: Transform = biject_to(constraints.positive)
positive: Tensor = to_positive(sample)
counts: Tensor = smolder.poisson(smolder.ones(3), generator=generator)
a = smolder.randn(3, 3, dtype=smolder.float64)
q, r = linalg.qr(a)
u, s, vh = linalg.svd(a, full_matrices=False)
solved: Tensor = linalg.solve(a, smolder.ones(3, dtype=smolder.float64))
length: Tensor = linalg.norm(a)
determinant: Tensor = linalg.det(a @ a.mT)
spectrum: Tensor = smolder.special.entr(smolder.rand(3))


def twice(value: Tensor) -> Tensor:
    return value * 2


doubled = _pytree.tree_map(twice, {"a": noise})
smolder.testing.assert_close(q @ r, a)
print(bits, which, probabilities, coin.mean, wide.event_shape, divergence, entropy, u, s, vh, solved, length)
print(determinant, spectrum, doubled)
print(wait, mixture.log_prob(noise), grown.support, positive, counts)
