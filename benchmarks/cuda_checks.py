"""The cost on CUDA of steps that change nothing where an index is out of range: microseconds of a training step as it
is, and without guards and the launch that counts the step (SMOLDER_DISABLE=guard). Processes of either kind take turns.

`python benchmarks/cuda_checks.py [ROW...]`: rows of cuda_bench.py, or `cache`, which writes 24 caches at one position a
step; mlp_train, gpt2_124m_train and cache by default.
"""

import os
import statistics
import subprocess
import sys
import time

ROUNDS, SECONDS = 5, 2.0


def caches(smolder):
    """A step of decoding: an embedding, and a cache for each of 12 layers' keys and values."""
    table = smolder.randn(32000, 768, device="cuda")
    kept = [smolder.zeros(1024, 768, device="cuda") for _ in range(24)]
    position = smolder.tensor([5], device="cuda")
    token = smolder.tensor([17], device="cuda")
    smolder.mark_step()

    def step():
        row = smolder.nn.functional.embedding(token, table)
        for cache in kept:
            cache.index_copy_(0, position, row)
            row = row + cache[:8].mean(0, keepdim=True)
        return row

    return step


def microseconds(row):
    import cuda_bench

    import smolder

    step = caches(smolder) if row == "cache" else cuda_bench.ROWS[row](smolder)[0]
    steps = 10
    while True:
        start = time.perf_counter()
        for _ in range(steps):
            loss = step()  # held, as in a script
            smolder.mark_step()
        smolder.cuda.synchronize()
        seconds = time.perf_counter() - start
        if seconds >= SECONDS:
            assert loss is not None
            return seconds / steps * 1e6
        steps = max(2 * steps, int(steps * SECONDS / seconds))


def main():
    if sys.argv[1:2] == ["--here"]:
        return print(microseconds(sys.argv[2]))
    for row in sys.argv[1:] or ["mlp_train", "gpt2_124m_train", "cache"]:
        times = {"": [], "guard": []}
        for _ in range(ROUNDS):
            for disabled, seen in times.items():
                environment = {**os.environ, "SMOLDER_DISABLE": disabled}
                done = subprocess.run(
                    [sys.executable, __file__, "--here", row],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                )
                seen.append(float(done.stdout.split()[-1]))
        on, off = (statistics.median(seen) for seen in times.values())
        print(f"{row}: {on:.1f} us guarded, {off:.1f} without: {100 * (on / off - 1):+.2f} %", flush=True)


if __name__ == "__main__":
    main()
