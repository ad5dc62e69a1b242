"""Data: sets of a type of samples, loaders, samplers."""

from collections.abc import Iterator
from typing import Any

import smolder
from smolder import Tensor
from smolder.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Squares(Dataset[tuple[Tensor, int]]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index >= self.count:
            raise IndexError(index)
        return smolder.tensor(float(index)), index**2

    def __len__(self) -> int:
        return self.count


class Counting(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(4)


class Backwards(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3, -1, -1))

    def __len__(self) -> int:
        return 4


def collate(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    return smolder.stack([x for x, _ in samples]), smolder.tensor([y for _, y in samples])


squares = Squares(4)
value, label = squares[2]
train, test = random_split(squares, [3, 1])
subset: Subset[tuple[Tensor, int]] = train
sample: tuple[Tensor, int] = subset[0]
both: ConcatDataset[tuple[Tensor, int]] = squares + squares
loader = DataLoader(squares, batch_size=2, shuffle=True, collate_fn=collate)
for xs, ys in loader:
    assert xs.shape == ys.shape
ordered = DataLoader(squares, sampler=Backwards(), batch_size=2, drop_last=True)
plain: DataLoader[tuple[Tensor, ...]] = DataLoader(TensorDataset(smolder.rand(4, 2), smolder.arange(4)), batch_size=4)
batch: list[Any] = next(iter(plain))
numbers = [int(n) for n in DataLoader(Counting(), batch_size=None)]
drawn: list[int] = list(WeightedRandomSampler([0.5, 0.5], 4))
shuffled = list(RandomSampler(squares, generator=smolder.Generator().manual_seed(0)))
print(value, label, len(test), sample, len(both), len(ordered), batch, numbers, drawn, shuffled)
