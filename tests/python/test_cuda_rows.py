"""CUDA: kernels of rows, and what the lanes of a thread do together, where it could go wrong."""

import numpy as np
import pytest
from conftest import assert_same_bits

import smolder
from smolder import cuda

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 131072.0, -3e5, 1e30, 1.0]


@pytest.mark.parametrize("f", ["sin", "cos", "tan"])
@pytest.mark.parametrize("n", [4, 64, 67])
def test_a_rare_lane_changes_none_beside_it(f, n):
    x = np.linspace(-40, 40, n).astype(np.float32)
    for at, special in enumerate(SPECIAL):
        x[at * 3 % n] = special
        got, want = (getattr(smolder, f)(smolder.tensor(x, device=d)).cpu().numpy() for d in ("cuda", "cpu"))
        np.testing.assert_array_equal(got, want)  # the signs of zeros, too
        zeros = want == 0
        assert_same_bits(got[zeros], want[zeros])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [8, 12, 33, 1024])
def test_the_largest_of_a_row_is_found_wherever_it_is(dtype, n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n + 1, n)).astype(np.float32)
    x[np.arange(n), np.arange(n)] = 9
    x[n, n // 2] = np.nan
    for f in ("amax", "amin"):
        for sign in (1, -1):
            got, want = (
                getattr(smolder.tensor(sign * x, device=d).to(getattr(smolder, dtype)), f)(1).cpu().float().numpy()
                for d in ("cuda", "cpu")
            )
            np.testing.assert_array_equal(got, want)


def softmax(x):
    with np.errstate(invalid="ignore"):  # a row of -inf is nan
        e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype,tolerance", [("float32", 5e-6), ("bfloat16", 4e-3)])
@pytest.mark.parametrize("n", [5, 48, 1024, 1028, 4096, 16384, 17000, 20001, 20480, 50304])
def test_softmax_of_any_row(dtype, tolerance, n):
    """Rows that registers hold, in whole chunks and not, and longer ones; with -inf, large numbers and nan."""
    rng = np.random.default_rng(n)
    t = smolder.tensor(rng.standard_normal((6, n)).astype(np.float32) * 3).to(getattr(smolder, dtype))
    x = t.float().numpy().astype(np.float64)
    x[1, ::2] = -np.inf
    x[2, n // 2] = np.nan
    x[3] = -np.inf
    x[4, 1::3] = -200
    x[4, n - 1] = 3e30
    x[5] = np.where(np.arange(n) == 3, 1, -85)
    on_device = smolder.tensor(x.astype(np.float32), device="cuda").to(getattr(smolder, dtype))
    x = on_device.cpu().float().numpy().astype(np.float64)
    got = smolder.softmax(on_device, 1).cpu().float().numpy()
    np.testing.assert_allclose(got, softmax(x), rtol=tolerance, atol=1e-37)


@pytest.mark.parametrize("n", [7, 64, 1024])
def test_a_row_by_its_largest_is_the_rounded_quotient(n):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((64, n)) * 2.0 ** rng.integers(-30, 20, (64, 1))).astype(np.float32)
    x[:, 0] = np.abs(x).max(1) * rng.uniform(1, 2, 64).astype(np.float32)  # nothing else is as large
    x[:, 1], x[:, 2], x[:, 3] = 0.0, -0.0, np.float32(1e-38)
    x[1, 4], x[2, 4], x[3] = -np.inf, np.nan, -np.abs(x[3])
    t = smolder.tensor(x, device="cuda")
    got = (t / t.amax(1, keepdim=True)).cpu().numpy()
    with np.errstate(all="ignore"):
        want = x / x.max(1, keepdims=True)
    known = ~np.isnan(want)
    assert_same_bits(got[known], want[known])
    assert np.isnan(got[~known]).all()


def test_weights_of_halves_are_no_step_of_their_own():
    """A device makes float32 of halves as it loads them."""
    x = smolder.randn(64, 1024, device="cuda").to(smolder.bfloat16)
    w, b = (smolder.randn(1024, device="cuda").to(smolder.bfloat16) for _ in range(2))
    smolder.mark_step()

    def step():
        return smolder.nn.functional.layer_norm(x, (1024,), w, b)

    assert [len(g.kernels) for g in smolder.explain(step)().graphs] == [1]
    want = smolder.nn.functional.layer_norm(x.float(), (1024,), w.float(), b.float())
    np.testing.assert_allclose(step().cpu().float().numpy(), want.cpu().numpy(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("width", [64, 67])
def test_a_sum_of_all_finds_operands_that_are_spread(width):
    """Positions are divided by sizes that are multiples of a chunk or not: whole numbers, whose sums are exact."""
    rng = np.random.default_rng(width)
    x, y = (rng.integers(-9, 9, (150, width)).astype(np.float32) for _ in range(2))
    row, column, cube = y[0], x[:, :1], y[:, :, None] * x[0, :4]
    made = {"x": x, "y": y, "row": row, "column": column, "few": cube[:5, :, :1], "cube": cube}
    cases = {
        "row": lambda t: t["x"] * t["row"],
        "column": lambda t: t["x"] * t["column"],
        "cut": lambda t: t["x"][:, :-1] * t["y"][:, 1:],
        "turned": lambda t: t["x"].T * t["y"].T,
        "middle": lambda t: t["cube"] * t["row"][:, None],
        "first of three": lambda t: t["cube"][:5] * t["few"],
    }
    tensors = {name: smolder.tensor(np.ascontiguousarray(v), device="cuda") for name, v in made.items()}
    for name, f in cases.items():
        assert f(tensors).sum().item() == f(made).sum(dtype=np.float64), name


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("shape,axes", [((1000, 8), 0), ((999, 9), None), ((40, 3, 50), (0, 2)), ((300, 2, 5), (0, 2))])
def test_variance_far_from_zero(device, shape, axes):
    """Parts of long axes are put together: numbers about a large mean, and one of them far from it."""
    x = (np.random.default_rng(3).standard_normal(shape) + 1e4).astype(np.float32)
    for outlier in (x[(0,) * x.ndim], 0.0, 2e4):
        x[(0,) * x.ndim] = outlier
        t = smolder.tensor(x, device=device)
        got = (t.var(axes) if axes is not None else t.var()).cpu().numpy()
        np.testing.assert_allclose(
            got, x.astype(np.float64).var(axes, ddof=1), rtol=1e-4 if outlier in (0, 2e4) else 2e-5
        )
    x[(0,) * x.ndim] = np.inf
    t = smolder.tensor(x, device=device)
    assert np.isnan((t.var(axes) if axes is not None else t.var()).cpu().numpy()).any()
    same = smolder.full(shape, 3.3, device=device)
    assert ((same.var(axes) if axes is not None else same.var()).cpu().numpy() < 1e-9).all()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "shape,axis",
    [((1000, 5), 0), ((9000, 3), 0), ((150_000,), 0), ((2, 70_000), 1), ((70, 301), None), ((3, 700, 2), 1)],
)
def test_the_first_of_equal_elements_is_found(device, shape, axis):
    rng = np.random.default_rng(4)
    x = rng.integers(-50, 50, shape).astype(np.float32)
    for special in (0, np.nan):
        x.reshape(-1)[rng.integers(0, x.size, 3)] = special
        t = smolder.tensor(x, device=device)
        np.testing.assert_array_equal(t.argmax(axis).cpu().numpy(), x.argmax(axis))
        np.testing.assert_array_equal(t.argmin(axis).cpu().numpy(), x.argmin(axis))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "uint8"])
@pytest.mark.parametrize("n", [64, 66, 67])
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_elements_between_each_others_are_read_and_written_whole(dtype, n, parts):
    """Joined along a new last axis and taken apart along it, where chunks are aligned and where they are not."""
    rng = np.random.default_rng(n)
    xs = [rng.integers(0, 99, (5, n)) for _ in range(parts)]
    ts = [smolder.tensor(x, device="cuda").to(getattr(smolder, dtype)) for x in xs]
    joined, want = smolder.stack([t + 1 for t in ts], -1), np.stack(xs, -1) + 1
    np.testing.assert_array_equal(joined.cpu().float().numpy(), want)
    flat = (joined.flatten(-2) * 2).cpu()
    np.testing.assert_array_equal(flat.float().numpy(), want.reshape(5, -1) * 2)
    whole = flat.to("cuda")
    for i in range(parts):
        np.testing.assert_array_equal((whole[..., i::parts] + 1).cpu().float().numpy(), want[..., i] * 2 + 1)
        np.testing.assert_array_equal((joined.unbind(-1)[i] + 1).cpu().float().numpy(), want[..., i] + 1)
    np.testing.assert_array_equal((whole[1:, 1::2] + 1).cpu().float().numpy(), want.reshape(5, -1)[1:, 1::2] * 2 + 1)


def test_pairs_are_rotated():
    q = np.random.default_rng(0).standard_normal((2, 3, 4, 32)).astype(np.float32)
    angle = np.outer(np.arange(3), np.linspace(1, 2, 16)).astype(np.float32)
    cos, sin = np.cos(angle)[None, :, None], np.sin(angle)[None, :, None]

    def rotated(x, c, s):
        a, b = x.unflatten(-1, (16, 2)).unbind(-1)
        return smolder.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    a, b = q[..., ::2], q[..., 1::2]
    want = np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(q.shape)
    ts = [smolder.tensor(x, device="cuda") for x in (q, cos, sin)]
    got = rotated(*ts)
    np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(64, 1), (1, 96), ()])
def test_normal_numbers_are_the_same_alone_and_beside_others(shape):
    """A kernel of rows draws once for a row what one of elements draws by lanes."""
    smolder.manual_seed(3)
    alone = smolder.randn(*shape, device="cuda").cpu().numpy()
    x = smolder.zeros(64, 96, device="cuda").cpu().to("cuda")
    smolder.manual_seed(3)
    beside = (x + smolder.randn(*shape, device="cuda")).cpu().numpy()
    assert_same_bits(beside, np.broadcast_to(alone, (64, 96)))
