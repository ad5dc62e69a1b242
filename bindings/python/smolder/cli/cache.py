"""Looks at the kernel cache and changes it, also while other processes use it.

A KEY is the start of a row's key, as `ls` shows it. Exit status: 0 fine; 1 something was found: rows that are broken, a
damaged file, a difference, or nothing of that key; 2 the command was not understood; 3 the cache cannot be used.
"""

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

from smolder import _core
from smolder._terminal import Failure, counted, cut, milliseconds, moment, parse_size, size, table, width

FOUND, UNUSABLE = 1, 3
_SHORT = 12  # characters of a key that tables show
_NOTES = "recompile", "plan"  # kinds of rows that hold no code


# -- rows


def _text(raw):
    return raw.decode("utf-8", "backslashreplace")


def _title(row):
    return _text(row["name"])


def _reason(row):
    """Why a step was compiled, as the runtime stored it."""
    cause, reason, where, before, *_ = [*_text(row["structure"]).split("\n"), "", "", "", ""]
    kernels = []
    for line in _text(row.get("payload", b"")).splitlines():
        key, took, name = line.split(" ", 2)
        kernels.append({"key": key, "milliseconds": float(took), "name": name})
    return {"cause": cause, "reason": reason, "where": where, "before": before, "kernels": kernels}


def _plain(row, *, full=False):
    """A row for JSON: text instead of bytes, and of the payload its size."""
    out = {
        k: _text(v) if isinstance(v, bytes) else v
        for k, v in row.items()
        if k not in ("payload", "structure", "source")
    }
    if full:
        out["structure"], out["source"] = _text(row["structure"]), _text(row["source"])
        out["payload_bytes"] = len(row["payload"])
        out["saved_ms"] = row["build_ms"] * row["hits"]
    return out


def _open(path=None):
    """The database for reading; None where there is none yet."""
    if path is None:
        options = _core._cache_options()
        if not options["enabled"]:
            raise Failure("SMOLDER_CACHE=off: there is no cache on disk", UNUSABLE)
        path = options["path"]
        if not os.path.exists(path):
            return None
    try:
        return _core._CacheFile(path)
    except RuntimeError as e:
        raise Failure(f"{e}\n`smolder cache verify --repair` sets a damaged cache aside", UNUSABLE) from None


def _rows(file, kind="", mentions=""):
    return file.rows(kind, mentions) if file else []


def _find(file, key):
    """The row that `key` starts; of several the one used last, unless their keys differ."""
    found = [row for row in _rows(file) if row["key"].startswith(key.lower())]
    if not found:
        raise Failure(f"no row's key starts with '{key}'", FOUND)
    if len({row["key"] for row in found}) > 1:
        keys = ", ".join(sorted({row["key"][: max(_SHORT, len(key) + 4)] for row in found}))
        raise Failure(f"'{key}' is the start of several keys: {keys}", FOUND)
    full = file.row(found[0]["id"])
    if full is None:
        raise Failure(f"the row '{key}' was just removed", FOUND)
    return full


def _print_json(value):
    print(json.dumps(value, indent=1))


# -- commands that read


def _ls(args):
    rows = [r for r in _rows(_open(), args.kind) if args.kind or r["kind"] not in _NOTES]
    order = {"used": "last_use", "built": "created", "hits": "hits", "bytes": "bytes", "ms": "build_ms"}[args.sort]
    rows.sort(key=lambda r: r[order], reverse=True)
    rows = rows[: args.limit]
    if args.json:
        return _print_json([_plain(r) for r in rows])
    cells = [
        [
            r["key"][:_SHORT], r["kind"], cut(_title(r), max(24, width() // 3)), size(r["bytes"]), f"{r['build_ms']:.1f}", str(r["hits"]),
            "*" if r["leases"] else "", _text(r["where"]),
        ]
        for r in rows
    ]  # fmt: skip
    titles = ["key", "kind", "name", "bytes", "ms", "hits", "", "where"]
    print("\n".join(table(titles, cells, right=(3, 4, 5), flexible=7)))
    return None


def _disassemble(payload):
    """Assembly of an object, by what tools there are; SASS of a cubin."""
    is_cubin = payload[:4] == b"\x7fELF" and int.from_bytes(payload[18:20], "little") == 190
    tools = [["nvdisasm"], ["cuobjdump", "-sass"]] if is_cubin else [["objdump", "-d"], ["llvm-objdump", "-d"]]
    tool = next((t for t in tools if shutil.which(t[0])), None)
    if tool is None:
        names = " or ".join(t[0] for t in tools)
        hint = "they come with the CUDA toolkit" if is_cubin else "apt-get install binutils"
        raise Failure(f"--asm needs {names}, which is not on the PATH ({hint})", UNUSABLE)
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(payload)
        file.flush()
        run = subprocess.run([*tool, file.name], capture_output=True, text=True)
    if run.returncode:
        raise Failure(f"{tool[0]} cannot read the object: {run.stderr.strip()}", UNUSABLE)
    return run.stdout.replace(file.name, "object")


def _show(args):
    row = _find(_open(), args.key)
    if args.asm:
        print(_disassemble(row["payload"]))
    elif args.source:
        print(_text(row["source"]) or _text(row["structure"]))
    elif args.json:
        _print_json(_plain(row, full=True))
    else:
        facts = {
            "name": _title(row),
            "kind": row["kind"],
            "key": row["key"],
            "target": _text(row["target"]),
            "where": _text(row["where"]),
            "built": f"{moment(row['created'])}, in {milliseconds(row['build_ms'])}",
            "used": f"{moment(row['last_use'])}, {row['hits']} times from disk, which saved "
            f"{milliseconds(row['build_ms'] * row['hits'])}; {row['leases']} processes hold it now",
            "bytes": f"{size(len(row['payload']))} of code, {size(len(row['structure']))} of key, "
            f"{size(len(row['source']))} of source",
        }
        for name, value in facts.items():
            print(f"{name:<8}{cut(value, width() - 8)}")
        print()
        print(_text(row["structure"]))
        if row["kind"] == "product":  # what trials found
            print(_text(row["payload"]), end="")
    return FOUND if row["broken"] else 0


def _stats(args):
    options, file = _core._cache_options(), _open()
    empty = dict.fromkeys(["rows", "live_bytes", "file_bytes", "log_bytes", "leased_rows", "processes"], 0)
    stats = file.stats() if file else {**empty, "path": options["path"], "kinds": []}
    stats["max_bytes"] = options["max_bytes"]
    if args.json:
        return _print_json(stats)
    print(f"path       {stats['path']}")
    print(f"rows       {stats['rows']}, of which {stats['leased_rows']} are used by {stats['processes']} processes")
    on_disk = f"{size(stats['file_bytes'])}, and {size(stats['log_bytes'])} of log"
    print(f"bytes      {size(stats['live_bytes'])} of {size(stats['max_bytes'])}; on disk {on_disk}")
    print()
    cells = [
        [
            k["kind"],
            str(k["rows"]),
            size(k["bytes"]),
            str(k["hits"]),
            milliseconds(k["build_ms"]),
            milliseconds(k["saved_ms"]),
        ]
        for k in stats["kinds"]
    ]
    print("\n".join(table(["kind", "rows", "bytes", "hits", "building", "saved"], cells, right=(1, 2, 3, 4, 5))))
    return None


def _reasons(file, limit=None, kernel=""):
    """Why steps were compiled, the latest first, or those that built `kernel`: rows that say the same are told once, with
    what was ever built."""
    rows = sorted(_rows(file, "recompile", kernel), key=lambda r: r["created"], reverse=True)
    alike = {}
    for row in rows:
        reason = _reason(row)
        alike.setdefault((reason["cause"], reason["reason"], reason["where"], reason["before"]), []).append(row)
    for same in list(alike.values())[:limit]:
        full = [row for row in (file.row(r["id"]) for r in same) if row and not row["broken"]]
        if full:
            reasons = [_reason(row) for row in full]
            yield full[0], reasons[0] | {"kernels": [k for r in reasons for k in r["kernels"]]}


def _print_reason(row, reason):
    built = f", {counted(len(reason['kernels']), 'kernel')} built" if reason["kernels"] else ""
    print(f"{moment(row['created'])}  {reason['cause']}  {milliseconds(row['build_ms'])}{built}")
    print(f"  {reason['reason']}")
    if reason["where"]:
        print(f"  now at     {reason['where']}")
    if reason["before"]:
        print(f"  before at  {reason['before']}")
    for kernel in reason["kernels"][:8]:
        print(f"  built      {kernel['key'][:_SHORT]}  {milliseconds(kernel['milliseconds'])}  {kernel['name']}")
    if len(reason["kernels"]) > 8:
        print(f"             and {len(reason['kernels']) - 8} more")


def _why(args):
    file = _open()
    if args.key is None:
        reasons = list(_reasons(file, args.limit)) if file else []
        if args.json:
            return _print_json([_plain(row) | reason for row, reason in reasons])
        for i, (row, reason) in enumerate(reasons):
            if i:
                print()
            _print_reason(row, reason)
        if not reasons:
            print("no step was compiled since this cache was made or cleared")
        return None
    row = _find(file, args.key)
    if row["kind"] == "recompile":
        steps, nearest = [(row, _reason(row))], None
    else:
        steps = list(_reasons(file, kernel=row["key"]))
        nearest = file.explain(row["id"])
    if args.json:
        like = nearest and {**nearest, "nearest": _plain(nearest["nearest"])}
        return _print_json(
            {"row": _plain(row), "steps": [_plain(r) | reason for r, reason in steps], "nearest_kernel": like}
        )
    print(f"{row['key'][:_SHORT]}  {_title(row)}")
    print(
        f"built {moment(row['created'])} in {milliseconds(row['build_ms'])}, first needed at {_text(row['where']) or '?'}"
    )
    if row["kind"] != "recompile":
        print()
        if nearest is None:
            print("no kernel was there before it")
        else:
            other = nearest["nearest"]
            what = "target" if nearest["target_differs"] else "kernel"
            print(
                f"the nearest {what} then: {other['key'][:_SHORT]}  {_title(other)}, first needed at {_text(other['where'])}"
            )
            print(f"  this   {cut(nearest['wanted'].strip(), width() - 9)}")
            print(f"  other  {cut(nearest['found'].strip(), width() - 9)}")
    for step, reason in steps:
        print()
        _print_reason(step, reason)
    return None


def _diff_rows(args):
    file = _open()
    a, b = _find(file, args.a), _find(file, args.b)
    sides = [[f"target {_text(r['target'])}", *_text(r["structure"]).splitlines()] for r in (a, b)]
    lines = list(difflib.unified_diff(*sides, a["key"][:_SHORT], b["key"][:_SHORT], lineterm=""))
    if args.json:
        _print_json({"a": _plain(a), "b": _plain(b), "diff": lines})
    elif lines:
        print("\n".join(lines))
    return FOUND if lines else 0


def _diff_files(args):
    def rows(file):
        return {(r["kind"], r["key"], r["target"], r["structure"]): r for r in _rows(file) if r["kind"] not in _NOTES}

    mine = rows(_open(args.a) if args.b else _open())
    theirs = rows(_open(args.b or args.a))
    only = [[mine[k] for k in mine.keys() - theirs.keys()], [theirs[k] for k in theirs.keys() - mine.keys()]]
    for side in only:
        side.sort(key=lambda r: (_title(r), r["key"]))
    if args.json:
        _print_json(
            {
                "both": len(mine.keys() & theirs.keys()),
                "only_a": [_plain(r) for r in only[0]],
                "only_b": [_plain(r) for r in only[1]],
            }
        )
    else:
        print(
            f"{len(mine.keys() & theirs.keys())} rows in both, {len(only[0])} only in the first, {len(only[1])} only in the second"
        )
        cells = [
            [sign, r["key"][:_SHORT], cut(_title(r), 32), _text(r["where"])]
            for sign, side in zip("-+", only, strict=True)
            for r in side
        ]
        if cells:
            print("\n".join(table(["", "key", "name", "where"], cells, flexible=3)))
    return FOUND if only[0] or only[1] else 0


def _diff(args):
    return _diff_files(args) if args.b is None or os.path.exists(args.a) else _diff_rows(args)


# -- commands that change


def _cache():
    """The cache for writing. Where it cannot be used its first call says so."""
    return _core._DiskCache()


def _exists():
    return _open() is not None


def _verify(args):
    path = _core._cache_options()["path"]
    if args.repair:
        with warnings.catch_warnings(record=True) as told:  # that a file was set aside, by its name
            warnings.simplefilter("always")
            report = _cache().verify()
        for warning in told:
            print(f"smolder cache: {warning.message}", file=sys.stderr)
    elif not os.path.exists(path) and _open() is None:
        report = {"rows": 0, "broken": 0, "dropped": 0, "complaints": "", "sound": True}
    else:
        try:
            report = _core._CacheFile(path).verify()
        except RuntimeError as e:
            report = {"rows": 0, "broken": 0, "dropped": 0, "complaints": str(e), "sound": False}
    if args.json:
        _print_json(report)
    else:
        print(f"{report['rows']} rows, {report['broken']} broken, {report['dropped']} dropped")
        if report["complaints"]:
            print(report["complaints"])
        if report["sound"]:
            print("sound")
        elif args.repair:
            print("what was broken was dropped, and a damaged file set aside")
        else:
            print("`smolder cache verify --repair` drops what is broken, and sets a damaged file aside")
    repaired = args.repair and (report["complaints"] or report["dropped"] == report["broken"])
    return 0 if report["sound"] or repaired else FOUND


def _told(args, **what):
    """Says what was done."""
    if args.json:
        _print_json(what)
    else:
        print(", ".join(f"{value} {name.replace('_', ' ')}" for name, value in what.items()))


def _prune(args):
    wanted = _core._cache_options()["max_bytes"] if args.bytes is None else args.bytes
    return _told(args, rows_dropped=_cache().prune(wanted) if _exists() else 0)


def _clear(args):
    return _told(args, rows_dropped=_cache().clear() if _exists() else 0)


def _export(args):
    if not _exists():
        raise Failure("there is nothing to export: the cache is empty", FOUND)
    return _told(args, rows_written=_cache().export_to(args.file))


def _import(args):
    return _told(args, rows_added=_cache().import_from(args.file, args.trust))


# -- the command line


def _size_argument(text):
    try:
        return parse_size(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def add_arguments(parser):
    """`ls`, `show` and the others, each with --json."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="cache_command", metavar="COMMAND", required=True)

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.set_defaults(run_cache=run)
        return sub

    ls = command("ls", _ls, "list rows")
    ls.add_argument("--kind", default="", help="only rows of this kind: kernel, native, recompile, ...")
    ls.add_argument(
        "--sort", default="used", choices=["used", "built", "hits", "bytes", "ms"], help="largest or latest first"
    )
    ls.add_argument("--limit", type=int, help="at most so many rows")
    show = command("show", _show, "one row: key, timings, loop IR")
    show.add_argument("key", metavar="KEY")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--source", action="store_true", help="print CUDA C++, or on the CPU loop IR")
    form.add_argument("--asm", action="store_true", help="print assembly, or SASS, by objdump or nvdisasm")
    command("stats", _stats, "totals, by kind")
    why = command("why", _why, "why steps were compiled, or why this kernel was built")
    why.add_argument("key", metavar="KEY", nargs="?")
    why.add_argument("--limit", type=int, default=10, help="at most so many steps (10)")
    diff = command("diff", _diff, "two rows, this cache and an exported one, or two exported ones")
    diff.add_argument("a", metavar="KEY|FILE")
    diff.add_argument("b", metavar="KEY|FILE", nargs="?")
    verify = command("verify", _verify, "check every row and the file")
    verify.add_argument("--repair", action="store_true", help="drop broken rows; set a damaged file aside")
    prune = command("prune", _prune, "drop rows used longest ago, none that a process uses")
    prune.add_argument("--bytes", type=_size_argument, help="down to so many, as 500M; else to SMOLDER_CACHE_BYTES")
    command("clear", _clear, "drop every row")
    command("export", _export, "write every row to a new file, to ship a warm cache").add_argument(
        "file", metavar="FILE"
    )
    importing = command("import", _import, "add the rows of an exported file; what it holds will be run as code")
    importing.add_argument("file", metavar="FILE")
    importing.add_argument("--trust", action="store_true", help="also of a file that this cache did not export")


def run(args):
    """Runs the subcommand; returns the exit status."""
    try:
        return args.run_cache(args)
    except Failure as e:
        print(f"smolder cache: {e}", file=sys.stderr)
        return e.status
    except (RuntimeError, ValueError) as e:
        print(f"smolder cache: {e}", file=sys.stderr)
        return UNUSABLE
