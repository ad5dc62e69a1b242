"""torch._functorch.config: settings of a compiler that is not here."""

from smolder.torch.only._settings import settings

settings(globals(), {"activation_memory_budget": 1.0, "donated_buffer": False, "functionalize_rng_ops": False})
