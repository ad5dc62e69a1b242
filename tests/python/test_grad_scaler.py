"""Scaling of gradients: nothing waits, nothing is compiled twice, nothing changes in a step that is skipped. What torch
does: sweeps/grad_scaler.py."""

import numpy as np
import pytest
from conftest import compiled, of_the_cpu
from op_rows import ROOT
from test_cuda import on_a_device

import smolder
from smolder import nn
from smolder.nn import functional as F

OPTIMIZERS = {
    "SGD": lambda p: smolder.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: smolder.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: smolder.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: smolder.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Adagrad": lambda p: smolder.optim.Adagrad(p, lr=0.01),
    "Adadelta": lambda p: smolder.optim.Adadelta(p, lr=0.5),
    "Adamax": lambda p: smolder.optim.Adamax(p, lr=0.01),
    "NAdam": lambda p: smolder.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: smolder.optim.RAdam(p, lr=0.01),
}
ON = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_device)])
ALL = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)


def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def syncs():
    return smolder.metrics()["counters"].get("syncs", 0)


class Training:
    """Steps in float16, with a loss that is multiplied by a number at will."""

    def __init__(self, make, device="cpu", **options):
        self.device = device
        self.model = model().to(device)
        self.optimizer = make(self.model.parameters())
        self.scaler = smolder.amp.GradScaler(device, **options)
        self.x, self.y = smolder.randn(16, 4).to(device), smolder.randint(0, 2, (16,)).to(device)

    def step(self, factor=1.0):
        self.optimizer.zero_grad()
        with smolder.autocast(self.device, dtype=smolder.float16):
            loss = F.cross_entropy(self.model(self.x), self.y)
        self.scaler.scale(loss * factor).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def everything(self):
        """Copies of the parameters and of the optimizer's state, by value."""
        state = [v for s in self.optimizer.state.values() for v in s.values() if v is not None]
        return [
            np.array(t.tolist() if isinstance(t, smolder.Tensor) else t) for t in (*self.model.parameters(), *state)
        ]


@ON
@ALL
def test_a_step_waits_for_nothing_and_compiles_nothing_anew(make, device):
    training = Training(make, device)
    smolder.mark_step()  # as the device is to know: else the first step of the optimizer ends one
    kernels, before = [], syncs()  # moving to a device reads what is moved
    for i in range(10):
        training.step(float("inf") if i in (4, 7) else 1.0)
        assert syncs() == before, "the step itself read a value"
        smolder.mark_step()
        kernels.append(compiled())
        before = syncs()
    assert kernels[-1] == kernels[1], "a step after the first two compiled kernels"


@pytest.fixture(autouse=True)
def counted():
    smolder.mark_step()
    smolder.reset_metrics()


@ON
@ALL
def test_a_skipped_step_changes_nothing(make, device):
    training = Training(make, device, init_scale=16.0)
    for _ in range(3):
        training.step()
    before = training.everything()
    training.step(float("nan"))
    after = training.everything()
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert training.scaler.get_scale() == 8.0
    training.step()
    assert any((a != b).any() for a, b in zip(after, training.everything(), strict=True))


@ALL
def test_as_without_a_scaler_where_all_is_finite(make):
    """A scale that is a power of two changes no bit of float32, of the gradients or of what is made of them."""

    def run(scaled):
        smolder.manual_seed(1)
        p = smolder.randn(5).requires_grad_()
        optimizer, scaler = make([p]), smolder.amp.GradScaler("cpu", init_scale=4.0, enabled=scaled)
        for _ in range(5):
            optimizer.zero_grad()
            scaler.scale((p * p).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return p.detach().numpy()

    np.testing.assert_allclose(run(True), run(False), rtol=2e-6, atol=1e-7)


@ON
def test_it_learns_in_float16(device):
    training = Training(OPTIMIZERS["AdamW"], device, init_scale=2.0**20)  # too much for float16 at first
    losses = [training.step().item() for _ in range(60)]
    assert losses[-1] < 0.8 * losses[0]
    assert training.scaler.get_scale() < 2.0**20


def test_state_goes_on_where_it_was_saved():
    whole = Training(OPTIMIZERS["Adam"], growth_interval=3)
    part = Training(OPTIMIZERS["Adam"], growth_interval=3)
    part.model.load_state_dict(whole.model.state_dict())
    part.x, part.y = whole.x, whole.y
    for i in range(4):
        whole.step(float("inf") if i == 1 else 1.0)
        part.step(float("inf") if i == 1 else 1.0)
    saved = part.optimizer.state_dict(), part.scaler.state_dict()
    part.optimizer = OPTIMIZERS["Adam"](part.model.parameters())
    part.scaler = smolder.amp.GradScaler("cpu")
    part.optimizer.load_state_dict(saved[0])
    part.scaler.load_state_dict(saved[1])
    for _ in range(3):
        whole.step()
        part.step()
    assert whole.scaler.state_dict() == part.scaler.state_dict()
    for a, b in zip(whole.model.parameters(), part.model.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_a_scheduler_may_watch():
    training = Training(OPTIMIZERS["SGD"])
    scheduler = smolder.optim.lr_scheduler.StepLR(training.optimizer, 2)
    smolder.mark_step()
    before = syncs()
    for _ in range(3):
        training.step()
        scheduler.step()
    assert syncs() - before <= 1  # an optimizer's step ends steps where the program does not mark them
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_an_optimizer_of_the_program_is_not_called():
    calls = []

    class Own(smolder.optim.SGD):
        def step(self):
            calls.append(1)
            super().step()

    training = Training(lambda p: Own(p, lr=0.1))
    for factor in (1.0, float("inf"), 1.0):
        training.step(factor)
    assert len(calls) == 2


def test_mistakes():
    training = Training(OPTIMIZERS["SGD"])
    scaler, optimizer = training.scaler, training.optimizer
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimizer)
    scaler.scale(training.model(training.x).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)"):
        scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        smolder.amp.GradScaler.update(scaler)
    half = smolder.ones(2).half().requires_grad_()
    scaler.scale((half * 2).float().sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(smolder.optim.SGD([half]))
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: 1)


@pytest.mark.skipif(smolder.cuda.is_available(), reason="CUDA is available here")
def test_without_cuda_the_default_scales_nothing():
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        scaler = smolder.amp.GradScaler()
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.scale(3) == 3


@of_the_cpu("the page's region is of the CPU")
def test_the_page_shows_what_happens(capsys):
    _, code, _, shown, *_ = (ROOT / "docs/amp.md").read_text().split("```")
    exec(code.removeprefix("python"), {})
    assert capsys.readouterr().out.strip() == shown.strip()
