"""Library calls read memory by strides: operands through chains of movement, of which others are in memory, too."""

import random

import pytest

import smolder
from smolder import cuda
from smolder.nn import functional as F

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")),
]
PROGRAMS = 25  # a test
MOVES = ("permute", "reshape", "merge", "slice", "flip", "expand", "unsqueeze", "select", "pad", "cat", "keep")


class Program:
    """A random program of whole numbers, which are exact on every device; `results` is what it holds at its end."""

    def __init__(self, seed, device):
        self.r, self.device = random.Random(seed), device
        self.results = []

    def run(self):
        r = self.r
        pool = [
            smolder.arange(24, device=self.device).reshape(2, 3, 4) % 9,
            smolder.arange(30, device=self.device).reshape(5, 6) * 7 % 10,
            smolder.arange(60, device=self.device).reshape(6, 10)[1:, 2:] % 8,
        ]
        smolder.mark_step()
        if r.random() < 0.5:  # leaves that are strided
            pool = [pool[0].permute(2, 0, 1), pool[1].t(), pool[2][:, ::2]]
        if r.random() < 0.5:
            smolder.mark_step()
        for _ in range(r.randint(2, 7)):
            x = self.moved(r.choice(pool), r.randint(0, 5))
            if r.random() < 0.6:
                pool.append(x)
            y = r.choice([self.scan, self.sort, self.product, self.scatter, self.bag, self.convolution])(x, pool) % 11
            self.results.append(y)
            pool.append(y.reshape(1, 1) if y.dim() == 0 else y)
        self.results += [x for x in pool if r.random() < 0.5]
        smolder.mark_step()
        return [x.tolist() for x in self.results]

    def moved(self, x, times):
        for _ in range(times):
            x = self.move(x, self.r.choice(MOVES))
            x = x.flatten(0, 1) if x.dim() > 4 else x
        return x

    def move(self, x, kind):
        r, d, small = self.r, x.dim(), x.numel() < 100
        axis = r.randrange(d)
        if kind == "permute":
            return x.permute(*r.sample(range(d), d))
        if kind == "reshape":
            rows = r.choice([n for n in range(1, x.numel() + 1) if x.numel() % n == 0])
            return x.reshape(rows, x.numel() // rows)
        if kind == "merge" and axis + 1 < d:
            return x.flatten(axis, axis + 1)
        if kind == "slice" and x.shape[axis] > 1:
            begin = r.randrange(x.shape[axis])
            end = r.randrange(begin + 1, x.shape[axis] + 1)
            return x[(slice(None),) * axis + (slice(begin, end, r.choice([1, 1, 2])),)]
        if kind == "flip":
            return x.flip(axis)
        if kind == "expand" and small:
            return x.unsqueeze(0).expand(r.choice([2, 3]), *x.shape)
        if kind == "unsqueeze":
            return x.unsqueeze(axis)
        if kind == "select" and d > 1:
            return x.select(axis, 0)
        if kind == "pad" and small:
            return F.pad(x, (1, 0))
        if kind == "cat" and small:
            return smolder.cat((x, x), axis)
        if kind == "keep":
            self.results.append(x)
        return x

    def vector(self, pool, n):
        x = self.moved(self.r.choice(pool), 3).reshape(-1)
        return x[:n] if x.numel() >= n else x.repeat(n // x.numel() + 1)[:n]

    def scan(self, x, pool):
        return x.cumsum(self.r.randrange(x.dim()))

    def sort(self, x, pool):
        return x.sort(self.r.randrange(x.dim()), stable=True)[self.r.randrange(2)]

    def product(self, x, pool):
        rows = x.float().reshape(-1, x.shape[-1])
        weight = self.vector(pool, rows.shape[1] * 3).float()
        weight = weight.reshape(rows.shape[1], 3) if self.r.random() < 0.5 else weight.reshape(3, rows.shape[1]).t()
        return (rows @ weight).long()

    def scatter(self, x, pool):
        index = (x % 7).reshape(-1) if self.r.random() < 0.3 else x.reshape(-1)
        source = self.vector(pool, index.numel())
        base = smolder.zeros(40 if self.r.random() < 0.5 else 1, dtype=smolder.int64, device=self.device).expand(40)
        return self.r.choice([base.index_add, base.scatter_add])(0, index, source).reshape(4, 10)

    def bag(self, x, pool):
        weight = smolder.ones(50, 3, device=self.device).requires_grad_()
        out = F.embedding_bag(x.reshape(-1, x.shape[-1]), weight, mode=self.r.choice(["sum", "mean"]))
        if self.r.random() < 0.5:
            out = smolder.autograd.grad((out * smolder.arange(3.0, device=self.device)).sum(), weight)[0]
        return out.long()

    def convolution(self, x, pool):
        images = x.float().reshape(1, -1, 1, x.shape[-1])
        weight = self.vector(pool, 2 * images.shape[1]).float().reshape(2, images.shape[1], 1, 1)
        return F.conv2d(images, weight).long()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", range(0, 100, PROGRAMS))
def test_operands_through_chains_of_movement(first, device):
    for seed in range(first, first + PROGRAMS):
        ours = Program(seed, device).run()
        with smolder.eager():
            assert ours == Program(seed, "cpu").run(), f"program {seed}"


@pytest.mark.parametrize("device", DEVICES)
def test_an_operand_of_what_another_asks_for(device):
    """As a view of the leaf the operand is dense; as one of the turned copy, which is held too, it is not."""
    x = smolder.arange(24.0, device=device).reshape(4, 6)
    smolder.mark_step()
    turned = x.flip(0).t()[:, 1:]
    back = turned.t().flip(0).reshape(-1)
    sums = back.cumsum(0)
    assert turned.tolist() == x.cpu().numpy()[::-1].T[:, 1:].tolist()
    assert sums.tolist() == x.cpu().numpy()[:3].reshape(-1).cumsum().tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_tables_of_a_recommender(device):
    """26 tables whose bags are columns of one matrix, in all of which the gradient adds. (On the CPU 13: the code generator
    takes five times as long for twice as many.)"""
    smolder.manual_seed(0)
    count = 26 if device == "cuda" else 13
    tables = [smolder.randn(50, 4, device=device).requires_grad_() for _ in range(count)]
    which = smolder.randint(0, 50, (8, count, 3)).to(device)
    smolder.mark_step()
    bags = [F.embedding_bag(which[:, k], table, mode="sum") for k, table in enumerate(tables)]
    crossed = smolder.stack(bags, 1)
    loss = smolder.bmm(crossed, crossed.transpose(1, 2)).tril(-1).sum()
    gradients = smolder.autograd.grad(loss, tables)
    smolder.mark_step()
    with smolder.eager():
        again = [t.detach().cpu().requires_grad_() for t in tables]
        there = which.cpu()
        crossed = smolder.stack([F.embedding_bag(there[:, k], t, mode="sum") for k, t in enumerate(again)], 1)
        want = smolder.autograd.grad(smolder.bmm(crossed, crossed.transpose(1, 2)).tril(-1).sum(), again)
        for ours, theirs in zip(gradients, want, strict=True):
            assert smolder.allclose(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)
