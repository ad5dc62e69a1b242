"""Times a row's work in torch and JAX; run by `smolder bench` as a script in a Python that has them.

    python bench_peers.py ROW THREADS quick|full

Prints one line of JSON: seconds by peer, and why a peer has none. Does not import smolder.
"""

# ruff: noqa: E402
import sys

sys.path[0] = ""  # the package's folder has modules named as others' are: as random, which statistics imports
sys.path = [p for p in sys.path if p]

import itertools
import json
import math
import os
import statistics
import time


def _models():
    import importlib.util

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_models.py")
    spec = importlib.util.spec_from_file_location("bench_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _median(step, quick):
    for _ in range(3):
        step()
    start = time.perf_counter()
    step()
    calls = max(1, int(0.005 / max(time.perf_counter() - start, 1e-9)))
    samples = []
    for _ in range(3 if quick else 15):
        start = time.perf_counter()
        for _ in range(calls):
            step()
        samples.append((time.perf_counter() - start) / calls)
    return statistics.median(samples)


def _sizes(quick):
    block = {"batch": 16, "length": 128, "width": 512, "heads": 8, "hidden": 2048}
    small = {"batch": 2, "length": 4, "width": 16, "heads": 2, "hidden": 32}
    return {
        "chain": (2**12 if quick else 2**25,),
        "softmax": (16, 64) if quick else (8192, 1024),
        "layer_norm": (16, 64) if quick else (8192, 1024),
        "sums": (64, 64) if quick else (8192, 4096),
        "adamw": (3, 1000) if quick else (30, 10**6),
        "block": tuple((small if quick else block).values()),
        "conv": (2, 8) if quick else (32, 32),
    }


def _step_of(lib, row, quick):
    """The step of a row, for a library with torch's API."""
    models, s = _models(), _sizes(quick)
    makers = {
        "chain": lambda: models.chain(lib, *s["chain"]),
        "softmax": lambda: models.softmax(lib, *s["softmax"]),
        "layer_norm": lambda: models.layer_norm(lib, *s["layer_norm"]),
        "column_sum": lambda: models.sums(lib, *s["sums"], 0),
        "full_sum": lambda: models.sums(lib, *s["sums"], None),
        "adamw": lambda: models.adamw(lib, *s["adamw"]),
        "mlp_train": lambda: models.mlp(lib, True, 32),
        "mlp_forward": lambda: models.mlp(lib, False, 32),
        "block_train": lambda: models.block(lib, True, *s["block"]),
        "block_forward": lambda: models.block(lib, False, *s["block"]),
        "conv_train": lambda: models.conv(lib, True, *s["conv"]),
        "conv_forward": lambda: models.conv(lib, False, *s["conv"]),
    }
    return makers[row]()


def _torch_python_loop(torch, n):
    a, b = torch.ones(8), torch.ones(8)
    with torch.no_grad():
        for _ in range(n):
            a + b


def torch_seconds(row, threads, quick, compiled):
    """Seconds of a row in torch, eager or compiled."""
    import torch

    torch.set_num_threads(threads)
    if row == "record_python":
        n = 500 if quick else 20000
        return _median(lambda: _torch_python_loop(torch, n), quick) / n
    if row == "first_step_cold":
        start = time.perf_counter()
        _step_of(torch, "mlp_train", quick)().item()
        return time.perf_counter() - start
    step = _step_of(torch, row, quick)
    return _median(torch.compile(step) if compiled else step, quick)


def _jax_step(row, quick):
    """A jitted function and its arguments; the row's work in JAX."""
    import jax
    import jax.numpy as jnp

    models, s = _models(), _sizes(quick)
    keys = iter(jax.random.split(jax.random.key(0), 16))

    def normal(*shape):
        return jax.random.normal(next(keys), shape, jnp.float32)

    def with_gradient(f, *args):
        def both(dy, *inputs):
            y, back = jax.vjp(f, *inputs)
            return y, back(dy)

        return jax.jit(both), args

    if row == "chain":
        return jax.jit(lambda x: models.gelu_chain(x, jnp.tanh)), (normal(*s["chain"]),)
    if row == "softmax":
        return with_gradient(lambda x: jax.nn.softmax(x, -1), normal(*s["softmax"]), normal(*s["softmax"]))
    if row == "layer_norm":
        rows, columns = s["layer_norm"]

        def norm(x, w, b):
            centered = x - x.mean(-1, keepdims=True)
            return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * w + b

        return with_gradient(norm, normal(rows, columns), normal(rows, columns), jnp.ones(columns), jnp.zeros(columns))
    if row in ("column_sum", "full_sum"):
        return jax.jit(lambda x: x.sum(0 if row == "column_sum" else None)), (normal(*s["sums"]),)
    if row in ("mlp_forward", "mlp_train"):
        widths = models.MLP_WIDTHS
        weights = [(normal(o, i) / math.sqrt(i), jnp.zeros(o)) for i, o in itertools.pairwise(widths)]
        labels = jax.random.randint(next(keys), (32,), 0, widths[-1])
        x = normal(32, widths[0])

        def forward(weights, x):
            for i, (w, b) in enumerate(weights):
                x = (jax.nn.relu(x) if i else x) @ w.T + b
            return x

        if row == "mlp_forward":
            return jax.jit(forward), (weights, x)

        def loss(weights):
            chosen = jnp.take_along_axis(jax.nn.log_softmax(forward(weights, x), -1), labels[:, None], 1)
            return -chosen.mean()

        return _jax_training(loss, weights)
    if row in ("block_forward", "block_train"):
        return _jax_block(row == "block_train", s["block"], normal)
    raise NotImplementedError(f"{row} has no JAX program")


def _jax_training(loss, weights):
    """One AdamW step with donated state, called with its own results."""
    import jax
    import jax.numpy as jnp

    zeros = jax.tree.map(jnp.zeros_like, weights)

    def step(weights, mean, square, count):
        value, grads = jax.value_and_grad(loss)(weights)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, square, grads)
        first, second = 1 - 0.9**count, 1 - 0.999**count
        weights = jax.tree.map(
            lambda w, m, v: w * (1 - 1e-5) - 1e-3 * (m / first) / (jnp.sqrt(v / second) + 1e-8), weights, mean, square
        )
        return value, (weights, mean, square, count)

    jitted = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    state = (weights, zeros, jax.tree.map(jnp.zeros_like, weights), jnp.zeros(()))

    def run():
        nonlocal state
        value, state = jitted(*state)
        return value, state

    return run, ()


def _jax_block(train, sizes, normal):
    import jax
    import jax.numpy as jnp

    batch, length, width, heads, hidden = sizes
    x = normal(batch, length, width)
    weights = {
        "qkv": (normal(width, 3 * width) * 0.02, jnp.zeros(3 * width)),
        "out": (normal(width, width) * 0.02, jnp.zeros(width)),
        "up": (normal(width, hidden) * 0.02, jnp.zeros(hidden)),
        "down": (normal(hidden, width) * 0.02, jnp.zeros(width)),
        "norms": [(jnp.ones(width), jnp.zeros(width)) for _ in range(2)],
    }

    def norm(x, p):
        centered = x - x.mean(-1, keepdims=True)
        return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def linear(x, p):
        return x @ p[0] + p[1]

    def forward(w, x):
        q, k, v = jnp.split(linear(norm(x, w["norms"][0]), w["qkv"]), 3, -1)
        q, k, v = (t.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(width // heads), -1)
        x = x + linear((scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, width), w["out"])
        return x + linear(jax.nn.gelu(linear(norm(x, w["norms"][1]), w["up"]), approximate=False), w["down"])

    if not train:
        return jax.jit(forward), (weights, x)
    return _jax_training(lambda w: (forward(w, x) ** 2).mean(), weights)


def jax_seconds(row, quick):
    """Seconds of a row in JAX, jitted."""
    import jax

    if row == "first_step_cold":
        start = time.perf_counter()
        function, args = _jax_step("mlp_train", quick)
        jax.block_until_ready(function(*args))
        return time.perf_counter() - start
    function, args = _jax_step(row, quick)
    return _median(lambda: jax.block_until_ready(function(*args)), quick)


def main(row, threads, size):
    """Times every peer that is there."""
    quick = size == "quick"
    threads = int(threads)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if hasattr(os, "sched_setaffinity"):  # JAX has no setting: it takes the processors it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    peers = {"torch": lambda: torch_seconds(row, threads, quick, False)}
    if row not in ("record_python", "first_step_cold", "adamw"):
        peers["compile"] = lambda: torch_seconds(row, threads, quick, True)
    if row not in ("record_python", "adamw"):
        peers["jax"] = lambda: jax_seconds(row, quick)
    seconds, errors = {}, {}
    for name, measure in peers.items():
        try:
            seconds[name] = measure()
        except Exception as e:
            errors[name] = f"{type(e).__name__}: {e}".strip().splitlines()[0]
    print(json.dumps({"seconds": seconds, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
