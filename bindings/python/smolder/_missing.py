"""Names of torch's that are not here: why, and what to use instead. docs/torch.md prints the table."""

import sys

# Names that are missing: why, what does instead, and torch's names of it.
KINDS = [
    (
        "complex numbers of half precision",
        "complex numbers are complex64 and complex128",
        "complex64",
        "chalf complex32",
    ),
    (
        "other floats of 8 bits and fewer",
        "of these there are float8_e4m3fn and float8_e5m2",
        "float8_e4m3fn",
        "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2",
    ),
    (
        "integers of fewer than 8 bits",
        "elements take whole bytes",
        "int8 or uint8, with shifts and masks",
        "int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    ),
    (
        "sparse tensors of blocks",
        "sparse tensors are COO, CSR or CSC",
        "sparse_csr_tensor",
        "sparse_bsr_tensor sparse_bsc_tensor",
    ),
    (
        "quantized tensors",
        "no dtype has a scale",
        "bfloat16",
        "quantization ao qint8 quint8 qint32 quint4x2 quint2x4 quantize_per_tensor quantize_per_channel",
    ),
    (
        "graphs of torch's compilers",
        "what runs is recorded, and sizes are numbers",
        "smolder.compile, smolder.capture for a graph, smolder.explain to read one",
        "_dynamo _inductor _functorch SymInt SymFloat SymBool",
    ),
]
REASONS = {name: (what, why, instead) for what, why, instead, names in KINDS for name in names.split()}


def missing(module, name):
    """The AttributeError of a module that lacks a name. Python adds the nearest name where it prints it."""
    text = f"module {module!r} has no attribute {name!r}"
    if name in REASONS:
        what, why, instead = REASONS[name]
        text += f": {what} are not supported ({why}). Use {instead}"
    return AttributeError(text, name=name, obj=sys.modules.get(module))


def table():
    """The table of docs/torch.md."""
    rows = [f"| {what} | {why} | {instead} | `{'`, `'.join(names.split())}` |" for what, why, instead, names in KINDS]
    return "\n".join(["| missing | why | use | names |", "| --- | --- | --- | --- |", *rows]) + "\n"
