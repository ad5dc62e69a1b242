"""Modes that see ops (TorchDispatchMode), and what is made of them: FlopCounterMode and selective checkpoints."""

import functools

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F
from smolder.utils._python_dispatch import TorchDispatchMode
from smolder.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from smolder.utils.flop_counter import FlopCounterMode

aten = smolder.ops.aten


class Log(TorchDispatchMode):
    """Keeps the ops that it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def numbers(*shape):
    n = int(np.prod(shape))
    return smolder.tensor(np.cos(np.arange(n) * 1.3).reshape(shape).astype(np.float32))


def model():
    made = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    for i, p in enumerate(made.parameters()):
        p.data = numbers(*p.shape) * 0.3 + i * 0.01
    return made


def gradients(m, x, within=None):
    for p in m.parameters():
        p.grad = None
    with within or Log():
        m(x).pow(2).mean().backward()
    return [p.grad.clone() for p in m.parameters()]


def test_sees_forward_and_backward_as_torch_runs_them():
    m, x = model(), numbers(2, 5, 8)
    with Log() as log:
        y = m(x)
        forward = len(log.seen)
        y.sum().backward()
    assert log.seen[:forward].count(aten.addmm.default) == 2
    assert aten.gelu.default in log.seen[:forward]
    assert log.seen[forward:].count(aten.mm.default) == 3  # the input wants no gradient
    assert aten.gelu_backward.default in log.seen[forward:]
    assert str(log.seen[2]) == "aten.addmm.default"


def test_changes_no_number():
    m, x = model(), numbers(2, 5, 8)
    for p in m.parameters():
        p.grad = None
    m(x).pow(2).mean().backward()
    for with_mode, p in zip(gradients(m, x), m.parameters(), strict=True):
        np.testing.assert_allclose(with_mode.numpy(), p.grad.numpy(), rtol=1e-6, atol=1e-8)


def test_arguments_that_are_one_of_several_texts():
    x = numbers(9)
    with Log():
        plain, tanh = F.gelu(x), F.gelu(x, approximate="tanh")
        large = F.interpolate(x.reshape(1, 1, 3, 3), scale_factor=2, mode="bilinear")
    np.testing.assert_array_equal(plain.numpy(), F.gelu(x).numpy())
    np.testing.assert_array_equal(tanh.numpy(), F.gelu(x, approximate="tanh").numpy())
    np.testing.assert_array_equal(
        large.numpy(), F.interpolate(x.reshape(1, 1, 3, 3), scale_factor=2, mode="bilinear").numpy()
    )


def test_answers_become_results_with_history():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func == aten.exp.default else out

    x = numbers(4).requires_grad_()
    with Doubled():
        y = x.exp()
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), 2 * np.exp(x.detach().numpy()), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), y.detach().numpy(), rtol=1e-6)  # of exp, by its result


def test_an_argument_as_the_answer_keeps_its_own_history():
    class Skips(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0]

    x = numbers(4).requires_grad_()
    with Skips():
        y, v = x.sin(), x.reshape(4)
    assert x.is_leaf and y is not x and y.grad_fn is not None and v.grad_fn is not None
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())


def test_writes_reach_what_was_viewed():
    x = numbers(2, 3)
    expected = x.numpy().copy()
    expected[0] += 1
    with Log():
        x[0].add_(1)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_modes_within_modes():
    with Log() as outer, Log() as inner:
        numbers(3).sin()
    assert outer.seen.count(aten.sin.default) == inner.seen.count(aten.sin.default) == 1
    x = numbers(3)
    with Log() as log:
        pass
    x.sin()
    assert log.seen == []


def test_errors_of_a_mode_reach_the_program():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(func.name())

    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return None

    x = numbers(3)
    with Refuses(), pytest.raises(KeyError, match="aten::cos"):
        x.cos()
    with Nothing(), pytest.raises(TypeError, match="cos: its mode returned a NoneType"):
        x.cos()
    with TorchDispatchMode(), pytest.raises(NotImplementedError):
        x.cos()
    np.testing.assert_allclose(x.cos().numpy(), np.cos(x.numpy()), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="there are no such keys"):
        TorchDispatchMode("Python")


def test_ops_of_users_are_seen():
    lib = smolder.library.Library("seen_ops", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    smolder.library.register_fake("seen_ops::twice", smolder.empty_like)
    with Log() as log:
        y = smolder.ops.seen_ops.twice(numbers(3))
    assert log.seen[-1] is smolder.ops.seen_ops.twice
    np.testing.assert_allclose(y.numpy(), 2 * numbers(3).numpy())
    lib._destroy()


# -- FlopCounterMode


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.c = nn.Linear(8, 24), nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x):
        q, k, v = self.q(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.c(y.transpose(1, 2).reshape(2, 5, 8).transpose(1, 2))


def test_counts_operations_by_module():
    x = numbers(2, 5, 8).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        Block()(x).sum().backward()
    linear, conv = 2 * 10 * 8 * 24, 2 * 2 * 5 * 8 * 8 * 3
    attention = 2 * 2 * (2 * 2 * 5 * 5 * 4)
    by = counter.get_flop_counts()
    assert sum(by["Block.q"].values()) == 3 * linear
    assert sum(by["Block.c"].values()) == 3 * conv
    assert counter.get_total_flops() == 3 * linear + 3 * conv + attention + attention * 5 // 2
    assert by["Global"] == by["Block"]


def test_counts_by_formulas_of_ones_own():
    with FlopCounterMode(display=False, custom_mapping={aten.sin: lambda x, out_shape=None: np.prod(x)}) as counter:
        numbers(3, 4).sin()
    assert counter.get_total_flops() == 12
    with FlopCounterMode(display=False) as counter:
        smolder.bmm(numbers(2, 3, 4), numbers(2, 4, 5))
        smolder.matmul(numbers(2, 2, 3, 4), numbers(4, 5))
        F.conv_transpose2d(numbers(1, 2, 4, 4), numbers(2, 3, 3, 3))
    assert counter.get_total_flops() == 2 * 2 * 3 * 4 * 5 + 2 * 4 * 3 * 4 * 5 + 2 * 16 * 2 * 3 * 9


# -- selective checkpoints


def must_save(context, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op == aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("policy", [[aten.addmm.default], must_save])
def test_keeps_what_a_policy_says(policy):
    m, x = model(), numbers(2, 5, 8).requires_grad_()
    m(x).pow(2).mean().backward()
    expected, x.grad = x.grad.numpy(), None
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    with Log() as log:
        y = checkpoint(m, x, use_reentrant=False, context_fn=contexts)
        y.pow(2).mean().backward()
    assert log.seen.count(aten.addmm.default) == 2
    assert log.seen.count(aten.gelu.default) == 2
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_mistakes_of_selective_checkpoints():
    m, x = model(), numbers(2, 5, 8).requires_grad_()
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([smolder.mm])
    with pytest.raises(TypeError, match="must be either a function or a list"):
        create_selective_checkpoint_contexts(3)
    contexts = functools.partial(create_selective_checkpoint_contexts, lambda *a, **k: 3)
    with pytest.raises(TypeError, match="must return a CheckpointPolicy or a bool"):
        checkpoint(m, x, use_reentrant=False, context_fn=contexts)
    y = checkpoint(
        m, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts([aten.addmm.default])
    )
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()
