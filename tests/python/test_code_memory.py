"""Where generated code lies: a process may have some 65,000 mappings, and kernels are to have few of them."""

import pathlib

import pytest
from conftest import compiled

import smolder

MAPS = pathlib.Path("/proc/self/maps")


def executable():
    """Mappings of code that is of no file."""
    return sum(len(line.split()) == 5 and "x" in line.split()[1] for line in MAPS.read_text().splitlines())


@pytest.mark.skipif(not MAPS.exists(), reason="the system does not tell of mappings")
def test_many_kernels_have_few_mappings():
    def loaded():
        return compiled() + smolder.metrics()["counters"].get("cache.disk_hits", 0)

    def run(i):
        x = smolder.ones(5)
        for bit in range(7):
            x = x.sin() if i >> bit & 1 else x * 0.5 + 1
        return x.sum().item()

    run(0)
    before, mappings = loaded(), executable()
    values = [run(i) for i in range(1, 100)]
    assert loaded() >= before + 50
    assert executable() <= mappings + 2
    assert [run(i) for i in range(1, 100)] == values
