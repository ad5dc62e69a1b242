"""Data sets, what draws from them, and loaders that make batches of them."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing
from smolder.utils.data.collate import default_collate, default_convert
from smolder.utils.data.dataloader import DataLoader
from smolder.utils.data.datapipes import IterDataPipe, MapDataPipe, functional_datapipe
from smolder.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from smolder.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from smolder.utils.data.worker import get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterDataPipe",
    "IterableDataset", "MapDataPipe", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "default_collate", "default_convert", "functional_datapipe", "get_worker_info",
    "random_split",
]  # fmt: skip
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    if name in ("DistributedSampler", "distributed"):
        import importlib

        module = importlib.import_module("smolder.utils.data.distributed")
        return module if name == "distributed" else module.DistributedSampler
    from smolder._missing import missing

    raise missing(__name__, name)
