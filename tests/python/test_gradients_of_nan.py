"""Where gradients go that meet nan or infinities: as in torch, whose results these are."""

from contextlib import nullcontext

import pytest

import smolder
from smolder import tensor

NAN, INF = float("nan"), float("inf")
CASES = {
    "clamp": (lambda x: x.clamp(0, 1), [NAN, 1.0, 0.0, INF, -INF], [0, 1, 1, 0, 0]),
    "clamp from": (lambda x: x.clamp(0), [NAN, 1.0, 0.0, INF, -INF], [0, 1, 1, 1, 0]),
    "clamp to": (lambda x: x.clamp(max=1), [NAN, 1.0, 0.0, INF, -INF], [0, 1, 1, 0, 1]),
    "clamp at tensors": (lambda x: x.clamp(tensor(0.0), tensor(1.0)), [NAN, 1.0, 2.0], [0, 1, 0]),
    "clamp at nan": (lambda x: x.clamp(NAN, 1), [0.0, 1.0, 2.0], [0, 0, 0]),
    "clamp_min": (lambda x: smolder.clamp_min(x, 0), [NAN, 2.0, -1.0], [0, 1, 0]),
    "max": (lambda x: x.max(), [NAN, 1.0, NAN, INF], [0.5, 0, 0.5, 0]),
    "min": (lambda x: x.min(), [NAN, 1.0, -INF], [1, 0, 0]),
    "max of infinities": (lambda x: x.max(), [-INF, -INF], [0.5, 0.5]),
    "median": (lambda x: x.median(), [NAN, 1.0, 2.0, NAN], [0.5, 0, 0, 0.5]),
    "median of ties": (lambda x: x.median(), [3.0, 1.0, 1.0, 0.0], [0, 0.5, 0.5, 0]),
    "nanmedian": (lambda x: x.nanmedian(), [-INF, 2.0, -INF], [0.5, 0, 0.5]),
    "nanmedian of nan": (lambda x: x.nanmedian(), [NAN, NAN], [0.5, 0.5]),
}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_where_the_gradient_goes(name, eager):
    function, values, expected = CASES[name]
    smolder.mark_step()
    with smolder.eager() if eager else nullcontext():
        x = tensor(values, requires_grad=True)
        function(x).sum().backward()
        assert x.grad.tolist() == expected
