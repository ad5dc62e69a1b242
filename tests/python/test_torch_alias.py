"""Smolder under torch's name: what programs written for PyTorch import, compare and are told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import smolder
from smolder.torch import _names, _naming

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torch.md"


def run(code, *options, env=None, check=True):
    """The output of a program under the alias."""
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import smolder.torch\nsmolder.torch.install()\n{code}", *options],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert not check or out.returncode == 0, out.stderr
    return out.stdout.splitlines() if check else out


def test_modules_of_torch_are_found_with_what_is_in_them():
    said = run(
        """
import importlib, importlib.util, importlib.metadata, sys
import torch, torch.nn.functional as F
from torch.nn.modules.module import Module
from torch.nn.modules.dropout import Dropout, _DropoutNd
from torch.nn.modules.pooling import _MaxPoolNd, _AvgPoolNd, _AdaptiveAvgPoolNd
from torch.nn.modules.activation import MultiheadAttention
from torch.distributions.categorical import Categorical
from torch.optim.adamw import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data.dataloader import DataLoader, default_collate
from torch.utils._pytree import tree_map
from torch.nn.parallel.data_parallel import DataParallel
from torch._C import _nn
from torch.nn import *
import smolder
print(torch is smolder, Module is smolder.nn.Module, AdamW is smolder.optim.AdamW, F is smolder.nn.functional)
print(Categorical is torch.distributions.Categorical, issubclass(Dropout, _DropoutNd), callable(torch.nn.parallel.data_parallel))
print(not issubclass(torch.nn.Dropout2d, Dropout), issubclass(torch.nn.MaxPool2d, _MaxPoolNd), Linear is torch.nn.Linear)
print(importlib.metadata.version("torch") == torch.__version__, torch.__version__.startswith("2.11.0+smolder"))
print(torch.__version__ >= "2.3", torch.__version__ < (2, 12), torch.version.__version__ == torch.__version__)
print(importlib.util.find_spec("torch") is not None, importlib.util.find_spec("torch.nothing") is None)
print(sorted({d.metadata["Name"] for d in importlib.metadata.distributions() if d.metadata["Name"] == "torch"}))
smolder.torch.install()
"""
    )
    assert {word for line in said[:-1] for word in line.split()} == {"True"}, said
    assert said[-1] == "['torch']"


def test_every_module_of_the_table_is_found():
    said = run(
        """
import importlib
from smolder.torch import _names
for path in _names.modules():
    try:
        importlib.import_module(f"torch.{path}" if path else "torch")
    except Exception as error:
        print(path, type(error).__name__, error)
print("done")
"""
    )
    assert [line for line in said if not line.startswith("utils.tensorboard")] == ["done"]


def test_classes_and_dtypes_are_called_as_torchs():
    assert run(
        """
import pickle, torch
from torch import nn
x = torch.ones(2, dtype=torch.float64)
print(type(x), x.dtype, x.shape, x, x.type(), torch.int8, torch.uint16, torch.contiguous_format)
print(nn.Linear.__module__, nn.Module.__module__, torch.optim.AdamW.__module__, nn.Parameter.__module__)
print(pickle.loads(pickle.dumps((nn.Linear(2, 1), torch.float16, torch.int16, torch.uint16, torch.Size([2])))))
print(x.to(torch.float16).numpy().dtype, torch.tensor([1, 2]).type(torch.LongTensor).dtype, x.type("torch.FloatTensor").dtype)
"""
    ) == [
        "<class 'torch.Tensor'> torch.float64 torch.Size([2]) tensor([1., 1.], dtype=torch.float64) torch.DoubleTensor "
        "torch.int8 torch.uint16 torch.contiguous_format",
        "torch.nn.modules.linear torch.nn.modules.module torch.optim.adamw torch.nn.parameter",
        "(Linear(in_features=2, out_features=1, bias=True), torch.float16, torch.int16, torch.uint16, torch.Size([2]))",
        "float16 torch.int64 torch.float32",
    ]


def test_compiled_functions_are_recorded_under_the_alias():
    said = run(
        """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(8, 4)
@torch.compile
def step():
    opt.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), torch.zeros(8, 1))
    loss.backward()
    opt.step()
    return loss
losses = [step().item() for _ in range(6)]
print(losses[-1] < losses[0], "recorded" in {e["event"] for e in torch.compiler.events})
"""
    )
    assert said == ["True True"]


def test_names_that_only_have_to_exist_raise_when_they_are_used():
    said = run(
        """
import torch
from torch.distributed.rpc import RRef
from torch.distributed.tensor import DTensor
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.distributed.pipelining import ScheduleInterleaved1F1B
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.ao.quantization import QConfig
import torch.distributed.checkpoint as dcp
print(isinstance(torch.ones(1), DTensor), isinstance(torch.nn.Linear(1, 1), FSDP))
for use in (RRef, lambda: ScheduleInterleaved1F1B(1), flex_attention, lambda: dcp.DefaultSavePlanner()):
    try:
        use()
    except NotImplementedError as error:
        print(error)
try:
    torch.matmull
except AttributeError as error:
    print(error)
try:
    import torch.nothing
except ImportError as error:
    print(error)
"""
    )
    assert said == [
        "False False",
        "torch.distributed.rpc.RRef is not supported: docs/distributed.md says what there is of torch.distributed",
        "torch.distributed.pipelining.ScheduleInterleaved1F1B is not supported: docs/distributed.md says what there is of "
        "torch.distributed",
        "torch.nn.attention.flex_attention.flex_attention is not supported: attention is one op, and the compiler chooses how "
        "it runs",
        "torch.distributed.checkpoint.DefaultSavePlanner is not supported: docs/distributed.md says what there is of "
        "torch.distributed",
        "module 'smolder' has no attribute 'matmull'",
        "No module named 'torch.nothing'",
    ]


def test_settings_of_torchs_compilers_are_kept():
    assert run(
        """
import torch, torch._dynamo, torch._inductor.config as inductor
torch._dynamo.config.suppress_errors = True
inductor.triton.cudagraphs = True
with torch._dynamo.config.patch(cache_size_limit=64):
    print(torch._dynamo.config.cache_size_limit)
print(torch._dynamo.config.cache_size_limit, torch._dynamo.config.suppress_errors)
print(torch._dynamo.optimize("inductor")(lambda x: x + 1)(torch.ones(1)).item(), torch._dynamo.disable(recursive=False)(len)([1]))
"""
    ) == ["64", "8 True", "2.0 1"]


def test_what_was_asked_for_and_is_missing_is_printed():
    program = (
        "import torch\nhasattr(torch, 'nothing')\nfrom torch.distributed.rpc import RRef\ntorch.nn.functional.relu"
    )
    out = run(program, env={"SMOLDER_TORCH_MISSING": "1"}, check=False)
    assert out.stderr.splitlines() == [
        "smolder.torch: 2 names were asked for that are not here",
        "torch.distributed.rpc.RRef  refused  <string>:5",
        "torch.nothing  missing  <string>:4",
    ]
    assert run(program, check=False).stderr == ""


def test_programs_and_modules_are_run(tmp_path):
    (tmp_path / "beside.py").write_text("value = 3\n")
    (tmp_path / "program.py").write_text(
        "import sys, torch, beside\nprint(__name__, sys.argv[1:], beside.value, torch.__name__)\nhasattr(torch, 'x_y')\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(smolder.__file__)))}
    base = [sys.executable, "-m", "smolder.torch"]
    for options, given, told in ((["--missing"], ["-a", "b"], 2), ([], [], 0)):
        for program in ([str(tmp_path / "program.py")], ["-m", "program"]):
            out = subprocess.run(
                [*base, *options, *program, *given], capture_output=True, text=True, cwd=tmp_path, env=env
            )
            assert out.stdout == f"__main__ {given} 3 torch\n", out.stderr
            assert len(out.stderr.splitlines()) == told


def test_pytorch_that_is_loaded_is_not_replaced():
    code = "import sys, types\nsys.modules['torch'] = types.ModuleType('torch')\nimport smolder.torch\nsmolder.torch.install()"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: smolder.torch: PyTorch is loaded in this process (torch)" in out.stderr


def test_importing_smolder_loads_no_part_of_the_alias():
    code = (
        "import smolder, sys\nprint([m for m in sys.modules if m.startswith(('smolder.torch', 'smolder.fx', 'torch'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_page_prints_how_much_is_here():
    table = subprocess.run([sys.executable, "-m", "smolder.torch", "--table"], capture_output=True, text=True).stdout
    assert "| all | " in table
    assert table in PAGE.read_text(), "put into docs/torch.md what `python -m smolder.torch --table` prints"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("torch.nn.Linear", ("here", "")),
        ("torch.nn.modules.linear.Linear", ("here", "")),
        ("torch.distributed.rpc.RRef", ("refused", "docs/distributed.md says what there is of torch.distributed")),
        ("torch.hspmm", ("missing", "")),
    ],
)
def test_the_status_of_names(name, wanted):
    assert run(f"print(smolder.torch.status({name!r}))") == [str(wanted)]


def test_versions_compare_by_their_numbers():
    version = _naming.TorchVersion("2.11.0+smolder0.1.0")
    assert version > "2.9" and version >= "2.11" and version < "2.12" and version == "2.11.0" and version != "2.11.1"
    assert version >= (2, 11) and version < (3,) and not version < "2.11.0" and hash(version) == hash(str(version))
    assert isinstance(version, str) and version.split("+")[0] == "2.11.0"


def test_the_table_is_of_the_version_that_is_claimed():
    assert smolder.torch.VERSION.partition("+")[0] == _names.version() == "2.11.0"
    assert len(_names.modules()) > 900 and "Linear" in _names.row("nn").kinds


def test_what_probabilistic_libraries_ask_while_they_are_imported():
    said = run(
        """
import torch
from torch.serialization import MAP_LOCATION
print(torch.__name__ == "torch", torch.optim.optimizer.register_optimizer_step_pre_hook.__name__[:8] == "register")
found = [name for name, kind in torch.optim.__dict__.items()
         if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.LBFGS]
print({"Adam", "Rprop", "ASGD", "SGD"} <= set(found), "LBFGS" not in found)
def load(name, map_location: MAP_LOCATION = None): ...
try: torch.nothing_of_the_kind
except AttributeError as e: print("nothing_of_the_kind" in str(e))
compiled = torch.compile(lambda x: torch.sin(x) * 2)
print(torch.allclose(compiled(torch.ones(3)), torch.sin(torch.ones(3)) * 2))
"""
    )
    assert {word for line in said for word in line.split()} == {"True"}, said


def test_types_of_tensors_as_text():
    said = run(
        """
import torch
for dtype in ("complex64", "complex128", "uint16", "float8_e4m3fn", "bfloat16", "bool", "int8"):
    print(torch.ones(2).to(getattr(torch, dtype)).type())
print(torch.ones(2, dtype=torch.uint32))
"""
    )
    assert said == [
        "torch.ComplexFloatTensor",
        "torch.ComplexDoubleTensor",
        "torch.UInt16Tensor",
        "torch.Float8_e4m3fnTensor",
        "torch.BFloat16Tensor",
        "torch.BoolTensor",
        "torch.CharTensor",
        "tensor([1, 1], dtype=torch.uint32)",
    ]


def test_what_libraries_make_while_they_are_imported():
    said = run(
        """
import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard
print(Shard(-1) == Shard(-1), len({Replicate(), Replicate(), Shard(0)}) == 2, Partial().is_partial("sum"))
print(str(Shard(0)) == "S(0)", _StridedShard(0, split_factor=2).is_shard(0), not Replicate().is_shard())
print(torch.distributed.ReduceOp.RedOpType is not None, not torch.backends.mkldnn.is_available())
print(torch.torch.Tensor is torch.Tensor, not torch.backends.mkl.is_available())
"""
    )
    assert {word for line in said for word in line.split()} == {"True"}, said


def test_what_libraries_of_images_privacy_and_geometry_import():
    said = run(
        """
import torch
from torch.utils.data.dataloader import _collate_fn_t, _worker_init_fn_t
from torch.utils.data._utils.collate import default_collate_err_msg_format, np_str_obj_array_pattern
from torch.utils.data._utils.worker import _generate_state
from torch._C._functorch import _add_batch_dim, is_batchedtensor, maybe_get_level
from torch.utils._contextlib import _DecoratorContextManager
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import WeakIdKeyDictionary, WeakTensorKeyDictionary

class Entered(_DecoratorContextManager):
    def __enter__(self): print("in")
    def __exit__(self, *exception): print("out")

@Entered()
def inside(): print("inside")

inside()
x, places = torch.ones(2), WeakTensorKeyDictionary()
places[x] = 3
print(x in places, torch.ones(2) in places, len(places), places[x])
del x
print(len(places), is_traceable_wrapper_subclass(torch.ones(2)), bool(np_str_obj_array_pattern.search("<U3")))
for refused in (lambda: _generate_state(1, 2), lambda: _add_batch_dim(torch.ones(2), 0, 1)):
    try:
        refused()
    except NotImplementedError as error:
        print(str(error).partition(" is ")[0])
print(torch.quint4x2, torch.randint_like(torch.ones(2), high=1).tolist())
seen = []
torch.vmap(lambda x: (seen.append((is_batchedtensor(x), maybe_get_level(x))), x)[1])(torch.ones(2))
print(seen, is_batchedtensor(torch.ones(2)), maybe_get_level(torch.ones(2)))
"""
    )
    assert said == [
        "in", "inside", "out", "True False 1 3", "0 False True", "torch.utils.data._utils.worker._generate_state",
        "torch._C._functorch._add_batch_dim", "torch.quint4x2 [0.0, 0.0]", "[(True, 1)] False -1",
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_started_anew_have_torch(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch.multiprocessing as mp, torch\n"
        "def work(queue):\n"
        "    queue.put((torch.ones(2).sum().item(), torch.__version__))\n"
        "if __name__ == '__main__':\n"
        f"    context = mp.get_context({method!r})\n"
        "    queue = context.SimpleQueue()\n"
        "    child = context.Process(target=work, args=(queue,))\n"
        "    child.start()\n"
        "    child.join()\n"
        "    print(child.exitcode)\n"
        "    print(queue.get() == (2.0, torch.__version__) if child.exitcode == 0 else 'failed')\n"
    )
    command = [sys.executable, "-m", "smolder.torch", str(program)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert out.stdout == "0\nTrue\n", out.stderr
