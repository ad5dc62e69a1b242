"""Models, their batches and losses, of the programs in sharded_programs.py."""

import numpy as np

import smolder
from smolder import nn
from smolder.nn import functional as F
from smolder.utils.checkpoint import checkpoint


class MLP(nn.Module):
    """A model whose sizes two, three and four processes do not divide."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 7), nn.Linear(7, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.c(self.b(self.a(x).tanh()).relu())


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 3, 3), nn.ReLU())
        self.last = nn.Linear(12, 3)

    def forward(self, x):
        return self.last(self.features(x.reshape(-1, 1, 4, 4)).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.width = heads, width
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.width // self.heads)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed = Attention(width, heads), FeedForward(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words=13, width=8, heads=2, layers=2, length=6, checkpointed=False):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.checkpointed = checkpointed

    def forward(self, ids):
        x = self.words(ids) + self.places(smolder.arange(ids.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x))


def batch_of(kind, step, rows):
    rng = np.random.default_rng([7, step])
    if kind is GPT:
        ids = rng.integers(0, 13, (rows, 7))
        return ids[:, :-1], ids[:, 1:]
    return rng.standard_normal((rows, 6 if kind is MLP else 16)).astype(np.float32), rng.integers(0, 3, rows)


def loss_of(model, x, y):
    out = model(smolder.tensor(x))
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), smolder.tensor(y).reshape(-1))
