"""Random numbers: the default generator, its state, and a scope that leaves it alone."""

from smolder._core import default_generator
from smolder._names import listing as _listing
from smolder._random import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
__dir__ = _listing(__name__)
