"""Arrays as pictures and puzzles."""

import torch
import torch.nn.functional as F

from corpus.common import Draw, program


@program("pictures")
def mandelbrot(device, small):
    """Escape times, with a mask that says who goes on."""
    n, rounds = (16, 8) if small else (512, 50)
    y, x = torch.meshgrid(
        torch.linspace(-1.2, 1.2, n, device=device), torch.linspace(-2, 0.6, n, device=device), indexing="ij"
    )

    def step():
        a, b, count = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
        for _ in range(rounds):
            inside = a * a + b * b < 4
            a, b = torch.where(inside, a * a - b * b + x, a), torch.where(inside, 2 * a * b + y, b)
            count += inside
        return count

    return step


@program("pictures")
def blur_and_edges(device, small):
    """A Gaussian blur, Sobel's filters, and thinning by comparing with shifted pictures."""
    n = 16 if small else 1024
    picture = Draw(device).uniform(1, 1, n, n)
    t = torch.arange(-3, 4, device=device, dtype=torch.float32)
    g = torch.exp(-t * t / 2)
    g = g / g.sum()
    sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], device=device)[None, None]

    def step():
        x = F.pad(picture, (3, 3, 3, 3), mode="reflect")
        x = F.conv2d(F.conv2d(x, g.view(1, 1, 1, 7)), g.view(1, 1, 7, 1))
        gx, gy = F.conv2d(x, sobel, padding=1), F.conv2d(x, sobel.transpose(2, 3), padding=1)
        size = torch.hypot(gx, gy)
        kept = size * (size >= F.max_pool2d(size, 3, 1, 1)).float()
        return torch.where(kept > kept.mean(), torch.atan2(gy, gx), torch.zeros_like(kept))

    return step


@program("pictures")
def histogram_equalization(device, small):
    """Brightness made even by a histogram and its running sum."""
    n = 16 if small else 1024
    picture = (Draw(device).uniform(n, n) ** 2 * 255).long()

    def step():
        count = torch.bincount(picture.flatten(), minlength=256).float()
        cdf = count.cumsum(0) / picture.numel()
        return cdf[picture]

    return step


@program("pictures")
def warp(device, small):
    """Augmentation: affine grids, bilinear samples, colours and cut-outs."""
    batch, n = (2, 8) if small else (64, 64)
    draw = Draw(device)
    images, angle = draw.uniform(batch, 3, n, n), draw.uniform(batch, low=-0.5, high=0.5)
    top, left = draw.integers(n // 2, batch), draw.integers(n // 2, batch)
    line = torch.arange(n, device=device)

    def step():
        zero = torch.zeros_like(angle)
        theta = torch.stack((angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero), 1).view(-1, 2, 3)
        x = F.grid_sample(images, F.affine_grid(theta, images.shape, align_corners=False), align_corners=False)
        x = (x - x.mean((2, 3), keepdim=True)) * 1.2 + 0.5
        rows = (line >= top[:, None]) & (line < top[:, None] + n // 4)
        columns = (line >= left[:, None]) & (line < left[:, None] + n // 4)
        return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0).clamp(0, 1)

    return step


@program("pictures")
def boxes(device, small):
    """Overlaps of boxes with the best prediction for each, and a suppression of neighbours in a loop."""
    count, wanted = (10, 3) if small else (500, 20)
    draw = Draw(device)
    corner, size, score = draw.uniform(count, 2, high=80), draw.uniform(count, 2, low=5, high=20), draw.uniform(count)
    box = torch.cat((corner, corner + size), 1)

    def overlap(a, b):
        low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
        inner = (high - low).clamp(min=0).prod(-1)
        area_a, area_b = (a[:, 2:] - a[:, :2]).prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
        return inner / (area_a[:, None] + area_b[None] - inner)

    def step():
        iou, left, kept = overlap(box, box), score, []
        for _ in range(wanted):
            best = left.argmax()
            kept.append(best)
            left = torch.where(iou[best] > 0.5, torch.full_like(left, -1), left)
        return box[torch.stack(kept)]

    return step


@program("pictures")
def julia(device, small):
    """A Julia set: only points that have not gone are squared, through a mask."""
    height, width, turns = (10, 12, 8) if small else (400, 600, 40)
    y, x = torch.meshgrid(
        torch.linspace(-1.2, 1.2, height, device=device), torch.linspace(-1.6, 1.6, width, device=device), indexing="ij"
    )

    def step():
        z = torch.complex(x, y)
        here = torch.ones(height, width, dtype=torch.bool, device=device)
        count = torch.zeros(height, width, device=device)
        for i in range(turns):
            z[here] = z[here] ** 2 + (-0.8 + 0.156j)
            here = here & (z.abs() < 2)
            count[here] = i
        return count

    return step


@program("pictures")
def components(device, small):
    """Numbers what hangs together in a mask: each pixel takes the largest number around it."""
    size, turns = (16, 12) if small else (256, 100)
    mask = Draw(device).normal(size, size) > 0.2
    own = torch.where(mask, torch.arange(size * size, device=device).view(size, size), -1)

    def step():
        label = own
        for _ in range(turns):
            p = F.pad(label, (1, 1, 1, 1), value=-1)
            near = torch.stack([p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]).amax(0)
            label = torch.where(mask, near, label)
        return label.unique(return_counts=True)[1].float()

    return step
