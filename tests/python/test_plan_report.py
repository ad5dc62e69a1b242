"""Plans as data: the steps that ran, the ops, bytes and arithmetic of each; and what tools draw and compare them with."""

import json
import math
import re
import xml.etree.ElementTree as tree

import pytest
from conftest import of_the_cpu

import smolder
from smolder import _core, _draw, _limits
from smolder.nn import functional as F


def logged(function, keep=False):
    smolder.mark_step()
    log = _core._start_step_log(keep)
    try:
        held = function()
        smolder.mark_step()
    finally:
        steps = _core._stop_step_log(log)
    del held
    return steps


@of_the_cpu("kernels are others")
def test_a_step_is_told_with_its_ops_and_lines():
    x, w = smolder.randn(64, 32), smolder.randn(32, 16)
    smolder.mark_step()
    (step,) = logged(lambda: ((x * 2).exp() @ w).sum())
    assert step.how == "plan" and step.device == "cpu" and step.reason == "mark_step"
    assert [op["name"] for op in step.ops] == ["mul", "exp", "matmul", "sum"]
    assert step.ops[2]["results"] == [("float32", [64, 16])]
    report = step.report()
    assert report["plan"] == step.plan > 0
    kernels = report["steps"]
    assert [k["kind"] for k in kernels][:2] == ["kernel", "library"]
    assert [op["name"] for op in kernels[0]["ops"]] == ["mul", "exp"]
    assert kernels[0]["ops"][1]["inputs"] == [0]
    assert all(re.search(r"test_plan_report\.py:\d+ in ", op["where"]) for k in kernels for op in k["ops"])
    assert re.fullmatch("[0-9a-f]{32}", kernels[0]["key"]) and kernels[1]["key"] is None


@of_the_cpu("kernels are others")
def test_bytes_and_arithmetic_are_those_of_the_ops():
    x, w = smolder.randn(64, 32), smolder.randn(32, 16)
    smolder.mark_step()
    (step,) = logged(lambda: smolder.relu(x) @ w)
    relu, product = step.report()["steps"]
    assert relu["bytes"] == 2 * 64 * 32 * 4 and relu["other_flops"] == 64 * 32 and relu["product_flops"] == 0
    assert product["bytes"] == 4 * (64 * 32 + 32 * 16 + 64 * 16)
    assert product["product_flops"] == 2 * 64 * 32 * 16 and product["product_dtype"] == "float32"
    for k in (relu, product):
        assert k["bytes"] == sum(count for _, count in k["reads"] + k["writes"])


@of_the_cpu("kernels are others")
def test_what_is_read_in_part_counts_in_part():
    table, rows = smolder.randn(1000, 64), smolder.tensor([3, 5])
    smolder.mark_step()
    (step,) = logged(lambda: table[rows] * 2)
    (kernel,) = step.report()["steps"]
    assert kernel["bytes"] <= 2 * 2 * 64 * 4 + 64 * 2 * 8
    (step,) = logged(lambda: table[10:20] + 1)
    assert step.report()["steps"][0]["bytes"] == 2 * 10 * 64 * 4


@pytest.mark.parametrize("groups", [1, 2])
@of_the_cpu("convolutions run as products on some devices")
def test_arithmetic_of_convolutions(groups):
    x, w = smolder.randn(2, 4, 9, 9), smolder.randn(6, 4 // groups, 3, 3)
    smolder.mark_step()
    (step,) = logged(lambda: F.conv2d(x, w, groups=groups))
    flops = sum(k["product_flops"] for k in step.report()["steps"])
    assert flops == 2 * (2 * 6 * 7 * 7) * (4 // groups) * 9


def test_a_neighbour_that_is_not_fused_is_named_with_the_reason():
    x = smolder.randn(128, 128)
    smolder.mark_step()
    (step,) = logged(lambda: smolder.exp(x.sum(0)) + 1)
    report = step.report()
    assert len(report["steps"]) >= 2
    first = report["not_fused"][0]
    assert first["op"] == "sum" and first["why"]
    assert {first["from"], first["to"]} <= set(range(len(report["steps"])))


def test_running_a_plan_again_changes_nothing():
    x = smolder.randn(100)
    before = x.tolist()
    smolder.mark_step()

    def step():
        x.mul_(2)

    (ran,) = logged(step, keep=True)
    times = ran.times(3)
    assert [len(t) for t in times] == [3] and all(0 <= s < 60 for s in times[0])
    assert x.tolist() == pytest.approx([2 * v for v in before])


def test_eager_ops_are_told_too():
    if smolder.ones(1).device.type != "cpu":
        pytest.skip("an eager op is a plan elsewhere")
    with smolder.eager():
        x = smolder.ones(10)
        steps = logged(lambda: [x + 1, x * 2])
    assert [s.how for s in steps] == ["eager"]
    assert [op["name"] for op in steps[0].ops] == ["add", "mul"]
    assert steps[0].ops[0]["bytes"] == 80 and steps[0].ops[0]["ms"] > 0


def test_limits_of_the_machine():
    limits = _limits.limits()
    assert limits is _limits.limits("cpu")
    assert limits.bandwidth(1 << 30) == limits.copies[-1][1] > 1e8
    low, high = sorted(rate for _, rate in limits.copies[-2:])
    assert low <= limits.bandwidth(1 << 25) <= high
    assert limits.peak("float32") > 1e8 and limits.peak("bfloat16") > 1e6
    assert limits.floor(0) == 0
    assert limits.floor(1 << 30) == pytest.approx((1 << 30) / limits.bandwidth(1 << 30))
    assert limits.floor(8, 1e12, "float32") == pytest.approx(1e12 / limits.peak("float32"))
    json.dumps(limits.to_dict())


# -- drawing


def drawing(hostile="<script>alert(1)</script> \"'&"):
    d = _draw.Drawing()
    d.add_group("k", hostile, details=[(hostile, hostile)], share=0.5)
    d.add_node("a", hostile, group="k", details=[("line", hostile)])
    d.add_node("b", "b", group="k")
    d.add_node("leaf", "x", kind="data")
    d.add_node("out", "y", kind="data")
    for start, end in [("leaf", "a"), ("a", "b"), ("b", "out"), ("leaf", "out")]:
        d.add_edge(start, end, details=[("bytes", hostile)])
    return d


def test_svg_is_well_formed_and_escaped():
    root = tree.fromstring(drawing().svg())
    text = "".join(root.itertext())
    assert "<script>alert(1)</script>" in text  # as text
    assert not [e for e in root.iter() if e.tag.endswith("script")]


def test_boxes_do_not_overlap():
    d = _draw.Drawing()
    for i in range(60):
        d.add_group(f"g{i}", f"kernel {i}")
        d.add_node(f"n{i}", f"op {i}", group=f"g{i}")
    for i in range(59):
        d.add_edge(f"n{i}", f"n{i + 1}")
        d.add_edge(f"n{i // 3}", f"n{i + 1}")
    root = tree.fromstring(d.svg())
    boxes = []
    for g in root.iter("{http://www.w3.org/2000/svg}g"):
        if "group" in g.get("class", ""):
            r = g.find("{http://www.w3.org/2000/svg}rect")
            boxes.append([float(r.get(k)) for k in ("x", "y", "width", "height")])
    assert len(boxes) == 60
    for i, (x, y, w, h) in enumerate(boxes):
        assert all(math.isfinite(v) for v in (x, y, w, h)) and x >= -1 and y >= -1
        for u, v, s, t in boxes[:i]:
            assert x + w <= u + 0.1 or u + s <= x + 0.1 or y + h <= v + 0.1 or v + t <= y + 0.1


def test_edges_of_a_circle_are_drawn():
    d = _draw.Drawing()
    for key in "abc":
        d.add_node(key, key)
    for edge in ("ab", "bc", "ca", "aa"):
        d.add_edge(*edge)
    assert d.svg().count('class="edge"') == 4


def test_layers_put_readers_below_what_they_read():
    level = _draw.layers("abcd", [("a", "b"), ("b", "c"), ("d", "c")])
    assert level["a"] < level["b"] < level["c"] and level["d"] == level["c"] - 1


def test_dot_quotes():
    text = drawing().dot('a "name"')
    assert text.startswith('digraph "a \\"name\\"" {') and text.count("->") == 4 and "subgraph cluster_1" in text


def test_a_page_needs_nothing_else():
    page = _draw.page("<b>title", [("one & two", drawing()), ("", "<p>text</p>")])
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"<(link|img|iframe)|src=|@import|url\((?!#)", page)
    assert "<b>title" not in page and "&lt;b&gt;title" in page
    assert "<script>alert" not in page
    data = json.loads(re.search(r'id="details">(.*?)</script>', page, re.DOTALL)[1])
    assert data["d0"]["g0"][1][0].startswith("<script>")
