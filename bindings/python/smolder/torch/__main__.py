"""python -m smolder.torch: runs a program with `torch` being Smolder."""

import argparse
import os
import runpy
import sys

from smolder.torch import _names, install


class _Table(argparse.Action):
    def __init__(self, option_strings, dest, help):
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser, *_):
        install()
        print(_names.summary(), end="")
        parser.exit()


def _arguments():
    parser = argparse.ArgumentParser(
        prog="python -m smolder.torch", description="Run a program that was written for PyTorch on Smolder."
    )
    parser.add_argument("--missing", action="store_true", help="print at the end which names of torch's were missing")
    parser.add_argument("--table", action=_Table, help="print how much of torch's tree is here, and end")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module, as python -m does")
    parser.add_argument("program", metavar="SCRIPT", help="a file of Python, or the name of a module after -m")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="what the program is given")
    return parser.parse_args()


def main() -> None:
    """Runs what the command line names, as `python` would."""
    given = _arguments()
    install(missing=given.missing)
    sys.argv = [given.program, *given.arguments]
    if given.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(given.program))
        runpy.run_path(given.program, run_name="__main__")


if __name__ == "__main__":
    main()
