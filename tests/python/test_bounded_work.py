"""The compiler's work for a step grows with the ops that were recorded, whatever their shape: statements of kernels,
the largest kernel, and how many kernels are compiled, as counters say. Values are those of the same ops run one by one.
"""

import numpy as np
import pytest
from conftest import assert_same_bits

import smolder
from smolder import nn
from smolder.nn import functional as F

SHAPES = {}


def shape(*, least=10, most=1000):
    """Grown by n from `least` to `most`; each n is some 2 to 60 ops."""

    def add(f):
        SHAPES[f.__name__] = (f, least, most)
        return f

    return add


def rows(*sizes):
    smolder.manual_seed(0)
    out = [smolder.rand(*s) for s in sizes]
    smolder.mark_step()
    return out


@shape()
def stencil_of_rolls(n):
    (x,) = rows((24, 24))
    for _ in range(n):
        x = x + 0.1 * (x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x)
    return x


@shape()
def stencil_of_random_numbers(n):
    smolder.manual_seed(0)
    x = smolder.rand(24, 24)  # computed in the step: drawn once, not at each neighbour
    for _ in range(n):
        x = x + 0.1 * (x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x)
    return x


@shape()
def stencil_of_slices(n):
    (x,) = rows((26, 26))
    for _ in range(n):
        around = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
        x = F.pad(x[1:-1, 1:-1] + 0.1 * (around - 4 * x[1:-1, 1:-1]), (1, 1, 1, 1))
    return x


@shape()
def stencil_in_place(n):
    (x,) = rows((200,))
    for _ in range(n):
        x = x.clone()
        x[1:-1] = 0.5 * (x[2:] + x[:-2])
    return x


@shape()
def waves_of_two_fields(n):
    a, b = rows((200,), (200,))
    for _ in range(n):
        a, b = b, a.roll(1) * 0.5 + b.roll(-1) * 0.5
    return b


@shape()
def cat_of_many(n):
    return smolder.cat(rows(*[(i % 7 + 1,) for i in range(n)]))


@shape()
def cat_of_many_computed(n):
    return smolder.cat([x * 2 + 1 for x in rows(*[(2, 3)] * n)], 1)


@shape()
def stack_of_norms(n):
    return smolder.stack([x.norm() for x in rows(*[(8,)] * n)]).norm()


@shape()
def stack_of_turns(n):
    x, a = rows((n, 16), (16,))
    h, out = smolder.zeros(16), []
    for t in range(n):
        h = smolder.tanh(a * h + x[t])
        out.append(h)
    return smolder.stack(out)


@shape(most=300)
def cat_that_grows(n):
    (x,) = rows((1, 8))
    for _ in range(n):
        x = smolder.cat((x, x[-1:] * 0.99))
    return x


@shape()
def halves_that_change_places(n):
    (x,) = rows((100,))
    for _ in range(n):
        x = smolder.cat((x[50:], x[:50] * 0.99))
    return x


@shape()
def butterflies(n):
    (x,) = rows((256,))
    for _ in range(n):
        x = smolder.cat((x[::2] + x[1::2], x[::2] - x[1::2])) * 0.7
    return x


@shape()
def wide_sum(n):
    total = 0
    for x in rows(*[(100,)] * n):
        total = total + x
    return total


@shape()
def tree_of_sums(n):
    xs = rows(*[(100,)] * n)
    while len(xs) > 1:
        xs = [sum(xs[i + 1 : i + 2], xs[i]) for i in range(0, len(xs), 2)]
    return xs[0]


@shape(most=12)
def tree_of_slices(n):
    (x,) = rows((2**n,))
    while x.shape[0] > 1:
        x = x[::2] + x[1::2]
    return x


@shape()
def chain(n):
    (x,) = rows((300,))
    for _ in range(n):
        x = x * 0.99 + 0.5
    return x


@shape()
def chain_of_sines(n):
    (x,) = rows((300,))
    for _ in range(n):
        x = smolder.sin(x) * 1.01
    return x


@shape()
def chain_whose_links_are_kept(n):
    (x,) = rows((300,))
    out = []
    for _ in range(n):
        x = x * 0.99 + 0.5
        out.append(x)
    return out


@shape()
def many_results_of_one(n):
    (x,) = rows((300,))
    return [x * float(i) for i in range(n)]


@shape()
def many_sums_of_one(n):
    (x,) = rows((300,))
    return [(x * float(i)).sum() for i in range(n)]


@shape()
def fans(n):
    (x,) = rows((100,))
    for _ in range(n):
        a, b, c = smolder.sin(x), smolder.cos(x), smolder.exp(-x)
        x = a * b + c * a
    return x


@shape(most=400)
def lstm_cells(n):
    (x,) = rows((n, 4, 8))
    cell = nn.LSTMCell(8, 16)
    h = (smolder.zeros(4, 16), smolder.zeros(4, 16))
    for t in range(n):
        h = cell(x[t], h)
    h[0].sum().backward()
    return [p.grad for p in cell.parameters()]


@shape()
def slices_of_slices(n):
    (x,) = rows((2 * n + 10,))
    for _ in range(n):
        x = x[1:-1] * 1.01
    return x


@shape()
def broadcasting_again(n):
    (x,) = rows((20, 20))
    for _ in range(n):
        x = x * 0.5 + x[:, :1] * x[:1, :]
    return x


@shape()
def means_along_both(n):
    x, y = rows((20, 1), (1, 20))
    for _ in range(n):
        z = x * y + 1
        x, y = z.mean(1, keepdim=True), z.mean(0, keepdim=True)
    return z


@shape()
def pyramids(n):
    (x,) = rows((32, 32))
    for _ in range(n):
        x = 0.5 * F.interpolate(F.avg_pool2d(x[None, None], 2), scale_factor=2)[0, 0] + 0.4 * x
    return x


@shape(most=500)
def softmaxes(n):
    (x,) = rows((8, 32))
    for _ in range(n):
        x = smolder.softmax(x, -1) * 2 + x * 0.5
    return x


@shape()
def layer_norms(n):
    (x,) = rows((8, 32))
    for _ in range(n):
        x = F.layer_norm(x, (32,)) + x * 0.5
    return x


@shape()
def transposes(n):
    (x,) = rows((24, 24))
    for _ in range(n):
        x = x.T * 0.5 + x * 0.5
    return x


@shape()
def flips(n):
    (x,) = rows((100,))
    for _ in range(n):
        x = x.flip(0) * 0.5 + x * 0.5
    return x


@shape()
def look_ups(n):
    (x,) = rows((100,))
    index = smolder.randint(0, 100, (100,))
    for _ in range(n):
        x = x[index] * 0.5 + x * 0.5
    return x


@shape()
def pairs(n):
    (x,) = rows((20,))
    for _ in range(n):
        d = x[:, None] - x[None, :]
        x = x + 0.01 * (d / (d * d + 0.1)).sum(1)
    return x


@shape(most=300)
def rows_assigned(n):
    (y,) = rows((n, 8))
    x = smolder.zeros(n, 8)
    for i in range(n):
        x[i] = y[i] * 2
    return x


@shape()
def discounted_returns(n):
    (r,) = rows((n,))
    total, out = 0, []
    for i in reversed(range(n)):
        total = r[i] + 0.99 * total
        out.insert(0, total)
    out = smolder.stack(out)
    return (out - out.mean()) / (out.std() + 1e-6)


@shape(most=300)
def nets_with_one_loss(n):
    smolder.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(n)]
    parameters = [p for net in nets for p in net.parameters()]
    optimizer = smolder.optim.Adam(parameters)
    (x,) = rows((16, 4))
    smolder.stack([net(x).pow(2).mean() for net in nets]).sum().backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    return [p.detach() for p in parameters[:4]]


COUNTERS = ("compile.statements", "compile.largest_kernel", "kernels.compiled", "ops.recorded")


def run(f, n):
    """The results, and what the counters say of compiling f(n) with no kernel known."""
    smolder.reset_metrics()
    out = f(n)
    out = out if isinstance(out, list) else [out]
    smolder.mark_step()
    values = [x.tolist() for x in out]
    counters = smolder.metrics()["counters"]
    return values, {name: counters.get(name, 0) for name in COUNTERS}


@pytest.mark.parametrize("name", SHAPES)
def test_compiling_grows_with_the_ops(name):
    f, least, most = SHAPES[name]
    _, small = run(f, max(least, most // 8))
    _, large = run(f, most)
    # A kernel's budget is 256 statements of its body, and what loads, indices and loops around them add.
    assert large["compile.largest_kernel"] <= 1000, large
    per_op = small["compile.statements"] / small["ops.recorded"]
    assert large["compile.statements"] <= 1.5 * per_op * large["ops.recorded"], (small, large)
    # Equal pieces share kernels, which those of the smaller step may be already.
    assert large["kernels.compiled"] <= 24, (small, large)


@pytest.mark.parametrize("name", SHAPES)
def test_values_are_those_of_ops_by_themselves(name):
    f, least, _ = SHAPES[name]
    n = min(2 * least, 24) if least == 10 else least
    recorded, _ = run(f, n)
    with smolder.eager():
        eager, _ = run(f, n)
    assert recorded == eager


def gradients_of_slices(slices, weights):
    """The gradient of 40 rows of which `slices` are read, each times its weight."""
    (x,) = rows((40, 3))
    x.requires_grad_()
    return smolder.autograd.grad(sum((x[s] * w).sum() for s, w in zip(slices, weights)), x)


WEIGHTS = [1.5, -0.0, float("nan"), float("inf"), -2.0, 0.0, -1e-45, 3.0, -0.0]
APART = [slice(0, 2), slice(3, 4), slice(30, 40), slice(9, 12), 20, 7, slice(24, 28), 5, slice(14, 15)]
SHARED = [*APART[:-1], slice(4, 6)]  # row 5 twice


@pytest.mark.parametrize("slices, joined", [(APART, 1), (SHARED, 0), (APART[:3], 0)])
def test_gradients_of_slices_are_put_side_by_side_where_they_lie_apart(slices, joined):
    smolder.reset_metrics()
    (recorded,) = gradients_of_slices(slices, WEIGHTS)
    recorded.tolist()
    assert smolder.metrics()["counters"].get("compile.joined_pads", 0) == joined
    with smolder.eager():
        (eager,) = gradients_of_slices(slices, WEIGHTS)
    assert_same_bits(recorded, eager)


@pytest.mark.parametrize("parts", [15, 16, 17, 33, 100])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cats_narrow_and_wide(parts, dim):
    smolder.manual_seed(0)
    shapes = [[2, 3, 4] for _ in range(parts)]
    for i, s in enumerate(shapes):
        s[dim] = i % 3  # some are empty
    xs = [smolder.rand(*s) if i % 2 else smolder.rand(*s[::-1]).permute(2, 1, 0) for i, s in enumerate(shapes)]
    expected = np.concatenate([x.numpy() for x in xs], dim)
    for dtype in (smolder.float32, smolder.float16, smolder.int64, smolder.bool):
        whole = smolder.cat([x.to(dtype) for x in xs], dim)
        assert_same_bits(whole, smolder.tensor(expected).to(dtype))
    twice = smolder.cat([x * 2 for x in xs], dim) + 1  # parts and reader are computed
    assert_same_bits(twice, smolder.tensor(expected * 2 + 1))
    leaves = [x.clone().requires_grad_() for x in xs]
    (smolder.cat(leaves, dim) * 3).sum().backward()
    assert all((x.grad == 3).all() for x in leaves)
