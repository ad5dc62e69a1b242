"""Programs in the styles of public code, which need no library: data, distributions, shapes, gradients, modules."""

import itertools
import math
import tempfile
import typing
import warnings

import torch
from common import fill, net, numbers, program, run_programs, sums, tokens
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import data

# -- data


@program
def loaders_samplers_and_collation():
    class Sentences(data.Dataset):
        def __init__(self, lengths):
            self.items = [torch.arange(n) + n for n in lengths]

        def __len__(self):
            return len(self.items)

        def __getitem__(self, i):
            return {"ids": self.items[i], "label": i % 2, "name": f"s{i}"}

    class ByLength(data.Sampler):
        def __init__(self, source, size):
            super().__init__()
            self.order, self.size = sorted(range(len(source)), key=lambda i: len(source[i]["ids"])), size

        def __iter__(self):
            for i in range(0, len(self.order), self.size):
                yield self.order[i : i + self.size]

        def __len__(self):
            return math.ceil(len(self.order) / self.size)

    def collate(batch):
        ids = nn.utils.rnn.pad_sequence([b["ids"] for b in batch], batch_first=True, padding_value=-1)
        return {"ids": ids, "mask": ids.ne(-1), "label": torch.as_tensor([b["label"] for b in batch])}

    source = Sentences([3, 1, 4, 1, 5, 9, 2, 6])
    out = []
    for batch in data.DataLoader(source, batch_sampler=ByLength(source, 3), collate_fn=collate):
        out += [*sums(batch["ids"], batch["mask"], batch["label"]), float(batch["ids"].shape[1])]
    subset = data.Subset(source, range(0, 8, 2))
    both = data.ConcatDataset([subset, data.Subset(source, [1])])
    for batch in data.DataLoader(both, batch_size=2, sampler=data.SequentialSampler(both), collate_fn=lambda b: b):
        out.append(float(sum(len(b["ids"]) for b in batch)))
    return out


@program
def streams_of_data():
    class Stream(data.IterableDataset):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            info = data.get_worker_info()
            start, step = (0, 1) if info is None else (info.id, info.num_workers)
            yield from ((torch.tensor(float(i)), i**2) for i in range(start, self.n, step))

    loader = data.DataLoader(Stream(10), batch_size=4, drop_last=False)
    out = []
    for epoch in range(2):
        for x, y in itertools.islice(loader, 2 + epoch):
            out += sums(x, y)
    parallel = data.DataLoader(Stream(9), batch_size=2, num_workers=2)
    return [*out, float(sum(x.sum() + y.sum() for x, y in parallel))]


@program
def nested_batches_and_named_tuples():
    class Sample(typing.NamedTuple):
        image: Tensor
        boxes: dict
        scale: float

    items = [Sample(numbers(2, 2) * i, {"a": numbers(3) + i, "b": [i, i + 1]}, i / 2) for i in range(5)]
    out = []
    for batch in data.DataLoader(items, batch_size=2):
        assert type(batch) is Sample and batch.scale.dtype == torch.float64
        out += sums(batch.image, batch.boxes["a"], *batch.boxes["b"], batch.scale)
    return out


# -- distributions


@program
def distributions_and_divergences():
    D = torch.distributions
    logits, x = numbers(4, 3), numbers(4).abs()
    out = []
    for d, v in (
        (D.Normal(numbers(4), numbers(4).exp()), x),
        (D.Categorical(logits=logits), torch.arange(4) % 3),
        (D.Bernoulli(logits=numbers(4)), torch.tensor([0.0, 1, 1, 0])),
        (D.Uniform(torch.zeros(4) - 2, torch.ones(4) * 2), x),
        (D.Independent(D.Normal(logits, 1.0), 1), logits * 0.5),
    ):
        out += [*sums(d.log_prob(v), d.entropy()), float(len(d.batch_shape))]
    p, q = D.Normal(numbers(3), 1.0), D.Normal(0.0, numbers(3).exp())
    out += sums(D.kl_divergence(p, q), p.cdf(numbers(3)), p.icdf(torch.tensor([0.1, 0.5, 0.9])))
    out += sums(D.kl.kl_divergence(D.Categorical(logits=logits), D.Categorical(logits=logits.flip(0))))
    mean = numbers(3).requires_grad_()
    D.Normal(mean, 2.0).rsample((5,)).sum().backward()
    return out + sums(mean.grad)


@program
def policy_gradient_with_categorical():
    policy, x = net(4, 16, 3), numbers(6, 4)
    opt, losses = torch.optim.Adam(policy.parameters(), lr=1e-2), []
    actions, returns = torch.arange(6) % 3, numbers(6)
    for _ in range(4):
        dist = torch.distributions.Categorical(logits=policy(x))
        ratio = (dist.log_prob(actions) - dist.log_prob(actions).detach()).exp()
        surrogate = torch.min(ratio * returns, ratio.clamp(0.8, 1.2) * returns)
        loss = -surrogate.mean() - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()
        losses.append(loss.item())
    return losses


@program
def variational_autoencoder_with_given_noise():
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.mu, self.logvar, self.dec = (
                nn.Linear(12, 8),
                nn.Linear(8, 3),
                nn.Linear(8, 3),
                nn.Linear(3, 12),
            )

        def forward(self, x, eps):
            h = F.relu(self.enc(x))
            mu, logvar = self.mu(h), self.logvar(h)
            return torch.sigmoid(self.dec(mu + eps * torch.exp(0.5 * logvar))), mu, logvar

    model, x = fill(VAE()), numbers(5, 12).abs().clamp(max=1)
    opt, losses = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for i in range(4):
        out, mu, logvar = model(x, numbers(5, 3) * (i + 1))
        bce = F.binary_cross_entropy(out, x, reduction="sum")
        loss = bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


# -- shapes


@program
def attention_with_einsum_and_windows():
    q = numbers(2, 4, 6, 8)
    k, v = q.flip(2), q.roll(1, dims=-1)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(causal, -torch.finfo(scores.dtype).max)
    out = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
    assert torch.allclose(out, F.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-5)
    x = numbers(1, 8, 8, 3)
    windows = x.view(1, 2, 4, 2, 4, 3).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, 4, 3)
    shifted = torch.roll(x, shifts=(-2, -2), dims=(1, 2))
    patches = F.unfold(x.permute(0, 3, 1, 2), kernel_size=4, stride=4)
    again = F.fold(patches, (8, 8), kernel_size=4, stride=4)
    return sums(
        out, windows[1], shifted[:, :4], patches[..., 1], again, out.movedim(1, 2).flatten(2).unflatten(2, (4, 8))[:, 0]
    )


@program
def rotary_embeddings_without_complex():
    dim, n = 8, 6
    inv = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
    freqs = torch.outer(torch.arange(n, dtype=torch.float32), inv)
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos()[None, None], emb.sin()[None, None]

    def rotate_half(x):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((-x2, x1), dim=-1)

    q = numbers(1, 2, n, dim)
    inter = torch.stack((-q[..., 1::2], q[..., ::2]), dim=-1).reshape_as(q)
    return sums((q * cos + rotate_half(q) * sin)[..., 3], inter[0, 1], q.unfold(2, 3, 2).mean(-1))


@program
def alibi_slopes_and_relative_buckets():
    def slopes(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    rel = torch.arange(10)[None, :] - torch.arange(10)[:, None]
    n = -rel
    ret = (n < 0).to(torch.long) * 16
    n = torch.abs(n)
    large = 8 + (torch.log(n.float() / 8 + 1e-6) / math.log(128 / 8) * 8).to(torch.long)
    ret += torch.where(n < 8, n, torch.min(large, torch.full_like(large, 15)))
    bias = torch.tensor(slopes(8)).view(-1, 1, 1) * rel.abs().neg()
    return sums(ret, bias[2])


@program
def mixture_of_experts_by_index():
    experts = nn.ModuleList(net(6, 12, 6) for _ in range(4))
    gate, x = fill(nn.Linear(6, 4, bias=False)), numbers(10, 6).requires_grad_()
    weights, chosen = torch.topk(gate(x).softmax(-1), 2, dim=-1)
    weights = weights / weights.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
    for e in range(4):
        slot, row = torch.where(mask[e])
        if row.numel() == 0:
            continue
        out.index_add_(0, row, experts[e](x[row]) * weights[row, slot, None])
    out.square().sum().backward()
    counts = torch.bincount(chosen.flatten(), minlength=4)
    return sums(out, x.grad, gate.weight.grad, counts * torch.arange(4))


@program
def graph_layer_by_scatter():
    edges = torch.stack([tokens(1, 30, 9)[0], (tokens(1, 30, 9)[0] * 5 + 2) % 9])
    x, w = numbers(9, 4).requires_grad_(), fill(nn.Linear(4, 4))
    row, col = edges
    deg = torch.zeros(9).scatter_add_(0, row, torch.ones(row.numel()))
    norm = deg.clamp(min=1).pow(-0.5)
    messages = w(x)[col] * (norm[row] * norm[col]).unsqueeze(-1)
    out = torch.zeros(9, 4).index_add(0, row, messages)
    high = torch.full((9, 4), -1e9).scatter_reduce(0, row[:, None].expand(-1, 4), messages, "amax", include_self=True)
    (out.relu().sum() + high.clamp(min=-1).sum()).backward()
    return sums(out, high.clamp(min=-1), x.grad)


@program
def boxes_and_non_maximum_suppression():
    c = numbers(12, 4).abs() * 10
    boxes = torch.cat([c[:, :2], c[:, :2] + c[:, 2:] + 1], 1)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    lt = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    rb = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    iou = inter / (area[:, None] + area[None, :] - inter)
    order, keep = numbers(12).argsort(descending=True), []
    while order.numel() > 0:
        i = order[0].item()
        keep.append(i)
        order = order[1:][iou[i, order[1:]] <= 0.3]
    return [float(k) for k in keep] + sums(iou)


# -- autograd


@program
def functions_with_gradients_of_their_own():
    class STE(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.save_for_backward(x)
            ctx.levels = levels
            return torch.round(x * levels) / levels

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= 1).to(g.dtype), None

    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, alpha):
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g.neg() * ctx.alpha, None

    x = (numbers(4, 4) * 1.5).requires_grad_()
    y = STE.apply(x, 8)
    (y.sin() + Reverse.apply(y, 0.3).cos()).sum().backward()
    return sums(y, x.grad)


@program
def gradient_penalty():
    critic = net(4, 8, 1)
    real, fake = numbers(6, 4), numbers(6, 4).flip(0)
    mix = torch.lerp(real, fake, torch.linspace(0, 1, 6).unsqueeze(1)).requires_grad_(True)
    (g,) = torch.autograd.grad(critic(mix), mix, torch.ones(6, 1), create_graph=True, retain_graph=True)
    penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    loss.backward()
    return [loss.item(), penalty.item(), *sums(*(p.grad for p in critic.parameters() if p.grad is not None))]


@program
def inner_steps_of_meta_learning():
    model = net(1, 8, 1)
    meta = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, losses = torch.linspace(-2, 2, 8).unsqueeze(1), []
    for task in range(3):
        y = torch.sin(x + task)
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = F.mse_loss(torch.func.functional_call(model, fast, (x[::2],)), y[::2])
            grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {k: p - 0.1 * g for (k, p), g in zip(fast.items(), grads, strict=True)}
        outer = F.mse_loss(torch.func.functional_call(model, fast, (x[1::2],)), y[1::2])
        meta.zero_grad()
        outer.backward()
        meta.step()
        losses.append(outer.item())
    return losses


@program
def gradients_of_samples_by_vmap():
    model = net(3, 5, 2)
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(params, x, y):
        return F.cross_entropy(torch.func.functional_call(model, params, (x[None],)), y[None])

    x, y = numbers(6, 3), torch.arange(6) % 2
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    hessian = torch.func.hessian(lambda w: (w.sin() * w).sum())(numbers(3))
    return sums(norms, *each.values(), hessian) + sums(torch.func.jacrev(torch.tanh)(numbers(3)))


@program
def checkpointed_blocks():
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    blocks = fill(nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.GELU()) for _ in range(4))))
    x = numbers(3, 6).requires_grad_()
    a = checkpoint(blocks[0], x, use_reentrant=False)
    b = checkpoint_sequential(list(blocks[1:]), 2, a, use_reentrant=False)
    b.pow(2).sum().backward()
    return sums(b, x.grad, *(p.grad for p in blocks.parameters()))


@program
def mixed_precision_with_scaler():
    model = net(8, 16, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler, losses = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2), []
    for _ in range(4):
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            out = model(numbers(4, 8))
            assert out.dtype == torch.bfloat16
            loss = F.mse_loss(out.float(), numbers(4, 2))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        losses.append(round(loss.item(), 2))
    return [*losses, scaler.get_scale()]


# -- modules in styles of their own


@program
def parametrized_and_pruned_weights():
    from torch.nn.utils import parametrize, prune

    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).transpose(-1, -2)

        def right_inverse(self, w):
            return w.triu()

    layer = fill(nn.Linear(4, 4))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    layer.weight = numbers(4, 4)
    out = sums(layer(numbers(2, 4)))
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    out += sums(layer.weight, layer.weight_mask)
    prune.remove(layer, "weight")
    normed = nn.utils.parametrizations.weight_norm(fill(nn.Linear(4, 3)))
    return out + sums(layer.weight, normed(numbers(2, 4)), normed.parametrizations.weight.original0)


@program
def recurrent_networks_on_packed_sequences():
    lengths = torch.tensor([5, 3, 2])
    x = numbers(3, 5, 4)
    lstm = fill(nn.LSTM(4, 6, num_layers=2, batch_first=True, bidirectional=True))
    gru = fill(nn.GRU(12, 3, batch_first=True))
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=True)
    out, (h, c) = lstm(packed)
    out, sizes = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    last, _ = gru(out)
    last[torch.arange(3), sizes - 1].sum().backward()
    return sums(out, h, c, last, lstm.weight_ih_l0.grad, gru.bias_hh_l0.grad)


@program
def transformer_layers_with_masks():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    encoder = fill(nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False))
    decoder = fill(nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 1))
    x, pad = numbers(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    memory = encoder(x, src_key_padding_mask=pad)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    out = decoder(numbers(2, 4, 8), memory, tgt_mask=mask, memory_key_padding_mask=pad)
    out.sum().backward()
    return sums(memory[0], memory[1, :3], out, encoder.layers[0].linear1.weight.grad)


@program
def a_registry_and_modules_from_config():
    registry = {}

    def register(name):
        return lambda cls: registry.setdefault(name, cls)

    @register("film")
    class FiLM(nn.Module):
        __constants__: typing.ClassVar = ["width"]

        def __init__(self, width: int):
            super().__init__()
            self.width, self.affine = width, nn.Linear(2, 2 * width)

        def forward(self, x: Tensor, cond: Tensor) -> Tensor:
            gamma, beta = self.affine(cond).chunk(2, -1)
            return x.addcmul(x, gamma).add(beta)

        def extra_repr(self):
            return f"width={self.width}"

    class Router(nn.Module):
        def __init__(self, config):
            super().__init__()
            for i, (kind, kw) in enumerate(config):
                self.add_module(f"block{i}", registry[kind](**kw))
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(()) * i) for i in range(2)])
            self.table = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(4))})

        def forward(self, x, cond):
            for name, child in self.named_children():
                if name.startswith("block"):
                    x = child(x, cond)
            return x * sum(self.scales) + self.table["bias"]

    model = fill(Router([("film", {"width": 4}), ("film", {"width": 4})]))
    names = [n for n, _ in model.named_parameters()]
    assert "FiLM(" in repr(model) and "width=4" in repr(model) and names[0] == "block0.affine.weight"
    frozen = [p.requires_grad_("affine" in n) for n, p in model.named_parameters()]
    out = model(numbers(3, 4), numbers(3, 2))
    out.sum().backward()
    return [float(len(frozen)), *sums(out, *(p.grad for p in model.parameters() if p.grad is not None))]


@program
def diffusion_schedule_and_sampling():
    betas = torch.linspace(1e-4, 0.02, 20, dtype=torch.float64)
    alphas = torch.cumprod(1 - betas, 0)
    previous = F.pad(alphas[:-1], (1, 0), value=1.0)
    variance = betas * (1 - previous) / (1 - alphas)
    eps_model = net(5, 16, 4)

    def extract(a, t, shape):
        return a.gather(-1, t).float().reshape(len(t), *((1,) * (len(shape) - 1)))

    x = numbers(3, 4)
    for i in reversed(range(0, 20, 4)):
        t = torch.full((3,), i, dtype=torch.long)
        with torch.inference_mode():
            eps = eps_model(torch.cat([x, t[:, None].float() / 20], 1))
            x0 = (x - (1 - extract(alphas, t, x.shape)).sqrt() * eps) / extract(alphas, t, x.shape).sqrt()
            x = x0.clamp(-1, 1) * extract(previous, t, x.shape).sqrt() + extract(variance, t, x.shape).sqrt() * eps
    return sums(x, variance, alphas)


@program
def beam_search_with_a_cache():
    embed, cell, out = fill(nn.Embedding(12, 6)), fill(nn.GRUCell(6, 6)), fill(nn.Linear(6, 12))
    beams, width, done = [(0.0, [1], torch.zeros(1, 6))], 3, []
    with torch.no_grad():
        for _ in range(5):
            grown = []
            for score, ids, h in beams:
                h = cell(embed(torch.tensor([ids[-1]])), h)
                values, indices = F.log_softmax(out(h)[0], -1).topk(width)
                grown += [(score + v, [*ids, i], h) for v, i in zip(values.tolist(), indices.tolist(), strict=True)]
            beams = sorted(grown, key=lambda b: -b[0])[:width]
            done += [b for b in beams if b[1][-1] == 0]
    return [float(i) for _, ids, _ in beams for i in ids] + [round(b[0], 5) for b in beams]


@program
def nucleus_filtering():
    logits = numbers(2, 11) * 4
    kept = torch.topk(logits, 7).values[..., -1, None]
    logits = torch.where(logits < kept, torch.full_like(logits, float("-inf")), logits)
    ordered, at = torch.sort(logits, descending=True)
    cumulative = torch.cumsum(F.softmax(ordered, dim=-1), dim=-1)
    remove = cumulative > 0.8
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = 0
    logits = logits.masked_fill(remove.scatter(1, at, remove), -float("inf"))
    return sums(logits.softmax(-1).square(), torch.isfinite(logits), logits.argmax(-1))


@program
def metric_learning_losses():
    emb = F.normalize(numbers(8, 6), dim=1).requires_grad_()
    labels = torch.arange(8) // 2
    sim = emb @ emb.T / 0.5
    sim = sim - torch.eye(8) * 1e9
    positive = labels[:, None].eq(labels[None]) & ~torch.eye(8, dtype=torch.bool)
    supcon = -(sim.log_softmax(1) * positive).sum(1).div(positive.sum(1)).mean()
    dist = torch.cdist(emb, emb)
    hardest = (dist * positive).amax(1) - (dist + positive * 1e3 + torch.eye(8) * 1e3).amin(1)
    triplet = F.relu(hardest + 0.2).mean()
    z1, z2 = emb[::2], emb[1::2]
    c = (z1 - z1.mean(0)).T @ (z2 - z2.mean(0)) / 4
    off = c.flatten()[:-1].view(5, 7)[:, 1:].flatten()
    loss = supcon + triplet + off.pow(2).sum() + (1 - F.cosine_similarity(z1, z2)).mean()
    loss.backward()
    return [supcon.item(), triplet.item(), loss.item(), *sums(emb.grad)]


@program
def sinkhorn_and_linear_algebra():
    a = numbers(5, 5)
    log = a.clone()
    for _ in range(10):
        log = log - log.logsumexp(1, keepdim=True)
        log = log - log.logsumexp(0, keepdim=True)
    spd = a @ a.T + 5 * torch.eye(5)
    chol = torch.linalg.cholesky(spd)
    w, v = torch.linalg.eigh(spd)
    q, r = torch.linalg.qr(a)
    solved = torch.cholesky_solve(numbers(5, 1), chol)
    inverse_root = v @ torch.diag(w.rsqrt()) @ v.mT
    return sums(log.exp(), chol, w, (q @ r - a).abs() > 1e-4, solved, inverse_root, torch.linalg.slogdet(spd)[1])


@program
def tensors_of_a_class_of_ones_own():
    class Logged(torch.Tensor):
        calls: typing.ClassVar[list] = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = numbers(3).as_subclass(Logged)
    y = torch.stack([x.exp(), torch.sin(x)]).sum(0)
    assert type(y) is Logged
    return [
        *sums(y.as_subclass(torch.Tensor)),
        float(len([c for c in Logged.calls if c in ("exp", "sin", "stack", "sum")])),
    ]


@program
def bits_views_and_strides():
    x = numbers(2, 8)
    bits = x.view(torch.int32)
    exponent = (bits >> 23) & 0xFF
    rounded = ((bits + 0x8000) & -0x10000).view(torch.float32)
    windows = torch.arange(10.0).as_strided((4, 4), (2, 1))
    base = torch.zeros(12)
    base[2:8].view(2, 3).t()[1].add_(1)
    found = base[2:].storage_offset(), base.view(3, 4).t().is_contiguous(), x[:, ::2].stride(1)
    return [*sums(exponent, rounded, windows, base * torch.arange(12)), *map(float, found)]


@program
def warnings_grad_modes_and_files():
    out, w = [], nn.Parameter(numbers(3))

    @torch.no_grad()
    def frozen(x):
        return x * w

    with torch.set_grad_enabled(False):
        out.append(float((w * 2).requires_grad))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        F.mse_loss(torch.ones(3, 1), torch.ones(3))
    out.append(float(torch.get_default_dtype() == torch.ones(1).dtype))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(w, f"{folder}/w.pt")
        again = torch.load(f"{folder}/w.pt")
    return [*out, float(frozen(w).requires_grad), float(len(caught)), float(type(again) is nn.Parameter), *sums(again)]


if __name__ == "__main__":
    run_programs()
