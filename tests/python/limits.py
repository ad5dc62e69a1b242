"""Results of ops for numbers and dtypes at their limits, by Smolder or by torch.

    python limits.py torch   writes the golden file beside the tests, from torch

Elementwise ops, reductions and scans are given the limits of each dtype, and with a second operand each number of
NUMBERS, or the limits of another dtype. SPECIAL are single calls.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np


def words(text):
    return text.split()


GOLDEN = Path(__file__).parents[1] / "golden/limits.json"
VALUES = {
    "bool": [False, True],
    "uint8": [0, 1, 2, 127, 128, 200, 255],
    "int8": [0, 1, -1, 2, 7, -7, 100, 127, -128],
    "int16": [0, 1, -1, 2, 7, -7, 300, 32767, -32768],
    "int32": [0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31)],
    "int64": [0, 1, -1, 2, 7, -7, 2**53 + 1, 2**63 - 1, -(2**63)],
    "float16": [0.0, 1.0, -1.0, 0.5, 2.5, 65504.0, -65504.0, 6e-8, "inf", "-inf", "nan"],
    "float32": [0.0, 1.0, -1.0, 0.5, 2.5, 1e10, -1e38, 1e-40, 3.4e38, "inf", "-inf", "nan"],
    "float64": [0.0, 1.0, -1.0, 0.5, 2.5, 1e300, -1e300, 5e-324, "inf", "-inf", "nan"],
}
NUMBERS = ["True", "False", "0", "1", "2", "3", "-1", "300", "2**31", "2**53 + 1", "0.5", "2.0", "-1.5", "inf", "nan"]
UNARY = words("""abs neg sign square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin
acos atan asinh acosh atanh erf sigmoid relu floor ceil round trunc frac isnan isinf isfinite logical_not bitwise_not
signbit positive sum prod mean max min any all cumsum cumprod argmax argmin var std sort logsumexp norm""")
BINARY = words("""add sub mul div floor_divide remainder fmod pow float_power maximum minimum eq ne lt le gt ge logical_and
logical_or logical_xor bitwise_and bitwise_or bitwise_xor atan2 fmax fmin copysign hypot rsub xlogy clamp_min clamp_max
true_divide masked_fill fill_ full_like new_full add_ mul_ sub_ div_ pow_ remainder_ where""")
FORMS = {op: f"T.{op}({{t}}, {{n}})" for op in ("full_like", "float_power", "copysign", "xlogy")}
FORMS |= {"masked_fill": "{t}.masked_fill({t} == 1, {n})", "where": "T.where({t} == 1, {n}, {t})"}
FORMS |= {"new_full": "{t}.new_full((3,), {n})", "rsub": "{n} - {t}"}
PAIRS = words("atan2 fmax hypot maximum add mul pow div eq lt remainder")
SPECIAL = """
T.arange(2**53, 2**53 + 4)
T.arange(2**53 + 1, 2**53 + 10, 3)
T.arange(2**62 + 1, 2**62 + 3)
T.arange(-2**62 - 1, -2**62 + 2)
T.arange(2**62 + 1, 2**62 - 3, -2)
T.arange(2**63 - 3, 2**63 - 1)
T.arange(250, 260, dtype=T.uint8)
T.arange(2**24, 2**24 + 3, dtype=T.float32)
T.arange(2**53, 2**53 + 3, dtype=T.float64)
T.arange(0.5, 3.5, dtype=T.int64)
T.arange(2040, 2060, 3, dtype=T.float16)
T.arange(True)
T.arange(2.0**60, 2.0**60 + 512, 256.0)
T.arange(inf)
T.arange(nan)
T.tensor([np.float64(1)])
T.tensor([np.float64(1), 1])
T.tensor([[1, np.float64(1)]])
T.tensor([np.float32(1), 1])
T.tensor([np.float16(1), 1])
T.tensor([np.float16(1), 1.0])
T.tensor([np.int32(1), True])
T.tensor([np.uint8(3)])
T.tensor([np.int8(3), np.int16(3)])
T.tensor([np.uint8(3), np.int8(3)])
T.tensor([np.bool_(True)])
T.tensor([np.zeros(2), np.ones(2)])
T.tensor([T.tensor(1.0, dtype=T.float64)])
T.tensor([T.tensor(1, dtype=T.int32), 2.5])
T.as_tensor([np.float64(1)])
T.tensor([])
T.tensor([[], []])
T.tensor([300], dtype=T.uint8)
T.tensor([2**31], dtype=T.int32)
T.tensor([128], dtype=T.int8)
T.tensor([-128], dtype=T.int8)
T.tensor([2**15], dtype=T.int16)
T.tensor([70000], dtype=T.float16)
T.full((1,), 300, dtype=T.uint8)
T.full((1,), -1, dtype=T.uint8)
T.full((1,), 128, dtype=T.int8)
T.full((1,), -129, dtype=T.int8)
T.arange(120, 130, dtype=T.int8)
T.full_like(h, 70000)
a[[[0, 1], [1, 0]]]
a[[[0, 1]]]
a[[0], [1]]
a[[0, 1]]
a[([0, 1], [1, 0])]
a[[slice(0, 1)]]
a[[None]]
a[[...]]
a[[0, slice(0, 1)]]
a[[T.tensor([0, 1])]]
a[[T.tensor([0, 1]), T.tensor([0, 1])]]
a[[T.tensor(0), T.tensor(1)]]
a[[True, False, True]]
a[[[True, False, True]]]
a[[]]
a[[[]]]
a[[[[0]]]]
a[1.5]
a[np.array([[0, 1], [1, 0]])]
a[[np.array([0, 1]), np.array([0, 1])]]
a[[(0, 1), (1, 0)]]
a[(0, 1), (1, 0)]
a[range(2)]
a[[range(2), range(2)]]
put(a, [[0, 1], [1, 0]], 7)
put(a, [[0, 1]], 7)
put(u, 0, 300)
put(u, 0, -1)
data(T.ones(2), T.int64)
data(T.ones(2, requires_grad=True), T.int64)
data(T.ones(2, requires_grad=True), T.bool)
data(T.ones(2, requires_grad=True), T.float64)
data(T.ones(2, requires_grad=True) * 2, T.int64)
data(nn.Parameter(T.ones(2)), T.uint8)
copied(nn.Linear(1, 1)).weight.grad
copied(nn.Sequential(nn.Linear(1, 1)))[0].weight.grad
copied(nn.Parameter(T.ones(1, 1))).grad
copied(T.ones(1, 1, requires_grad=True)).grad
u.clamp(-1, 300)
u.clamp(300, 400)
u.clamp(max=-1)
u.clamp(min=-1.5)
T.tensor([5], dtype=T.int32).clamp(min=-2**40)
T.tensor([5], dtype=T.int32).clamp(max=2**40)
T.tensor([5], dtype=T.int8).clamp(max=300)
T.tensor([5], dtype=T.int8).clamp(min=-200)
T.tensor([5], dtype=T.int8).clamp(min=300)
T.tensor([5], dtype=T.int16).clamp(-2.5, 3.5)
u.index_fill(0, T.tensor([0]), 300)
h.index_fill(0, T.tensor([0]), 70000)
T.ones(1).bernoulli_(2.0)
T.bernoulli(T.ones(1), -1.0)
F.dropout(T.ones(1), 2.0)
T.multinomial(T.tensor([1.0, 1.0]), 3)
F.conv1d(T.ones(1, 0, 3), T.ones(2, 0, 2))
F.conv2d(T.ones(1, 0, 3, 3), T.ones(2, 0, 2, 2), T.tensor([1.0, 2.0]))
F.conv2d(T.ones(0, 3, 3), T.ones(2, 0, 2, 2))
F.conv3d(T.ones(1, 0, 3, 3, 3), T.ones(2, 0, 2, 2, 2))
F.conv1d(T.ones(1, 2, 3), T.ones(0, 2, 2))
F.conv1d(T.ones(0, 2, 3), T.ones(1, 2, 2))
F.linear(T.ones(2, 0), T.ones(3, 0), T.ones(3))
T.ones(2, 0) @ T.ones(0, 2)
F.softmax(T.ones(2, 0), 1)
F.log_softmax(T.tensor([-inf, -inf]), 0)
cos([0, 0], [1, 1])
cos([1, 2], [1.0, 2.0])
cos([1, 2], [1, 2])
cos([True], [True])
cos([1e-9, 0], [1e-9, 0])
cos([1e30, 1e30], [1e30, 1e30])
cos([inf, 1], [1, 1])
cos([nan, 1], [1, 1])
F.cosine_similarity(T.ones(2, 1), T.ones(2, 3), dim=1)
F.cosine_similarity(T.ones(3), T.ones(2, 3))
F.cosine_similarity(T.ones(2, 1, 3), T.ones(1, 4, 3), dim=-1)
F.cosine_similarity(T.ones(2, 0), T.ones(2, 0))
F.cosine_similarity(T.ones(2), T.ones(2, dtype=T.float64), dim=0)
cos_grad([0.0, 0.0])
cos_grad([1e-9, 2e-9])
cos_grad([1.0, 2.0])
F.pad(x, (-1, 1))
F.pad(x, (-3, -2))
F.pad(x, (-1, 2), "reflect")
F.pad(x, (3, 3), "reflect")
F.pad(x, (4, 0), "reflect")
F.pad(x, (-1, 2), "replicate")
F.pad(x, (9, 0), "replicate")
F.pad(x, (4, 4), "circular")
F.pad(x, (5, 0), "circular")
F.pad(x, (-1, 2), "circular")
F.pad(x, (2, -1), "circular")
F.pad(x, (1, 1), "reflect", 2.0)
F.pad(x, (1, 1), "circular", 2.0)
F.pad(T.tensor([1]), (1, 1), value=1.5)
F.pad(T.tensor([1]), (1, 0), value=inf)
F.pad(u, (1, 1), value=300)
F.pad(h, (1, 1), value=70000)
F.pad(T.tensor([True]), (1, 1), value=2)
""".strip().splitlines()


class Names:
    """The names of an expression."""

    def __init__(self, T):
        import copy

        F, tensor = T.nn.functional, T.tensor
        self.T, self.seen = T, {"T": T, "nn": T.nn, "F": F, "np": np, "inf": float("inf"), "nan": float("nan")}

        def put(t, index, value):
            t = t.clone()
            t[index] = value
            return t

        def data(t, dtype):
            t.data = T.ones(2, dtype=dtype)
            return t

        def copied(m):
            (m(T.ones(1, 1)) if isinstance(m, T.nn.Module) else m * 1).sum().backward()
            return copy.deepcopy(m)

        def cos(a, b):
            return F.cosine_similarity(tensor(a), tensor(b), dim=0)

        def cos_grad(values):
            leaf = tensor(values, requires_grad=True)
            F.cosine_similarity(leaf, T.ones(2), dim=0).backward()
            return leaf.grad

        self.seen |= {"put": put, "data": data, "copied": copied, "cos": cos, "cos_grad": cos_grad}
        self.seen |= {
            "a": T.arange(9).reshape(3, 3),
            "u": tensor([44], dtype=T.uint8),
            "x": T.arange(4.0).reshape(1, 1, 4),
        }
        self.seen["h"] = tensor([1.0, 2.0], dtype=T.float16)
        for name, values in VALUES.items():
            self.seen[name] = tensor([float(v) if isinstance(v, str) else v for v in values], dtype=getattr(T, name))

    def of(self, expression):
        """Dtype, shape and elements of what it gives, or the error."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.flat(eval(expression, self.seen))
        except Exception:
            return "error"

    def flat(self, out):
        if isinstance(out, tuple):
            return [self.flat(t) for t in out]
        if not isinstance(out, self.T.Tensor):
            return repr(out)
        out = out.detach()
        wide = out.double() if out.dtype.is_floating_point else out
        return [str(out.dtype).rpartition(".")[2], list(out.shape), [repr(v) for v in wide.reshape(-1).tolist()]]


def expressions():
    for op in UNARY:
        axis = "0" if op in ("cumsum", "cumprod", "logsumexp") else ""
        yield from (f"{dtype}.{op}({axis})" for dtype in VALUES)
    for op in BINARY:
        for dtype in VALUES:
            for number in NUMBERS:
                yield FORMS.get(op, "{t}.clone().{op}({n})").format(op=op, t=dtype, n=number)
    for op in PAIRS:
        for left in VALUES:
            yield from (f"T.{op}({left}[:2, None], {right}[None, -3:])" for right in VALUES)
    yield from SPECIAL


def results(T, is_tried=lambda expression: True):
    names = Names(T)
    return {e: names.of(e) for e in expressions() if is_tried(e)}


if __name__ == "__main__":
    to = Path(sys.argv[2]) if len(sys.argv) > 2 else GOLDEN
    to.write_text(
        json.dumps(results(importlib.import_module(sys.argv[1])), separators=(",", ":")).replace('"],"', '"],\n"')
        + "\n"
    )
