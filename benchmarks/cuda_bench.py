"""Times Smolder on a device of CUDA beside PyTorch, where it is installed: medians of batches, host clock, synchronized.

`python benchmarks/cuda_bench.py [ROW...]` prints a table; `--compile` adds torch.compile, which takes minutes.
"""

import argparse
import statistics
import time

from models import block_step, gpt_step

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


def chain(lib):
    x = lib.randn(1 << 27, device="cuda")
    return lambda: 0.5 * x * (1 + lib.tanh(0.7978845608 * (x + 0.044715 * x * x * x))), 2 * 4 << 27


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


def linear_gelu_sum(lib):
    x, w = lib.randn(32, 128, device="cuda"), lib.randn(64, 128, device="cuda")
    F = lib.nn.functional
    return lambda: F.gelu(F.linear(x, w)).sum(), None


ROWS = {
    "chain_2^27": chain,
    "softmax_65536x1024": lambda lib: softmax(lib, 65536, 1024),
    "softmax_16384x8192": lambda lib: softmax(lib, 16384, 8192),
    "layer_norm_65536x1024": lambda lib: layer_norm(lib, 65536, 1024),
    "layer_norm_16384x8192": lambda lib: layer_norm(lib, 16384, 8192),
    "row_sums_65536x1024": lambda lib: sums(lib, 65536, 1024, 1),
    "column_sums_65536x1024": lambda lib: sums(lib, 65536, 1024, 0),
    "embedding_gradient": lambda lib: embedding_gradient(lib, 1),
    "embedding_gradient_of_16_rows": lambda lib: embedding_gradient(lib, 3000),
    "cumsum_2^25": lambda lib: cumsum(lib, 1 << 25),
    "cumsum_16384x2048": lambda lib: cumsum(lib, 16384, 2048),
    "sort_2^24": lambda lib: sort(lib, 1 << 24),
    "sort_4096x4096": lambda lib: sort(lib, 4096, 4096),
    "topk_64x50257": lambda lib: topk(lib, 64, 50257, 50),
    "convolution_train": convolution,
    "mlp_forward": lambda lib: mlp(lib, False),
    "mlp_train": lambda lib: mlp(lib, True),
    "attention_forward": lambda lib: attention(lib, False),
    "attention_train": lambda lib: attention(lib, True),
    "linear_gelu_sum": linear_gelu_sum,
    "block_forward_f32": lambda lib: block(lib, False),
    "block_forward_tf32": lambda lib: block(lib, False, tf32=True),
    "block_forward_bf16": lambda lib: block(lib, False, "bfloat16"),
    "block_train_f32": lambda lib: block(lib, True),
    "nanogpt_char_train": lambda lib: gpt(lib, 64, vocabulary=65, context=256, layers=6, heads=6, width=384),
    "gpt2_124m_train": lambda lib: gpt(lib, 16, vocabulary=50304, context=1024, layers=12, heads=12, width=768),
}


def time_smolder(make):
    step, moved = make(smolder)
    held = []

    def marked():
        held[:] = [step()]
        smolder.mark_step()

    return seconds(marked, cuda.synchronize), moved


def time_torch(make, compiled):
    step, moved = make(torch)
    if compiled:
        step = torch.compile(step, mode="reduce-overhead")
    return seconds(step, torch.cuda.synchronize), moved


def text(took, moved):
    return f"{moved / took / 1e12:.2f} TB/s" if moved else f"{took * 1e6:.1f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"among {', '.join(ROWS)}")
    parser.add_argument("--compile", action="store_true", help="time torch.compile too")
    options = parser.parse_args()
    columns = {"smolder": time_smolder}
    if torch:
        columns["torch"] = lambda make: time_torch(make, False)
        if options.compile:
            columns["torch.compile"] = lambda make: time_torch(make, True)
    print(f"{cuda.get_device_name()}\n{'row':24}" + "".join(f"{name:>16}" for name in columns))
    for name in options.rows or ROWS:
        cells = []
        for column in columns.values():
            try:
                cells.append(text(*column(ROWS[name])))
            except Exception as e:  # a row that fails is told, and the others go on
                cells.append(type(e).__name__)
                print(f"{name}: {e}")
        print(f"{name:24}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
