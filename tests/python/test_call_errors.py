"""Calls whose arguments do not fit: torch's form, and no text of the binding generator."""

import numpy as np
import pytest

import smolder
from smolder import _core, nn

X = smolder.ones(2, 3)
MISTAKES = {
    "type": (lambda: smolder.sum(X, dim="a"), "sum(): argument 'dim' must be int or tuple of ints, not str"),
    "place": (lambda: X.sum(1.5), "sum(): argument 'dim' (position 1) must be int or tuple of ints, not float"),
    "name": (lambda: X.sum(dims=1), "sum() got an unexpected keyword argument 'dims'. Did you mean 'dim'?"),
    "no name": (lambda: smolder.exp(X, foo=1), "exp() got an unexpected keyword argument 'foo'. It takes input"),
    "missing": (lambda: smolder.matmul(X), 'matmul() missing 1 required positional argument: "other"'),
    "many": (lambda: smolder.relu(X, 1, 2), "relu() takes 1 positional argument but 3 were given"),
    "twice": (lambda: smolder.sum(X, 1, dim=1), "sum() got multiple values for argument 'dim'"),
    "number": (lambda: smolder.matmul(X, 3), "matmul(): argument 'other' (position 2) must be Tensor, not int"),
    "element": (
        lambda: smolder.cat([X, 3]),
        "cat(): argument 'tensors' (position 1) must be tuple of Tensors, but found element of type int at pos 1",
    ),
    "a tensor for several": (
        lambda: smolder.cat(X),
        "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor",
    ),
    "name of what Python calls": (
        lambda: smolder.einsum(3),
        "einsum(): argument 'equation' (position 1) must be str, not int",
    ),
    "array": (
        lambda: smolder.exp(np.ones(2)),
        "exp(): argument 'input' (position 1) must be Tensor, not numpy.ndarray",
    ),
    "size": (lambda: smolder.zeros("3"), "zeros(): argument 'size' (position 1) must be tuple of ints, not str"),
    "float for a size": (lambda: X.view(2.5), "view(): argument 'size' (position 1) must be tuple of ints, not float"),
    "float in a size": (
        lambda: X.reshape([2.0, 3]),
        "reshape(): argument 'shape' (position 1) must be tuple of ints, but found element of type float at pos 0",
    ),
    "floats for a size": (
        lambda: smolder.ones(2, 1.5),
        "ones(): argument 'size' (position 1) must be tuple of ints, but found element of type float at pos 1",
    ),
    "bool for a size": (
        lambda: smolder.rand(True),
        "rand(): argument 'size' (position 1) must be tuple of ints, not bool",
    ),
    "size of a new tensor": (
        lambda: X.new_zeros("a"),
        "new_zeros(): argument 'size' (position 1) must be tuple of ints, not str",
    ),
    "dtype": (lambda: smolder.tensor([1], dtype="f"), "tensor(): argument 'dtype' must be smolder.dtype, not str"),
    "device": (lambda: smolder.device(1.5), "device(): argument 'type' (position 1) must be str or int, not float"),
    "constructor": (lambda: smolder.dtype(3), "cannot create 'smolder.dtype' instances"),
    "deletion": (lambda: X.__delitem__(0), "Tensor does not support deleting items"),
    "float for a layer": (
        lambda: nn.Linear(2.5, 2),
        "empty(): argument 'size' (position 1) must be tuple of ints, but found element of type float at pos 1",
    ),
    "layer of a private base": (
        lambda: nn.Conv2d(1, 1, 1, pading=1),
        "Conv2d.__init__() got an unexpected keyword argument 'pading'",
    ),
    "not of floats": (
        lambda: ~X,
        "~ (operator.invert) is only implemented on integer and Boolean-type tensors, got float32",
    ),
    "self": (
        lambda: smolder.Tensor.sum(3),
        "descriptor 'sum' for 'Tensor' objects doesn't apply to a 'int' object: call it on a Tensor",
    ),
    "large size": (
        lambda: smolder.sum(X, dim=2**70),
        f"sum(): Overflow when unpacking long: the number {2**70} doesn't fit 64 bits",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_form(mistake):
    call, text = MISTAKES[mistake]
    with pytest.raises(ValueError if mistake == "large size" else TypeError) as caught:
        call()
    assert str(caught.value).partition("\n  at ")[0] == text


def bound_functions():
    for scope in [_core, *(t for t in vars(_core).values() if isinstance(t, type))]:
        for name, member in vars(scope).items():
            if type(member).__name__ in ("nb_func", "nb_method") and "**kwargs" not in member.__nb_signature__[-1][0]:
                yield f"{scope.__name__}.{name}", member


def test_every_class_without_a_constructor():
    classes = [t for t in vars(_core).values() if isinstance(t, type) and type(t).__name__.startswith("nb_type")]
    refused = [t for t in classes if type(t.__init__).__name__ not in ("nb_method", "function")]
    assert len(refused) > 10
    for t in refused:
        with pytest.raises(TypeError) as caught:
            t()
        assert str(caught.value) == f"cannot create 'smolder.{t.__name__}' instances"


@pytest.mark.parametrize(
    "kind", [nn.Conv1d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.AvgPool2d, nn.MSELoss, nn.ZeroPad2d]
)
def test_constructors_name_their_class(kind):
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\)"):
        kind(no_such_argument=1)


def test_numbers_without_dimensions_are_numbers():
    two = smolder.tensor(2)
    assert smolder.arange(two).tolist() == [0, 1] and smolder.full((2,), two).tolist() == [2, 2]
    assert X.add(X, alpha=two).tolist() == (X * 3).tolist()
    assert smolder.linspace(smolder.tensor(0.0), smolder.tensor(1.0), two).tolist() == [0, 1]
    assert X.view(smolder.tensor(3), -1).shape == (3, 2) and X.topk(two)[0].shape == (2, 2)
    masked = X.masked_fill(X > 0, smolder.tensor(5.0, requires_grad=True))
    assert masked.requires_grad  # as the tensor that it is, where there is an overload for one
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        smolder.arange(smolder.tensor([2]))


def test_every_function():
    functions = dict(bound_functions())
    assert len(functions) > 500
    for name, function in functions.items():
        with pytest.raises(TypeError) as caught:
            function(_no_such_argument=1)
        text = str(caught.value)
        assert "_no_such_argument" in text and "incompatible" not in text, (name, text)


@pytest.mark.parametrize(
    "call, text",
    (
        (lambda x: smolder.mode(None), r"mode\(\): argument 'input' \(position 1\) must be Tensor, not NoneType"),
        (
            lambda x: smolder.renorm([1.0], 2, 0, 1.0),
            r"renorm\(\): argument 'input' \(position 1\) must be Tensor, not list",
        ),
        (lambda x: smolder.fft.fft(3.0), r"fft\(\): argument 'input' \(position 1\) must be Tensor, not float"),
        (lambda x: smolder.special.i0("a"), r"i0\(\): argument 'input' \(position 1\) must be Tensor, not str"),
        (
            lambda x: smolder.linalg.solve(x, B=None),
            r"solve\(\): argument 'B' \(position 2\) must be Tensor, not NoneType",
        ),
        (lambda x: smolder.tensordot(x, 2), r"tensordot\(\): argument 'b' \(position 2\) must be Tensor, not int"),
    ),
)
def test_functions_of_python_name_what_is_no_tensor(call, text):
    with pytest.raises(TypeError, match=text):
        call(smolder.eye(2))
