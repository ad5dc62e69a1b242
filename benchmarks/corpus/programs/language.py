"""Text."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from corpus.common import Draw, program, training


@program("sequences")
def char_lstm(device, small):
    """Characters by an LSTM whose state goes from batch to batch, with clipped gradients."""
    batch, length, width = (2, 6, 8) if small else (32, 64, 256)
    draw = Draw(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(65, width), nn.LSTM(width, width, 2, batch_first=True)
            self.out = nn.Linear(width, 65)

        def forward(self, x, state):
            h, state = self.lstm(self.embedding(x), state)
            return self.out(h), state

    model = draw.weights(Net())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    text = draw.integers(65, batch, length + 1)
    zero = torch.zeros(2, batch, width, device=device)
    held = {"state": (zero, zero)}

    def step():
        optimizer.zero_grad()
        scores, state = model(text[:, :-1], held["state"])
        held["state"] = tuple(s.detach() for s in state)
        loss = F.cross_entropy(scores.reshape(-1, 65), text[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cache=None):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        if cache is not None:
            if cache:
                k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
            cache["k"], cache["v"] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.attention = nn.ModuleList(CausalAttention(width, heads) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x, caches=None, start=0):
        h = self.token(x) + self.position(torch.arange(start, start + x.shape[1], device=x.device))
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlps)):
            h = h + attention(self.norms[2 * i](h), None if caches is None else caches[i])
            h = h + mlp(self.norms[2 * i + 1](h))
        return self.head(self.norms[-1](h))


@program("language")
def gpt(device, small):
    """Training a small GPT."""
    batch, length, width, layers = (2, 8, 16, 1) if small else (8, 128, 192, 4)
    draw = Draw(device)
    model = draw.weights(GPT(256, length, width, 4, layers))
    text = draw.integers(256, batch, length + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    return training(model, optimizer, lambda m: F.cross_entropy(m(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()))


@program("language")
def generate(device, small):
    """Greedy tokens with a cache that grows by cat."""
    tokens, width, layers = (5, 16, 1) if small else (48, 192, 4)
    draw = Draw(device)
    model = draw.weights(GPT(256, 128, width, 4, layers)).eval()
    prompt = draw.integers(256, 1, 8)

    @torch.no_grad()
    def step():
        caches = [{} for _ in range(layers)]
        text = prompt
        scores = model(prompt, caches)
        for i in range(tokens):
            token = scores[:, -1].argmax(-1, keepdim=True)
            text = torch.cat((text, token), 1)
            scores = model(token, caches, prompt.shape[1] + i)
        return text.float()

    return step


@program("sequences")
def translate(device, small):
    """A GRU encoder and a decoder with attention over batches of many lengths."""
    lengths, batch, width = ([3, 5], 2, 8) if small else ([7, 12, 19, 23, 31, 16], 16, 128)
    draw = Draw(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.encoder = nn.Embedding(100, width), nn.GRU(width, width, batch_first=True)
            self.cell, self.out = nn.GRUCell(2 * width, width), nn.Linear(2 * width, 100)

        def forward(self, source, target):
            memory, h = self.encoder(self.embed(source))
            h, words = h[0], self.embed(target)
            scores = []
            for t in range(target.shape[1]):
                weight = torch.softmax(torch.bmm(memory, h[:, :, None]).squeeze(-1), -1)
                context = torch.bmm(weight[:, None], memory).squeeze(1)
                h = self.cell(torch.cat((words[:, t], context), -1), h)
                scores.append(self.out(torch.cat((h, context), -1)))
            return torch.stack(scores, 1)

    model = draw.weights(Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = [(draw.integers(100, batch, n), draw.integers(100, batch, n + 1)) for n in lengths]

    def step():
        losses = []
        for source, target in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    return step


@program("language")
def skip_gram(device, small):
    """Word vectors with negative samples (Mikolov et al., 2013)."""
    words, width, batch = (50, 8, 6) if small else (50_000, 128, 4096)
    draw = Draw(device)
    model = nn.ModuleDict({"centre": nn.Embedding(words, width), "context": nn.Embedding(words, width)})
    draw.weights(model)
    centre, context, wrong = draw.integers(words, batch), draw.integers(words, batch), draw.integers(words, batch, 5)

    def loss(m):
        c = m["centre"](centre)
        good = F.logsigmoid((c * m["context"](context)).sum(-1))
        bad = F.logsigmoid(-torch.bmm(m["context"](wrong), c[:, :, None]).squeeze(-1)).sum(-1)
        return -(good + bad).mean()

    return training(model, torch.optim.SGD(model.parameters(), lr=0.025), loss)


@program("language")
def masked_words(device, small):
    """BERT's task by nn.TransformerEncoder with padding, and a loss over the masked positions alone."""
    batch, length, width, layers = (2, 8, 16, 1) if small else (16, 64, 128, 2)
    draw = Draw(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(500, width), nn.Parameter(torch.zeros(length, width))
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.out = nn.Linear(width, 500)

        def forward(self, x, padding):
            return self.out(self.encoder(self.embed(x) + self.position, src_key_padding_mask=padding))

    model = draw.weights(Net())
    text, chosen = draw.integers(500, batch, length), draw.uniform(batch, length) < 0.15
    chosen[0, 0] = True
    padding = torch.zeros(batch, length, dtype=torch.bool, device=device)
    padding[:, length - 2 :] = True
    labels = text.masked_fill(~chosen, -100)
    x = text.masked_fill(chosen, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(
        model, optimizer, lambda m: F.cross_entropy(m(x, padding).flatten(0, 1), labels.flatten(), ignore_index=-100)
    )


@program("language")
def experts(device, small):
    """A mixture of experts that gathers each one's tokens by torch.where."""
    tokens, width, count = (12, 8, 3) if small else (2048, 128, 8)
    draw = Draw(device)

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(width, count, bias=False)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(count)
            )

        def forward(self, x):
            weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
            weights = weights / weights.sum(-1, keepdim=True)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                token, place = torch.where(chosen == i)
                out.index_add_(0, token, weights[token, place, None] * expert(x[token]))
            return out

    model = draw.weights(Experts())
    x, y = draw.normal(tokens, width), draw.normal(tokens, width)
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-3), lambda m: F.mse_loss(m(x), y))


@program("language")
def selective_scan(device, small):
    """A state space layer as Mamba's reference writes it: a loop over times."""
    batch, length, width, state = (1, 6, 4, 3) if small else (4, 64, 64, 16)
    draw = Draw(device)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.project, self.step, self.out = (
                nn.Linear(width, 2 * state + 1),
                nn.Linear(1, width),
                nn.Linear(width, width),
            )
            self.log_a = nn.Parameter(torch.log(torch.arange(1, state + 1.0)).repeat(width, 1))

        def forward(self, x):
            b, c, dt = self.project(x).split((state, state, 1), -1)
            dt = F.softplus(self.step(dt))
            a = torch.exp(dt[..., None] * -torch.exp(self.log_a))
            bx = dt[..., None] * b[:, :, None, :] * x[..., None]
            h, ys = torch.zeros(x.shape[0], width, state, device=x.device), []
            for t in range(x.shape[1]):
                h = a[:, t] * h + bx[:, t]
                ys.append((h * c[:, t, None, :]).sum(-1))
            return self.out(torch.stack(ys, 1))

    model = draw.weights(Layer())
    x, y = draw.normal(batch, length, width), draw.normal(batch, length, width)
    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda m: F.mse_loss(m(x), y))


@program("sequences")
def tagger_crf(device, small):
    """A tagger with a conditional random field: a log-sum-exp over tags at each word."""
    batch, length, tags = (2, 5, 4) if small else (32, 40, 20)
    draw = Draw(device)
    model = nn.ModuleDict({"embed": nn.Embedding(200, 64), "score": nn.Linear(64, tags)})
    model.register_parameter("transition", nn.Parameter(torch.zeros(tags, tags)))
    draw.weights(model)
    words, gold = draw.integers(200, batch, length), draw.integers(tags, batch, length)

    def loss(m):
        emit = m["score"](m["embed"](words))
        alpha = emit[:, 0]
        for t in range(1, length):
            alpha = torch.logsumexp(alpha[:, :, None] + m.transition, 1) + emit[:, t]
        best = emit.gather(2, gold[..., None]).sum((1, 2)) + m.transition[gold[:, :-1], gold[:, 1:]].sum(1)
        return (torch.logsumexp(alpha, 1) - best).mean()

    return training(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


@program("language")
def beam_search(device, small):
    """Beams of a bigram model: topk, gathers and a history that is reordered."""
    words, beams, length = (20, 3, 5) if small else (5000, 8, 30)
    table = torch.log_softmax(Draw(device).normal(words, words), -1)

    def step():
        score, last = torch.zeros(beams, device=device), torch.arange(beams, device=device)
        history = last[:, None]
        for _ in range(length):
            total = (score[:, None] + table[last]).flatten()
            score, best = total.topk(beams)
            origin, last = best // words, best % words
            history = torch.cat((history[origin], last[:, None]), 1)
        return torch.cat((history.float().flatten(), score))

    return step


@program("language")
def positions(device, small):
    """Attention with rotary positions and grouped heads, forward alone, as a served model has it."""
    batch, length, heads, groups, size = (1, 6, 4, 2, 8) if small else (4, 256, 8, 2, 64)
    draw = Draw(device)
    q, k, v = (draw.normal(batch, length, h, size) for h in (heads, groups, groups))
    frequency = 1 / 10000 ** (torch.arange(0, size, 2, device=device) / size)
    angle = torch.outer(torch.arange(length, device=device), frequency)
    cosine, sine = torch.cat((angle.cos(),) * 2, -1), torch.cat((angle.sin(),) * 2, -1)

    def rotate(x):
        a, b = x.chunk(2, -1)
        return x * cosine[:, None] + torch.cat((-b, a), -1) * sine[:, None]

    def step():
        query, key = rotate(q).transpose(1, 2), rotate(k).transpose(1, 2)
        key = key.repeat_interleave(heads // groups, 1)
        value = v.transpose(1, 2).repeat_interleave(heads // groups, 1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(size)
        hidden = torch.full((length, length), float("-inf"), device=device).triu(1)
        return F.softmax(scores + hidden, -1) @ value

    return step
