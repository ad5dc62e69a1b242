"""The limits of a machine, measured once a process: bytes and arithmetic a second, and so the floor of a kernel."""

import bisect
import math
import time

import smolder
from smolder import _core

_SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
_known = {}


def limits(device="cpu"):
    """The limits of a device, measured at the first call: some 0.2 s."""
    kind = str(device).partition(":")[0]
    if kind not in _known:
        _known[kind] = _OfCUDA() if kind == "cuda" else _OfCPU()
    return _known[kind]


def measured(device):
    """Those of a device, if they were measured already; else None."""
    return _known.get(device)


class Limits:
    """Bytes a second by how many are moved, as caches have it, and the arithmetic a second of matrix products."""

    def __init__(self):
        self.copies = []  # (bytes, bytes a second), by bytes
        self._peaks = {}
        self._measure_copies()
        self.peak("float32")

    def bandwidth(self, count):
        """Bytes a second of plain loops that read and write `count` bytes again and again."""
        sizes = [size for size, _ in self.copies]
        at = bisect.bisect_left(sizes, count)
        if at in (0, len(sizes)):
            return self.copies[max(at - 1, 0)][1]
        (low, slow), (high, fast) = self.copies[at - 1 : at + 1]
        share = math.log(count / low) / math.log(high / low)
        return slow + (fast - slow) * share

    def peak(self, dtype):
        """Multiplications and additions a second of large matrix products of a dtype's name."""
        if dtype not in self._peaks:
            self._peaks[dtype] = self._measure_peak(getattr(smolder, dtype))
        return self._peaks[dtype]

    def floor(self, count, product_flops=0.0, dtype=None, other_flops=0.0):
        """Seconds that nothing which moves so many bytes and computes so much takes less than on this machine."""
        arithmetic = product_flops / self.peak(dtype) if product_flops else 0.0
        arithmetic += other_flops / self.peak("float32")
        return max(count / self.bandwidth(count) if count else 0.0, arithmetic)

    def to_dict(self):
        """Bytes a second of large copies, and the peaks that were asked for."""
        return {
            "bytes_per_second": self.copies[-1][1],
            "bytes_per_second_by_size": {str(size): rate for size, rate in self.copies},
            "flops_per_second": dict(self._peaks),
        }


def _best(run, least=0.002):
    """The least seconds of run(), of some calls that take `least` in all, at least two."""
    run()
    best, spent, calls = math.inf, 0.0, 0
    while spent < least or calls < 2:
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        best, spent, calls = min(best, took), spent + took, calls + 1
    return max(best, 1e-9)


class _OfCPU(Limits):
    def _measure_copies(self):
        for size in _SIZES:
            kinds = ("copy_streaming", "read") if size == _SIZES[-1] else ("copy", "copy_streaming", "read")
            self.copies.append((size, size / min(_best(_core._bench_stream(kind, size), 0.001) for kind in kinds)))

    def _measure_peak(self, dtype):
        n = 384
        if not dtype.is_floating_point:
            n = 96
        return 2 * n**3 / _best(_core._bench_matmuls([(1, n, n, n, False, False)], dtype), 0.01)


class _OfCUDA(Limits):
    """Measures plans of one kernel or product, queued one after another. Sizes grow until one takes long enough."""

    def _measure_copies(self):
        for size in [*_SIZES, 1 << 28]:
            elements = size // 8
            with smolder.no_grad():
                x = smolder.ones(elements, device="cuda")
                took = self._queued(lambda x=x: x * 0.5)
            self.copies.append((size, size / took))
            if took > 0.005:
                break

    def _measure_peak(self, dtype):
        n, best = 128, 0.0
        with smolder.no_grad():
            while n <= 8192:
                a = smolder.ones(n, n, device="cuda").to(dtype)
                took = self._queued(lambda a=a: a @ a)
                best = max(best, 2 * n**3 / took)
                if took > 0.002:
                    break
                n *= 2
        return best

    @staticmethod
    def _queued(op, calls=8):
        """Seconds of op(), whose result is held: else nothing would run."""

        def run(count):
            held = []
            for _ in range(count):
                held.append(op())
                smolder.mark_step()
            smolder.cuda.synchronize()

        once = _best(lambda: run(1), 0)
        return once if once > 0.005 else _best(lambda: run(calls)) / calls
