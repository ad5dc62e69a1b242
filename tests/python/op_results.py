"""docs/op_results.md: what the generated tests showed of every row, as they showed it.

A test under `generated` says with `shows` what it compared, and its report carries that to where the page is made, from
a worker too. A run of all of these tests fails if the page says anything else; `--write-op-results` writes it, or of it
the columns whose tests ran. The page is of all calls, SMOLDER_TEST_OPS=all; of a sample it must not say otherwise.
"""

import collections
import importlib

import pytest
from op_rows import DTYPES, ROOT, ROWS, WHOLE, ids

PAGE = ROOT / "docs/op_results.md"
COLUMNS = ["ordinary", "zero-dim", "empty", "size one", "odd", "broadcast", "strided", "nan, inf", "aliased"]
COLUMNS += ["in place", "NumPy", "first", "second", "third"]
MODULES = {
    "test_ops_generated": [*COLUMNS[:8], "in place", "NumPy"],
    "test_op_aliases": ["aliased"],
    "test_op_gradients": ["first"],
    "test_higher_derivatives": ["second", "third"],
}
SHORT = dict(zip(DTYPES, ["f32", "f64", "f16", "bf16", "i32", "i64", "i16", "i8", "u8", "bool"]))
HEAD = """# What the tests showed of each op

Written by `SMOLDER_TEST_OPS=all pytest tests/python/test_op*.py tests/python/test_higher_derivatives.py
--write-op-results` from what its tests found, for the rows of `docs/ops.md`; a run of all of them fails if this page says
anything else. Without the variable a twelfth of most calls are tried, which must not show what this page does not.

A number is how many calls were compared, over the op's cases and the dtypes it takes, and agreed. Up to "aliased", that
is recorded and compiled with eager, in every bit; inputs are those of the op's row, then

- zero-dim, empty, of size one, odd: the same with other sizes, odd ones being longer than a vector register and no
  multiple of one; all sizes are changed, then one after another for two dtypes;
- broadcast: one operand with one element along a dimension, or a dimension fewer;
- strided: transposed, every second element, expanded with stride 0;
- nan, inf: both infinities, both zeros, the largest, smallest and a subnormal number, or an integer type's limits;
- aliased: operands that are one tensor or overlap in memory, compared with copies also, and operands written to after
  the call; in place, other views of what is written.

"aliased" is of one dtype of each width: float32, bfloat16, int64 and bool.

int16 and int8, which are computed as int32 and then wrapped, are in "ordinary", "nan, inf" and "in place", and of
elementwise ops also in the columns of sizes and in "broadcast"; they are in no other.

"In place" compares the method that writes with the function, "NumPy" with NumPy's function in float64. The last
columns are derivatives of the first, second and third order against finite differences in float64, one a case; "none"
is a result that has no gradient, and says so. "refused" means that each call raised an error, when it was recorded and
eagerly the same: the op takes no such sizes, or not with the case's other arguments. An empty cell means that the
column has nothing to say of the op: it has no operands, or no second one to broadcast, no form in place, no counterpart
in NumPy.

"""

EXPECTED = set()


def generated(rows):
    """A test of each of these rows, whose part of the page is as the test's name says."""

    def register(test):
        EXPECTED.update((test.__module__, test.__name__, key) for key in ids(rows))
        return pytest.mark.parametrize("row", rows, ids=ids(rows))(test)

    return register


@pytest.fixture
def shows(request, record_property):
    """A function of a column, a dtype, and whether the op took a call, which was compared then."""
    counts, shown = {}, []
    row = request.node.callspec.params["row"]["key"]
    record_property("op_results", [request.module.__name__, request.function.__name__, row, shown])

    def show(column, dtype, took):
        assert column in COLUMNS
        if (column, dtype) not in counts:
            counts[column, dtype] = [column, dtype, 0, 0]
            shown.append(counts[column, dtype])
        counts[column, dtype][2 if took else 3] += 1

    return show


class Results:
    """The samples in the reports of a run."""

    def __init__(self):
        self.seen, self.failed = {}, False

    def take(self, report):
        for name, value in report.user_properties:
            if name == "op_results":
                self.failed |= not report.passed
                self.seen[tuple(value[:3])] = value[3]

    def whole(self):
        """The modules of which every test ran, where none failed."""
        if self.failed or not self.seen:
            return []
        for module in MODULES:
            importlib.import_module(module)  # which a process with workers has not done
        return [module for module in MODULES if {e for e in EXPECTED if e[0] == module} <= self.seen.keys()]

    def counts(self):
        """For each row, the calls taken and refused of each (column, dtype)."""
        rows = {key: collections.defaultdict(lambda: [0, 0]) for key in ids(ROWS)}
        for (_, _, key), shown in self.seen.items():
            for column, dtype, *counts in shown:
                total = rows[key][column, dtype]
                total[:] = map(sum, zip(total, counts))
        return rows

    def beyond(self, page):
        """A sample's result that is not in the page: an op, a dtype that it takes, or more calls of a column."""
        listed, out = cells_of(page), []
        for key, shown in self.counts().items():
            dtypes, cells = listed.get(key, ("", {}))
            taken = {SHORT[d] for (c, d), (took, _) in shown.items() if took and c in COLUMNS[:-3]}
            if dtypes != "all" and taken - set(dtypes.split()):
                out.append(f"{key} takes {' '.join(sorted(taken))}")
            for column in COLUMNS:
                found, said = cell(shown, column), cells.get(column, "")
                if (found and not said) or (found.isdigit() and (not said.isdigit() or int(found) > int(said))):
                    out.append(f"{key}, {column}: {found}, not {said or 'nothing'}")
        return "\n".join(["docs/op_results.md differs; write it anew", *out[:10]]) if out else ""

    def page(self, before="", modules=tuple(MODULES)):
        """The page, whose columns are those of these modules, and otherwise those of the page `before`."""
        head = ["op", "dtypes", *COLUMNS]
        lines = [head, ["---"] * len(head)]
        columns, listed = [c for m in modules for c in MODULES[m]], cells_of(before)
        for key, shown in self.counts().items():
            taken = [d for d in DTYPES if any(shown[c, d][0] for c in COLUMNS[:-3])]
            dtypes = "all" if taken == DTYPES else " ".join(SHORT[d] for d in taken)
            said, cells = listed.get(key, ("", {}))
            dtypes = dtypes if "ordinary" in columns else said
            lines.append([f"`{key}`", dtypes, *(cell(shown, c) if c in columns else cells.get(c, "") for c in COLUMNS)])
        return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells_of(page):
    """For each row of a page, its dtypes, and what it says in each column."""
    listed = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            key, dtypes, *cells = (word.strip() for word in line.strip("|").split(" | "))
            listed[key.strip("`")] = dtypes, dict(zip(COLUMNS, cells))
    return listed


def cell(shown, column):
    took, refused = (sum(counts[i] for (c, _), counts in shown.items() if c == column) for i in (0, 1))
    return str(took) if took else "" if not refused else "none" if column in COLUMNS[-3:] else "refused"


# -- hooks, which conftest.py takes


def pytest_addoption(parser):
    parser.addoption(
        "--write-op-results", action="store_true", help="write docs/op_results.md from what the tests show"
    )


def pytest_configure(config):
    config.op_results = Results()
    config.pluginmanager.register(Collector(config), "op_results")


class Collector:
    """Runs in the process that reports, where there are workers."""

    def __init__(self, config):
        self.config, self.results, self.said = config, config.op_results, ""

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.results.take(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if hasattr(self.config, "workerinput"):
            return
        write, modules = self.config.getoption("write_op_results"), self.results.whole()
        if not modules:
            self.said = "docs/op_results.md is not written: of no module all tests ran and passed" if write else ""
        elif not WHOLE:
            self.said = "the page is of SMOLDER_TEST_OPS=all" if write else self.results.beyond(PAGE.read_text())
        else:
            page = self.results.page(PAGE.read_text(), modules)
            if write:
                PAGE.write_text(page)
            self.said = "" if write else difference(page)
        if self.said:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.said:
            terminalreporter.section("results of ops", red=True)
            terminalreporter.line(self.said)


def difference(page):
    """The differences of the committed page, in a few lines."""
    committed = PAGE.read_text() if PAGE.exists() else ""
    if committed == page:
        return ""
    old, new = committed.splitlines(), page.splitlines()
    lines = [f"- {line}" for line in old if line not in new][:5] + [f"+ {line}" for line in new if line not in old][:5]
    return "\n".join(["docs/op_results.md differs; write it with --write-op-results", *lines])
