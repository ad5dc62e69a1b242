"""Tensors: what is made, indexed, reduced and read."""

import smolder
from smolder import Tensor


def normalised(x: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()


def rank(shape: smolder.Size) -> int:
    return len(shape) + shape.numel() * 0


x = smolder.randn(4, 6, requires_grad=True)
y: Tensor = normalised(x)[:, 1:4].flatten()
values, indices = smolder.max(x, 1)
top: tuple[Tensor, Tensor] = x.topk(2, dim=1)
parts: tuple[Tensor, ...] = x.chunk(2, dim=0)
joined = smolder.cat([p * 2 for p in parts], dim=0)
mask = (x > 0) & ~x.isnan()
kept = smolder.where(mask, x, smolder.zeros_like(x))
kept.sum().backward()
assert x.grad is not None
gradient: Tensor = x.grad
named: list[list[float]] = x.detach().tolist()
where: smolder.device = x.device
kind: smolder.dtype = x.dtype
size: int = x.size(0) + x.numel() + rank(x.shape)
for row in x:
    assert row.shape == (6,)
numbers = x.detach().numpy()
again = smolder.from_numpy(numbers).to(smolder.float64).to("cpu")
z = smolder.arange(0, 10, 2).reshape(5, 1) + smolder.linspace(0, 1, 5)
total: float = z.sum().item()
if z.any():
    z.add_(1).clamp_(min=0)
is_tensor: bool = smolder.is_tensor(z)
print(y, values, indices, top[0], joined, gradient, named, where, kind, size, again, total, is_tensor)
