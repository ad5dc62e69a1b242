"""Generates calls of ops on operands that lie in all ways, and tells how the results lie.

`python tests/python/result_layouts.py`, with a Python where PyTorch is installed, writes what PyTorch tells to
tests/golden/result_layouts.json.
"""

import json
import random
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden/result_layouts.json"

# Expressions of x, y and z, which have one shape, and of b, which broadcasts to it.
ELEMENTWISE = """
-x | x * 2 + 1 | x.exp() | x.relu() | x.sigmoid() | x > 0 | x.double() | x.to(torch.bfloat16) | x.clone() | x.clamp(0, 1) | x.pow(2)
F.gelu(x) | F.silu(x) | F.leaky_relu(x) | F.hardtanh(x) | F.mish(x) | F.logsigmoid(x) | F.dropout(x, 0.5) | 1 / x | 2 - x | x.abs().sqrt()
torch.empty_like(x) | torch.zeros_like(x) | torch.ones_like(x) | torch.full_like(x, 2) | torch.rand_like(x) | torch.randn_like(x)
torch.randint_like(x, 5) | torch.where(x > 0, x, 0.0) | x.flip(0) | x.nan_to_num() | x.detach() * 3 | x.isnan() | x.T * 2 | (x * 2).T + 1
x + y | x - y | x * y | x / y | torch.maximum(x, y) | x > y | torch.where(x > y, x, y) | torch.where(x > 0, y, x) | x.atan2(y) | x + y.double()
torch.lerp(x, y, 0.5) | torch.addcmul(x, y, z) | x * y + z | torch.hypot(x, y) | x.copysign(y) | torch.lerp(x, y, z)
x + b | b * x | x - b | b / x | torch.where(b > 0, x, y) | torch.addcmul(x, b, y) | torch.maximum(b, x) | b + x.sum() | (x * b) * y
"""
OTHER = """
x.masked_fill(x > 0, 0.0) | x.contiguous() | x.reshape(-1) | (x + 1).contiguous() * 2 | x.tril() | x.cumsum(0)
x.softmax(-1) | x.softmax(0) | x.log_softmax(-1) | x.sum(0) | x.sum(-1, keepdim=True) | x.mean(0, keepdim=True) | x.amax(0) | x.var(-1)
x - x.mean(-1, keepdim=True) | x / x.norm(dim=-1, keepdim=True) | x.max(0)[0] | x.argmax(0) | x.logsumexp(0) | torch.cat([x, y], 0)
F.layer_norm(x, x.shape[-1:]) | F.normalize(x, dim=-1) | torch.cat([x, x], -1) | torch.stack([x, y]) | x @ y.transpose(-1, -2)
x.gather(0, torch.zeros(x.shape, dtype=torch.int64)) | x.index_select(0, torch.tensor([0])) | x.repeat_interleave(2, 0) | F.pad(x, (1, 1))
"""
IMAGES = """
F.conv2d(x, w) | F.max_pool2d(x, 1) | F.avg_pool2d(x, 1) | F.batch_norm(x, None, None, training=True) | F.relu(F.conv2d(x, w)) * x[:, :1]
F.scaled_dot_product_attention(x, y, z) | F.scaled_dot_product_attention(x, x, x, is_causal=True) | x.mean((2, 3)) | F.softmax(x, 1)
F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])) | torch.cat([x, y], 1) | x + torch.ones(x.shape[1], 1, 1) | F.group_norm(x, 1)
"""


def listed(text):
    return [use.strip() for line in text.strip().splitlines() for use in line.split(" | ")]


def operand(rng, shape, channels_last):
    """An expression of a tensor of a shape: permuted, sliced or expanded memory."""
    rank = len(shape)
    order = list(range(rank))
    if channels_last:
        order = [0, *range(2, rank), 1]
    elif rng.random() < 0.7:
        rng.shuffle(order)
    base, widened, slices = [], [], []
    for i in order:
        kind = rng.random()
        slices.append(":" if kind >= 0.12 else f"1:{shape[i] + 1}")
        base.append(shape[i] + 2 if kind < 0.12 else 1 if kind < 0.18 and shape[i] > 1 else shape[i])
        widened.append(shape[i] + 2 if kind < 0.12 else shape[i])
    text = f"torch.ones({base})"
    if widened != base:
        text += f".expand({widened})"
    if any(s != ":" for s in slices):
        text += f"[{', '.join(slices)}]"
    if order != sorted(order):
        text += f".permute({[order.index(i) for i in range(rank)]})"
    return text


def cases(count=400, seed=7):
    """Programs as text: values of x, y, z, b and w, and an expression of them."""
    rng = random.Random(seed)
    out = []
    for i in range(count):
        uses = (ELEMENTWISE, OTHER, ELEMENTWISE, IMAGES)[i % 4]
        rank = 4 if uses is IMAGES else rng.choice([2, 3, 3, 4, 4, 5])
        shape = [rng.choice([1, 2, 3, 4, 5]) for _ in range(rank)]
        use = rng.choice(listed(uses))
        alike = rng.random() < 0.5  # all lie in one way
        last = rank == 4 and rng.random() < 0.4
        values = {"x": operand(rng, shape, last)}
        for name in "yz":
            values[name] = values["x"] if alike else operand(rng, shape, last and rng.random() < 0.7)
        broad = [1 if rng.random() < 0.4 else n for n in shape][rng.choice([0, 0, 1]) :]
        values["b"] = operand(rng, broad, False)
        values["w"] = f"torch.ones(2, {shape[1]}, 1, 1)"
        used = [n for n in "xyzbw" if n in names_in(use)]
        out.append("; ".join([*(f"{n} = {values[n]}" for n in used), use]))
    return out


def names_in(use):
    words = "".join(c if c.isalnum() or c in "_." else " " for c in use).split()
    return {word.split(".")[0] for word in words}


def told(text, torch):
    """How the result of a program lies: its strides, but for dimensions of one element, and whether it is contiguous."""
    *values, use = text.split("; ")
    names = {"torch": torch, "F": torch.nn.functional}
    for value in values:
        exec(value, names)
    try:
        out = eval(use, names)
    except (RuntimeError, IndexError, ValueError, NotImplementedError) as e:
        return f"raises {type(e).__name__}"
    strides = ["-" if n == 1 else str(s) for n, s in zip(out.shape, out.stride(), strict=True)]
    last = out.dim() == 4 and out.is_contiguous(memory_format=torch.channels_last)
    return " ".join(strides) + " rows" * out.is_contiguous() + " last" * last


if __name__ == "__main__":
    import torch

    GOLDEN.write_text(json.dumps({text: told(text, torch) for text in cases()}, indent=0) + "\n")
