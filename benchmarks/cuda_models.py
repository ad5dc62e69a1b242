"""Times whole models as people write them on a device of CUDA: compiled by Smolder, beside PyTorch where it is installed.

`python benchmarks/cuda_models.py [--columns smolder,smolder.compile,torch,compile] [MODEL...]` prints a line for each
model: milliseconds a step, host clock, medians of batches. Each is written once, against the interface that libraries
share: a function of the library, the device and whether to be small (for tests), which returns a step.
"""

import argparse
import functools

STEPS = {}


def model(f):
    STEPS[f.__name__] = f
    return f


def training(lib, device, module, loss, optimizer=None, autocast=True):
    """A step of training, in bfloat16 where it may be."""
    optimizer = optimizer or lib.optim.AdamW(module.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with lib.autocast(device, dtype=lib.bfloat16, enabled=autocast):
            value = loss(module)
        value.backward()
        optimizer.step()
        return value

    return step


def labels(lib, device, classes, *shape):
    return lib.randint(0, classes, shape, device=device)


# -- images


def residual(lib, bottleneck):
    """The block of a ResNet (He et al., 2015), of two convolutions, or of three with a bottleneck."""
    nn, relu = lib.nn, lib.nn.functional.relu

    class Block(nn.Module):
        expansion = 4 if bottleneck else 1

        def __init__(self, before, width, stride):
            super().__init__()
            after = width * self.expansion
            steps = [(1, 1), (3, stride), (1, 1)] if bottleneck else [(3, stride), (3, 1)]
            widths = [before, *[width] * (len(steps) - 1), after]
            self.convs = nn.ModuleList(
                nn.Conv2d(widths[i], widths[i + 1], k, s, k // 2, bias=False) for i, (k, s) in enumerate(steps)
            )
            self.norms = nn.ModuleList(nn.BatchNorm2d(w) for w in widths[1:])
            self.skip = nn.Identity()
            if stride != 1 or before != after:
                self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            y = x
            for conv, norm in zip(self.convs, self.norms):
                last = norm is self.norms[-1]
                y = norm(conv(y)) if last else relu(norm(conv(y)))
            return relu(y + self.skip(x))

    return Block


def resnet(lib, depths, bottleneck):
    nn, block, blocks, before = lib.nn, residual(lib, bottleneck), [], 64
    for i, depth in enumerate(depths):
        for j in range(depth):
            blocks.append(block(before, 64 << i, 2 if j == 0 and i > 0 else 1))
            before = (64 << i) * block.expansion
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


def train_resnet(lib, device, small, depths, bottleneck, side, autocast):
    batch, side = (2, 32) if small else (64, side)
    x, y = lib.randn(batch, 3, side, side, device=device), labels(lib, device, 1000, batch)
    net = resnet(lib, [1] * 4 if small else depths, bottleneck).to(device)
    sgd = lib.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    cross_entropy = lib.nn.functional.cross_entropy
    return training(lib, device, net, lambda net: cross_entropy(net(x), y), sgd, autocast)


@model
def resnet50_train(lib, device, small):
    return train_resnet(lib, device, small, [3, 4, 6, 3], True, 224, True)


@model
def resnet18_f32_train(lib, device, small):
    return train_resnet(lib, device, small, [2] * 4, False, 128, False)


@model
def resnet50_inference(lib, device, small):
    batch, side = (2, 32) if small else (64, 224)
    net, x = (
        resnet(lib, [1] * 4 if small else [3, 4, 6, 3], True).to(device),
        lib.randn(batch, 3, side, side, device=device),
    )
    net.eval()

    def step():
        with lib.no_grad(), lib.autocast(device, dtype=lib.bfloat16):
            return net(x)

    return step


@model
def vit_train(lib, device, small):
    """A ViT-S/16 (Dosovitskiy et al., 2020)."""
    nn, width, heads, depth, batch, side = lib.nn, *((32, 4, 1, 2, 32) if small else (384, 6, 12, 128, 224))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(lib.zeros(1, 1, width))
            self.position = nn.Parameter(lib.zeros(1, (side // 16) ** 2 + 1, width))
            layer = nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = lib.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            return self.head(self.norm(self.encoder(x)[:, 0]))

    x, y = lib.randn(batch, 3, side, side, device=device), labels(lib, device, 1000, batch)
    return training(lib, device, ViT().to(device), lambda net: nn.functional.cross_entropy(net(x), y))


@model
def unet_train(lib, device, small):
    """Down and up twice, as in what removes noise."""
    nn, F, width, batch, side = lib.nn, lib.nn.functional, *((8, 2, 16) if small else (64, 16, 128))

    def twice(before, after):
        steps = []
        for i in (before, after):
            steps += [nn.Conv2d(i, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU()]
        return nn.Sequential(*steps)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([twice(3, width), twice(width, 2 * width), twice(2 * width, 4 * width)])
            self.up = nn.ModuleList([twice(6 * width, 2 * width), twice(3 * width, width)])
            self.last = nn.Conv2d(width, 3, 1)

        def forward(self, x):
            near = self.down[0](x)
            far = self.down[1](F.max_pool2d(near, 2))
            y = self.down[2](F.avg_pool2d(far, 2))
            y = self.up[0](lib.cat([F.interpolate(y, scale_factor=2, mode="bilinear"), far], 1))
            y = self.up[1](lib.cat([F.interpolate(y, scale_factor=2, mode="nearest"), near], 1))
            return self.last(y)

    x = lib.randn(batch, 3, side, side, device=device)
    return training(lib, device, UNet().to(device), lambda net: F.mse_loss(net(x), x))


@model
def dcgan_train(lib, device, small):
    """Both players of a DCGAN (Radford et al., 2015) in one step, of float32."""
    nn, width, batch, noise = lib.nn, 8 if small else 64, 2 if small else 128, 100
    judge, made = [], []
    for i, after in enumerate([8 * width, 4 * width, 2 * width, width]):
        before = 2 * after if i else noise
        made += [nn.ConvTranspose2d(before, after, 4, 2 if i else 1, 1 if i else 0, bias=False)]
        made += [nn.BatchNorm2d(after), nn.ReLU(True)]
    made += [nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
    for i, after in enumerate([width, 2 * width, 4 * width, 8 * width]):
        judge += [nn.Conv2d(after // 2 if i else 3, after, 4, 2, 1, bias=False)]
        judge += [nn.BatchNorm2d(after)] if i else []
        judge += [nn.LeakyReLU(0.2, True)]
    generator = nn.Sequential(*made).to(device)
    critic = nn.Sequential(*judge, nn.Conv2d(8 * width, 1, 4, bias=False), nn.Flatten()).to(device)
    adams = [lib.optim.Adam(m.parameters(), 2e-4, (0.5, 0.999)) for m in (generator, critic)]
    real = lib.randn(batch, 3, 64, 64, device=device)

    def loss(scores, target):
        return nn.functional.binary_cross_entropy_with_logits(scores, lib.full_like(scores, target))

    def step():
        adams[1].zero_grad()
        fake = generator(lib.randn(batch, noise, 1, 1, device=device))
        (loss(critic(real), 1.0) + loss(critic(fake.detach()), 0.0)).backward()
        adams[1].step()
        adams[0].zero_grad()
        value = loss(critic(fake), 1.0)
        value.backward()
        adams[0].step()
        return value

    return step


@model
def vae_train(lib, device, small):
    nn, F, batch = lib.nn, lib.nn.functional, 8 if small else 128
    encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
    decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))
    x = lib.rand(batch, 784, device=device)

    def loss(both):
        mean, log_variance = both[0](x).chunk(2, -1)
        y = both[1](mean + lib.randn_like(mean) * lib.exp(0.5 * log_variance))
        spread = lib.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return F.binary_cross_entropy_with_logits(y, x, reduction="sum") - 0.5 * spread

    return training(lib, device, nn.ModuleList([encoder, decoder]).to(device), loss, autocast=False)


# -- text


def llama(lib, vocabulary, width, heads, groups, hidden, depth):
    """A Llama with grouped heads, of functions and not fused ones, as it is often written."""
    nn, F, per_head = lib.nn, lib.nn.functional, width // heads
    linear = functools.partial(nn.Linear, bias=False)

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(lib.ones(width))

        def forward(self, x):
            y = x.float()
            return self.weight * (y * lib.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def rotate(x, cos, sin):
        a, b = x[..., : per_head // 2], x[..., per_head // 2 :]
        return x * cos + lib.cat((-b, a), -1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.last = linear(width, width), linear(width, width)
            self.key, self.value = linear(width, groups * per_head), linear(width, groups * per_head)
            self.gate, self.up, self.down = linear(width, hidden), linear(width, hidden), linear(hidden, width)
            self.norms = nn.ModuleList([Norm(), Norm()])

        def attend(self, x, cos, sin, cache):
            batch, length, _ = x.shape
            q, k, v = (
                f(x).view(batch, length, -1, per_head).transpose(1, 2) for f in (self.query, self.key, self.value)
            )
            q, k, mask = rotate(q, cos, sin), rotate(k, cos, sin), None
            if cache is not None:
                keys, values, position, mask = cache
                k, v = keys.index_copy_(2, position, k), values.index_copy_(2, position, v)
            k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=cache is None)
            return self.last(y.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x, cos, sin, cache):
            x = x + self.attend(self.norms[0](x), cos, sin, cache)
            y = self.norms[1](x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(vocabulary, width), linear(width, vocabulary)
            self.layers, self.norm = nn.ModuleList(Layer() for _ in range(depth)), Norm()

        def forward(self, tokens, cos, sin, caches=None):
            x = self.embedding(tokens)
            for i, layer in enumerate(self.layers):
                x = layer(x, cos, sin, caches[i] if caches else None)
            return self.head(self.norm(x))

    return Llama()


def angles(lib, device, per_head, length):
    """Cosines and sines of rotary positions."""
    speeds = 1.0 / 10000.0 ** (lib.arange(0, per_head, 2, device=device).float() / per_head)
    turned = lib.outer(lib.arange(length, device=device).float(), speeds)
    both = lib.cat((turned, turned), -1)
    return both.cos(), both.sin()


@model
def llama_train(lib, device, small):
    sizes, batch, length = ((100, 64, 4, 2, 128, 2), 2, 16) if small else ((32000, 768, 12, 4, 2048, 12), 8, 1024)
    cos, sin = angles(lib, device, sizes[1] // sizes[2], length)
    text = labels(lib, device, sizes[0], batch, length + 1)

    def loss(net):
        scores = net(text[:, :-1], cos, sin).flatten(0, 1).float()
        return lib.nn.functional.cross_entropy(scores, text[:, 1:].flatten())

    return training(lib, device, llama(lib, *sizes).to(device), loss)


def eight_bits(lib, module):
    """Turns a module's linear layers into products with weights of int8, each row of which has a scale."""

    class Linear(lib.nn.Module):
        def __init__(self, weight):
            super().__init__()
            scale = weight.abs().amax(1).float().clamp_min(1e-8) / 127
            self.register_buffer("weight", (weight / scale.unsqueeze(1)).round().to(lib.int8))
            self.register_buffer("scale", scale.to(weight.dtype))

        def forward(self, x):
            return lib._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scale).unflatten(0, x.shape[:-1])

    for name, child in module.named_children():
        if isinstance(child, lib.nn.Linear):
            setattr(module, name, Linear(child.weight.detach()))
        else:
            eight_bits(lib, child)
    return module


@model
def llama_decode(lib, device, small, change=lambda lib, net: net):
    """A token of one sequence by a model of 1.1 billion parameters, with a cache of 512 positions."""
    sizes, length = ((100, 64, 4, 2, 128, 2), 32) if small else ((32000, 2048, 32, 8, 5632, 16), 512)
    _, width, heads, groups, _, depth = sizes
    net, half = change(lib, llama(lib, *sizes).to(device).to(lib.bfloat16)), lib.bfloat16
    cos, sin = (t.to(half) for t in angles(lib, device, width // heads, length))
    token, position = lib.zeros(1, 1, dtype=lib.int64, device=device), lib.tensor([length // 4], device=device)
    near = (lib.arange(length, device=device) <= position).view(1, 1, 1, length)

    def cache():
        keys, values = (lib.zeros(1, groups, length, width // heads, device=device, dtype=half) for _ in range(2))
        return keys, values, position, near

    caches = [cache() for _ in range(depth)]

    def step():
        with lib.no_grad():
            scores = net(token, cos.index_select(0, position), sin.index_select(0, position), caches)
            return scores[:, -1].argmax(-1, keepdim=True)

    return step


@model
def llama_decode_int8(lib, device, small):
    """The same, with weights of int8."""
    return llama_decode(lib, device, small, eight_bits)


@model
def bert_train(lib, device, small):
    """A BERT base with dropout, and padding that attention does not look at."""
    nn, F, width, heads, depth, batch, length = (
        lib.nn,
        lib.nn.functional,
        *((32, 4, 1, 2, 8) if small else (768, 12, 12, 32, 128)),
    )

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(30522, width), nn.Embedding(512, width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

        def forward(self, x, padding):
            y = self.norm(self.words(x) + self.places(lib.arange(length, device=device)))
            y = self.encoder(F.dropout(y, 0.1, self.training), src_key_padding_mask=padding)
            return self.head(y[:, 0])

    x, y = labels(lib, device, 30522, batch, length), labels(lib, device, 2, batch)
    lengths = lib.randint(length // 2, length, (batch, 1), device=device)
    padding = lib.arange(length, device=device)[None] >= lengths
    return training(lib, device, Bert().to(device), lambda net: F.cross_entropy(net(x, padding), y))


@model
def lstm_train(lib, device, small):
    """Words by two layers of an LSTM, of float32."""
    nn, width, batch, length = lib.nn, *((16, 2, 5) if small else (512, 64, 64))

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10000, width)
            self.lstm, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 10000)

        def forward(self, x):
            return self.head(self.lstm(self.embedding(x))[0])

    x = labels(lib, device, 10000, batch, length)
    loss = nn.functional.cross_entropy
    return training(
        lib, device, Words().to(device), lambda net: loss(net(x).flatten(0, 1), x.flatten()), autocast=False
    )


def milliseconds(name, column):
    """Milliseconds of a step, once it is compiled."""
    from cuda_bench import seconds

    if column.startswith("smolder"):
        import smolder as lib

        step = STEPS[name](lib, "cuda", False)
        if column == "smolder.compile":
            step = lib.compile(step)
        held = []

        def call():
            held[:] = [step()]
            lib.mark_step()
    else:
        import torch as lib

        call = STEPS[name](lib, "cuda", False)
        if column != "torch":
            lib._dynamo.reset()
            call = lib.compile(call, mode={"compile": "default"}.get(column, column))
    return 1e3 * seconds(call, lib.cuda.synchronize, target=0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *STEPS], help="default: all")
    parser.add_argument("--columns", default="smolder,smolder.compile,torch", help="also compile, reduce-overhead")
    options = parser.parse_args()
    columns = options.columns.split(",")
    print(f"{'':18}" + "".join(f"{c:>17}" for c in columns))
    for name in options.models or STEPS:
        cells = []
        for column in columns:
            try:
                cells.append(f"{milliseconds(name, column):17.3f}")
            except (ImportError, RuntimeError, NotImplementedError) as error:
                print(f"{name}, {column}: {type(error).__name__}: {str(error).splitlines()[0]}")
                cells.append(f"{'failed':>17}")
        print(f"{name:18}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
