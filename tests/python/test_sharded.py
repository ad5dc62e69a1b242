"""Meshes, sharded parameters, DTensors, checkpoints and pipelines, of several processes: see sharded_programs.py."""

import os
import random
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from test_distributed import ended, errors_of, run, start

import smolder
from smolder import distributed as dist
from smolder import nn
from smolder.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from smolder.distributed.fsdp import wrap

PROGRAMS = Path(__file__).with_name("sharded_programs.py")
LIMIT = 300  # seconds: nothing takes as long but what is stuck
# The tests are of many processes, not of kernels: these are compiled where two processes run, which costs more than all else.
SMALL = {"SMOLDER_BACKEND": "interpret"}
pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="built without Gloo")


def test_programs(tmp_path):
    """Processes are started once for each number of them. What three saved, two and four go on from."""
    folder = {"FOLDER": str(tmp_path)}
    three = "fsdp_more,fsdp_meta,dtensor,complex,save,save_killed"  # the last one is cut off; load_killed looks at what it left
    errors, out = errors_of(start(three, 3, PROGRAMS, **folder, **SMALL), LIMIT)
    assert set(errors) == {0, 2} and all("rank 1 has left" in text for text in errors.values()), out
    two = "load,load_killed,fsdp,fsdp_dropped,fsdp_meta,fsdp_recomputed,fsdp_wrapped,fsdp_compiled,tensor_parallel,pipeline"
    run(two, 2, PROGRAMS, LIMIT, **folder)
    run("load,mesh,hsdp,dtensor,dp_tp,pipeline", 4, PROGRAMS, LIMIT, **folder, **SMALL)


def test_example(tmp_path):
    """Four processes have the losses of one, and one goes on where they ended."""
    example = str(PROGRAMS.parents[2] / "examples" / "parallel_gpt.py")
    given = [example, "--steps", "3", "--checkpoint"]
    four = [sys.executable, "-m", "smolder.distributed.run", "--nproc-per-node", "4", *given, str(tmp_path / "four")]
    env = {**os.environ, **SMALL, "SMOLDER_NUM_THREADS": "1"}
    said = [
        subprocess.run(c, capture_output=True, text=True, timeout=LIMIT, check=True, env=env).stdout
        for c in (
            [*four, "--mesh", "dp=2,tp=2"],
            [sys.executable, *given, str(tmp_path / "one")],
            [sys.executable, *given, str(tmp_path / "four")],
        )
    ]
    losses = [[float(x) for x in re.findall(r"loss ([\d.]+)", text)] for text in said]
    assert len(losses[0]) == 1 and losses[0] == pytest.approx(losses[1], abs=2e-3), said
    assert "step 6:" in said[2] and losses[2][0] < losses[0][0], said


@pytest.mark.parametrize(("kind", "signal"), [("fsdp", "SIGKILL"), ("pipeline", "SIGKILL"), ("tensor", "SIGSTOP")])
def test_faults(kind, signal):
    """A rank that is killed or stopped at any moment is named by all others. SMOLDER_TEST_FAULTS: how often.

    Ends do not depend on clocks: the group's own timeout of a rank that is killed is twice LIMIT, so what ends before it was
    told. The rank that serves the store is not stopped: its sockets are waited for as long as all else was at the start.
    """
    rng = random.Random(f"{kind} {os.environ.get('SEED', 0)}")
    size = 3 if kind == "pipeline" else 2
    for _ in range(int(os.environ.get("SMOLDER_TEST_FAULTS", "1"))):
        victim, wait = rng.randrange(signal == "SIGSTOP", size), rng.uniform(0, 0.5)
        given = {"KIND": kind, "SIGNAL": signal, "VICTIM": str(victim), "WAIT": str(wait)}
        processes = start("faults", size, PROGRAMS, **given, **SMALL)
        try:
            texts = ended([p for r, p in enumerate(processes) if r != victim], LIMIT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{given}: a rank waits for ever")
        finally:
            processes[victim].kill()
            processes[victim].communicate()
        for text in texts:
            found = re.search(r"^error (.*)", text, re.M)
            assert found and f"rank {victim}" in found[1], (given, text[-4000:])


# -- of one process


class Layer(nn.Module):
    """120 elements."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(10, 10), nn.Linear(4, 2)

    def forward(self, x, *, scale=1.0):
        return self.b(self.a(x)[:, :4].tanh()) * scale


def chosen(policy, ignored=()):
    model = nn.Sequential(Layer(), nn.ModuleList([Layer(), nn.Linear(11, 10)]), nn.Linear(2, 2))
    names = {m: n for n, m in model.named_modules()}
    return [names[m] for m in wrap.chosen(model, policy, {model.get_submodule(n) for n in ignored})]


def test_wrap_policies():
    """Which modules policies choose, as torch's wrapping from the inside out does."""
    layers = ["0", "1.0"]
    assert chosen(wrap.ModuleWrapPolicy({Layer})) == layers
    assert chosen(partial(wrap.transformer_auto_wrap_policy, transformer_layer_cls={Layer})) == layers
    assert chosen(partial(wrap.lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, Layer))) == layers
    assert chosen(wrap.ModuleWrapPolicy({Layer}), ignored=["1"]) == ["0"]
    assert chosen(wrap.always_wrap_policy) == ["0.a", "0.b", "0", "1.0.a", "1.0.b", "1.0", "1.1", "1", "2"]
    sized = partial(wrap.size_based_auto_wrap_policy, min_num_params=115)
    assert chosen(sized) == ["0", "1.0", "1.1"]  # a list is not wrapped, and the rest is too small
    assert chosen(sized, ignored=["1.0.a"]) == ["0", "1.1"]
    assert chosen(partial(sized, force_leaf_modules={Layer})) == ["1.1"]
    assert chosen(partial(sized, exclude_wrap_modules={nn.Linear})) == ["0", "1.0", "1"]
    assert chosen(wrap.CustomPolicy(lambda m: isinstance(m, nn.ModuleList))) == ["1"]
    assert chosen(wrap.CustomPolicy(lambda m: {})) == []
    with pytest.raises(ValueError, match="False/True or a kwarg dict, but it returned 1"):
        chosen(wrap.CustomPolicy(lambda m: 1))
    with pytest.raises(NotImplementedError, match="options of single modules"):
        chosen(wrap.CustomPolicy(lambda m: {"mixed_precision": None}))


@pytest.mark.parametrize("impl", CheckpointImpl)
def test_checkpoint_wrapper(impl):
    """Gradients, names and state are those of the module, which runs once more in backward."""
    plain = nn.Sequential(Layer(), nn.Linear(2, 1))
    model = nn.Sequential(Layer(), nn.Linear(2, 1))
    apply_activation_checkpointing(model, partial(checkpoint_wrapper, checkpoint_impl=impl), lambda m: m is model[0])
    assert isinstance(model[0], CheckpointWrapper) and model[0].a.in_features == 10 and type(model[1]) is nn.Linear
    model.load_state_dict(plain.state_dict())
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in model[0].named_parameters()] == [n for n, _ in plain[0].named_parameters()]
    runs = []
    model[0].a.register_forward_hook(lambda *_: runs.append(1))
    x, y = (smolder.arange(30.0).reshape(3, 10).div(30).requires_grad_() for _ in range(2))
    model[1](model[0](x, scale=2.0)).square().sum().backward()
    plain[1](plain[0](y, scale=2.0)).square().sum().backward()
    assert len(runs) == 2
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_activation_checkpointing_chooses():
    model = nn.Sequential(Layer(), nn.Linear(2, 2))
    apply_activation_checkpointing(model, auto_wrap_policy=wrap.ModuleWrapPolicy({nn.Linear}))
    wrapped = [n for n, m in model.named_modules() if isinstance(m, CheckpointWrapper)]
    assert wrapped == ["0.a", "0.b", "1"]
    calls = []
    wrapped = checkpoint_wrapper(nn.Sequential(nn.Tanh()), checkpoint_fn=lambda f, x, k: calls.append(k) or f(x), k=3)
    assert wrapped(smolder.zeros(2)).shape == (2,) and calls == [3] and isinstance(wrapped[0], nn.Tanh)


def test_options_that_change_what_is_done_are_refused_by_name(tmp_path):
    saving, reader = dist.checkpoint, dist.checkpoint.FileSystemReader(tmp_path)
    writer = dist.checkpoint.FileSystemWriter(tmp_path)
    refused = {
        "coordinator_rank=1": lambda: saving.load_state_dict({}, reader, coordinator_rank=1),
        "save_state_dict": lambda: saving.save_state_dict({}, writer, coordinator_rank=1),
        "async_stager": lambda: saving.async_save({}, checkpoint_id=tmp_path, async_stager=object()),
        "layout": lambda: dist.tensor.zeros(2, layout=smolder.sparse_coo),
        "offload_params": lambda: dist.fsdp.FullyShardedDataParallel(
            nn.Linear(1, 1), cpu_offload=dist.fsdp.CPUOffload(offload_params=True)
        ),
    }
    for words, call in refused.items():
        with pytest.raises(NotImplementedError, match=words):
            call()
