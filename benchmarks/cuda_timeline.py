"""Whether recording overlaps the device: a step of 2,000 ops, when the host records it and when the device runs it.

`python benchmarks/cuda_timeline.py [--rows 2048] [--width 1024] [--layers 250] [--steps 40]`

The device's time of a step is taken behind other work, where steps wait for the device and not for the host; the share in
which the device is busy is that time over the time a step takes when the program simply runs (a little over 1 where the device's
clock rate was lower the first time). Times of the device are events'; its clock and the host's are compared once, when
both wait for each other.
"""

import argparse
import time

import smolder
from smolder import cuda
from smolder.nn import functional as F


def layers(count, width):
    smolder.manual_seed(0)
    made = [smolder.randn(width, width, device="cuda").to(smolder.bfloat16) * width**-0.5 for _ in range(count)]
    smolder.mark_step()
    return made


def forward(x, weights):
    """Eight ops a layer."""
    for w in weights:
        h = F.gelu(x @ w)
        h = (h * 0.5 + 0.1) * h.sigmoid()
        x = x * 0.9 + h
    return x


class Run:
    """Steps, each with when the host began and ended it and an event after it."""

    def __init__(self, x, weights, steps):
        self.spans, self.ends, kept = [], [], x
        for _ in range(steps):
            begin = time.perf_counter()
            kept = forward(kept, weights)
            smolder.mark_step()
            self.spans.append((begin, time.perf_counter()))
            self.ends.append(marked())
        self.result = kept

    def device_ends(self, zero):
        """Milliseconds from an event to the ends of steps."""
        cuda.synchronize()
        return [zero.elapsed_time(e) for e in self.ends]


def marked():
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def behind_other_work(x, weights, steps):
    """Milliseconds of the device a step: all are queued before the first begins."""
    big = smolder.randn(8192, 8192, device="cuda").to(smolder.bfloat16)
    smolder.mark_step()
    products = 16
    while True:
        for _ in range(products):
            product = big @ big
            smolder.mark_step()
        begun = marked()
        run = Run(x, weights, steps)
        if not begun.query():
            ends = run.device_ends(begun)
            del product
            return (ends[-1] - ends[0]) / (steps - 1)
        products *= 2
        cuda.synchronize()


def drawn(spans, ends, width=100):
    """Steps as lines: what the host records, and when the device ends what it was given."""
    begin, end = spans[0][0], max(spans[-1][1], ends[-1])

    def at(t):
        return round((t - begin) / (end - begin) * (width - 1))

    before = begin
    for i, ((start, stop), done) in enumerate(zip(spans, ends, strict=True)):
        host, device = [" "] * width, [" "] * width
        for k in range(at(start), at(stop) + 1):
            host[k] = "h"
        for k in range(at(max(before, stop)), at(done) + 1):
            device[k] = "D"
        before = done
        print(f"  {i:3d} host   |{''.join(host)}|\n      device |{''.join(device)}|")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rows", 2048), ("width", 1024), ("layers", 250), ("steps", 40), ("shown", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    weights = layers(options.layers, options.width)
    x = smolder.randn(options.rows, options.width, device="cuda").to(smolder.bfloat16)
    smolder.mark_step()
    before = smolder.metrics()["counters"]["ops.recorded"]
    forward(x, weights)
    smolder.mark_step()
    ops = smolder.metrics()["counters"]["ops.recorded"] - before
    Run(x, weights, 6)
    cuda.synchronize()
    device = behind_other_work(x, weights, options.steps)

    zero = marked()
    zero.synchronize()
    meeting = time.perf_counter()
    run = Run(x, weights, options.steps)
    ends = [meeting + ms / 1e3 for ms in run.device_ends(zero)]
    warm = options.steps // 4
    taken = (ends[-1] - ends[warm]) / (options.steps - 1 - warm) * 1e3
    host = sum(stop - start for start, stop in run.spans[warm:]) / (options.steps - warm) * 1e3
    counters = smolder.metrics()["counters"]
    print(f"{cuda.get_device_name()}: {ops} ops a step; graphs replayed: {counters.get('graphs.replayed', 0)}")
    print(f"host {host:.3f} ms a step, device {device:.3f}, together {taken:.3f}: busy {device / taken:.1%}")
    drawn(run.spans[: options.shown], ends[: options.shown])


if __name__ == "__main__":
    main()
