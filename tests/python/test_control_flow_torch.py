"""Control flow beside PyTorch's: values, gradients, and what both refuse."""

import numpy as np
from torch_peer import needs_torch, run_here, run_torch

BEFORE = """
if hasattr(torch, "scan"):
    while_loop, scan = torch.while_loop, torch.scan
else:
    from torch._higher_order_ops import scan, while_loop
x = torch.tensor([0.5, -1.5, 2.5], requires_grad=True)
w = torch.tensor([1.1, 0.7, -0.3], requires_grad=True)
m = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9], [1.0, 1.1, 1.2]], requires_grad=True)
yes, no, zero = torch.tensor(True), torch.tensor(False), torch.tensor(0)

def numbers(t):
    if isinstance(t, dict):
        t = list(t.values())
    if isinstance(t, (list, tuple)):
        return [numbers(x) for x in t]
    return t.tolist() if hasattr(t, "tolist") else t

def grads(y, *of):
    g = torch.autograd.grad(y.sum(), of, create_graph=True, allow_unused=True)
    return [y, *(torch.zeros(()) if t is None else t for t in g)]

def attempt(f):
    try:
        return numbers(f())
    except Exception as e:
        return "refused as a RuntimeError" if isinstance(e, RuntimeError) else "refused as " + type(e).__name__
"""
PROGRAMS = [
    *(
        f"{what}({choose}, {yes}, {no}, (x,)){rest}"
        for choose in ("yes", "no", "x.sum() > 1", "x.sum() > 2", "torch.tensor([0.5])", "torch.tensor([0])")
        for yes, no in (
            ("lambda x: x.sin() * w", "lambda x: x / w - x"),
            ("lambda x: (x @ m.T).sum() * w", "lambda x: (x * 1.0).detach() * w"),
        )
        for what, rest in (("torch.cond", ""),)
    ),
    "grads(torch.cond(yes, lambda x: x.sin() * w, lambda x: x / w, (x,)), x, w)",
    "grads(torch.cond(no, lambda x: x.sin() * w, lambda x: x / w, (x,)), x, w)",
    "torch.cond(yes, lambda d: {'a': d['a'] + d['b'][0]}, lambda d: {'a': d['a'] * 2}, ({'a': x, 'b': [w]},))",
    "torch.cond(yes, lambda x: (x + 1, 3), lambda x: (x * 2, 3), (x,))",
    "while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * w), (zero, x * 1))",
    "grads(while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x * w).sin()), (zero, x * 1))[1], x, w)",
    "grads(while_loop(lambda i, x: x.sum() < 50, lambda i, x: (i + 1, x * x + w * w), (zero, x * 1))[1], x, w)",
    "while_loop(lambda i, d: i < 2, lambda i, d: (i + 1, {'a': d['a'] + 1}), (zero, {'a': x}))",
    "while_loop(lambda i: i < 3, lambda i: [i + 1], [zero])",
    *(
        f"scan(lambda c, x: (c * x + 1, c - x), {init}, m, dim={dim}, reverse={reverse})"
        for init, dim in (("torch.ones(3)", 0), ("torch.ones(4)", 1), ("torch.ones(4)", -1))
        for reverse in (True, False)
    ),
    "grads(scan(lambda c, x: ((c * x).tanh() + 0.1, c * x * 2), w * 1, m)[0], m, w)",
    "grads(scan(lambda c, x: ((c * x).tanh() + 0.1, c * x * 2), w * 1, m, reverse=True)[1], m, w)",
    "scan(lambda c, x: ({'a': c['a'] + x[0]}, [x[1] * 2]), {'a': torch.zeros(3)}, (m, m))",
    "scan(lambda c, x: (c + x, c * x), torch.ones(3), m[:0])",
]
REFUSED = [
    "torch.cond(yes, lambda x: x, lambda x: x + 1, (x,))",
    "torch.cond(yes, lambda x: x[:2], lambda x: x[:2] + 1, (x,))",
    "torch.cond(yes, lambda x: x.double() * 1, lambda x: x + 1, (x,))",
    "torch.cond(yes, lambda x: (x + 1,), lambda x: [x + 1], (x,))",
    "torch.cond(yes, lambda x: (x + 1,), lambda x: (x + 1, x + 2), (x,))",
    "torch.cond(yes, lambda x: 1.5, lambda x: 2.5, (x,))",
    "torch.cond(torch.ones(2), lambda x: x + 1, lambda x: x * 1, (x,))",
    "torch.cond('a', lambda x: x + 1, lambda x: x * 1, (x,))",
    "torch.cond(yes, lambda x: x + 1, lambda x: x * 1, (1,))", "torch.cond(yes, 1, lambda x: x * 1, (x,))",
    "torch.cond(yes, lambda x: x + 1 if x.sum() > 1 else x * 1, lambda x: x * 1, (x,))",
    "while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 1.0 if False else x.double()), (zero, x * 1))",
    "while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (zero, x * 1))",
    "while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), (zero, x * 1))",
    "while_loop(lambda i, x: x < 3, lambda i, x: (i + 1, x * 2), (zero, x * 1))",
    "while_loop(lambda i, x: True, lambda i, x: (i + 1, x * 2), (zero, x * 1))",
    "scan(lambda c, x: (c + x, c), torch.ones(3), m)", "scan(lambda c, x: ((c + x).double(), c * x), torch.ones(3), m)",
    "scan(lambda c, x: ((c + x)[:1] * 1, c * x), torch.ones(3), m)", "scan(lambda c, x: (c + x, c * x), (), m)",
    "scan(lambda c, x: (c + x, c * x), torch.ones(3), (m, m[:2]))",
    "scan(lambda c, x: (c + x, c * x), torch.ones(3), m, dim=7)", "scan(1, torch.ones(3), m)",
]  # fmt: skip


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, list) else [x]


@needs_torch
def test_what_it_computes_and_refuses_is_what_torch_does():
    code = BEFORE + "out = [" + ", ".join(f"attempt(lambda: {p})" for p in PROGRAMS + REFUSED) + "]"
    wrong = []
    for program, ours, theirs in zip(PROGRAMS + REFUSED, run_here(code), run_torch(code), strict=True):
        if isinstance(ours, str) or isinstance(theirs, str):
            same = ours == theirs
        else:
            a, b = flat(ours), flat(theirs)
            same = len(a) == len(b) and np.allclose(np.array(a, float), np.array(b, float), rtol=1e-4, atol=1e-5)
        if not same or isinstance(ours, str) != (program in REFUSED):
            wrong.append(f"{program}\n    {ours}\n    {theirs}")
    assert not wrong, "\n".join(wrong)
