"""Generates code from the op table: python3 main.py --rows src/ir/ops --primitives DEF --out DIR.

With --page FILE it writes docs/ops.md instead.
"""

import argparse
import sys
from pathlib import Path

import emit_autograd
import emit_docs
import emit_ir
import emit_json
import emit_lazy
import emit_python
import emit_stub
import model
from signature import OpError
from writer import Writer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", required=True, help="folder of *.toml")
    parser.add_argument("--primitives", required=True, help="scalar/primitives.def")
    parser.add_argument("--out", help="folder that generated files go to")
    parser.add_argument("--page", help="the page for people")
    args = parser.parse_args()
    try:
        table = model.load(args.rows, args.primitives)
        if args.page:
            Path(args.page).write_text(emit_docs.page(table))
        if args.out:
            writer = Writer(args.out)
            for emitter in (emit_ir, emit_lazy, emit_autograd, emit_json, emit_python, emit_stub):
                emitter.emit(table, writer)
    except OpError as e:
        sys.exit(f"opgen: {e}")


if __name__ == "__main__":
    main()
