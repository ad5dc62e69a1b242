"""Runs a file of tests/python/sweeps with smolder or with torch, as T, and says what each of its cases gave.

    python peer_sweep.py torch FILE        writes {case: result} as JSON
    python peer_sweep.py torch golden      writes what torch gave to each file beside the tests, in brief

A file calls case(name, function); what the function returns is flattened to tensors, [dtype, shape, elements], and
to the repr of anything else; an error is its type.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "sweeps"
GOLDEN = Path(__file__).parents[1] / "golden/sweeps"
DIGITS = {"float64": 13, "float32": 7, "float16": 5, "bfloat16": 4, "complex64": 7, "complex128": 13}
MOST = 8  # elements of a tensor that the golden files write out


class Sweep:
    """The names that a file of cases sees."""

    def __init__(self, module):
        self.T, self.nn, self.F, self.np = module, module.nn, module.nn.functional, np
        self.results = {}

    def case(self, name, function):
        """Records what function() returns, or raises. Random numbers of arr follow from how many cases went before."""
        self.rng = np.random.default_rng(len(self.results))
        assert name not in self.results, f"two cases are called {name}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.results[name] = self.flat(function())
        except Exception as error:
            self.results[name] = ["error", type(error).__name__]

    def arr(self, *shape, low=-2, high=2, dtype="float32"):
        """A tensor of random numbers."""
        return self.T.tensor((self.rng.random(shape) * (high - low) + low).astype(dtype))

    def with_grads(self, function, *tensors):
        """The result of function for tensors, and the gradients of a weighted sum of it."""
        tensors = [t.requires_grad_() for t in tensors]
        out = function(*tensors)
        self.total(out).backward()
        return [out, *(t.grad for t in tensors)]

    def total(self, out):
        """A sum in which no element counts like another."""
        parts = out if isinstance(out, tuple | list) else [out]
        floats = [t for t in parts if isinstance(t, self.T.Tensor) and t.dtype.is_floating_point]
        return sum((t * self.T.cos(self.T.arange(t.numel()).to(t.dtype)).reshape(t.shape)).sum() for t in floats)

    def flat(self, value):
        """Tensors and texts, however nested they were."""
        if isinstance(value, tuple | list):
            return [item for part in value for item in self.flat(part)]
        if isinstance(value, self.T.Tensor):
            dtype = str(value.dtype).rpartition(".")[2]
            return [[dtype, list(value.shape), value.detach().to(self.T.float64).reshape(-1).tolist()]]
        return [repr(value).replace(self.T.__name__ + ".", "")]


def sweep(module, path):
    """The results of a file's cases."""
    s = Sweep(module)
    names = {name: getattr(s, name) for name in ("T", "nn", "F", "np", "case", "arr", "with_grads", "total")}
    exec(compile(Path(path).read_text(), str(path), "exec"), names)
    return s.results


def brief(results):
    """The results with the elements of large tensors as sums, and with the digits that a dtype has."""
    return {case: [item if isinstance(item, str) else in_brief(*item) for item in r] for case, r in results.items()}


def in_brief(dtype, shape, elements):
    if len(elements) > MOST:
        elements = sums(elements)
    return [dtype, shape, [short(x, DIGITS.get(dtype, 17)) for x in elements]]


def short(x, digits):
    x = float(f"{x:.{digits}g}")
    return int(x) if x.is_integer() else x


def sums(elements):
    """A digest of elements: how many are no numbers or infinite, and means that weigh each place otherwise."""
    x, at = np.array(elements, "float64"), np.arange(len(elements))
    finite = np.where(np.isfinite(x), x, 0)
    counts = [np.isnan(x).sum(), (x == np.inf).sum(), (x == -np.inf).sum()]
    means = [np.abs(finite).mean(), *((finite * np.cos(k * (at + 1))).mean() for k in (0, 1, 2.7))]
    return [float(n) for n in (*counts, *means)]


def write_golden(module):
    for path in sorted(FOLDER.glob("*.py")):
        lines = [json.dumps({c: r}, separators=(",", ":"))[1:-1] for c, r in brief(sweep(module, path)).items()]
        (GOLDEN / f"{path.stem}.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    if sys.argv[2] == "golden":
        write_golden(importlib.import_module(sys.argv[1]))
    else:
        json.dump(sweep(importlib.import_module(sys.argv[1]), sys.argv[2]), sys.stdout)
