"""Sobol sequences against PyTorch's numbers, and what their scrambling keeps."""

import hashlib

import numpy
import pytest

import smolder
from smolder.quasirandom import SobolEngine, _multiplied


def test_points_are_pytorchs():
    first = SobolEngine(5).draw(6)
    # torch.quasirandom.SobolEngine(5).draw(6) of PyTorch 2.11
    assert first.tolist() == [
        [0, 0, 0, 0, 0],
        [0.5, 0.5, 0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25, 0.25, 0.75],
        [0.25, 0.75, 0.75, 0.75, 0.25],
        [0.375, 0.375, 0.625, 0.875, 0.375],
        [0.875, 0.875, 0.125, 0.375, 0.875],
    ]
    whole = SobolEngine(SobolEngine.MAXDIM).draw(300, dtype=smolder.float64).numpy() * 2**30
    digest = hashlib.sha256(whole.astype(numpy.int64).tobytes()).hexdigest()
    assert digest == "7787ba2aab7ad3e472ce742e41a4a4b242aaf080ea527ac056dab6a7dda95cc6"  # the same of PyTorch's


def test_drawn_in_pieces_passed_over_and_begun_again():
    whole, engine = SobolEngine(3).draw(16), SobolEngine(3)
    pieces = [engine.draw(), engine.draw(4), engine.fast_forward(3).draw(2), engine.draw(2), engine.draw_base2(2)]
    found = smolder.cat(pieces)
    assert found.tolist() == whole[[*range(5), *range(8, 16)]].tolist() and engine.num_generated == 16
    assert engine.reset().draw(2, out=smolder.empty(0)).tolist() == whole[:2].tolist()
    with pytest.raises(ValueError, match="require n to be a power of 2"):
        engine.draw_base2(3)
    with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 1111\]"):
        SobolEngine(1112)


def test_scrambled_points_stay_balanced():
    engine = SobolEngine(4, scramble=True, seed=3)
    assert repr(engine) == "SobolEngine(dimension=4, scramble=True, seed=3)"
    points = engine.draw_base2(8, dtype=smolder.float64).numpy()
    for column in points.T:  # one point in each of 256 intervals
        assert sorted((column * 256).astype(int)) == list(range(256))
    assert (SobolEngine(4, scramble=True, seed=3).draw(256).numpy() == points.astype(numpy.float32)).all()
    assert (SobolEngine(4, scramble=True, seed=4).draw(256).numpy() != points.astype(numpy.float32)).any()
    matrix = numpy.array([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]])
    assert _multiplied(matrix, numpy.array([[0b100, 0b010, 0b111]])).tolist() == [[0b110, 0b011, 0b100]]
