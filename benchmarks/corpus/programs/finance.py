"""Prices, paths and portfolios."""

import math

import torch

from corpus.common import Draw, program


def normal_cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


@program("finance")
def black_scholes(device, small):
    """Call prices and their sensitivities, by formula."""
    n = 100 if small else 2**22
    draw = Draw(device)
    spot, strike = draw.uniform(n, low=50, high=150), draw.uniform(n, low=50, high=150)
    years, rate, vol = draw.uniform(n, low=0.1, high=2), 0.02, draw.uniform(n, low=0.1, high=0.5)

    def step():
        root = vol * torch.sqrt(years)
        d1 = (torch.log(spot / strike) + (rate + 0.5 * vol**2) * years) / root
        d2 = d1 - root
        discounted = strike * torch.exp(-rate * years)
        call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
        vega = spot * torch.exp(-0.5 * d1**2) / math.sqrt(2 * math.pi) * torch.sqrt(years)
        return torch.stack((call, normal_cdf(d1), vega))

    return step


@program("finance")
def asian_option(device, small):
    """An option on the mean of a path, by Monte Carlo, with its delta by autograd."""
    paths, times = (64, 8) if small else (65536, 128)
    noise = Draw(device).normal(paths, times)
    spot = torch.tensor(100.0, device=device, requires_grad=True)

    def step():
        dt = 1 / times
        steps = (0.01 - 0.5 * 0.2**2) * dt + 0.2 * math.sqrt(dt) * noise
        path = spot * torch.exp(torch.cumsum(steps, 1))
        price = math.exp(-0.01) * torch.relu(path.mean(1) - 100).mean()
        (delta,) = torch.autograd.grad(price, spot)
        return torch.stack((price.detach(), delta))

    return step


@program("finance")
def heston(device, small):
    """Paths of a Heston model, a loop over times with clamped variance."""
    paths, times = (50, 6) if small else (100_000, 60)
    draw = Draw(device)
    z1, z2 = draw.normal(times, paths), draw.normal(times, paths)

    def step():
        dt, rho = 1 / times, -0.7
        s = torch.full((paths,), 100.0, device=device)
        v = torch.full((paths,), 0.04, device=device)
        for t in range(times):
            w = rho * z1[t] + math.sqrt(1 - rho**2) * z2[t]
            v_plus = v.clamp(min=0)
            s = s * torch.exp(-0.5 * v_plus * dt + torch.sqrt(v_plus * dt) * z1[t])
            v = v + 2.0 * (0.04 - v_plus) * dt + 0.3 * torch.sqrt(v_plus * dt) * w
        return torch.maximum(s - 100, torch.zeros_like(s)).mean()

    return step


@program("finance")
def binomial_tree(device, small):
    """An American put on a binomial tree: a vector that gets shorter each step."""
    n, options = (12, 3) if small else (256, 512)
    strike = Draw(device).uniform(options, 1, low=80, high=120)
    up = math.exp(0.2 * math.sqrt(1 / n))
    p = (math.exp(0.03 / n) - 1 / up) / (up - 1 / up)
    nodes = torch.arange(n + 1, device=device, dtype=torch.float32)

    def step():
        price = 100 * up ** (2 * nodes - n)
        value = (strike - price).clamp(min=0)
        for _i in range(n, 0, -1):
            value = math.exp(-0.03 / n) * (p * value[:, 1:] + (1 - p) * value[:, :-1])
            price = price[1:] / up
            value = torch.maximum(value, strike - price)
        return value

    return step


@program("finance")
def portfolio(device, small):
    """Weights that maximize a Sharpe ratio, by Adam over a softmax."""
    days, assets = (30, 5) if small else (2520, 500)
    returns = Draw(device).normal(days, assets, scale=0.01) + 0.0003
    logits = torch.zeros(assets, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.05)

    def step():
        optimizer.zero_grad()
        daily = returns @ torch.softmax(logits, 0)
        loss = -daily.mean() / daily.std()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
