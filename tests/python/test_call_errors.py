"""Calls whose arguments do not fit: torch's form, and no text of the binding generator."""

import pytest

import smolder
from smolder import _core

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
    "self": (
        lambda: smolder.Tensor.sum(3),
        "descriptor 'sum' for 'Tensor' objects doesn't apply to a 'int' object: call it on a Tensor",
    ),
    "size": (
        lambda: smolder.sum(X, dim=2**70),
        f"sum(): Overflow when unpacking long: the number {2**70} doesn't fit 64 bits",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_form(mistake):
    call, text = MISTAKES[mistake]
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == text


def bound_functions():
    for scope in [_core, *(t for t in vars(_core).values() if isinstance(t, type))]:
        for name, member in vars(scope).items():
            if type(member).__name__ in ("nb_func", "nb_method") and "**kwargs" not in member.__nb_signature__[-1][0]:
                yield f"{scope.__name__}.{name}", member


def test_every_function():
    functions = dict(bound_functions())
    assert len(functions) > 500
    for name, function in functions.items():
        with pytest.raises(TypeError) as caught:
            function(_no_such_argument=1)
        text = str(caught.value)
        assert "_no_such_argument" in text and "incompatible" not in text, (name, text)
