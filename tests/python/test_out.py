"""`out=`: the result is written there, resized where it does not fit, with torch's rules of dtypes and gradients."""

import warnings

import pytest

import smolder
from smolder import linalg

x = smolder.tensor([[1.0, 2.0], [3.0, 4.0]])


def square(**options):
    return smolder.zeros(2, 2, **options)


FUNCTIONS = {
    "add": lambda out: smolder.add(x, 1, alpha=2, out=out),
    "matmul": lambda out: smolder.matmul(x, x, out=out),
    "cat": lambda out: smolder.cat([x[:1], x[1:]], out=out),
    "exp": lambda out: smolder.exp(x, out=out),
    "where": lambda out: smolder.where(x > 1, x, x * 2, out=out),
    "einsum's parts": lambda out: smolder.tensordot(x, x, 1, out=out),
    "full": lambda out: smolder.full((2, 2), 3.0, out=out),
    "eye": lambda out: smolder.eye(2, out=out),
    "inv": lambda out: linalg.inv(x, out=out),
    "matrix_power": lambda out: smolder.matrix_power(x, 2, out=out),
    "softmax": lambda out: smolder.softmax(x, 1, out=out),
}


@pytest.mark.parametrize("mode", ["recorded", "eager"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_result_is_written_and_returned(name, mode):
    f = FUNCTIONS[name]
    want = f(None).tolist()
    out = square()
    view = out[0]
    held = out.data_ptr()
    if mode == "eager":
        with smolder.eager():
            assert f(out) is out
    else:
        assert f(out) is out
    assert out.tolist() == want and view.tolist() == want[0]
    assert held is not None


def test_several_results():
    values, indices = smolder.zeros(2), smolder.zeros(2, dtype=smolder.int64)
    result = smolder.max(x, 1, out=(values, indices))
    assert result[0] is values and result.indices is indices
    assert values.tolist() == [2, 4] and indices.tolist() == [1, 1]
    q, r = smolder.zeros(2, 2), smolder.zeros(2, 2)
    factors = linalg.qr(x, out=(q, r))
    assert factors.Q is q and (q @ r - x).abs().max() < 1e-5
    with pytest.raises(TypeError, match=r"max\(\): argument 'out' must be tuple of 2 Tensors, not Tensor"):
        smolder.max(x, 1, out=values)
    with pytest.raises(TypeError, match=r"argument 'out' must be Tensor, not list"):
        smolder.add(x, x, out=[1])


def test_an_output_that_does_not_fit_is_resized():
    out = smolder.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smolder.add(x, x, out=out)
    assert out.shape == (2, 2) and out.tolist() == (x * 2).tolist()
    out = smolder.zeros(5)
    with pytest.warns(
        UserWarning, match=r"resized since it had shape \[5\], which does not match .* \[2, 2\]"
    ) as caught:
        smolder.add(x, x, out=out)
    assert caught[0].filename == __file__ and out.shape == (2, 2)


def test_dtypes():
    out = square(dtype=smolder.float64)
    assert smolder.add(x, x, out=out).dtype == smolder.float64 and out.tolist() == (x * 2).tolist()
    with pytest.raises(RuntimeError, match=r"float32 can't be cast to the desired output type .*int64"):
        smolder.add(x, x, out=square(dtype=smolder.int64))
    with pytest.raises(RuntimeError, match="can't be cast"):
        smolder.add(x.long(), 1, out=square(dtype=smolder.bool))
    assert smolder.gt(x, 1, out=square(dtype=smolder.int32)).tolist() == [[0, 1], [1, 1]]
    assert smolder.ones(2, 2, out=square(dtype=smolder.int32)).dtype == smolder.int32
    assert smolder.arange(4, out=smolder.zeros(4)).dtype == smolder.float32


def test_gradients():
    p = x.clone().requires_grad_()
    for call in (lambda: smolder.add(p, 1, out=square()), lambda: smolder.add(x, 1, out=square().requires_grad_())):
        with pytest.raises(RuntimeError, match=r"add.*out=\.\.\. arguments don't support automatic differentiation"):
            call()
    with smolder.no_grad():
        assert smolder.add(p, 1, out=square()).tolist() == (x + 1).tolist()


def test_operands_may_be_the_output():
    a = x.clone()
    assert smolder.mul(a, a, out=a) is a and a.tolist() == (x * x).tolist()
    strided = smolder.zeros(2, 4)
    smolder.add(x, x, out=strided[:, ::2])
    assert strided.tolist() == [[2, 0, 4, 0], [6, 0, 8, 0]]


def test_mistakes_beside_out_are_told_as_ever():
    with pytest.raises(TypeError, match=r"add\(\) got an unexpected keyword argument 'alhpa'. Did you mean 'alpha'"):
        smolder.add(x, x, alhpa=2, out=square())
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        smolder.matmul(x, smolder.ones(3, 3), out=square())


def test_an_operand_is_not_resized():
    """Who has it would have another tensor."""
    for call in (
        lambda a, b: smolder.add(a, b, out=a),
        lambda a, b: smolder.where(a > 0, b, a, out=a),
        lambda a, b: smolder.sum(a, 0, out=a),
        lambda a, b: smolder.cat([a, b[0]], out=a),
    ):
        a = smolder.ones(3)
        with pytest.raises(RuntimeError, match=r"output with shape .* doesn't match the broadcast shape"):
            call(a, smolder.ones(2, 3))
        assert a.tolist() == [1, 1, 1]
    a = smolder.ones(3)
    assert smolder.add(a, 1, out=a) is a and a.tolist() == [2, 2, 2]


def test_complex_results_go_into_complex_tensors():
    z = smolder.tensor([1 + 2j, 3j])
    for dtype in (smolder.float32, smolder.int64, smolder.bool):  # which would drop the imaginary part
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            smolder.mul(z, 2.0, out=smolder.zeros(2, dtype=dtype))
    out = smolder.zeros(2, dtype=smolder.complex64)
    assert smolder.sqrt(smolder.tensor([4, 9]), out=out) is out
    assert out.tolist() == [2 + 0j, 3 + 0j]


def test_mode_writes_values_and_places():
    x = smolder.tensor([[1.0, 2.0, 2.0], [3.0, 1.0, 3.0]])
    values, places = smolder.empty(0), smolder.empty(0, dtype=smolder.int64)
    smolder.mode(x, 1, out=(values, places))
    assert values.tolist() == [2, 3] and places.tolist() == [2, 2]
