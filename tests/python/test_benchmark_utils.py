"""Timers and tables of times: texts are torch's, and what is timed is computed."""

import itertools

import pytest
from torch_peer import needs_torch, run_here, run_torch

import smolder
from smolder.utils import benchmark

TEXTS = """
if torch.__name__ == "torch":
    from torch.utils.benchmark import Compare, Measurement, Timer
    from torch.utils.benchmark.utils.common import TaskSpec
else:
    from smolder.utils.benchmark import Compare, Measurement, TaskSpec, Timer
def measured(times, stmt="f(x)", number=10, **options):
    return Measurement(number, times, TaskSpec(stmt, options.pop("setup", "pass"), **options))
def text(m):
    return [line for line in repr(m).splitlines() if " object at " not in line], m.median, m.mean, m.iqr, m.title, m.has_warnings
spread = [1e-3, 1.2e-3, 2e-3, 5e-3, 1e-3]
steady = [1e-3, 1.001e-3, 1.002e-3, 1.001e-3, 1.0005e-3]
all = [
    measured(spread), measured([3e-7]), measured([2.0, 3.0], label="L", sub_label="S", num_threads=4), measured(steady),
    measured(steady, "a\\nb", setup="x = 1", sub_label="S", description="d"), measured(steady, "a\\nb", setup="x\\ny"),
    measured([1e-3 * k for k in (1, 1.05, 1.1, 1.15, 1.2)], env="e"), measured([12.0], number=1),
]
rows = [
    measured([t * s for t in times], sub_label=name, description=d, label="table", num_threads=n)
    for (name, s), (d, times), n in __import__("itertools").product(
        (("one", 1), ("another", 30), ("third", 1.05)), (("ours", steady), ("theirs", spread)), (1, 8))
]
def tables(rows, *settings):
    c = Compare(rows)
    for name, args in settings:
        getattr(c, name)(*args)
    return str(c)
trim, colour, across, mark = ("trim_significant_figures", ()), ("colorize", ()), ("colorize", (True,)), ("highlight_warnings", ())
out = [text(m) for m in all] + [m.significant_figures for m in all]
out += [tables(rows), tables(rows, trim), tables(rows, colour), tables(rows, across), tables(rows, mark), tables(rows, trim, mark, across)]
out += [tables(rows[:5]), tables([measured(spread, label="a", description="d"), measured(steady, "g", label="b", description="d"), measured(steady, description="")])]
out += [tables(rows + [measured(steady, label="table", sub_label="one", description="ours", num_threads=1)])]
"""


@needs_torch
def test_texts_are_those_of_torch():
    for mine, other in itertools.zip_longest(run_here(TEXTS), run_torch(TEXTS)):
        assert mine == pytest.approx(other) if isinstance(mine, float) else mine == other


def test_what_is_timed_is_computed():
    x, before = smolder.ones(64), smolder.metrics()["counters"].get("steps", 0)
    plans = smolder.metrics()["counters"]
    m = benchmark.Timer("x + 1", globals={"x": x}, label="add", num_threads=1).timeit(50)
    after = smolder.metrics()["counters"]
    grown = {k: v - plans.get(k, 0) for k, v in after.items() if v - plans.get(k, 0) >= 50}
    assert grown, "each run is a step"
    assert m.number_per_run == 50 and len(m.raw_times) == 1 and m.median > 0 and m.title == "add" and before >= 0


def test_ranges():
    seen = []
    m = benchmark.Timer("y = 1", setup="z = 2", sub_label="s").blocked_autorange(
        lambda *a: seen.append(a), min_run_time=0.02
    )
    assert sum(m.raw_times) >= 0.02 and len(seen) == len(m.raw_times) and seen[0][0] == m.number_per_run > 1
    m = benchmark.Timer("for i in range(3):\n    i").adaptive_autorange(threshold=1e-9, max_run_time=0.1)
    assert 0.1 < sum(m.raw_times) < 5
    threads = smolder.get_num_threads()
    held = {"seen": []}
    benchmark.Timer("seen.append(smolder.get_num_threads())", globals=held, num_threads=1).timeit(2)
    assert set(held["seen"]) == {1} and smolder.get_num_threads() == threads


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda: benchmark.Timer(lambda: 1), ValueError, "only a `str` stmt"),
        (lambda: benchmark.Timer(language="c++"), NotImplementedError, "language='c\\+\\+' is not supported"),
        (lambda: benchmark.Timer(language="d"), ValueError, "Invalid language `d`"),
        (lambda: benchmark.Timer(global_setup="x"), ValueError, "global_setup is C\\+\\+ only"),
        (lambda: benchmark.Timer().repeat(), NotImplementedError, "blocked_autorange"),
        (lambda: benchmark.Timer().collect_callgrind(), NotImplementedError, "Valgrind"),
        (lambda: benchmark.Compare([3]), ValueError, "Expected an instance of `Measurement`"),
    ],
)
def test_mistakes(use, error, match):
    with pytest.raises(error, match=match):
        use()
