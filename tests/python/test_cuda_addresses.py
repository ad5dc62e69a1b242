"""Addresses on CUDA that are easily got wrong: elements beyond the 2^31st, and operands that start anywhere."""

import pytest
from conftest import assert_same_bits
from test_cuda import on_a_device

import smolder
from smolder import cuda
from smolder.nn import functional as F

FLOATS = ["float32", "bfloat16"]


def large():
    return cuda.is_available() and cuda.get_device_properties().total_memory >= 32 << 30


beyond = pytest.mark.skipif(not large(), reason="there is no CUDA device with 32 GiB")
N = 2**31 + 1003  # elements


def at(x, *places):
    return [x[i].item() for i in places]


@pytest.fixture
def nothing_kept():
    yield
    smolder.mark_step()
    if cuda.is_available():
        cuda.empty_cache()


@beyond
def test_elementwise_beyond_2_31(nothing_kept):
    x = smolder.zeros(N, dtype=smolder.uint8, device="cuda")
    x[2**31 :] = 3
    y = (x + 1) * 2
    assert at(y, 0, 2**31 - 1, 2**31, N - 1) == [2, 2, 8, 8]
    smolder.mark_step()
    half = x.to(smolder.bfloat16) * 0.5
    del x, y
    assert at(half, 2**31 - 1, 2**31, N - 1) == [0, 1.5, 1.5]


@beyond
def test_reductions_beyond_2_31(nothing_kept):
    x = smolder.ones(N, dtype=smolder.uint8, device="cuda")
    x[N - 2] = 7
    x[N - 5] = 0
    assert x.sum().item() == N + 5 and x.max().item() == 7 and x.min().item() == 0
    assert x.argmax().item() == N - 2 and x.argmin().item() == N - 5
    assert (x > 1).any().item() and (x == 0).sum().item() == 1
    table = x[: 2**31].view(2**15, 2**16)
    table[-1, -1] = 9
    columns, rows = table.amax(0), table.sum(1)
    assert at(columns, 0, 2**16 - 1) == [1, 9] and at(rows, 0, 2**15 - 1) == [2**16, 2**16 + 8]


@beyond
def test_scans_beyond_2_31(nothing_kept):
    x = smolder.zeros(N, dtype=smolder.uint8, device="cuda")
    x[[5, 2**31 + 7]] = 1
    total = x.cumsum(0, dtype=smolder.int32)
    assert at(total, 4, 5, 2**31 + 6, 2**31 + 7, N - 1) == [0, 1, 1, 2, 2]
    assert x.nonzero().tolist() == [[5], [2**31 + 7]]


@beyond
def test_indices_beyond_2_31(nothing_kept):
    x = smolder.zeros(N, dtype=smolder.uint8, device="cuda")
    where = smolder.tensor([3, 2**31 - 1, 2**31, N - 1], device="cuda")
    x[where] = smolder.tensor([1, 2, 3, 4], dtype=smolder.uint8, device="cuda")
    assert x[where].tolist() == x.gather(0, where).tolist() == x.index_select(0, where).tolist() == [1, 2, 3, 4]
    x.index_add_(0, where, smolder.full((4,), 10, dtype=smolder.uint8, device="cuda"))
    assert at(x, 3, 2**31, N - 1, 2**31 + 1) == [11, 13, 14, 0]
    x.index_fill_(0, where[2:], 9)
    assert x.sum().item() == 11 + 12 + 9 + 9
    with pytest.raises(IndexError, match="is out of bounds"):
        x[smolder.tensor([N], device="cuda")].tolist()
    del x
    weight = smolder.zeros(2**21 + 3, 1024, dtype=smolder.bfloat16, device="cuda")
    weight[2**21 + 1] = 2
    rows = F.embedding(smolder.tensor([0, 2**21 + 1], device="cuda"), weight)
    assert rows.sum(1).tolist() == [0, 2048]


@beyond
def test_movement_beyond_2_31(nothing_kept):
    x = smolder.zeros(2**16, 2**15 + 1, dtype=smolder.uint8, device="cuda")
    x[-1, -2:] = smolder.tensor([5, 6], dtype=smolder.uint8, device="cuda")
    t = x.t().contiguous()
    assert at(t[:, -1], 2**15 - 1, 2**15) == [5, 6] and t.stride() == (2**16, 1)
    both = smolder.cat([t.view(-1), t.view(-1)[:5] + 1])
    assert at(both, 2**31 + 2**16 - 1, 2**31 + 2**16) == [6, 1] and both.sum().item() == 16
    assert x.flip(0)[0, -1].item() == 6


@beyond
def test_products_beyond_2_31(nothing_kept):
    a = smolder.ones(2**16, 8, dtype=smolder.bfloat16, device="cuda")
    b = smolder.ones(8, 2**15 + 16, dtype=smolder.bfloat16, device="cuda")
    a[-1] = 2
    c = a @ b
    assert at(c.view(-1), 0, 2**31 - 1, c.numel() - 1) == [8, 8, 16] and c[-1].float().mean().item() == 16


@on_a_device
@pytest.mark.parametrize("dtype", [*FLOATS, "float64", "uint8"])
@pytest.mark.parametrize("start", [1, 3, 7])
def test_slices_start_anywhere(dtype, start):
    base = (smolder.rand(5003, device="cuda") * 100).to(getattr(smolder, dtype))
    other = (smolder.rand(5003, device="cuda") * 100).to(base.dtype)
    smolder.mark_step()
    for stop in (5003, 5000, start + 1, start):
        part, same = base[start:stop], base[start:stop].clone()
        smolder.mark_step()
        for what in (
            lambda x: x * 2 + 1,
            lambda x: x + other[: len(x)],
            lambda x: x.sum(),
            lambda x: smolder.cat([x[1:], x]),
            lambda x: x.flip(0),
            lambda x: x.cumsum(0),
            lambda x: x.sort()[0],
        ):
            assert_same_bits(what(part)._to_numpy(), what(same)._to_numpy(), f"from {start} to {stop}")
    expected = base.cpu()
    expected[start:] *= 3
    base[start:] *= 3  # written where it lies
    assert_same_bits(base._to_numpy(), expected._to_numpy())
    shared = smolder.from_dlpack(base[start:])
    assert_same_bits((shared + 1)._to_numpy(), (base[start:] + 1)._to_numpy())


@on_a_device
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("columns", [31, 33, 1023, 4097])
def test_rows_start_anywhere(dtype, columns):
    """Rows of an odd length, from the second element on."""
    base = smolder.randn(9 * columns + 1, device="cuda").to(getattr(smolder, dtype))
    part = base[1:].view(9, columns)
    same = part.clone()
    smolder.mark_step()
    for what in (
        lambda x: F.softmax(x, 1),
        lambda x: F.layer_norm(x, (columns,)),
        lambda x: x.sum(0),
        lambda x: x.amax(1),
        lambda x: x.t() * 2,
        lambda x: x[:, 1:] - x[:, :-1],
    ):
        assert_same_bits(what(part)._to_numpy(), what(same)._to_numpy())


@on_a_device
@pytest.mark.parametrize("dtype", [*FLOATS, "float16"])
@pytest.mark.parametrize("m, n, k", [(5, 7, 3), (33, 65, 127), (128, 256, 64)])
def test_operands_of_products_start_anywhere(dtype, m, n, k):
    def operand(rows, columns, start):
        return (
            smolder.randn(rows * columns + start, device="cuda").to(getattr(smolder, dtype))[start:].view(rows, columns)
        )

    unit = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for start_a, start_b in [(1, 0), (0, 1), (3, 5)]:
        a, b = operand(m, k, start_a), operand(n, k, start_b).t()
        smolder.mark_step()
        expected = a.double().cpu() @ b.double().cpu()
        for got in (a @ b, (a.clone() @ b.clone()), (b.t() @ a.t()).t()):
            assert (got.double().cpu() - expected).abs().max().item() <= unit * k**0.5 * 4
        bias = operand(1, n, 1)[0]
        got = F.linear(a, b.t(), bias).double().cpu()
        assert (got - expected - bias.double().cpu()).abs().max().item() <= unit * k**0.5 * 4
