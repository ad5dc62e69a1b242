"""Text for a terminal: tables that fit it, sizes, times."""

import datetime
import shutil


class Failure(Exception):
    """Ends the command with a message and a status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def counted(n, thing):
    """So many of a thing, whose plural ends in s."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def width():
    """Columns of the terminal, or COLUMNS where it is set; what goes to a file or a pipe is not cut."""
    return max(40, shutil.get_terminal_size((100_000, 24)).columns)


def cut(text, room, *, keep_end=False):
    """`text` in at most `room` characters."""
    if len(text) <= room:
        return text
    if room < 2:
        return text[:room]
    return "…" + text[len(text) - room + 1 :] if keep_end else text[: room - 1] + "…"


def table(titles, rows, *, right=(), flexible=None):
    """Lines of a table no wider than the terminal: of the `flexible` column, a path, the end is kept."""
    columns = range(len(titles))
    widths = [max(len(row[c]) for row in [titles, *rows]) for c in columns]
    if flexible is not None:
        others = sum(w for c, w in enumerate(widths) if c != flexible) + 2 * (len(titles) - 1)
        widths[flexible] = max(len(titles[flexible]), min(widths[flexible], width() - others))
    lines = []
    for row in [titles, *rows]:
        cells = [cut(text, widths[c], keep_end=c == flexible) for c, text in enumerate(row)]
        cells = [text.rjust(widths[c]) if c in right else text.ljust(widths[c]) for c, text in enumerate(cells)]
        lines.append(cut("  ".join(cells).rstrip(), width()))
    return lines


def size(n):
    """Bytes for people: 734, 1.2K, 35M."""
    amount = float(n)
    for unit in ("", "K", "M", "G"):
        if amount < 1024:
            return f"{amount:.1f}{unit}" if unit and amount < 10 else f"{amount:.0f}{unit}"
        amount /= 1024
    return f"{amount:.1f}T"


def parse_size(text):
    """Parses a size as `size` prints it and SMOLDER_CACHE_BYTES takes it."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    number = text[:-1] if text[-1:] in units else text
    try:
        n = float(number) * units.get(text[-1:], 1)
    except ValueError:
        n = -1
    if not 0 <= n < 2**62:
        raise ValueError(f"'{text}' is no size: give a number of bytes, or one followed by K, M, G or T")
    return int(n)


def milliseconds(ms):
    """A time for people."""
    return f"{ms:.1f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def moment(since_1970_ms):
    """A moment in local time, to the second."""
    return datetime.datetime.fromtimestamp(since_1970_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
