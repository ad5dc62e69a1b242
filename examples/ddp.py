"""Digits in several processes: each trains on its part of every batch, and gradients are averaged between them.

    python -m smolder.distributed.run --nproc-per-node 2 examples/ddp.py

The losses are those of one process with whole batches (`python examples/ddp.py`), but for rounding.
"""

import argparse
import os

import numpy as np
from sklearn.datasets import load_digits

import smolder
from smolder import distributed as dist
from smolder import nn, optim
from smolder.nn.parallel import DistributedDataParallel
from smolder.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=96, help="of all processes together")
    args = parser.parse_args()

    if "RANK" not in os.environ:  # started by hand: a group of one
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT="0")
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    x = smolder.tensor((digits.data / 16).astype(np.float32))
    y = smolder.tensor(digits.target.astype(np.int64))
    train, test = TensorDataset(x[:1536], y[:1536]), (x[1536:], y[1536:])

    smolder.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    sampler = DistributedSampler(train, seed=0)
    loader = DataLoader(train, batch_size=args.batch // size, sampler=sampler)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = smolder.zeros(())
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach() / len(loader)
        dist.all_reduce(total, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item():.4f}")

    with smolder.no_grad():
        right = (model.module(test[0]).argmax(1) == test[1]).float().mean().item()
    if rank == 0:
        print(f"{size} processes, {100 * right:.1f}% of the test right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
