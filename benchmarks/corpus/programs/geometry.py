"""Points, rays and surfaces."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from corpus.common import Draw, mlp, program, training


@program("geometry")
def radiance_field(device, small):
    """A NeRF: positions encoded, an MLP, and volume rendering along rays (Mildenhall et al., 2020)."""
    rays, samples, width = (4, 6, 16) if small else (512, 64, 128)
    draw = Draw(device)
    model = draw.weights(mlp(3 + 3 * 2 * 6, width, width, width, 4))
    origin, direction = draw.normal(rays, 3), F.normalize(draw.normal(rays, 3), dim=-1)
    colour = draw.uniform(rays, 3)
    depth = torch.linspace(2, 6, samples, device=device)
    bands = 2.0 ** torch.arange(6, device=device)

    def encode(x):
        scaled = (x[..., None] * bands).flatten(-2)
        return torch.cat((x, scaled.sin(), scaled.cos()), -1)

    def loss(m):
        points = origin[:, None] + direction[:, None] * depth[:, None]
        out = m(encode(points))
        rgb, density = torch.sigmoid(out[..., :3]), F.relu(out[..., 3])
        alpha = 1 - torch.exp(-density * (depth[1] - depth[0]))
        through = torch.cumprod(torch.cat((torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10), -1), -1)[:, :-1]
        return F.mse_loss(((alpha * through)[..., None] * rgb).sum(1), colour)

    return training(model, torch.optim.Adam(model.parameters(), lr=5e-4), loss)


@program("point clouds")
def chamfer(device, small):
    """Points moved so that two clouds' nearest distances shrink."""
    batch, points = (1, 10) if small else (8, 1024)
    draw = Draw(device)
    moved, fixed = draw.normal(batch, points, 3).requires_grad_(), draw.normal(batch, points, 3)
    optimizer = torch.optim.Adam([moved], lr=0.01)

    def step():
        d = torch.cdist(moved, fixed)
        loss = d.min(2).values.mean() + d.min(1).values.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("point clouds")
def registration(device, small):
    """Iterated closest points with the best rotation by a singular value decomposition."""
    points, rounds = (12, 2) if small else (2000, 10)
    draw = Draw(device)
    target = draw.normal(points, 3)
    angle = 0.2
    turn = torch.tensor(
        [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]], device=device
    )
    source = target @ turn.T + 0.1

    def step():
        x = source
        for _ in range(rounds):
            nearest = target[torch.cdist(x, target).argmin(1)]
            a, b = x - x.mean(0), nearest - nearest.mean(0)
            u, _, vh = torch.linalg.svd(a.T @ b)
            sign = torch.sign(torch.linalg.det(u @ vh))
            u = torch.cat((u[:, :2], u[:, 2:] * sign), 1)
            x = a @ u @ vh + nearest.mean(0)
        return x

    return step


@program("geometry")
def sphere_tracing(device, small):
    """Rays marched through a signed distance with normals by autograd, and a shaded picture."""
    n, marches = (8, 6) if small else (256, 40)
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, n, device=device), torch.linspace(-1, 1, n, device=device), indexing="ij"
    )
    direction = F.normalize(torch.stack((x, y, torch.full_like(x, 1.5)), -1), dim=-1)
    eye = torch.tensor([0.0, 0.0, -3.0], device=device)

    def distance(p):
        ball = p.norm(dim=-1) - 1
        box = (p - 0.5).abs() - 0.4
        box = box.clamp(min=0).norm(dim=-1) + box.amax(-1).clamp(max=0)
        return torch.minimum(ball, box)

    def step():
        depth = torch.zeros(n, n, device=device)
        for _ in range(marches):
            depth = depth + distance(eye + direction * depth[..., None])
        point = (eye + direction * depth[..., None]).detach().requires_grad_()
        (normal,) = torch.autograd.grad(distance(point).sum(), point)
        light = F.normalize(torch.tensor([1.0, 1.0, -1.0], device=device), dim=0)
        return torch.where(depth < 10, (F.normalize(normal, dim=-1) @ light).clamp(min=0), torch.zeros_like(depth))

    return step


@program("geometry")
def mesh_smoothing(device, small):
    """Laplacian smoothing of a mesh by neighbours with index_add, and areas by cross products."""
    n, rounds = (4, 3) if small else (200, 10)
    grid = torch.arange(n * n, device=device).view(n, n)
    a, b, c = grid[:-1, :-1].flatten(), grid[1:, :-1].flatten(), grid[:-1, 1:].flatten()
    faces = torch.stack((a, b, c), 1)
    edges = torch.cat((faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]))
    edges = torch.cat((edges, edges.flip(1)))
    start = Draw(device).normal(n * n, 3)

    def step():
        v = start
        degree = torch.zeros(n * n, 1, device=device).index_add_(
            0, edges[:, 0], torch.ones(len(edges), 1, device=device)
        )
        for _ in range(rounds):
            total = torch.zeros_like(v).index_add_(0, edges[:, 0], v[edges[:, 1]])
            v = v + 0.5 * (total / degree.clamp(min=1) - v)
        p, q, r = v[faces].unbind(1)
        return torch.linalg.cross(q - p, r - p).norm(dim=1).sum() / 2

    return step


@program("geometry")
def pose_of_quaternions(device, small):
    """A camera's pose from points it sees, by gradients through a quaternion."""
    points, steps = (8, 3) if small else (5000, 20)
    draw = Draw(device)
    world, seen = draw.normal(points, 3), draw.normal(points, 2)

    def step():
        q = torch.tensor([1.0, 0.0, 0.0, 0.0], device=device, requires_grad=True)
        t = torch.tensor([0.0, 0.0, 5.0], device=device, requires_grad=True)
        optimizer = torch.optim.Adam([q, t], lr=0.05)
        for _ in range(steps):
            w, x, y, z = F.normalize(q, dim=0).unbind()
            rotation = torch.stack(
                (
                    torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y))),
                    torch.stack((2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x))),
                    torch.stack((2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))),
                )
            )
            p = world @ rotation.T + t
            loss = F.huber_loss(p[:, :2] / p[:, 2:].clamp(min=0.1), seen)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return torch.cat((q, t)).detach()

    return step


@program("point clouds")
def point_net(device, small):
    """Classes of clouds of points, with the largest feature of all points (Qi et al., 2017)."""
    batch, points = (2, 8) if small else (16, 512)
    draw = Draw(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.point = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 256, 1))
            self.head = mlp(256, 128, 10)

        def forward(self, x):
            return self.head(self.point(x).max(dim=2)[0])

    model = draw.weights(Net())
    x, y = draw.normal(batch, 3, points), draw.integers(10, batch)
    return training(model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda m: F.cross_entropy(m(x), y))


@program("geometry")
def splatting(device, small):
    """Ellipses blended over each other until they are a picture (after Kerbl et al., 2023)."""
    ellipses, size = (5, 6) if small else (64, 32)
    draw = Draw(device)
    place, colour = draw.uniform(ellipses, 2), draw.uniform(ellipses, 3)
    width, turn, cover = draw.normal(ellipses, 2, scale=0.1) - 3, draw.normal(ellipses), draw.normal(ellipses)
    shapes = [x.requires_grad_() for x in (place, colour, width, turn, cover)]
    axis = torch.linspace(0, 1, size, device=device)
    points = torch.cartesian_prod(axis, axis)
    picture = torch.stack([points[:, 0], points[:, 1], (points[:, 0] * 6).sin().abs()], -1)
    optimizer = torch.optim.Adam(shapes, lr=1e-2)

    def step():
        cosine, sine = turn.cos(), turn.sin()
        rotation = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)
        root = rotation @ torch.diag_embed(width.exp())
        inverse = torch.inverse(root @ root.transpose(1, 2) + 1e-4 * torch.eye(2, device=device))
        away = points[:, None] - place
        distance = torch.einsum("pni,nij,pnj->pn", away, inverse, away)
        alpha = (cover.sigmoid() * torch.exp(-0.5 * distance)).clamp(max=0.99)
        through = torch.cumprod(1 - alpha, 1)
        through = torch.cat([torch.ones_like(through[:, :1]), through[:, :-1]], 1)
        loss = F.mse_loss((alpha * through) @ colour, picture)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
