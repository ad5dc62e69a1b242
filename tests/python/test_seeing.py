"""Reports of the runtime: fallbacks, names of kernels, times at the debug level that asks for them."""

import inspect
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from conftest import assert_same_bits, of_the_cpu

import smolder
from smolder.nn import functional as F


def events(kind):
    return [e for e in smolder.metrics()["events"] if e["kind"] == kind]


def fallbacks():
    return smolder.metrics()["counters"].get("fallbacks", 0)


@pytest.fixture
def unruled():
    """An op without a shape rule: what cannot be recorded, and so runs when it is called."""

    @smolder.library.custom_op("seeing::running_sum", mutates_args=())
    def running_sum(x: smolder.Tensor) -> smolder.Tensor:
        return x.numpy().cumsum(1)

    yield running_sum
    running_sum._destroy()


def test_a_fallback_is_counted_each_time_and_warned_of_once_a_line(unruled):
    x = smolder.rand(3, 40)
    smolder.mark_step()
    smolder.reset_metrics()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            line = inspect.currentframe().f_lineno + 1
            y = unruled(x * 2) + 1
            smolder.mark_step()
    assert fallbacks() == 3
    assert [(w.category, w.lineno) for w in caught] == [(UserWarning, line)]
    assert os.path.samefile(caught[0].filename, __file__)
    assert "seeing::running_sum has no shape rule" in str(caught[0].message)
    (event,) = events("fallback")
    assert event["count"] == 3 and f"{__file__}:{line}" in event["where"]
    assert_same_bits(y.numpy(), (x * 2).numpy().cumsum(1) + np.float32(1))


@pytest.mark.filterwarnings("ignore:smolder fallback")
def test_strict_mode_refuses_a_fallback_where_it_is_called(unruled):
    x = smolder.rand(3, 4)
    unruled(x + 1)
    with smolder.strict():
        before = x * 3
        with pytest.raises(NotImplementedError, match="seeing::running_sum has no shape rule"):
            unruled(x + 1)
        assert_same_bits(before.numpy(), (x * 3).numpy())
        # Compiled kernels, and libraries' products, scans and scatters, may be used.
        assert F.gelu(x @ x.T).cumsum(1).scatter_add(1, smolder.zeros(3, 1).long(), x).sum().item() > 0


def test_copies_in_and_out_are_counted_with_their_lines():
    smolder.reset_metrics()
    x = smolder.tensor([[1.0, 2.0], [3.0, 4.0]])
    x.tolist()
    counters = smolder.metrics()["counters"]
    assert (counters["copies"], counters["copies.bytes"]) == (2, 32)
    assert [(e["reason"], "test_seeing.py" in e["where"]) for e in events("copy")] == [
        ("numpy", True),
        ("tensor from data", True),
    ]
    assert counters["memory.peak_bytes"] >= counters["memory.live_bytes"] >= 16
    assert counters["never.touched"] == 0 and "never.touched" not in counters


def test_an_index_out_of_range_names_the_op_that_was_written():
    e = F.embedding(smolder.tensor([7]), smolder.rand(3, 2))
    with pytest.raises(IndexError, match="embedding"):
        e.tolist()


def test_the_debug_level_gives_name_time_and_bytes_of_each_kernel():
    program = "import smolder\nx = smolder.rand(1000, 1000)\nsmolder.mark_step()\n((x.cos() + 1).exp() @ x).tolist()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"SMOLDER_DEBUG": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = re.findall(r"\[smolder:run\] ([\d.]+) us, ([\d.]+) MB, ([\d.]+) GB/s, step \d+: ([^,\n]+)", done.stderr)
    assert [(name, float(megabytes)) for _, megabytes, _, name in lines] == [
        ("random_uniform", 4.0),
        ("cos_add_exp", 8.0),
        ("matmul (dot 1 x 1000x1000x1000)", 12.0),
    ]


LADDER = {
    1: r"\[smolder:sync\] numpy at .*\n",
    2: r"\[smolder:run\] [\d.]+ us, .* step 0: mul_add_sum\n",
    3: r"\[smolder:plan\] step 0 launch 0: kernel 0 mul_add_sum\n",
    4: r"\[smolder:llvm\] \n; ModuleID",
    5: r"\[smolder:compile\] after simplify:\n",
    6: r"\[smolder:kernel\] kernel \{\n",
    7: r"\[smolder:assembly\] \n",
}


@of_the_cpu("its compiler writes LLVM IR and assembly")
@pytest.mark.parametrize("level", range(8))
def test_each_debug_level_adds_one_kind_of_output(level, tmp_path):
    program = "import smolder\nx = smolder.ones(5, 7)\nsmolder.mark_step()\n(x * 2 + 1).sum(0).tolist()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"SMOLDER_DEBUG": str(level), "SMOLDER_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [n for n, said in LADDER.items() if re.search(said, done.stderr)] == list(range(1, level + 1))


def test_compiled_kernels_are_reported_by_what_was_written(tmp_path):
    program = """
import smolder
x = smolder.ones(7, 13)
y = (smolder.nn.functional.gelu(x.cos() * 1.5) - x.sinh()).sum(1)
smolder.mark_step()
print([(e["reason"], e["where"]) for e in smolder.metrics()["events"] if e["kind"] == "compile"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"SMOLDER_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[('full_cos_mul_gelu_sinh_sub_sum', '<string>:4 in <module>')]"
