"""Evolution strategies, meta-learning and other ways to learn."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

from corpus.common import Draw, mlp, program


@program("evolution")
def evolution_strategy(device, small):
    """Weights moved along random directions that did well, with ranks (Salimans et al., 2017)."""
    population, width = (6, 8) if small else (512, 64)
    draw = Draw(device)
    noise = draw.normal(population, width * 4 + width)
    x, y = draw.normal(32, 4), draw.normal(32)

    def fitness(theta):
        w1, w2 = theta[:, : width * 4].view(-1, 4, width), theta[:, width * 4 :]
        out = torch.einsum("pnw,pw->pn", torch.tanh(torch.einsum("ni,piw->pnw", x, w1)), w2)
        return -(out - y).square().mean(1)

    def step():
        theta = torch.zeros(width * 5, device=device)
        for _ in range(5):
            score = fitness(theta + 0.1 * noise)
            rank = score.argsort().argsort().float() / (population - 1) - 0.5
            theta = theta + 0.5 * (rank[:, None] * noise).mean(0)
        return theta

    return step


@program("evolution")
def differential_evolution(device, small):
    """Differential evolution on Rastrigin's function, with partners made beforehand."""
    population, width, rounds = (8, 3, 4) if small else (1024, 32, 50)
    draw = Draw(device)
    start = draw.uniform(population, width, low=-5, high=5)
    partners = draw.integers(population, rounds, 3, population)
    crossing = draw.uniform(rounds, population, width)

    def height(x):
        return 10 * width + (x**2 - 10 * torch.cos(2 * torch.pi * x)).sum(1)

    def step():
        x = start
        h = height(x)
        for t in range(rounds):
            a, b, c = x[partners[t]]
            trial = torch.where(crossing[t] < 0.9, a + 0.8 * (b - c), x)
            new = height(trial)
            better = new < h
            x, h = torch.where(better[:, None], trial, x), torch.where(better, new, h)
        return h.sort().values

    return step


@program("meta-learning")
def maml(device, small):
    """Gradients through an inner step of gradients, task by task (Finn et al., 2017)."""
    tasks, shots = (2, 3) if small else (8, 10)
    draw = Draw(device)
    model = draw.weights(mlp(1, 40, 40, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    phase, x, q = draw.uniform(tasks, 1, 1, high=3.14), draw.normal(tasks, shots, 1), draw.normal(tasks, shots, 1)

    def step():
        optimizer.zero_grad()
        loss = 0.0
        for task in range(tasks):
            names = dict(model.named_parameters())
            inner = F.mse_loss(functional_call(model, names, (x[task],)), torch.sin(x[task] + phase[task]))
            grads = torch.autograd.grad(inner, tuple(names.values()), create_graph=True)
            fast = {n: p - 0.1 * g for (n, p), g in zip(names.items(), grads)}
            loss = loss + F.mse_loss(functional_call(model, fast, (q[task],)), torch.sin(q[task] + phase[task]))
        (loss / tasks).backward()
        optimizer.step()
        return loss.detach()

    return step


@program("meta-learning")
def gradients_of_samples(device, small):
    """The gradient of each sample by vmap of grad, clipped and averaged, as private training has it."""
    batch = 4 if small else 256
    draw = Draw(device)
    model = draw.weights(mlp(64, 128, 10))
    x, y = draw.normal(batch, 64), draw.integers(10, batch)
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(p, a, b):
        return F.cross_entropy(functional_call(model, p, (a[None],)), b[None])

    def step():
        grads = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
        norm = torch.sqrt(sum(g.flatten(1).square().sum(1) for g in grads.values()))
        scale = (1.0 / norm).clamp(max=1.0)
        return torch.cat([torch.einsum("b,b...->...", scale, g).flatten() / batch for g in grads.values()])

    return step


@program("meta-learning")
def ensemble(device, small):
    """Many nets at once by vmap over stacked weights."""
    count, batch = (3, 4) if small else (32, 64)
    draw = Draw(device)
    models = [draw.weights(mlp(32, 64, 10)) for _ in range(count)]
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0])
    x = draw.normal(batch, 32)

    def step():
        out = vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers)
        return out.softmax(-1).mean(0).detach()

    return step


@program("equations")
def neural_ode(device, small):
    """A neural differential equation by Runge and Kutta's steps, trained through them."""
    batch, times = (4, 3) if small else (256, 20)
    draw = Draw(device)
    field = draw.weights(mlp(2, 64, 2, activation=nn.Tanh))
    start, end = draw.normal(batch, 2), draw.normal(batch, 2)
    optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)

    def step():
        y, h = start, 1 / times
        for _ in range(times):
            k1 = field(y)
            k2 = field(y + h / 2 * k1)
            k3 = field(y + h / 2 * k2)
            k4 = field(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        loss = (y - end).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("equations")
def physics_informed(device, small):
    """Burgers' equation by a net whose derivatives are in its loss (Raissi et al., 2019)."""
    points = 16 if small else 4096
    draw = Draw(device)
    net = draw.weights(mlp(2, 32, 32, 32, 1, activation=nn.Tanh))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x0, t0 = draw.uniform(points, 1, low=-1), draw.uniform(points, 1)

    def step():
        x, t = x0.clone().requires_grad_(), t0.clone().requires_grad_()
        u = net(torch.cat((x, t), 1))
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        first = net(torch.cat((x0, torch.zeros_like(x0)), 1))
        loss = (u_t + u * u_x - 0.01 / torch.pi * u_xx).square().mean()
        loss = loss + (first + torch.sin(torch.pi * x0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("equations")
def jacobians(device, small):
    """The Jacobian of a net at many points by vmap of jacrev, and its volumes."""
    batch = 4 if small else 512
    draw = Draw(device)
    net = draw.weights(mlp(3, 64, 3, activation=nn.Tanh))
    x = draw.normal(batch, 3)

    def step():
        return torch.linalg.det(vmap(jacrev(net))(x)).detach()

    return step


@program("learning")
def sharpness_aware(device, small):
    """Two gradients a step, the second where the loss is worst nearby (Foret et al., 2021)."""
    batch = 4 if small else 256
    draw = Draw(device)
    model = draw.weights(mlp(128, 256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = draw.normal(batch, 128), draw.integers(10, batch)

    def step():
        F.cross_entropy(model(x), y).backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm() + 1e-12
        moves = []
        with torch.no_grad():
            for p in model.parameters():
                moves.append(p.grad * (0.05 / norm))
                p.add_(moves[-1])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), moves):
                p.sub_(e)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


@program("learning")
def distillation(device, small):
    """A small net that learns from a large one's softened scores, with accumulated gradients."""
    batch = 4 if small else 64
    draw = Draw(device)
    teacher = draw.weights(mlp(64, 512, 512, 10)).eval()
    student = draw.weights(mlp(64, 64, 10))
    optimizer = torch.optim.NAdam(student.parameters(), lr=1e-3)
    x, y = draw.normal(4, batch, 64), draw.integers(10, 4, batch)

    def step():
        optimizer.zero_grad()
        total = 0.0
        for part in range(4):
            with torch.no_grad():
                soft = F.log_softmax(teacher(x[part]) / 2, -1)
            scores = student(x[part])
            loss = F.kl_div(F.log_softmax(scores / 2, -1), soft, log_target=True, reduction="batchmean")
            loss = (loss + F.cross_entropy(scores, y[part])) / 4
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return step


@program("learning")
def many_small_nets(device, small):
    """Many nets with a loss, an optimizer and one clipping for all."""
    count = 3 if small else 64
    draw = Draw(device)
    nets = draw.weights(nn.ModuleList(mlp(8, 16, 1) for _ in range(count)))
    optimizer = torch.optim.Adam(nets.parameters(), lr=1e-3)
    x, y = draw.normal(32, 8), draw.normal(32, 1)

    def step():
        optimizer.zero_grad()
        loss = torch.stack([F.mse_loss(net(x), y) for net in nets]).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(nets.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


@program("optimization")
def rotated_adam(device, small):
    """Adam in the directions of Shampoo's matrices (Vyas et al., 2024), whose state is turned there and back each step."""
    batch, width, every = (6, 5, 2) if small else (256, 128, 10)
    draw = Draw(device)
    model = draw.weights(mlp(width, width, 8, activation=nn.Tanh))
    x, y = draw.normal(batch, width), draw.normal(batch, 8)
    state = {}

    def turned(tensor, bases, back=False):
        for basis in bases:
            if basis is None:
                tensor = tensor.permute([*range(1, tensor.dim()), 0])
            else:
                tensor = torch.tensordot(tensor, basis, dims=[[0], [1 if back else 0]])
        return tensor

    def update(p):
        if p not in state:
            state[p] = [
                0,
                torch.zeros_like(p),
                torch.zeros_like(p),
                [torch.eye(n, device=device) for n in p.shape],
                None,
            ]
        count, mean, square, sums, bases = state[p]
        for i, s in enumerate(sums):
            others = [j for j in range(p.dim()) if j != i]
            s.lerp_(torch.tensordot(p.grad, p.grad, dims=[others, others]), 0.05)
        if count % every == 0:
            bases = [torch.linalg.qr(s)[0] if p.dim() > 1 else None for s in sums]
        grad = turned(p.grad, bases)
        mean.mul_(0.95).add_(grad, alpha=0.05)
        square.mul_(0.95).addcmul_(grad, grad, value=0.05)
        count += 1
        size = 1e-2 * math.sqrt(1 - 0.95**count) / (1 - 0.95**count)
        p.add_(turned(mean / (square.sqrt() + 1e-8), bases, back=True), alpha=-size)
        state[p] = [count, turned(turned(mean, bases, back=True), bases), square, sums, bases]

    def step():
        loss = F.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                update(p)
        return loss.detach()

    return step
