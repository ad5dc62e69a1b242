"""From a graph to an ONNX model."""

import onnx
from onnx import helper

from smolder import _core
from smolder._version import __version__
from smolder.onnx._ops import PRIMITIVES, WHOLE, Unsupported
from smolder.onnx._text import GraphText, number
from smolder.onnx._writer import Writer, array_of

_IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10}
_MADE_APART = ("leaf", "constant", "parameter")


def model_of(graph, opset, input_names, output_names, with_weights):
    """The ONNX model of a smolder.Graph."""
    whole = GraphText(str(graph))
    judge = Writer(whole, opset)
    _note(judge, whole)
    kept = [i for i, n in enumerate(whole.nodes) if n.op in WHOLE and WHOLE[n.op][0](judge, n)]
    text = GraphText(_core._lowered_graph(str(graph), kept))
    writer = Writer(text, opset)
    _note(writer, text)
    inputs = _names(input_names, text.inputs, "input_names")
    outputs = _names(output_names, text.outputs, "output_names")
    writer.taken.update(inputs, outputs, text.weights)
    _write_leaves(writer, inputs + text.weights)
    for node in text.nodes:
        if node.op not in _MADE_APART:
            _write_node(writer, node)
    return _model(writer, graph, inputs, outputs, with_weights)


def _note(w, graph):
    """Numbers that are known, and values that are read."""
    w.read = set(graph.returned)
    for node in graph.nodes:
        w.read.update(v for v in node.inputs if v is not None)
        if node.op == "constant" and graph.values[node.outputs[0]].weak:
            w.numbers[node.outputs[0]] = number(node.attrs["value"])


def _names(given, own, what):
    given = list(given or ())
    if len(given) > len(own):
        raise ValueError(f"{what}: {len(given)} names are given, and there are {len(own)}: {', '.join(own)}")
    return given + own[len(given) :]


def _write_leaves(w, names):
    for node in w.graph.nodes:
        if node.op == "leaf":
            w.names[node.outputs[0]] = names[node.integer("number")]
            w.find_sizes(node.outputs[0], w.meta(node.outputs[0]))
        elif node.op == "constant" and node.outputs[0] not in w.numbers:
            v = node.outputs[0]
            w.names[v] = w.scalar(number(node.attrs["value"]), w.meta(v).dtype)


def _write_node(w, node):
    try:
        write = PRIMITIVES.get(node.op) or WHOLE.get(node.op, (None, None))[1]
        if write is None:
            raise Unsupported("")
        made = write(w, node)
    except Unsupported as e:
        from smolder.onnx import UnsupportedOperatorError

        where = f", recorded at {node.source}" if node.source else ""
        why = f" ({e})" if str(e) else ""
        raise UnsupportedOperatorError(f"ONNX has no equivalent of '{node.op}'{why}{where}") from None
    if made is None:
        return
    for v, name in zip(node.outputs, [made] if isinstance(made, str) else made, strict=False):
        w.names[v] = name


def _model(w, graph, inputs, outputs, with_weights):
    text = w.graph
    called = {f"s{i}": name for i, name in enumerate(text.sizes)}

    def size_name(expression):
        for symbol, name in sorted(called.items(), reverse=True):
            expression = expression.replace(symbol, name)
        return expression

    leaves = {n.integer("number"): n.outputs[0] for n in text.nodes if n.op == "leaf"}
    every = inputs + text.weights
    shown = [w.type_of(every[i], w.meta(leaves[i]), size_name) for i in range(len(every)) if i in leaves]
    weights = graph.state_dict()
    if with_weights:
        shown = shown[: len(inputs)]
        for i, name in enumerate(text.weights, len(inputs)):
            if leaves.get(i) not in w.read:
                continue
            if weights[name] is None:
                raise ValueError(f"the weight '{name}' of the graph is not bound")
            array = array_of(weights[name])
            array.name = name
            w.initializers.append(array)
    results = []
    for name, v in zip(outputs, text.returned, strict=True):
        meta = w.meta(v)
        w.nodes.append(helper.make_node("Identity", [w.value(v)], [name], name=f"node_{name}"))
        results.append(w.type_of(name, meta, size_name))
    proto = helper.make_graph(w.nodes, "main_graph", shown, results, w.initializers)
    model = helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", w.opset)],
        ir_version=_IR_VERSIONS[w.opset],
        producer_name="smolder",
        producer_version=__version__,
    )
    onnx.checker.check_model(model)
    return model
