"""Times Smolder on a device of CUDA beside PyTorch and JAX, where they are installed: medians of batches, host clock,
synchronized.

`python benchmarks/cuda_bench.py [ROW...]` prints a table. `--columns` chooses among smolder, smolder.compile,
smolder.tuned (mode="max-autotune"), torch, compile (which is torch.compile), reduce-overhead, max-autotune (its modes,
which take minutes) and jax.
"""

import argparse
import os
import statistics
import time

from cuda_rows import ROWS as CALLS
from models import block_step, gpt_step

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import smolder
from smolder import cuda

try:
    import torch
except ImportError:
    torch = None
    print("PyTorch is not installed: its columns are left out")


def seconds(step, finish, batches=5, target=0.1):
    """Seconds a call, from batches that take about `target` each."""
    for _ in range(4):
        step()
        smolder.wait_for_compiles()  # or kernels may still be interpreted
    finish()
    start = time.perf_counter()
    step()
    finish()
    n = max(1, min(2000, int(target / max(1e-6, time.perf_counter() - start))))
    times = []
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(n):
            step()
        finish()
        times.append((time.perf_counter() - start) / n)
    return statistics.median(times)


def copy(lib):
    """Negated, as a clone that nobody writes is no copy in Smolder."""
    x = lib.randn(1 << 28, device="cuda")
    return x.neg, 2 * 4 << 28


def sin_cos(lib):
    x = lib.randn(1 << 28, device="cuda")
    return lambda: lib.sin(x) + lib.cos(x), 2 * 4 << 28


def chain(lib):
    x = lib.randn(1 << 28, device="cuda")
    return lambda: 0.5 * x * (1 + lib.tanh(0.7978845608 * (x + 0.044715 * x * x * x))), 2 * 4 << 28


def backward(lib, f, rows, columns, moved):
    """The gradient of a function of rows of bfloat16, its forward pass included."""
    x = lib.randn(rows, columns, device="cuda").to(lib.bfloat16).detach().requires_grad_()
    grad = lib.randn(rows, columns, device="cuda").to(lib.bfloat16)

    def step():
        x.grad = None
        f(x).backward(grad)
        return x.grad

    return step, moved * 2 * rows * columns


def cross_entropy(lib):
    """Loss and gradient of 16,384 rows of scores for 50,304 classes: read twice and written once."""
    x = lib.randn(16384, 50304, device="cuda").to(lib.bfloat16).detach().requires_grad_()
    target = lib.randint(0, 50304, (16384,), device="cuda")

    def step():
        x.grad = None
        lib.nn.functional.cross_entropy(x, target).backward()
        return x.grad

    return step, 3 * 2 * 16384 * 50304


def adamw(lib):
    """124 million parameters in 148 tensors: four numbers are read for each, and three written."""
    shapes = [(50304, 768), (1024, 768), *12 * [(2304, 768), (768, 768), (3072, 768), (768, 3072)], *98 * [(768,)]]
    p = [lib.randn(*s, device="cuda").detach().requires_grad_() for s in shapes]
    for x in p:
        x.grad = lib.randn(*x.shape, device="cuda")
    fused = {} if lib is not torch else {"fused": True}
    return lib.optim.AdamW(p, lr=1e-4, **fused).step, 28 * sum(x.numel() for x in p)


def softmax(lib, rows, columns):
    x = lib.randn(rows, columns, device="cuda").to(lib.bfloat16)
    return lambda: lib.softmax(x, -1), 2 * 2 * rows * columns


def layer_norm(lib, rows, columns):
    x = lib.randn(rows, columns, device="cuda").to(lib.bfloat16)
    w, b = lib.ones(columns, device="cuda").to(lib.bfloat16), lib.zeros(columns, device="cuda").to(lib.bfloat16)
    return lambda: lib.nn.functional.layer_norm(x, (columns,), w, b), 2 * 2 * rows * columns


def sums(lib, rows, columns, axis):
    x = lib.randn(rows, columns, device="cuda").to(lib.bfloat16)
    return lambda: x.sum(axis), 2 * rows * columns


def embedding_gradient(lib, repeats):
    index = lib.randint(0, 50257 // repeats, (16384,), device="cuda")
    grad = lib.randn(16384, 768, device="cuda")
    return lambda: lib.zeros(50257, 768, device="cuda").index_add(0, index, grad), None


def cumsum(lib, *shape):
    x = lib.randn(*shape, device="cuda")
    return lambda: lib.cumsum(x, -1), 2 * 4 * x.numel()


def sort(lib, *shape):
    x = lib.randn(*shape, device="cuda")
    return lambda: lib.sort(x, dim=-1, stable=True), None


def topk(lib, rows, columns, k):
    x = lib.randn(rows, columns, device="cuda")
    return lambda: lib.topk(x, k), None


def convolution(lib):
    x, w = lib.randn(64, 64, 56, 56, device="cuda"), lib.randn(64, 64, 3, 3, device="cuda", requires_grad=True)

    def step():
        w.grad = None
        lib.nn.functional.conv2d(x, w, padding=1).sum().backward()
        return w.grad

    return step, None


def mlp(lib, train):
    nn = lib.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)).to("cuda")
    x, y = lib.randn(32, 784, device="cuda"), lib.randint(0, 10, (32,), device="cuda")
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def forward():
        with lib.no_grad():
            return model(x)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return (step if train else forward), None


def attention(lib, train):
    """8x12x1024x64, causal. torch is given its fastest way."""
    shape = (8, 1024, 3 * 12 * 64)
    x = lib.randn(*shape, device="cuda").to(lib.bfloat16).detach().requires_grad_(train)
    grad = lib.randn(8, 12, 1024, 64, device="cuda").to(lib.bfloat16)

    def forward():
        q, k, v = (t.view(8, 1024, 12, 64).transpose(1, 2) for t in x.split(12 * 64, 2))
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def step():
        x.grad = None
        forward().backward(grad)
        return x.grad

    run = step if train else forward
    if lib is not torch:
        return run, None

    def fastest():
        with lib.nn.attention.sdpa_kernel(lib.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return run()

    return fastest, None


def block(lib, train, dtype="float32", tf32=False):
    """d512, 8 heads, 2048 hidden, 16x128."""
    lib.set_float32_matmul_precision("high" if tf32 else "highest")
    return block_step(lib, train, getattr(lib, dtype), "cuda"), None


def gpt(lib, batch, **shape):
    return gpt_step(lib, batch, "cuda", **shape), None


def products(lib, count=2000):
    """So many products, each of the one before: as many ops are recorded as the device runs."""
    x, w = lib.randn(1024, 1024, device="cuda"), lib.randn(1024, 1024, device="cuda") * 0.03

    def step():
        y = x
        for _ in range(count // 2):
            y = lib.tanh(y @ w)
        return y

    return step, None


def linear_gelu_sum(lib):
    x, w = lib.randn(32, 128, device="cuda"), lib.randn(64, 128, device="cuda")
    F = lib.nn.functional
    return lambda: F.gelu(F.linear(x, w)).sum(), None


def softmax_train(lib, rows, columns):
    return backward(lib, lambda x: lib.softmax(x, -1), rows, columns, 5)


def layer_norm_train(lib, rows, columns):
    return backward(lib, lambda x: lib.nn.functional.layer_norm(x, (columns,)), rows, columns, 5)


def maker(function, *shape, **options):
    return lambda lib: globals()[function](lib, *shape, **options)


ROWS = {name: maker(*call[:-1], **call[-1]) for name, call in CALLS.items()}


def tune(step):
    """Runs a step until it has nothing left to try; seconds."""
    start = time.perf_counter()
    for _ in range(3):
        step()
    while smolder.metrics()["counters"].get("tuning.pending"):
        step()
    cuda.synchronize()
    return time.perf_counter() - start


def time_smolder(make, compiled=False, tuned=False):
    """Once a row was tuned, others have its products too: tuned columns are for a process of their own."""
    step, moved = make(smolder)
    step = smolder.compile(step, mode="max-autotune" if tuned else None) if compiled else step
    held = []

    def marked():
        held[:] = [step()]
        smolder.mark_step()

    if tuned:
        tune(marked)
    return seconds(marked, cuda.synchronize), moved


def time_torch(make, mode):
    step, moved = make(torch)
    if mode:
        torch._dynamo.reset()
        step = torch.compile(step, mode=mode)
    return seconds(step, torch.cuda.synchronize), moved


def time_jax(row):
    """Times the last of the calls' results, since JAX has no way to wait for a device."""
    import jax
    from jax_models import MAKERS

    step, held = MAKERS[row](), []

    def keep():
        held[:] = [step()]

    return seconds(keep, lambda: jax.block_until_ready(held)), ROWS[row](smolder)[1] if "^" in row else None


COLUMNS = {
    "smolder": lambda row: time_smolder(ROWS[row]),
    "smolder.compile": lambda row: time_smolder(ROWS[row], compiled=True),
    "smolder.tuned": lambda row: time_smolder(ROWS[row], compiled=True, tuned=True),
    "torch": lambda row: time_torch(ROWS[row], None),
    "compile": lambda row: time_torch(ROWS[row], "default"),
    "reduce-overhead": lambda row: time_torch(ROWS[row], "reduce-overhead"),
    "max-autotune": lambda row: time_torch(ROWS[row], "max-autotune"),
    "jax": time_jax,
}


def text(took, moved):
    return f"{moved / took / 1e12:.2f} TB/s" if moved else f"{took * 1e6:.1f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"among {', '.join(ROWS)}")
    parser.add_argument("--columns", default="smolder,torch", help="separated by commas")
    options = parser.parse_args()
    columns = [c for c in options.columns.split(",") if torch or c.startswith(("smolder", "jax"))]
    print(f"{cuda.get_device_name()}\n{'row':30}" + "".join(f"{name:>17}" for name in columns))
    for row in options.rows or ROWS:
        print(f"{row:30}", end="", flush=True)
        failed = []
        for column in columns:  # each is told when it is known: one that takes minutes may be cut off
            try:
                cell = text(*COLUMNS[column](row))
            except Exception as e:  # a row that fails is told, and the others go on
                cell = "-" if isinstance(e, KeyError) and column == "jax" else type(e).__name__
                if cell != "-":
                    failed.append(f"{row}, {column}: {str(e)[:300]}")
            print(f"{cell:>17}", end="", flush=True)
            cuda.empty_cache()
            if torch:
                torch.cuda.empty_cache()
        print("".join(f"\n{message}" for message in failed), flush=True)


if __name__ == "__main__":
    main()
