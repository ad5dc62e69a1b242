"""torch._inductor.config: settings of a compiler that is not here."""

import types

from smolder.torch.only._settings import settings

triton = types.SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
cpp = types.SimpleNamespace(threads=-1, simdlen=None)
settings(
    globals(),
    {
        "allow_buffer_reuse": True,
        "autotune_local_cache": True,
        "benchmark_kernel": False,
        "comment_origin": False,
        "compile_threads": 1,
        "conv_1x1_as_mm": False,
        "coordinate_descent_check_all_directions": False,
        "coordinate_descent_tuning": False,
        "cpp_wrapper": False,
        "dce": False,
        "debug": False,
        "emulate_precision_casts": False,
        "epilogue_fusion": True,
        "fallback_random": False,
        "force_disable_caches": False,
        "force_fuse_int_mm_with_mul": False,
        "freezing": False,
        "freezing_discard_parameters": False,
        "fx_graph_cache": True,
        "fx_graph_remote_cache": None,
        "joint_custom_post_pass": None,
        "joint_custom_pre_pass": None,
        "max_autotune": False,
        "max_autotune_conv_backends": "ATEN,TRITON",
        "max_autotune_flex_search_space": "DEFAULT",
        "max_autotune_gemm": False,
        "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
        "max_autotune_gemm_search_space": "DEFAULT",
        "max_autotune_pointwise": False,
        "pattern_matcher": True,
        "post_grad_custom_post_pass": None,
        "post_grad_custom_pre_pass": None,
        "pre_grad_custom_pass": None,
        "reorder_for_compute_comm_overlap": False,
        "shape_padding": True,
        "split_reductions": True,
        "use_mixed_mm": True,
    },
)
