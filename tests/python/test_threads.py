"""Threads record into one step: an error is that of the thread whose op failed, and the others' values are theirs."""

import threading

import pytest
from conftest import ONE_BY_ONE

import smolder


def beyond(x):
    """Recorded, and fails when it runs."""
    return x[smolder.tensor([7])]


class Turns:
    """A thread that does a part at a time, each when it is asked to."""

    def __init__(self, parts):
        self.heard = []
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, args=(parts,))
        self.thread.start()

    def _run(self, parts):
        for part in parts:
            self.go.acquire()
            try:
                part()
            except Exception as error:
                self.heard.append(type(error))
            self.done.release()

    def next(self):
        self.go.release()
        self.done.acquire()


@ONE_BY_ONE
def test_an_error_is_heard_by_the_thread_whose_op_failed():
    mine, theirs = smolder.zeros(3), smolder.zeros(3)
    assert mine.tolist() == theirs.tolist() == [0, 0, 0]
    lost = []

    def fails():
        theirs.add_(1)
        lost.append(beyond(theirs))

    other = Turns([fails, lambda: theirs.sum(), lambda: theirs.add_(5)])
    mine.add_(2)
    other.next()
    mine.mul_(3)
    view = mine[:2]
    assert mine.tolist() == [6, 6, 6] and view.tolist() == [6, 6]
    other.next()  # hears of it, whatever it does
    assert other.heard == [IndexError] and theirs.tolist() == [0, 0, 0]
    other.next()
    other.thread.join()
    assert other.heard == [IndexError] and theirs.tolist() == [5, 5, 5]
    with pytest.raises(RuntimeError, match="index 7"):
        lost[0].tolist()


@ONE_BY_ONE
def test_an_error_of_a_thread_that_ended_is_heard_by_who_reads_next():
    x = smolder.zeros(3)
    assert x.tolist() == [0, 0, 0]
    mine = smolder.ones(2) + 1
    thread = threading.Thread(target=lambda: x.add_(beyond(x).sum()))
    thread.start()
    thread.join()
    with pytest.raises(IndexError, match="index 7"):
        mine.tolist()
    assert mine.tolist() == [2, 2] and x.tolist() == [0, 0, 0]


@ONE_BY_ONE
def test_random_numbers_of_a_thread_stay_drawn_when_another_fails():
    smolder.manual_seed(0)
    generator = smolder.Generator().manual_seed(1)
    expected = [smolder.rand(2, generator=generator).tolist() for _ in range(2)]
    generator.manual_seed(1)
    x = smolder.zeros(3)
    lost = []
    other = Turns([lambda: lost.append(beyond(x)), lambda: x + 1])
    first = smolder.rand(2, generator=generator)
    other.next()
    assert first.tolist() == expected[0]
    assert smolder.rand(2, generator=generator).tolist() == expected[1]
    other.next()
    other.thread.join()
    assert other.heard == [IndexError]


@ONE_BY_ONE
def test_threads_compute_what_they_compute_alone_beside_one_that_fails():
    wrong, end = [], threading.Event()

    def failing():
        x = smolder.arange(3)
        for _ in range(60):
            try:
                beyond(x).tolist()
                wrong.append("no error")
            except IndexError:
                pass
            if (x * 2).tolist() != [0, 2, 4]:
                wrong.append("after an error")
        end.set()

    def writing(k):
        while not end.is_set():
            a = smolder.zeros(4, 4)
            rows, column = a[1:3], a.t()
            for i in range(4):
                rows += k
                column[0] = i
            if rows.tolist() != [[3, 4 * k, 4 * k, 4 * k]] * 2 or a[0].tolist() != [3, 0, 0, 0]:
                wrong.append(a.tolist())

    threads = [threading.Thread(target=failing), *(threading.Thread(target=writing, args=(k,)) for k in (2, 3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
