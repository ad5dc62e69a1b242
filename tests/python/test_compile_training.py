"""smolder.compile in training: steps, optimizers, and gradients of what compiled functions return."""

import pytest
from compile_results import bits, fresh, network  # noqa: F401

import smolder
from smolder import nn, randn
from smolder.compiler import events
from smolder.nn import functional as F

OPTIMIZERS = {
    "SGD": lambda p: smolder.optim.SGD(p, lr=0.1),
    "momentum": lambda p: smolder.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: smolder.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: smolder.optim.AdamW(p, lr=0.01, amsgrad=True),
    "RMSprop": lambda p: smolder.optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: smolder.optim.Adagrad(p, lr=0.01),
    "Adadelta": lambda p: smolder.optim.Adadelta(p),
    "Adamax": lambda p: smolder.optim.Adamax(p, lr=0.01),
    "NAdam": lambda p: smolder.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: smolder.optim.RAdam(p, lr=0.01),
}


@pytest.mark.parametrize("what", ["step", "model", "loss"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name, what):
    def train(compile):
        model = network()
        optimizer = OPTIMIZERS[name](model.parameters())
        schedule = smolder.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        call = compile(model) if what == "model" else model
        criterion = lambda x, y: F.cross_entropy(call(x), y)  # noqa: E731
        if what == "loss":
            criterion = compile(criterion)

        def step(x, y):
            optimizer.zero_grad()
            loss = criterion(x, y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        if what == "step":
            step = compile(step)
        losses = []
        smolder.manual_seed(8)
        for i in range(10):
            losses.append(step(smolder.randn(5, 6), smolder.randint(0, 3, (5,))))
            if i % 3 == 2:
                schedule.step()
        f = {"step": step, "model": call, "loss": criterion}[what]
        state = [*model.parameters(), *model.buffers()]
        numbers = [v for s in optimizer.state.values() for k, v in s.items() if not isinstance(v, smolder.Tensor)]
        return [bits(t) for t in [*losses, *state]], numbers, f

    got, want = train(smolder.compile), train(lambda f: f)
    assert got[:2] == want[:2]
    f = got[2] if what != "model" else got[2]._compiled_call
    assert sum(f._hits()) >= (0 if (name, what) == ("NAdam", "step") else 6), list(events)


def test_gradients_accumulate():
    model = nn.Linear(3, 2)

    def step(x):
        model(x).sum().backward()

    f = smolder.compile(step)
    xs = [randn(2, 3) for _ in range(6)]
    for x in xs:
        f(x)
    got = [bits(p.grad) for p in model.parameters()]
    assert sum(f._hits()) >= 4, list(events)
    model.zero_grad()
    for x in xs:
        step(x)
    assert got == [bits(p.grad) for p in model.parameters()]


def test_a_gradient_goes_through_some_results():
    f = smolder.compile(lambda x, y: (x * y, (x + y).exp(), y.detach()))
    g = f._function
    for _ in range(3):
        x, y = randn(3).requires_grad_(), randn(3).requires_grad_()
        for use in (0, 1):
            got = smolder.autograd.grad(f(x, y)[use].sum(), [x, y])
            want = smolder.autograd.grad(g(x, y)[use].sum(), [x, y])
            assert bits(got) == bits(want)
    out = f(x, y)[0].sum()
    out.backward(retain_graph=True)
    out.backward()
    assert bits(x.grad) == bits(2 * y.detach())
    with pytest.raises(RuntimeError, match="a second time"):
        out.backward()
    with pytest.raises(RuntimeError, match="double backward"):
        smolder.autograd.grad(f(x, y)[0].sum(), x, create_graph=True)


def test_a_write_after_the_call_does_not_reach_its_gradient():
    f = smolder.compile(lambda x, w: (x * w).sum())
    for _ in range(3):
        w = randn(3)
        x = randn(3).requires_grad_()
        before = bits(w)
        y = f(x, w)
        w.zero_()
        y.backward()
        assert bits(x.grad) == before


SLOPE = {"k": 2.0}


class Scaled(smolder.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * SLOPE["k"]


@pytest.mark.parametrize("inside", [True, False])
def test_the_backward_of_a_function_of_python_is_guarded(inside):
    def f(x):
        loss = Scaled.apply(x).sum()
        if inside:
            loss.backward()
        return None if inside else loss

    f = smolder.compile(f)
    for k in (2.0, 2.0, 3.0, 3.0):
        SLOPE["k"] = k
        x = randn(3).requires_grad_()
        loss = f(x)
        if not inside:
            loss.backward()
        assert bits(x.grad) == bits((x * k).detach())
    assert sum(f._hits()) == (2 if inside else 0), list(events)  # outside, it runs as often as gradients go back


def test_custom_ops_and_checkpoints_within():
    layer = nn.Linear(4, 4)

    def f(x):
        return smolder.utils.checkpoint.checkpoint(
            lambda y: F.dropout(layer(y).tanh(), 0.5), x, use_reentrant=False
        ).sum()

    compiled = smolder.compile(f)
    for i in range(3):
        x = randn(2, 4)
        smolder.manual_seed(i)
        a = compiled(x)
        a.backward()
        got = bits(a), bits(layer.weight.grad)
        layer.zero_grad()
        smolder.manual_seed(i)
        b = f(x)
        b.backward()
        assert got == (bits(b), bits(layer.weight.grad))
        layer.zero_grad()


def test_a_result_without_a_gradient_makes_no_nan():
    f = smolder.compile(lambda x: (x.exp(), x * 2, x.sqrt()))

    def gradient(g, x, used):
        out = g(x)
        x.grad = None
        sum(out[i] for i in used).sum().backward()
        return bits(x.grad)

    for used in ((1,), (1,), (1, 2), (0, 1, 2), (1,)):
        x = smolder.tensor([1000.0, 1.0]).requires_grad_()
        assert gradient(f, x, used) == gradient(f._function, x, used)
    assert sum(f._hits()) == 4


def test_leaves_that_a_step_makes_get_their_gradients_from_backward_alone():
    """Recording looks for the gradients of results, and must leave none in leaves that the function made."""
    calls = [0]

    def step(x):
        calls[0] += 1  # so that no recorded step serves
        made.append(leaf := (x * 1.5 + calls[0]).requires_grad_())
        return (leaf + 3) * 1.5 + 1

    for function in (step, smolder.compile(step)):
        made = []
        for _ in range(5):
            y = function(smolder.ones(3))
            assert made[-1].grad is None
            y.sum().backward()
            assert made[-1].grad.tolist() == [1.5, 1.5, 1.5]
