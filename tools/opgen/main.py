"""Generates the C++ of the op table: python3 main.py --rows src/ir/ops --primitives DEF --out DIR."""

import argparse
import sys

import emit_autograd
import emit_ir
import emit_json
import emit_lazy
import emit_python
import model
from signature import OpError
from writer import Writer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", required=True, help="folder of *.toml")
    parser.add_argument("--primitives", required=True, help="scalar/primitives.def")
    parser.add_argument("--out", required=True, help="folder that generated files go to")
    args = parser.parse_args()
    try:
        table = model.load(args.rows, args.primitives)
        writer = Writer(args.out)
        for emitter in (emit_ir, emit_lazy, emit_autograd, emit_json, emit_python):
            emitter.emit(table, writer)
    except OpError as e:
        sys.exit(f"opgen: {e}")


if __name__ == "__main__":
    main()
