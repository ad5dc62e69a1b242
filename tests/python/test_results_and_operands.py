"""Which results are their operand, share its memory, or are new, and what a write to them changes, as in PyTorch."""

import pytest

import smolder


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
