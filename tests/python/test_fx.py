"""Graphs traced with proxies: their code, what runs them, and changes to them.

tests/golden/fx.json is what PyTorch prints of fx_models.py: `PYTORCH fx_models.py > ../golden/fx.json`.
"""

import copy
import gc
import json
import operator
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import smolder
from smolder import fx, nn
from smolder.fx import _patches
from smolder.fx.experimental.proxy_tensor import make_fx
from smolder.nn import functional as F

HERE = Path(__file__).resolve().parent
GOLDEN = json.loads((HERE.parent / "golden" / "fx.json").read_text())


@pytest.fixture(scope="module")
def ours():
    """The output of fx_models.py under torch's name."""
    command = [sys.executable, "-W", "ignore", "-m", "smolder.torch", "fx_models.py"]
    out = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, of in GOLDEN.items() for name in of])
def test_what_pytorch_prints(ours, kind, name):
    """Graphs, code, errors and results of passes, and whether graphs do what modules do."""
    assert ours[kind][name] == GOLDEN[kind][name]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))

    def forward(self, x):
        return self.rest(self.first(x)) + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(2, 3)
        self.scale = nn.Parameter(smolder.ones(3))
        self.block = Block()
        self.register_buffer("places", smolder.arange(3.0))

    def forward(self, x, times=2):
        a = self.inside(x) + self.scale.view(1, 3) * self.places
        b = smolder.relu(self.block(a)).view(x.size(0), -1)
        rows, columns = a.shape
        return {"part": b[:, 1:], "all": smolder.cat([a, -b], dim=1) * times, "sum": rows + columns}


CODE = """
def forward(self, x, times = 2):
    inside = self.inside(x)
    scale = self.scale
    view = scale.view(1, 3);  scale = None
    places = self.places
    mul = view * places;  view = places = None
    add = inside + mul;  inside = mul = None
    block_first = self.block.first(add)
    block_rest_0 = getattr(self.block.rest, "0")(block_first);  block_first = None
    block_rest_1 = getattr(self.block.rest, "1")(block_rest_0);  block_rest_0 = None
    add_1 = block_rest_1 + add;  block_rest_1 = None
    relu = smolder.relu(add_1);  add_1 = None
    size = x.size(0);  x = None
    view_1 = relu.view(size, -1);  relu = size = None
    getattr_1 = add.shape
    getitem = getattr_1[0]
    getitem_1 = getattr_1[1];  getattr_1 = None
    getitem_2 = view_1[(slice(None, None, None), slice(1, None, None))]
    neg = -view_1;  view_1 = None
    cat = smolder.cat([add, neg], dim = 1);  add = neg = None
    mul_1 = cat * times;  cat = times = None
    add_2 = getitem + getitem_1;  getitem = getitem_1 = None
    return {'part': getitem_2, 'all': mul_1, 'sum': add_2}
"""


@pytest.fixture
def traced():
    smolder.manual_seed(0)
    model = Model()
    return model, fx.symbolic_trace(model), smolder.randn(4, 2)


def same(a, b):
    return smolder.equal(a["part"], b["part"]) and smolder.equal(a["all"], b["all"]) and a["sum"] == b["sum"]


def test_a_module_becomes_code(traced):
    """The text is torch.fx's for this model, but for the name of the package."""
    model, graph, x = traced
    assert graph.code.strip() == CODE.strip()
    assert same(model(x), graph(x)) and same(model(x, 3), graph(x, 3)) and graph.graph.lint() is None
    graph(x)["all"].sum().backward()
    assert model.scale.grad is not None and model.block.first.weight.grad is not None
    assert type(graph).__name__ == "Model" and getattr(graph.block.rest, "0") is model.block.rest[0]
    assert str(graph.graph).splitlines()[2] == "    %times : [num_users=1] = placeholder[target=times](default=2)"


def test_copies_and_pickles_run_alike(traced):
    model, graph, x = traced
    for again in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), fx.GraphModule(model, graph.graph)):
        assert same(again(x), graph(x))


def test_nodes_can_be_changed(traced):
    model, graph, x = traced
    for node in graph.graph.nodes:
        if node.target is smolder.relu:
            with graph.graph.inserting_after(node):
                node.replace_all_uses_with(graph.graph.call_function(smolder.tanh, node.args))
            graph.graph.erase_node(node)
    graph.recompile()
    graph.graph.lint()
    assert "smolder.tanh(add_1)" in graph.code and "relu" not in graph.code.replace("rest_", "")
    assert not smolder.equal(graph(x)["part"], model(x)["part"])
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.graph.erase_node(next(iter(graph.graph.nodes)).next.next)


def test_interpreters_and_transformers_say_what_nodes_do(traced):
    _, graph, x = traced

    class Sigmoids(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(smolder.sigmoid if target is smolder.relu else target, args, kwargs)

    class ToSigmoids(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(smolder.sigmoid if target is smolder.relu else target, args, kwargs)

    assert same(fx.Interpreter(graph).run(x), graph(x))
    changed = ToSigmoids(graph).transform()
    assert same(Sigmoids(graph).run(x), changed(x)) and "sigmoid" in changed.code and "relu(" not in changed.code
    with pytest.raises(RuntimeError, match="x, but one was not passed"):
        fx.Interpreter(graph).run()


def test_patterns_are_replaced():
    traced = fx.symbolic_trace(lambda x, y: smolder.relu(smolder.neg(x) * 2) + smolder.neg(y) * 2)
    found = fx.replace_pattern(traced, lambda v: smolder.neg(v) * 2, lambda v: smolder.abs(v))
    x, y = smolder.tensor([-1.0, 2.0]), smolder.tensor([3.0, -4.0])
    assert len(found) == 2 and traced(x, y).tolist() == [4, 6] and "neg" not in traced.code


def test_graphs_are_made_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x")
    kept = graph.call_function(operator.add, (x, 1))
    graph.call_function(operator.mul, (x, 1))
    graph.output(kept)
    assert graph.eliminate_dead_code() and len(graph.nodes) == 3 and not graph.eliminate_dead_code()
    module = fx.GraphModule({}, graph)
    assert module(smolder.ones(1)).tolist() == [2]
    assert module.add_submodule("a.b", nn.Linear(1, 1)) and module.delete_submodule("a.b")
    with pytest.warns(UserWarning, match="no underlying reference in the owning GraphModule"):
        graph.call_module("a.c")
    with pytest.raises(RuntimeError, match="references nonexistent attribute c of a"):
        graph.lint()


def test_what_depends_on_values_is_not_traced():
    with pytest.raises(fx.proxy.TraceError, match="cannot be used as inputs to control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: list(x))


def by_hand(x):
    return x + 1 if x.sum() > 0 else x


fx.wrap("by_hand")


class Leaves(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)


def test_tracers_say_what_is_not_entered():
    traced = fx.symbolic_trace(lambda x: by_hand(x) * 2)
    assert traced(smolder.ones(1)).tolist() == [4] and traced(-smolder.ones(1)).tolist() == [-2]
    model = Model()
    graph = Leaves().trace(model)
    assert [n.target for n in graph.find_nodes(op="call_module")] == ["inside", "block"]
    fixed = fx.symbolic_trace(model, concrete_args={"times": 5})
    assert same(fixed(smolder.ones(1, 2), 5), model(smolder.ones(1, 2), 5))
    with pytest.raises(AssertionError, match="times has been specialized to have value 5 but got another value"):
        fixed(smolder.ones(1, 2), 4)
    assert by_hand(smolder.ones(1)).tolist() == [2], "nothing stays patched"


def test_tracers_of_libraries_patch_by_themselves():
    """As torch_geometric's, which has a trace of its own, of torch's private names."""
    from smolder.fx import _symbolic_trace as st

    class Own(fx.Tracer):
        def trace(self, root, concrete_args=None):
            self.root, self.graph, self.tensor_attrs = root, fx.Graph(tracer_cls=type(self)), {}
            self.submodule_paths = {m: name for name, m in root.named_modules()}
            fn, args = self.create_args_for_root(type(root).forward, True, concrete_args)
            cache = {}

            def call(module, *args, **kwargs):
                return self.call_module(module, lambda *a, **k: st._orig_module_call(module, *a, **k), args, kwargs)

            def read(module, name):
                return self.getattr(name, st._orig_module_getattr(module, name), cache)

            with st._Patcher() as patcher:
                patcher.patch_method(nn.Module, "__getattr__", read, deduplicate=False)
                patcher.patch_method(nn.Module, "__call__", call, deduplicate=False)
                st._patch_wrapped_functions(patcher)
                st._autowrap_check(patcher, type(root).forward.__globals__, self._autowrap_function_ids)
                self.create_node("output", "output", (self.create_arg(fn(*args)),), {})
            return self.graph

    model = Model()
    assert str(Own().trace(model)) == str(fx.symbolic_trace(model).graph)
    assert "__getattribute__" not in vars(nn.Module)


def test_functions_in_python_have_their_code_again():
    code = F.relu.__code__
    held = F.dropout

    def seen(x):
        assert F.relu.__code__ is not code
        return held(x, 0.5).relu()

    assert "nn.functional.dropout(x, p = 0.5, training = True, inplace = False)" in fx.symbolic_trace(seen).code
    with pytest.raises(ZeroDivisionError):
        fx.symbolic_trace(lambda x: F.relu(x) / (1 // 0))
    assert F.relu.__code__ is code and _patches._count == 0 and "__call__" not in vars(nn.Module)
    assert F.relu(smolder.tensor([-1.0, 2.0])).tolist() == [0, 2]


def test_proxies_made_by_hand_are_looked_for_as_long_as_they_live():
    graph = fx.Graph()
    code, x = F.relu.__code__, fx.Proxy(graph.placeholder("x"))
    y = F.relu(smolder.add(x, smolder.ones(1).tolist()[0]))
    assert y.node.target is F.relu and F.relu.__code__ is not code
    graph.output(y.node)
    del x, y
    gc.collect()
    assert F.relu.__code__ is code and _patches._count == 0
    assert fx.GraphModule({}, graph)(smolder.tensor([-3.0, 3.0])).tolist() == [0, 4]


def test_where_a_graph_fails_is_shown():
    def shaped(x):
        return smolder.relu(x.reshape(2, 3)) + 1

    traced = fx.symbolic_trace(shaped)
    with pytest.raises(RuntimeError, match="reshape") as failed:
        traced(smolder.ones(4))
    lines = traceback.format_exception(failed.value)
    assert any("eval_with_key" in a and "reshape = x.reshape(2, 3)" in a for a in lines), lines
    with pytest.raises(RuntimeError, match=r"While executing %reshape : .* = call_method\[target=reshape\]"):
        fx.Interpreter(traced).run(smolder.ones(4))


def test_code_may_be_changed_as_it_is_written():
    traced = fx.symbolic_trace(lambda x: x * 2)
    lines = []
    with traced.graph.on_generate_code(lambda before: lambda body: [*body, lines.append(len(body)) or ""]):
        traced.recompile()
    assert lines and traced.recompile().globals["smolder"] is smolder and len(lines) == 1


def test_asserts_are_traced_where_it_is_asked():
    class Asserts(fx.Tracer):
        trace_asserts = True

    space = {}  # pytest changes asserts of this file
    exec("def positive(x):\n    assert x.sum() > 0\n    return x * 2", space)
    graph = fx.GraphModule(nn.Module(), Asserts().trace(space["positive"]))
    assert graph(smolder.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="Assertion failed"):
        graph(-smolder.ones(2))


def test_a_module_in_a_folder(tmp_path, traced, monkeypatch):
    model, graph, x = traced
    with pytest.warns(UserWarning, match=r"saved as pickled files instead: \['block'\]"):
        graph.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(str(tmp_path))
    from written import Written

    assert same(Written()(x), model(x))


def test_stack_traces_and_notes_are_kept():
    class Lines(fx.Tracer):
        record_stack_traces = True

    class Noted(nn.Module):
        def forward(self, x):
            with fx.traceback.annotate({"stage": 1}):
                return smolder.relu(x) + 1

    graph = Lines().trace(Noted())
    relu = graph.find_nodes(op="call_function", target=smolder.relu)[0]
    assert "return smolder.relu(x) + 1" in relu.stack_trace
    relu.meta["custom"] = {"stage": 1}
    again = fx.Transformer(fx.GraphModule(nn.Module(), graph)).transform().graph
    found = again.find_nodes(op="call_function", target=smolder.relu)[0]
    assert found.meta["custom"] == {"stage": 1} and found.stack_trace == relu.stack_trace
    assert "stage" in fx.GraphModule(nn.Module(), graph).print_readable(print_output=False)


def test_arguments_are_put_in_the_order_of_a_signature():
    graph = fx.symbolic_trace(lambda x: F.dropout(x, training=False)).graph
    node = next(n for n in graph.nodes if n.target is F.dropout)
    found = node.normalized_arguments(nn.Module(), normalize_to_only_use_kwargs=True)
    assert found.args == () and list(found.kwargs) == ["input", "p", "training", "inplace"]
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    node = module.graph.find_nodes(op="call_module")[0]
    assert list(node.normalized_arguments(module, normalize_to_only_use_kwargs=True).kwargs) == ["input"]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)
        self.norm = nn.LayerNorm(4)
        self.register_buffer("mask", smolder.ones(3, 3).tril())

    def forward(self, x, extra):
        q = self.first(x).chunk(2, dim=-1)
        y = F.softmax((q[0] @ q[1].transpose(-2, -1)).masked_fill(self.mask == 0, -1e9), dim=-1)
        y = self.norm(F.gelu(self.second(smolder.cat([y @ q[0], q[1]], dim=-1))))
        values, places = smolder.topk(y, 2)
        return {"values": values.clamp(-1, 1).mean(0), "places": [places, extra["a"] * 2.5 + y.std()]}


def test_captured_graphs_become_calls():
    smolder.manual_seed(0)
    model, x, extra = Small(), smolder.randn(3, 4), {"a": smolder.randn(4)}
    graph = smolder.capture(model, x, extra)
    traced = fx.from_captured(graph)
    out, expected = traced(x, extra["a"]), model(x, extra)
    assert smolder.equal(out["values"], expected["values"]) and smolder.equal(out["places"][0], expected["places"][0])
    np.testing.assert_allclose(out["places"][1].detach().numpy(), expected["places"][1].detach().numpy(), rtol=1e-6)
    assert set(traced.state_dict()) == set(model.state_dict())
    out["values"].sum().backward()
    assert model.first.weight.grad is not None
    targets = {n.target for n in traced.graph.find_nodes(op="call_function")}
    assert {F.linear, smolder.topk, smolder.cat, F.gelu} <= targets
    again = smolder.capture(traced, x, extra["a"])
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    with pytest.raises(NotImplementedError, match=r"sizes of the graph are dynamic \(n\)"):
        fx.from_captured(smolder.capture(lambda x: x + 1, x, dynamic_shapes={"x": {0: "n"}}))
    with pytest.raises(NotImplementedError, match="random numbers"):
        fx.from_captured(smolder.capture(lambda x: F.dropout(x), x))


def test_make_fx_is_a_graph_of_ops():
    made = make_fx(lambda x, y: F.relu(x @ y).sum(0))(smolder.ones(2, 3), smolder.ones(3, 4))
    assert [n.target for n in made.graph.find_nodes(op="call_function")] == [smolder.matmul, smolder.relu, smolder.sum]
    with pytest.raises(NotImplementedError, match="tracing_mode='symbolic'"):
        make_fx(len, tracing_mode="symbolic")


def test_a_graph_module_is_compiled_and_captured(traced):
    model, graph, x = traced
    expected = model(x)["all"]
    assert smolder.equal(smolder.capture(graph, x)(x)["all"], expected)
    smolder.compiler.events.clear()
    compiled = smolder.compile(graph)
    for _ in range(3):
        assert smolder.equal(compiled(x)["all"], expected)
    assert [e["event"] for e in smolder.compiler.events] == ["recorded"]
    node = graph.graph.find_nodes(op="call_function", target=smolder.cat)[0]
    with graph.graph.inserting_after(node):
        twice = graph.graph.call_function(operator.mul, (node, 2))
    node.replace_all_uses_with(twice, lambda user: user is not twice)
    graph.recompile()
    for _ in range(3):
        assert smolder.equal(compiled(x)["all"], expected * 2), "what was recorded is of the code before"


def test_operands_of_einsum_in_a_list_are_recorded_one_by_one():
    def product(a, b):
        return smolder.einsum("ij,jk->ik", [a, b])

    (node,) = (n for n in fx.symbolic_trace(product).graph.nodes if n.op == "call_function")
    assert len(node.args) == 3 and [a.name for a in node.args[1:]] == ["a", "b"]
