"""CUDA: calls of one kernel that run in one launch, as those of an optimizer, change no bit, and are told apart."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import assert_same_bits
from test_cuda import on_a_device

import smolder
from smolder import nn
from smolder.nn import functional as F
from smolder.profiler import profile

pytestmark = on_a_device

TRAIN = """
import hashlib, sys
import smolder
from smolder import nn

kind, how = sys.argv[1:]
smolder.manual_seed(0)
widths = [24, 40, 64, 7, 1, 10]
layers = [nn.Linear(a, b, device="cuda") for a, b in zip(widths, widths[1:])]
net = nn.Sequential(*[x for layer in layers for x in (layer, nn.ReLU() if kind == "AdamW" else nn.Tanh())])
x, y = smolder.randn(16, 24, device="cuda"), smolder.arange(16, device="cuda") % 10
# One parameter twice, and one that begins where no chunk of elements does.
odd = nn.Parameter(smolder.randn(1001, device="cuda")[1:])
parameters = [*net.parameters(), odd]
optimizer = getattr(smolder.optim, kind)(parameters, lr=0.01, **({"momentum": 0.9} if kind == "SGD" else {}))

def step():
    optimizer.zero_grad()
    with smolder.autocast("cuda", smolder.bfloat16, enabled=kind == "Adam"):
        loss = nn.functional.cross_entropy(net(x), y) + (odd * odd).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    return loss

run = smolder.compile(step) if how == "compiled" else step
losses = []
for _ in range(5):
    losses.append(run())
    smolder.mark_step()
digest = hashlib.sha256(str([x.item() for x in losses]).encode())
for p in parameters:
    digest.update(p.detach().cpu().numpy().tobytes())
print(digest.hexdigest())
"""


def trained(kind, how, **environment):
    out = subprocess.run(
        [sys.executable, "-c", TRAIN, kind, how], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.mark.parametrize("kind", ["AdamW", "Adam", "SGD"])
@pytest.mark.parametrize("how", ["recorded", "compiled"])
def test_training_has_the_same_bits(kind, how):
    apart = trained(kind, how, SMOLDER_DISABLE="together,join_bias")
    assert len(apart) == 65
    assert trained(kind, how) == apart
    if how == "recorded":
        assert trained(kind, how, CUDA_LAUNCH_BLOCKING="1") == apart
        assert trained(kind, how, SMOLDER_CUDA_GRAPHS="0") == apart


def launches_of(step):
    step()
    smolder.mark_step()
    kernels = [k for g in smolder.explain(step)().graphs for k in g.kernels]
    found = {}
    for k in kernels:
        found.setdefault(k.launch, []).append(k)
    return list(found.values())


def test_an_optimizer_is_one_launch():
    weights = [nn.Parameter(smolder.randn(n, device="cuda")) for n in (5, 1000, 17, 4096, 3)]
    for w in weights:
        w.grad = smolder.ones_like(w)
    optimizer = smolder.optim.AdamW(weights)
    smolder.mark_step()
    optimizer.step()
    smolder.mark_step()
    together = [kernels for kernels in launches_of(optimizer.step) if len(kernels) > 1]
    assert [len(kernels) for kernels in together] == [5]
    assert {k.key for k in together[0]} == {together[0][0].key}


def test_long_rows_side_by_side():
    """Rows that wait in shared memory."""
    x = [smolder.randn(rows, 20000, device="cuda").to(smolder.bfloat16) for rows in (3, 2, 6)]
    smolder.mark_step()
    kept = []

    def step():
        kept[:] = [smolder.softmax(t, 1) for t in x]

    assert [len(kernels) for kernels in launches_of(step)] == [3]
    for t, got in zip(x, kept, strict=True):
        alone = smolder.softmax(t, 1)
        smolder.mark_step()
        assert_same_bits(got.cpu().float().numpy(), alone.cpu().float().numpy())


def test_groups_have_numbers_of_their_own():
    def trained_on(device):
        weights = [nn.Parameter(smolder.ones(n, device=device)) for n in (5, 70, 5, 300, 9)]
        groups = [{"params": [w], "lr": lr} for w, lr in zip(weights, (0.1, 0.1, 0.2, 0.1, 0.3), strict=True)]
        optimizer = smolder.optim.AdamW(groups)
        for _ in range(4):
            for w in weights:
                w.grad = w.detach() * 0.5
            optimizer.step()
        return [w.detach().cpu() for w in weights]

    for got, want in zip(trained_on("cuda"), trained_on("cpu"), strict=True):
        smolder.testing.assert_close(got, want)


def test_a_bad_index_is_told_with_its_own_line():
    table = smolder.randn(10, 8, device="cuda")
    good, bad = smolder.tensor([1, 2, 3], device="cuda"), smolder.tensor([1, 20, 3], device="cuda")
    smolder.mark_step()
    first = F.embedding(good, table)
    with pytest.raises(IndexError) as error:
        second = F.embedding(bad, table)
        third = F.embedding(good, table)
        print(first.tolist(), second.tolist(), third.tolist())
    line = re.search(r"test_cuda_together\.py:(\d+)", str(error.value))
    lines = Path(__file__).read_text().splitlines()
    assert line and "second = " in lines[int(line[1]) - 1], error.value


def test_each_step_has_a_span():
    x = [smolder.randn(n, 64, device="cuda") for n in (3, 50, 700)]
    smolder.mark_step()
    for _ in range(2):
        with profile() as prof:
            y = [v.exp() for v in x]
            smolder.mark_step()
    steps = [e for e in prof.events() if e.span.queued]
    assert sorted(e.step for e in steps) == [0, 1, 2] and len({e.flow for e in steps}) == 1
    [host] = [e for e in prof.events() if e.name.startswith("queue ") and not e.span.queued]
    assert host.name.endswith(" and 2 like it") and len(host.kernels) == 3
    assert sorted(e.bytes for e in steps) == [2 * 4 * v.numel() for v in x]
    assert len(y) == 3
