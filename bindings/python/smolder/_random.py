"""The default generator of random numbers; smolder.random has the same and fork_rng."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from smolder import _core
from smolder._device import device, usable_device
from smolder._typing import Generator, Tensor

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def manual_seed(seed: int) -> Generator:
    """Restarts the default generator from a seed, and returns it."""
    return _core.default_generator.manual_seed(int(seed))


def seed() -> int:
    """Restarts the default generator from a seed that nobody can guess, which it returns."""
    return _core.default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator began from."""
    return _core.default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Where the default generator is: bytes for set_rng_state."""
    return _core.default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Puts the default generator where it was when get_rng_state was called."""
    _core.default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[int] | None = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Within it, the default generator may be used and seeded; afterwards it is where it was before.

    It draws for all devices, so those that `devices` names are where they were too.
    """
    for where in devices or ():
        usable_device(device(device_type, where) if isinstance(where, int) else where)
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
