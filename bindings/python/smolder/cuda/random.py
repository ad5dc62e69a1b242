"""Random numbers: one generator serves all devices, so that a seed draws the same numbers on each."""

from __future__ import annotations

from collections.abc import Sequence

from smolder import _core
from smolder._device import usable_device
from smolder._names import listing as _listing
from smolder._typing import Device, Tensor
from smolder.cuda._index import used_index

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip
__dir__ = _listing(__name__)


def _used(device):
    used_index(device)


def manual_seed(seed: int) -> None:
    """As smolder.manual_seed; without a device too."""
    _core.default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> None:
    """As smolder.seed; without a device too."""
    _core.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed that the generator began from."""
    usable_device("cuda")
    return _core.default_generator.initial_seed()


def get_rng_state(device: Device = "cuda") -> Tensor:
    """Where the generator is: bytes for set_rng_state."""
    _used(device)
    return _core.default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Device = "cuda") -> None:
    """Puts the generator where it was when get_rng_state was called."""
    _used(device)
    _core.default_generator.set_state(new_state.cpu())


def get_rng_state_all() -> list[Tensor]:
    """get_rng_state() of each device that tensors may be on; none where there is no device."""
    return [get_rng_state(i) for i in range(_core._cuda_device_count())]


def set_rng_state_all(new_states: Sequence[Tensor]) -> None:
    """set_rng_state() of each device."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
