"""Classical statistics and kernels."""

import torch
import torch.nn.functional as F

from corpus.common import Draw, program


@program("statistics")
def k_means(device, small):
    """Lloyd's rounds: cdist, argmin, index_add and bincount."""
    points, clusters, width, rounds = (40, 4, 3, 3) if small else (20_000, 64, 32, 5)
    x = Draw(device).normal(points, width)

    def step():
        centres = x[:clusters]
        for _ in range(rounds):
            nearest = torch.cdist(x, centres).argmin(1)
            total = torch.zeros_like(centres).index_add_(0, nearest, x)
            count = torch.bincount(nearest, minlength=clusters).clamp(min=1)
            centres = total / count[:, None]
        return centres

    return step


@program("statistics")
def newton_logistic(device, small):
    """Logistic regression by Newton's steps with weights (iterated least squares)."""
    rows, width, rounds = (30, 3, 3) if small else (20_000, 64, 6)
    draw = Draw(device)
    x, y = draw.normal(rows, width), draw.integers(2, rows).float()

    def step():
        w = torch.zeros(width, device=device)
        for _ in range(rounds):
            p = torch.sigmoid(x @ w)
            hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * torch.eye(width, device=device)
            w = w + torch.linalg.solve(hessian, x.T @ (y - p) - 1e-3 * w)
        return w

    return step


@program("statistics")
def principal_components(device, small):
    """Principal components by subspace iteration with QR."""
    rows, width, count, rounds = (20, 6, 2, 3) if small else (5000, 256, 16, 10)
    draw = Draw(device)
    x, start = draw.normal(rows, width), draw.normal(width, count)

    def step():
        a = x - x.mean(0)
        q = start
        for _ in range(rounds):
            q, _ = torch.linalg.qr(a.T @ (a @ q))
        return (a @ q).var(0)

    return step


@program("statistics")
def gaussian_process(device, small):
    """The likelihood of a Gaussian process by Cholesky, with learned scales."""
    points, width = (12, 2) if small else (512, 4)
    draw = Draw(device)
    x, y = draw.normal(points, width), draw.normal(points)
    log_scale = torch.zeros(width, device=device, requires_grad=True)
    log_noise = torch.tensor(-1.0, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([log_scale, log_noise], lr=0.05)

    def step():
        z = x / log_scale.exp()
        kernel = torch.exp(-0.5 * (z[:, None] - z[None]).square().sum(-1))
        factor = torch.linalg.cholesky(kernel + log_noise.exp() * torch.eye(points, device=device))
        alpha = torch.cholesky_solve(y[:, None], factor)
        loss = 0.5 * (y[:, None] * alpha).sum() + factor.diagonal().log().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("statistics")
def kernel_density(device, small):
    """A density of many points at many others, logarithms summed over pairs."""
    points, places, width = (20, 10, 2) if small else (4096, 2048, 8)
    draw = Draw(device)
    x, q = draw.normal(points, width), draw.normal(places, width)

    def step():
        d = (q[:, None] - x[None]).square().sum(-1)
        return torch.logsumexp(-0.5 * d / 0.3**2, 1)

    return step


@program("statistics")
def tsne(device, small):
    """t-SNE's gradient steps with momentum (van der Maaten and Hinton, 2008)."""
    points, rounds = (12, 3) if small else (1000, 10)
    draw = Draw(device)
    x, start = draw.normal(points, 16), draw.normal(points, 2, scale=1e-2)
    off = 1 - torch.eye(points, device=device)

    def step():
        p = torch.softmax(-torch.cdist(x, x).square() / 10 - 1e9 * (1 - off), 1)
        p = ((p + p.T) / (2 * points)).clamp(min=1e-12)
        y, velocity = start, torch.zeros_like(start)
        for _ in range(rounds):
            near = off / (1 + (y[:, None] - y[None]).square().sum(-1))
            q = (near / near.sum()).clamp(min=1e-12)
            pull = (p - q) * near
            gradient = 4 * (pull.sum(1, keepdim=True) * y - pull @ y)
            velocity = 0.5 * velocity - 10 * gradient
            y = y + velocity
        return y

    return step


@program("statistics")
def bootstrap(device, small):
    """Intervals of a correlation by resampled rows."""
    rows, samples = (20, 8) if small else (1000, 2000)
    draw = Draw(device)
    data, chosen = draw.normal(rows, 2), draw.integers(rows, samples, rows)

    def step():
        taken = data[chosen]
        centred = taken - taken.mean(1, keepdim=True)
        covariance = (centred[..., 0] * centred[..., 1]).mean(1)
        r = covariance / centred.std(1, unbiased=False).prod(-1)
        return torch.quantile(r, torch.tensor([0.025, 0.5, 0.975], device=device))

    return step


@program("statistics")
def transport(device, small):
    """Sinkhorn's iterations for optimal transport, in logarithms."""
    n, rounds = (8, 5) if small else (512, 50)
    draw = Draw(device)
    x, y = draw.normal(n, 3), draw.normal(n, 3)

    def step():
        cost = torch.cdist(x, y).square() / 0.5
        f, g = torch.zeros(n, device=device), torch.zeros(n, device=device)
        for _ in range(rounds):
            f = -torch.logsumexp(g[None] - cost, 1)
            g = -torch.logsumexp(f[:, None] - cost, 0)
        return (torch.exp(f[:, None] + g[None] - cost) * cost).sum()

    return step


@program("statistics")
def time_warping(device, small):
    """A soft alignment of two series, cell by cell along diagonals (Cuturi and Blondel, 2017)."""
    batch, n = (2, 5) if small else (64, 40)
    draw = Draw(device)
    a, b = draw.normal(batch, n).requires_grad_(), draw.normal(batch, n)

    def step():
        d = (a[:, :, None] - b[:, None, :]).square()
        rows = [torch.full((batch,), 1e9, device=device)] * (n + 1)
        rows[0] = torch.zeros(batch, device=device)
        for i in range(n):
            after = [torch.full((batch,), 1e9, device=device)]
            for j in range(n):
                least = torch.stack((rows[j], rows[j + 1], after[j]))
                after.append(d[:, i, j] - torch.logsumexp(-least, 0))
            rows = after
        (g,) = torch.autograd.grad(rows[-1].sum(), a)
        return g

    return step


@program("statistics")
def support_vectors(device, small):
    """A linear classifier with a hinge loss by subgradients, a batch of rows after the other."""
    rows, width = (32, 4) if small else (8192, 128)
    draw = Draw(device)
    x, y = draw.normal(rows, width), draw.integers(2, rows).float() * 2 - 1
    w = torch.zeros(width, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.01, weight_decay=1e-3)

    def step():
        for rows_x, rows_y in zip(x.split(1000), y.split(1000)):
            optimizer.zero_grad()
            F.relu(1 - rows_y * (rows_x @ w)).mean().backward()
            optimizer.step()
        return w.detach().clone()

    return step
