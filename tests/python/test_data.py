"""Loaders beyond what the sweep of data compares with PyTorch: workers that fail or die, seeds, what is recorded."""

import gc
import os
import time

import numpy as np
import pytest
from conftest import FORKS

import smolder
from smolder.utils import data
from smolder.utils.data import dataloader


class Numbers(data.Dataset):
    def __init__(self, get, n=6):
        self.get, self.n = get, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.get(i)


def dies(i):
    if i == 2:
        os._exit(3)
    return i


def raises(i):
    if i == 2:
        raise KeyError("no such thing")
    return i


@FORKS
def test_a_worker_that_dies_is_noticed(monkeypatch):
    monkeypatch.setattr(dataloader, "_POLL_SECONDS", 0.2)
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        list(data.DataLoader(Numbers(dies), num_workers=1))


@FORKS
def test_the_error_of_a_worker_has_its_type_and_its_traceback():
    with pytest.raises(KeyError) as caught:
        list(data.DataLoader(Numbers(raises), num_workers=2))
    text = str(caught.value)
    assert text.startswith("Caught KeyError in DataLoader worker process") and "raise KeyError" in text


@FORKS
def test_workers_end_with_a_loader_in_a_cycle():
    batches = iter(data.DataLoader(range(6), num_workers=2))
    next(batches)
    processes, batches.batches.itself = batches.batches.processes, batches
    del batches
    gc.collect()
    assert [p.exitcode for p in processes] == [0, 0]  # and were not terminated


@FORKS
def test_after_an_error_of_a_worker_the_other_batches_come():
    batches = iter(data.DataLoader(Numbers(raises), num_workers=2))
    got = []
    for _ in range(6):
        try:
            got.append(int(next(batches)))
        except KeyError:
            got.append(None)
    assert got == [0, 1, None, 3, 4, 5]


def test_after_an_error_in_this_process_the_other_batches_come():
    class Holed(data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            if i == 2:
                raise KeyError(i)
            return i

    batches = iter(data.DataLoader(Holed(), 2))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(KeyError):
        next(batches)
    assert [b.tolist() for b in batches] == [[4, 5]]
    with pytest.raises(AssertionError, match="timeout == 0"):
        iter(data.DataLoader(Holed(), timeout=1))


def test_a_timeout_is_an_error(monkeypatch):
    monkeypatch.setattr(dataloader, "_JOIN_SECONDS", 0.2)  # of the worker, which sleeps
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        list(data.DataLoader(Numbers(lambda i: time.sleep(600), 1), num_workers=1, timeout=1))


@FORKS
def test_workers_have_seeds_of_their_own_that_follow_from_the_generators():
    def draws(seed):
        generator = smolder.Generator().manual_seed(seed)
        drawn = Numbers(lambda i: (smolder.rand(()).item(), np.random.rand(), data.get_worker_info().seed))
        return [tuple(part.item() for part in b) for b in data.DataLoader(drawn, num_workers=2, generator=generator)]

    first = draws(1)
    assert first == draws(1) and first != draws(2)
    assert len({b[:2] for b in first}) == 6 and len({b[2] for b in first}) == 2


@FORKS
def test_tensors_that_are_not_computed_yet_come_out_of_workers():
    pending = Numbers(lambda i: smolder.ones(3) * i + 1)
    batches = list(data.DataLoader(pending, batch_size=3, num_workers=2))
    assert smolder.cat(batches).tolist() == [[i + 1.0] * 3 for i in range(6)]


def test_an_order_follows_from_the_generator_and_leaves_no_sample_out():
    def order(seed):
        return [
            int(b) for b in data.DataLoader(range(9), shuffle=True, generator=smolder.Generator().manual_seed(seed))
        ]

    assert order(3) == order(3) and sorted(order(3)) == list(range(9))
    assert any(order(3) != order(seed) for seed in range(4, 8))


def test_a_batch_of_a_tensor_data_set_is_one_gather():
    x = smolder.arange(40).reshape(20, 2)
    batch = next(iter(data.DataLoader(data.TensorDataset(x, x[:, 0]), batch_size=8)))
    smolder.mark_step()
    assert [tuple(t.shape) for t in batch] == [(8, 2), (8,)] and batch[1].tolist() == list(range(0, 16, 2))


@FORKS
def test_a_process_that_forks_while_workers_run_leaves_them_alone():
    outer = iter(data.DataLoader(range(6), num_workers=1))
    assert int(next(outer)) == 0
    inner = list(data.DataLoader(range(3), num_workers=1))
    del inner
    assert [int(b) for b in outer] == [1, 2, 3, 4, 5]


def test_training_from_a_loader_learns():
    smolder.manual_seed(0)
    x = smolder.randn(64, 3)
    y = x @ smolder.tensor([[1.0], [-2.0], [0.5]])
    model = smolder.nn.Linear(3, 1)
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        for inputs, targets in data.DataLoader(data.TensorDataset(x, y), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            smolder.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    assert smolder.nn.functional.mse_loss(model(x), y).item() < 1e-3
