"""Which results are their operand, share its memory, or are new, and what a write to them changes, as in PyTorch."""

import pytest
from conftest import NUMPY

import smolder
from smolder import nn
from smolder.nn import functional as F

NEW = {
    "interpolate": lambda x: F.interpolate(x, scale_factor=1),
    "interpolate by size": lambda x: F.interpolate(x, size=(2, 2), mode="bilinear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 1),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 1),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 1),
    "matrix_power": lambda x: smolder.matrix_power(x, 1),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "logcumsumexp of a number": lambda x: x[0, 0, 0, 0].logcumsumexp(0),
    "ravel": lambda x: x[..., :1].ravel(),
}
SAME = {
    "real": lambda x: x.real,
    "conj": lambda x: x.conj(),
    "conj_physical": lambda x: smolder.conj_physical(x),
    "positive": lambda x: smolder.positive(x),
    "type_as": lambda x: x.type_as(x),
    "flatten": lambda x: x.flatten(0, 0),
    "atleast_3d": lambda x: smolder.atleast_3d(x),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "Dropout": lambda x: nn.Dropout(0.5).eval()(x),
    "asarray": lambda x: smolder.asarray(x),
}


@pytest.mark.parametrize("name", NEW)
def test_a_new_result_shares_no_memory(name):
    x = smolder.ones(1, 1, 2, 2)
    y = NEW[name](x)
    y.fill_(7)
    assert x.sum().item() == 4
    x.fill_(3)
    assert y.unique().tolist() == [7]


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_returns_the_object(name):
    x = smolder.ones(2, 3, 1)
    assert SAME[name](x) is x
    parameter = nn.Parameter(smolder.ones(2, 2, 2))
    if name != "asarray":
        assert type(SAME[name](parameter)) is nn.Parameter


def test_asarray_tells_a_leaf_and_cuts_other_tensors_off():
    leaf = smolder.ones(2, requires_grad=True)
    assert smolder.asarray(leaf, requires_grad=True) is leaf and leaf.requires_grad
    assert not smolder.asarray(leaf * 2).requires_grad
    assert smolder.asarray(leaf * 2, requires_grad=True).grad_fn is not None
    assert not smolder.asarray(leaf, dtype=smolder.float64).requires_grad and leaf.requires_grad
    assert smolder.asarray(leaf) is leaf and not leaf.requires_grad


def test_a_view_of_a_leaf_that_is_a_view_keeps_its_history():
    leaf = smolder.arange(4.0).reshape(2, 2).requires_grad_()
    row = leaf[:1]
    with smolder.no_grad():
        leaf.mul_(2)
    assert row.requires_grad and row.tolist() == [[0, 2]]
    row.sum().backward()
    assert leaf.grad.tolist() == [[1, 1], [0, 0]]
    with smolder.no_grad():
        row.zero_()
    assert row.requires_grad and leaf.tolist() == [[0, 0], [4, 6]]


def test_an_optimizer_leaves_views_of_what_it_steps_their_history():
    weight = smolder.ones(4).reshape(2, 2).requires_grad_()
    row = weight[0]
    optimizer = smolder.optim.SGD([weight], lr=0.5)
    (weight * weight).sum().backward()
    optimizer.step()
    assert row.requires_grad and row.tolist() == [0, 0]


OF_NO_OTHER = {
    "rows": lambda x: x[smolder.tensor([1, 0])],
    "take": lambda x: x.take(smolder.tensor([1, 0])),
    "masked": lambda x: x[x > 0],
    "a pool without batch": lambda x: F.max_pool1d(x, 2),
    "group_norm": lambda x: F.group_norm(x[None], 1),
    "diag": lambda x: smolder.diag(x[0]),
}


@pytest.mark.parametrize("name", OF_NO_OTHER)
def test_a_result_of_no_gradients_may_be_written_with_them(name):
    step = smolder.ones(1, requires_grad=True)
    with smolder.no_grad():
        y = OF_NO_OTHER[name](smolder.ones(2, 4))
    before = y.clone()
    y += step
    assert y.requires_grad and (y == before + 1).all()
    y.sum().backward()
    assert step.grad.tolist() == [y.numel()]


def test_a_result_that_is_no_view_can_be_detached_in_place():
    x = smolder.ones(2, 4, requires_grad=True)
    y = x[smolder.tensor([1, 0])]
    assert not y._is_view()
    y.detach_()
    assert not y.requires_grad and y.is_leaf


# -- x[i] of a number that is computed


def picked(x, i):
    x[i].mul_(10)
    x[i, 0].add_(1)
    x[smolder.tensor(0)].zero_()
    return x * 1


@pytest.mark.parametrize("mode", ["recorded", "eager", "compiled"])
def test_a_write_to_what_a_computed_number_picks_is_one_to_the_tensor(mode):
    f = smolder.compile(picked) if mode == "compiled" else picked
    for _ in range(3):
        x = smolder.arange(6.0).reshape(3, 2)
        i = smolder.tensor([0, 5, 1])
        with smolder.eager() if mode == "eager" else smolder.enable_grad():
            y = f(x, i.argmax())
        assert y.tolist() == x.tolist() == [[0, 0], [21, 30], [4, 5]]


def test_a_write_to_a_picked_complex_number():
    x = smolder.tensor([1 + 1j, 2.0])
    x[smolder.tensor([0, 1]).argmax()].mul_(1j)
    assert x.tolist() == [1 + 1j, 2j]


def test_a_write_to_a_picked_row_has_gradients():
    x = smolder.arange(4.0).reshape(2, 2).requires_grad_()
    y = x * 2
    row = y[smolder.tensor([0, 1]).argmax()]
    row.mul_(x[0])
    y.sum().backward()
    assert y.tolist() == [[0, 2], [0, 6]]
    assert x.grad.tolist() == [[2 + 4, 2 + 6], [0, 2]]


def test_a_picked_position_is_that_of_the_call():
    x, i = smolder.zeros(3), smolder.tensor([0, 1]).argmax()
    picked = x[i]
    i += 1
    picked.fill_(5)
    assert x.tolist() == [0, 5, 0]


def test_a_picked_row_of_a_leaf_is_refused():
    x = smolder.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[smolder.tensor([0, 1]).argmax()].zero_()
    assert x.tolist() == [[1, 1], [1, 1]]


def number(n):
    """n, as a number that is computed."""
    return (smolder.arange(3.0) - n).abs().argmin()


def write_a_part(x):
    y = x[number(1), 0, number(2)]
    y += 1


def write_under_a_mode(x):
    with smolder.overrides.BaseTorchFunctionMode():
        x[number(1)].mul_(2)


def write_after_a_write(x):
    y = x[number(1)]
    x.add_(10)
    y += 1


def write_two(x):
    a, b = x[number(1)], x[number(1)]
    a += 1
    b += 1
    a += b


def write_a_part_of_two(x):
    a, b = x[number(1)], x[number(1)][number(2)]
    v = a[1:]
    b.fill_(7)
    v += 1
    b += a.sum(0)


def write_picks_of_picks(x):
    a = x[number(1)]
    b = a[number(0)]
    x.mul_(3)
    b += 1
    a.sub_(b.clone())


def write_alias(x):
    y = x[number(1)]
    d = y.detach()
    x += 1
    d *= 2
    y += 1


def write_a_view_of_what_was_left(x):
    y = x[number(1)]
    v = y.view(-1)
    y.data = smolder.ones(2)
    v += 1


def write_what_was_left(x):
    y = x[number(1)]
    z = x * 1
    x.data = z
    y += 1


def write_a_picked_number(x):
    i = smolder.tensor([0, 2, 1])
    at = i[number(1)]
    i -= 1
    x[at] = 9


WRITES = [
    write_a_part,
    write_under_a_mode,
    write_after_a_write,
    write_two,
    write_a_part_of_two,
    write_picks_of_picks,
    write_alias,
    write_a_view_of_what_was_left,
    write_what_was_left,
    write_a_picked_number,
]


@pytest.mark.parametrize("mode", ["recorded", "eager", "compiled"])
@pytest.mark.parametrize("write", WRITES)
def test_writes_to_picks_are_those_to_views(write, mode, monkeypatch):
    expected = smolder.arange(27.0).reshape(3, 3, 3)
    with monkeypatch.context() as known:
        known.setitem(globals(), "number", int)
        write(expected)

    def f(x):
        write(x)
        return x * 1

    g = smolder.compile(f) if mode == "compiled" else f
    for _ in range(3):
        x = smolder.arange(27.0).reshape(3, 3, 3)
        with smolder.eager() if mode == "eager" else smolder.enable_grad():
            y = g(x)
        assert x.tolist() == y.tolist() == expected.tolist()


def test_a_pick_has_what_was_written_since():
    x = smolder.ones(3, 2)
    y = x[number(1)]
    x += 1
    assert y.tolist() == [2, 2]
    w = smolder.tensor([2.0, 3.0], requires_grad=True)
    z = x * 1
    y = z[number(1)]
    z *= w
    (y * y).sum().backward()
    assert w.grad.tolist() == [2 * 4 * 2, 2 * 4 * 3]


def test_a_chain_of_picks_goes_without_calls_in_calls():
    x = base = smolder.zeros(2)
    for i in range(20000):
        x = x.unsqueeze(0)[smolder.arange(1).argmax()]
        if i % 5000 == 0:
            base += 1
    with pytest.raises(RuntimeError, match="goes through at most 1000"):
        x += 1
    assert x.tolist() == base.tolist() == [4, 4]
    del x


def test_a_pick_is_in_rows():
    x = smolder.ones(3, 2, 3)
    assert x[number(1)].stride() == (3, 1) and x[number(1)].is_contiguous()


def test_a_compiled_function_is_given_a_pick():
    g = smolder.compile(lambda y: y.mul_(2).sum())
    for pick in (False, True, False, True):
        x = smolder.ones(3, 2)
        y = x[number(1)] if pick else smolder.ones(2)
        assert g(y).item() == 4
        assert x.sum().item() == (8 if pick else 6)


def test_a_compiled_function_that_stops_writes_through_its_pick_all_the_same():
    def f(x):
        y = x[number(1)]
        return y, y.new_ones(1, requires_grad=True)

    x = smolder.ones(3, 2)
    y, _ = smolder.compile(f)(x)
    y += 1
    assert x.tolist() == [[1, 1], [2, 2], [1, 1]]


@NUMPY
def test_a_pick_of_an_array_is_of_its_memory():
    x = smolder.ones(3, 2)
    y, array = x[number(1)], x.numpy()
    z = x[number(1)]
    array[1] = 5
    z += 1
    y += 1
    assert array.tolist() == [[1, 1], [7, 7], [1, 1]]
    x = smolder.ones(3, 2)
    y = x[number(1)]
    y.numpy()
    y += 1
    assert x.tolist() == [[1, 1], [2, 2], [1, 1]]


@NUMPY
def test_a_picked_row_of_an_array():
    x = smolder.ones(2, 2)
    array = x.numpy()
    x[smolder.tensor([0, 1]).argmax()].zero_()
    assert array.tolist() == [[1, 1], [0, 0]]


# -- compiled functions


def test_a_compiled_function_that_writes_to_a_view_with_history():
    def f(a):
        flat = a.reshape(-1)[:7]
        flat.mul_(0.5)
        return flat * 2

    g = smolder.compile(f)

    def run(call):
        p = smolder.ones(4, 2, requires_grad=True)
        view = ((p * 2).unsqueeze(0) * 1).squeeze(0)
        for _ in range(3):
            out = call(view)
        view.sum().backward()
        return out.tolist(), view.tolist(), view._version, p.grad.tolist()

    assert run(g) == run(f)


OF_EACH_OTHER = {
    "a tensor and its double": (lambda a, b: a + b, lambda x: (x, x * 2)),
    "the double alone": (lambda a, b: b * 3, lambda x: (x, x * 2)),
    "a tensor and its row": (lambda a, b: a.sum() + b.sum(), lambda x: (x, x[0])),
    "the double first": (lambda a, b: a * b, lambda x: (x * 2, x)),
    "a chain": (lambda a, b: a * b, lambda x: (lambda y: (y, y + 1))(x * 2)),
}


@pytest.mark.parametrize("name", OF_EACH_OTHER)
def test_gradients_of_a_compiled_function_of_tensors_of_each_other(name):
    f, arguments = OF_EACH_OTHER[name]
    g = smolder.compile(f)
    for _ in range(3):
        expected, found = (smolder.ones(2, 2, requires_grad=True) for _ in range(2))
        f(*arguments(expected)).sum().backward()
        g(*arguments(found)).sum().backward()
        assert found.grad.tolist() == expected.grad.tolist()


def test_hooks_on_results_of_a_compiled_function_that_get_no_gradient():
    g = smolder.compile(lambda x: (x * 2, x * 3))
    seen = []
    for _ in range(3):
        x = smolder.ones(2, requires_grad=True)
        a, b = g(x)
        b.register_hook(lambda grad: seen.append(grad.tolist()))
        a.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [2, 2] and not seen
    b.sum().backward()
    assert seen == [[1, 1]]
