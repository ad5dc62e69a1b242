"""Graphs traced with proxies: their code, what runs them, and changes to them."""

import copy
import operator
import pickle

import pytest

import smolder
from smolder import fx, nn


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
    graph.call_module("a.c")
    with pytest.raises(RuntimeError, match="references nonexistent attribute c"):
        graph.lint()


def test_what_depends_on_values_is_not_traced():
    with pytest.raises(fx.proxy.TraceError, match="cannot be used as inputs to control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: list(x))
    with pytest.raises(NotImplementedError, match=r"takes \*x, which can't be traced"):
        fx.symbolic_trace(lambda *x: x)


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
    assert fx.symbolic_trace(model, concrete_args={"times": 5}).code.count("times") == 0
    assert by_hand(smolder.ones(1)).tolist() == [2], "nothing stays patched"
