"""assert_close and make_tensor: what they raise, and say, is what torch's do."""

import pytest
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import testing

BEFORE = """
import numpy as np, dataclasses
t, close = torch.tensor, torch.testing.assert_close
x = torch.arange(6.0).reshape(2, 3)
nan, inf = float("nan"), float("inf")
@dataclasses.dataclass
class Point:
    a: object
    b: object = dataclasses.field(default=0, compare=False)
def made(*shape, **options):
    out = torch.testing.make_tensor(*shape, device="cpu", **options)
    return out.shape, out.dtype, out.stride(), out.requires_grad, bool(out.to(torch.float64).min() >= -9) if out.numel() else 0
"""
USES = """
close(x, x) | close(x, x + 1e-6) | close(x, x + 1) | close(x, x + t([0, 1, 0])) | close(x, x.to(torch.float64))
close(x, x.to(torch.float64), check_dtype=False) | close(x, x[0]) | close(x, x.t().contiguous().t(), check_stride=True)
close(x, x + 1, rtol=0, atol=0) | close(x, x + 0.25, rtol=0, atol=0.5) | close(x, x, rtol=1) | close(x, x + 1, atol=1)
close(x, x + 1, rtol=0.1, atol=0.1, msg="mine") | close(x, x + 1, msg=lambda m: "so: " + m) | close(x * nan, x * nan)
close(x * nan, x * nan, equal_nan=True) | close(t(1.0), t(2.0)) | close(t(1), t(2)) | close(t(1), t(0)) | close(t(1.0), nan)
close(t([True, False]), t([True, True])) | close(t([1, 2, 3]), t([1, 5, 9])) | close(t([200], dtype=torch.uint8), t([1], dtype=torch.uint8))
close(t([inf, 1.0]), t([inf, 1.0])) | close(t([inf, 1.0]), t([-inf, 1.0])) | close(t([0.5], dtype=torch.float64), t([0.5000001], dtype=torch.float64))
close(1.0, 1.0 + 1e-8) | close(1.0, 2.0) | close(1, 2) | close(1, 1.0) | close(1, 1.0, check_dtype=False) | close(3, 0)
close(nan, nan) | close(nan, nan, equal_nan=True) | close(True, False) | close(True, True) | close(None, None) | close(None, 1)
close([1, 2], [1, 3]) | close([1, 2], [1]) | close((1, [2, {"a": 3}]), (1, [2, {"a": 4}])) | close({"a": 1}, {"b": 1})
close({"a": x, "b": x}, {"a": x, "b": x + 1}) | close([1, 2], (1, 2)) | close([x, x], [x, x + 1], msg="no") | close([], [])
close(np.ones(2), np.ones(2)) | close(np.ones(2), np.ones(2) * 2) | close(np.float32(1), np.float32(2)) | close(np.ones(2), x)
close("a", "a") | close(object(), object()) | close(x, [1]) | close(x, 1.0) | close(Point(x), Point(x)) | close(Point(x), Point(x + 1))
close(Point(x, 1), Point(x, 2)) | close(1 + 1j, 1 + 2j) | close(np.bool_(True), False) | close(torch.nn.Parameter(x), x)
close(torch.nn.Parameter(x), x, allow_subclasses=False) | close(torch.nn.Parameter(x), x + 1) | close(torch.zeros(0), torch.zeros(0))
close(x.to(torch.float16), x.to(torch.float16) + 1) | close(x.to(torch.bfloat16), x.to(torch.bfloat16) * 1.01)
torch.testing.assert_allclose(x, (x + 1e-4).tolist()) | torch.testing.assert_allclose(x, x + 1e-6) | torch.testing.assert_allclose(1.0, 2)
made(2, 3, dtype=torch.float32) | made((2, 3), dtype=torch.int32, noncontiguous=True) | made(4, dtype=torch.bool)
made(3, dtype=torch.float64, requires_grad=True, low=-1, high=1) | made(3, dtype=torch.uint8, low=0, high=5, exclude_zero=True)
made(3, dtype=torch.int64, requires_grad=True) | made(3, dtype=torch.float32, low=2, high=1) | made(3, dtype=torch.float32, low=nan)
made(3, dtype=torch.uint8, low=300, high=301) | made(3, dtype=torch.float16, low=-1e9, high=1e9)[1] | made(0, dtype=torch.float32)
made(2, 2, dtype=torch.float32, noncontiguous=True, memory_format=torch.contiguous_format)
"""


@needs_torch
@pytest.mark.filterwarnings("ignore:.*assert_allclose", "ignore:Passing .low==high")
def test_errors_are_those_of_torch():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


def test_devices_are_compared():
    x = smolder.ones(2, device="cpu")
    if smolder.cuda.is_available():
        with pytest.raises(AssertionError, match="attribute 'device' do not match"):
            testing.assert_close(x.cuda(), x)
        testing.assert_close(x.cuda(), x, check_device=False)
    testing.assert_close([x, {"a": 1.0}], [x, {"a": 1.0}])
    with pytest.raises(AssertionError, match=r"Greatest absolute difference: 1.0 at index \(1,\)"):
        testing.assert_close(x, smolder.tensor([1.0, 2.0], device="cpu"))


def test_made_values_are_in_their_interval():
    x = testing.make_tensor(1000, dtype=smolder.float16, device="cpu", low=-60000.0, high=60000.0)
    assert x.isfinite().all() and x.min() < -30000 and x.max() > 30000
    y = testing.make_tensor(100, dtype=smolder.int32, device="cpu", low=0, high=2, exclude_zero=True)
    assert y.tolist() == [1] * 100


@pytest.mark.parametrize(("dtype", "rtol"), [(smolder.complex64, 1.3e-6), (smolder.complex128, 1e-7)])
def test_complex_tensors_have_the_tolerances_of_their_parts(dtype, rtol):
    x = smolder.tensor([1 + 1000j, 2j], dtype=dtype)
    testing.assert_close(x * (1 + rtol / 2), x)
    with pytest.raises(
        AssertionError, match=r"Mismatched elements: 1 / 2 \(50.0%\)\nGreatest absolute difference: 3\.0"
    ):
        testing.assert_close(x + smolder.tensor([3j, 0], dtype=dtype), x)
