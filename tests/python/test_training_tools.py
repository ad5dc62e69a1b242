"""Optimizers and schedules step by step beside torch's, and training that is stopped and goes on."""

import io
import itertools
import json
import math
import warnings

import numpy as np
import pytest
from conftest import compiled
from torch_peer import needs_torch, run_torch

import smolder
from smolder import nn, optim
from smolder.optim import lr_scheduler

# -- optimizers beside torch's

OPTIMIZERS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True},
    ],
    "Adam": [{}, {"lr": 0.02, "amsgrad": True, "weight_decay": 0.1}, {"betas": (0.0, 0.5), "maximize": True}],
    "AdamW": [{}, {"lr": 0.05, "weight_decay": 0.4, "amsgrad": True}],
    "RMSprop": [
        {},
        {"lr": 0.02, "alpha": 0.9, "centered": True, "weight_decay": 0.1},
        {"momentum": 0.8, "centered": True, "maximize": True},
        {"momentum": 0.5, "eps": 1e-3},
    ],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1, "initial_accumulator_value": 0.3}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.7, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"lr": 0.05, "betas": (0.5, 0.8), "weight_decay": 0.1}],
    "NAdam": [{}, {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True}, {"momentum_decay": 0.1}],
    "RAdam": [{}, {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True}, {"betas": (0.8, 0.9)}],
}
CASES = [(kind, options) for kind, several in OPTIMIZERS.items() for options in several]
STEPS = 12

TRAJECTORY = """
def trajectory(optim, tensor, kind, options, grads, start):
    p, q = (tensor(v, dtype=F64, requires_grad=True) for v in start)
    optimizer = getattr(optim, kind)([{"params": [p]}, {"params": [q], "lr": 0.03}], **options)
    out = []
    for i, (gp, gq) in enumerate(grads):
        p.grad, q.grad = tensor(gp, dtype=F64), None if i == 2 else tensor(gq, dtype=F64)
        if i == 6:
            optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()
        out.append([p.tolist(), q.tolist()])
    return out
"""


def gradients():
    rng = np.random.default_rng(0)
    grads = rng.normal(size=(STEPS, 2, 4)).round(3)
    grads[3, 0] = 0
    return grads.tolist(), [[1.0, -2.0, 0.5, 0.0], [0.1, 0.2, -0.3, 3.0]]


def ours(kind, options):
    scope = {"F64": smolder.float64}
    exec(TRAJECTORY, scope)
    return scope["trajectory"](optim, smolder.tensor, kind, options, *gradients())


@needs_torch
def test_trajectories_are_torchs():
    code = (
        f"F64 = torch.float64\n{TRAJECTORY}\ncases, grads, start = json.loads(argv[0])\n"
        "out = [trajectory(torch.optim, torch.tensor, k, dict(o, foreach=False), grads, start) for k, o in cases]"
    )
    for (kind, options), theirs in zip(CASES, run_torch(code, json.dumps([CASES, *gradients()])), strict=True):
        # torch keeps NAdam's product of momenta in float32.
        near = {"rtol": 1e-7, "atol": 1e-8} if kind == "NAdam" else {"rtol": 1e-12, "atol": 1e-15}
        np.testing.assert_allclose(ours(kind, options), theirs, **near, err_msg=f"{kind} {options}")


def numpy_formula(kind, o, p, grads):
    """The newer optimizers by the formulas of their papers, in float64."""
    square = mean = total = delta = top = buffer = 0.0
    product = 1.0
    b1, b2 = o.get("betas", (0.9, 0.999))
    for t, g in enumerate(grads, 1):
        eps = o.get("eps", {"Adagrad": 1e-10, "Adadelta": 1e-6}.get(kind, 1e-8))
        if kind == "RMSprop":
            square = o["alpha"] * square + (1 - o["alpha"]) * g * g
            mean = o["alpha"] * mean + (1 - o["alpha"]) * g
            step = g / (np.sqrt(square - mean**2 if o["centered"] else square) + eps)
            buffer = o["momentum"] * buffer + step
            p = p - o["lr"] * buffer
        elif kind == "Adagrad":
            total = total + g * g
            p = p - o["lr"] / (1 + (t - 1) * o["lr_decay"]) * g / (np.sqrt(total) + eps)
        elif kind == "Adadelta":
            square = o["rho"] * square + (1 - o["rho"]) * g * g
            step = np.sqrt(delta + eps) / np.sqrt(square + eps) * g
            delta = o["rho"] * delta + (1 - o["rho"]) * step**2
            p = p - o["lr"] * step
        else:
            mean, square = b1 * mean + (1 - b1) * g, b2 * square + (1 - b2) * g * g
            if kind == "Adamax":
                top = np.maximum(b2 * top, np.abs(g) + eps)
                p = p - o["lr"] / (1 - b1**t) * mean / top
            elif kind == "NAdam":
                mu, ahead = (b1 * (1 - 0.5 * 0.96 ** (n * 0.004)) for n in (t, t + 1))
                product *= mu
                hat = ahead * mean / (1 - product * ahead) + (1 - mu) * g / (1 - product)
                p = p - o["lr"] * hat / (np.sqrt(square / (1 - b2**t)) + eps)
            else:
                limit = 2 / (1 - b2) - 1
                rho = limit - 2 * t * b2**t / (1 - b2**t)
                hat = mean / (1 - b1**t)
                if rho > 5:
                    r = math.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
                    hat = hat * r * math.sqrt(1 - b2**t) / (np.sqrt(square) + eps)
                p = p - o["lr"] * hat
    return p


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("RMSprop", {"lr": 0.02, "alpha": 0.9, "centered": False, "momentum": 0}),
        ("RMSprop", {"lr": 0.02, "alpha": 0.9, "centered": True, "momentum": 0.7}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.02}),
        ("Adadelta", {"lr": 0.7, "rho": 0.8}),
        ("Adamax", {"lr": 0.02}),
        ("NAdam", {"lr": 0.02}),
        ("RAdam", {"lr": 0.02, "betas": (0.9, 0.95)}),
    ],
    ids=str,
)
def test_steps_are_those_of_the_papers(kind, options):
    rng = np.random.default_rng(1)
    start, grads = rng.normal(size=7), rng.normal(size=(15, 7))
    p = smolder.tensor(start, requires_grad=True)
    optimizer = getattr(optim, kind)([p], **options)
    for g in grads:
        p.grad = smolder.tensor(g)
        optimizer.step()
    np.testing.assert_allclose(p.tolist(), numpy_formula(kind, options, start, grads), rtol=1e-10)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_schedule_compiles_nothing_after_the_first_steps(kind):
    parameters = [smolder.randn(5, 3, requires_grad=True), smolder.randn(7, requires_grad=True)]
    optimizer = getattr(optim, kind)(parameters, lr=0.1)
    schedule = lr_scheduler.LambdaLR(optimizer, lambda epoch: [1, 0.5, 0.0, 2.0, 1e-9][epoch % 5])
    for i in range(12):
        sum((p * p).sum() for p in parameters).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        smolder.mark_step()
        if i == 2:
            before = compiled()
    assert compiled() == before


def kernels_of_a_step(kind, count):
    """Kernels that the second step of an optimizer of `count` parameters needs, all built anew."""
    parameters = [smolder.randn(40, n + 40, requires_grad=True) for n in range(count)]
    optimizer = getattr(optim, kind)(parameters, lr=0.1)
    for p in parameters:
        p.grad = smolder.randn(*p.shape)
    optimizer.step()
    smolder.mark_step()
    smolder._core._leave_kernels_on_disk()
    smolder._core._build_kernels_anew(True)
    smolder.forget_traces()
    before = compiled()
    try:
        optimizer.step()
        smolder.mark_step()
    finally:
        smolder._core._build_kernels_anew(False)
    return compiled() - before


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_many_parameters_take_no_more_kernels_than_one(kind):
    assert 0 < kernels_of_a_step(kind, 20) <= kernels_of_a_step(kind, 1) <= 3


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_state_goes_to_torch_and_back(kind):
    def make():
        p = smolder.tensor([1.0, -2.0, 3.0], requires_grad=True)
        return p, getattr(optim, kind)([p], **OPTIMIZERS[kind][-1])

    def steps(p, optimizer, n):
        for i in range(n):
            p.grad = smolder.tensor([0.5, -0.1, 0.3]) * (i + 1)
            optimizer.step()

    p, optimizer = make()
    steps(p, optimizer, 3)
    q, other = make()
    q.data.copy_(p)
    file = io.BytesIO()
    smolder.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(smolder.load(file))
    steps(p, optimizer, 3)
    steps(q, other, 3)
    assert p.tolist() == q.tolist()


def test_arguments_that_are_wrong():
    p = smolder.ones(2, requires_grad=True)
    for kind, options, message in [
        ("RMSprop", {"lr": -1}, "Invalid learning rate: -1"),
        ("RMSprop", {"alpha": -0.5}, "Invalid alpha value: -0.5"),
        ("RMSprop", {"momentum": -0.5}, "Invalid momentum value"),
        ("Adagrad", {"lr_decay": -1}, "Invalid lr_decay value: -1"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
        ("Adadelta", {"rho": 1.5}, "Invalid rho value: 1.5"),
        ("Adamax", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("RAdam", {"eps": -1}, "Invalid epsilon value: -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(optim, kind)([p], **options)
    with pytest.raises(NotImplementedError, match="differentiable"):
        optim.RMSprop([p], differentiable=True)


def test_names_duplicates_and_closures():
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [smolder.ones(1, requires_grad=True)]})
    p = smolder.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * 3).sum()
        loss.backward()
        return loss

    with smolder.no_grad():
        assert optimizer.step(closure).item() == 3
    assert p.item() == -0.5


# -- schedules beside torch's

SCHEDULES = {
    "StepLR": [{"step_size": 3}, {"step_size": 1, "gamma": 0.7}],
    "MultiStepLR": [{"milestones": [2, 5, 5, 9], "gamma": 0.5}],
    "ConstantLR": [{}, {"factor": 0.25, "total_iters": 3}],
    "LinearLR": [{}, {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 7}],
    "ExponentialLR": [{"gamma": 0.9}],
    "PolynomialLR": [{}, {"total_iters": 8, "power": 2.5}],
    "CosineAnnealingLR": [{"T_max": 4}, {"T_max": 7, "eta_min": 0.01}],
    "CosineAnnealingWarmRestarts": [{"T_0": 3}, {"T_0": 2, "T_mult": 3, "eta_min": 0.02}],
    "CyclicLR": [
        {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 3},
        {"base_lr": [0.01, 0.02], "max_lr": 0.3, "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"},
        {"base_lr": 0.1, "max_lr": 0.4, "step_size_up": 2, "mode": "exp_range", "gamma": 0.8, "cycle_momentum": False},
    ],
    "OneCycleLR": [
        {"max_lr": 0.5, "total_steps": 15},
        {"max_lr": [0.5, 0.1], "epochs": 5, "steps_per_epoch": 3, "anneal_strategy": "linear", "three_phase": True},
    ],
}
RATES = """
def rates(optim, tensor, name, options, steps):
    out = []
    for kind in ("SGD", "Adam"):
        params = [tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)]
        more = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(optim, kind)([{"params": params[:1]}, {"params": params[1:], "lr": 0.05}], lr=0.2, **more)
        schedule = MAKE[name](optim.lr_scheduler, optimizer) if name in MAKE else getattr(
            optim.lr_scheduler, name)(optimizer, **options)
        for i in range(steps):
            moving = [g["momentum"] if kind == "SGD" else g["betas"][0] for g in optimizer.param_groups]
            out.append([g["lr"] for g in optimizer.param_groups] + moving + list(schedule.get_last_lr()))
            optimizer.step()
            schedule.step()
    return out

MAKE = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9 ** e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.5 + 0.1 * e),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, total_iters=3), s.StepLR(o, 2), s.ExponentialLR(o, 0.9)], [4, 9]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "Nested": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 2), s.CosineAnnealingLR(o, 5, 0.01)], [3]),
}
"""
SCHEDULE_CASES = [(n, o) for n, several in SCHEDULES.items() for o in several]
SCHEDULE_CASES += [(n, {}) for n in ("LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler", "Nested")]
EPOCHS = 15


def our_rates(name, options, steps=EPOCHS):
    scope = {}
    exec(RATES, scope)
    return scope["rates"](optim, smolder.tensor, name, options, steps)


@needs_torch
def test_schedules_are_torchs_to_the_bit():
    code = f"{RATES}\nout = [rates(torch.optim, torch.tensor, n, o, {EPOCHS}) for n, o in json.loads(argv[0])]"
    for (name, options), theirs in zip(SCHEDULE_CASES, run_torch(code, json.dumps(SCHEDULE_CASES)), strict=True):
        assert our_rates(name, options) == theirs, (name, options)


CLOSED = {
    "StepLR": lambda t, lr: lr * 0.1 ** (t // 3),
    "ExponentialLR": lambda t, lr: lr * 0.9**t,
    "ConstantLR": lambda t, lr: lr / 3 if t < 5 else lr,
    "LinearLR": lambda t, lr: lr * (1 / 3 + 2 / 3 * min(t, 5) / 5),
    "PolynomialLR": lambda t, lr: lr * max(0, 1 - t / 5),
    "CosineAnnealingLR": lambda t, lr: lr * (1 + math.cos(math.pi * t / 4)) / 2,
    "CosineAnnealingWarmRestarts": lambda t, lr: lr * (1 + math.cos(math.pi * (t % 3) / 3)) / 2,
}


@pytest.mark.parametrize("name", CLOSED)
def test_schedules_are_what_their_formulas_say(name):
    for t, rates in enumerate(our_rates(name, SCHEDULES[name][0])[:EPOCHS]):
        assert rates[:2] == pytest.approx([CLOSED[name](t, 0.2), CLOSED[name](t, 0.05)], abs=1e-15)


@pytest.mark.parametrize(("name", "options"), SCHEDULE_CASES, ids=str)
def test_a_schedule_goes_on_from_its_state(name, options):
    scope = {}
    exec(RATES, scope)

    def make():
        p = smolder.ones(1, requires_grad=True)
        q = smolder.ones(1, requires_grad=True)
        optimizer = optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.05}], lr=0.2, momentum=0.9)
        kind = scope["MAKE"].get(name)
        made = kind(lr_scheduler, optimizer) if kind else getattr(lr_scheduler, name)(optimizer, **options)
        return optimizer, made

    def go(optimizer, schedule, n):
        out = []
        for _ in range(n):
            optimizer.step()
            schedule.step()
            out.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
        return out

    optimizer, schedule = make()
    go(optimizer, schedule, 6)
    file = io.BytesIO()
    smolder.save([optimizer.state_dict(), schedule.state_dict()], file)
    file.seek(0)
    states = smolder.load(file)
    other, resumed = make()
    resumed.load_state_dict(states[1])
    other.load_state_dict(states[0])
    assert go(other, resumed, 7) == go(optimizer, schedule, 7)
    assert resumed.get_last_lr() == schedule.get_last_lr()


def test_a_plateau_lowers_the_rate():
    p = smolder.ones(1, requires_grad=True)

    def rates(measures, **options):
        optimizer = optim.SGD([p], lr=1.0)
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        for m in measures:
            schedule.step(m)
        return optimizer.param_groups[0]["lr"], schedule

    assert rates([1, 1, 1], patience=1)[0] == 0.1
    assert rates([1, 0.9, 0.8, 0.7], patience=0)[0] == 1
    assert rates([1, 2, 3, 4], mode="max", patience=0)[0] == 1
    assert rates([3, 3, 3], mode="max", patience=0)[0] == pytest.approx(0.01)
    assert rates([1.0, 0.95, 0.9], patience=0, threshold=0.2, threshold_mode="abs")[0] == pytest.approx(0.01)
    assert rates([1] * 8, patience=0, cooldown=3)[0] == pytest.approx(0.01)
    assert rates([1] * 5, patience=0, min_lr=0.5)[0] == 0.5
    assert rates([smolder.tensor(1.0)] * 3, patience=1)[0] == 0.1
    _, schedule = rates([1, 1], patience=5)
    other = rates([], patience=5)[1]
    other.load_state_dict(schedule.state_dict())
    assert (other.best, other.num_bad_epochs, other.last_epoch) == (1, 1, 2)
    for wrong, message in [
        ({"factor": 1.0}, "Factor should be < 1.0"),
        ({"mode": "x"}, "mode x is unknown!"),
        ({"threshold_mode": "x"}, "threshold mode x is unknown!"),
        ({"min_lr": [1, 2]}, "expected 1 min_lrs, got 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            rates([], **wrong)


def test_warnings_of_wrong_order_and_wrong_use():
    def make():
        optimizer = optim.SGD([smolder.ones(1, requires_grad=True)], lr=1.0)
        return optimizer, lr_scheduler.StepLR(optimizer, 2)

    optimizer, schedule = make()
    with pytest.warns(UserWarning, match=r"before `optimizer\.step\(\)`"):
        schedule.step()
    optimizer, schedule = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        schedule.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        schedule.get_lr()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(4)
    assert schedule.get_last_lr() == pytest.approx([0.01])
    optimizer, schedule = make()
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden"):
        schedule.step()


def test_wrong_schedules():
    optimizer = optim.SGD([smolder.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    plain = optim.Adagrad([smolder.ones(1, requires_grad=True)])
    s = lr_scheduler
    for make, kind, message in [
        (lambda: s.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda: s.LambdaLR(optimizer, [abs, abs]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda: s.MultiplicativeLR(optimizer, 3), TypeError, "lr_lambda should be a function, but got int"),
        (lambda: s.ConstantLR(optimizer, 2.0), ValueError, "between 0 and 1"),
        (lambda: s.LinearLR(optimizer, 0), ValueError, "Starting multiplicative factor"),
        (lambda: s.LinearLR(optimizer, 0.5, 2), ValueError, "Ending multiplicative factor"),
        (lambda: s.CosineAnnealingWarmRestarts(optimizer, 0), ValueError, "Expected positive integer T_0, but got 0"),
        (lambda: s.CosineAnnealingWarmRestarts(optimizer, 1, 0), ValueError, "Expected integer T_mult >= 1, but got 0"),
        (lambda: s.CyclicLR(optimizer, 0.1, 0.2, mode="x"), ValueError, "mode is invalid and scale_fn is None"),
        (lambda: s.CyclicLR(optimizer, [1, 2], 0.2), ValueError, "base_lr must have the same length"),
        (lambda: s.CyclicLR(plain, 0.1, 0.2), ValueError, "must support momentum or beta1"),
        (lambda: s.OneCycleLR(optimizer, 1), ValueError, "You must define either total_steps OR"),
        (lambda: s.OneCycleLR(optimizer, 1, 0), ValueError, "Expected positive integer total_steps, but got 0"),
        (lambda: s.OneCycleLR(optimizer, 1, 5, pct_start=2), ValueError, "Expected float between 0 and 1 pct_start"),
        (lambda: s.OneCycleLR(optimizer, 1, 5, anneal_strategy="x"), ValueError, "anneal_strategy must be one of"),
        (lambda: s.SequentialLR(optimizer, [], []), ValueError, "expects at least one scheduler, but got no"),
        (lambda: s.SequentialLR(optimizer, [s.StepLR(optimizer, 1)], [1]), ValueError, "one more than the number"),
        (lambda: s.SequentialLR(optimizer, [s.StepLR(plain, 1)], []), ValueError, "same optimizer"),
        (lambda: s.ChainedScheduler([s.ReduceLROnPlateau(optimizer)]), ValueError, "does not support `ReduceLROn"),
        (
            lambda: s.StepLR(optim.SGD([smolder.ones(1)], 1.0), 1, last_epoch=3),
            KeyError,
            "'initial_lr' is not specified",
        ),
    ]:
        with pytest.raises(kind, match=message):
            make()
    one = s.OneCycleLR(optimizer, 1.0, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"Tried to step 3 times\. The specified number of total steps is 2"):
            for _ in range(3):
                one.step()


# -- clipping


def test_clipping_never_syncs_and_agrees_with_the_formula():
    rng = np.random.default_rng(0)
    grads = [rng.normal(size=s) * 3 for s in ((3, 4), (5,), ())]
    for order in (1, 2.0, 3, 0.5, math.inf, -math.inf):
        parameters = [smolder.zeros(*g.shape, dtype=smolder.float64, requires_grad=True) for g in grads]
        for p, g in zip(parameters, grads, strict=True):
            p.grad = smolder.tensor(g)
        flat = np.concatenate([g.ravel() for g in grads])
        smolder.mark_step()
        before = smolder.metrics()["counters"].get("syncs", 0)
        total = nn.utils.clip_grad_norm_((p for p in parameters), 1.5, norm_type=order, foreach=True)
        vector = nn.utils.parameters_to_vector(parameters)
        nn.utils.vector_to_parameters(vector + 1, parameters)
        assert smolder.metrics()["counters"].get("syncs", 0) == before
        norms = [np.linalg.norm(g.ravel(), order) for g in grads]
        expected = np.linalg.norm(norms, order)
        assert total.item() == pytest.approx(expected) and (
            order < 1 or expected == pytest.approx(np.linalg.norm(flat, order))
        )
        factor = min(1.0, 1.5 / (expected + 1e-6))
        for p, g in zip(parameters, grads, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g * factor, rtol=1e-12)
            assert (p == 1).all()
    nn.utils.clip_grad_value_(parameters[0], 0.1)
    np.testing.assert_allclose(parameters[0].grad.numpy(), np.clip(grads[0] * factor, -0.1, 0.1), rtol=1e-12)
    parameters[0].grad.fill_(math.nan)
    with pytest.raises(RuntimeError, match=r"total norm of order 2\.0 for gradients from `parameters` is non-finite"):
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    with pytest.warns(FutureWarning, match="clip_grad_norm"):
        nn.utils.clip_grad_norm(parameters[1:], 1.0)


# -- stopped and gone on


def training(steps, stop=None):
    """Losses of a training with dropout, a schedule and momentum; at `stop` it goes on from what a file holds."""

    def make():
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(16), nn.Linear(16, 3))
        optimizer = optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
        return model, optimizer, lr_scheduler.OneCycleLR(optimizer, 0.05, steps)

    smolder.manual_seed(3)
    parts, losses = make(), []
    for i in range(steps):
        model, optimizer, schedule = parts
        x = smolder.randn(8, 4)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long() + (x[:, 1] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if i == stop:
            file = io.BytesIO()
            smolder.save([[p.state_dict() for p in parts], smolder.get_rng_state()], file)
            smolder.manual_seed(99)
            parts = make()
            file.seek(0)
            states, random = smolder.load(file)
            for part, state in zip(parts, states, strict=True):
                part.load_state_dict(state)
            smolder.set_rng_state(random)
    return losses


def test_training_goes_on_from_a_file_with_the_same_losses():
    whole = training(12)
    for stop in (0, 5):
        assert training(12, stop) == whole


def test_options_are_shown_as_torch_shows_them():
    text = repr(optim.RMSprop([smolder.ones(1, requires_grad=True)], lr=0.5))
    lines = ["capturable: False", "centered: False", "differentiable: False", "eps: 1e-08", "foreach: None", "lr: 0.5"]
    lines = ["alpha: 0.99", *lines, "maximize: False", "momentum: 0", "weight_decay: 0"]
    assert text == "RMSprop (\nParameter Group 0\n" + "".join(f"    {line}\n" for line in lines) + ")"


def test_every_pair_of_optimizer_and_group_option_is_taken():
    for kind, options in itertools.chain(CASES):
        p = smolder.ones(2, requires_grad=True)
        optimizer = getattr(optim, kind)([{"params": p, **options}])
        p.grad = smolder.ones(2)
        optimizer.step()
        assert bool((p != 1).all()), (kind, options)


def test_parameters_are_slices_of_the_vector_that_was_put_into_them():
    a, b = nn.Parameter(smolder.zeros(2)), nn.Parameter(smolder.zeros(1, 2))
    vector = smolder.arange(4.0, dtype=smolder.float64)
    nn.utils.vector_to_parameters(vector, [a, b])
    vector.mul_(2)
    assert a.tolist() == [0.0, 2.0] and b.tolist() == [[4.0, 6.0]]
    assert a.dtype == b.dtype == smolder.float64 and a.requires_grad and a.is_leaf
