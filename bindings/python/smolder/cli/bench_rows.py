"""The rows of `smolder bench`: what each measures, and its limit."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy

import smolder
from smolder import _core
from smolder.cli import bench_models

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "KiB": 1.0}  # of a second, but for memory


@dataclass
class Row:
    """One measurement. `target` is of the value (at most) or of the share of the limit (at least)."""

    name: str
    unit: str
    target: float
    target_of: str
    about: str
    measure: Callable
    has_peers: bool


ROWS = {}


def _row(unit, target, target_of="value", peers=False):
    """Registers a function(context) -> (value, limit), in the row's unit; its docstring says what it measures."""

    def register(measure):
        name = measure.__name__
        ROWS[name] = Row(name, unit, target, target_of, measure.__doc__, measure, peers)
        return measure

    return register


class Context:
    """How much to measure, and limits that several rows share."""

    def __init__(self, quick=False, threads=None):
        self.quick = quick
        if threads:
            _core.set_num_threads(threads)
        self.threads = _core.get_num_threads()
        self.rounds = 3 if quick else 15

    def pick(self, full, quick):
        """The size for this run."""
        return quick if self.quick else full

    def median(self, step):
        """Median seconds of step(): a few calls first, then rounds of at least 5 ms each."""
        calls = self._warm(step)
        return statistics.median(self._round(step, calls) for _ in range(self.rounds))

    def beside(self, step, *limits):
        """Median seconds of step(), and the sum of its limits'. A limit is a list of loops, the fastest of which
        counts. Rounds of all take turns, so that a machine whose clock drifts slows them alike."""
        loops = [step, *itertools.chain(*limits)]
        calls = [self._warm(loop) for loop in loops]
        samples = [[] for _ in loops]
        for _ in range(self.rounds):
            for loop, count, times in zip(loops, calls, samples, strict=True):
                loop()  # the caches are its own again
                times.append(self._round(loop, count))
        medians = [statistics.median(times) for times in samples]
        rest = iter(medians[1:])
        return medians[0], sum(min(itertools.islice(rest, len(limit))) for limit in limits)

    @staticmethod
    def _warm(step):
        """Calls step() a few times, until nothing is left to compile; how many calls take 5 ms."""
        for _ in range(3):
            step()
            _core.wait_for_compiles()
        return max(1, int(0.005 / max(Context._round(step, 1), 1e-9)))

    @staticmethod
    def _round(step, calls):
        start = time.perf_counter()
        for _ in range(calls):
            step()
        return (time.perf_counter() - start) / calls

    @staticmethod
    def stream(kind, count):
        """Plain loops that move `count` bytes: "copy" or "scale", stored both ways, or "read"."""
        kinds = [kind] if kind == "read" else [kind, kind + "_streaming"]
        return [_core._bench_stream(k, count) for k in kinds]

    @staticmethod
    def products(list_of_products):
        """Matrix products in the library, one after another."""
        return [_core._bench_matmuls(list_of_products, smolder.float32)]


# -- recording


def _record(context, predicted):
    ops = context.pick(2000, 100)
    took = statistics.median(_core._bench_record(predicted, ops, context.rounds))
    floor = statistics.median(_core._bench_record_floor(ops, context.rounds))
    return took / ops * 1e9, floor / ops * 1e9


@_row("ns", 40)
def record_predicted(context):
    """an op recorded in C++ in a step that repeats; limit: a lock taken and a handle made and dropped"""
    return _record(context, True)


@_row("ns", 120)
def record_new(context):
    """an op recorded in C++ in a step not seen before; limit: as record_predicted"""
    return _record(context, False)


@_row("ns", 250, peers=True)
def record_python(context):
    """`a + b` of small tensors in a Python loop, no sync; limit: the same loop over two Python floats"""
    n = context.pick(20000, 500)

    def loop(x, y):
        for _ in range(n):
            x + y

    with smolder.no_grad():
        a, b = smolder.ones(8), smolder.ones(8)
        smolder.mark_step()
        took, floor = context.beside(lambda: loop(a, b), [lambda: loop(1.5, 2.5)])
        smolder.mark_step()
    return took / n * 1e9, floor / n * 1e9


@_row("us", 100)
def step_2000_ops(context):
    """host time of a repeated step of 2,000 ops, sync included, kernels excluded; limit: 2,000 x record_predicted's"""
    ops = context.pick(2000, 200)
    steps, kernels = _core._bench_step(ops, context.rounds)
    floor = statistics.median(_core._bench_record_floor(ops, context.rounds))
    return (statistics.median(steps) - statistics.median(kernels)) * 1e6, floor * 1e6


@_row("us", 50)
def rebind(context):
    """host time per 100 ops of a known step at a new batch size, no compile; limit: the same at a known size"""
    ops = 100
    fresh, known = _core._bench_rebind(ops, context.rounds)
    return statistics.median(fresh) * 1e6 * 100 / ops, statistics.median(known) * 1e6 * 100 / ops


# -- compiling


@_row("ms", 6)
def compile_kernel(context):
    """one kernel of the transformer block's training step, cold, median; limit: a kernel that copies"""
    step = bench_models.block(smolder, train=True, **_block_sizes(context))
    step()
    smolder.mark_step()
    kernels = _core._bench_compile_kernels()
    return statistics.median(kernels) * 1e3, statistics.median(_core._bench_compile_copy_kernel(5)) * 1e3


@_row("ms", 5)
def plan_1000_ops(context):
    """a plan of 1,000 ops built with all kernels cached; limit: its graph alone"""
    plans, graphs = _core._bench_plan(context.pick(1000, 50), context.rounds)
    return statistics.median(plans) * 1e3, statistics.median(graphs) * 1e3


_FIRST_STEP = """
import json, time, smolder
from smolder.cli import bench_models
if {threads}: smolder.set_num_threads({threads})
times = []
start = time.perf_counter()
step = bench_models.mlp(smolder, train=True, batch=32)
for _ in range(5):
    step().item()
    times.append(time.perf_counter() - start)
    start = time.perf_counter()
print(json.dumps(times))
"""


def _child(context, program, environment=None):
    """Runs a program in a new process and returns what it printed last, read as JSON."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(smolder.__file__)))
    env = dict(os.environ, **(environment or {}))
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [package, env.get("PYTHONPATH")]))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["the process failed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _first_steps(context):
    """Medians of (cold first step, warm first step, later step), in seconds."""
    cold, warm, later = [], [], []
    for _ in range(context.pick(5, 1)):
        with tempfile.TemporaryDirectory() as folder:
            program = _FIRST_STEP.format(threads=context.threads)
            cold.append(_child(context, program, {"SMOLDER_CACHE_DIR": folder})[0])
            again = _child(context, program, {"SMOLDER_CACHE_DIR": folder})
            warm.append(again[0])
            later.append(again[-1])
    return statistics.median(cold), statistics.median(warm), statistics.median(later)


@_row("s", 0.15, peers=True)
def first_step_cold(context):
    """MLP made and trained one step in a new process, empty cache, import excluded; limit: the warm one"""
    cold, warm, _ = _first_steps(context)
    return cold, warm


@_row("s", 0.03)
def first_step_warm(context):
    """the same when the kernels are in the cache on disk; limit: the process's fifth step"""
    _, warm, later = _first_steps(context)
    return warm, later


# -- kernels bound by memory


def _beside(unit, context, step, *limits):
    return tuple(seconds * UNITS[unit] for seconds in context.beside(step, *limits))


@_row("ms", 0.9, "share", peers=True)
def chain(context):
    """an 8-op gelu chain over 2^25 floats; limit: a STREAM-like scaling loop"""
    n = context.pick(2**25, 2**12)
    return _beside("ms", context, bench_models.chain(smolder, n), context.stream("scale", 8 * n))


def _normalized(context, make):
    rows, columns = context.pick((8192, 1024), (16, 64))
    return _beside("ms", context, make(smolder, rows, columns), context.stream("copy", 16 * rows * columns))


@_row("ms", 0.8, "share", peers=True)
def softmax(context):
    """softmax of 8192x1024, forward and backward; limit: two arrays read and two written, by a copy"""
    return _normalized(context, bench_models.softmax)


@_row("ms", 0.7, "share", peers=True)
def layer_norm(context):
    """layer_norm of 8192x1024, forward and backward; limit: two arrays read and two written, by a copy"""
    return _normalized(context, bench_models.layer_norm)


@_row("ms", 0.85, "share", peers=True)
def column_sum(context):
    """sums of the columns of 8192x4096; limit: a loop that reads"""
    rows, columns = context.pick((8192, 4096), (64, 64))
    step = bench_models.sums(smolder, rows, columns, 0)
    return _beside("ms", context, step, context.stream("read", 4 * rows * columns))


@_row("ms", 0.85, "share", peers=True)
def full_sum(context):
    """the sum of 8192x4096; limit: a loop that reads"""
    rows, columns = context.pick((8192, 4096), (64, 64))
    step = bench_models.sums(smolder, rows, columns, None)
    return _beside("ms", context, step, context.stream("read", 4 * rows * columns))


@_row("ms", 0.5, "share")
def cumsum(context):
    """running sums of 2^24 floats; limit: a copy"""
    n = context.pick(2**24, 2**12)
    return _beside("ms", context, bench_models.cumsum(smolder, n), context.stream("copy", 8 * n))


@_row("ms", 0.1, "share")
def sort(context):
    """a stable sort of 2^20 floats with their positions; limit: numpy.sort, which has no positions"""
    n = context.pick(2**20, 2**12)
    values = numpy.random.default_rng(0).normal(size=n).astype(numpy.float32)
    return _beside("ms", context, bench_models.sort(smolder, n), [lambda: numpy.sort(values)])


@_row("ms", 0.3, "share")
def index_put(context):
    """20000 of 50000 rows of 64 floats written at random; limit: a copy of what is written"""
    rows, width, written = context.pick((50000, 64, 20000), (500, 8, 200))
    step = bench_models.index_put(smolder, rows, width, written)
    return _beside("ms", context, step, context.stream("copy", 8 * width * written))


@_row("ms", 0.85, "share", peers=True)
def adamw(context):
    """AdamW on 30 million parameters; limit: 28 bytes each moved by a copy"""
    tensors, size = context.pick((30, 10**6), (3, 1000))
    return _beside(
        "ms", context, bench_models.adamw(smolder, tensors, size), context.stream("copy", 28 * tensors * size)
    )


# -- models


def _linear(batch, inputs, outputs, train, input_gradient=True):
    """The products of a linear layer: (batch, m, n, k, is a transposed, is b transposed)."""
    out = [(1, batch, outputs, inputs, False, True)]
    if train:
        out.append((1, outputs, inputs, batch, True, False))
        if input_gradient:
            out.append((1, batch, inputs, outputs, False, False))
    return out


def _mlp(context, train):
    batch = 32
    widths = bench_models.MLP_WIDTHS
    products, parameters = [], 0
    for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        products += _linear(batch, inputs, outputs, train, i > 0)
        parameters += inputs * outputs + outputs
    state = context.stream("copy", _state_bytes(parameters, batch * widths[0], train))
    return _beside("us", context, bench_models.mlp(smolder, train, batch), context.products(products), state)


def _state_bytes(parameters, inputs, train):
    """The bytes that must move beside the products: the input, and AdamW's 28 bytes a parameter."""
    return 4 * inputs + (28 * parameters if train else 0)


def _block_sizes(context):
    full = {"batch": 16, "length": 128, "width": 512, "heads": 8, "hidden": 2048}
    return context.pick(full, {"batch": 2, "length": 4, "width": 16, "heads": 2, "hidden": 32})


def _block(context, train):
    s = _block_sizes(context)
    tokens, width, hidden = s["batch"] * s["length"], s["width"], s["hidden"]
    heads, depth = s["batch"] * s["heads"], s["width"] // s["heads"]
    products, parameters = [], 4 * width
    for inputs, outputs in ((width, 3 * width), (width, width), (width, hidden), (hidden, width)):
        products += _linear(tokens, inputs, outputs, train)
        parameters += inputs * outputs + outputs
    scores, context_ = (heads, s["length"], s["length"], depth), (heads, s["length"], depth, s["length"])
    products += [(*scores, False, True), (*context_, False, False)]
    if train:
        products += [(*scores, False, True), (*context_, True, False)]  # gradients of the weights and of v
        products += [(*context_, False, False), (*context_, True, False)]  # of q and k
    state = context.stream("copy", _state_bytes(parameters, 2 * tokens * width, train))
    return _beside("us", context, bench_models.block(smolder, train, **s), context.products(products), state)


@_row("us", 1 / 1.15, "share", peers=True)
def mlp_train(context):
    """a training step of an MLP, batch 32, AdamW; limit: its products in the library and its memory floor"""
    return _mlp(context, True)


@_row("us", 1 / 1.15, "share", peers=True)
def mlp_forward(context):
    """the MLP's forward pass; limit: as mlp_train"""
    return _mlp(context, False)


@_row("us", 1 / 1.10, "share", peers=True)
def block_forward(context):
    """a transformer block (512 wide, 8 heads, 16x128 tokens); limit: its products and its memory floor"""
    return _block(context, False)


@_row("us", 1 / 1.10, "share", peers=True)
def block_train(context):
    """the block's training step with AdamW; limit: as block_forward"""
    return _block(context, True)


def _conv(context, train):
    batch, size = context.pick((32, 32), (2, 8))
    filters = bench_models.CONV_LAYERS[-1][1]
    products, parameters, side = _linear(batch, filters, bench_models.CONV_CLASSES, train), 0, size
    for i, (channels, filters, stride) in enumerate(bench_models.CONV_LAYERS):
        side = (side + stride - 1) // stride
        products += _linear(batch * side * side, 9 * channels, filters, train, i > 0)
        parameters += 9 * channels * filters
    state = context.stream("copy", _state_bytes(parameters, batch * 3 * size * size, train))
    step = bench_models.conv(smolder, train, batch, size)
    return _beside("us", context, step, context.products(products), state)


@_row("us", 0.5, "share", peers=True)
def conv_forward(context):
    """three 3x3 convolutions with batch norm, 32 images of 32x32; limit: plain products of those sizes and its memory floor"""
    return _conv(context, False)


@_row("us", 0.5, "share", peers=True)
def conv_train(context):
    """a training step of that net with AdamW; limit: as conv_forward"""
    return _conv(context, True)


_STEPS = """
import json, smolder
from smolder.cli import bench_models
def resident():
    with open("/proc/self/statm") as file: return int(file.read().split()[1]) * {page} // 1024
if {threads}: smolder.set_num_threads({threads})
step = bench_models.mlp(smolder, train=True, batch=32)
for i in range({last}):
    step()
    if i + 1 == {first}: before = resident()
print(json.dumps(resident() - before))
"""


@_row("KiB", 0)
def steps_10000(context):
    """growth of resident memory between training step 1,000 and 10,000; limit: none"""
    first, last = context.pick((1000, 10000), (20, 60))
    page = os.sysconf("SC_PAGE_SIZE")
    program = _STEPS.format(threads=context.threads, page=page, first=first, last=last)
    return max(0, _child(context, program)), 0
