"""Mistakes with gradients: the types of torch's exceptions, and the gist of their texts (probed with 2.15)."""

import copy

import pytest

import smolder
from smolder import autograd
from smolder.autograd import functional


def leaf(*size):
    return smolder.ones(*(size or (3,)), requires_grad=True)


def function(forward, backward):
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("F", (autograd.Function,), members).apply


def with_hook(hook):
    x = leaf()
    x.register_hook(hook)
    (x * 2).sum().backward()


def twice(run):
    y = leaf().exp().sum()
    run(y)
    run(y)


def within_no_grad():
    with smolder.no_grad():
        y = (leaf() * 2).sum()
    y.backward()


def through_freed_part():
    h = leaf().exp()
    a, b = h.sum(), (h * 2).sum()
    a.backward()
    b.backward()


def clobbered(write):
    autograd.set_version_checks(True)
    try:
        h = leaf() * 1
        y = h * h
        write(h, y)
        y.sum().backward()
    finally:
        autograd.set_version_checks(False)


def assigned(name, value):
    setattr(leaf(), name, value)


def own_gradient():
    x = leaf()
    x.grad = x


SECOND_TIME = r"Trying to backward through the graph a second time.*Specify retain_graph=True"
LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
MISTAKES = {
    "backward twice": (lambda: twice(lambda y: y.backward()), RuntimeError, SECOND_TIME),
    "backward of a part twice": (through_freed_part, RuntimeError, SECOND_TIME),
    "in place on a leaf": (lambda: leaf().add_(1), RuntimeError, LEAF),
    "item of a leaf": (lambda: leaf().__setitem__(0, 1.0), RuntimeError, "a view of " + LEAF),
    "in place on a view of a leaf": (lambda: leaf()[1:].mul_(2), RuntimeError, "a view of " + LEAF),
    "not a scalar": (lambda: (leaf() * 2).backward(), RuntimeError, "implicitly created only for scalar outputs"),
    "shape": (lambda: (leaf() * 2).backward(smolder.ones(4)), RuntimeError, r"Mismatch in shape: grad_output\[0\]"),
    "kind": (lambda: (leaf() * 2).backward(3), TypeError, "argument .gradient. .* must be Tensor, not int"),
    "no history": (
        lambda: smolder.ones(3).sum().backward(),
        RuntimeError,
        "element 0 of tensors does not require grad",
    ),
    "recorded without": (within_no_grad, RuntimeError, "element 0 of tensors does not require grad"),
    "unused": (lambda: autograd.grad(leaf().sum(), leaf()), RuntimeError, "not have been used in the graph"),
    "constant input": (lambda: autograd.grad(leaf().sum(), smolder.ones(3)), RuntimeError, "does not require grad"),
    "no inputs": (lambda: autograd.grad(leaf().sum(), []), ValueError, "grad requires non-empty inputs"),
    "inputs in a list": (lambda: autograd.grad(leaf().sum(), [[leaf()]]), RuntimeError, "have to be Tensors.*got list"),
    "no inputs, backward": (lambda: leaf().sum().backward(inputs=[]), RuntimeError, "cannot be empty"),
    "too few weights": (
        lambda: autograd.backward([leaf().sum(), leaf().sum()], [smolder.ones(())]),
        RuntimeError,
        "got 2 tensors and 1 gradients",
    ),
    "zeros that are refused": (
        lambda: autograd.grad(leaf().sum(), leaf(), materialize_grads=True, allow_unused=False),
        ValueError,
        "Expected allow_unused to be True",
    ),
    "hook's shape": (lambda: with_hook(lambda g: smolder.ones(4)), RuntimeError, "has changed the size of value"),
    "hook's dtype": (lambda: with_hook(lambda g: g.double()), RuntimeError, "has changed the type of value"),
    "hook's kind": (lambda: with_hook(lambda g: 3), TypeError, "expected Variable, but hook returned 'int'"),
    "hook that raises": (lambda: with_hook(lambda g: {}["mine"]), KeyError, "mine"),
    "hook of a constant": (lambda: smolder.ones(3).register_hook(print), RuntimeError, "doesn't require gradient"),
    "retained of a constant": (lambda: smolder.ones(3).retain_grad(), RuntimeError, "can't retain_grad on Tensor"),
    "operand written": (lambda: clobbered(lambda h, y: h.add_(1)), RuntimeError, "modified by an inplace operation"),
    "integers": (lambda: smolder.ones(3).long().requires_grad_(), RuntimeError, "floating point dtype can require"),
    "integers made": (
        lambda: smolder.tensor([1], requires_grad=True),
        RuntimeError,
        "floating point dtype can require",
    ),
    "copy with history": (lambda: copy.deepcopy(leaf() * 2), RuntimeError, "created explicitly by the user"),
    "constant inside": (lambda: (leaf() * 2).requires_grad_(False), RuntimeError, "flags of leaf variables"),
    "view cut off": (lambda: (leaf() * 2)[1:].detach_(), RuntimeError, "Can't detach views in-place"),
    "gradient's shape": (lambda: assigned("grad", smolder.ones(4)), RuntimeError, "gradient of size '.4.' to a tensor"),
    "gradient's dtype": (
        lambda: assigned("grad", smolder.ones(3).double()),
        RuntimeError,
        "gradient with dtype 'float64'",
    ),
    "gradient's kind": (
        lambda: assigned("grad", 3),
        TypeError,
        "expected to be a Tensor or None but got grad of type int",
    ),
    "gradient of itself": (own_gradient, RuntimeError, "can't assign Variable as its own grad"),
    "flag's kind": (lambda: assigned("requires_grad", 3), RuntimeError, "requires_grad must be a bool"),
    "history assigned": (lambda: assigned("grad_fn", None), AttributeError, "no setter"),
    "array": (lambda: leaf().numpy(), RuntimeError, "Can't call numpy"),
    "mode's kind": (lambda: smolder.set_grad_enabled("a"), TypeError, "must be bool, not str"),
    "too many gradients": (
        lambda: function(lambda ctx, x: x * 2, lambda ctx, g: (g, g))(leaf()).sum().backward(),
        RuntimeError,
        "returned an incorrect number of gradients",
    ),
    "gradient of another shape": (
        lambda: function(lambda ctx, x: x * 2, lambda ctx, g: smolder.ones(4))(leaf()).sum().backward(),
        RuntimeError,
        "returned an invalid gradient at index 0",
    ),
    "hessian of several": (
        lambda: functional.hessian(lambda x: x * 2, leaf()),
        RuntimeError,
        "contain a single element",
    ),
    "product without a vector": (
        lambda: functional.vjp(lambda x: x * 2, leaf()),
        RuntimeError,
        "v can only be None if",
    ),
    "product with another": (
        lambda: functional.vjp(lambda x: x * 2, leaf(), smolder.ones(4)),
        RuntimeError,
        "v has invalid size",
    ),
    "jacobian of no tensor": (lambda: functional.jacobian(lambda x: 3, leaf()), TypeError, "must be either a Tensor"),
    # Sizes that are none, and dimensions that are not there.
    "max of nothing": (
        lambda: smolder.zeros(0).max(),
        RuntimeError,
        r"max\(\): Expected reduction dim to be specified",
    ),
    "min of nothing": (
        lambda: smolder.zeros(0).min(),
        RuntimeError,
        r"min\(\): Expected reduction dim to be specified",
    ),
    "amax of nothing": (lambda: smolder.zeros(0).amax(), RuntimeError, r"amax\(\): Expected reduction dim to be"),
    "argmax of nothing": (lambda: smolder.zeros(0).argmax(), IndexError, r"argmax\(\): Expected reduction dim to be"),
    "max along nothing": (lambda: smolder.zeros(0, 3).max(0), IndexError, "Expected reduction dim 0 to have non-zero"),
    "aminmax of nothing": (lambda: smolder.zeros(0).aminmax(), RuntimeError, "cannot compute aminmax over an empty"),
    "split of a number": (lambda: smolder.ones(()).split(1), RuntimeError, "split expects at least a 1-dimensional"),
    "chunk of a number": (lambda: smolder.ones(()).chunk(2), RuntimeError, "chunk expects at least a 1-dimensional"),
    "split by less": (
        lambda: smolder.ones(4).split(-1),
        RuntimeError,
        "split_size be non-negative, but got split_size=-1",
    ),
    "split by none": (
        lambda: smolder.ones(4).split(0),
        RuntimeError,
        "split_size can only be 0 if dimension size is 0",
    ),
    "split in parts": (lambda: smolder.ones(4).split([1, 2]), RuntimeError, "sum exactly to 4 .*split_sizes=.1, 2."),
    "index of a number": (lambda: smolder.ones(())[0], IndexError, "invalid index of a 0-dim tensor"),
    "length of a number": (lambda: len(smolder.ones(())), TypeError, "len.. of a 0-d tensor"),
    "several as a float": (lambda: float(smolder.ones(3)), ValueError, "only one element tensors can be converted"),
    "several as an int": (lambda: int(smolder.ones(3)), ValueError, "only one element tensors can be converted"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_what_torch_raises(name):
    call, error, text = MISTAKES[name]
    with pytest.raises(error, match=text) as caught:
        call()
    assert type(caught.value) is error
    x = leaf()  # and work goes on
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and smolder.is_grad_enabled()


def test_what_is_no_mistake():
    assert autograd.backward([]) is None
    assert function(lambda ctx, x: 3, lambda ctx, g: None)(leaf()) == 3
    assert smolder.zeros(0).split(0) and [t.tolist() for t in smolder.ones(3).split(2)] == [[1, 1], [1]]
    x = leaf()
    y = (x + 1).sum()  # keeps nothing, so it may run again
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]
    with smolder.no_grad():
        (x * 1).sum()
        y = leaf()
        y.add_(1)
    assert y.tolist() == [2, 2, 2]


@pytest.mark.parametrize("again", [lambda y: y.backward(), lambda y: y.backward(retain_graph=True)])
def test_a_gradient_of_another_shape_is_not_added(again):
    """`.data` was given another shape, and `.grad` has the old one."""
    x = leaf(1, 3)
    x.sum().backward()
    x.data = smolder.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape \[2, 3\]"):
        again((x * 2).sum())
    assert x.grad.tolist() == [[1, 1, 1]]
    x.grad = None
    again((x * 2).sum())
    assert x.grad.tolist() == [[2, 2, 2]] * 2
    x.data = smolder.ones(3)  # whose gradient broadcasts into the old one, as any sum in place
    x.sum().backward()
    assert x.grad.tolist() == [[3, 3, 3]] * 2


def test_a_gradient_keeps_its_dtype():
    x = leaf()
    x.sum().backward()
    x.data = smolder.ones(3, dtype=smolder.float64)
    (x * 2).sum().backward()
    assert x.grad.dtype == smolder.float32 and x.grad.tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(smolder.tensor(2.0)),
        lambda x: x.fill_(2),
        lambda x: x.copy_(smolder.ones(3)),
        lambda x: x.copy_(2.5),
        lambda x: x.zero_(),
        lambda x: x.normal_(),
        lambda x: x.uniform_(),
        lambda x: x.bernoulli_(0.5),
        lambda x: x.exponential_(),
        lambda x: x.random_(3),
        lambda x: x.sign_(),
        lambda x: x.floor_(),
    ],
)
def test_what_is_overwritten_has_a_gradient_of_zero(write):
    """And not none, for which an optimizer leaves the parameter as it is."""
    p = leaf()
    x = p * 2
    write(x)
    assert x.requires_grad and x.grad_fn is not None
    x.sum().backward()
    assert p.grad.tolist() == [0, 0, 0]
    y = p * 2
    with smolder.no_grad():
        write(y)
    assert y.requires_grad  # what was written has no history, and y has its own
    z = p * 2
    z[1:].fill_(smolder.tensor(2.0))
    z.sum().backward()
    assert p.grad.tolist() == [2, 0, 0]


def test_gradcheck_moves_what_its_function_closes_over():
    p = smolder.rand(3, dtype=smolder.float64, requires_grad=True)
    before = p.tolist()
    assert autograd.gradcheck(lambda t: t * p, (p,))
    assert p.tolist() == before
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        autograd.gradcheck(lambda t: t * 2, (p.expand(2, 3),))


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "dropout3d"])
def test_dropout_of_nothing_writes_no_leaf(name):
    x = leaf(*(2,) * {"dropout": 1, "dropout1d": 3, "dropout2d": 4, "dropout3d": 5}[name])
    drops = getattr(smolder.nn.functional, name)
    assert drops(x, 0.0, True, True) is x and drops(x, 0.5, False, True) is x
    with pytest.raises(RuntimeError, match="leaf"):
        drops(x, 0.5, True, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.squeeze_(),
        lambda x: x.squeeze_(1),
        lambda x: x.unsqueeze_(0),
        lambda x: x.transpose_(0, 2),
        lambda x: x.swapaxes_(0, 1),
        lambda x: x[0].t_(),
    ],
)
def test_a_change_of_shape_without_recording_keeps_the_history(change):
    p = leaf(2, 1, 3)
    x = p * 2
    with smolder.no_grad():
        change(x)
    assert x.requires_grad and not smolder.is_inference_mode_enabled() and smolder.is_grad_enabled()
    x.sum().backward()
    assert p.grad.flatten().tolist() == [2] * 6


def test_anomalies_are_not_looked_for_in_vmap():
    """There is no element that could be read."""
    with autograd.set_detect_anomaly(True):
        x = smolder.ones(2)
        assert smolder.func.hessian(lambda t: (t**3).sum())(x).tolist() == [[6, 0], [0, 6]]
