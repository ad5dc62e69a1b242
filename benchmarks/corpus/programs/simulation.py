"""Physics on grids and of particles."""

import math

import torch
import torch.nn.functional as F

from corpus.common import Draw, program


@program("simulation")
def heat(device, small):
    """Heat on a periodic grid, 100 explicit steps by rolls."""
    n, steps = (32, 10) if small else (1024, 100)
    start = Draw(device).uniform(n, n)

    def step():
        u = start
        for _ in range(steps):
            neighbours = torch.roll(u, 1, 0) + torch.roll(u, -1, 0) + torch.roll(u, 1, 1) + torch.roll(u, -1, 1)
            u = u + 0.1 * (neighbours - 4 * u)
        return u

    return step


@program("simulation")
def wave(device, small):
    """A wave with reflecting walls: a Laplacian by convolution, leapfrog in time."""
    n, steps = (24, 8) if small else (512, 50)
    u0 = torch.zeros(1, 1, n, n, device=device)
    u0[..., n // 2, n // 3] = 1.0
    kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]], device=device)[None, None]

    def step():
        before, now = u0, u0
        for _ in range(steps):
            before, now = now, 2 * now - before + 0.2 * F.conv2d(now, kernel, padding=1)
        return now

    return step


@program("simulation")
def life(device, small):
    """Conway's game of life on a torus, with masks."""
    n, steps = (16, 6) if small else (1024, 20)
    board = Draw(device).integers(2, n, n).bool()

    def step():
        alive = board
        for _ in range(steps):
            cells = alive.to(torch.int32)
            count = sum(
                torch.roll(cells, (i, j), dims=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
            )
            alive = (count == 3) | (alive & (count == 2))
        return alive.float().sum()

    return step


@program("simulation")
def nbody(device, small):
    """Gravity between all pairs with softening, leapfrog."""
    n, steps = (32, 3) if small else (2048, 10)
    draw = Draw(device)
    x0, v0, mass = draw.normal(n, 3), draw.normal(n, 3, scale=0.1), draw.uniform(n, low=0.5, high=1.5)

    def force(x):
        d = x[None, :, :] - x[:, None, :]
        r3 = (d.square().sum(-1) + 1e-2).pow(-1.5)
        return (d * (r3 * mass[None, :])[..., None]).sum(1) / n

    def step():
        x, v = x0, v0
        a = force(x)
        for _ in range(steps):
            v = v + 0.005 * a
            x = x + 0.01 * v
            a = force(x)
            v = v + 0.005 * a
        return x

    return step


@program("simulation")
def lattice_boltzmann(device, small):
    """Flow around a cylinder, D2Q9, with bounce-back (after Latt's classic script)."""
    nx, ny, steps = (32, 16, 4) if small else (420, 180, 20)
    velocity = torch.tensor([(x, y) for x in (0, -1, 1) for y in (0, -1, 1)], device=device)
    weight = torch.tensor([4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 9, 1 / 36, 1 / 36], device=device)
    opposite = [0, 2, 1, 6, 8, 7, 3, 5, 4]
    grid_x, grid_y = torch.meshgrid(torch.arange(nx, device=device), torch.arange(ny, device=device), indexing="ij")
    wall = (grid_x - nx // 4) ** 2 + (grid_y - ny // 2) ** 2 < (ny // 9) ** 2
    c = velocity.float()

    def equilibrium(rho, u):
        cu = 3.0 * torch.einsum("qd,dxy->qxy", c, u)
        return rho * weight[:, None, None] * (1 + cu + 0.5 * cu**2 - 1.5 * (u**2).sum(0))

    start = equilibrium(
        torch.ones(nx, ny, device=device),
        torch.stack((torch.full((nx, ny), 0.04, device=device), 0.001 * torch.sin(grid_y / ny * 6.28))),
    )
    shifts = [(x, y) for x in (0, -1, 1) for y in (0, -1, 1)]

    def step():
        f = start
        for _ in range(steps):
            rho = f.sum(0)
            u = torch.einsum("qd,qxy->dxy", c, f) / rho
            after = f - 1.2 * (f - equilibrium(rho, u))
            after = torch.where(wall, f[opposite], after)
            f = torch.stack([torch.roll(after[q], shifts[q], dims=(0, 1)) for q in range(9)])
        return f

    return step


@program("chemistry")
def molecules(device, small):
    """Lennard-Jones liquid in a periodic box, forces by the gradient of the energy."""
    n, steps = (27, 2) if small else (512, 5)
    side = round(n ** (1 / 3))
    box = side * 1.2
    lattice = torch.stack(torch.meshgrid(*[torch.arange(side, device=device)] * 3, indexing="ij"), -1).reshape(-1, 3)
    x0 = lattice * 1.2 + Draw(device).normal(n, 3, scale=0.02)
    pairs = torch.triu_indices(n, n, 1, device=device)

    def energy(x):
        d = x[pairs[0]] - x[pairs[1]]
        d = d - box * torch.round(d / box)
        s6 = (1 / (d * d).sum(-1)) ** 3
        return 4 * (s6 * s6 - s6).sum()

    def step():
        x, v = x0, torch.zeros_like(x0)
        for _ in range(steps):
            x = x.detach().requires_grad_()
            (g,) = torch.autograd.grad(energy(x), x)
            v = v - 0.001 * g
            x = (x + 0.001 * v).detach()
        return x

    return step


@program("simulation")
def ising(device, small):
    """Metropolis sweeps of an Ising model on a checkerboard, with random numbers made beforehand."""
    n, sweeps = (16, 4) if small else (512, 20)
    draw = Draw(device)
    spins = draw.integers(2, n, n).float() * 2 - 1
    chance = draw.uniform(sweeps, 2, n, n)
    rows = torch.arange(n, device=device)
    black = (rows[:, None] + rows[None, :]) % 2 == 0

    def step():
        s = spins.clone()
        for t in range(sweeps):
            for colour, mask in enumerate((black, ~black)):
                field = s.roll(1, 0) + s.roll(-1, 0) + s.roll(1, 1) + s.roll(-1, 1)
                flip = mask & (chance[t, colour] < torch.exp(-0.88 * s * field))
                s = torch.where(flip, -s, s)
        return s.mean()

    return step


@program("simulation")
def maxwell(device, small):
    """Finite differences in time for Maxwell's equations in two dimensions, written in place by slices."""
    n, steps = (24, 6) if small else (512, 50)
    source = (n // 2, n // 2)

    def step():
        ez, hx, hy = (
            torch.zeros(n, n, device=device),
            torch.zeros(n, n - 1, device=device),
            torch.zeros(n - 1, n, device=device),
        )
        for t in range(steps):
            hx -= 0.5 * (ez[:, 1:] - ez[:, :-1])
            hy += 0.5 * (ez[1:, :] - ez[:-1, :])
            ez[1:-1, 1:-1] += 0.5 * ((hy[1:, 1:-1] - hy[:-1, 1:-1]) - (hx[1:-1, 1:] - hx[1:-1, :-1]))
            ez[source] += 1.0 / (1 + t)
        return ez

    return step


@program("simulation")
def schrodinger(device, small):
    """A wave packet in a parabola, by half steps in position and steps in momentum (Feit, Fleck and Steiger, 1982)."""
    points, turns, dt = (64, 3, 0.05) if small else (1024, 100, 0.01)
    x = torch.linspace(-10, 10, points, device=device)
    k = 2 * math.pi * torch.fft.fftfreq(points, 20 / points, device=device)
    potential, kinetic = torch.exp(-0.25j * dt * x**2), torch.exp(-0.5j * dt * k**2)
    psi = torch.exp(-((x + 3) ** 2) + 2j * x)

    def step():
        nonlocal psi
        for _ in range(turns):
            psi = potential * torch.fft.ifft(kinetic * torch.fft.fft(potential * psi))
        return psi.abs() ** 2

    return step


@program("simulation")
def reaction_diffusion(device, small):
    """Two substances of which one feeds on the other (Gray and Scott, 1984): spots that divide."""
    size, turns = (12, 4) if small else (256, 50)
    u, v = torch.ones(1, 1, size, size, device=device), torch.zeros(1, 1, size, size, device=device)
    middle = slice(size // 3, size // 2)
    u[..., middle, middle], v[..., middle, middle] = 0.5, 0.25
    around = torch.tensor([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]], device=device)[None, None]

    def spread(t):
        return F.conv2d(F.pad(t, (1, 1, 1, 1), mode="circular"), around)

    def step():
        nonlocal u, v
        for _ in range(turns):
            eaten = u * v * v
            u, v = u + 0.16 * spread(u) - eaten + 0.035 * (1 - u), v + 0.08 * spread(v) + eaten - 0.095 * v
        return v

    return step
