"""The ops of torchvision's library in C++, which Smolder has in its place: beside the formulas, number by number, in float64."""

import subprocess
import sys

import numpy as np
import pytest

import smolder as sm
from smolder.autograd import gradcheck
from smolder.torch import _vision_ops as ops

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape)


def boxes(n):
    out = RNG.random((n, 4)) * 10
    out[:, 2:] = out[:, :2] + RNG.random((n, 2)) * 6 + 0.5
    return out


def test_boxes_that_overlap_a_better_one_are_left_out():
    def overlap(a, b):
        shared = np.prod(np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])))
        return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)

    all_boxes, scores = boxes(40), RNG.random(40)
    scores[3] = scores[4]
    for most in (0.1, 0.5):
        kept = []
        for i in np.argsort(-scores, kind="stable"):
            if all(overlap(all_boxes[i], all_boxes[j]) <= most for j in kept):
                kept.append(i)
        assert ops.nms(sm.from_numpy(all_boxes), sm.from_numpy(scores), most).tolist() == kept
    assert ops.nms(sm.zeros(0, 4), sm.zeros(0), 0.5).tolist() == []
    with pytest.raises(RuntimeError, match="same number of elements"):
        ops.nms(sm.zeros(2, 4), sm.zeros(3), 0.5)


def sampled(image, y, x):
    """The value of (channels, height, width) at a position, as roi_align takes it."""
    h, w = image.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0 * image[:, 0, 0]
    y, x = (min(max(v, 0), n - 1) for v, n in ((y, h), (x, w)))
    a, b = int(y), int(x)
    c, d = min(a + 1, h - 1), min(b + 1, w - 1)
    p, q = y - a, x - b
    return (1 - p) * ((1 - q) * image[:, a, b] + q * image[:, a, d]) + p * (
        (1 - q) * image[:, c, b] + q * image[:, c, d]
    )


@pytest.mark.parametrize(("ratio", "aligned"), [(2, False), (-1, True), (0, False)])
def test_bins_of_boxes_are_means_of_samples(ratio, aligned):
    image, scale, bins = numbers(2, 3, 7, 8), 0.6, (2, 3)
    rois = np.concatenate([np.array([[0.0], [1], [1], [0]]), boxes(4)], 1)
    rois[3, 1:] = [-9, 2, 3, 30]  # of which some lies outside
    wanted = np.zeros((4, 3, *bins))
    for k, (of, *box) in enumerate(rois):
        x1, y1, x2, y2 = (v * scale - 0.5 * aligned for v in box)
        w, h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1), max(y2 - y1, 1))
        ny, nx = (ratio if ratio > 0 else int(np.ceil(n / m)) for n, m in zip((h, w), bins, strict=True))
        for i, j in np.ndindex(bins):
            for s, t in np.ndindex(ny, nx):
                y = y1 + h / bins[0] * (i + (s + 0.5) / ny)
                x = x1 + w / bins[1] * (j + (t + 0.5) / nx)
                wanted[k, :, i, j] += sampled(image[int(of)], y, x) / (ny * nx)
    image, rois = sm.from_numpy(image).requires_grad_(), sm.from_numpy(rois)
    got = ops.roi_align(image, rois, scale, *bins, ratio, aligned)
    np.testing.assert_allclose(got.detach().numpy(), wanted, atol=1e-12)
    assert ops.roi_align(image, rois[:0], scale, *bins, ratio, aligned).shape == (0, 3, *bins)
    if ratio == 2:
        assert gradcheck(lambda x: ops.roi_align(x, rois[:1], scale, 1, 1, ratio, aligned), (image[:, :1, :4, :4],))


@pytest.mark.parametrize("masked", [False, True])
def test_deformed_convolutions_sample_where_offsets_say(masked):
    groups, offset_groups, stride, pad, dilation = 2, 2, (1, 2), (1, 0), (1, 2)
    image, weight, bias = numbers(1, 4, 5, 7), numbers(2, 2, 2, 2), numbers(2)
    out = (6, 3)
    offset, mask = numbers(1, 2 * offset_groups * 4, *out), numbers(1, offset_groups * 4, *out)

    def at(channel, y, x):
        low_y, low_x, total = int(np.floor(y)), int(np.floor(x)), 0.0
        for a in (0, 1):
            for b in (0, 1):
                if 0 <= low_y + a < 5 and 0 <= low_x + b < 7:
                    part = (1 - abs(y - low_y - a)) * (1 - abs(x - low_x - b))
                    total += part * image[0, channel, low_y + a, low_x + b]
        return total

    wanted = np.zeros((1, 2, *out)) + bias.reshape(1, 2, 1, 1)
    for o, i, c, k, m in np.ndindex(2, out[0], 2, 4, out[1]):
        channel = o * 2 + c  # the first group of outputs reads the first two channels
        tap = (channel // 2) * 4 + k
        y = i * stride[0] - pad[0] + k // 2 * dilation[0] + offset[0, 2 * tap, i, m]
        x = m * stride[1] - pad[1] + k % 2 * dilation[1] + offset[0, 2 * tap + 1, i, m]
        wanted[0, o, i, m] += weight[o, c, k // 2, k % 2] * at(channel, y, x) * (mask[0, tap, i, m] if masked else 1)
    given = [sm.from_numpy(v) for v in (image, weight, offset, mask, bias)]
    rest = (*stride, *pad, *dilation, groups, offset_groups, masked)
    np.testing.assert_allclose(ops.deform_conv2d(*given, *rest).numpy(), wanted, atol=1e-12)
    if masked:
        wanting = [v.requires_grad_() for v in given]
        loss = (ops.deform_conv2d(*wanting, *rest) ** 2).sum()
        for leaf, grad in zip(wanting, sm.autograd.grad(loss, wanting), strict=True):
            way = sm.from_numpy(numbers(*leaf.shape))
            sides = []
            for step in (1e-6, -1e-6):
                moved = [v.detach() + step * way if v is leaf else v.detach() for v in wanting]
                sides.append((ops.deform_conv2d(*moved, *rest) ** 2).sum().item())
            assert (sides[0] - sides[1]) / 2e-6 == pytest.approx((grad * way).sum().item(), rel=1e-5)


def test_the_library_that_was_built_for_pytorch_has_its_ops_here(tmp_path):
    library = tmp_path / "torchvision" / "_C.so"
    library.parent.mkdir()
    library.write_bytes(b"no library")
    other = tmp_path / "other.so"
    other.write_bytes(b"no library")
    code = f"""
import smolder.torch
smolder.torch.install()
import torch
torch.ops.load_library({str(library)!r})
print(torch.ops.torchvision.nms(torch.tensor([[0., 0, 2, 2], [0, 0, 2, 2]]), torch.tensor([1., 2]), 0.5))
print(torch.ops.torchvision._cuda_version())
image = torch.arange(16.).reshape(1, 1, 4, 4).requires_grad_()
torch.ops.torchvision.roi_align(image, torch.tensor([[0., 0, 0, 4, 4]]), 1.0, 1, 1, 2, True).backward()
print(image.grad.sum().item())
try:
    torch.ops.torchvision.roi_pool(image, torch.zeros(1, 5), 1.0, 1, 1)
except NotImplementedError as e:
    print("torchvision::roi_pool" in str(e))
try:
    torch.ops.load_library({str(other)!r})
except (OSError, RuntimeError):
    print("refused")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout == "tensor([1])\n-1\n1.0\nTrue\nrefused\n", out.stderr
