"""Programs about pictures, each as one file of a public repository has it, which needs no library: a paper's model, its data, its loop."""

import copy
import itertools
import math

import numpy as np
import torch
from common import Noise, fill, fit, numbers, program, run_programs, sums, tokens
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

noise = Noise()


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


@program
def pictures_by_adversaries():
    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0),
    )  # fmt: skip
    for net in (generator, critic):
        net.apply(weights_init)
        fill(net)
    criterion = nn.BCELoss()
    d, g = (optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (critic, generator))
    out = []
    for i in range(3):
        critic.zero_grad()
        real = numbers(4, 3, 16, 16) * (1 + i) / 3
        label = torch.full((4,), 1.0, dtype=torch.float)
        err = criterion(critic(real).view(-1), label)
        err.backward()
        fake = generator(noise.randn(4, 8, 1, 1))
        label.fill_(0.0)
        other = criterion(critic(fake.detach()), label)
        other.backward()
        d.step()
        generator.zero_grad()
        label.fill_(1.0)
        last = criterion(critic(fake), label)
        last.backward()
        g.step()
        out += [err.item() + other.item(), last.item(), float(fake.detach().mean())]
    return out


@program
def autoencoders_of_three_kinds():
    class VAE(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.kind = kind
            self.encoder = nn.Sequential(
                nn.Conv2d(1, 6, 3, 2, 1), nn.LeakyReLU(), nn.Conv2d(6, 8, 3, 2, 1), nn.Flatten()
            )
            self.mu, self.logvar, self.back = nn.Linear(32, 4), nn.Linear(32, 4), nn.Linear(4, 32)
            self.decoder = nn.Sequential(
                nn.Unflatten(1, (8, 2, 2)), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(8, 6, 3, 1, 1), nn.ELU(),
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(6, 1, 3, padding="same"),
            )  # fmt: skip

        def forward(self, x):
            h = self.encoder(x)
            mu, logvar = self.mu(h), self.logvar(h)
            std = torch.exp(0.5 * logvar)
            z = mu + noise.randn_like(std) * std
            y = self.decoder(self.back(z))
            rec = F.binary_cross_entropy_with_logits(y, x, reduction="sum") / len(x)
            kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
            if self.kind == "free bits":
                return rec + torch.clamp(kl / 4, min=0.1).mean()
            if self.kind == "total correlation":
                pairs = -0.5 * (
                    (z[:, None] - mu[None]) ** 2 / logvar.exp()[None] + logvar[None] + math.log(2 * math.pi)
                )
                joint = torch.logsumexp(pairs.sum(-1), dim=1)
                return rec + kl.mean() + 0.5 * (joint - torch.logsumexp(pairs, dim=1).sum(-1)).mean()
            other = noise.randn(*z.shape)
            kernel = lambda a, b: torch.exp(-(a[:, None] - b[None]).pow(2).mean(2) / a.size(1))  # noqa: E731
            return rec + kernel(z, z).mean() + kernel(other, other).mean() - 2 * kernel(z, other).mean()

    out, x = [], numbers(5, 1, 8, 8).abs()
    for kind in ("free bits", "total correlation", "maximum mean discrepancy"):
        model = fill(VAE(kind))
        out += fit(model, lambda: model(x), 3)  # noqa: B023
    return out


@program
def masked_autoencoder_of_densities():
    class MaskedLinear(nn.Linear):
        def __init__(self, i, o):
            super().__init__(i, o)
            self.register_buffer("mask", torch.ones(o, i))

        def set_mask(self, mask):
            self.mask.data.copy_(torch.from_numpy(mask.astype(np.uint8).T))

        def forward(self, x):
            return F.linear(x, self.mask * self.weight, self.bias)

    class MADE(nn.Module):
        def __init__(self, n, hidden, masks):
            super().__init__()
            sizes, layers = [n, *hidden, n], []
            for a, b in itertools.pairwise(sizes):
                layers.extend([MaskedLinear(a, b), nn.ReLU()])
            layers.pop()
            self.net, self.n, self.hidden, self.masks, self.seed, self.m = (
                nn.Sequential(*layers),
                n,
                hidden,
                masks,
                0,
                {},
            )

        def update_masks(self):
            rng = np.random.RandomState(self.seed)
            self.seed = (self.seed + 1) % self.masks
            self.m[-1] = rng.permutation(self.n)
            for i, h in enumerate(self.hidden):
                self.m[i] = rng.randint(self.m[i - 1].min(), self.n - 1, size=h)
            masks = [self.m[i - 1][:, None] <= self.m[i][None, :] for i in range(len(self.hidden))]
            masks.append(self.m[len(self.hidden) - 1][:, None] < self.m[-1][None, :])
            for layer, mask in zip((m for m in self.net if isinstance(m, MaskedLinear)), masks, strict=True):
                layer.set_mask(mask)

        def forward(self, x):
            return self.net(x)

    model = fill(MADE(9, [20, 20], 4))
    optimizer = optim.Adam(model.parameters(), 1e-2, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    x, losses = (numbers(8, 9) > 0).float(), []
    for _ in range(4):  # masks change between steps alone: PyTorch's gradients see what `.data` writes after a product
        model.update_masks()
        loss = F.binary_cross_entropy_with_logits(model(x), x, reduction="sum") / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    jac = torch.autograd.functional.jacobian(lambda v: model(v[None])[0], x[0])
    return [*losses, float((jac.abs() > 0).sum()), float(jac.diagonal().abs().sum())]


@program
def pixels_after_pixels():
    class MaskedConv2d(nn.Conv2d):
        def __init__(self, kind, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.register_buffer("mask", self.weight.data.clone())
            _, _, h, w = self.weight.size()
            self.mask.fill_(1)
            self.mask[:, :, h // 2, w // 2 + (kind == "B") :] = 0
            self.mask[:, :, h // 2 + 1 :] = 0

        def forward(self, x):
            self.weight.data *= self.mask
            return super().forward(x)

    net = nn.Sequential(
        MaskedConv2d("A", 1, 6, 7, 1, 3, bias=False), nn.GroupNorm(2, 6), nn.ReLU(True),
        MaskedConv2d("B", 6, 6, 5, 1, 2, bias=False), nn.GroupNorm(2, 6), nn.ReLU(True), nn.Conv2d(6, 4, 1),
    )  # fmt: skip
    fill(net)
    x = tokens(3 * 8, 8, 4).view(3, 8, 8)
    losses = fit(net, lambda: F.cross_entropy(net(x[:, None].float() / 3), x), 4)
    sample = torch.zeros(1, 1, 4, 4)
    with torch.no_grad():
        for i in range(4):
            for j in range(4):
                probs = F.softmax(net(sample)[:, :, i, j], dim=1).data
                sample[:, :, i, j] = torch.argmax(probs, dim=1).float() / 3.0
    return [*losses, *sums(sample, net[0].weight.detach())]


@program
def samples_after_samples():
    class Causal(nn.Conv1d):
        def __init__(self, i, o, k, dilation=1):
            super().__init__(i, o, k, dilation=dilation)
            self.left = (k - 1) * dilation

        def forward(self, x):
            return super().forward(F.pad(x, (self.left, 0)))

    class WaveNet(nn.Module):
        def __init__(self, channels=6, levels=16, blocks=2, layers=3):
            super().__init__()
            self.first, self.dilations = Causal(levels, channels, 2), [2**i for i in range(layers)] * blocks
            self.f = nn.ModuleList([Causal(channels, channels, 2, d) for d in self.dilations])
            self.g = nn.ModuleList([Causal(channels, channels, 2, d) for d in self.dilations])
            self.skip = nn.ModuleList([nn.Conv1d(channels, 8, 1) for _ in self.dilations])
            self.res = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in self.dilations])
            self.end1, self.end2 = nn.Conv1d(8, 8, 1), nn.Conv1d(8, levels, 1)

        def forward(self, x):
            x, total = self.first(x), 0
            for f, g, skip, res in zip(self.f, self.g, self.skip, self.res, strict=True):
                y = torch.tanh(f(x)) * torch.sigmoid(g(x))
                s = skip(y)
                try:
                    total = total[:, :, -s.size(2) :]
                except TypeError:
                    total = 0
                total, x = s + total, res(y) + x
            return self.end2(F.relu(self.end1(F.relu(total))))

    wave = torch.sin(torch.arange(2 * 33).float() * 0.37).view(2, 33)
    mu = torch.sign(wave) * torch.log1p(15 * torch.abs(wave)) / math.log(16)
    ids = ((mu + 1) / 2 * 15 + 0.5).to(torch.int64)
    hot = torch.zeros(2, 16, 33).scatter_(1, ids.unsqueeze(1), 1.0)
    model = fill(WaveNet())
    return fit(model, lambda: F.cross_entropy(model(hot[:, :, :-1]), ids[:, 1:]), 4)


@program
def capsules_by_routing():
    def squash(s, dim=-1):
        norm = torch.norm(s, dim=dim, keepdim=True)
        return (norm**2 / (1 + norm**2)) * s / (norm + 1e-8)

    class Capsules(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 8, 5)
            self.primary = nn.ModuleList([nn.Conv2d(8, 4, 5, 2) for _ in range(4)])
            self.w = nn.Parameter(torch.zeros(1, 4, 64, 6, 4))
            self.decoder = nn.Sequential(nn.Linear(24, 20), nn.ReLU(inplace=True), nn.Linear(20, 144), nn.Sigmoid())

        def forward(self, x, target):
            h = F.relu(self.conv(x))
            u = squash(torch.stack([c(h).view(len(x), -1) for c in self.primary], dim=-1))
            u = torch.cat([u, u, u, u], dim=1)[:, :64, None, :].transpose(1, 2).unsqueeze(-1)
            hat = torch.matmul(self.w, u).squeeze(-1)
            b, temp = torch.zeros(len(x), 4, 64, 1), hat.detach()
            for _ in range(2):
                v = squash((F.softmax(b, dim=1) * temp).sum(dim=2))
                b += torch.matmul(temp, v.unsqueeze(-1))
            v = squash((F.softmax(b, dim=1) * hat).sum(dim=2))
            length = torch.sqrt((v**2).sum(dim=2))
            mask = torch.eye(4).index_select(dim=0, index=target)
            loss = mask * F.relu(0.9 - length) ** 2 + 0.5 * (1 - mask) * F.relu(length - 0.1) ** 2
            rec = self.decoder((v * mask[:, :, None]).view(len(x), -1))
            return loss.sum(1).mean() + 0.0005 * F.mse_loss(rec, x.view(len(x), -1), reduction="sum")

    model, x, y = Capsules(), numbers(3, 1, 12, 12).abs(), torch.tensor([0, 2, 3])
    fill(model)
    return fit(model, lambda: model(x, y), 4)


@program
def style_moved_to_a_picture():
    class Content(nn.Module):
        def __init__(self, target):
            super().__init__()
            self.target = target.detach()

        def forward(self, x):
            self.loss = F.mse_loss(x, self.target)
            return x

    def gram(x):
        a, b, c, d = x.size()
        features = x.view(a * b, c * d)
        return torch.mm(features, features.t()).div(a * b * c * d)

    class Style(nn.Module):
        def __init__(self, target):
            super().__init__()
            self.target = gram(target).detach()

        def forward(self, x):
            self.loss = F.mse_loss(gram(x), self.target)
            return x

    cnn = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1)
    )
    fill(cnn).eval().requires_grad_(False)
    content, style = numbers(1, 3, 12, 12).abs(), numbers(1, 3, 12, 12).sin().abs()
    model, losses, i = nn.Sequential(), [], 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i, name = i + 1, f"conv_{i + 1}"
        else:
            name = f"{type(layer).__name__.lower()}_{i}"
            layer = nn.ReLU(inplace=False) if isinstance(layer, nn.ReLU) else layer
        model.add_module(name, layer)
        if name.startswith("conv"):
            for kind, image in ((Content, content), (Style, style)):
                losses.append(kind(model(image).detach()))
                model.add_module(f"{kind.__name__}_{i}", losses[-1])
    picture = content.clone().requires_grad_(True)
    optimizer, run = optim.LBFGS([picture]), [0]
    seen = []
    while run[0] <= 20:

        def closure():
            with torch.no_grad():
                picture.clamp_(0, 1)
            optimizer.zero_grad()
            model(picture)
            score = sum(x.loss * (1e3 if isinstance(x, Style) else 1) for x in losses)
            score.backward()
            run[0] += 1
            seen.append(score.item())
            return score

        optimizer.step(closure)
    return [*seen[:12], *sums(picture.clamp(0, 1))]


@program
def twins_and_triplets():
    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.cnn = nn.Sequential(
                nn.ReflectionPad2d(1), nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4), nn.MaxPool2d(2),
                nn.ReplicationPad2d(1), nn.Conv2d(4, 6, 3), nn.PReLU(), nn.AdaptiveAvgPool2d((2, 3)),
            )  # fmt: skip
            self.fc = nn.Sequential(nn.Linear(36, 8), nn.PReLU(8), nn.Linear(8, 4))

        def forward(self, x):
            return self.fc(self.cnn(x).view(x.size()[0], -1))

    class Pairs(Dataset):
        def __init__(self):
            self.images = numbers(12, 1, 10, 10)

        def __getitem__(self, i):
            j = (i * 5 + 3) % 12
            return self.images[i], self.images[j], torch.from_numpy(np.array([int(i % 3 != j % 3)], dtype=np.float32))

        def __len__(self):
            return len(self.images)

    model = fill(Siamese())
    optimizer, out = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True), []
    for a, b, label in DataLoader(Pairs(), batch_size=4, shuffle=False, num_workers=0):
        optimizer.zero_grad()
        distance = F.pairwise_distance(model(a), model(b), keepdim=True)
        loss = torch.mean(
            (1 - label) * torch.pow(distance, 2) + label * torch.pow(torch.clamp(2.0 - distance, min=0.0), 2)
        )
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    x = model(numbers(9, 1, 10, 10)).view(3, 3, -1)
    own = nn.TripletMarginWithDistanceLoss(distance_function=lambda u, v: 1 - F.cosine_similarity(u, v), margin=0.3)
    return [*out, *sums(nn.TripletMarginLoss(1.0, swap=True)(x[0], x[1], x[2]), own(x[0], x[1], x[2]))]


@program
def contrast_of_two_views():
    encoder = fill(nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8)))
    head = fill(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 6)))
    x, out = numbers(8, 10), []

    def nt_xent(features, temperature=0.5):
        n = len(features) // 2
        labels = torch.cat([torch.arange(n) for _ in range(2)], dim=0)
        labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
        features = F.normalize(features, dim=1)
        sim, mask = torch.matmul(features, features.T), torch.eye(2 * n, dtype=torch.bool)
        labels, sim = labels[~mask].view(2 * n, -1), sim[~mask].view(2 * n, -1)
        positives = sim[labels.bool()].view(2 * n, -1)
        negatives = sim[~labels.bool()].view(2 * n, -1)
        logits = torch.cat([positives, negatives], dim=1) / temperature
        return F.cross_entropy(logits, torch.zeros(2 * n, dtype=torch.long))

    def views():
        return (x + 0.1 * noise.randn(8, 10)).double(), (x * (1 + 0.1 * noise.randn(8, 10))).double()

    both = nn.ModuleList([encoder, head]).double()  # a batch norm of what is much the same makes much of the last bits
    out += fit(both, lambda: nt_xent(head(encoder(torch.cat(views())))), 3)
    predictor, target = fill(nn.Linear(6, 6)).double(), copy.deepcopy(nn.ModuleList([encoder, head]))
    for p in target.parameters():
        p.requires_grad = False
    params = [*encoder.parameters(), *head.parameters(), *predictor.parameters()]
    optimizer = optim.SGD(params, lr=0.1)
    for _ in range(3):
        a, b = views()
        online = [predictor(head(encoder(v))) for v in (a, b)]
        with torch.no_grad():
            goal = [target[1](target[0](v)) for v in (b, a)]
        loss = sum(
            (2 - 2 * (F.normalize(p, dim=-1, p=2) * F.normalize(g, dim=-1, p=2)).sum(-1)).mean()
            for p, g in zip(online, goal, strict=True)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for now, old in zip([*encoder.parameters(), *head.parameters()], target.parameters(), strict=True):
            old.data = old.data * 0.9 + now.data * (1 - 0.9)
        out.append(loss.item())
    return out


@program
def denoising_and_its_shortcut():
    class UNet(nn.Module):
        def __init__(self, c=8):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, c))
            self.down1, self.down2 = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, c, 3, stride=2, padding=1)
            self.norm, self.attn = nn.GroupNorm(4, c), nn.MultiheadAttention(c, 2, batch_first=True)
            self.up, self.out = nn.ConvTranspose2d(c, c, 4, 2, 1), nn.Conv2d(2 * c, 1, 3, padding=1)

        def forward(self, x, t):
            freq = torch.exp(-math.log(10000) * torch.arange(start=0, end=4, dtype=torch.float32) / 4)
            args = t[:, None].float() * freq[None]
            emb = self.time(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))
            a = F.silu(self.down1(x))
            h = self.norm(F.silu(self.down2(a)) + emb[:, :, None, None])
            b, c, hh, ww = h.shape
            s = h.reshape(b, c, hh * ww).permute(0, 2, 1)
            s = self.attn(s, s, s, need_weights=False)[0]
            return self.out(torch.cat([a, self.up(h + s.permute(0, 2, 1).reshape(b, c, hh, ww))], dim=1))

    steps = 20
    betas = torch.linspace(1e-4, 0.02, steps, dtype=torch.float64).float()
    bars = torch.cumprod(1 - betas, dim=0)
    previous = F.pad(bars[:-1], (1, 0), value=1.0)

    def extract(a, t, shape):
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    net, x = fill(UNet()), numbers(3, 1, 8, 8)
    x0 = x.clone()

    def loss():
        t, e = torch.from_numpy(noise.rng.integers(0, steps, 3)), noise.randn(*x0.shape)
        noisy = extract(bars.sqrt(), t, x0.shape) * x0 + extract((1 - bars).sqrt(), t, x0.shape) * e
        return F.smooth_l1_loss(net(noisy, t), e)

    out, x = fit(net, loss, 4), noise.randn(2, 1, 8, 8)
    with torch.no_grad():
        for i in reversed(range(steps)):
            t = torch.full((2,), i, dtype=torch.long)
            e = net(x, t)
            mean = (x - extract(betas, t, x.shape) * e / extract((1 - bars).sqrt(), t, x.shape)) / (
                1 - extract(betas, t, x.shape)
            ).sqrt()
            x = (
                mean
                if i == 0
                else mean + extract(betas * (1 - previous) / (1 - bars), t, x.shape).sqrt() * noise.randn(*x.shape)
            )
        y = noise.randn(2, 1, 8, 8)
        for now, then in zip(range(19, -1, -5), [*range(14, -1, -5), -1], strict=True):
            e = net(y, torch.full((2,), now))
            start = ((y - (1 - bars[now]).sqrt() * e) / bars[now].sqrt()).clamp(-1, 1)
            bar = bars[then] if then >= 0 else torch.tensor(1.0)
            y = bar.sqrt() * start + (1 - bar).sqrt() * e
    return [*out, *sums(x, y)]


@program
def straight_paths_of_noise():
    net = fill(nn.Sequential(nn.Linear(3, 24), nn.SiLU(), nn.Linear(24, 24), nn.SiLU(), nn.Linear(24, 2)))
    x1 = torch.stack([numbers(32), numbers(32).sin()], dim=1)

    def loss():
        x0, t = noise.randn(32, 2), torch.sigmoid(noise.randn(32, 1))
        xt = t * x1 + (1.0 - t) * x0
        return ((x1 - x0 - net(torch.cat([xt, t], dim=1))) ** 2).mean()

    out, z = fit(net, loss, 5), noise.randn(16, 2)
    with torch.no_grad():
        for i in range(8):
            z = z + net(torch.cat([z, torch.full((16, 1), i / 8)], dim=1)) / 8
    return [*out, *sums(z, z.abs())]


if __name__ == "__main__":
    run_programs()
