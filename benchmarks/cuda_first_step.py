"""Seconds to the end of the first training steps in a new process on CUDA, without the import and the driver's making
of a context, which is told apart: with an empty cache of compiled kernels, then with what that process left; and of 24
steps of 24 batch sizes after one step.

With SMOLDER_CUDA_INTERPRETER=behind kernels are interpreted until they are compiled.

`python benchmarks/cuda_first_step.py [ROW...]`: rows of cuda_bench.py, mlp_train and gpt2_124m_train by default.
"""

import os
import subprocess
import sys
import tempfile
import time


def first_steps(row):
    import cuda_bench

    import smolder
    from smolder import cuda

    start = time.perf_counter()
    smolder.tensor([0.0]).cuda()
    context = time.perf_counter() - start
    start = time.perf_counter()
    step, _ = cuda_bench.ROWS[row](smolder)
    times = []
    for _ in range(3):
        _loss = step()  # held, as in a script: where the loss is dropped, kernels that leave it out are others
        smolder.mark_step()
        cuda.synchronize()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    counters = smolder.metrics()["counters"]
    print(
        "  context {:.3f}, first {:.3f}, second {:.3f}, third {:.4f}; kernels compiled: {}, launches interpreted: {},"
        " waited {:.3f}".format(
            context,
            *times,
            counters.get("kernels.compiled", 0),
            counters.get("kernels.interpreted_launches", 0),
            counters.get("kernels.waited_us", 0) / 1e6,
        )
    )


def batch_sizes():
    import smolder
    from smolder import cuda

    nn = smolder.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)).to("cuda")
    optimizer = smolder.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batch):
        x, y = smolder.randn(batch, 784, device="cuda"), smolder.randint(0, 10, (batch,), device="cuda")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        smolder.mark_step()

    def compiled():
        return smolder.metrics()["counters"].get("kernels.compiled", 0)

    step(32)
    cuda.synchronize()
    before, start = compiled(), time.perf_counter()
    for batch in range(40, 40 + 24 * 8, 8):
        step(batch)
    cuda.synchronize()
    print(f"  24 batch sizes {time.perf_counter() - start:.3f}; kernels compiled: {compiled() - before}")


def main():
    if sys.argv[1:2] == ["--here"]:
        return batch_sizes() if sys.argv[2] == "batch_sizes" else first_steps(sys.argv[2])
    for row in sys.argv[1:] or ["mlp_train", "gpt2_124m_train", "batch_sizes"]:
        print(f"{row}, s", flush=True)
        with tempfile.TemporaryDirectory() as cache:
            for _ in ("empty", "warm"):
                environment = {**os.environ, "SMOLDER_CACHE_DIR": cache}
                subprocess.run([sys.executable, __file__, "--here", row], env=environment, check=True)


if __name__ == "__main__":
    main()
