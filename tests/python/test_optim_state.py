"""Counts of steps as programs read, write, save and load them: torch's tensors of one element."""

import copy
import io
import pickle

import pytest
from torch_peer import needs_torch, run_here, run_torch

import smolder
from smolder import nn, optim

COUNTING = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"]


def trained(kind="Adam", steps=3, **options):
    """A parameter and its optimizer after some steps."""
    p = nn.Parameter(smolder.tensor([1.0, -2.0, 3.0]))
    optimizer = getattr(optim, kind)([p], **options)
    go(p, optimizer, steps)
    return p, optimizer


def go(p, optimizer, steps=1):
    for i in range(steps):
        p.grad = smolder.tensor([0.5, -0.1, 0.3]) * (i + 1)
        optimizer.step()


@pytest.mark.parametrize("kind", COUNTING)
def test_a_count_is_a_tensor_however_it_is_read(kind):
    for read in (
        lambda s: s["step"], lambda s: s.get("step"), lambda s: dict(s)["step"], lambda s: {**s}["step"],
        lambda s: dict(s.items())["step"], lambda s: s.copy()["step"], lambda s: copy.copy(s)["step"],
        lambda s: copy.deepcopy(s)["step"], lambda s: pickle.loads(pickle.dumps(dict(s)))["step"],
        lambda s: next(v for v in s.values() if v.dim() == 0 and v == 3), lambda s: (s | {})["step"],
        lambda s: s.setdefault("step", 0), lambda s: s.pop("step"),
    ):  # fmt: skip
        p, optimizer = trained(kind)
        step = read(optimizer.state[p])
        assert isinstance(step, smolder.Tensor) and step.dtype == smolder.float32 and step.shape == ()
        assert step.item() == 3
    p, optimizer = trained(kind)
    assert optimizer.state_dict()["state"][0]["step"].item() == 3


CODE = """
kinds = {kinds}
out = {{}}
for kind in kinds:
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    o = getattr(torch.optim, kind)([p])
    for i in range(2):
        p.grad = torch.tensor([0.5, -0.1, 0.3])
        o.step()
    told = [[k, str(v.dtype).partition(".")[2], list(v.shape)] for k, v in o.state_dict()["state"][0].items() if v is not None]
    out[kind] = sorted(told)
"""


@needs_torch
def test_states_have_the_names_dtypes_and_shapes_that_torchs_have():
    code = CODE.format(kinds=COUNTING)
    assert run_here(code) == run_torch(code)


@pytest.mark.parametrize("kind", COUNTING)
def test_reading_a_count_changes_no_bit(kind):
    p, optimizer = trained(kind)
    q, other = trained(kind)
    for _ in range(3):
        other.state_dict()
        go(p, optimizer)
        go(q, other)
    assert p.tolist() == q.tolist()


@pytest.mark.parametrize("write", ["item", "in place", "added", "update"])
@pytest.mark.parametrize("compile", [False, True])
def test_a_count_that_is_written_is_gone_on_from(write, compile):
    def run(written):
        p = nn.Parameter(smolder.tensor([1.0, -2.0, 3.0]))
        optimizer = optim.Adam([p], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            (p * x).square().sum().backward()
            optimizer.step()

        step = smolder.compile(step) if compile else step
        for i in range(9):
            step(smolder.full((3,), 1.0 + i))
            state = optimizer.state[p]
            if i != 5 or not written:
                continue
            if write == "item":
                state["step"] = smolder.tensor(0.0)
            elif write == "in place":
                state["step"].zero_()
            elif write == "added":
                state["step"] += -6
            else:
                state.update(step=smolder.tensor(0.0))
        return p.tolist(), optimizer.state[p]["step"].item()

    (numbers, count), (before, whole) = run(True), run(False)
    assert (count, whole) == (3, 9) and numbers != before
    assert count == 3


def test_a_program_may_put_its_own_numbers_and_dicts():
    p, optimizer = trained()
    optimizer.state[p]["step"] = 7
    assert optimizer.state[p]["step"] == 7 and type(optimizer.state[p]["step"]) is int
    go(p, optimizer)
    assert optimizer.state[p]["step"].item() == 8
    optimizer.state[p] = {"step": smolder.tensor(1.0), **{k: v for k, v in optimizer.state[p].items() if k != "step"}}
    go(p, optimizer)
    assert optimizer.state[p]["step"].item() == 2


def test_an_optimizer_of_ones_own_keeps_what_it_keeps():
    class Counts(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["step"] = state.get("step", 0) + 1
                    state["mu"] = smolder.tensor(2.5, dtype=smolder.float64)

    p = nn.Parameter(smolder.ones(2))
    optimizer = Counts([p])
    optimizer.step()
    assert type(optimizer.state[p]) is dict and type(optimizer.state[p]["step"]) is int
    optimizer.state[p]["step"] = smolder.tensor(4.0)
    other = Counts([p])
    other.load_state_dict(optimizer.state_dict())
    assert isinstance(other.state[p]["step"], smolder.Tensor)
    other.step()
    assert other.state[p]["step"].item() == 5


def test_counts_are_saved_each_by_itself_after_steps_that_may_be_skipped():
    a, b = (nn.Parameter(smolder.ones(2)) for _ in range(2))
    optimizer = optim.Adam([a, b])
    optimizer._skip = smolder.tensor(False)
    for p in (a, b):
        p.grad = smolder.ones(2)
    optimizer.step()
    file = io.BytesIO()
    smolder.save(optimizer.state_dict(), file)
    file.seek(0)
    one, two = (state["step"] for state in smolder.load(file)["state"].values())
    one.add_(1)
    assert (one.item(), two.item()) == (2, 1)


def test_a_whole_optimizer_is_copied_with_its_counts():
    p, optimizer = trained()
    model = copy.deepcopy({"p": p, "o": optimizer})
    q, other = model["p"], model["o"]
    go(p, optimizer)
    go(q, other)
    assert p.tolist() == q.tolist() and other.state[q]["step"].item() == 4


def test_counts_that_are_read_in_inference_mode_may_be_written_to():
    p, optimizer = trained()
    with smolder.inference_mode():
        step = optimizer.state_dict()["state"][0]["step"]
    assert not step.is_inference() and step is optimizer.state[p]["step"]
    step.add_(1)
    go(p, optimizer)
    assert optimizer.state[p]["step"].item() == step.item() + 1
