"""What the ladder's programs share: weights that depend on no generator, training, and the line that they print."""

import json
import time

import torch


def fill(model):
    """Gives parameters numbers of their own, the same wherever it runs."""
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            n = torch.arange(p.numel(), dtype=torch.float64)
            scale = 0.3 / max(p.shape[-1] if p.dim() else 1, 1) ** 0.5
            values = torch.sin(n * 12.9898 + i * 4.1414) * scale + (0.5 if p.dim() == 1 and "norm" in _ else 0.0)
            p.copy_(values.reshape(p.shape).to(p.dtype))
    return model


def numbers(*shape):
    """Inputs, likewise."""
    n = 1
    for extent in shape:
        n *= extent
    return torch.cos(torch.arange(n, dtype=torch.float64) * 7.31).reshape(shape).float()


def tokens(rows, columns, vocabulary):
    """Token ids, likewise."""
    n = torch.arange(rows * columns)
    return ((n * 7919 + 13) % vocabulary).reshape(rows, columns)


def train(model, loss_of, steps=5, lr=1e-3):
    """The losses of a few steps of AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def say(**found):
    """Prints what the ladder compares."""
    print("LADDER " + json.dumps(found))


started = time.perf_counter()
