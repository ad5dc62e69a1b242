"""Tensors of more dimensions than a list of extents holds inline: of bits, such as a register of qubits."""

import io
import itertools
import random

import numpy
import pytest

import smolder
from smolder import cuda

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")),
]
RANK = 11


def bits(rank=RANK):
    return numpy.random.RandomState(0).randint(-9, 10, [2] * rank).astype(numpy.float32)


def halves(axes):
    return tuple(range(0, axes, 2)), tuple(range(1, axes, 2))


EVEN, ODD = halves(RANK)
BACKWARD = tuple(reversed(range(RANK)))
ZEROS = numpy.zeros([2] * RANK, numpy.int64)
CASES = {
    "permute": (lambda x: x.permute(BACKWARD).contiguous(), lambda x: x.transpose(BACKWARD)),
    "interleave": (lambda x: x.permute(EVEN + ODD) + x.permute(ODD + EVEN), lambda x: x.transpose(EVEN + ODD) + x.transpose(ODD + EVEN)),
    "flip": (lambda x: x.flip(EVEN), lambda x: numpy.flip(x, EVEN)),
    "sum": (lambda x: x.sum(EVEN), lambda x: x.sum(EVEN)),
    "amax": (lambda x: x.amax(ODD, keepdim=True), lambda x: x.max(ODD, keepdims=True)),
    "var": (lambda x: x.var(EVEN), lambda x: x.var(EVEN, ddof=1)),
    "cumsum": (lambda x: x.cumsum(7), lambda x: x.cumsum(7)),
    "sort": (lambda x: x.permute(BACKWARD).sort(4)[0], lambda x: numpy.sort(x.transpose(BACKWARD), 4)),
    "gather": (lambda x: x.permute(BACKWARD).gather(3, smolder.zeros([2] * RANK, dtype=smolder.int64, device=x.device)),
               lambda x: numpy.take_along_axis(x.transpose(BACKWARD), ZEROS, 3)),
    "select": (lambda x: x[:, 1, ..., 0, None], lambda x: x[:, 1, ..., 0, None]),
    "roll": (lambda x: x.roll((1, 1), (2, 9)), lambda x: numpy.roll(x, (1, 1), (2, 9))),
    "cat": (lambda x: smolder.cat([x, -x], 6), lambda x: numpy.concatenate([x, -x], 6)),
    "broadcast": (lambda x: x[:1] * x[..., :1], lambda x: x[:1] * x[..., :1]),
    "matmul": (lambda x: x @ x.permute(BACKWARD), lambda x: x @ x.transpose(BACKWARD)),
    "tensordot": (lambda x: smolder.tensordot(x, x, (EVEN, EVEN)), lambda x: numpy.tensordot(x, x, (EVEN, EVEN))),
    "einsum": (lambda x: smolder.einsum("abcdefghijk,kl->labcdefghij", x, x.reshape(-1, 2)[:2]),
               lambda x: numpy.einsum("abcdefghijk,kl->labcdefghij", x, x.reshape(-1, 2)[:2])),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_results_are_numpys(case, device):
    ours, numpys = CASES[case]
    x = bits()
    numpy.testing.assert_allclose(ours(smolder.tensor(x, device=device)).cpu().numpy(), numpys(x), rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_go_through_movements(device):
    x = smolder.tensor(bits(), device=device, requires_grad=True)
    (x.permute(BACKWARD) * smolder.tensor(bits(), device=device)).sum(EVEN).pow(2).sum().backward()
    moved = bits().transpose(BACKWARD)
    outer = 2 * (moved * bits()).sum(EVEN, keepdims=True) * bits()
    numpy.testing.assert_allclose(x.grad.cpu().numpy(), outer.transpose(BACKWARD), rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("computed", [False, True], ids=["recorded", "computed"])
def test_rows_of_many_dimensions_are_written(computed, device):
    r = random.Random(1)
    x, expected = smolder.tensor(bits(), device=device), bits()
    if computed:
        smolder.mark_step()
    for n in range(10):
        at = tuple(r.choice([0, 1, slice(None)]) for _ in range(RANK))
        x[at] = n
        expected[at] = n
    assert (x.cpu().numpy() == expected).all()


def test_registers_of_qubits_keep_their_norm():
    state = smolder.zeros([2] * 12)
    state[(0,) * 12] = 1
    turn = smolder.tensor([[0.6, -0.8], [0.8, 0.6]])
    for q in itertools.chain(range(12), range(0, 12, 3)):
        state = smolder.movedim(smolder.tensordot(turn, state, ([1], [q])), 0, q)
    assert abs(float(state.square().sum()) - 1) < 1e-5
    assert abs(float(state[(0,) * 12]) - 0.6**8 * (0.36 - 0.64) ** 4) < 1e-6


def test_complex_tensors_of_many_dimensions():
    x = bits() + 1j * bits().transpose(BACKWARD)
    ours = smolder.tensor(x)
    numpy.testing.assert_allclose(
        (ours.permute(BACKWARD).conj() * ours).numpy(), x.transpose(BACKWARD).conj() * x, rtol=1e-5
    )


def test_arrays_and_files_keep_their_shapes():
    x = smolder.tensor(bits(30 - 16).reshape([1] * 16 + [2] * 14))
    file = io.BytesIO()
    smolder.save(x, file)
    file.seek(0)
    assert smolder.load(file).shape == x.shape == smolder.from_numpy(x.numpy()).shape
    assert smolder.tensor(x.tolist()).equal(x)


def test_sixty_four_dimensions_are_the_most():
    most = smolder.ones([1] * 64)
    assert (most + most.squeeze(5)[..., None]).shape == (1,) * 64
    for more in (
        lambda: smolder.ones([1] * 65),
        lambda: most.unsqueeze(0),
        lambda: most.reshape([1] * 65),
        lambda: most.to(smolder.complex64),
    ):
        with pytest.raises(ValueError, match="at most 64 dimensions"):
            more()
