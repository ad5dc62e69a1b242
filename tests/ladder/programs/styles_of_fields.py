"""Programs in the styles of public code, which need no library: of many fields, from vision to state-space filters."""

import collections
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import fill, net, numbers, program, run_programs, sums, tokens

# -- vision


@program
def a_network_with_skips():
    class DoubleConv(nn.Sequential):
        def __init__(self, i, o):
            super().__init__(
                nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(2, o), nn.ReLU(inplace=True),
                nn.Conv2d(o, o, 3, padding=1, bias=False), nn.InstanceNorm2d(o, affine=True), nn.LeakyReLU(0.1, inplace=True),
            )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2, self.pool = DoubleConv(3, 4), DoubleConv(4, 8), nn.MaxPool2d(2)
            self.up, self.conv = nn.ConvTranspose2d(8, 4, kernel_size=2, stride=2), DoubleConv(8, 4)
            self.out = nn.Conv2d(4, 2, kernel_size=1)

        def forward(self, x):
            skip = self.down1(x)
            x = self.up(self.down2(self.pool(skip)))
            dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            return self.out(self.conv(torch.cat([skip, x], dim=1)))

    def dice(logits, target):
        p = logits.softmax(1)[:, 1]
        return 1 - (2 * (p * target).sum((1, 2)) + 1) / (p.sum((1, 2)) + target.sum((1, 2)) + 1)

    model, y = fill(UNet()).double(), (numbers(2, 9, 9) > 0).double()
    opt, losses = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, momentum=0.5), []
    for _ in range(3):
        logits = model(numbers(2, 3, 9, 9).double())
        loss = F.cross_entropy(logits, y.long()) + dice(logits, y).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        opt.step()
        losses.append(loss.item())
    return losses


@program
def separable_blocks_and_squeezing():
    class SqueezeExcite(nn.Module):
        def __init__(self, c, r=2):
            super().__init__()
            self.fc = nn.Sequential(nn.Conv2d(c, c // r, 1), nn.Hardswish(), nn.Conv2d(c // r, c, 1), nn.Hardsigmoid())

        def forward(self, x):
            return x * self.fc(F.adaptive_avg_pool2d(x, 1))

    class Residual(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn

        def forward(self, x):
            return self.fn(x) + x

    model = nn.Sequential(
        nn.Conv2d(3, 8, 4, stride=2), nn.GELU(),
        Residual(nn.Sequential(nn.Conv2d(8, 8, 3, padding="same", groups=8, dilation=2), SqueezeExcite(8), nn.ReLU6())),
        nn.PixelShuffle(2), nn.ReflectionPad2d(1), nn.AvgPool2d(3, 1), nn.ChannelShuffle(2), nn.Flatten(1),
    )  # fmt: skip
    out = fill(model)(numbers(2, 3, 10, 10))
    out.std().backward()
    return [*sums(out, *(p.grad for p in model.parameters())), float(out.shape[1])]


@program
def a_spatial_transformer():
    locate = net(3 * 8 * 8, 6, 6)
    with torch.no_grad():
        locate[-1].weight.mul_(0.1)
        locate[-1].bias.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
    x = numbers(2, 3, 8, 8)
    grid = F.affine_grid(locate(x.flatten(1)).view(-1, 2, 3), x.size(), align_corners=False)
    out = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
    out.pow(2).mean().backward()
    flow = F.grid_sample(x, grid, mode="nearest", align_corners=True)
    return sums(out, locate[0].weight.grad, flow)


@program
def radiance_fields():
    def encode(x, n=4):
        bands = 2.0 ** torch.linspace(0.0, n - 1, n)
        angles = (x[..., None] * bands).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)

    model = net(27, 16, 4, act=nn.ReLU)
    j, i = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    dirs = torch.stack([(i - 2) / 4, -(j - 2) / 4, -torch.ones_like(i)], -1)
    z = torch.linspace(1.0, 3.0, 6).expand(4, 4, 6)
    raw = model(encode(dirs[..., None, :] * z[..., :, None]))
    dists = torch.cat([z[..., 1:] - z[..., :-1], torch.full((4, 4, 1), 1e10)], -1) * dirs.norm(dim=-1, keepdim=True)
    alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * dists)
    through = torch.cumprod(torch.cat([torch.ones(4, 4, 1), 1.0 - alpha + 1e-10], -1), -1)[..., :-1]
    weights = alpha * through
    rgb = (weights[..., None] * raw[..., :3].sigmoid()).sum(-2)
    ((rgb - 0.5) ** 2).mean().backward()
    return sums(rgb, (weights * z).sum(-1), weights.sum(-1), model[0].weight.grad)


@program
def images_in_pieces():
    image = ((numbers(3, 12, 12) + 1) * 127.5).to(torch.uint8)
    x = image.float().div_(255).sub_(torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1))
    patches = x.unfold(1, 4, 4).unfold(2, 4, 4).permute(1, 2, 0, 3, 4).reshape(9, -1)
    kernel = torch.tensor([1.0, 2, 1])
    blur = F.conv2d(x[:, None], (kernel[:, None] * kernel[None] / 16)[None, None], padding=1)[:, 0]
    up = F.interpolate(x[None], scale_factor=1.5, mode="bicubic", align_corners=False)[0]
    down = F.interpolate(x[None], size=(5, 7), mode="area")[0]
    erased = x.clone()
    erased[:, 2:5, 3:9] = torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    gray = (x * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(0)
    hist = torch.histc(gray, bins=8, min=-1, max=1)
    return sums(patches[4], blur, up, down, erased, hist * torch.arange(8), x.flip(-1).rot90(1, (1, 2))[:, :6], gray)


# -- generation


@program
def two_networks_against_each_other():
    g, d = net(3, 8, 4), nn.Sequential(*net(4, 8, 1, act=nn.Sigmoid), nn.Flatten(0))
    og = torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.5, 0.999))
    od = torch.optim.Adam(d.parameters(), lr=2e-3, betas=(0.5, 0.999))
    criterion, out = nn.BCEWithLogitsLoss(), []
    ones, zeros = torch.full((6,), 1.0), torch.zeros(6)
    for i in range(3):
        z = numbers(6, 3) * (i + 1)
        d.zero_grad()
        real = criterion(d(numbers(6, 4)), ones)
        real.backward()
        fake = g(z)
        wrong = criterion(d(fake.detach()), zeros)
        wrong.backward()
        od.step()
        g.zero_grad()
        cheat = criterion(d(fake), ones)
        cheat.backward()
        og.step()
        out += [(real + wrong).item(), cheat.item()]
    return out


@program
def codebooks_with_straight_through():
    class Quantizer(nn.Module):
        def __init__(self, k, d, decay=0.8):
            super().__init__()
            self.decay = decay
            self.register_buffer("codes", numbers(k, d))
            self.register_buffer("count", torch.ones(k))
            self.register_buffer("total", self.codes.clone(), persistent=False)

        def forward(self, z):
            d = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.codes.t() + self.codes.pow(2).sum(1)
            idx = d.argmin(1)
            hot = F.one_hot(idx, self.codes.shape[0]).type_as(z)
            if self.training:
                self.count.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                self.total.mul_(self.decay).add_(hot.t() @ z.detach(), alpha=1 - self.decay)
                self.codes.copy_(self.total / self.count.unsqueeze(1))
            q = F.embedding(idx, self.codes)
            return z + (q - z).detach(), F.mse_loss(z, q.detach()), idx

    enc, quant, dec = net(6, 4), Quantizer(5, 4), net(4, 6)
    opt, losses = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2), []
    for _ in range(3):
        z, commit, idx = quant(enc(numbers(7, 6)))
        loss = F.mse_loss(dec(z), numbers(7, 6)) + 0.25 * commit
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    used = torch.unique(idx)
    return [*losses, *sums(quant.codes, quant.count), float(len(used)), float(len(quant.state_dict()))]


@program
def flows_that_invert():
    class Coupling(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.register_buffer("mask", mask)
            self.s, self.t = net(4, 8, 4), net(4, 8, 4)

        def forward(self, x):
            kept = x * self.mask
            s, t = torch.tanh(self.s(kept)) * (1 - self.mask), self.t(kept) * (1 - self.mask)
            return kept + (1 - self.mask) * (x * s.exp() + t), s.sum(-1)

        def inverse(self, y):
            kept = y * self.mask
            s, t = torch.tanh(self.s(kept)) * (1 - self.mask), self.t(kept) * (1 - self.mask)
            return kept + (1 - self.mask) * ((y - t) * (-s).exp())

    mask = torch.tensor([1.0, 0, 1, 0])
    flow, base = nn.ModuleList([Coupling(mask), Coupling(1 - mask)]), torch.distributions.Normal(0.0, 1.0)
    opt, losses = torch.optim.Adam(flow.parameters(), lr=1e-2), []
    x = numbers(8, 4)
    for _ in range(3):
        y, logdet = x, 0
        for layer in flow:
            y, ld = layer(y)
            logdet = logdet + ld
        loss = -(base.log_prob(y).sum(-1) + logdet).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    with torch.no_grad():
        y = flow[1](flow[0](x)[0])[0]
        back = flow[0].inverse(flow[1].inverse(y))
    return [*losses, float((back - x).abs().max() < 1e-5)]


@program
def soft_choices_from_given_noise():
    logits = numbers(4, 5).requires_grad_()
    gumbel = -torch.log(-torch.log(numbers(4, 5).abs().clamp(1e-3, 1 - 1e-3)))
    soft = ((logits + gumbel) / 0.7).softmax(-1)
    index = soft.max(-1, keepdim=True)[1]
    hard = torch.zeros_like(logits).scatter_(-1, index, 1.0)
    ret = hard - soft.detach() + soft
    (ret * torch.arange(5.0)).sum().backward()
    return sums(ret * torch.arange(5), logits.grad.abs(), index)


# -- sequences


@program
def conditional_random_fields():
    emissions, tags = numbers(3, 5, 4).requires_grad_(), tokens(3, 5, 4)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], dtype=torch.bool)
    trans = numbers(4, 4).requires_grad_()
    score = emissions.gather(2, tags[..., None]).squeeze(2)
    total = (score * mask).sum(1) + (trans[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum(1)
    alpha = emissions[:, 0]
    for i in range(1, 5):
        step = torch.logsumexp(alpha[:, :, None] + trans[None] + emissions[:, i, None], dim=1)
        alpha = torch.where(mask[:, i, None], step, alpha)
    nll = (alpha.logsumexp(-1) - total).mean()
    nll.backward()
    best, back = emissions[:, 0].detach(), []
    for i in range(1, 5):
        top, at = (best[:, :, None] + trans.detach()).max(1)
        best, back = top + emissions[:, i].detach(), [*back, at]
    path = [best.argmax(-1)]
    for at in reversed(back):
        path.append(at.gather(1, path[-1][:, None]).squeeze(1))
    return [nll.item(), *sums(emissions.grad.abs(), trans.grad.abs(), torch.stack(path[::-1], 1) * torch.arange(5))]


@program
def alignments_by_ctc():
    logits = numbers(6, 2, 5).requires_grad_()
    loss = nn.CTCLoss(blank=0, zero_infinity=True)(
        logits.log_softmax(2), torch.tensor([[1, 2, 2], [3, 4, 0]]), torch.tensor([6, 5]), torch.tensor([3, 2])
    )
    loss.backward()
    best = logits.argmax(-1).t()
    texts = [[int(v) for v in torch.unique_consecutive(row) if v != 0] for row in best]
    return [loss.item(), *sums(logits.grad.abs()), *(float(len(t)) for t in texts)]


@program
def state_space_scans():
    a = -torch.exp(numbers(4, 3))
    x, delta = numbers(2, 7, 4).requires_grad_(), F.softplus(numbers(2, 7, 4))
    b, c = numbers(2, 7, 3), numbers(2, 7, 3).sin()
    da = torch.exp(torch.einsum("bld,dn->bldn", delta, a))
    dbx = torch.einsum("bld,bln,bld->bldn", delta, b, x)
    h, ys = torch.zeros(2, 4, 3), []
    for i in range(7):
        h = da[:, i] * h + dbx[:, i]
        ys.append(torch.einsum("bdn,bn->bd", h, c[:, i]))
    y = torch.stack(ys, 1)
    logs = torch.cumsum(torch.log(da), 1)
    other = torch.cumsum(dbx * (-logs).exp(), 1) * logs.exp()
    y.sum().backward()
    same = torch.allclose(torch.einsum("bldn,bln->bld", other, c), y, atol=1e-3)
    return [*sums(y, x.grad, h), float(same)]


@program
def linear_attention_and_memory():
    q, k = F.elu(numbers(2, 6, 8)) + 1, F.elu(numbers(2, 6, 8).flip(1)) + 1
    v = numbers(2, 6, 8).cos()
    kv = torch.einsum("bnd,bne->bnde", k, v).cumsum(1)
    out = torch.einsum("bnd,bnde->bne", q, kv) / torch.einsum("bnd,bnd->bn", q, k.cumsum(1)).unsqueeze(-1)
    cache = {"k": torch.empty(2, 0, 8), "v": torch.empty(2, 0, 8)}
    steps = []
    for i in range(6):
        cache = {n: torch.cat([cache[n], t[:, i : i + 1]], dim=1) for n, t in (("k", k), ("v", v))}
        weights = (q[:, i : i + 1] @ cache["k"].transpose(1, 2)).div(8**0.5).softmax(-1)
        steps.append(weights @ cache["v"])
    return sums(out, torch.cat(steps, 1), kv[:, -1])


@program
def words_by_subsampling():
    vocabulary = {w: i for i, w in enumerate(["the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran"])}
    text = ["the", "cat", "sat", "on", "the", "mat", "and", "then", "the", "cat", "ran"]
    pairs = [(vocabulary[text[i]], vocabulary[text[j]]) for i in range(len(text)) for j in range(max(0, i - 2), i)]
    center, context = torch.tensor(pairs).T
    inner, outer = fill(nn.Embedding(10, 6)), fill(nn.EmbeddingBag(10, 6, mode="mean"))
    negative = (center[:, None] * 3 + torch.arange(4)) % 10
    opt, losses = torch.optim.Adagrad([*inner.parameters(), *outer.parameters()], lr=0.1), []
    for _ in range(3):
        v = inner(center)
        positive = (v * outer(context[:, None])).sum(-1)
        scores = torch.bmm(F.embedding(negative, outer.weight), v.unsqueeze(2)).squeeze(2)
        loss = -(F.logsigmoid(positive) + F.logsigmoid(-scores).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    bags = outer(torch.tensor([1, 2, 3, 4, 5]), torch.tensor([0, 2]))
    return [*losses, *sums(bags)]


# -- reinforcement


@program
def values_with_a_target_network():
    class Buffer:
        def __init__(self, size):
            self.items = collections.deque(maxlen=size)

        def push(self, *item):
            self.items.append(item)

        def sample(self, n, rng):
            batch = [self.items[i] for i in sorted(rng.sample(range(len(self.items)), n))]
            return [torch.stack(b) if torch.is_tensor(b[0]) else torch.tensor(b) for b in zip(*batch, strict=True)]

    buffer, rng = Buffer(20), random.Random(0)
    for i in range(25):
        s = numbers(4) * (i % 5 + 1) / 5
        buffer.push(s, i % 3, float(i % 4) - 1, s.flip(0), i % 7 == 0)
    online = net(4, 12, 3)
    target = copy.deepcopy(online).requires_grad_(False)
    opt, losses = torch.optim.AdamW(online.parameters(), lr=1e-2, amsgrad=True), []
    for _ in range(5):
        s, a, r, s2, done = buffer.sample(8, rng)
        q = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = online(s2).argmax(1, keepdim=True)
            goal = r + 0.9 * target(s2).gather(1, best).squeeze(1) * (~done).float()
        loss = F.smooth_l1_loss(q, goal)
        opt.zero_grad()
        loss.backward()
        for p in online.parameters():
            p.grad.data.clamp_(-1, 1)
        opt.step()
        for t, p in zip(target.parameters(), online.parameters(), strict=True):
            t.data.copy_(0.9 * t.data + 0.1 * p.data)
        losses.append(loss.item())
    return losses


@program
def advantages_and_actor_critic():
    rewards, values, done = numbers(8), numbers(9).sin(), torch.tensor([0, 0, 0, 1, 0, 0, 0, 0.0])
    adv, last = torch.zeros(8), 0.0
    for t in reversed(range(8)):
        delta = rewards[t] + 0.99 * values[t + 1] * (1 - done[t]) - values[t]
        adv[t] = last = delta + 0.99 * 0.95 * (1 - done[t]) * last
    returns = adv + values[:-1]
    body, mean, value = net(4, 8), net(8, 2), net(8, 1)
    log_std = nn.Parameter(torch.zeros(2) - 0.5)
    h = body(numbers(8, 4)).tanh()
    dist = torch.distributions.Normal(mean(h), log_std.exp().expand(8, 2))
    logp = dist.log_prob(numbers(8, 2)).sum(-1)
    norm = (adv - adv.mean()) / (adv.std() + 1e-8)
    loss = (
        -(logp * norm).mean()
        + 0.5 * (value(h).squeeze(-1) - returns).pow(2).mean()
        - 0.01 * dist.entropy().sum(-1).mean()
    )
    loss.backward()
    return [loss.item(), *sums(adv, log_std.grad, *(p.grad for p in body.parameters()))]


# -- statistics and physics


@program
def clusters_and_mixtures():
    x = torch.cat([numbers(10, 2), numbers(10, 2) + 3])
    centers = x[[0, 10, 15]].clone()
    for _ in range(5):
        labels = torch.cdist(x, centers).argmin(dim=1)
        for k in range(3):
            if (labels == k).any():
                centers[k] = x[labels == k].mean(0)
    pi, mu, var = torch.full((2,), 0.5), x[[0, 10]], torch.ones(2, 2)
    for _ in range(4):
        logp = torch.distributions.Normal(mu, var.sqrt()).log_prob(x[:, None]).sum(-1) + pi.log()
        resp = (logp - logp.logsumexp(1, keepdim=True)).exp()
        n = resp.sum(0)
        pi, mu = n / 20, (resp.T @ x) / n[:, None]
        var = (resp[..., None] * (x[:, None] - mu) ** 2).sum(0) / n[:, None] + 1e-4
    u, s, vh = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    return sums(centers, labels, pi * torch.arange(2), mu, var, s, ((u * s) @ vh).abs())


@program
def filters_and_processes():
    f, h = torch.tensor([[1.0, 0.1], [0, 1]]), torch.tensor([[1.0, 0]])
    q, r = torch.eye(2) * 0.01, torch.eye(1) * 0.1
    x, p, seen = torch.zeros(2), torch.eye(2), []
    for z in numbers(6):
        x, p = f @ x, f @ p @ f.mT + q
        k = p @ h.mT @ torch.linalg.inv(h @ p @ h.mT + r)
        x = x + (k @ (z[None] - h @ x))
        p = (torch.eye(2) - k @ h) @ p
        seen.append(x.clone())
    t = torch.linspace(0, 1, 6)[:, None]
    scale = nn.Parameter(torch.zeros(3))
    opt, losses = torch.optim.Rprop([scale], lr=0.05), []
    for _ in range(4):
        length, amp, noise = scale.exp()
        cov = amp * torch.exp(-0.5 * torch.cdist(t, t).pow(2) / length**2) + (noise + 1e-3) * torch.eye(6)
        chol = torch.linalg.cholesky(cov)
        y = numbers(6, 1)
        loss = 0.5 * (y.mT @ torch.cholesky_solve(y, chol)).squeeze() + chol.diagonal().log().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return [*losses, *sums(torch.stack(seen), p)]


@program
def equations_by_networks():
    model = net(2, 12, 1).double()
    xt = (
        torch.stack(torch.meshgrid(torch.linspace(0, 1, 4), torch.linspace(0, 1, 4), indexing="xy"), -1)
        .reshape(-1, 2)
        .double()
    )
    opt, losses = torch.optim.NAdam(model.parameters(), lr=1e-2), []
    for _ in range(3):
        points = xt.clone().requires_grad_(True)
        u = model(points)
        (du,) = torch.autograd.grad(u.sum(), points, create_graph=True)
        (dux,) = torch.autograd.grad(du[:, 0].sum(), points, create_graph=True)
        residual = du[:, 1] - 0.1 * dux[:, 0]
        start = model(torch.stack([xt[:, 0], torch.zeros(16).double()], 1)) - torch.sin(math.pi * xt[:, :1])
        loss = residual.pow(2).mean() + start.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@program
def fixed_points_with_implicit_gradients():
    cell = fill(nn.Linear(4, 4))
    with torch.no_grad():
        cell.weight.mul_(0.5)
    x = numbers(3, 4).requires_grad_()

    def f(z):
        return torch.tanh(cell(z) + x)

    with torch.no_grad():
        z = torch.zeros(3, 4)
        for _ in range(60):
            z = f(z)
    z = f(z)
    z0 = z.clone().detach().requires_grad_()
    f0 = f(z0)

    def backward(grad):
        g = grad
        for _ in range(60):
            g = torch.autograd.grad(f0, z0, g, retain_graph=True)[0] + grad
        return g

    z.register_hook(backward)
    z.pow(2).sum().backward()
    return sums(z, x.grad, cell.weight.grad)


@program
def orbits_by_hamiltonians():
    h = net(4, 12, 1)

    def field(x):
        with torch.enable_grad():
            x = x.requires_grad_(True)
            (dh,) = torch.autograd.grad(h(x).sum(), x, create_graph=True)
        dq, dp = dh.split(2, dim=-1)
        return torch.cat([dp, -dq], -1)

    x, path = numbers(2, 4), []
    for _ in range(4):
        k1 = field(x.detach())
        k2 = field((x + 0.05 * k1).detach())
        x = x + 0.1 * k2.detach()
        path.append(x)
    loss = (field(numbers(2, 4)) - 0.1).pow(2).mean()
    loss.backward()
    return [loss.item(), *sums(torch.stack(path), h[0].weight.grad)]


# -- tables and scores


@program
def tables_with_categories():
    class Tabular(nn.Module):
        def __init__(self, cards, n_cont):
            super().__init__()
            self.embeds = nn.ModuleList([nn.Embedding(c, min(50, (c + 1) // 2)) for c in cards])
            n = sum(e.embedding_dim for e in self.embeds)
            self.norm, self.lin = nn.BatchNorm1d(n_cont), nn.Linear(n + n_cont, 3)

        def forward(self, cat, cont):
            x = [e(cat[:, i]) for i, e in enumerate(self.embeds)]
            return self.lin(torch.cat([*x, self.norm(cont)], 1))

    def focal(logits, y, gamma=2.0):
        logp = F.log_softmax(logits, -1).gather(1, y[:, None]).squeeze(1)
        return (-((1 - logp.exp()) ** gamma) * logp).mean()

    model = fill(Tabular([5, 3], 4))
    cat, y = torch.stack([torch.arange(12) % 5, torch.arange(12) % 3], 1), torch.arange(12) % 3
    weights = 1.0 / torch.bincount(y).float()
    opt, losses = torch.optim.Adamax(model.parameters(), lr=1e-2), []
    for _ in range(3):
        logits = model(cat, numbers(12, 4))
        loss = focal(logits, y) + F.cross_entropy(logits, y, weight=weights, reduction="sum", ignore_index=2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@program
def scores_of_classifiers():
    scores, y = numbers(20), (torch.arange(20) * 7 % 5 < 2).long()
    order = scores.argsort(descending=True)
    tp, fp = y[order].cumsum(0).float(), (1 - y[order]).cumsum(0).float()
    auc = torch.trapezoid(tp / tp[-1], fp / fp[-1])
    precision = tp / torch.arange(1, 21)
    ap = (precision * y[order]).sum() / y.sum()
    pred, target = tokens(1, 30, 4)[0], (tokens(1, 30, 4)[0] * 3 + 1) % 4
    cm = torch.bincount(target * 4 + pred, minlength=16).reshape(4, 4)
    iou = cm.diag().float() / (cm.sum(0) + cm.sum(1) - cm.diag()).clamp(min=1)
    logits = numbers(10, 6)
    _, top = logits.topk(3, 1, True, True)
    correct = top.t().eq((torch.arange(10) % 6).view(1, -1).expand_as(top.t()))
    bins = torch.bucketize(logits.softmax(1).amax(1), torch.linspace(0, 1, 6))
    ranks = scores.argsort().argsort().float()
    corr = torch.corrcoef(torch.stack([ranks, scores]))[0, 1]
    quant = torch.quantile(scores, torch.tensor([0.25, 0.5, 0.9]))
    return [
        auc.item(),
        ap.item(),
        corr.item(),
        *sums(cm * torch.arange(4), iou, correct[:2], bins, quant, scores.kthvalue(5).values),
    ]


@program
def sets_and_searches():
    x = tokens(1, 24, 9)[0]
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    table = torch.tensor([1, 3, 3, 7])
    found = torch.searchsorted(table, x, right=True)
    member = torch.isin(x, torch.tensor([2, 4]))
    high, at = torch.cummax(numbers(12), 0)
    hole = numbers(3, 4).masked_fill(numbers(3, 4) > 0.5, float("nan"))
    combos = torch.combinations(torch.arange(5), 2)
    tri = torch.tril_indices(4, 4, offset=-1)
    grid = torch.cartesian_prod(torch.arange(3), torch.arange(2))
    split = torch.tensor_split(torch.arange(10), 4)
    return sums(
        values, inverse, counts * values, found, member, high, at, hole.nanmean(), hole.nan_to_num(0.5).median(1).values,
        combos[:, 1], tri[0] * 2 + tri[1], grid * torch.tensor([1, 10]), *split, torch.diff(x), torch.vander(numbers(3)),
        torch.kron(torch.eye(2), numbers(2, 2)), torch.block_diag(numbers(2, 2), numbers(1, 3)), torch.rot90(numbers(2, 3)),
    )  # fmt: skip


if __name__ == "__main__":
    run_programs()
