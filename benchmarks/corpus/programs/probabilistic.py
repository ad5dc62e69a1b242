"""Distributions, samplers and generative models."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from corpus.common import Draw, mlp, program, training


@program("generative")
def vae(device, small):
    """A variational autoencoder with noise made beforehand (Kingma and Welling, 2014)."""
    batch = 4 if small else 128
    draw = Draw(device)
    model = draw.weights(nn.ModuleDict({"encode": mlp(784, 400, 40), "decode": mlp(20, 400, 784)}))
    x, noise = draw.uniform(batch, 784), draw.normal(batch, 20)

    def loss(m):
        mean, log_variance = m["encode"](x).chunk(2, -1)
        z = mean + torch.exp(0.5 * log_variance) * noise
        likelihood = F.binary_cross_entropy_with_logits(m["decode"](z), x, reduction="sum")
        return likelihood - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())

    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


@program("generative")
def flow(device, small):
    """Coupling layers of RealNVP (Dinh et al., 2017)."""
    batch, layers = (8, 2) if small else (4096, 8)
    draw = Draw(device)
    model = draw.weights(nn.ModuleList(mlp(1, 64, 2, activation=nn.Tanh) for _ in range(layers)))
    x = draw.normal(batch, 2)

    def loss(m):
        a, b, log_det = x[:, :1], x[:, 1:], 0.0
        for net in m:
            s, t = net(a).chunk(2, 1)
            s = torch.tanh(s)
            a, b, log_det = b * s.exp() + t, a, log_det + s.squeeze(1)
        z = torch.cat((a, b), 1)
        return -(-0.5 * z.square().sum(1) - math.log(2 * math.pi) + log_det).mean()

    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


@program("probabilistic")
def hamiltonian(device, small):
    """Hamiltonian Monte Carlo for a logistic regression, accepted where a number says so."""
    rows, width, leaps = (20, 3, 3) if small else (5000, 25, 10)
    draw = Draw(device)
    x, y, momentum, chance = (
        draw.normal(rows, width),
        draw.integers(2, rows).float(),
        draw.normal(width),
        draw.uniform(1),
    )
    theta0 = torch.zeros(width, device=device)

    def energy(theta):
        return F.binary_cross_entropy_with_logits(x @ theta, y, reduction="sum") + 0.5 * theta.square().sum()

    def gradient(theta):
        theta = theta.detach().requires_grad_()
        return torch.autograd.grad(energy(theta), theta)[0]

    def step():
        theta, p = theta0, momentum
        p = p - 0.005 * gradient(theta)
        for i in range(leaps):
            theta = theta + 0.01 * p
            p = p - (0.01 if i + 1 < leaps else 0.005) * gradient(theta)
        rise = energy(theta) + 0.5 * p.square().sum() - energy(theta0) - 0.5 * momentum.square().sum()
        return torch.where(chance < torch.exp(-rise), theta, theta0)

    return step


@program("probabilistic")
def mixture(device, small):
    """A Gaussian mixture by expectation and maximization, ten rounds."""
    points, clusters, width, rounds = (30, 3, 2, 3) if small else (50_000, 16, 8, 10)
    draw = Draw(device)
    x, start = draw.normal(points, width), draw.normal(clusters, width)

    def step():
        mean, variance = start, torch.ones(clusters, width, device=device)
        weight = torch.full((clusters,), 1 / clusters, device=device)
        for _ in range(rounds):
            d = (x[:, None] - mean).square() / variance
            log = weight.log() - 0.5 * (d + variance.log()).sum(-1)
            r = torch.softmax(log, 1)
            n = r.sum(0)
            mean = r.T @ x / n[:, None]
            variance = (r.T @ x.square() / n[:, None] - mean.square()).clamp(min=1e-4)
            weight = n / points
        return torch.cat((mean.flatten(), variance.flatten(), weight))

    return step


@program("probabilistic")
def variational_regression(device, small):
    """Bayesian regression by torch.distributions: reparametrized samples and a divergence."""
    rows, width = (16, 4) if small else (4096, 64)
    draw = Draw(device)
    x, y, noise = draw.normal(rows, width), draw.normal(rows), draw.normal(width)
    mean = torch.zeros(width, device=device, requires_grad=True)
    rho = torch.full((width,), -3.0, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([mean, rho], lr=0.01)
    normal = torch.distributions.Normal

    def step():
        optimizer.zero_grad()
        scale = F.softplus(rho)
        w = mean + scale * noise
        likelihood = normal(x @ w, 0.5).log_prob(y).sum()
        prior = normal(torch.zeros_like(mean), torch.ones_like(mean))
        loss = torch.distributions.kl_divergence(normal(mean, scale), prior).sum() - likelihood
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("generative")
def diffusion(device, small):
    """A step of training a denoiser with the noise schedule of DDPM (Ho et al., 2020), and an average of weights."""
    batch, width = (4, 16) if small else (256, 256)
    draw = Draw(device)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device=device), 0)
    model, average = draw.weights(mlp(2 * 32 + 32, width, width, 64, activation=nn.SiLU)), []
    average = [p.detach().clone() for p in model.parameters()]
    x, noise, t = draw.normal(batch, 64), draw.normal(batch, 64), draw.integers(1000, batch)
    frequency = torch.exp(-math.log(10000) * torch.arange(16, device=device) / 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        a = kept[t][:, None]
        angle = t[:, None].float() * frequency
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        loss = F.mse_loss(model(torch.cat((noisy, angle.sin(), angle.cos()), 1)), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for old, new in zip(average, model.parameters()):
            old.lerp_(new.detach(), 0.01)
        return torch.stack((loss.detach(), average[0].sum()))

    return step


@program("generative")
def wasserstein_critic(device, small):
    """A critic with a gradient penalty, which needs second derivatives (Gulrajani et al., 2017)."""
    batch = 4 if small else 256
    draw = Draw(device)
    critic = draw.weights(mlp(64, 256, 256, 1, activation=nn.LeakyReLU))
    real, fake, mix = draw.normal(batch, 64), draw.normal(batch, 64), draw.uniform(batch, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))

    def loss(m):
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (g,) = torch.autograd.grad(m(between).sum(), between, create_graph=True)
        return m(fake).mean() - m(real).mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()

    return training(critic, optimizer, loss)


@program("probabilistic")
def hidden_markov(device, small):
    """Forward and backward passes of a hidden Markov model in logarithms, learned by gradients."""
    batch, length, states = (2, 6, 3) if small else (64, 100, 32)
    draw = Draw(device)
    first, move, emit = (draw.normal(*s).requires_grad_() for s in ((states,), (states, states), (states, 50)))
    seen = draw.integers(50, batch, length)
    optimizer = torch.optim.Adam([first, move, emit], lr=0.01)

    def step():
        transition, symbols = move.log_softmax(1), emit.log_softmax(1)
        alpha = first.log_softmax(0) + symbols[:, seen[:, 0]].T
        for t in range(1, length):
            alpha = torch.logsumexp(alpha[:, :, None] + transition, 1) + symbols[:, seen[:, t]].T
        loss = -torch.logsumexp(alpha, 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
