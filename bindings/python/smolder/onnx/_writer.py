"""Writes the nodes of an ONNX model: names, constants, and sizes that are known when it runs."""

import ast

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from smolder.onnx._text import size_tree

TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int16": TensorProto.INT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}
FLOATS = ("float32", "float64", "float16", "bfloat16")
_SIZE_OPS = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "Div", ast.Mod: "Mod"}


class Writer:
    """An ONNX graph that is being written, and what each value of the graph that it comes of is called there."""

    def __init__(self, graph, opset):
        self.graph, self.opset = graph, opset
        self.nodes, self.initializers, self.constants = [], [], {}
        self.names = {}  # of values
        self.numbers = {}  # values that are known
        self.sizes = {}  # names of what dynamic sizes are
        self.taken = set()  # names that are the user's
        self.count = 0

    # -- nodes

    def fresh(self, hint):
        while True:
            self.count += 1
            name = f"{hint.lower()}_{self.count}"
            if name not in self.taken:
                return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        """A node; its result's name, or their names."""
        names = [self.fresh(kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"node_{names[0]}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        """An initializer; equal ones are one."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = name = self.fresh("constant")
            self.initializers.append(numpy_helper.from_array(array, name))
        return self.constants[key]

    def ints(self, values):
        return self.constant(np.asarray(values, np.int64))

    def scalar(self, value, dtype):
        """A number as a tensor of no dimensions."""
        if dtype == "bfloat16":
            return self.cast(self.constant(np.asarray(value, np.float32)), dtype)
        return self.constant(np.asarray(value).astype(np.dtype(dtype)))

    def cast(self, name, dtype):
        return self.op("Cast", name, to=TYPES[dtype])

    # -- values

    def value(self, v, dtype=None):
        """The name of a value; of a number, as a tensor of `dtype`."""
        meta = self.graph.values[v]
        if v in self.numbers:
            return self.scalar(self.numbers[v], dtype or meta.dtype)
        name = self.names[v]
        return self.cast(name, dtype) if meta.weak and dtype and dtype != meta.dtype else name

    def meta(self, v):
        return self.graph.values[v]

    # -- sizes

    def size(self, d):
        """The name of a tensor [1] of int64 that is a size."""
        if isinstance(d, int):
            return self.ints([d])
        if d not in self.sizes:
            self.sizes[d] = self._size_of(size_tree(d))
        return self.sizes[d]

    def _size_of(self, tree):
        if isinstance(tree, ast.Constant):
            return self.ints([tree.value])
        if isinstance(tree, ast.Name):
            return self.sizes[tree.id]
        if isinstance(tree, ast.BinOp):
            return self.op(_SIZE_OPS[type(tree.op)], self._size_of(tree.left), self._size_of(tree.right))
        if isinstance(tree, ast.UnaryOp):
            return self.op("Neg", self._size_of(tree.operand))
        a, b = (self._size_of(x) for x in tree.args)
        if tree.func.id == "ceildiv":
            one = self.ints([1])
            return self.op("Div", self.op("Add", a, self.op("Sub", b, one)), b)
        return self.op({"min": "Min", "max": "Max"}[tree.func.id], a, b)

    def shape(self, dims):
        """The name of a tensor of int64 that holds sizes."""
        if all(isinstance(d, int) for d in dims):
            return self.ints(list(dims))
        return self.op("Concat", *(self.size(d) for d in dims), axis=0)

    def find_sizes(self, leaf, meta):
        """Dynamic sizes that an input has as they are."""
        for i, d in enumerate(meta.shape):
            if isinstance(d, str) and d not in self.sizes and d.isidentifier():
                self.sizes[d] = self.op("Shape", self.names[leaf], start=i, end=i + 1)

    def type_of(self, name, meta, size_names):
        """Describes an input or an output, with dynamic sizes by name."""
        dims = [d if isinstance(d, int) else size_names(d) for d in meta.shape]
        return helper.make_tensor_value_info(name, TYPES[meta.dtype], dims)


def array_of(tensor):
    """A tensor's elements as ONNX keeps them."""
    if str(tensor.dtype).endswith("bfloat16"):
        wide = np.ascontiguousarray(tensor.detach().float().cpu().numpy())  # float32, of which the upper half is all
        upper = (wide.view(np.uint32) >> 16).astype(np.uint16)
        return helper.make_tensor("", TensorProto.BFLOAT16, list(tensor.shape), upper.tobytes(), raw=True)
    return numpy_helper.from_array(np.ascontiguousarray(tensor.detach().cpu().numpy()))
