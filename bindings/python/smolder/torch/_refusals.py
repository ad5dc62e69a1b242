"""Names that exist only so that programs can import and mention them: using one raises, and says why."""

from smolder.cuda._refused import refused, refused_class

# Parts of torch's tree, and why what Smolder has not got of them is not supported.
_WHY = {
    "docs/distributed.md says what there is of torch.distributed": "distributed",
    "a process runs copies of a module on one device": "nn.parallel",
    "no dtype has a scale": "ao quantization nn.quantized nn.intrinsic nn.qat nn.quantizable per_channel_affine",
    "smolder.compile records what runs, and takes no graphs or options of torch's compilers": (
        "_dynamo _inductor _functorch _subclasses _guards _higher_order_ops compiler utils._sympy _logging"
    ),
    "what runs is recorded, and sizes are numbers": "SymInt SymFloat SymBool",
    "smolder.export.export captures what runs, and keeps it in its own format": "export _export package",
    "there is no TorchScript": "jit _jit_internal",
    "smolder.onnx.export writes the file": "onnx",
    "kernels are compiled from ops, and none are taken that Triton compiles": "library.wrap_triton",
    "sparse tensors are COO, CSR or CSC, and their products are made of index_select and index_add": "sparse",
    "nested tensors are of Smolder's own": "nested",
    "there are no tensors that carry masks; give masks to the functions of smolder.masked": "masked",
    "it is a part of torch's core in C++": "_C _VF _classes _library _prims_common cpp classes",
    "of torch's passes over graphs smolder.fx has shape_prop and split_module": "fx",
    "smolder.profiler measures in its own way": "profiler autograd.profiler autograd.profiler_util monitor",
    "there is no such device": "xpu mtia mps accelerator cuda hip",
    "attention is one op, and the compiler chooses how it runs": "nn.attention",
    "of pipes of data there are the plain ones": (
        "utils.data.datapipes utils.data.graph utils.data.graph_settings utils.data.DFIterDataPipe utils.data.DataChunk"
    ),
    "loaders make batches in their own way": "utils.data._utils",
    "Smolder takes no extensions in C++ of torch's": "utils.cpp_extension utils.cpp_backtrace",
    "there is no such tool": "utils.mobile_optimizer utils.throughput_benchmark utils.weak utils.debug_lib utils.jit",
}
_OF = {path: why for why, paths in _WHY.items() for path in paths.split()}
_made = {}


def _reason(path):
    while path:
        if path in _OF:
            return _OF[path]
        path = path.rpartition(".")[0]
    return None


def made(path, kind, of_core=False):
    """The function or class that stands for a name which is refused; None for one that is missing."""
    reason = _reason("_C" if of_core else path)
    if reason is None or kind in ("value", "package"):
        return None
    if path not in _made:
        _made[path] = _make(path, kind, reason)
    return _made[path]


def _make(path, kind, reason):
    if kind == "function":
        return refused(f"torch.{path}", reason)
    if kind == "module":
        from smolder.nn import Module

        return refused_class(f"torch.{path}", reason, Module)
    if kind == "error":
        return type(path.rpartition(".")[2], (RuntimeError,), {"__doc__": f"Is never raised: {reason}."})
    return refused_class(f"torch.{path}", reason)


def why(value):
    """Why a function or a class is refused; "" for one that is not, and for what else there is."""
    found = getattr(value, "__dict__", {}).get("_why_refused", "")
    return found if isinstance(found, str) else ""
