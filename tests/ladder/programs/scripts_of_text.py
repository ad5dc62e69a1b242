"""Programs about text, each as one file of a public repository has it, which needs no library: a paper's model, its data, its loop."""

import copy
import math
import random

import numpy as np
import torch
from common import Noise, fill, fit, numbers, program, run_programs, sums, tokens
from torch import nn, optim
from torch.nn import functional as F

noise = Noise()


@program
def a_transformer_with_its_masks_and_warmup():
    class Attention(nn.Module):
        def __init__(self, h, d):
            super().__init__()
            self.h, self.dk = h, d // h
            self.linears = nn.ModuleList([copy.deepcopy(nn.Linear(d, d)) for _ in range(4)])
            self.attn = None

        def forward(self, query, key, value, mask=None):
            n = query.size(0)
            query, key, value = [
                lin(x).view(n, -1, self.h, self.dk).transpose(1, 2)
                for lin, x in zip(self.linears, (query, key, value), strict=False)
            ]
            scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.dk)
            if mask is not None:
                scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
            self.attn = scores.softmax(dim=-1)
            x = torch.matmul(self.attn, value).transpose(1, 2).contiguous().view(n, -1, self.h * self.dk)
            return self.linears[-1](x)

    class Norm(nn.Module):
        def __init__(self, d, eps=1e-6):
            super().__init__()
            self.a, self.b, self.eps = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d)), eps

        def forward(self, x):
            return self.a * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b

    class Positions(nn.Module):
        def __init__(self, d, longest=50):
            super().__init__()
            pe = torch.zeros(longest, d)
            position = torch.arange(0, longest).unsqueeze(1)
            div = torch.exp(torch.arange(0, d, 2) * -(math.log(10000.0) / d))
            pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div), torch.cos(position * div)
            self.register_buffer("pe", pe.unsqueeze(0))

        def forward(self, x):
            return x + self.pe[:, : x.size(1)].requires_grad_(False)

    class Layer(nn.Module):
        def __init__(self, d, h, cross):
            super().__init__()
            self.self_attn, self.cross = Attention(h, d), Attention(h, d) if cross else None
            self.feed = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
            self.norms = nn.ModuleList([Norm(d) for _ in range(3)])

        def forward(self, x, mask, memory=None, over=None):
            y = self.norms[0](x)
            x = x + self.self_attn(y, y, y, mask)
            if self.cross is not None:
                x = x + self.cross(self.norms[1](x), memory, memory, over)
            return x + self.feed(self.norms[2](x))

    class Model(nn.Module):
        def __init__(self, vocabulary=11, d=16, h=4):
            super().__init__()
            self.d = d
            self.src, self.tgt, self.at = nn.Embedding(vocabulary, d), nn.Embedding(vocabulary, d), Positions(d)
            self.encoder = nn.ModuleList([Layer(d, h, False) for _ in range(2)])
            self.decoder = nn.ModuleList([Layer(d, h, True) for _ in range(2)])
            self.out = nn.Linear(d, vocabulary)

        def encode(self, src, mask):
            x = self.at(self.src(src) * math.sqrt(self.d))
            for layer in self.encoder:
                x = layer(x, mask)
            return x

        def decode(self, memory, over, tgt, mask):
            x = self.at(self.tgt(tgt) * math.sqrt(self.d))
            for layer in self.decoder:
                x = layer(x, mask, memory, over)
            return F.log_softmax(self.out(x), dim=-1)

    def later(size):
        return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0

    class Smoothing(nn.Module):
        def __init__(self, size, smoothing):
            super().__init__()
            self.size, self.confidence, self.smoothing = size, 1 - smoothing, smoothing
            self.criterion = nn.KLDivLoss(reduction="sum")

        def forward(self, x, target):
            truth = x.data.clone()
            truth.fill_(self.smoothing / (self.size - 2))
            truth.scatter_(1, target.data.unsqueeze(1), self.confidence)
            truth[:, 0] = 0
            rows = torch.nonzero(target.data == 0)
            if rows.dim() > 0:
                truth.index_fill_(0, rows.squeeze(-1), 0.0)
            return self.criterion(x, truth.clone().detach())

    model, criterion = fill(Model()), Smoothing(11, 0.1)
    data = tokens(4, 9, 10) + 1
    data[:, 0] = 1
    src, tgt, want = data, data[:, :-1].clone(), data[:, 1:]
    want[3, 5:] = 0
    over, mask = (src != 0).unsqueeze(-2), (tgt != 0).unsqueeze(-2) & later(tgt.size(-1)).type_as(tgt.data)
    optimizer = optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-9)
    rate = optim.lr_scheduler.LambdaLR(optimizer, lambda n: 16**-0.5 * min(max(n, 1) ** -0.5, max(n, 1) * 10**-1.5))
    losses = []
    for _ in range(4):
        out = model.decode(model.encode(src, over), over, tgt, mask)
        loss = criterion(out.contiguous().view(-1, 11), want.contiguous().view(-1)) / (want != 0).data.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        rate.step()
        losses.append(loss.item())
    with torch.no_grad():
        memory, ys = model.encode(src[:1], over[:1]), torch.zeros(1, 1).type_as(src.data).fill_(1)
        for _ in range(6):
            prob = model.decode(memory, over[:1], ys, later(ys.size(1)).type_as(src.data))[:, -1]
            _, word = torch.max(prob, dim=1)
            ys = torch.cat([ys, torch.zeros(1, 1).type_as(src.data).fill_(word.data[0])], dim=1)
    return [*losses, optimizer.param_groups[0]["lr"], *ys[0].tolist()]


@program
def a_character_model_as_nano_gpt():
    class Block(nn.Module):
        def __init__(self, d, heads, longest):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
            self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.mlp = nn.ModuleDict(
                {"c_fc": nn.Linear(d, 4 * d), "act": nn.GELU(approximate="tanh"), "c_proj": nn.Linear(4 * d, d)}
            )
            self.register_buffer("bias", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))
            self.heads, self.flash = heads, hasattr(F, "scaled_dot_product_attention")

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.c_attn(self.ln_1(x)).split(c, dim=2)
            q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            assert torch.allclose(F.softmax(att, dim=-1) @ v, y, atol=1e-5)
            x = x + self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))
            m = self.mlp
            return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))

    class GPT(nn.Module):
        def __init__(self, vocabulary=65, longest=32, layers=2, heads=4, d=32):
            super().__init__()
            self.longest = longest
            self.transformer = nn.ModuleDict(
                {
                    "wte": nn.Embedding(vocabulary, d),
                    "wpe": nn.Embedding(longest, d),
                    "h": nn.ModuleList([Block(d, heads, longest) for _ in range(layers)]),
                    "ln_f": nn.LayerNorm(d),
                }
            )
            self.lm_head = nn.Linear(d, vocabulary, bias=False)
            self.transformer.wte.weight = self.lm_head.weight
            self.apply(self._init_weights)
            for name, p in self.named_parameters():
                if name.endswith("c_proj.weight"):
                    torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * layers))

        def _init_weights(self, module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
                if getattr(module, "bias", None) is not None:
                    torch.nn.init.zeros_(module.bias)

        def forward(self, idx, targets=None):
            pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
            x = self.transformer.wte(idx) + self.transformer.wpe(pos)
            for block in self.transformer.h:
                x = block(x)
            x = self.transformer.ln_f(x)
            if targets is None:
                return self.lm_head(x[:, [-1], :]), None
            logits = self.lm_head(x)
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

        def configure_optimizers(self, decay, lr, betas):
            params = {n: p for n, p in self.named_parameters() if p.requires_grad}
            groups = [
                {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": decay},
                {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
            ]
            return torch.optim.AdamW(groups, lr=lr, betas=betas)

        @torch.no_grad()
        def generate(self, idx, new, top_k):
            for _ in range(new):
                logits, _ = self(idx[:, -self.longest :])
                logits = logits[:, -1, :] / 0.8
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
                idx = torch.cat((idx, F.softmax(logits, dim=-1).argmax(-1, keepdim=True)), dim=1)
            return idx

    text = torch.from_numpy((np.arange(400) * 31 % 65).astype(np.int64))
    model = fill(GPT())
    optimizer = model.configure_optimizers(0.1, 1e-2, (0.9, 0.95))
    losses = []
    for it in range(6):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (it + 1) / 6
        ix = [it * 13, it * 7 + 40]
        x, y = (torch.stack([text[i + k : i + k + 32] for i in ix]) for k in (0, 1))
        for micro in range(2):
            with torch.amp.autocast("cpu", dtype=torch.bfloat16, enabled=False):
                _, loss = model(x[micro : micro + 1], y[micro : micro + 1])
            (loss / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return [*losses, *model.eval().generate(text[None, :5], 8, 5)[0].tolist()]


@program
def translation_with_additive_attention():
    class Encoder(nn.Module):
        def __init__(self, n, d):
            super().__init__()
            self.embedding, self.rnn = nn.Embedding(n, d), nn.GRU(d, d, bidirectional=True)
            self.fc = nn.Linear(2 * d, d)

        def forward(self, src, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(self.embedding(src), lengths.cpu(), enforce_sorted=False)
            out, hidden = self.rnn(packed)
            out, _ = nn.utils.rnn.pad_packed_sequence(out)
            return out, torch.tanh(self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))

    class Decoder(nn.Module):
        def __init__(self, n, d):
            super().__init__()
            self.embedding, self.attn, self.v = nn.Embedding(n, d), nn.Linear(3 * d, d), nn.Linear(d, 1, bias=False)
            self.rnn, self.out = nn.GRU(3 * d, d), nn.Linear(4 * d, n)

        def forward(self, word, hidden, memory, mask):
            embedded = self.embedding(word.unsqueeze(0))
            again = hidden.unsqueeze(1).repeat(1, memory.shape[0], 1)
            states = memory.permute(1, 0, 2)
            energy = torch.tanh(self.attn(torch.cat((again, states), dim=2)))
            a = F.softmax(self.v(energy).squeeze(2).masked_fill(mask == 0, -1e10), dim=1).unsqueeze(1)
            weighted = torch.bmm(a, states).permute(1, 0, 2)
            output, hidden = self.rnn(torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0))
            assert (output == hidden).all()
            return self.out(torch.cat((output[0], weighted[0], embedded[0]), dim=1)), hidden.squeeze(0)

    encoder, decoder = fill(Encoder(13, 8)), fill(Decoder(17, 8))
    src, tgt, lengths = tokens(7, 3, 12) + 1, tokens(6, 3, 17), torch.tensor([5, 7, 4])
    for i, n in enumerate(lengths):
        src[n:, i] = 0
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer, coin, losses = optim.Adam(params, 1e-2), random.Random(3), []
    for _ in range(4):
        optimizer.zero_grad()
        memory, hidden = encoder(src, lengths)
        outputs, word = torch.zeros(6, 3, 17), tgt[0]
        for t in range(1, 6):
            outputs[t], hidden = decoder(word, hidden, memory, (src != 0).permute(1, 0))
            word = tgt[t] if coin.random() < 0.5 else outputs[t].argmax(1)
        loss = F.cross_entropy(outputs[1:].view(-1, 17), tgt[1:].reshape(-1), ignore_index=0)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def trees_by_child_sums():
    class TreeLSTM(nn.Module):
        def __init__(self, i, d):
            super().__init__()
            self.ioux, self.iouh = nn.Linear(i, 3 * d), nn.Linear(d, 3 * d)
            self.fx, self.fh, self.d = nn.Linear(i, d), nn.Linear(d, d), d

        def node(self, x, c, h):
            i, o, u = torch.split(self.ioux(x) + self.iouh(torch.sum(h, dim=0, keepdim=True)), self.d, dim=1)
            f = torch.sigmoid(self.fh(h) + self.fx(x).repeat(len(h), 1))
            c = torch.mul(torch.sigmoid(i), torch.tanh(u)) + torch.sum(torch.mul(f, c), dim=0, keepdim=True)
            return c, torch.mul(torch.sigmoid(o), torch.tanh(c))

        def forward(self, tree, inputs):
            at, children = tree
            states = [self(child, inputs) for child in children]
            if not states:
                c = inputs[0].detach().new(1, self.d).fill_(0.0).requires_grad_()
                h = inputs[0].detach().new(1, self.d).fill_(0.0).requires_grad_()
            else:
                c, h = (torch.cat(part, dim=0) for part in zip(*states, strict=True))
            return self.node(inputs[at : at + 1], c, h)

    model, head = fill(TreeLSTM(6, 8)), fill(nn.Linear(8, 3))
    trees = [(0, [(1, []), (2, [(3, []), (4, [(5, [])])])]), (2, [(0, []), (1, []), (3, [])]), (4, [])]
    inputs, optimizer, losses = numbers(6, 6), optim.Adagrad([*model.parameters(), *head.parameters()], 0.05), []
    for epoch in range(2):
        for k, tree in enumerate(trees):
            optimizer.zero_grad()
            loss = F.nll_loss(F.log_softmax(head(model(tree, inputs)[1]), dim=1), torch.tensor([(k + epoch) % 3]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@program
def words_from_characters_both_ways():
    class Elmo(nn.Module):
        def __init__(self):
            super().__init__()
            self.chars = nn.Embedding(30, 6, padding_idx=0)
            self.convs = nn.ModuleList([nn.Conv1d(6, n, k) for k, n in ((1, 4), (2, 6), (3, 8))])
            self.gate, self.plain = nn.Linear(18, 18), nn.Linear(18, 18)
            self.forth, self.back = nn.LSTM(18, 12, 2, batch_first=True), nn.LSTM(18, 12, 2, batch_first=True)
            self.out, self.mix = nn.Linear(12, 20), nn.Parameter(torch.zeros(2))

        def forward(self, chars):
            b, t, c = chars.shape
            x = self.chars(chars.view(-1, c)).transpose(1, 2)
            x = torch.cat([F.relu(conv(x).max(dim=-1).values) for conv in self.convs], dim=-1)
            gate = torch.sigmoid(self.gate(x))
            x = (gate * F.relu(self.plain(x)) + (1 - gate) * x).view(b, t, -1)
            f, _ = self.forth(x)
            r, _ = self.back(torch.flip(x, [1]))
            return f, torch.flip(r, [1]), x

        def loss(self, chars, words):
            f, r, x = self(chars)
            forth = F.cross_entropy(self.out(f[:, :-1]).reshape(-1, 20), words[:, 1:].reshape(-1))
            back = F.cross_entropy(self.out(r[:, 1:]).reshape(-1, 20), words[:, :-1].reshape(-1))
            s = self.mix.softmax(0)
            return forth + back + 0.1 * (s[0] * f.pow(2).mean() + s[1] * x.pow(2).mean())

    model, chars, words = Elmo(), tokens(3 * 5, 7, 30).view(3, 5, 7), tokens(3, 5, 20)
    fill(model)
    with torch.no_grad():
        model.chars.weight[0].fill_(0)
    return [*fit(model, lambda: model.loss(chars, words), 4), *sums(model.chars.weight.grad[0].abs(), model.mix)]


@program
def a_turing_machine_copies():
    class Machine(nn.Module):
        def __init__(self, bits=4, slots=10, width=6, hidden=16):
            super().__init__()
            self.slots, self.width = slots, width
            self.controller = nn.LSTMCell(bits + width, hidden)
            self.read, self.write = nn.Linear(hidden, width + 6), nn.Linear(hidden, 3 * width + 6)
            self.out = nn.Linear(hidden + width, bits)
            self.register_buffer("start", torch.full((slots, width), 1e-2))

        def address(self, o, memory, previous):
            w = self.width
            k, beta, g, s, gamma = (
                o[:, :w],
                F.softplus(o[:, w]),
                o[:, w + 1].sigmoid(),
                o[:, w + 2 : w + 5],
                o[:, w + 5],
            )
            content = F.softmax(
                beta.unsqueeze(1) * F.cosine_similarity(memory + 1e-16, k.unsqueeze(1) + 1e-16, dim=-1), dim=1
            )
            wg = g.unsqueeze(1) * content + (1 - g.unsqueeze(1)) * previous
            result, s = torch.zeros(wg.size()), F.softmax(s, dim=1)
            for b in range(len(wg)):  # a circular convolution of three
                t = torch.cat([wg[b][-1:], wg[b], wg[b][:1]])
                result[b] = F.conv1d(t.view(1, 1, -1), s[b].view(1, 1, -1)).view(-1)
            w = result ** (1 + F.softplus(gamma)).unsqueeze(1)
            return torch.div(w, torch.sum(w, dim=1).view(-1, 1) + 1e-16)

        def forward(self, x, steps):
            b = x.size(1)
            memory, state = self.start.clone().repeat(b, 1, 1), None
            r, ra = torch.zeros(b, self.width), F.one_hot(torch.zeros(b, dtype=torch.long), self.slots).float()
            wa, outs = ra.clone(), []
            for t in range(len(x) + steps):
                inp = x[t] if t < len(x) else torch.zeros_like(x[0])
                state = self.controller(torch.cat([inp, r], dim=1), state)
                h, o = state[0], self.write(state[0])
                w = self.width
                wa = self.address(torch.cat([o[:, :w], o[:, 3 * w :]], dim=1), memory, wa)
                erase, add = o[:, w : 2 * w].sigmoid(), o[:, 2 * w : 3 * w]
                memory = memory * (1 - torch.matmul(wa.unsqueeze(-1), erase.unsqueeze(1)))
                memory = memory + torch.matmul(wa.unsqueeze(-1), add.unsqueeze(1))
                ra = self.address(self.read(h), memory, ra)
                r = torch.matmul(ra.unsqueeze(1), memory).squeeze(1)
                if t >= len(x):
                    outs.append(torch.sigmoid(self.out(torch.cat([h, r], dim=1))))
            return torch.stack(outs)

    x = (tokens(5 * 2, 4, 2).view(5, 2, 4)).float()
    model = fill(Machine())
    optimizer, losses = optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy(model(x, 5), x)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 10)
        optimizer.step()
        losses.append(loss.item())
    return losses


@program
def receptance_weighted_keys():
    class TimeMix(nn.Module):
        def __init__(self, d, layer):
            super().__init__()
            ratio = (torch.arange(d).float() / d)[None, None, :]
            self.time_decay = nn.Parameter(torch.linspace(-5, 3, d))
            self.time_first = nn.Parameter(
                torch.ones(d) * math.log(0.3) + torch.tensor([(i + 1) % 3 - 1 for i in range(d)]) * 0.5
            )
            self.mix_k, self.mix_r = (
                nn.Parameter(ratio.pow(1 - layer / 2)),
                nn.Parameter(ratio.pow(0.5 * (1 - layer / 2))),
            )
            self.shift = nn.ZeroPad2d((0, 0, 1, -1))
            self.key, self.value, self.receptance, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))

        def forward(self, x):
            xx = self.shift(x)
            k = self.key(x * self.mix_k + xx * (1 - self.mix_k))
            v = self.value(x)
            r = torch.sigmoid(self.receptance(x * self.mix_r + xx * (1 - self.mix_r)))
            w, u = -torch.exp(self.time_decay), self.time_first
            aa, bb, pp = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e38)
            ys = []
            for t in range(x.size(1)):
                ww = u + k[:, t]
                p = torch.maximum(pp, ww)
                e1, e2 = torch.exp(pp - p), torch.exp(ww - p)
                ys.append((e1 * aa + e2 * v[:, t]) / (e1 * bb + e2))
                ww = w + pp
                p = torch.maximum(ww, k[:, t])
                e1, e2 = torch.exp(ww - p), torch.exp(k[:, t] - p)
                aa, bb, pp = e1 * aa + e2 * v[:, t], e1 * bb + e2, p
            return self.output(r * torch.stack(ys, dim=1))

    class Block(nn.Module):
        def __init__(self, d, layer):
            super().__init__()
            self.ln1, self.ln2, self.att = nn.LayerNorm(d), nn.LayerNorm(d), TimeMix(d, layer)
            self.key, self.value, self.gate = (
                nn.Linear(d, 4 * d, False),
                nn.Linear(4 * d, d, False),
                nn.Linear(d, d, False),
            )

        def forward(self, x):
            x = x + self.att(self.ln1(x))
            y = self.ln2(x)
            return x + torch.sigmoid(self.gate(y)) * self.value(torch.square(torch.relu(self.key(y))))

    body = nn.Sequential(nn.Embedding(31, 16), Block(16, 0), Block(16, 1), nn.LayerNorm(16), nn.Linear(16, 31))
    nn.init.zeros_(body[-1].bias)
    for _, p in sorted(body.named_parameters()):
        if p.dim() == 2:
            fill(nn.ParameterList([p]))
    ids = tokens(2, 17, 31)
    return fit(body, lambda: F.cross_entropy(body(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()), 4)


@program
def selective_state_spaces():
    class Mamba(nn.Module):
        def __init__(self, d=12, n=4, conv=4):
            super().__init__()
            i = 2 * d
            self.rank = math.ceil(d / 16)
            self.in_proj, self.out_proj = nn.Linear(d, 2 * i, bias=False), nn.Linear(i, d, bias=False)
            self.conv1d = nn.Conv1d(i, i, conv, groups=i, padding=conv - 1)
            self.x_proj, self.dt_proj = nn.Linear(i, self.rank + 2 * n, bias=False), nn.Linear(self.rank, i)
            self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(i, 1)))
            self.D, self.n = nn.Parameter(torch.ones(i)), n

        def forward(self, x):
            _, length, _ = x.shape
            x, res = self.in_proj(x).split(self.in_proj.out_features // 2, dim=-1)
            x = F.silu(self.conv1d(x.transpose(1, 2))[:, :, :length].transpose(1, 2))
            delta, b, c = self.x_proj(x).split([self.rank, self.n, self.n], dim=-1)
            delta, a = F.softplus(self.dt_proj(delta)), -torch.exp(self.A_log.float())
            da = torch.exp(torch.einsum("bld,dn->bldn", delta, a))
            db = torch.einsum("bld,bln,bld->bldn", delta, b, x)
            h, ys = torch.zeros(x.size(0), x.size(2), self.n), []
            for t in range(length):
                h = da[:, t] * h + db[:, t]
                ys.append(torch.einsum("bdn,bn->bd", h, c[:, t]))
            return self.out_proj((torch.stack(ys, dim=1) + x * self.D) * F.silu(res))

    model = nn.Sequential(nn.Embedding(23, 12), Mamba(), nn.RMSNorm(12), Mamba(), nn.RMSNorm(12), nn.Linear(12, 23))
    fill(model)
    ids = tokens(2, 15, 23)
    return fit(model, lambda: F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:]), 4)


@program
def structured_state_spaces():
    def hippo(n):
        p = np.sqrt(1 + 2 * np.arange(n))
        a = p[:, np.newaxis] * p[np.newaxis, :]
        a = np.tril(a) - np.diag(np.arange(n))
        low = np.sqrt(np.arange(n) + 0.5)
        s = -a + low[:, np.newaxis] * low[np.newaxis, :]
        real = np.mean(np.diagonal(s)) * np.ones_like(np.diagonal(s))
        imag, _ = np.linalg.eigh(s * -1j)
        return real + 1j * imag

    class S4(nn.Module):
        def __init__(self, d, n, length):
            super().__init__()
            lam = torch.from_numpy(np.stack([hippo(n)] * d)).to(torch.complex64)
            self.log_real, self.imag = nn.Parameter(torch.log(-lam.real)), nn.Parameter(lam.imag.clone())
            self.c = nn.Parameter(torch.view_as_real(torch.complex(numbers(d, n), numbers(d, n).sin())).clone())
            self.log_step, self.d, self.length = (
                nn.Parameter(torch.linspace(-4, -1, d)),
                nn.Parameter(torch.ones(d)),
                length,
            )

        def kernel(self):
            lam, step = torch.complex(-self.log_real.exp(), self.imag), self.log_step.exp().unsqueeze(-1)
            c = torch.view_as_complex(self.c) * (torch.exp(lam * step) - 1) / lam
            power = (lam * step).unsqueeze(-1) * torch.arange(self.length)
            return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(power)).real

        def forward(self, u):
            n = 2 * self.length
            k_f, u_f = torch.fft.rfft(self.kernel(), n=n), torch.fft.rfft(u, n=n)
            y = torch.fft.irfft(u_f * k_f, n=n)[..., : self.length]
            return F.gelu(y + u * self.d.unsqueeze(-1))

    lay, mix = S4(6, 8, 20), fill(nn.Conv1d(6, 12, 1))
    u, y = numbers(2, 6, 20), numbers(2, 6, 20).sin()
    both = nn.ModuleList([lay, mix])
    return [*fit(both, lambda: F.mse_loss(F.glu(mix(lay(u)), dim=1), y), 4), *sums(lay.imag.grad, lay.c.grad)]


@program
def experts_with_noisy_gates():
    class Dispatcher:
        def __init__(self, n, gates):
            self.gates, self.n = gates, n
            sorted_experts, index = torch.nonzero(gates).sort(0)
            _, self.expert = sorted_experts.split(1, dim=1)
            self.batch = torch.nonzero(gates)[index[:, 1], 0]
            self.sizes = (gates > 0).sum(0).tolist()
            self.nonzero = torch.gather(gates[self.batch.flatten()], 1, self.expert)

        def dispatch(self, x):
            return torch.split(x[self.batch].squeeze(1), self.sizes, dim=0)

        def combine(self, outs):
            stitched = torch.cat(outs, 0).exp().mul(self.nonzero)
            zeros = torch.zeros(self.gates.size(0), outs[-1].size(1), requires_grad=True)
            combined = zeros.index_add(0, self.batch, stitched.float())
            combined[combined == 0] = np.finfo(float).eps
            return combined.log()

    class MoE(nn.Module):
        def __init__(self, i, o, n, k):
            super().__init__()
            self.n, self.k = n, k
            self.experts = nn.ModuleList([nn.Sequential(nn.Linear(i, 8), nn.ReLU(), nn.Linear(8, o)) for _ in range(n)])
            self.gate, self.noise = nn.Parameter(torch.zeros(i, n)), nn.Parameter(torch.zeros(i, n))
            self.register_buffer("mean", torch.tensor([0.0]))
            self.register_buffer("std", torch.tensor([1.0]))

        def forward(self, x):
            clean, std = x @ self.gate, F.softplus(x @ self.noise) + 1e-2
            noisy = clean + noise.randn_like(clean) * std
            top, where = noisy.topk(min(self.k + 1, self.n), dim=1)
            gates = torch.zeros_like(noisy, requires_grad=True).scatter(
                1, where[:, : self.k], top[:, : self.k].softmax(1)
            )
            flat, m = top.flatten(), self.n if self.k + 1 > self.n else self.k + 1
            positions = torch.arange(len(x)) * m + self.k
            threshold = torch.gather(flat, 0, positions).unsqueeze(1)
            normal = torch.distributions.normal.Normal(self.mean, self.std)
            inside = normal.cdf((clean - threshold) / std)
            load = torch.where(
                torch.gt(noisy, threshold), inside, normal.cdf((clean - top[:, [self.k - 1]]) / std)
            ).sum(0)
            sizes = Dispatcher(self.n, gates)
            outs = [self.experts[i](part) for i, part in enumerate(sizes.dispatch(x))]
            squared = sum(v.float().var() / (v.float().mean() ** 2 + 1e-10) for v in (gates.sum(0), load))
            return sizes.combine(outs), squared * 1e-2

    model, x, y = fill(MoE(8, 5, 4, 2)), numbers(12, 8), torch.arange(12) % 5

    def loss():
        out, extra = model(x)
        return F.cross_entropy(out, y) + extra

    return fit(model, loss, 5)


if __name__ == "__main__":
    run_programs()
