"""The models that benchmarks train, in code that Smolder and PyTorch both run: `lib` is either module."""

import math


def block(lib, width, heads, hidden, device):
    """A transformer block, norm first, whose attention is causal."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (p.view(batch, length, heads, width // heads).transpose(1, 2) for p in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    return Block().to(device)


def gpt(lib, vocabulary, context, layers, heads, width, device):
    """GPT-2's shape: the scores of the next token share the embedding's weights."""
    nn = lib.nn

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList(block(lib, width, heads, 4 * width, device) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.token.weight
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * layers) if "out" in name or "down" in name else 0.02)

        def forward(self, text):
            x = self.token(text) + self.position.weight[: text.shape[1]]
            for layer in self.blocks:
                x = layer(x)
            return self.head(self.norm(x))

    return GPT().to(device)


def gpt_step(lib, batch, device, **shape):
    """A training step in a region of bfloat16, with AdamW."""
    F = lib.nn.functional
    model = gpt(lib, device=device, **shape)
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    text = lib.randint(0, shape["vocabulary"], (batch, shape["context"] + 1), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with lib.autocast(device, dtype=lib.bfloat16):
            scores = model(text[:, :-1])
            loss = F.cross_entropy(scores.reshape(-1, shape["vocabulary"]), text[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def block_step(lib, train, dtype, device, batch=16, length=128, width=512):
    """The forward pass of a block, or a training step with AdamW."""
    model = block(lib, width, 8, 4 * width, device).to(dtype)
    x = lib.randn(batch, length, width, device=device).to(dtype)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def forward():
        with lib.no_grad():
            return model(x)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step if train else forward
