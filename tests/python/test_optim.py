import contextlib
import copy
import itertools

import numpy as np
import pytest
from conftest import assert_same_bits

import smolder
from smolder import nn, optim


class Reference:
    """torch's single-tensor formulas, in NumPy float64."""

    def __init__(self, kind, p, **o):
        self.kind, self.p, self.o, self.t = kind, p.copy(), o, 0
        self.m, self.v, self.top, self.buffer = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p), None

    def step(self, g):
        o, self.t = self.o, self.t + 1
        lr, wd = o.get("lr", 1e-3), o.get("weight_decay", 1e-2 if self.kind == "AdamW" else 0)
        g = -g if o.get("maximize") else g
        if self.kind == "AdamW":
            self.p *= 1 - lr * wd
        else:
            g = g + wd * self.p
        if self.kind == "SGD":
            self.p -= lr * self._momentum(g)
            return
        b1, b2 = o.get("betas", (0.9, 0.999))
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        self.top = np.maximum(self.top, self.v)
        second = self.top if o.get("amsgrad") else self.v
        root = np.sqrt(second / (1 - b2**self.t)) + o.get("eps", 1e-8)
        self.p -= lr / (1 - b1**self.t) * self.m / root

    def _momentum(self, g):
        momentum = self.o.get("momentum", 0)
        if not momentum:
            return g
        self.buffer = g if self.buffer is None else momentum * self.buffer + (1 - self.o.get("dampening", 0)) * g
        return g + momentum * self.buffer if self.o.get("nesterov") else self.buffer


CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_steps_agree_with_numpy(kind, options):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(3, 4))
    p = nn.Parameter(smolder.tensor(start))
    optimizer, reference = getattr(optim, kind)([p], **options), Reference(kind, start, **options)
    for _ in range(6):
        g = rng.normal(size=(3, 4))
        p.grad = smolder.tensor(g)
        optimizer.step()
        reference.step(g)
    np.testing.assert_allclose(p.detach().numpy(), reference.p, rtol=1e-9)


# Whole numbers too: an int where a float was must be no other op. 1e-40 is a denormal of float32, the dtype swept; the
# others vanish in it.
SWEEP = [0.1, 0.0, 1.0, -1.0, 0, 1, -1, 0.5, 0.5, 1e-40, -1e-40, 1.4e-45, 5e-324, 1e-310, -0.0, 0.25]
KEYS = {
    "SGD": ["lr", "momentum", "dampening", "weight_decay"],
    "Adam": ["lr", "eps", "weight_decay", "beta1", "beta2"],
    "AdamW": ["lr", "eps", "weight_decay", "beta1", "beta2"],
}
SIZES = ((5, 3), (7,))


def settings(kind):
    """Each option through SWEEP, and each pair of options through a few values together."""
    few = [0.0, 1.0, -1.0, 1e-40]
    keys = KEYS[kind]
    out = [{key: value} for key in keys for value in SWEEP]
    return out + [{a: x, b: y} for a, b in itertools.combinations(keys, 2) for x in few for y in few]


def set_options(group, options):
    betas = list(group["betas"]) if "betas" in group else []
    for key, value in options.items():
        if key.startswith("beta"):
            betas[key == "beta2"] = value
        else:
            group[key] = value
    if betas:
        group["betas"] = tuple(betas)


def made():
    counters = smolder.metrics()["counters"]
    return counters.get("kernels.compiled", 0), counters.get("plans.compiled", 0)


def sweep(kind):
    """Parameters and state after a step with each of the settings, from the same start; kernels and plans made since
    before the first of them."""
    defaults = {"lr": 0.1} | ({"momentum": 0.9} if kind == "SGD" else {})
    ps = [nn.Parameter(smolder.ones(*n)) for n in SIZES]
    optimizer = getattr(optim, kind)(ps, **defaults)
    group, out, before = optimizer.param_groups[0], [], None
    usual = dict(group)
    for i, options in enumerate([{}] * 3 + settings(kind)):
        if i == 3:
            before = made()
        group.update(usual)
        set_options(group, options)
        tensors = [t for state in optimizer.state.values() for t in state.values() if isinstance(t, smolder.Tensor)]
        rng = np.random.default_rng(i)
        for t in [p.detach() for p in ps] + tensors:  # sane numbers each time, so that one nan doesn't hide the rest
            smolder._core.assign(t, smolder.tensor(rng.random(tuple(t.shape), np.float32) + 0.1))
        for p in ps:
            p.grad = smolder.tensor(rng.normal(size=tuple(p.shape)).astype(np.float32))
        optimizer.step()
        smolder.mark_step()
        out.append([t.detach().numpy() for t in ps + tensors])
    return out[3:], [now - then for now, then in zip(made(), before)]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_sweeping_options_compiles_nothing_and_changes_no_bit(kind):
    lazy, new = sweep(kind)
    assert new == [0, 0], "kernels and plans"
    with smolder.eager():
        eager, _ = sweep(kind)
    for options, a, b in zip(settings(kind), lazy, eager, strict=True):
        for x, y in zip(a, b, strict=True):
            assert_same_bits(x, y, f"{kind}, {options}")


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_denormal_options_count(kind):
    """A tiny option is no zero to the kernels: a learning rate of 1e-40 moves what is 1e-39."""
    for eager in (False, True):
        with smolder.eager() if eager else contextlib.nullcontext():
            p = nn.Parameter(smolder.tensor([1e-39, -1e-39]))
            p.grad = smolder.ones(2)
            getattr(optim, kind)([p], lr=1e-40).step()
            assert p[0].item() < 0.95e-39 and p[1].item() < -1.05e-39


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 16])
def test_threads_share_every_parameter_and_change_no_bit(threads):
    sizes = [(70001,), (3,), (513, 129), (1,), (40000,), (0,), (7,)]

    def trained():
        rng = np.random.default_rng(0)
        ps = [nn.Parameter(smolder.tensor(rng.normal(size=n).astype(np.float32))) for n in sizes]
        optimizer = optim.AdamW(ps, lr=0.1)
        for _ in range(3):
            for p in ps:
                p.grad = smolder.tensor(rng.normal(size=tuple(p.shape)).astype(np.float32))
            optimizer.step()
            smolder.mark_step()
        return [p.detach().numpy() for p in ps]

    before = smolder.get_num_threads()
    with smolder.eager():
        expected = trained()
    try:
        smolder._core.forget_traces()
        smolder.set_num_threads(threads)
        here = trained()
        smolder.set_num_threads(before)  # the plan is as it was
        there = trained()
    finally:
        smolder.set_num_threads(before)
    for wanted, *got in zip(expected, here, there, strict=True):
        for array in got:
            assert_same_bits(wanted, array)


def test_a_buffer_rests_while_momentum_is_zero():
    p = nn.Parameter(smolder.zeros(1, dtype=smolder.float64))
    optimizer = optim.SGD([p], lr=1.0, momentum=0.5)
    buffer, want = 0.0, 0.0
    for momentum, g in [(0.5, 1.0), (0.5, 2.0), (0, 100.0), (0, 7.0), (0.5, 3.0)]:
        optimizer.param_groups[0]["momentum"] = momentum
        p.grad = smolder.tensor([g], dtype=smolder.float64)
        optimizer.step()
        buffer = buffer * momentum + g if momentum else buffer
        want -= buffer if momentum else g
        assert p.item() == want
    assert optimizer.state[p]["momentum_buffer"].item() == buffer


def test_groups_and_errors():
    a, b = nn.Parameter(smolder.ones(1)), nn.Parameter(smolder.ones(1))
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": [b]}], lr=0.5)
    a.grad = b.grad = smolder.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (0, 0.5)
    for wrong, text in [
        (lambda: optim.SGD([], lr=1), "empty parameter list"),
        (lambda: optim.SGD([a], lr=-1), "Invalid learning rate: -1"),
        (lambda: optim.Adam([a], betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        (lambda: optim.AdamW([a], eps=-1), "Invalid epsilon value: -1"),
        (lambda: optim.SGD([a], lr=1, nesterov=True), "Nesterov momentum requires"),
        (lambda: optimizer.add_param_group({"params": [a]}), "more than one parameter group"),
        (lambda: optim.SGD([a * 2], lr=1), "non-leaf"),
    ]:
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(TypeError, match="iterable"):
        optim.SGD(a, lr=1)


def test_zero_grad_and_closure():
    p = nn.Parameter(smolder.tensor([2.0]))
    optimizer = optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4 and p.item() == 1
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_state_dict_resumes_exactly(kind):
    options = {"lr": 0.05} | ({"momentum": 0.9} if kind == "SGD" else {})

    def advance(p, optimizer, steps):
        for i in range(steps):
            p.grad = smolder.tensor(np.random.default_rng(i).normal(size=4).astype(np.float32))
            optimizer.step()

    p = nn.Parameter(smolder.ones(4))
    optimizer = getattr(optim, kind)([p], **options)
    advance(p, optimizer, 3)
    saved, q = copy.deepcopy(optimizer.state_dict()), nn.Parameter(p.detach().clone())
    other = getattr(optim, kind)([q], lr=9.0)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 0.05
    advance(p, optimizer, 3)
    advance(q, other, 3)
    assert_same_bits(p.detach().numpy(), q.detach().numpy())
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict({"state": {}, "param_groups": []})


def test_repr():
    text = repr(optim.SGD([nn.Parameter(smolder.ones(1))], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n")
    assert "    lr: 0.1\n" in text and text.endswith("\n)")


def test_schedules():
    def rates(make, steps=5):
        optimizer = optim.SGD([nn.Parameter(smolder.ones(1))], lr=1.0)
        schedule = make(optimizer)
        out = []
        for _ in range(steps):
            out.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return out

    assert rates(lambda o: optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (1 + e))) == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    np.testing.assert_allclose(rates(lambda o: optim.lr_scheduler.StepLR(o, 2)), [1, 1, 0.1, 0.1, 0.01])
    want = [0.2 + 0.8 * (1 + np.cos(np.pi * e / 4)) / 2 for e in range(5)]
    np.testing.assert_allclose(rates(lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 4, 0.2)), want)


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_parameters_and_state_are_updated_in_place(kind):
    """Also while the gradients, which fit as well and could be overwritten, are kept."""
    parameters = [nn.Parameter(smolder.randn(30, 20)), nn.Parameter(smolder.randn(50))]
    for p in parameters:
        p.grad = smolder.randn(*p.shape)
    optimizer = getattr(optim, kind)(parameters)
    optimizer.step()
    smolder.mark_step()
    before = smolder.metrics()["counters"].get("memory.donated", 0)
    optimizer.step()
    smolder.mark_step()
    assert smolder.metrics()["counters"]["memory.donated"] - before == 3 * len(parameters)


def test_hooks_of_all_optimizers():
    from smolder.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    told = []
    weight = smolder.ones(2, requires_grad=True)
    before = smolder.optim.SGD([weight], lr=0.1)
    before.register_step_pre_hook(lambda o, args, kwargs: told.append("own pre"))
    before.register_step_post_hook(lambda o, args, kwargs: told.append("own post"))
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: told.append(("pre", type(o).__name__))),
        register_optimizer_step_post_hook(lambda o, args, kwargs: told.append(("post", type(o).__name__))),
    ]
    try:
        after = smolder.optim.Adam([weight], lr=0.1)
        for optimizer in (before, after):
            weight.sum().backward()
            optimizer.step()
        assert told == [*[("pre", "SGD"), "own pre", "own post", ("post", "SGD")], *[("pre", "Adam"), ("post", "Adam")]]
        assert copy.deepcopy(after).state_dict()["param_groups"] == after.state_dict()["param_groups"]
    finally:
        for handle in handles:
            handle.remove()
    told.clear()
    before.step()
    after.step()
    assert told == ["own pre", "own post"]


@pytest.mark.parametrize(
    "order", ["hook, schedule", "schedule, hook", "hook, schedule, hook", "schedule, hook, schedule"]
)
def test_hooks_and_schedules_go_around_a_step_in_any_order(order):
    p = nn.Parameter(smolder.zeros(1, dtype=smolder.float64))
    optimizer, told = optim.SGD([p], lr=1.0), []
    for kind in order.split(", "):
        if kind == "hook":
            optimizer.register_step_pre_hook(lambda o, args, kwargs: told.append(o))
            optimizer.register_step_post_hook(lambda o, args, kwargs: told.append(o))
        else:
            schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(2):
        p.grad = smolder.ones_like(p)
        optimizer.step()
        schedule.step()
    assert p.item() == -1.5 and told == [optimizer] * (4 * order.count("hook"))


def test_sgd_without_momentum_has_no_state():
    p = nn.Parameter(smolder.zeros(1))
    optimizer = optim.SGD([p], lr=1.0)
    p.grad = smolder.ones_like(p)
    optimizer.step()
    assert len(optimizer.state) == 0 and optimizer.state_dict()["state"] == {}


def test_a_sparse_gradient_joins_the_momentum_of_dense_ones():
    weight = nn.Parameter(smolder.tensor([1.0, -2.0, 3.0]))
    optimizer = smolder.optim.SGD([weight], lr=0.1, momentum=0.5)
    for grad in (None, smolder.sparse_coo_tensor([[0, 2]], [1.0, -1.0], (3,)), None):
        weight.grad = 2 * weight.detach() if grad is None else grad
        optimizer.step()
    np.testing.assert_allclose(weight.tolist(), [0.38, -1.02, 1.66], rtol=1e-6)  # as torch
    np.testing.assert_allclose(optimizer.state[weight]["momentum_buffer"].tolist(), [2.2, -3.8, 5.4], rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    (
        lambda o: optim.lr_scheduler.StepLR(o, 1, 0.5),
        lambda o: optim.lr_scheduler.OneCycleLR(o, 0.5, 20),
        lambda o: optim.lr_scheduler.CyclicLR(o, 0.01, 0.2, 5),
        lambda o: optim.swa_utils.SWALR(o, 0.05, 4),
    ),
)
def test_schedules_write_to_a_rate_in_a_tensor(make):
    def rates(first):
        o = optim.SGD([nn.Parameter(smolder.ones(2))], lr=first, momentum=0.9)
        schedule, held = make(o), o.param_groups[0]["lr"]
        out = []
        for _ in range(5):
            o.step()
            schedule.step()
            assert o.param_groups[0]["lr"] is held or not isinstance(first, smolder.Tensor)
            out += [float(o.param_groups[0]["lr"]), float(schedule.get_last_lr()[0])]
        return out

    np.testing.assert_allclose(rates(smolder.tensor(0.1)), rates(0.1), rtol=1e-6)


def test_a_rate_in_a_tensor_is_one_number():
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        optim.Adam([nn.Parameter(smolder.ones(2))], lr=smolder.tensor([0.1, 0.2]))
