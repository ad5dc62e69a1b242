"""The user's lines, as records and errors name them: "train.py:12 in f", or "cell 3, line 2" of a notebook."""

import linecache
import re
import sys

from smolder import _core

_CELL = re.compile(r"^cell (\d+), line (\d+)(?: in (.*))?$")
_LINE = re.compile(r"^(.*):(\d+)(?: in (.*))?$")


def _cells():
    """IPython's number of the cell that each file of source stands for; empty outside of IPython."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(getattr(shell, "compile", None), "_filename_map", {})


def name_cells():
    """From now on records and errors name lines of cells by the cell, not by the file that IPython made of it."""
    cells = _cells()
    if isinstance(cells, dict) and "IPython" in sys.modules:
        _core._set_cells(cells)


def place(file, line):
    """The name of a line: "train.py:3", or "cell 3, line 2"."""
    number = _cells().get(file)
    return f"{file}:{line}" if number is None else f"cell {number}, line {line}"


def parts(where):
    """File, line and function that `where` names; the function may be empty. None where it names no line."""
    if found := _CELL.match(where):
        number = int(found[1])
        files = [name for name, cell in _cells().items() if cell == number]
        return (files[-1] if files else f"cell {number}"), int(found[2]), found[3] or ""
    if found := _LINE.match(where):
        return found[1], int(found[2]), found[3] or ""
    return None


def source_line(where):
    """The text of the line that `where` names; empty where there is none."""
    found = parts(where)
    return linecache.getline(found[0], found[1]).strip() if found else ""
