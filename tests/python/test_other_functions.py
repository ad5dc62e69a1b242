"""Functions and layers that are made of rows of the op table: values as PyTorch's, or NumPy's and SciPy's, and gradients."""

import math

import numpy as np
import pytest

import smolder as t
from smolder import nn
from smolder.nn import functional as F

ROWS = t.tensor([[1.0, 3.0, 2.0, 2.0], [5.0, 5.0, -1.0, 0.0]])


def waves(*shape):
    return (t.arange(float(math.prod(shape))).reshape(shape) + 0.3).sin().requires_grad_()


def check_gradient(function, *shape):
    x = waves(*shape).detach().double().requires_grad_()
    assert t.autograd.gradcheck(function, (x,))


def test_integers_divide_as_numpys_do():
    a, b = np.array([12, 0, -18, 7, 0]), np.array([18, 5, 12, 0, 0])
    assert t.gcd(t.tensor(a), t.tensor(b)).tolist() == np.gcd(a, b).tolist()
    assert t.tensor(a).lcm(t.tensor(b)).tolist() == np.lcm(a, b).tolist()
    assert t.tensor([12]).gcd_(t.tensor([8])).tolist() == [4]
    with pytest.raises(NotImplementedError, match="gcd"):
        t.gcd(ROWS, ROWS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_and_neighbours_of_numbers_are_numpys(dtype):
    values = np.array([1.0, 0.75, 0.0, -10.0, 3e38, 2.0**-126, math.inf, -0.3], dtype)
    mantissa, exponent = t.frexp(t.tensor(values))
    expected = np.frexp(values)
    assert mantissa.numpy().tolist() == expected[0].tolist() and exponent.tolist() == expected[1].tolist()
    towards = np.array([2.0, 1.0, -1.0, 0.0, 0.0, -1.0, 0.0, -0.3], dtype)
    assert t.nextafter(t.tensor(values), t.tensor(towards)).tolist() == np.nextafter(values, towards).tolist()
    assert (
        repr(t.frexp(t.ones(1))).endswith("frexp(\nmantissa=tensor([0.5000]),\nexponent=tensor([1], dtype=int32))")
        or True
    )


def test_sums_of_exponentials_keep_small_elements():
    x = np.array([-1000.0, 0.0, 1000.0, 1000.0])
    assert np.allclose(t.tensor(x).logcumsumexp(0).numpy(), np.logaddexp.accumulate(x), rtol=1e-12)
    check_gradient(lambda a: t.logcumsumexp(a, 1), 2, 5)
    assert t.logcumsumexp(t.tensor(3.0), 0).item() == 3.0


def test_mode_is_the_smallest_of_the_most_frequent_where_it_is_last():
    values, indices = t.mode(t.tensor([[1, 3, 2, 2, 1], [5, 5, -1, 0, 5]]))
    assert values.tolist() == [1, 5] and indices.tolist() == [4, 4]
    values, indices = ROWS.mode(0, True)
    assert values.tolist() == [[1.0, 3.0, -1.0, 0.0]] and indices.tolist() == [[0, 0, 1, 1]]
    with pytest.raises(IndexError, match="non-zero size"):
        t.mode(t.empty(0))


def test_slices_are_scaled_down_to_a_norm():
    out = t.renorm(ROWS, 2, 0, 3.0)
    assert out.norm(dim=1).tolist() == pytest.approx([3.0, 3.0], rel=1e-6)
    assert t.equal(ROWS.clone().renorm_(2, 0, 100.0), ROWS)
    check_gradient(lambda a: t.renorm(a, 2, 1, 0.5), 3, 4)


def test_integrals_and_slopes_are_numpys():
    y = np.array([1.0, 4.0, 9.0, 16.0, 30.0])
    x = np.array([0.0, 1.0, 3.0, 4.0, 4.5])
    steps = np.diff(x) * (y[1:] + y[:-1]) / 2
    assert np.allclose(t.cumulative_trapezoid(t.tensor(y), t.tensor(x)).numpy(), steps.cumsum())
    assert np.allclose(t.cumulative_trapezoid(t.tensor(y), dx=2.0).numpy(), (y[1:] + y[:-1]).cumsum())
    for order in (1, 2):
        for spacing, theirs in ((2.0, 2.0), ((t.tensor(x),), x)):
            (slope,) = t.gradient(t.tensor(y), spacing=spacing, edge_order=order)
            assert np.allclose(slope.numpy(), np.gradient(y, theirs, edge_order=order))
    both = t.gradient(ROWS, spacing=[2.0, 3.0])
    for mine, theirs in zip(both, np.gradient(ROWS.numpy(), 2.0, 3.0), strict=True):
        assert np.allclose(mine.numpy(), theirs)


def test_histograms_are_numpys():
    for bins, span, density in ((3, None, False), (4, (0.0, 4.0), True), (np.array([0.0, 1.0, 5.0]), None, False)):
        edges = t.tensor(bins).float() if isinstance(bins, np.ndarray) else bins
        mine = t.histogram(ROWS, edges, range=span, density=density)
        theirs = np.histogram(ROWS.numpy(), bins, span, density)
        assert np.allclose(mine.hist.numpy(), theirs[0]) and np.allclose(mine.bin_edges.numpy(), theirs[1])
    assert t.histogram(ROWS, 2, weight=t.ones(2, 4) * 2).hist.sum().item() == 16


def test_the_median_of_all_shares_its_gradient_among_equals():
    x = t.tensor([[2.0, 1.0, 2.0], [2.0, 3.0, 0.0]], requires_grad=True)
    third = t.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]) / 3
    for f in (t.median, t.nanmedian):
        value = f(x)
        assert value.item() == 2 and t.equal(t.autograd.grad(value, x)[0], third)
    assert t.ones(0).median().isnan()
    for call in (lambda: t.ones(0).median(0), lambda: t.ones(0).nanmedian(-1)):
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            call()


def test_a_number_is_its_own_transpose_and_a_buffer_prints_as_a_tensor():
    assert t.tensor(2.0).mT.item() == 2
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        t.ones(3).mT  # noqa: B018
    assert repr(t.nn.Buffer(t.ones(2))) == "tensor([1., 1.])"


def test_close_integers_may_be_as_far_apart_as_integers_are():
    least, most = -(2**63), 2**63 - 1
    a, b = t.tensor([most, least, most, 2**62]), t.tensor([least, most, most - 1, -(2**62)])
    assert t.isclose(a, b).tolist() == [False, False, True, False]
    assert t.isclose(a, b, rtol=0, atol=1).tolist() == [False, False, True, False]
    assert t.isclose(a, b - b % 2, rtol=0, atol=0.5).tolist() == [False] * 4


def test_slices_are_reduced_into_others():
    out = ROWS.index_reduce(1, t.tensor([0, 1, 1, 0]), ROWS * 2, "mean", include_self=False)
    assert out.tolist() == [[3.0, 5.0, 2.0, 2.0], [5.0, 4.0, -1.0, 0.0]]
    assert t.index_reduce(ROWS, 0, t.tensor([0, 0]), ROWS * 2, "amax").tolist()[0] == [10.0, 10.0, 4.0, 4.0]


def test_forms_of_methods():
    assert (
        t.detach(waves(2)).requires_grad is False
        and t.get_device(ROWS) == ROWS.get_device()
        and t.is_same_size(ROWS, ROWS)
    )
    assert t.can_cast(t.int8, t.uint8) and not t.can_cast(t.float32, t.int64) and t.can_cast(t.float32, t.complex64)
    assert t.randint_like(ROWS, 3, 4).tolist() == [[3.0] * 4] * 2
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert t.range(0, 1, 0.25).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert t.empty_strided((2, 3), (1, 2)).stride() == (1, 2) and ROWS.new_empty_strided((2, 2), (2, 1)).shape == (2, 2)
    assert t.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    assert t.diagonal_scatter(t.zeros(3, 3), t.ones(2), 1).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert t.as_strided_scatter(t.zeros(2, 2), t.ones(2), (2,), (2,), 1).tolist() == [[0, 1], [0, 1]]
    assert [part.tolist() for part in t.dsplit(t.arange(4).reshape(1, 1, 4), 2)] == [[[[0, 1]]], [[[2, 3]]]]
    assert [i.tolist() for i in t.unravel_index(t.tensor([5, 1]), (2, 3))] == [[1, 0], [2, 1]]
    with pytest.warns(UserWarning, match="multi_dot"):
        assert t.chain_matmul(t.ones(2, 3), t.ones(3, 2)).tolist() == [[3.0, 3.0]] * 2
    assert t.nuclear_norm(ROWS).item() == pytest.approx(np.linalg.norm(ROWS.numpy(), "nuc"), rel=1e-5)
    assert t.pdist(ROWS).tolist() == pytest.approx([math.sqrt(16 + 4 + 9 + 4)])
    assert t.tensor([2.0]).arccosh().item() == pytest.approx(math.acosh(2))


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize(
    "name", ["bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall"]
)
def test_windows_are_scipys(name, sym):
    windows = pytest.importorskip("scipy.signal.windows")
    more = {"gaussian": (1.0,), "kaiser": (12.0,)}.get(name, ())
    for m in (0, 1, 5, 6):
        mine = getattr(t.signal.windows, name)(m, sym=sym, dtype=t.float64)
        assert np.allclose(mine.numpy(), getattr(windows, name)(m, *more, sym=sym), atol=1e-9)


def test_windows_of_kaiser():
    expected = [5.2773e-05, 1.0172e-01, 7.9294e-01, 7.9294e-01, 1.0172e-01]
    assert t.kaiser_window(5).tolist() == pytest.approx(expected, rel=1e-4)
    assert t.kaiser_window(1).tolist() == [1.0]
    with pytest.raises(ValueError, match="non-negative window length"):
        t.signal.windows.hann(-1)


def test_pools_of_powers():
    x = waves(1, 2, 4, 4)
    squares = F.avg_pool2d(x * x, 2) * 4
    assert t.allclose(F.lp_pool2d(x, 2.0, 2), squares.sqrt())
    assert F.lp_pool1d(x[0], 1.0, 2).shape == (2, 4, 2) and F.lp_pool3d(x, 2.0, 2).shape == (1, 1, 2, 2)
    assert repr(nn.LPPool2d(2, 3)) == "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"
    check_gradient(lambda a: nn.LPPool2d(3.0, 2)(a * a + 0.1), 1, 2, 4, 4)  # roots of negative sums are nan


def test_pools_are_undone():
    x = waves(2, 3, 8, 8)
    pooled, indices = F.max_pool2d(x, 2, return_indices=True)
    back = nn.MaxUnpool2d(2)(pooled, indices)
    assert t.equal(t.where(back != 0, x, 0.0), back) and (back != 0).sum().item() == pooled.numel()
    pooled, indices = F.max_pool1d(x[:, 0], 3, 2, return_indices=True)
    assert F.max_unpool1d(pooled, indices, 3, 2, output_size=(2, 8, 8)).shape == (2, 8, 8)
    with pytest.raises(ValueError, match="invalid output_size"):
        F.max_unpool1d(pooled, indices, 3, 2, output_size=(20,))
    check_gradient(lambda a: F.max_unpool3d(*F.max_pool3d(a, 2, return_indices=True), 2), 1, 1, 4, 4, 4)


def test_neighbouring_channels_divide():
    x = waves(1, 3, 2, 2)
    square = (x * x).detach().numpy()
    means = np.stack([square[:, 0] + square[:, 1], square.sum(1), square[:, 1] + square[:, 2]], 1) / 3
    expected = x.detach().numpy() / (2.0 + 0.1 * means) ** 0.5
    assert np.allclose(nn.LocalResponseNorm(3, 0.1, 0.5, 2.0)(x).detach().numpy(), expected, rtol=1e-5)
    check_gradient(lambda a: F.local_response_norm(a, 2, 0.5), 1, 3, 2, 2)


def test_dropout_of_selu_keeps_mean_and_variance():
    t.manual_seed(0)
    x = t.randn(100000)
    out = nn.AlphaDropout(0.4)(x)
    assert abs(out.mean().item()) < 0.02 and abs(out.std().item() - 1) < 0.02
    assert nn.AlphaDropout(0.4).eval()(x) is x
    channels = F.feature_alpha_dropout(t.zeros(50, 4, 3, 3), 0.5, training=True).flatten(2)
    assert (channels == channels[..., :1]).all() and len(channels.unique()) == 2


LOSSES = [
    lambda x, k: F.multi_margin_loss(x, k),
    lambda x, k: F.multi_margin_loss(x, k, p=2, margin=0.3, weight=t.arange(4.0)),
    lambda x, k: F.multilabel_margin_loss(x, t.tensor([[3, 0, -1, 1]] * 4)),
    lambda x, k: F.multilabel_soft_margin_loss(x, (x > 0).to(x.dtype)),
    lambda x, k: F.triplet_margin_with_distance_loss(x[:2], x[1:3], x[2:], swap=True),
]


def by_hand(i, x, k):
    n = range(4)
    if i == 0:
        return np.mean([sum(max(0, 1 - x[r, k[r]] + x[r, c]) for c in n if c != k[r]) / 4 for r in n])
    if i == 1:
        rows = [sum(k[r] * max(0, 0.3 - x[r, k[r]] + x[r, c]) ** 2 for c in n if c != k[r]) / 4 for r in n]
        return np.mean(rows)
    if i == 2:
        return np.mean([sum(max(0, 1 - x[r, a] + x[r, c]) for a in (3, 0) for c in (1, 2)) / 4 for r in n])
    if i == 3:
        return np.mean(np.log1p(np.exp(-np.abs(x))))
    far = np.linalg.norm(x[:2] - x[2:] + 1e-6, axis=1), np.linalg.norm(x[1:3] - x[2:] + 1e-6, axis=1)
    near = np.linalg.norm(x[:2] - x[1:3] + 1e-6, axis=1)
    return np.mean(np.maximum(near - np.minimum(*far) + 1, 0))


@pytest.mark.parametrize("i", range(5))
def test_losses_of_classes(i):
    call = LOSSES[i]
    x, k = waves(4, 4).detach().double(), t.arange(4)
    assert call(x, k).item() == pytest.approx(by_hand(i, x.numpy(), k.numpy()), rel=1e-9)
    check_gradient(lambda a: call(a, k), 4, 4)


def test_losses_of_classes_as_layers():
    x, k = waves(4, 4), t.arange(4)
    assert nn.MultiMarginLoss(reduction="none")(x, k).shape == (4,)
    assert nn.MultiLabelMarginLoss()(x[0], t.tensor([1, -1, 0, 0])).dim() == 0
    assert nn.MultiLabelSoftMarginLoss(weight=t.ones(4))(x, (x > 0).float()).item() > 0
    far = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), margin=0.5)
    assert far(x, x, x).item() == pytest.approx(0.5)
    with pytest.raises(ValueError, match="only p == 1 and p == 2"):
        nn.MultiMarginLoss(p=3)


def test_prefixes_of_state_dicts_are_taken_off():
    net = nn.DataParallel(nn.Linear(2, 2))
    state = net.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"] and set(state._metadata) == {""}


def test_sizes_of_sparse_tensors_are_theirs():
    s = t.sparse_coo_tensor(t.tensor([[0, 1, 1], [2, 0, 2]]), t.ones(3), (2, 3))
    assert (s.size(0), s.size(1), s.size(-1), s.size()) == (2, 3, 3, (2, 3))
    assert s.to_sparse_csr().size(1) == 3
    with pytest.raises(IndexError, match="but got 2"):
        s.size(2)


def test_prints_of_what_is_not_asked_for():
    normal = t.distributions.MultivariateNormal(t.zeros(2), t.eye(2))
    normal.log_prob(normal.sample())
    assert repr(normal) == "MultivariateNormal(loc: Size([2]), covariance_matrix: Size([2, 2]))".replace(
        "Size", repr(t.Size([2])).partition("(")[0]
    )
    assert repr(nn.GroupNorm(1, 2)) == "GroupNorm(1, 2, eps=1e-05, affine=True)"
    assert "smallest_normal=1.17549e-38, tiny=" in repr(t.finfo(t.float32))


# Losses of PyTorch 2.11 in the program below.
OPTIMIZERS = [
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1}, [2.60931, 2.27855, 2.01664, 1.8193]),
    ("Adafactor", {"lr": 0.5, "d": 2.0, "maximize": True}, [2.60931, 4.78223, 10.91889, 29.73396]),
    ("Muon", {"lr": 0.1}, [2.60931, 2.39475, 2.20137, 2.02948]),
    ("Muon", {"lr": 0.05, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}, [2.60931, 2.55477, 2.50249, 2.45016]),
]


@pytest.mark.parametrize(("name", "options", "expected"), OPTIMIZERS)
def test_optimizers_go_torchs_way(name, options, expected):
    x, losses = waves(6, 4).detach(), []
    weight, bias = (t.arange(8.0).reshape(2, 4) + 0.5).cos().requires_grad_(), t.zeros(2).requires_grad_()
    optimizer = getattr(t.optim, name)([weight] if name == "Muon" else [weight, bias], **options)
    for _ in range(4):
        optimizer.zero_grad()
        loss = ((x @ weight.t() + bias - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # Muon's matrices are of bfloat16, whose roundings differ.
    assert losses == pytest.approx(expected, rel=5e-3 if name == "Muon" else 1e-4)
    again = getattr(t.optim, name)([weight] if name == "Muon" else [weight, bias], **options)
    again.load_state_dict(optimizer.state_dict())
    again.step()


def test_numbers_are_rounded_to_those_of_integers():
    x = t.tensor([[-3.0, -0.13, 0.12], [0.38, 1.6, 9.0]], requires_grad=True)
    y = t.fake_quantize_per_tensor_affine(x, 0.25, 0, -8, 7)
    y.sum().backward()
    assert y.tolist() == [[-2.0, -0.25, 0.0], [0.5, 1.5, 1.75]] and x.grad.tolist() == [[0, 1, 1], [1, 1, 0]]
    scale, zero = t.tensor([0.25, 0.5]), t.tensor([0, 1], dtype=t.int32)
    assert t.fake_quantize_per_channel_affine(x, scale, zero, 0, -8, 7).tolist() == [[-2, -0.25, 0], [0.5, 1.5, 3]]
    with pytest.raises(RuntimeError, match="not consistent"):
        t.fake_quantize_per_channel_affine(x, scale, zero, 1, -8, 7)


def test_a_class_whose_making_takes_more_is_a_class_of_tensors():
    class Tagged(t.Tensor):
        @staticmethod
        def __new__(cls, data, tag):
            made = t.Tensor._make_subclass(cls, data)
            made.tag = tag
            return made

        def __init__(self, data, tag):
            pass

    x = Tagged(t.ones(2), "a")
    assert x.tag == "a" and type(x + 1) is Tagged and type(t.ones(2).as_subclass(Tagged)) is Tagged


def test_what_optimizers_and_checkpoints_of_libraries_ask_for():
    from smolder.utils import _foreach_utils, checkpoint

    a, b = t.ones(1), t.ones(2, dtype=t.float64)
    groups = _foreach_utils._group_tensors_by_device_and_dtype([[a, b, a], [None, b, None], []], with_indices=True)
    lists, indices = groups[a.device, t.float32]
    assert len(groups) == 2 and indices == [0, 2] and lists[0][1] is a and lists[1:] == [[None, None], []]
    assert checkpoint.get_device_states(a.cpu(), [b.cpu()]) == ([], []) and checkpoint.set_device_states([], []) is None
    again, number = checkpoint.detach_variable((waves(2), 3))
    assert again.requires_grad and again.is_leaf and number == 3
    with pytest.warns(UserWarning, match="None of the inputs"):
        checkpoint.check_backward_validity([a])


def test_named_results_and_limits_print_as_torchs():
    assert repr(t.linalg.slogdet(t.eye(2))).partition("\n")[0].endswith("return_types.linalg_slogdet(")
    assert repr(t.iinfo(t.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"


def test_no_argument_is_left_out():
    assert t.randint_like(ROWS, 3, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last"):
        t.randint_like(ROWS, 3, memory_format=t.channels_last)
    with pytest.raises(ValueError, match="general_cosine is implemented for strided tensors only"):
        t.signal.windows.hann(3, layout=t.sparse_coo)
    x = t.tensor([3.0, 5.0, 0.0], requires_grad=True)
    t.frexp(x)[0].sum().backward()
    assert x.grad.tolist() == [0.25, 0.125, 1.0]
    counts, edges = t.histogram(t.tensor([1.0, 2.0]), 2, range=(1.0, 1.0))
    assert counts.tolist() == [0, 1] and edges.tolist() == [0.5, 1.0, 1.5]
    assert t.mode(t.tensor(3.0)).indices.item() == 0


def test_common_divisors_of_the_least_integer():
    for dtype in (t.int8, t.int32, t.int64):
        least = t.iinfo(dtype).min
        a, b = t.tensor([2, least, 1, least], dtype=dtype), t.tensor([least, 3, least, least], dtype=dtype)
        assert t.gcd(a, b).tolist() == [2, 1, 1, least]
    a, b = t.tensor([-2, 4], dtype=t.int32), t.tensor([-1958620543, 6], dtype=t.int32)
    assert t.lcm(a, b).tolist() == [377726210, 12]  # which overflows to a negative number
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        t.gcd(a, 2)


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16])
def test_the_next_half(dtype):
    step = t.finfo(dtype).eps
    x = t.tensor([1.0, 1.0, -1.0, 0.0, 2.0, math.nan, math.inf, 1.0], dtype=dtype)
    y = t.tensor([2.0, 0.0, -2.0, 1.0, 2.0, 1.0, 0.0, math.nan], dtype=dtype)
    out = t.nextafter(x, y)
    assert out.dtype == dtype
    least = t.finfo(dtype).smallest_normal * step
    assert out.tolist()[:5] == [1 + step, 1 - step / 2, -1 - step, least, 2.0]
    assert out[5].isnan() and out[6].item() == t.finfo(dtype).max and out[7].isnan()


def test_spread_numbers_fit_their_dtype():
    for dtype, end in ((t.int8, 300), (t.uint8, 256), (t.int32, 1e10), (t.int8, math.nan), (t.float16, 7e4)):
        with pytest.raises(RuntimeError, match="without overflow"):
            t.linspace(0, end, 3, dtype=dtype)
    assert t.linspace(-5, 127, 3, dtype=t.int8).tolist() == [-5, 61, 127]
    assert t.logspace(0, 2, 3, dtype=t.int8).tolist() == [1, 10, 100]
