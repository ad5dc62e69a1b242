"""torch._inductor.config: settings of a compiler that is not here."""

import types

from smolder.torch.only._settings import settings

triton = types.SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
cpp = types.SimpleNamespace(threads=-1, simdlen=None)
settings(
    globals(),
    {
        "allow_buffer_reuse": True,
        "comment_origin": False,
        "conv_1x1_as_mm": False,
        "coordinate_descent_check_all_directions": False,
        "coordinate_descent_tuning": False,
        "debug": False,
        "epilogue_fusion": True,
        "force_fuse_int_mm_with_mul": False,
        "freezing": False,
        "fx_graph_cache": True,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
        "shape_padding": True,
        "use_mixed_mm": True,
    },
)
