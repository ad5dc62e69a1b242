import copy

import numpy as np
import pytest
from conftest import assert_same_bits, compiled

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


SWEEP = [0.1, 0.0, 1.0, -1.0, 0.5, 0.5, 5e-324, 1e-310, 0.25]
KEYS = {
    "SGD": ["lr", "momentum", "dampening", "weight_decay"],
    "Adam": ["lr", "eps", "weight_decay", "beta1", "beta2"],
    "AdamW": ["lr", "eps", "weight_decay", "beta1", "beta2"],
}


def sweep(kind):
    """Parameters after steps whose options go through SWEEP one at a time; kernels compiled after the third."""
    rng = np.random.default_rng(1)
    ps = [nn.Parameter(smolder.tensor(rng.normal(size=n).astype(np.float32))) for n in ((5, 3), (7,))]
    optimizer = getattr(optim, kind)(ps, lr=0.1, **({"momentum": 0.9} if kind == "SGD" else {}))
    group, out, before = optimizer.param_groups[0], [], None
    for step, (key, value) in enumerate([(None, 0)] * 3 + [(k, v) for k in KEYS[kind] for v in SWEEP]):
        if key in ("beta1", "beta2"):
            betas = list(group["betas"])
            betas[key == "beta2"] = value
            group["betas"] = tuple(betas)
        elif key:
            group[key] = value
        for p in ps:
            p.grad = smolder.tensor(rng.normal(size=tuple(p.shape)).astype(np.float32))
        optimizer.step()
        smolder.mark_step()
        if step == 2:
            before = compiled()
        if key:
            out.append([p.detach().numpy() for p in ps])
            for p in ps:  # start again from sane numbers, so that one nan doesn't hide the rest
                smolder._core.assign(p.detach(), smolder.ones_like(p) * 0.5)
            for state in optimizer.state.values():
                for value_ in state.values():
                    if isinstance(value_, smolder.Tensor):
                        value_.fill_(0.25)
            smolder.mark_step()
            if len(out) == 1:
                before = compiled()
    return out, compiled() - before


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_sweeping_options_compiles_nothing_and_changes_no_bit(kind):
    lazy, new_kernels = sweep(kind)
    assert new_kernels == 0
    with smolder.eager():
        eager, _ = sweep(kind)
    for i, (a, b) in enumerate(zip(lazy, eager)):
        for x, y in zip(a, b):
            assert_same_bits(x, y, f"{kind}, step {i}")


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
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n    lr: 0.1\n") and text.endswith("\n)")


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
