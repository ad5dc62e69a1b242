"""The default generator of random numbers; smolder.random has the same and fork_rng."""

import contextlib

from smolder import _core

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def manual_seed(seed):
    """Restarts the default generator from a seed, and returns it."""
    return _core.default_generator.manual_seed(int(seed))


def seed():
    """Restarts the default generator from a seed that nobody can guess, which it returns."""
    return _core.default_generator.seed()


def initial_seed():
    """The seed that the default generator began from."""
    return _core.default_generator.initial_seed()


def get_rng_state():
    """Where the default generator is: bytes for set_rng_state."""
    return _core.default_generator.get_state()


def set_rng_state(new_state):
    """Puts the default generator where it was when get_rng_state was called."""
    _core.default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type="cuda"):
    """Within it, the default generator may be used and seeded; afterwards it is where it was before.

    There are no devices but the CPU, so `devices` may name none.
    """
    if devices:
        raise NotImplementedError(f"fork_rng: devices={devices!r}: this build computes on 'cpu' alone")
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
