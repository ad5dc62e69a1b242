"""The `smolder` command: subcommands register themselves here."""

import argparse
import importlib.util
import os
import sys

from smolder._version import __version__

# Modules with `add_arguments(parser)` and `run(args) -> exit status | None`, by subcommand: (module, one line of help).
COMMANDS = {
    "bench": ("smolder.cli.bench", "measure: recording, compiling, kernels, training"),
    "cache": ("smolder.cli.cache", "look at the kernel cache, and change it"),
    "replay": ("smolder.cli.replay", "run a recorded step again: time, check, bisect, reduce"),
    "trace": ("smolder.cli.trace", "look at recorded steps: show, compare, draw"),
    "explain": ("smolder.cli.explain", "run a script, and say what its steps became and why they were compiled"),
    "doctor": ("smolder.cli.doctor", "what is installed, found and missing; does a step work?"),
}


def _present(module):
    return importlib.util.find_spec(module) is not None


def build_parser():
    """The parser with every subcommand whose module is there."""
    parser = argparse.ArgumentParser(prog="smolder", description="Smolder: record, compile, replay.")
    parser.add_argument("--version", action="version", version=f"smolder {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (module, text) in COMMANDS.items():
        if not _present(module):
            continue
        loaded = importlib.import_module(module)
        sub = commands.add_parser(name, help=text, description=loaded.__doc__)
        loaded.add_arguments(sub)
        sub.set_defaults(run=loaded.run)
    return parser


def main(argv=None):
    """Runs the command line; returns the exit status."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    try:
        status = args.run(args) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read it has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
