"""The command `smolder` in forks of a process that has imported it: most of what a short command takes is the import."""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


class Commands:
    """A process that runs commands, one after another, each in a fork with an environment of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, arguments, env):
        """Returns as subprocess.run(["smolder", *arguments], env=env, capture_output=True, text=True) does."""
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder, name)) for name in ("out", "err")]
            print(json.dumps([arguments, env, files]), file=self.process.stdin, flush=True)
            status = int(self.process.stdout.readline())
            return subprocess.CompletedProcess(arguments, status, *(Path(file).read_text() for file in files))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def fork_and_run(arguments, env, files):
    """The exit status of a command whose output goes to files."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        os.environ.clear()
        os.environ.update(env)
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        status = cli.main(arguments)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    from smolder import cli

    cli.build_parser()
    for line in sys.stdin:
        print(fork_and_run(*json.loads(line)), flush=True)
