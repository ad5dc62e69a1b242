"""Images."""

import torch
import torch.nn.functional as F
from torch import nn

from corpus.common import Draw, program, training


@program("vision")
def lenet(device, small):
    """Digits by a small convolutional net, with momentum."""
    batch = 4 if small else 128
    draw = Draw(device)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    draw.weights(model)
    x, y = draw.normal(batch, 1, 28, 28), draw.integers(10, batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return training(model, optimizer, lambda m: F.cross_entropy(m(x), y))


class Residual(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out)) + self.shortcut(x)
        return F.relu(out)


@program("vision")
def resnet(device, small):
    """A residual net for 32 x 32 images with batch norm, cosine schedule and weight decay."""
    batch, width = (2, 8) if small else (64, 16)
    draw = Draw(device)
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        Residual(width, width), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
    )  # fmt: skip
    draw.weights(model)
    x, y = draw.normal(batch, 3, 32, 32), draw.integers(10, batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    train = training(model, optimizer, lambda m: F.cross_entropy(m(x), y, label_smoothing=0.1))

    def step():
        loss = train()
        schedule.step()
        return loss

    return step


@program("vision")
def vit(device, small):
    """A vision transformer by nn.TransformerEncoder."""
    batch, width, layers = (2, 16, 1) if small else (32, 192, 4)
    draw = Draw(device)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, width, 4, 4)
            self.cls = nn.Parameter(torch.zeros(1, 1, width))
            self.position = nn.Parameter(torch.zeros(1, 65, width))
            layer = nn.TransformerEncoderLayer(
                width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.position
            return self.head(self.encoder(x)[:, 0])

    model = draw.weights(ViT())
    x, y = draw.normal(batch, 3, 32, 32), draw.integers(10, batch)
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-3), lambda m: F.cross_entropy(m(x), y))


@program("vision")
def unet(device, small):
    """Segmentation with skips by cat, and a Dice loss."""
    batch, width, n = (1, 4, 16) if small else (8, 16, 64)
    draw = Draw(device)

    def double(before, after):
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU(),
            nn.Conv2d(after, after, 3, padding=1), nn.SiLU(),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.d3 = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
            self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
            self.u2, self.u1 = double(4 * width, 2 * width), double(3 * width, width)
            self.out = nn.Conv2d(width, 1, 1)

        def forward(self, x):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            c = self.d3(F.max_pool2d(b, 2))
            y = self.u2(torch.cat((self.up2(c), b), 1))
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
            return self.out(self.u1(torch.cat((y, a), 1)))

    model = draw.weights(UNet())
    x, mask = draw.normal(batch, 3, n, n), draw.integers(2, batch, 1, n, n).float()

    def loss(m):
        p = torch.sigmoid(m(x))
        dice = 1 - (2 * (p * mask).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
        return dice.mean() + F.binary_cross_entropy(p, mask)

    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


@program("vision")
def swin(device, small):
    """Shifted windows with a relative bias and a mask (Liu et al., 2021)."""
    batch, n, width, heads, window = (1, 8, 8, 2, 4) if small else (8, 32, 96, 3, 8)
    draw = Draw(device)
    coordinates = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
    relative = (coordinates[:, :, None] - coordinates[:, None, :]).permute(1, 2, 0) + window - 1
    index = (relative[..., 0] * (2 * window - 1) + relative[..., 1]).to(device)

    class Block(nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.shift = shift
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def attention(self, x):
            q, k, v = self.qkv(x).view(x.shape[0], -1, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
            bias = self.table[index.view(-1)].view(window**2, window**2, heads).permute(2, 0, 1)
            y = (scores + bias).softmax(-1) @ v
            return self.proj(y.transpose(1, 2).reshape(x.shape[0], -1, width))

        def forward(self, x):
            h = self.norm1(x)
            if self.shift:
                h = torch.roll(h, (-self.shift, -self.shift), dims=(1, 2))
            w = h.view(batch, n // window, window, n // window, window, width).permute(0, 1, 3, 2, 4, 5)
            w = self.attention(w.reshape(-1, window**2, width))
            h = w.view(batch, n // window, n // window, window, window, width).permute(0, 1, 3, 2, 4, 5)
            h = h.reshape(batch, n, n, width)
            if self.shift:
                h = torch.roll(h, (self.shift, self.shift), dims=(1, 2))
            x = x + h
            return x + self.mlp(self.norm2(x))

    model = draw.weights(nn.Sequential(Block(0), Block(window // 2)))
    x = draw.normal(batch, n, n, width)
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-3), lambda m: m(x).square().mean())


@program("vision")
def contrastive(device, small):
    """NT-Xent of two views of a batch (Chen et al., 2020)."""
    batch, width = (4, 8) if small else (256, 128)
    draw = Draw(device)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, width),
    )  # fmt: skip
    draw.weights(model)
    one, two = draw.normal(batch, 3, 16, 16), draw.normal(batch, 3, 16, 16)

    def loss(m):
        z = F.normalize(torch.cat((m(one), m(two))), dim=1)
        scores = z @ z.T / 0.5
        scores.fill_diagonal_(float("-inf"))
        labels = (torch.arange(2 * batch, device=device) + batch) % (2 * batch)
        return F.cross_entropy(scores, labels)

    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


@program("vision")
def style_transfer(device, small):
    """An image whose features' Gram matrices become another's, by L-BFGS (Gatys et al., 2015)."""
    n = 16 if small else 96
    draw = Draw(device)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU())
    draw.weights(net).requires_grad_(False)
    style = draw.normal(1, 3, n, n)
    first = draw.normal(1, 3, n, n)

    def gram(x):
        f = net(x).flatten(2)
        return f @ f.transpose(1, 2) / f.shape[-1]

    def step():
        image = first.clone().requires_grad_()
        optimizer = torch.optim.LBFGS([image], max_iter=4)
        target = gram(style)

        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(gram(image), target)
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step


@program("generative")
def dcgan(device, small):
    """A generator and a discriminator with an optimizer each (Radford et al., 2015)."""
    batch, width = (2, 4) if small else (64, 32)
    draw = Draw(device)
    generator = nn.Sequential(
        nn.ConvTranspose2d(16, 2 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(2 * width, 1, 4), nn.Flatten(0),
    )  # fmt: skip
    draw.weights(generator), draw.weights(critic)
    real, z = draw.normal(batch, 1, 16, 16), draw.normal(batch, 16, 1, 1)
    ones, zeros = torch.ones(batch, device=device), torch.zeros(batch, device=device)
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()

    def step():
        of_critic.zero_grad()
        fake = generator(z)
        loss_critic = bce(critic(real), ones) + bce(critic(fake.detach()), zeros)
        loss_critic.backward()
        of_critic.step()
        of_generator.zero_grad()
        loss_generator = bce(critic(fake), ones)
        loss_generator.backward()
        of_generator.step()
        return torch.stack((loss_critic.detach(), loss_generator.detach()))

    return step
