"""Calls of others' programs under torch's name that once stopped: each is a few lines of one."""

import pickle
import pickletools
import sys
import textwrap

import pytest
from test_torch_alias import run

import smolder as sm
from smolder import nn
from smolder.autograd import gradcheck
from smolder.autograd.gradcheck import GradcheckError
from smolder.torch import _names

MADE = """
import pickle, sys, torch
from torch import nn
layers = nn.ModuleList([
    nn.Linear(2, 2), nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"), nn.ConvTranspose2d(1, 1, 2), nn.LSTM(2, 2, 2),
    nn.GRUCell(2, 2), nn.MultiheadAttention(4, 2), nn.TransformerEncoderLayer(4, 2, 8), nn.BatchNorm1d(2), nn.Embedding(3, 2),
    nn.ParameterList([nn.Parameter(torch.ones(1, dtype=torch.bfloat16))]),
])
weight = nn.Parameter(torch.arange(4.0).reshape(2, 2))
buffer = nn.Buffer(torch.arange(3))
optimizer = torch.optim.Adam([weight])
weight.sum().backward()
optimizer.step()
made = {
    "layers": layers, "state": layers.state_dict(), "weight": weight, "buffer": buffer, "turned": torch.arange(6.0).reshape(2, 3).T,
    "optimizer": optimizer, "normal": torch.distributions.Normal(0.0, 1.0), "function": nn.functional.relu,
    "dtypes": [torch.float16, torch.uint16, torch.complex64], "needs": torch.ones(2, requires_grad=True),
    "data": torch.utils.data.TensorDataset(torch.ones(2)), "format": torch.channels_last, "size": torch.Size([2]),
}
"""


def test_pickles_under_the_alias_have_torchs_names(tmp_path):
    """All that a plain pickle names is torch's, by the table of torch's names, so that torch loads it."""
    path = tmp_path / "made"
    said = run(
        MADE
        + textwrap.dedent(
            f"""
            pickle.dump(made, open({str(path)!r}, "wb"), protocol=2)
            back = pickle.load(open({str(path)!r}, "rb"))
            ones = torch.ones(1, 2, 4)
            print(all(torch.equal(back["state"][k], v) for k, v in made["state"].items()))
            print(torch.equal(back["layers"][3](ones[..., :2])[0], layers[3](ones[..., :2])[0]), back["dtypes"])
            print(type(back["weight"]).__name__, back["weight"].requires_grad, type(back["buffer"]).__name__)
            print(back["turned"].tolist(), back["needs"].requires_grad, back["needs"].is_leaf, back["function"] is nn.functional.relu)
            print(torch.equal(back["layers"][1](ones[:, :1]), layers[1](ones[:, :1])), back["layers"][9][0].dtype)
            print(back["optimizer"].state_dict()["state"][0]["exp_avg"].tolist())
            """
        )
    )
    assert said == [
        "True", "True [torch.float16, torch.uint16, torch.complex64]", "Parameter True Buffer",
        "[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] True True True", "True torch.bfloat16",
        str(sm.full((2, 2), 0.1).tolist()),
    ]  # fmt: skip
    named = {arg for op, arg, _ in pickletools.genops(path.read_bytes()) if op.name == "GLOBAL"}
    assert any(name.startswith("torch.nn.modules.rnn ") for name in named)
    for name in named:
        module, _, short = name.partition(" ")
        assert module.partition(".")[0] != "smolder", name
        if module.partition(".")[0] == "torch" and short != "_rebuild_from_type_v2":  # torch has it; the table does not
            assert short in _names.row(module.removeprefix("torch").removeprefix(".")).homes, name


def test_pickles_without_the_alias_are_as_they_were():
    assert "smolder" in str(pickle.dumps(sm.ones(2))) and pickle.loads(pickle.dumps(sm.float16)) is sm.float16


def test_what_a_program_asks_the_server_of_forks_to_preload_is_preloaded(tmp_path):
    (tmp_path / "loaded_before.py").write_text("import torch\nVERSION = torch.__version__\n")
    (tmp_path / "program.py").write_text(
        "import multiprocessing as mp, sys, torch\n"
        "def work(queue):\n"
        "    queue.put(('loaded_before' in sys.modules, torch.ones(2).sum().item(), torch.__version__))\n"
        "if __name__ == '__main__':\n"
        "    context = mp.get_context('forkserver')\n"
        "    context.set_forkserver_preload(['__main__', 'loaded_before'])\n"
        "    queue = context.SimpleQueue()\n"
        "    child = context.Process(target=work, args=(queue,))\n"
        "    child.start()\n"
        "    child.join()\n"
        "    print(queue.get() == (True, 2.0, torch.__version__) if child.exitcode == 0 else child.exitcode)\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}:" + ":".join(sys.path)}
    assert run(f"import runpy\nrunpy.run_path({str(tmp_path / 'program.py')!r}, run_name='__main__')", env=env) == [
        "True"
    ]


def test_workers_of_loky_are_told(tmp_path):
    """loky tells its workers what to prepare in a module of its own, whatever package holds it."""
    package = tmp_path / "joblib_like" / "loky" / "backend"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "spawn.py").write_text(
        "def get_preparation_data(name, init=True):\n    return {'name': name, 'init': init}\n"
    )
    said = run(
        "import pickle, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from joblib_like.loky.backend import spawn\n"
        "told = spawn.get_preparation_data('worker', init=False)\n"
        "print(told['name'], told['init'], len(told), pickle.loads(pickle.dumps(told))['smolder.torch'])\n"
    )
    assert said == ["worker False 3 None"]


def test_names_that_torchs_modules_import():
    assert run(
        """
from torch.optim.optimizer import ParamsT, StateDict
from torch.optim.adam import ParamsT as also
from torch.optim.lr_scheduler import Counter, partial
from torch.utils.checkpoint import Any, Optional
from torch.nn.modules.loss import Callable
from torch.distributions.utils import Number
from torch.utils.cpp_extension import CUDA_HOME
import collections, torch, typing
print(also is ParamsT, Counter is collections.Counter, Optional is typing.Optional, hasattr(torch.nn.functional, "Nothing"))
y = torch.softmax(torch.tensor([0.0, 1.0]), 0)
x = torch.tensor([0.0, 1.0], requires_grad=True)
torch.softmax(x, 0)[0].backward()
print(torch.allclose(torch._softmax_backward_data(torch.tensor([1.0, 0.0]), y, 0, torch.float32), x.grad))
x.grad = None
torch.log_softmax(x, 0)[0].backward()
print(torch.allclose(torch._log_softmax_backward_data(torch.tensor([1.0, 0.0]), y.log(), 0, torch.float32), x.grad))
torch.set_printoptions(precision=2, profile="long")
print(torch.tensor([0.12345]))
"""
    ) == ["True True True False", "True", "True", "tensor([0.12])"]


def test_convolutions_are_called_with_other_weights():
    class Scaled(nn.Conv2d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, 2 * weight, bias)

    conv, x = Scaled(1, 1, 3, padding=1, padding_mode="reflect", bias=False), sm.randn(1, 1, 4, 4)
    plain = nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect", bias=False)
    plain.load_state_dict(conv.state_dict())
    sm.testing.assert_close(conv(x), 2 * plain(x))
    assert nn.Conv1d(1, 1, 4, padding="same")._reversed_padding_repeated_twice == [1, 2]


@pytest.mark.parametrize(
    "name, options", [("add_", "alpha"), ("sub_", "alpha"), ("addcmul_", "value"), ("addcdiv_", "value")]
)
def test_steps_that_are_compiled_whole_take_tensors_as_factors(name, options):
    def step(x, y, z, factor):
        operands = (y,) if options == "alpha" else (y, z)
        return getattr(x.clone(), name)(*operands, **{options: -factor})

    x, y, z = sm.ones(3), sm.arange(3.0), sm.full((3,), 2.0)
    whole = sm.compile(step, fullgraph=True)
    for factor in (0.5, 2.0):
        want = getattr(x.clone(), name)(*((y,) if options == "alpha" else (y, z)), **{options: -factor})
        assert whole(x, y, z, sm.tensor(factor)).tolist() == want.tolist()


def test_hooks_of_optimizers_states():
    optimizer = sm.optim.SGD([nn.Parameter(sm.ones(1))], lr=0.1)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: seen.append(sorted(state)), prepend=True)
    state = optimizer.state_dict()
    assert state["more"] == 1 and seen == ["before", ["param_groups", "state"]]

    def renamed(o, state):
        return {**state, "param_groups": [{**group, "lr": 0.5} for group in state["param_groups"]]}

    handle = optimizer.register_load_state_dict_pre_hook(renamed)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(state)
    handle.remove()
    optimizer.load_state_dict(state)
    assert seen[2:] == [0.5, 0.1]


def test_modules_are_put_at_paths_and_converted_by_type():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    model.set_submodule("1.0", nn.GELU())
    assert isinstance(model[1][0], nn.GELU)
    with pytest.raises(ValueError, match="without a target name"):
        model.set_submodule("", nn.GELU())
    with pytest.raises(AttributeError, match="`weight` is not an nn"):
        model.set_submodule("0.weight", nn.GELU())
    with pytest.raises(AttributeError, match="has no attribute `5`"):
        model.set_submodule("5", nn.GELU(), strict=True)
    assert model.type(sm.float64)[0].weight.dtype == sm.float64


def test_more_ops_in_place_and_views_of_members():
    x = sm.tensor([1.5, 2.5], requires_grad=True)
    y = x * 1
    assert y.i0_() is y
    y.sum().backward()
    sm.testing.assert_close(x.grad, sm.special.i1(x.detach()))
    assert sm.tensor([3.0]).igamma_(sm.tensor([1.0])).tolist() == sm.igamma(sm.tensor([3.0]), sm.tensor([1.0])).tolist()
    assert sm.ones(2).map_(sm.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [2.0, 3.0]
    assert sm.ones(2, 3, 4).permute(2, 0, 1).dim_order() == (1, 2, 0)
    assert sm.arange(4)[1:]._is_view() and not sm.ones(2)._is_view()
    assert [t.tolist() for t in sm.arange(3).unsafe_split(2)] == [[0, 1], [2]]


def test_gradcheck_compares_forward_mode():
    x = sm.randn(2, 2, dtype=sm.float64, requires_grad=True)
    z = sm.randn(2, dtype=sm.complex128, requires_grad=True)
    assert gradcheck(lambda a: (a @ a, a.sin()), (x,), check_forward_ad=True)
    assert gradcheck(lambda a: a * a.conj(), (z,), check_forward_ad=True, check_backward_ad=False)

    class Wrong(sm.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(
        GradcheckError, match="computed with forward mode mismatch for output 0 with respect to input 0"
    ):
        gradcheck(Wrong.apply, (x,), check_forward_ad=True, check_backward_ad=False)
