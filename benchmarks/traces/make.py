"""Records the traces of this folder: one training or forward step each, without data.

python benchmarks/traces/make.py [NAME...]
"""

import sys
from pathlib import Path

import smolder
from smolder import _trace_file, nn
from smolder.cli import bench_models

FOLDER = Path(__file__).resolve().parent


class CharTransformer(nn.Module):
    """A decoder over characters, as nanoGPT's: embeddings, pre-norm blocks with causal attention, a linear head."""

    def __init__(self, vocabulary, width, heads, layers, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width),
                 nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]
            )
            for _ in range(layers)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.heads = heads

    def forward(self, x):
        batch, length = x.shape
        h = self.tokens(x) + self.places(smolder.arange(length))
        for norm1, qkv, out, norm2, up, down in self.blocks:
            q, k, v = (t.reshape(batch, length, self.heads, -1).transpose(1, 2) for t in qkv(norm1(h)).chunk(3, dim=-1))
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + out(a.transpose(1, 2).reshape(batch, length, -1))
            h = h + down(nn.functional.gelu(up(norm2(h))))
        return self.head(self.norm(h))


def char_transformer(batch, length, width, heads, layers, vocabulary=65):
    """A training step of it, with AdamW."""
    model = CharTransformer(vocabulary, width, heads, layers, length)
    x, y = (smolder.randint(0, vocabulary, (batch, length)) for _ in range(2))
    loss_of = lambda out: nn.functional.cross_entropy(out.reshape(-1, vocabulary), y.reshape(-1))  # noqa: E731
    return bench_models._step(smolder, model, x, loss_of, True)


def cross_entropy(rows, classes):
    """The loss and its gradient."""
    x, y = smolder.randn(rows, classes).requires_grad_(), smolder.randint(0, classes, (rows,))

    def step():
        loss = nn.functional.cross_entropy(x, y)
        (dx,) = smolder.autograd.grad(loss, [x])
        smolder.mark_step()
        return loss, dx

    return step


TRACES = {
    "mlp_forward": lambda: bench_models.mlp(smolder, False, 32),
    "mlp_train": lambda: bench_models.mlp(smolder, True, 32),
    "block_forward": lambda: bench_models.block(smolder, False, 16, 128, 512, 8, 2048),
    "block_train": lambda: bench_models.block(smolder, True, 16, 128, 512, 8, 2048),
    "char_train": lambda: char_transformer(8, 64, 128, 4, 4),
    "conv_train": lambda: bench_models.conv(smolder, True, 8, 32),
    "gelu_chain": lambda: bench_models.chain(smolder, 1 << 22),
    "softmax": lambda: bench_models.softmax(smolder, 8192, 1024),
    "layer_norm": lambda: bench_models.layer_norm(smolder, 8192, 1024),
    "cross_entropy": lambda: cross_entropy(2048, 4096),
    "adamw": lambda: bench_models.adamw(smolder, 8, 1 << 18),
}


def main(names):
    for name in names or TRACES:
        smolder.manual_seed(0)
        step = TRACES[name]()
        for _ in range(3):
            held = step()
        path = FOLDER / f"{name}.trace"
        with smolder.record_trace(path):
            for _ in range(2):
                held = step()  # noqa: F841 - as in a loop that keeps its loss
        trace = _trace_file.read(path)
        trace.sources = [(where.replace(f"{FOLDER.parents[1]}/", ""), code) for where, code in trace.sources]
        _trace_file.write(path, trace)
        print(f"{name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
