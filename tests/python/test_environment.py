"""Questions that programs ask of where they run, and names of what there is none of."""

import io
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from conftest import DEVICE
from test_cuda import without_a_device
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import accelerator, distributed, jit, nn

# Torch's errors where there is no device. Its text of a missing driver is another.
SAME = """
    torch.backends.mps.is_available() | torch.backends.mps.is_built() | torch.backends.mps.is_macos_or_newer(13, 0)
    torch.backends.mps.is_macos13_or_newer() | torch.mps.is_available() | torch.mps.device_count()
    torch.mps.empty_cache() | torch.mps.synchronize() | torch.mps.current_allocated_memory() | torch.mps.manual_seed(3)
    torch.mps.driver_allocated_memory() | torch.mps.get_rng_state() | torch.mps.seed() | torch.mps.recommended_max_memory()
    torch.xpu.is_available() | torch.xpu.device_count() | torch.xpu.is_initialized() | torch.xpu.is_bf16_supported()
    torch.xpu.empty_cache() | torch.xpu.manual_seed(1) | torch.xpu.manual_seed_all(1) | torch.xpu.memory_allocated()
    torch.xpu.max_memory_allocated(0) | torch.xpu.memory_reserved() | torch.xpu.memory_stats() | torch.xpu.get_arch_list()
    torch.xpu.get_gencode_flags() | torch.xpu.get_rng_state_all() | torch.xpu.set_device(-1) | torch.xpu.seed_all()
    torch.xpu.manual_seed("x")
    torch.accelerator.current_accelerator() | torch.accelerator.current_accelerator(True) | torch.accelerator.device_count()
    torch.accelerator.current_accelerator(check_available=True) | torch.accelerator.is_available()
    torch.accelerator.empty_cache() | torch.accelerator.memory_allocated() | torch.accelerator.memory_stats()
    torch.accelerator.max_memory_reserved(0) | torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.synchronize("cpu") | torch.accelerator.set_device_index("cpu")
    torch.get_device_module("cpu").__name__ | torch.get_device_module("cuda:0").__name__ | torch.get_device_module().__name__
    torch.get_device_module(torch.device("cuda")).__name__ | torch.get_device_module(3)
    torch.get_device_module("xpu").__name__
    torch.cpu.is_available() | torch.cpu.device_count() | torch.cpu.current_device() | torch.cpu.synchronize()
    torch.cpu.is_initialized() | torch.cpu.set_device("cpu") | torch.cpu.Event().query()
    torch.distributed.is_initialized() | torch.distributed.get_rank() | torch.distributed.get_world_size()
    torch.distributed.is_torchelastic_launched()
    torch.jit.is_scripting() | torch.jit.is_tracing() | torch.jit.annotate(int, 3) | torch.jit.ignore("x")
    torch.jit.ignore(len.__class__) if 0 else None | torch.jit.Attribute(1, int)
    torch.jit.export(f)._torchscript_modifier | torch.jit.unused(f)._torchscript_modifier
    torch.jit.ignore(f)._torchscript_modifier | torch.jit.ignore()(f)._torchscript_modifier
    torch.jit.unused(property(f)).fget._torchscript_modifier | torch.jit.interface(3)
    torch.jit.script_if_tracing(f)(3) | torch.jit.fuser("x").__enter__()
    torch.compiler.cudagraph_mark_step_begin() | torch.version.hip | torch.version.xpu | torch.version.rocm
    torch._check(True) | torch._check(False, "x") | torch._check(False, lambda: 3) | torch._check(1)
    torch._check_index(False, "x") | torch._check_value(False, "x") | torch._check_type(False, "x")
    torch._check_not_implemented(False, "x") | torch._check_is_size(3) | torch._check_is_size(-3, "x")
    torch._check_tensor_all(torch.ones(2)) | torch._check_tensor_all(torch.ones(2) > 0) | torch._check_tensor_all(3)
    torch._check_tensor_all(torch.zeros(2) > 0, "x") | torch._check(torch.ones(1) > 0) | torch._assert(False, "x")
    torch._assert(torch.ones(1) > 0, "x")
    torch.nn.SyncBatchNorm(3) | torch.nn.SyncBatchNorm(3)(torch.ones(3)) | torch.nn.SyncBatchNorm(3)(torch.ones(3, 0))
    torch.nn.DataParallel(torch.nn.Linear(2, 2)) | torch.nn.DataParallel(torch.nn.Linear(2, 2)).device_ids
    torch.utils.data.DistributedSampler([1], 2, 2) | list(torch.utils.data.DistributedSampler(range(10), 4, 1, False))
    list(torch.utils.data.DistributedSampler(range(10), 4, 3, False, drop_last=True))
    list(torch.utils.data.DistributedSampler(range(3), 8, 7, False))
    len(torch.utils.data.DistributedSampler(range(3), 8, 7, False))
    list(torch.utils.data.DistributedSampler(range(3), 8, 7, False, drop_last=True))
    len(torch.utils.data.DistributedSampler(range(12), 4, 0, drop_last=True))
"""
USES = [use.strip() for use in SAME.replace("\n", "|").split("|") if use.strip()]


@needs_torch
@without_a_device
@pytest.mark.filterwarnings("ignore:_check_is_size")
def test_answers_are_those_of_torch_without_a_device():
    assert_torch_says(USES, before="def f(x):\n    return x\n")


def test_one_process_says_so():
    assert distributed.is_available() and not distributed.is_initialized()
    assert distributed.is_nccl_available() <= smolder.cuda.is_available()
    assert not isinstance(nn.Linear(1, 1), nn.parallel.DistributedDataParallel)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match=r"distributed\.ProcessGroupNCCL is not supported"):
        distributed.ProcessGroupNCCL()
    assert not isinstance(3, distributed.ProcessGroup | distributed.DeviceMesh)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing': docs/distributed\.md says what there is"):
        distributed.nothing  # noqa: B018
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        smolder.utils.data.DistributedSampler(range(3))


def test_an_accelerator_is_cuda_or_none():
    assert str(accelerator.current_accelerator()) == "cuda"
    assert (accelerator.current_accelerator(check_available=True) is None) == (not smolder.cuda.is_available())
    assert accelerator.device_count() == smolder.cuda.device_count()
    assert accelerator.memory_allocated() == smolder.cuda.memory_allocated()
    if smolder.cuda.is_available():
        accelerator.synchronize()
        with accelerator.device_index(0):
            assert accelerator.current_device_index() == 0
        assert smolder.bfloat16 in accelerator.get_device_capability()["supported_dtypes"]
    else:
        with pytest.raises(RuntimeError, match="CUDA is not available"):
            accelerator.synchronize()
    with accelerator.device_index(None), pytest.warns(FutureWarning, match="set_device_index"):
        accelerator.set_device_idx(-1)


def test_scripts_say_what_to_use(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("code", "")
    with pytest.raises(NotImplementedError, match=r"jit\.load is not supported of files .* smolder\.export\.save"):
        jit.load(tmp_path / "x.pt")
    with pytest.raises(NotImplementedError, match=r"jit\.save is not supported but for .* smolder\.export\.save"):
        jit.save(nn.Linear(1, 1), tmp_path / "y.pt")
    with pytest.raises(FileNotFoundError):
        jit.load(tmp_path / "nothing.pt")
    assert not isinstance(nn.Linear(1, 1), jit.ScriptModule) and issubclass(jit.ScriptModule, nn.Module)
    assert list(jit.ScriptModule().parameters()) == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        jit.nothing  # noqa: B018
    with pytest.raises(NotImplementedError, match=r"trace_module: only forward can be traced, got \['other'\]"):
        jit.trace_module(nn.Linear(1, 1), {"other": smolder.ones(1)})


def test_scripts_are_what_was_given_and_traces_compiled_functions(monkeypatch):
    monkeypatch.setattr(jit, "_told", set())
    with pytest.warns(UserWarning, match="jit.script: there is no TorchScript"):
        assert jit.script(len) is len
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # warned once
        assert jit.script(jit.ScriptModule) is jit.ScriptModule
    model, x = nn.Linear(3, 2), smolder.ones(1, 3)
    with pytest.warns(UserWarning, match="compiled with smolder.compile"):
        traced = jit.trace(model, x)
    assert traced(x).tolist() == model(x).tolist() and type(traced) is not nn.Linear
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        jit.trace(model, x, nothing=1)
    with pytest.raises(RuntimeError, match="eval mode"):
        jit.freeze(model)
    assert jit.freeze(model.eval()) is model and jit.optimize_for_inference(model) is model


@pytest.mark.filterwarnings("ignore:smolder.jit.trace")
def test_what_was_traced_is_saved(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x, scale):
            return {"out": self.fc(x).relu() * scale}

    model, x, two = Model(), smolder.randn(4, 3), smolder.tensor(2.0)
    traced = jit.trace(model, (x, two))
    traced.save(tmp_path / "model.pt")
    loaded = jit.load(tmp_path / "model.pt", map_location=DEVICE)
    assert smolder.equal(loaded.eval()(x, two)["out"], model(x, two)["out"])
    assert set(loaded.state_dict()) == {"fc.weight", "fc.bias"} and isinstance(loaded, nn.Module)
    file = io.BytesIO()
    jit.save(loaded.to("cpu"), file)
    again = jit.load(io.BytesIO(file.getvalue()), map_location="cpu")
    assert smolder.equal(again.fc.weight, model.fc.weight.cpu())
    function = jit.trace_module(model, {"forward": (x, two)})
    jit.save(function, str(tmp_path / "again.pt"))
    assert smolder.equal(jit.load(str(tmp_path / "again.pt"), map_location=DEVICE)(x, two)["out"], model(x, two)["out"])
    plain = jit.trace(lambda a: a * 2 + 1, x)
    plain.save(tmp_path / "plain.pt")
    assert smolder.equal(jit.load(tmp_path / "plain.pt")(x), x * 2 + 1)


def test_scripts_can_be_turned_off(monkeypatch):
    monkeypatch.setenv("PYTORCH_JIT", "0")
    assert jit.script(len) is len and jit.trace(len, ([],)) is len and jit.script(obj=len) is len


def test_synchronized_batch_norm_is_that_of_one_process():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm1d(3, affine=False))).eval()
    model[1].running_mean.add_(2)
    x = smolder.randn(5, 4)
    before, keys = model(x).tolist(), list(model.state_dict())
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1], nn.SyncBatchNorm) and isinstance(converted[2][0], nn.SyncBatchNorm)
    assert list(converted.state_dict()) == keys and converted(x).tolist() == before
    norm, other = nn.SyncBatchNorm(3), nn.BatchNorm1d(3)
    y = smolder.randn(6, 3, 4)
    assert norm(y).tolist() == other(y).tolist() and norm.running_var.tolist() == other.running_var.tolist()
    with pytest.raises(NotImplementedError, match="process_group"):
        nn.SyncBatchNorm(3, process_group=object())


def test_parts_of_a_data_set():
    parts = [smolder.utils.data.DistributedSampler(range(10), 3, rank) for rank in range(3)]
    drawn = [list(part) for part in parts]
    assert all(len(d) == 4 for d in drawn) and {i for d in drawn for i in d} == set(range(10))
    assert [list(part) for part in parts] == drawn, "an order depends on seed and epoch alone"
    for part in parts:
        part.set_epoch(1)
    assert [list(part) for part in parts] != drawn


def test_a_module_of_one_device_in_a_wrapper():
    model = nn.Linear(3, 2)
    wrapped = nn.DataParallel(model)
    x = smolder.randn(4, 3)
    assert wrapped.module is model and list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert wrapped(x).tolist() == model(x.to(model.weight.device)).tolist()
    assert nn.parallel.data_parallel(model, x).tolist() == wrapped(x).tolist()


def test_memory_that_holds_anything():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    weight = model[0].weight
    assert model.to_empty(device="cpu") is model
    assert tuple(model[0].weight.shape) == tuple(weight.shape) and model[1].num_batches_tracked.dtype == smolder.int64
    model.load_state_dict({k: smolder.ones_like(v) for k, v in model.state_dict().items()})
    assert model[0].weight.tolist() == np.ones((2, 3)).tolist()
    with pytest.raises(TypeError):
        model.to_empty()


def test_texts_about_the_environment():
    assert smolder.__config__.show().startswith(f"Smolder {smolder.__version__}:\n")
    from smolder.utils import collect_env

    text = collect_env.get_pretty_env_info()
    assert f"Smolder version: {smolder.__version__}\n" in text and "code generator:" in text
    assert smolder.version.git_version == "Unknown"


def test_modules_that_few_ask_for_are_imported_late():
    code = "import sys, smolder; print(*[m for m in smolder._LATER if f'smolder.{m}' in sys.modules]); smolder.xpu"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.strip() == ""
    with pytest.raises(AttributeError, match="module 'smolder' has no attribute 'nothing'"):
        smolder.nothing  # noqa: B018
