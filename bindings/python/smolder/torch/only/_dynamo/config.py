"""torch._dynamo.config: settings of a compiler that is not here."""

from smolder.torch.only._settings import settings

settings(
    globals(),
    {
        "accumulated_cache_size_limit": 256,
        "accumulated_recompile_limit": 256,
        "allow_unspec_int_on_nn_module": False,
        "assume_static_by_default": True,
        "automatic_dynamic_shapes": True,
        "cache_size_limit": 8,
        "capture_dynamic_output_shape_ops": False,
        "capture_scalar_outputs": False,
        "disable": False,
        "dynamic_shapes": True,
        "inline_inbuilt_nn_modules": True,
        "log_level": None,
        "optimize_ddp": True,
        "recompile_limit": 8,
        "suppress_errors": False,
        "verbose": False,
    },
)
