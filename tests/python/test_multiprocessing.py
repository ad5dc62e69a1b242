"""Several processes: Python's names, and torch's way to start them."""

import multiprocessing
import os
import pickle
import signal

import pytest
from conftest import of_the_cpu

import smolder
from smolder import multiprocessing as mp

pytestmark = of_the_cpu("other processes make their own tensors")


def write(i, folder):
    (smolder.arange(3) + i).numpy().tofile(os.path.join(folder, str(i)))


def fail(i, how):
    if i == 1:
        if how == "raise":
            raise ValueError("of process 1")
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def send(i, queue):
    queue.put(smolder.arange(3) + i)


def test_names_are_those_of_python():
    assert mp.get_context is multiprocessing.get_context and mp.cpu_count is multiprocessing.cpu_count
    assert set(multiprocessing.__all__) <= set(mp.__all__)
    with pytest.raises(NotImplementedError, match=r"set_sharing_strategy is not supported: .* are copied"):
        mp.set_sharing_strategy("file_system")


def test_a_function_runs_in_each(tmp_path):
    assert mp.spawn(write, (str(tmp_path),), nprocs=2) is None
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        context = mp.spawn(write, (str(tmp_path),), join=False, start_method="fork")
    assert len(context.pids()) == 1
    while not context.join(timeout=10):
        pass
    assert context.join()


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("raise", mp.ProcessRaisedException, "-- Process 1 terminated with the following error:\nTraceback"),
        ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 3"),
        ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
    ],
)
def test_the_first_that_fails_ends_the_others(how, error, text):
    with pytest.raises(error) as raised:
        mp.start_processes(fail, (how,), nprocs=3, start_method="fork")
    e = raised.value
    assert text in str(e) and e.error_index == 1 and e.error_pid > 0
    assert how != "raise" or "ValueError: of process 1" in e.msg
    again = pickle.loads(pickle.dumps(e))
    assert type(again) is error and vars(again) == vars(e)


def test_tensors_that_are_sent_are_copied():
    queue = mp.get_context("spawn").Queue()
    context = mp.spawn(send, (queue,), join=False)
    assert queue.get(timeout=600).tolist() == [0, 1, 2]
    context.join()
