"""Names of torch.cuda that programs use: they do what torch's do, or raise an error that names them."""

import pytest
from test_cuda import on_a_device, without_a_device

import smolder
from smolder import cuda, nn

# The names of torch.cuda in a survey of public code, by how many files use them, but for distributed ones.
USED = """
    is_available empty_cache synchronize device_count set_device max_memory_allocated amp FloatTensor current_device
    reset_peak_memory_stats manual_seed_all get_device_properties get_device_capability Stream manual_seed
    get_device_name max_memory_reserved stream current_stream is_bf16_supported memory_reserved memory_allocated device
    Event LongTensor HalfTensor CUDAGraph graph IntTensor reset_max_memory_allocated set_rng_state get_rng_state
    profiler OutOfMemoryError memory_summary default_stream ipc_collect is_initialized mem_get_info set_rng_state_all
    get_rng_state_all graph_pool_handle _is_in_bad_fork device_of is_current_stream_capturing StreamContext cudart
    BFloat16Tensor init ByteTensor memory_stats graphs nvtx set_per_process_memory_fraction set_sync_debug_mode
    DoubleTensor set_stream make_graphed_callables
"""


def test_what_is_used_is_there():
    assert not [name for name in USED.split() if not hasattr(cuda, name)]
    assert set(cuda.__all__) <= set(dir(cuda))


@without_a_device
@pytest.mark.parametrize(
    "use",
    [
        lambda: cuda.set_device(0),
        lambda: cuda.device(0).__enter__(),
        cuda.init,
        cuda.ipc_collect,
        cuda.cudart,
        cuda.get_rng_state,
        cuda.initial_seed,
        lambda: cuda.FloatTensor(2),
        lambda: cuda.set_per_process_memory_fraction(0.5),
        cuda.profiler.start,
    ],
)
def test_without_a_device_they_say_why(use):
    with pytest.raises(RuntimeError, match=r"CUDA is not available: there is no CUDA d"):
        use()


def test_some_need_no_device():
    assert not cuda.is_available() or cuda.device_count() >= 1
    assert not cuda._is_in_bad_fork() and not cuda.is_current_stream_capturing()
    with cuda.device(None), cuda.device(-1), cuda.device_of(smolder.ones(2)):
        pass
    with cuda.stream(None):
        pass
    assert cuda.get_sync_debug_mode() == 0
    cuda.set_sync_debug_mode("default")
    cuda.seed_all()
    assert len(cuda.get_rng_state_all()) == cuda.device_count()


@pytest.mark.parametrize("name", ["CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"])
def test_graphs_of_programs_say_that_none_is_needed(name):
    with pytest.raises(NotImplementedError, match=rf"cuda\.{name} is not supported.*replayed by itself"):
        getattr(cuda, name)()


@pytest.mark.parametrize(
    ("use", "match"),
    [
        (lambda: cuda.set_sync_debug_mode("error"), r"set_sync_debug_mode\('error'\) is not supported"),
        (lambda: cuda.memory_snapshot((0, 1)), "memory_snapshot of one pool"),
    ],
)
def test_what_is_not_supported_is_named(use, match):
    with pytest.raises(NotImplementedError, match=match):
        use()


def test_ways_of_attention():
    from smolder.backends import cuda as settings
    from smolder.nn.attention import SDPBackend, sdpa_kernel

    q = smolder.randn(1, 2, 3, 4)
    names = ("math", "flash", "mem_efficient", "cudnn")

    def enabled():
        return tuple(getattr(settings, f"{name}_sdp_enabled")() for name in names)

    assert enabled() == (True,) * 4
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION]):
        assert enabled() == (True, False, False, True)
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
            nn.functional.scaled_dot_product_attention(q, q, q)
        nn.functional.scaled_dot_product_attention(q, q, q).tolist()
    with pytest.warns(FutureWarning, match="sdp_kernel"), settings.sdp_kernel(enable_math=False):
        assert enabled() == (False, True, True, True)
    settings.enable_flash_sdp(False)
    assert enabled() == (True, False, True, True)
    settings.enable_flash_sdp(True)
    assert (
        settings.preferred_linalg_library() == "cusolver" and settings.preferred_blas_library("cublaslt") == "cublaslt"
    )
    with pytest.raises(NotImplementedError, match=r"preferred_linalg_library\('magma'\) is not supported"):
        settings.preferred_linalg_library("magma")
    with pytest.raises(RuntimeError, match="Unknown input value"):
        settings.preferred_blas_library("x")
    with pytest.raises(NotImplementedError, match="sums are in float32"):
        settings.allow_fp16_bf16_reduction_math_sdp(True)
    assert smolder.version.hip is None and (smolder.version.cuda is None) == (not cuda.is_available())


@on_a_device
def test_scopes_and_state_of_a_device():
    x = smolder.ones(2, device="cuda")
    with cuda.device(0), cuda.device("cuda:0"), cuda.device_of(x):
        assert cuda.current_device() == 0
        assert smolder.ones(2).is_cpu, "it says where the work of cuda goes, not where tensors are made"
    with pytest.raises(RuntimeError, match=r"invalid device ordinal: there is no cuda:63, there (is|are) "):
        cuda.set_device(63)
    state = cuda.get_rng_state()
    a = smolder.rand(3, device="cuda").tolist()
    cuda.set_rng_state(state)
    assert smolder.rand(3, device="cuda").tolist() == a
    cuda.set_rng_state_all([state])
    assert smolder.rand(3, device="cuda").tolist() == a
    cuda.manual_seed(5)
    assert cuda.initial_seed() == 5
    with cuda.profiler.profile():
        (x + 1).tolist()
    free, total = cuda.cudart().cudaMemGetInfo(0)
    assert 0 < free <= total
    with cuda.stream(cuda.Stream()) as entered:
        assert entered is None and isinstance(cuda.stream(cuda.current_stream()), cuda.StreamContext)


@on_a_device
def test_properties():
    p = cuda.get_device_properties("cuda")
    assert p is cuda.get_device_properties(0) and p.name == cuda.get_device_name()
    assert p.warp_size == 32 and p.max_threads_per_block == 1024 and p.shared_memory_per_block == 48 << 10
    assert p.total_memory == cuda.mem_get_info()[1]
    for name in (
        "multi_processor_count",
        "regs_per_multiprocessor",
        "memory_clock_rate",
        "memory_bus_width",
        "clock_rate",
    ):
        assert getattr(p, name) > 0
    assert p.is_integrated == p.is_multi_gpu_board == 0
    assert repr(p).startswith(f"_CudaDeviceProperties(name='{p.name}', major={p.major}, minor={p.minor}, total_memory=")
    assert (
        cuda.get_arch_list() == [f"sm_{p.major}{p.minor}"] and f"code=sm_{p.major}{p.minor}" in cuda.get_gencode_flags()
    )
    assert cuda.is_tf32_supported() == (p.major >= 8)


@on_a_device
def test_old_types():
    x = cuda.FloatTensor([1, 2])
    assert x.is_cuda and x.tolist() == [1, 2] and tuple(cuda.LongTensor(2, 3).shape) == (2, 3)
    assert isinstance(x, cuda.FloatTensor) and not isinstance(x.cpu(), cuda.FloatTensor)
    assert not isinstance(x, cuda.LongTensor) and isinstance(x, smolder.FloatTensor)
    assert x.type() == "smolder.cuda.FloatTensor" == smolder.typename(x) and x.cpu().type() == "smolder.FloatTensor"
    assert x.type("smolder.cuda.LongTensor").is_cuda and x.type("smolder.DoubleTensor").is_cpu
    assert x.type(cuda.HalfTensor).is_cuda and x.cpu().type(cuda.HalfTensor).dtype == smolder.float16
    assert x.type(smolder.float64).is_cuda
    with pytest.raises(TypeError, match="expected a tensor on cuda, got one on cpu"):
        cuda.FloatTensor(x.cpu())


@on_a_device
def test_copies_cross_devices():
    x = smolder.zeros(2, 3)
    x.copy_(smolder.arange(3.0, device="cuda"))
    assert x.is_cpu and x.tolist() == [[0, 1, 2]] * 2
    y = smolder.zeros(2, 3, dtype=smolder.bfloat16, device="cuda")
    assert y.copy_(x, non_blocking=True) is y and y.is_cuda and y.tolist() == x.tolist()
    y[0].copy_(smolder.ones(3), True)
    assert y.tolist() == [[1, 1, 1], [0, 1, 2]]
    leaf, target = smolder.ones(3, requires_grad=True), smolder.zeros(3, device="cuda")
    target.copy_(leaf)
    (target * 2).sum().backward()
    assert leaf.grad.is_cpu and leaf.grad.tolist() == [2, 2, 2]
    model = nn.Linear(3, 2).cuda()
    model.load_state_dict({k: v.cpu() * 0 + 1 for k, v in model.state_dict().items()})
    assert model.weight.is_cuda and model.weight.tolist() == [[1, 1, 1]] * 2
    assert x.to("cuda", True).is_cuda and x.to("cuda", smolder.float64, False, True).dtype == smolder.float64


@on_a_device
@pytest.mark.parametrize("eager", [False, True])
def test_a_bad_index_of_gather_names_its_line(eager):
    x, bad = smolder.ones(3, 4, device="cuda"), smolder.tensor([[0, 9]], device="cuda")

    def gathered():
        y = x.gather(1, bad)  # here
        return y.tolist()

    with pytest.raises((IndexError, RuntimeError), match=r"gather.* at .*test_cuda_names.py:\d+ in gathered"):
        if eager:
            with smolder.eager():
                gathered()
        else:
            gathered()
    assert (x + 1).sum().item() == 24 and x.gather(1, bad * 0).tolist() == [[1, 1]]
