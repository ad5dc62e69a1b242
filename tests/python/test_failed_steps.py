"""A step that fails changes nothing: parameters, buffers, states, counts, schedulers, scalers and generators are as they
were, and what comes later runs.

With SMOLDER_TEST_DEVICE=cuda a device is tested, where the host may learn of it some steps later: with
SMOLDER_CUDA_HOST_LATE=N, on the device that is the host, N pieces of work later. SMOLDER_FAILED_STEPS is how many steps
the long runs have."""

import os
import random

import numpy as np
import pytest
from conftest import DEVICE, of_the_cpu

import smolder
from smolder import amp, nn, optim
from smolder.nn import functional as F

STEPS = int(os.environ.get("SMOLDER_FAILED_STEPS", 150))
ON_DEVICE = DEVICE != "cpu"

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "ASGD": lambda p: optim.ASGD(p, lr=0.01),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01),
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.5),
    "Adamax": lambda p: optim.Adamax(p, lr=0.01),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "Muon": lambda p: optim.Muon([matrix for matrix in p if matrix.dim() == 2], lr=0.01),
}


class Net(nn.Module):
    """An embedding, a convolution, running statistics, dropout and pooling, whose gradient adds at indices."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten()
        )
        self.head = nn.Linear(16, 5)

    def forward(self, tokens):
        return self.head(self.body(self.tokens(tokens).reshape(-1, 1, 4, 4)))


class Plain(nn.Module):
    """Without what an eager step has changed when it comes to its labels: statistics, and numbers that were drawn."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.hidden, self.head = nn.Linear(16, 12), nn.Linear(12, 5)

    def forward(self, tokens):
        return self.head(F.relu(self.hidden(self.tokens(tokens))))


class Training:
    """Steps of a net. `tier`: eager, recorded, marked, where the program ends steps itself, or compiled."""

    def __init__(self, make, tier, scaled=False, reads=True):
        smolder.manual_seed(0)
        self.reads = reads  # each loss, so that the host waits
        self.model, self.tier = Plain() if tier == "eager" else Net(), tier
        self.optimizer = make(self.model.parameters())
        self.schedule = optim.lr_scheduler.StepLR(self.optimizer, 3, 0.9)
        self.scaler = amp.GradScaler(DEVICE, init_scale=8.0, growth_interval=2, enabled=scaled)
        self.update = smolder.compile(self.plain_update) if tier == "compiled" else self.plain_update
        smolder.mark_step()

    def plain_update(self, tokens, labels):
        loss = F.cross_entropy(self.model(tokens), labels)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def step(self, number, wrong):
        rng = np.random.default_rng(number)
        tokens, labels = rng.integers(0, 11, (6,)), rng.integers(0, 5, (6,))
        if wrong:
            place = random.Random(number).choice(["label", "token", "last label"])
            (tokens if place == "token" else labels)[-1 if place == "last label" else 2] = 11 + number
        tokens, labels = smolder.tensor(tokens), smolder.tensor(labels)
        if self.tier == "eager":
            with smolder.eager():
                loss = self.update(tokens, labels)
            if self.reads:
                loss.item()
        else:
            loss = self.update(tokens, labels)
            if self.tier == "marked":
                self.schedule.step()
                smolder.mark_step()
                return
            if self.reads:
                loss.item()
        self.schedule.step()

    def state(self):
        smolder.mark_step()
        tensors = dict(self.model.state_dict())
        numbers = {"schedule": self.schedule.state_dict(), "scaler": self.scaler.state_dict()}
        numbers["lr"] = [g["lr"] for g in self.optimizer.param_groups]
        numbers["generator"] = smolder.get_rng_state().tolist()
        for i, values in self.optimizer.state_dict()["state"].items():
            for name, value in values.items():
                if isinstance(value, smolder.Tensor):
                    tensors[f"{i} {name}"] = value
                else:
                    numbers[f"{i} {name}"] = value
        return {name: t.detach().numpy().tobytes() for name, t in tensors.items()}, numbers


def ask():
    """A device tells of a failure when the host next asks."""
    if ON_DEVICE:
        smolder.cuda.synchronize()


def run(make, tier, steps, wrong, skip, scaled=False):
    training = Training(make, tier, scaled)
    for number in range(steps):
        if number not in wrong:
            training.step(number, False)
        elif not skip:
            with pytest.raises(IndexError, match=r"is not in \[0, (5|11)\)"):
                training.step(number, True)
                ask()
    return training.state()


def run_unwatched(make, tier, steps, wrong, scaled=False):
    """Goes on after each step, and does those again that are taken back when the host learns of one that failed."""
    training = Training(make, tier, scaled, reads=False)
    at, attempts = 0, []  # the next, and what was given since the last that failed
    while True:
        try:
            while at < steps:
                attempts.append(at)
                training.step(at, at in wrong)
                at += 1
            smolder.cuda.synchronize()
            return training.state()
        except IndexError as error:
            first = next(n for n in attempts if n in wrong)
            assert f"{11 + first} is not in" in str(error)
            wrong, at, attempts = wrong - {first}, first + 1, []


@pytest.mark.parametrize("tier", ["recorded", "marked", "compiled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_as_if_failed_steps_were_not(name, tier):
    wrong = {n for n in range(1, 24) if random.Random(n * 7).random() < 0.35}
    ours = run(OPTIMIZERS[name], tier, 24, wrong, skip=False)
    assert ours == run(OPTIMIZERS[name], tier, 24, wrong, skip=True)


def test_with_a_scaler():
    wrong = {2, 3, 7}
    ours = run(OPTIMIZERS["AdamW"], "marked", 10, wrong, skip=False, scaled=True)
    assert ours == run(OPTIMIZERS["AdamW"], "marked", 10, wrong, skip=True, scaled=True)


TIERS = ["recorded", "marked", "compiled", "eager"]


@pytest.mark.parametrize("tier", TIERS)
def test_failures_at_random_places(tier):
    """The seeds of the long runs that SMOLDER_FAILED_STEPS asks for."""
    wrong = {n for n in range(1, STEPS) if random.Random(n * 13).random() < 0.25}
    ours = run(OPTIMIZERS["AdamW"], tier, STEPS, wrong, skip=False)
    assert ours == run(OPTIMIZERS["AdamW"], tier, STEPS, wrong, skip=True)


@pytest.mark.skipif(not ON_DEVICE, reason="of a device: the host goes on")
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("tier", ["marked", "compiled", "eager"])
def test_steps_given_after_one_that_fails_are_taken_back(tier, name):
    wrong = {n for n in range(1, STEPS) if random.Random(n * 17).random() < 0.1}
    ours = run_unwatched(OPTIMIZERS[name], tier, STEPS, wrong)
    assert ours == run(OPTIMIZERS[name], tier, STEPS, wrong, skip=True)


def test_what_eager_mode_did_is_no_part_of_a_later_step_that_fails():
    model = nn.Linear(4, 3)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    x, label = smolder.ones(2, 4), smolder.tensor([0, 1])
    smolder.mark_step()
    with smolder.eager():
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(model(x), label).backward()
            optimizer.step()
    before = model.weight.detach().numpy().copy()
    with pytest.raises(IndexError, match=r"3 is not in \[0, 3\)"):
        F.cross_entropy(model(x), label + 2).item()
    assert (model.weight.detach().numpy() == before).all()
    assert optimizer.state[model.weight]["step"] == 2


@of_the_cpu("what is made in a step that fails there has no value")
@pytest.mark.parametrize("tier", ["recorded", "marked"])
def test_the_first_step_may_fail(tier):
    """Values made in it, as parameters are, are not lost."""
    smolder.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    x = smolder.tensor(np.ones((2, 4), "float32"))
    before = None
    for label in (3, 1):
        loss = F.cross_entropy(model(x), smolder.tensor([0, label]))
        optimizer.zero_grad()
        loss.backward()
        if label == 3:
            with pytest.raises(IndexError, match=r"3 is not in \[0, 3\)"):
                optimizer.step()
                smolder.mark_step()
            before = model.weight.detach().numpy().copy()
            assert optimizer.state_dict()["state"] == {}
        else:
            optimizer.step()
            assert optimizer.state[model.weight]["step"] == 1
    smolder.manual_seed(0)
    assert (before == nn.Linear(4, 3).weight.detach().numpy()).all()
    assert not (model.weight.detach().numpy() == before).all()


def test_messages_name_what_was_called():
    cases = {
        lambda: smolder.arange(5)[smolder.tensor([1, 7])]: (IndexError, "^index 7 is out of bounds"),
        lambda: smolder.zeros(4).index_add(0, smolder.tensor([9]), smolder.ones(1)): (
            IndexError,
            r"9 is not in \[0, 4\)",
        ),
        lambda: F.embedding(smolder.tensor([-1]), smolder.ones(3, 2)): (IndexError, r"-1 is not in \[0, 3\)"),
        lambda: F.cross_entropy(smolder.ones(2, 3), smolder.tensor([0, 3])): (
            IndexError,
            r"cross_entropy: 3 is not in",
        ),
        lambda: smolder.multinomial(smolder.tensor([1.0, -1.0]), 1): (RuntimeError, "^multinomial: probability tensor"),
        lambda: F.binary_cross_entropy(smolder.tensor([1.5]), smolder.ones(1)): (
            RuntimeError,
            "^binary_cross_entropy: all",
        ),
    }
    for make, (error, text) in cases.items():
        with pytest.raises(error, match=text) as told:
            make().tolist()
        assert "checked_samples" not in str(told.value)
        assert ("index" in str(told.value)) == (error is IndexError)
        with smolder.eager(), pytest.raises(error, match=text):
            make()
            ask()


def test_a_result_of_a_failed_step_says_why():
    x = smolder.arange(3.0)
    kept = x + 1
    bad = x[smolder.tensor([5])]
    after = bad * 2
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        smolder.mark_step()
        ask()
    assert kept.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="computed by a step that failed"):
        after.tolist()


def caches_after(position, layers=3):
    """Caches that a step writes at one position, and how many of them it wrote in place."""
    caches = [smolder.full((8, 4), float(i)) for i in range(2 * layers)]
    smolder.mark_step()
    before = smolder.metrics()["counters"].get("memory.donated", 0)
    at = smolder.tensor([position])
    for i, cache in enumerate(caches):
        cache.index_copy_(0, at, smolder.full((1, 4), 10.0 + i))
    try:
        smolder.mark_step()
        ask()
    except IndexError as error:
        assert "20" in str(error)
    return [c.tolist() for c in caches], smolder.metrics()["counters"]["memory.donated"] - before


def test_caches_of_many_layers_are_written_in_place():
    values, in_place = caches_after(3)
    assert in_place == 6
    assert all(v[3] == [10.0 + i] * 4 and v[2] == [float(i)] * 4 for i, v in enumerate(values))


def test_caches_keep_what_they_have_when_the_position_is_out_of_range():
    values, _ = caches_after(20)
    assert values == [[[float(i)] * 4] * 8 for i in range(6)]
