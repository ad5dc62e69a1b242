"""Autocast: which ops are cast, what is kept of casts, what traces and gradients make of it. Values: sweeps/autocast.py."""

import threading
import warnings

import numpy as np
import pytest
import torch_peer
from conftest import DEVICE, NUMPY, compiled, of_the_cpu
from op_rows import ROOT, TABLE, model

import smolder
from smolder import nn
from smolder.nn import functional as F
from smolder.utils.checkpoint import checkpoint

BOTH = pytest.mark.parametrize("reentrant", [False, True])
LISTS = model.load(ROOT / "src/ir/ops", ROOT / "src/ir/scalar/primitives.def").autocast


def weight(*shape):
    return smolder.randn(*shape).requires_grad_()


def region(**options):
    return smolder.autocast(DEVICE, **({"dtype": smolder.bfloat16} | options))


def recorded(function):
    """How many ops a call of the function records."""
    smolder.mark_step()
    before = smolder.metrics()["counters"].get("ops.recorded", 0)
    kept = function()
    smolder.mark_step()
    del kept
    return smolder.metrics()["counters"]["ops.recorded"] - before


def products(x, w, between=lambda: None, **options):
    """Two products in a region."""

    def function():
        with region(**options):
            first = x @ w
            between()
            return first, x @ w

    return function


# -- the lists

# Ours that torch makes of listed ones, or lists under other names.
MADE_OF = {
    "affine_grid": ("bmm",),
    "cross_entropy": ("cross_entropy_loss", "nll_loss"),
    "einsum_of": ("einsum",),
    "fft": ("fft_fft",),
    "fractional_max_pool": ("fractional_max_pool2d",),
    "grid_sample": ("grid_sampler",),
    "gru_layer": ("_cudnn_rnn", "gru_cell"),
    "index_put": ("index_put",),
    "interpolate_to": ("upsample_bilinear2d",),
    "lstm_layer": ("_cudnn_rnn", "lstm_cell"),
    "max_unpool": ("max_unpool2d",),
    "norm": ("norm",),
    "pad_with_elements": ("reflection_pad2d",),
    "pow_int": ("pow",),
    "rnn_layer": ("_cudnn_rnn", "rnn_tanh_cell"),
    "softplus_unit": ("softplus",),
    "square": ("pow",),
    "tensordot_dims": ("tensordot",),
    "cholesky": ("linalg_cholesky",),
}
KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}


@torch_peer.needs_torch
@pytest.mark.parametrize("device", KEYS)
def test_the_lists_are_those_of_torch(device):
    code = f"""
names = torch._C._dispatch_get_registrations_for_dispatch_key({KEYS[device]!r})
out = sorted({{n.partition("::")[2].partition(".")[0] for n in names}})
"""
    theirs = set(torch_peer.run_torch(code))
    ours = {name for name, rules in LISTS.items() if rules.get(device, "below") != "below"}
    for name in ours:
        assert theirs & {name, *MADE_OF.get(name, ())}, f"torch does not list {name}"
    for row in TABLE:
        for name in {row["name"], *row["python"]} & theirs:
            assert row["internal"] or row["autocast"].get(device, "below") != "below", f"torch lists {name}"


def test_rules_by_name():
    rules = {row["name"]: row["autocast"] for row in TABLE if row["autocast"]}
    assert rules["matmul"] == {"cpu": "lower", "cuda": "lower"}
    assert rules["softmax"] == {"cuda": "float32"} and rules["prod"] == {"cpu": "float32", "cuda": "float32"}
    assert rules["mv"] == {"cpu": "below", "cuda": "lower"}
    assert rules["cat"] == {"cpu": "widest"} and rules["addcmul"] == {"cuda": "widest"}
    assert rules["binary_cross_entropy"] == {"cpu": "float32", "cuda": "refused"}
    assert "add" not in rules and "relu" not in rules


HALF_WITHIN = {
    "fft": lambda x: smolder.fft.rfft(x).abs(),
    "ihfft2": lambda x: smolder.fft.ihfft2(x).abs(),
    "stft": lambda x: smolder.stft(x.flatten(), 8, return_complex=True, window=smolder.ones(8, dtype=x.dtype)).abs(),
    "polar": lambda x: smolder.polar(x.abs(), x).abs(),
    "view_as_complex": lambda x: smolder.view_as_complex(x.reshape(-1, 2)).abs(),
    "cond": smolder.linalg.cond,
    "eigvals": lambda x: smolder.linalg.eigvals(x).abs().sum(),
    "cholesky_ex": lambda x: smolder.linalg.cholesky_ex(x)[0],
    "cholesky_solve": lambda x: smolder.cholesky_solve(x, x),
    "cholesky_inverse": smolder.cholesky_inverse,
    "householder_product": lambda x: smolder.linalg.householder_product(x, x[0]),
    "geqrf": lambda x: smolder.geqrf(x)[0],
    "ormqr": lambda x: smolder.ormqr(x, x[0], x),
    "inv_ex": lambda x: smolder.linalg.inv_ex(x)[0],
    "lstsq": lambda x: smolder.linalg.lstsq(x, x[:, :2])[0],
    "tensorinv": lambda x: smolder.linalg.tensorinv(x, ind=1),
    "tensorsolve": lambda x: smolder.linalg.tensorsolve(x, x[0]),
    "max_unpool1d": lambda x: F.max_unpool1d(x, smolder.arange(4).expand(4, 4), 2),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, smolder.arange(4)),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(x, smolder.zeros(4, 4, dtype=smolder.int64)),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(
        x[None], 2, output_size=2, _random_samples=smolder.full((1, 1, 2), 0.5, dtype=x.dtype)
    ),
    "fake_quantize": lambda x: smolder.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255),
}


@of_the_cpu("CUDA has lists of its own")
@pytest.mark.parametrize("name", HALF_WITHIN)
@pytest.mark.parametrize("dtype", [smolder.float32, smolder.bfloat16])
def test_what_takes_float32_computes_in_it(name, dtype):
    x = (smolder.eye(4) * 4 + smolder.arange(16.0).reshape(4, 4) / 16).to(dtype)
    f = HALF_WITHIN[name]
    with region():
        got = f(x)
    assert got.dtype == smolder.float32 and smolder.equal(got, f(x.float()))


@of_the_cpu("CUDA has lists of its own")
def test_what_is_one_kernel_of_torch_stays_in_its_dtype():
    x = smolder.arange(12.0).reshape(4, 3) / 7
    with region():
        assert smolder.tensordot(x, x, 2).dtype == smolder.inner(x[0], x[0]).dtype == smolder.float32
        assert F.bilinear(x, x, smolder.ones(2, 3, 3)).dtype == smolder.float32
        half = x.half()
        assert smolder.linalg.cross(half, half).dtype == smolder.logcumsumexp(half, 0).dtype == smolder.float16
        assert F.affine_grid(smolder.ones(1, 2, 3).half(), (1, 1, 2, 2)).dtype == smolder.bfloat16


# -- training


@pytest.mark.parametrize("dtype", [smolder.bfloat16, smolder.float16])
def test_a_model_learns_with_weights_in_float32(dtype):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = smolder.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = smolder.randn(64, 8), smolder.randint(0, 3, (64,))
    losses, kernels = [], []
    for _ in range(40):
        optimizer.zero_grad()
        with region(dtype=dtype):
            out = model(x)
            loss = F.cross_entropy(out, y)
        assert out.dtype == dtype and loss.dtype == smolder.float32
        loss.backward()
        assert all(p.grad.dtype == p.dtype == smolder.float32 for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
        kernels.append(compiled())
    assert losses[-1] < 0.8 * losses[0]
    assert kernels[-1] == kernels[2], "a step that repeats compiles nothing"


def test_steps_with_and_without_are_not_confused():
    a, b = smolder.randn(8, 8), smolder.randn(8, 8)
    full, half = None, None
    for _ in range(3):  # the predictor follows one trace while the other is recorded
        full = a @ b
        smolder.mark_step()
        with region():
            half = a @ b
        smolder.mark_step()
        assert full.dtype == smolder.float32 and half.dtype == smolder.bfloat16
        np.testing.assert_allclose(full.numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)
        exact = a.bfloat16().float().numpy() @ b.bfloat16().float().numpy()
        np.testing.assert_allclose(half.float().numpy(), exact, rtol=1e-2, atol=1e-2)


def test_eager_and_compiled_agree():
    x, w = smolder.randn(4, 8), weight(3, 8)

    def run():
        w.grad = None
        with region():
            out = F.mse_loss(F.linear(x, w), smolder.zeros(4, 3))
        out.backward()
        return out.item(), w.grad.numpy().copy()

    lazy = run()
    with smolder.eager():
        eager = run()
    assert lazy[0] == eager[0] and (lazy[1] == eager[1]).all()


# -- casts of weights


def test_a_weight_is_cast_once_a_region():
    x, w = smolder.randn(4, 4), weight(4, 4)

    def nested():
        with region():
            first = x @ w
            with region():
                return first, x @ w

    assert recorded(products(x, w)) == recorded(nested) == 5  # two products, two casts of x, one of w
    w.grad = None
    first, second = products(x, w)()
    (first + second).float().sum().backward()
    with region():
        expected = (x @ w.detach()).float()
    assert (first == second).all() and (first == expected).all() and w.grad is not None


@pytest.mark.parametrize("how", ["off", "cleared", "written", "data"])
def test_a_cast_that_is_not_kept(how):
    x, w = smolder.randn(4, 4), weight(4, 4)

    def between():
        if how == "cleared":
            smolder.clear_autocast_cache()
        if how == "written":
            with smolder.no_grad():
                w.mul_(2)
        if how == "data":
            w.data = w.detach() * 2

    pair = products(x, w, between, cache_enabled=how != "off")
    doubled = how in ("written", "data")
    assert recorded(pair) == 6 + doubled
    first, second = pair()
    assert (second == first * (2 if doubled else 1)).all()


def test_only_weights_are_kept():
    x, w = smolder.randn(4, 4), weight(4, 4)
    for t in (smolder.randn(4, 4), (w * 1), w.detach(), w.reshape(4, 4)):
        assert recorded(products(x, t)) == 6
    assert recorded(products(x, w.bfloat16().detach().requires_grad_())) == 4


def test_a_cast_kept_where_gradients_were_off_has_a_history():
    x, w = smolder.randn(4, 4), weight(4, 4)
    with region():
        with smolder.no_grad():
            assert not (x @ w).requires_grad
        out = x @ w
    out.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.tile(x.bfloat16().float().numpy().sum(0)[:, None], 4), rtol=1e-2)


def test_nothing_is_kept_in_inference_mode():
    x, w = smolder.randn(4, 4), weight(4, 4)
    with region():
        with smolder.inference_mode():
            x @ w
        out = x @ w
    assert out.requires_grad and not out.is_inference()


@NUMPY
def test_a_weight_that_numpy_sees_is_cast_anew():
    x, w = smolder.ones(2, 2), smolder.ones(2, 2)
    array = w.numpy()
    w.requires_grad_()
    with region():
        x @ w
        array[:] = 3.0
        assert (x @ w).tolist() == [[6.0, 6.0], [6.0, 6.0]]


def test_kept_casts_go_with_the_region():
    w = weight(64, 64)
    with region():
        smolder.ones(1, 64) @ w
    smolder.mark_step()
    before = smolder.memory_stats()["live"]
    with region():
        smolder.ones(1, 64) @ w
        smolder.mark_step()
        assert smolder.memory_stats()["live"] >= before
    smolder.mark_step()
    assert smolder.memory_stats()["live"] == before


# -- regions


@of_the_cpu("its regions are not of CUDA")
def test_regions_are_of_a_thread_and_of_a_type_of_devices():
    x = smolder.ones(2, 2)
    seen = []
    smolder.set_autocast_enabled("cuda", True)
    try:
        assert smolder.is_autocast_enabled() and (x @ x).dtype == smolder.float32
    finally:
        smolder.set_autocast_enabled("cuda", False)
    with region():
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert seen == [smolder.float32]


def test_a_region_that_is_left_by_an_error_is_left():
    with pytest.raises(RuntimeError), region():
        smolder.ones(2, 3) @ smolder.ones(2, 3)
    assert not smolder.is_autocast_enabled(DEVICE)
    with pytest.raises(RuntimeError, match="same dtype"):
        smolder.ones(2, 2) @ smolder.ones(2, 2).bfloat16()


def test_nested_regions_and_their_state():
    default = smolder.get_autocast_dtype(DEVICE)
    with region(dtype=smolder.float16, cache_enabled=False):
        assert smolder.get_autocast_dtype(DEVICE) == smolder.float16 and not smolder.is_autocast_cache_enabled()
        with region(enabled=False):
            assert not smolder.is_autocast_enabled(DEVICE)
        assert smolder.is_autocast_enabled(DEVICE)
    assert smolder.get_autocast_dtype(DEVICE) == default and smolder.is_autocast_cache_enabled()
    assert smolder.autocast_increment_nesting() == 1 and smolder.autocast_decrement_nesting() == 0


def test_backward_within_a_region_computes_as_without():
    x, w = smolder.randn(4, 4), weight(4, 4)

    def run(inside):
        w.grad = None
        with region():
            loss = (x @ w).float().square().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return w.grad.numpy().copy()

    assert (run(True) == run(False)).all()


def test_in_place_methods_are_not_cast():
    out = smolder.zeros(2, 2)
    with region():
        out.addmm_(smolder.ones(2, 2), smolder.full((2, 2), 1 / 3))
        with pytest.raises(RuntimeError):
            out.addmm_(smolder.ones(2, 2).bfloat16(), smolder.ones(2, 2))
    assert out.tolist() == [[np.float32(2 / 3)] * 2] * 2


def test_ops_by_name_are_cast():
    with region():
        assert smolder.ops.aten.matmul(smolder.ones(2, 2), smolder.ones(2, 2)).dtype == smolder.bfloat16


@BOTH
def test_what_a_checkpoint_computes_again_is_cast_as_it_was(reentrant):
    x, w = smolder.randn(4, 8).requires_grad_(), weight(8, 8)
    seen = []

    def block(t):
        out = t @ w
        seen.append(out.dtype)
        return F.gelu(out) @ w

    def run(inside):
        x.grad = w.grad = None
        with region(dtype=smolder.float16):
            out = checkpoint(block, x, use_reentrant=reentrant) if inside else block(x)
        out.float().square().sum().backward()
        return x.grad.numpy().copy(), w.grad.numpy().copy()

    plain, again = run(False), run(True)
    assert seen == [smolder.float16] * 3
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


def test_custom_functions_run_as_they_were_decorated():
    states = []

    class Function(smolder.autograd.Function):
        @staticmethod
        @smolder.amp.custom_fwd(device_type=DEVICE, cast_inputs=smolder.float32)
        def forward(ctx, a, rest):
            states.append((a.dtype, rest["t"][0].dtype, smolder.is_autocast_enabled(DEVICE)))
            return a * 2

        @staticmethod
        @smolder.amp.custom_bwd(device_type=DEVICE)
        def backward(ctx, grad):
            states.append(smolder.is_autocast_enabled(DEVICE))
            return grad * 2, None

    a = smolder.ones(2).bfloat16().requires_grad_()
    with region():
        Function.apply(a, {"t": [smolder.ones(1).half()]}).sum().backward()
    assert states == [(smolder.float32, smolder.float32, False), False]
    states.clear()
    Function.apply(a, {"t": [smolder.ones(1).half()]}).sum().backward()
    assert states == [(smolder.bfloat16, smolder.float16, False), False]


# -- mistakes and old names


@of_the_cpu("warnings name the device")
def test_regions_that_are_not_supported():
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported. Disabling autocast."):
        assert not region(dtype=smolder.float64)._enabled
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got"):
        smolder.autocast(smolder.device("cpu"))
    with pytest.raises(RuntimeError, match="device type at start of device string: nothing"):
        smolder.autocast("nothing")
    with pytest.raises(TypeError, match=r"autocast\(\)\(func\) requires a callable, but got int"):
        region()(3)
    with pytest.raises(TypeError, match=r"argument 'enabled' \(position 2\) must be bool, not int"):
        smolder.set_autocast_enabled("cpu", 1)
    with pytest.raises(RuntimeError, match="Unexpected floating ScalarType in at::autocast::prioritize"), region():
        smolder.cat([smolder.ones(1).bfloat16(), smolder.ones(1).half()])


@pytest.mark.skipif(smolder.cuda.is_available(), reason="CUDA is available here")
def test_cuda_without_a_device():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not smolder.autocast("cuda")._enabled


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_old_names_warn(device):
    old = getattr(smolder, device).amp
    with pytest.warns(FutureWarning, match=rf"Please use `smolder.amp.autocast\('{device}', args...\)` instead"):
        assert old.autocast(enabled=False).device == device
    with pytest.warns(FutureWarning, match=rf"Please use `smolder.amp.GradScaler\('{device}', args...\)` instead"):
        assert not old.GradScaler(enabled=False).is_enabled()
    with pytest.warns(DeprecationWarning, match=r"is_autocast_cpu_enabled\(\) is deprecated"):
        assert not smolder.is_autocast_cpu_enabled()
    with pytest.warns(DeprecationWarning, match=r"Please use smolder.get_autocast_dtype\('cuda'\) instead"):
        assert smolder.get_autocast_gpu_dtype() == smolder.float16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert smolder.amp.autocast is smolder.autocast
