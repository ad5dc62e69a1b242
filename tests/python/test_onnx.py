"""Export to ONNX, run by onnxruntime."""

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed: pip install onnx onnxruntime")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="the package onnxruntime is not installed: pip install onnxruntime"
)

from op_rows import DRAWN, ROWS, Refused, arguments, call, ids, made, outcome, own_cases, results  # noqa: E402

onnxruntime.set_default_logger_severity(4)


def session_of(program):
    onnx.checker.check_model(program.model_proto, full_check=True)
    return onnxruntime.InferenceSession(program.model_proto.SerializeToString())


def compare(model, example, others=(), rtol=1e-4, atol=1e-5, **options):
    """Exports the model, and compares what onnxruntime makes of these inputs, and of others, with what it does."""
    program = smolder.onnx.export(model, example, **options)
    session = session_of(program)
    names = [i.name for i in session.get_inputs()]
    for inputs in (example, *others):
        with smolder.no_grad():
            expected = model(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = session.run(None, {n: t.numpy() for n, t in zip(names, inputs, strict=True)})
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=rtol, atol=atol)
    return program


def ops_of(program):
    return [n.op_type for n in program.model_proto.graph.node]


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.SiLU(), nn.AvgPool2d(2, ceil_mode=True),
            nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1), nn.Hardswish(), nn.AdaptiveAvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return F.log_softmax(self.head(self.features(x).flatten(1)), -1)


class Block(nn.Module):
    """A block of a GPT with its embeddings."""

    def __init__(self, width=32, heads=4, vocabulary=50, longest=16):
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        n, length = tokens.shape
        x = self.tokens(tokens) + self.places(smolder.arange(length))
        q, k, v = (
            p.reshape(n, length, self.heads, -1).transpose(1, 2) for p in self.qkv(self.first(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, -1))
        return self.head(x + self.mlp(self.second(x)))


@pytest.mark.parametrize("opset", [18, 20, 22])
def test_a_perceptron(opset):
    model = nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 3), nn.Softmax(-1))
    program = compare(model, (smolder.randn(4, 6),), opset_version=opset)
    assert ("Gelu" in ops_of(program)) == (opset >= 20)
    assert {"Gemm", "LayerNormalization", "Softmax"} <= set(ops_of(program))
    names = {i.name for i in program.model_proto.graph.initializer}
    assert set(model.state_dict()) <= names
    assert program.model_proto.opset_import[0].version == opset


def test_a_convolutional_net_with_a_dynamic_batch():
    model = ConvNet().eval()
    program = compare(
        model,
        (smolder.randn(2, 3, 16, 16),),
        [(smolder.randn(n, 3, 16, 16),) for n in (1, 5)],
        input_names=["image"],
        output_names=["scores"],
        dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}},
    )
    assert {"Conv", "MaxPool", "ConvTranspose", "Gemm", "LogSoftmax", "HardSwish"} <= set(ops_of(program))
    graph = program.model_proto.graph
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == ["batch", 3, 16, 16]
    assert [d.dim_param or d.dim_value for d in graph.output[0].type.tensor_type.shape.dim] == ["batch", 10]
    assert (graph.input[0].name, graph.output[0].name) == ("image", "scores")


def test_a_block_of_a_transformer_with_dynamic_sizes():
    model = Block()
    tokens = [(smolder.randint(0, 50, shape),) for shape in ((2, 8), (3, 16), (1, 5))]
    was = model.training
    program = smolder.onnx.export(
        model, tokens[0], dynamic_shapes={"tokens": {0: "batch", 1: smolder.export.Dim("length", min=2, max=16)}}
    )
    assert model.training is was
    model.eval()
    session = session_of(program)
    for (t,) in tokens:
        with smolder.no_grad():
            np.testing.assert_allclose(
                session.run(None, {"tokens": t.numpy()})[0], model(t).numpy(), rtol=1e-4, atol=1e-5
            )
    assert {"Gather", "LayerNormalization", "MatMul", "Gelu"} <= set(ops_of(program))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind):
    layer = kind(4, 6, num_layers=2, bidirectional=True)
    compare(lambda x: layer(x)[0], (smolder.randn(5, 2, 4),))


def test_a_graph_a_function_and_files(tmp_path):
    x = smolder.randn(2, 3)
    graph = smolder.capture(lambda x, y: (x @ y.T, x - y), x, x)
    by_path = smolder.onnx.export(graph, f=tmp_path / "a.onnx")
    with open(tmp_path / "b.onnx", "wb") as f:
        smolder.onnx.export(lambda x, y: (x @ y.T, x - y), (x, x), f)
    assert onnx.load(tmp_path / "a.onnx") == by_path.model_proto
    session = onnxruntime.InferenceSession(tmp_path / "b.onnx")
    found = session.run(None, {"x": x.numpy(), "y": (x + 1).numpy()})
    np.testing.assert_allclose(found[0], (x @ (x + 1).T).numpy(), rtol=1e-5)
    np.testing.assert_allclose(found[1], -np.ones((2, 3)), rtol=1e-5)


def test_weights_may_be_inputs():
    model = nn.Linear(3, 2)
    program = smolder.onnx.export(model, smolder.randn(1, 3), export_params=False)
    session = session_of(program)
    assert [i.name for i in session.get_inputs()] == ["input", "weight", "bias"]


def test_halves_keep_their_bits():
    model = nn.Linear(3, 2).to(smolder.bfloat16)
    program = smolder.onnx.export(model, smolder.randn(1, 3, dtype=smolder.bfloat16))
    weight = next(i for i in program.model_proto.graph.initializer if i.name == "weight")
    assert weight.data_type == onnx.TensorProto.BFLOAT16
    values = onnx.numpy_helper.to_array(weight).astype(np.float32)
    assert values.tolist() == model.weight.tolist()


def test_what_onnx_has_not_is_named_with_its_line():
    with pytest.raises(
        smolder.onnx.UnsupportedOperatorError, match=r"'scan' \(a running prod\), recorded at .*test_onnx.py"
    ):
        smolder.onnx.export(lambda x: x.cumprod(0), smolder.ones(3))
    with pytest.raises(smolder.onnx.UnsupportedOperatorError, match="random"):
        smolder.onnx.export(lambda x: x + smolder.rand(3), smolder.ones(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset_version": 9}, "opset_version should be an integer from 18"),
        ({"input_names": ["a", "b"]}, "input_names: 2 names are given"),
        ({"dynamic_axes": {}, "dynamic_shapes": ()}, "either dynamic_axes or dynamic_shapes"),
    ],
)
def test_arguments_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        smolder.onnx.export(lambda x: x + 1, smolder.ones(3), **options)


# -- every row of the op table

READ_VALUES = {
    "repeat_interleave.tensor", "repeat_interleave.repeats", "where.condition", "masked_select", "nonzero", "argwhere",
    "unique_of", "unique_rows", "bincount",
}  # fmt: skip
SWEPT = [r for r in ROWS if (r["function"] or r["method"]) and r["key"] not in READ_VALUES | DRAWN]
# ONNX has nothing for these, for some dtypes or all.
NOT_IN_ONNX = {
    "shl", "shr", "conv_backward_weight", "dropout_seeded", "random_uniform", "random_normal", "random_int",
    "random_bernoulli", "cumprod", "cummax", "cummin",
    "fft_c2c", "fft_r2c", "fft_c2r",  # its DFT takes one axis, and makes no real numbers of half a spectrum
}  # fmt: skip
# And of these onnxruntime has no kernel: the error function of float64.
NOT_IN_ONNXRUNTIME = {"erfinv"}


def exported(row, arrays, words):
    """The results of onnxruntime for a call of an op; None where NumPy lacks the dtype of a result."""
    tensors = made(arrays)
    flat = [t for v in tensors.values() for t in (v if isinstance(v, list) else [v])]

    def function(*given):
        rest = iter(given)
        again = {n: [next(rest) for _ in v] if isinstance(v, list) else next(rest) for n, v in tensors.items()}
        return results(call(row, again, words))

    graph = smolder.capture(function, *flat)
    session = session_of(smolder.onnx.export(graph))
    if any(o.type == "tensor(bfloat16)" for o in session.get_outputs()):
        return None
    given = dict(zip(graph.input_names, flat, strict=True))
    return session.run(None, {i.name: given[i.name]._to_numpy() for i in session.get_inputs()})


@pytest.mark.parametrize("row", SWEPT, ids=ids(SWEPT))
def test_every_op(row):
    refused = False
    for i, case in enumerate(own_cases(row)):
        for dtype in ("float32", "int64", "bool") if i == 0 else ("float32",):
            arrays, words = arguments(row, case, dtype)
            expected = outcome(row, arrays, words)
            if isinstance(expected, Refused):
                continue
            try:
                found = exported(row, arrays, words)
            except smolder.onnx.UnsupportedOperatorError:
                refused = True
                continue
            except Exception as e:
                if row["key"] in NOT_IN_ONNXRUNTIME and "NOT_IMPLEMENTED" in str(e):
                    continue
                raise
            if found is None:
                continue
            for a, b in zip(found, expected, strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{case}, {dtype}"
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=f"{case}, {dtype}")
    assert refused == (row["key"] in NOT_IN_ONNX)


def test_models_may_ask_whether_they_are_exported():
    asked = []

    def model(x):
        asked.append(smolder.onnx.is_in_onnx_export())
        return x + 1

    smolder.onnx.export(model, smolder.ones(2))
    model(smolder.ones(2))
    assert asked[0] and not asked[-1] and not smolder.onnx.is_in_onnx_export()
    with pytest.raises(ValueError, match="no"):
        smolder.onnx.export(lambda x: (_ for _ in ()).throw(ValueError("no")), smolder.ones(2))
    assert not smolder.onnx.is_in_onnx_export()
