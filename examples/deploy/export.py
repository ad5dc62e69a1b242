"""Trains a small transformer over characters and saves it as a graph, which deploy.cpp runs without Python.

python export.py model.safetensors          then: deploy model.safetensors "the "
"""

import argparse

import smolder
from smolder import nn
from smolder.export import Dim
from smolder.nn import functional as F

TEXT = "the tape is recorded, the plan is compiled, and the graph is run: " * 8
CONTEXT = 64


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).split(width, dim=-1)
        q, k, v = (p.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.after(x))


class Characters(nn.Module):
    """Predicts the byte after each byte of a text."""

    def __init__(self, width=48, heads=4, blocks=2):
        super().__init__()
        self.characters, self.positions = nn.Embedding(128, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 128)

    def forward(self, text):
        x = self.characters(text) + self.positions(smolder.arange(text.size(1)))
        return self.head(self.norm(self.blocks(x)))


def train(model, steps):
    text = smolder.tensor(list(TEXT.encode()))
    optimizer = smolder.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        starts = [(17 * step + 41 * i) % (len(TEXT) - CONTEXT - 1) for i in range(8)]
        x = smolder.stack([text[s : s + CONTEXT] for s in starts])
        y = smolder.stack([text[s + 1 : s + CONTEXT + 1] for s in starts])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    smolder.manual_seed(0)
    model = Characters()
    print(f"loss {train(model, args.steps):.4f}")
    with smolder.no_grad():
        example = smolder.zeros(2, 16, dtype=smolder.int64)
        sizes = {0: "batch", 1: Dim("length", max=CONTEXT)}
        graph = smolder.capture(model.eval(), example, dynamic_shapes={"text": sizes})
    graph.save(args.path)
    print(f"saved {args.path}: {graph!r}")


if __name__ == "__main__":
    main()
