"""A pytest plugin: `-p failures` appends each failure to the file of SMOLDER_TEST_FAILURES as it happens, so that a run
that is cut short still says what failed."""

import os


def pytest_runtest_logreport(report):
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        with open(os.environ["SMOLDER_TEST_FAILURES"], "a") as file:
            file.write(f"FAILED {report.nodeid}\n{str(report.longrepr)[-2000:]}\n\n")
