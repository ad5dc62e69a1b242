"""CUDA: what a function makes besides its operands lies where they do, though tensors are made on the CPU by default."""

import pytest

import smolder
from smolder import autograd, cuda, distributions, func, nn
from smolder.nn import functional as F
from smolder.nn.utils import rnn

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")


class Operands:
    def __init__(self):
        self.x = smolder.linspace(-2, 2, 24, device="cuda").reshape(4, 6)
        self.positive = self.x.abs() + 1
        self.index = smolder.tensor([0, 3, 1, 2, 1], device="cuda")
        self.sequences = smolder.ones(2, 5, 8, device="cuda")
        self.padding = smolder.tensor([[False] * 5, [False] * 3 + [True] * 2], device="cuda")
        self.scores = F.log_softmax(smolder.ones(7, 2, 5, device="cuda"), -1)
        self.labels = smolder.tensor([[1, 2, 2], [4, 3, 1]], device="cuda")


def layer(make, x, **arguments):
    return make.cuda()(x, **arguments)


def cube(x):
    return (x**3).sum()


def packed_and_back(o):
    lengths = smolder.tensor([3, 5])
    packed = rnn.pack_padded_sequence(o.sequences, lengths, batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(nn.LSTM(8, 6).cuda()(packed)[0])[0]


def transformer(o):
    blocked = nn.Transformer.generate_square_subsequent_mask(5, device="cuda") < 0
    masks = dict.fromkeys(["src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask"], o.padding)
    return layer(
        nn.Transformer(8, 2, 1, 1, 16, batch_first=True), o.sequences, tgt=o.sequences, tgt_mask=blocked, **masks
    )


def sampled_gradient(kind, o):
    positive = o.positive.clone().requires_grad_()
    kind(positive, 1.0).rsample().sum().backward()
    return positive.grad


FUNCTIONS = {
    **{
        f"{m.__name__} {name}": lambda o, m=m, f=f: f(m, o)
        for m in (nn.RNN, nn.GRU, nn.LSTM)
        for name, f in {
            "batch": lambda m, o: layer(m(8, 6, 2, batch_first=True, bidirectional=True), o.sequences)[0],
            "one": lambda m, o: layer(m(8, 6), o.sequences[0])[0],
            "empty": lambda m, o: layer(m(8, 6), o.sequences[:, :0])[0],
        }.items()
    },
    "RNNCell": lambda o: layer(nn.RNNCell(6, 3), o.x),
    "GRUCell": lambda o: layer(nn.GRUCell(6, 3), o.x),
    "LSTMCell": lambda o: layer(nn.LSTMCell(6, 3), o.x)[0],
    "packed sequences": packed_and_back,
    "attention with padding": lambda o: nn.MultiheadAttention(8, 2, batch_first=True).cuda()(
        o.sequences, o.sequences, o.sequences, key_padding_mask=o.padding
    )[0],
    "encoder with padding": lambda o: layer(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), o.sequences, src_key_padding_mask=o.padding
    ),
    "transformer": transformer,
    "ctc_loss": lambda o: F.ctc_loss(o.scores, o.labels, (7, 7), (3, 2)),
    "ctc_loss of tensors": lambda o: nn.CTCLoss()(
        o.scores, o.labels.reshape(-1), smolder.tensor([7, 7]), smolder.tensor([3, 3])
    ),
    "embedding_bag": lambda o: F.embedding_bag(o.index, o.x, o.index[::3]),
    "embedding_bag of rows": lambda o: F.embedding_bag(o.labels[:, :2] % 4, o.x, mode="max", padding_idx=0),
    "normal": lambda o: smolder.normal(o.x, o.positive),
    "resize_": lambda o: o.x.clone().resize_(5, 9),
    "spectral_norm": lambda o: nn.utils.spectral_norm(nn.Linear(6, 2).cuda())(o.x),
    "jacrev": lambda o: func.jacrev(lambda x: x * 2)(o.x[0]),
    "jacfwd": lambda o: func.jacfwd(lambda x: x * 2)(o.x[0]),
    "hessian": lambda o: func.hessian(cube)(o.x[0]),
    "functional.jacobian": lambda o: autograd.functional.jacobian(lambda x: x * 2, o.x[0]),
    "functional.hessian": lambda o: autograd.functional.hessian(cube, o.x[0]),
    "Normal": lambda o: distributions.Normal(o.x, 2.0).rsample((3,)),
    "Laplace": lambda o: distributions.Laplace(o.x, o.positive).rsample(),
    "Uniform": lambda o: distributions.Uniform(o.x, o.x + 1).sample(),
    "Exponential": lambda o: distributions.Exponential(o.positive).rsample(),
    "MultivariateNormal": lambda o: distributions.MultivariateNormal(
        o.x[0], smolder.eye(6, device="cuda"), validate_args=True
    ).rsample(),
    "Bernoulli": lambda o: distributions.Bernoulli(logits=o.x).enumerate_support(),
    "Categorical": lambda o: distributions.Categorical(logits=o.x).enumerate_support(),
    "mean of Categorical": lambda o: distributions.Categorical(logits=o.x).mean,
    "Gamma": lambda o: distributions.Gamma(o.positive, o.positive).rsample(),
    "gradient of Gamma": lambda o: sampled_gradient(distributions.Gamma, o),
    "Beta": lambda o: distributions.Beta(o.positive, 2.0).rsample(),
    "StudentT": lambda o: distributions.StudentT(o.positive, o.x).rsample(),
    "Poisson": lambda o: distributions.Poisson(o.positive * 20).sample(),
    "Binomial": lambda o: distributions.Binomial(30, o.positive / 4).sample(),
    "Multinomial": lambda o: distributions.Multinomial(3, logits=o.x).sample(),
    "NegativeBinomial": lambda o: distributions.NegativeBinomial(o.positive, logits=o.x).sample(),
    "Geometric": lambda o: distributions.Geometric(logits=o.x).sample(),
    "VonMises": lambda o: distributions.VonMises(o.x, o.positive).sample(),
    "VonMises log_prob": lambda o: distributions.VonMises(o.x, o.positive).log_prob(o.x),
    "cdf of Gamma": lambda o: distributions.Gamma(o.positive, 1.0).cdf(o.positive),
    "Gumbel": lambda o: distributions.Gumbel(o.x, o.positive).rsample(),
    "Kumaraswamy": lambda o: distributions.Kumaraswamy(o.positive, 2.0).rsample(),
    "LogisticNormal": lambda o: distributions.LogisticNormal(o.x, o.positive).rsample(),
    "LowRank": lambda o: distributions.LowRankMultivariateNormal(o.x[0], o.x.mT, o.positive[0]).rsample(),
    "LKJCholesky": lambda o: distributions.LKJCholesky(3, o.positive).sample(),
    "Wishart": lambda o: distributions.Wishart(o.positive[0] + 6, smolder.eye(6, device="cuda")).rsample(),
    "Mixture": lambda o: distributions.MixtureSameFamily(
        distributions.Categorical(logits=o.x), distributions.Normal(o.x, o.positive)
    ).sample(),
    "RelaxedBernoulli": lambda o: distributions.RelaxedBernoulli(o.positive, logits=o.x).rsample(),
    "RelaxedOneHot": lambda o: distributions.RelaxedOneHotCategorical(o.positive[0, 0], logits=o.x).rsample(),
    "to correlations": lambda o: distributions.biject_to(distributions.constraints.corr_cholesky)(o.x),
    "to shares": lambda o: distributions.biject_to(distributions.constraints.simplex)(o.x),
    "poisson": lambda o: smolder.poisson(o.positive),
    "OneHotCategorical": lambda o: distributions.OneHotCategorical(logits=o.x).enumerate_support(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_made_besides_lies_with_the_operands(name):
    assert str(smolder.get_default_device()) == "cpu"
    out = FUNCTIONS[name](Operands())
    assert out.is_cuda


def test_gradients_are_checked_where_their_operands_are():
    x = smolder.linspace(0.5, 1.5, 4, device="cuda", dtype=smolder.float64, requires_grad=True)
    assert autograd.gradcheck(lambda x: (x * 2, x**2), (x,))
    assert autograd.gradgradcheck(lambda x: x**3, (x,))


@pytest.mark.parametrize("write", [lambda w: w[1].fill_(7), lambda w: w.mul_(2), lambda w: w[0, 0].sub_(1)])
def test_writes_to_windows_happen_where_they_lie(write):
    """Overlapping ones, ones with gaps, and a diagonal."""
    for view in (lambda x: x.unfold(0, 3, 1), lambda x: x.unfold(0, 2, 4), lambda x: x.view(3, 4, 1).diagonal().T):
        lie = [smolder.arange(12.0, device=device) for device in ("cpu", "cuda")]
        for x in lie:
            write(view(x))
        assert lie[1].tolist() == lie[0].tolist()
