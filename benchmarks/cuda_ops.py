"""Times single ops on a device of CUDA: compiled by Smolder, beside PyTorch and torch.compile where it is installed.

`python benchmarks/cuda_ops.py [WORD...]` prints a line for each op in whose name a word is: microseconds of each, host
clock, medians of batches, and ours over the better of the others. Large operands are 16384x4096, or of `--rows`.
"""

import argparse
import types

from cuda_bench import seconds

import smolder

try:
    import torch
except ImportError:
    torch = None
    print("PyTorch is not installed: its columns are left out")

ACTIVATIONS = ["elu", "gelu", "hardswish", "leaky_relu", "logsigmoid", "mish", "selu", "silu", "softplus"]
FUNCTIONS = ["erf", "exp", "log1p", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"]


def operands(lib, rows):
    """Operands of ops: x and h are the large ones, of float32 and bfloat16; w and hw rows as wide as they are."""
    lib.manual_seed(0)

    def normal(*shape, dtype=lib.float32):
        return lib.randn(*shape, device="cuda").to(dtype)

    half = lib.bfloat16
    t = types.SimpleNamespace(rows=rows, F=lib.nn.functional, lib=lib)
    t.x, t.w, t.b = normal(rows, 4096), normal(4096), normal(4096)
    t.h, t.hw, t.hb = (normal(*s, dtype=half) for s in ((rows, 4096), (4096,), (4096,)))
    t.image, t.scale, t.shift = normal(rows // 256, 64, 56, 56), normal(64), normal(64)
    t.order = lib.randint(0, rows, (rows,), device="cuda")
    t.label = lib.randint(0, 4096, (rows,), device="cuda")
    t.table, t.token = normal(50304, 768), lib.randint(0, 50304, (rows // 256, 256), device="cuda")
    t.square, t.long, t.points = normal(1024, 1024), normal(256 * rows), normal(512, 512)
    t.mask, t.half_mask = t.x > 0, t.h > 0
    return t


def halves(x):
    return x[:, :2048], x[:, 2048:]


def rotated(t, x):
    a, b = halves(x)
    return t.lib.cat([-b, a], -1)


def named(names, of):
    """Each function of both large operands."""
    for name in names:
        yield f"{name} f32", lambda t, name=name: getattr(of(t), name)(t.x)
        yield f"{name} bf16", lambda t, name=name: getattr(of(t), name)(t.h)


def gradients(functions, of):
    """Each with its gradient with regard to an operand, where the result's own is the result."""
    for name, f in functions.items():

        def step(t, f=f):
            x = getattr(t, of).detach().requires_grad_()
            y = f(t, x)
            y.backward(y.detach())
            return x.grad

        yield f"{name}, gradient", step


OPS = {
    **dict(named(ACTIVATIONS, lambda t: t.F)),
    **dict(named(FUNCTIONS, lambda t: t.lib)),
    "gelu tanh bf16": lambda t: t.F.gelu(t.h, approximate="tanh"),
    "swiglu bf16": lambda t: t.F.silu(halves(t.h)[0]) * halves(t.h)[1],
    "pow 3 bf16": lambda t: t.h**3,
    "pow 2.5 f32": lambda t: t.lib.abs(t.x) ** 2.5,
    "div by row bf16": lambda t: t.h / t.hw,
    "where bf16": lambda t: t.lib.where(t.half_mask, t.h, t.hw),
    "masked_fill f32": lambda t: t.x.masked_fill(t.mask, 0.0),
    "clamp bf16": lambda t: t.h.clamp(-1, 1),
    "cast f32 to bf16": lambda t: t.x.to(t.lib.bfloat16),
    "cast bf16 to f32": lambda t: t.h.float(),
    "dropout bf16": lambda t: t.F.dropout(t.h, 0.1),
    "randn f32": lambda t: t.lib.randn(t.rows, 4096, device="cuda"),
    "rand f32": lambda t: t.lib.rand(t.rows, 4096, device="cuda"),
    "sum f32": lambda t: t.x.sum(),
    "sum bf16": lambda t: t.h.sum(),
    "sum 0 f32": lambda t: t.x.sum(0),
    "mean -1 bf16": lambda t: t.h.mean(-1),
    "max -1 f32": lambda t: t.x.max(-1)[0],
    "argmax -1 f32": lambda t: t.x.argmax(-1),
    "argmax 0 f32": lambda t: t.x.argmax(0),
    "var -1 f32": lambda t: t.x.var(-1),
    "var 0 f32": lambda t: t.x.var(0),
    "norm f32": lambda t: t.x.norm(),
    "any -1": lambda t: t.mask.any(-1),
    "logsumexp f32": lambda t: t.lib.logsumexp(t.x, -1),
    "count_nonzero -1": lambda t: t.lib.count_nonzero(t.x, -1),
    "cumsum -1 f32": lambda t: t.x.cumsum(-1),
    "cumsum 0 f32": lambda t: t.x.cumsum(0),
    "cumsum long": lambda t: t.long.cumsum(0),
    "rms_norm bf16": lambda t: t.F.rms_norm(t.h, (4096,), t.hw),
    "layer_norm bf16": lambda t: t.F.layer_norm(t.h, (4096,), t.hw, t.hb),
    "layer_norm f32": lambda t: t.F.layer_norm(t.x, (4096,), t.w, t.b),
    "group_norm f32": lambda t: t.F.group_norm(t.image, 8, t.scale, t.shift),
    "batch_norm train f32": lambda t: t.F.batch_norm(t.image, None, None, t.scale, t.shift, True),
    "batch_norm eval f32": lambda t: t.F.batch_norm(t.image, t.scale, t.scale**2 + 1, t.scale, t.shift, False),
    "softmax f32": lambda t: t.F.softmax(t.x, -1),
    "softmax 0 f32": lambda t: t.F.softmax(t.x, 0),
    "log_softmax bf16": lambda t: t.F.log_softmax(t.h, -1),
    "cross_entropy f32": lambda t: t.F.cross_entropy(t.x, t.label),
    "mse_loss f32": lambda t: t.F.mse_loss(t.x, t.x * 0.5),
    "smooth_l1_loss f32": lambda t: t.F.smooth_l1_loss(t.x, t.w.expand(t.rows, 4096)),
    "bce_with_logits f32": lambda t: t.F.binary_cross_entropy_with_logits(t.x, t.lib.sigmoid(t.x)),
    "cosine_similarity f32": lambda t: t.F.cosine_similarity(t.x, t.x + 1, dim=-1),
    "transpose f32": lambda t: t.x.t().contiguous(),
    "transpose bf16": lambda t: t.h.t().contiguous(),
    "nchw to nhwc f32": lambda t: t.image.permute(0, 2, 3, 1).contiguous(),
    "heads bf16": lambda t: t.h.view(t.rows // 128, 128, 32, 128).transpose(1, 2).contiguous(),
    "cat -1 f32": lambda t: t.lib.cat([t.x, t.x], -1),
    "cat 0 f32": lambda t: t.lib.cat([t.x, t.x], 0),
    "stack -1 bf16": lambda t: t.lib.stack([t.h, t.h], -1),
    "rope bf16": lambda t: rotated(t, t.h) * t.hw + t.h * t.hb,
    "pad f32": lambda t: t.F.pad(t.image, (1, 1, 1, 1)),
    "flip f32": lambda t: t.x.flip(-1),
    "roll f32": lambda t: t.lib.roll(t.x, 7, -1),
    "tril f32": lambda t: t.x.tril(),
    "repeat_interleave f32": lambda t: t.square.repeat_interleave(16, 0),
    "outer f32": lambda t: t.lib.outer(t.long[:8192], t.long[:8192]),
    "index_select f32": lambda t: t.x.index_select(0, t.order),
    "gather -1 f32": lambda t: t.x.gather(-1, t.label.view(-1, 1)),
    "embedding f32": lambda t: t.F.embedding(t.token, t.table),
    "index_add f32": lambda t: t.lib.zeros(t.rows, 4096, device="cuda").index_add(0, t.order, t.x),
    "one_hot": lambda t: t.F.one_hot(t.label, 4096),
    "sort -1 1024": lambda t: t.square.sort(-1)[0],
    "sort long": lambda t: t.long.sort()[0],
    "topk 50 f32": lambda t: t.x.topk(50, -1)[0],
    "multinomial": lambda t: t.lib.multinomial(t.lib.softmax(t.square, -1), 1),
    "max_pool2d 2 f32": lambda t: t.F.max_pool2d(t.image, 2),
    "avg_pool2d 3 f32": lambda t: t.F.avg_pool2d(t.image, 3, 1, 1),
    "adaptive_avg_pool2d f32": lambda t: t.F.adaptive_avg_pool2d(t.image, 1),
    "interpolate bilinear f32": lambda t: t.F.interpolate(t.image, scale_factor=2, mode="bilinear"),
    "interpolate nearest f32": lambda t: t.F.interpolate(t.image, scale_factor=2),
    "matrix by vector bf16": lambda t: t.h @ t.hw,
    "distances f32": lambda t: ((t.points[:, None] - t.points[None]) ** 2).sum(-1),
    **dict(
        gradients(
            {
                "gelu bf16": lambda t, x: t.F.gelu(x),
                "swiglu bf16": lambda t, x: t.F.silu(halves(x)[0]) * halves(x)[1],
                "rope bf16": lambda t, x: rotated(t, x) * t.hw + x * t.hb,
                "softmax bf16": lambda t, x: t.F.softmax(x, -1),
                "layer_norm bf16": lambda t, x: t.F.layer_norm(x, (4096,), t.hw, t.hb),
                "rms_norm bf16": lambda t, x: t.F.rms_norm(x, (4096,), t.hw),
                "dropout bf16": lambda t, x: t.F.dropout(x, 0.1),
                "cross_entropy bf16": lambda t, x: t.F.cross_entropy(x, t.label),
                "max -1 bf16": lambda t, x: x.max(-1)[0],
            },
            "h",
        )
    ),
    **dict(
        gradients(
            {
                "logsumexp f32": lambda t, x: t.lib.logsumexp(x, -1),
                "var 0 f32": lambda t, x: x.var(0),
                "norm f32": lambda t, x: x.norm(),
                "cumsum -1 f32": lambda t, x: x.cumsum(-1),
                "pow 2.5 f32": lambda t, x: t.lib.abs(x) ** 2.5,
                "index_select f32": lambda t, x: x.index_select(0, t.order),
                "smooth_l1_loss f32": lambda t, x: t.F.smooth_l1_loss(x, t.w.expand(t.rows, 4096)),
            },
            "x",
        )
    ),
    **dict(
        gradients(
            {
                "group_norm f32": lambda t, x: t.F.group_norm(x, 8, t.scale, t.shift),
                "batch_norm f32": lambda t, x: t.F.batch_norm(x, None, None, t.scale, t.shift, True),
                "max_pool2d 3 f32": lambda t, x: t.F.max_pool2d(x, 3, 2, 1),
                "avg_pool2d 3 f32": lambda t, x: t.F.avg_pool2d(x, 3, 1, 1),
                "adaptive_avg_pool2d f32": lambda t, x: t.F.adaptive_avg_pool2d(x, 1),
                "interpolate bilinear f32": lambda t, x: t.F.interpolate(x, scale_factor=2, mode="bilinear"),
                "interpolate nearest f32": lambda t, x: t.F.interpolate(x, scale_factor=2),
                "pad f32": lambda t, x: t.F.pad(x, (1, 1, 1, 1)),
            },
            "image",
        )
    ),
    **dict(gradients({"embedding f32": lambda t, x: t.F.embedding(t.token, x)}, "table")),
}


def time_smolder(op, t):
    step, held = smolder.compile(lambda: op(t)), []

    def marked():
        held[:] = [step()]
        smolder.mark_step()

    return seconds(marked, smolder.cuda.synchronize, batches=4, target=0.01)


def time_torch(op, t, compiled):
    torch._dynamo.reset()
    step = torch.compile(lambda: op(t), dynamic=False) if compiled else lambda: op(t)
    return seconds(step, torch.cuda.synchronize, batches=4, target=0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of names")
    parser.add_argument("--rows", type=int, default=16384, help="of large operands, a multiple of 256")
    options = parser.parse_args()
    ours, theirs = operands(smolder, options.rows), torch and operands(torch, options.rows)
    print(f"{'':26}{'smolder':>10}" + (f"{'torch':>10}{'compile':>10}{'ours/best':>10}" if torch else ""))
    for name, op in OPS.items():
        if options.words and not any(word in name for word in options.words):
            continue
        took = [time_smolder(op, ours)]
        if torch:
            took += [time_torch(op, theirs, False), time_torch(op, theirs, True)]
        cells = "".join(f"{t * 1e6:10.1f}" for t in took)
        print(f"{name:26}{cells}" + (f"{took[0] / min(took[1:]):10.2f}" if torch else ""), flush=True)


if __name__ == "__main__":
    main()
