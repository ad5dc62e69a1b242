"""benchmarks/timeline_svg.py: what of collectives is beside what is computed, and the picture of it."""

import importlib.util
import json
import random
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pytest

PLACE = Path(__file__).parents[2] / "benchmarks" / "timeline_svg.py"
spec = importlib.util.spec_from_file_location("timeline_svg", PLACE)
timeline_svg = importlib.util.module_from_spec(spec)
spec.loader.exec_module(timeline_svg)


def event(begin, end, name, category="kernel"):
    return {"ph": "X", "cat": category, "name": name, "ts": begin * 1e3, "dur": (end - begin) * 1e3, "pid": 0, "tid": 7}


def test_traces_of_both(tmp_path):
    """Collectives are known by their names in Smolder's traces and in PyTorch's; a wait of the queue computes nothing."""
    events = [event(0, 4, "matmul"), event(4, 6, "dist::follow"), event(6, 7, "copy", "gpu_memcpy")]
    events += [
        event(2, 6, "nccl: all_gather of float32[8]"),
        event(6, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"),
    ]
    events += [event(0, 9, "forward", "cpu_op"), {"ph": "M", "name": "process_name", "args": {}}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    computed, collectives = timeline_svg.intervals_of(path)
    assert [name for *_, name in computed] == ["matmul", "copy"] and len(collectives) == 2
    under_way, hidden = timeline_svg.share_hidden(computed, collectives)
    assert under_way == pytest.approx(5.0) and hidden == pytest.approx(3 / 5)
    picture = xml.etree.ElementTree.fromstring(timeline_svg.picture(computed, collectives, "a < b"))
    titles = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("nothing is computed: 2000.0 us") == 1 and "matmul: 4000.0 us" in titles


def test_share_is_that_of_moments():
    """Against counting moments one by one."""
    rng = random.Random(0)
    for _ in range(50):
        lists = []
        for _ in range(2):
            starts = [rng.randrange(200) for _ in range(rng.randrange(1, 12))]
            lists.append([(a, a + rng.randrange(1, 30), "x") for a in starts])
        on = np.zeros((2, 300), bool)
        for row, spans in zip(on, lists, strict=True):
            for a, b, _ in spans:
                row[a:b] = True
        under_way, hidden = timeline_svg.share_hidden(*lists)
        assert under_way == on[1].sum() and hidden == pytest.approx((on[0] & on[1]).sum() / on[1].sum())
