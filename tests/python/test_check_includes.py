"""tools/check_includes finds the headers that a source forgot, and no others."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = {
    "src/core/size.h": "namespace smolder {\n/// Bytes.\nint64_t storage_bytes(const Dims& shape, DType dtype);\n}\n",
    "src/core/array.h": '#include "smolder/core/size.h"\nnamespace smolder {\nstruct Array {\n  int rank;\n};\n}\n',
    "src/core/limits.h": "namespace smolder {\n#define SMOLDER_LIMIT(x) x\n}\n",
    "src/core/other.h": "namespace smolder {\n// storage_bytes of an Array\n}\n",
    "src/lazy/tensor.h": "namespace smolder {\nTensor reshaped(const Tensor& t);\n}\n",
    "generated/smolder/lazy/ops.h": "namespace smolder {\nTensor relu(const Tensor& self);\n}\n",
}
OTHER = '#include "smolder/core/other.h"\n'


@pytest.fixture(scope="module")
def breaches():
    loader = SourceFileLoader("check_includes", str(ROOT / "tools" / "check_includes"))
    module = module_from_spec(spec_from_loader("check_includes", loader))
    loader.exec_module(module)

    def found(text, path="src/core/a.cpp"):
        tree = module.Tree(HEADERS | {path: text})
        return module.check(tree, path, module.declared(tree))

    return found


@pytest.mark.parametrize(
    ("line", "name", "header"),
    [
        ("auto n = storage_bytes(shape, t);", "storage_bytes", "src/core/size.h"),
        ("auto n = smolder::storage_bytes(shape, t);", "storage_bytes", "src/core/size.h"),
        ("return storage_bytes(shape, t);", "storage_bytes", "src/core/size.h"),
        ("void f(const Array& a);", "Array", "src/core/array.h"),
        ("int x = SMOLDER_LIMIT(3);", "SMOLDER_LIMIT", "src/core/limits.h"),
    ],
)
def test_a_missing_include_is_found(breaches, line, name, header):
    text = f"{OTHER}{line}\n"
    assert breaches(text) == [f"src/core/a.cpp:2: {name} is declared in {header}, which it does not include"]
    assert breaches(f'#include "smolder/{header.removeprefix("src/")}"\n{text}') == []


@pytest.mark.parametrize(
    "line",
    [
        "auto n = x.storage_bytes(shape, t);",
        "auto n = x->storage_bytes(shape);",
        "auto n = std::storage_bytes(shape);",
        "int64_t storage_bytes(int x);\nauto n = storage_bytes(3);",
        "int storage_bytes = 3;\nf(storage_bytes);",
        "// storage_bytes(x) of an Array",
        'f("storage_bytes(x)", R"(Array a)");',
        "struct Array {};\nArray a;",
        "TEST(Array, IsThere) {}",
        "f(reshaped(t));",  # of a layer above, which it can't mean
    ],
)
def test_what_is_not_ours_is_not_asked_for(breaches, line):
    assert breaches(f"{OTHER}{line}\n") == []


def test_what_includes_bring_is_there(breaches):
    assert breaches('#include "smolder/core/array.h"\nauto n = storage_bytes(shape, t);\n') == []
    assert breaches("#include <smolder/core/array.h>\nArray a;\n") == []
    assert breaches('#include "smolder/lazy/ops.h"\nf(relu(t));\n', "src/lazy/a.cpp") == []
