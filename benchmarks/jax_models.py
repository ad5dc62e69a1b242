"""The rows of cuda_bench.py that JAX runs too, as it does them best: jitted whole, with donated state and cuDNN's attention.

Each maker returns a function of nothing that queues one call or step and returns its results.
"""

import itertools
import math

import jax
import jax.numpy as jnp

keys = iter(jax.random.split(jax.random.key(0), 4096))


def normal(*shape, scale=1.0):
    return scale * jax.random.normal(next(keys), shape, jnp.float32)


def calls(f, *args):
    jitted = jax.jit(f)
    return lambda: jitted(*args)


def adamw_steps(loss, weights, rate=1e-3, decay=0.01):
    """Training steps of AdamW, each from the state of the one before."""

    def step(weights, mean, square, count):
        value, grads = jax.value_and_grad(loss)(weights)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, square, grads)
        first, second = 1 - 0.9**count, 1 - 0.999**count

        def update(w, m, v):
            return w * (1 - rate * decay) - rate * (m / first) / (jnp.sqrt(v / second) + 1e-8)

        return value, (jax.tree.map(update, weights, mean, square), mean, square, count)

    jitted = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    copy, zeros = (lambda w: jnp.array(w, copy=True)), (lambda w: w * 0.0)  # donated: no two may share memory
    state = (*(jax.tree.map(f, weights) for f in (copy, zeros, zeros)), jnp.zeros(()))

    def run():
        nonlocal state
        value, state = jitted(*state)
        return value

    return run


def cross_entropy(scores, labels):
    scores = scores.astype(jnp.float32)
    chosen = jnp.take_along_axis(scores, labels[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(scores, -1) - chosen).mean()


def mlp(train):
    weights = [(normal(o, i, scale=1 / math.sqrt(i)), jnp.zeros(o)) for i, o in itertools.pairwise((784, 256, 128, 10))]
    x, labels = normal(32, 784), jax.random.randint(next(keys), (32,), 0, 10)

    def forward(weights, x):
        for i, (w, b) in enumerate(weights):
            x = (jax.nn.relu(x) if i else x) @ w.T + b
        return x

    if not train:
        return calls(forward, weights, x)
    return adamw_steps(lambda weights: cross_entropy(forward(weights, x), labels), weights)


def norm(x, scale, shift):
    x = x.astype(jnp.float32)
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * scale + shift


def linear(x, weights):
    w, b = weights
    return x.astype(jnp.bfloat16) @ w.T.astype(jnp.bfloat16) + b.astype(jnp.bfloat16)


def gpt(batch, vocabulary, context, layers, heads, width):
    """models.gpt with bfloat16 products and float32 weights."""

    def dense(o, i):
        return normal(o, i, scale=0.02), jnp.zeros(o)

    def block():
        ones, zeros = jnp.ones(width), jnp.zeros(width)
        return {
            "norm1": (ones, zeros),
            "norm2": (ones, zeros),
            "qkv": dense(3 * width, width),
            "out": dense(width, width),
            "up": dense(4 * width, width),
            "down": dense(width, 4 * width),
        }

    weights = {
        "token": normal(vocabulary, width, scale=0.02),
        "position": normal(context, width, scale=0.02),
        "blocks": [block() for _ in range(layers)],
        "norm": (jnp.ones(width), jnp.zeros(width)),
    }
    text = jax.random.randint(next(keys), (batch, context + 1), 0, vocabulary)
    backend = "cudnn" if jax.default_backend() == "gpu" else "xla"

    def loss(weights):
        x = weights["token"][text[:, :-1]] + weights["position"]
        for layer in weights["blocks"]:
            q, k, v = jnp.split(linear(norm(x, *layer["norm1"]), layer["qkv"]), 3, -1)
            q, k, v = (p.reshape(batch, context, heads, width // heads) for p in (q, k, v))
            mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=backend)
            x = x + linear(mixed.reshape(batch, context, width), layer["out"])
            x = x + linear(jax.nn.gelu(linear(norm(x, *layer["norm2"]), layer["up"])), layer["down"])
        scores = norm(x, *weights["norm"]).astype(jnp.bfloat16) @ weights["token"].T.astype(jnp.bfloat16)
        return cross_entropy(scores, text[:, 1:])

    return adamw_steps(loss, weights, rate=3e-4, decay=0.1)


def chain():
    return calls(lambda x: 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x))), normal(1 << 28))


def linear_gelu_sum():
    x, w = normal(32, 128), normal(64, 128)
    return calls(lambda x, w: jax.nn.gelu(x @ w.T, approximate=False).sum(), x, w)


MAKERS = {
    "chain_2^28": chain,
    "sin_cos_2^28": lambda: calls(lambda x: jnp.sin(x) + jnp.cos(x), normal(1 << 28)),
    "linear_gelu_sum": linear_gelu_sum,
    "mlp_forward": lambda: mlp(False),
    "mlp_train": lambda: mlp(True),
    "nanogpt_char_train": lambda: gpt(64, vocabulary=65, context=256, layers=6, heads=6, width=384),
    "gpt2_124m_train": lambda: gpt(16, vocabulary=50304, context=1024, layers=12, heads=12, width=768),
}
