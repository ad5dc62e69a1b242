"""Values that come later."""

import threading

import pytest

from smolder.futures import Future, collect_all, wait_all


def test_a_value_is_waited_for_and_followed():
    first, seen = Future(), []
    doubled = first.then(lambda f: f.value() * 2)
    first.add_done_callback(lambda f: seen.append(f.value()))
    with pytest.raises(RuntimeError, match="not completed"):
        first.value()
    setter = threading.Thread(target=lambda: first.set_result(21))
    setter.start()
    assert doubled.wait() == 42 and seen == [21] and first.done()
    setter.join()
    first.add_done_callback(lambda f: seen.append(-1))
    assert seen == [21, -1]
    with pytest.raises(RuntimeError, match="once"):
        first.set_result(1)


def test_errors_and_several():
    bad, good = Future(), Future()
    both = collect_all([bad, good])
    bad.set_exception(ValueError("no"))
    assert not both.done()
    good.set_result(1)
    assert both.done() and wait_all([good, good]) == [1, 1] and collect_all([]).wait() == []
    for future in (bad, bad.then(lambda f: f.value())):
        with pytest.raises(ValueError, match="no"):
            future.wait()
    with pytest.raises(AssertionError, match="not an Exception"):
        Future().set_exception(3)
    assert Future[int] is not None
