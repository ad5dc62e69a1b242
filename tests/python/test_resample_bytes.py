"""Images of bytes in another size: what PyTorch computed, pixel by pixel."""

import json
from pathlib import Path

import pytest

import smolder
from smolder.nn import functional as F

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden" / "resized_bytes.json").read_text())


def image(c, h, w):
    return ((smolder.arange(c * h * w) * 7919 + 13) % 256).to(smolder.uint8).reshape(1, c, h, w)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda c: str(c["options"]))
def test_bytes_are_those_of_pytorch(case):
    out = F.interpolate(image(*case["shape"]), **case["options"])
    assert out.dtype is smolder.uint8
    assert list(out.shape) == case["size"]
    assert out.reshape(-1).tolist() == case["result"]


def test_the_same_size_is_a_copy():
    x = image(1, 4, 4)
    out = F.interpolate(x, size=(4, 4), mode="bilinear", antialias=True)
    out.zero_()
    assert x.any()


@pytest.mark.parametrize("antialias", [False, True])
def test_near_to_floats(antialias):
    x = image(3, 20, 30)
    wanted = F.interpolate(x.double(), size=(13, 17), mode="bilinear", antialias=antialias)
    out = F.interpolate(x, size=(13, 17), mode="bilinear", antialias=antialias)
    assert (wanted - out).abs().max().item() <= 1.01
