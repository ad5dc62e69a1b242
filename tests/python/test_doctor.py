"""`smolder doctor`: well where all is well, and it names what is not, with what to do."""

import json
import os
import subprocess
import sys

import pytest
from conftest import of_the_cpu

pytestmark = of_the_cpu("in a process of its own, on what the machine has")


def doctor(*arguments, status=0, code="", **env):
    """Its output. `code` runs before, in its process."""
    program = f"import sys\n{code}\nfrom smolder.cli import main\nsys.exit(main(['doctor', *{arguments!r}]))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | env)
    assert run.returncode == status, (run.returncode, run.stdout, run.stderr)
    return run.stdout


@pytest.fixture
def place(tmp_path):
    return {"SMOLDER_CACHE_DIR": str(tmp_path / "cache")}


def test_all_is_well_where_it_is(place):
    found = json.loads(doctor("--json", **place))
    assert found["problems"] == [] and found["environment"]["SMOLDER_CACHE_DIR"] == place["SMOLDER_CACHE_DIR"]
    libraries = {x["name"]: x for x in found["libraries"]}
    generator = libraries["code generator"]
    assert generator["found"] and os.path.basename(generator["path"]) == "libsmolder_llvm.so"
    assert generator["version"].startswith("llvm ")
    assert all(x["found"] or x["remedy"] for x in found["libraries"])
    cpu = found["tests"][0]
    assert cpu["device"] == "cpu" and cpu["passed"] and cpu["difference"] == 0 and cpu["kernels_built"] > 5
    text = doctor(**place)
    assert text.endswith("all is well\n") and generator["path"] in text and "same bits" in text
    rows = json.loads(doctor("--json", **place))
    assert rows["cache"]["checked"] and rows["cache"]["rows"] > 5 and rows["tests"][0]["kernels_built"] == 0


def test_a_missing_code_generator_is_named_with_what_installs_it(place):
    code = (
        "import smolder\n"
        "smolder._core._find_code_generator = lambda: dict(name='code generator', file='libsmolder_llvm.so', version='',"
        " reason='cannot open the library libsmolder_llvm.so')"
    )
    text = doctor(code=code, status=1, **place)
    assert "MISSING code generator" in text and "cannot open the library libsmolder_llvm.so" in text
    assert "-> install Smolder again" in text


def test_a_damaged_cache_is_a_problem_and_stays_as_it_is(place, tmp_path):
    doctor(**place)
    database = tmp_path / "cache" / "cache-v3.db"
    content = b"x" * 100 + database.read_bytes()[100:]
    database.write_bytes(content)
    for log in database.parent.glob("*-wal"):  # which holds the first page too
        log.unlink()
    # The self-test would use the cache, and so set the file aside.
    found = json.loads(doctor("--json", status=1, code="import smolder.cli.doctor as d; d._self_test = lambda d: {'error': '', 'device': d, 'difference': 0, 'first_ms': 0, 'step_ms': 0, 'eager_ms': 0, 'kernels_built': 0}", **place))  # fmt: skip
    (problem,) = found["problems"]
    assert problem["what"].startswith("kernel cache: ") and problem["remedy"] == "smolder cache verify --repair"
    assert database.read_bytes() == content


def test_settings_that_cannot_be_read_are_a_problem(place):
    text = doctor(status=1, SMOLDER_CACHE="maybe", **place)
    assert "SMOLDER_CACHE is 'maybe'" in text
    assert "off: kernels are built anew" in doctor(SMOLDER_CACHE="off", **place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_a_problem(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written" in doctor(status=1, SMOLDER_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("n.functional.cross_entropy = None", "TypeError"),
        ("m = iter((1.0, 2.0)); d._train = lambda device: ([next(m)], [0.1])", "compiled and eager steps differ by 1"),
        ("m = iter((1.0, float('nan'))); d._train = lambda device: ([next(m)], [0.1])", "differ by nan"),
    ],
    ids=["raises", "differs", "nan"],
)
def test_a_self_test_that_fails_says_how(place, code, said):
    text = doctor(code=f"import smolder.cli.doctor as d; import smolder.nn as n; {code}", status=1, **place)
    assert "FAILED  cpu" in text and said in text
