import os
import threading
import weakref

import pytest

from bilsh.forks import Lock, cached_property

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(action, seconds=10.0):
    """Whether an action comes to its end in a forked child."""
    child = os.fork()
    if child == 0:
        timer = threading.Timer(seconds, os._exit, (1,))
        timer.daemon = True
        timer.start()
        try:
            action()
        except BaseException:
            os._exit(2)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


class Slow:
    def __init__(self, begun, go_on):
        self.begun, self.go_on, self.times = begun, go_on, 0

    @cached_property
    def value(self):
        """Something that takes long."""
        self.times += 1
        self.begun.set()
        self.go_on.wait()
        return 17


def test_a_lock_lets_one_in_and_is_given_back_after_an_error():
    lock, inside = Lock(), []

    def work():
        for _ in range(200):
            with lock:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(KeyError), lock:
        raise KeyError
    with lock:
        assert not inside


def test_a_lock_that_a_thread_holds_is_free_in_a_forked_child():
    lock, begun, go_on = Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            begun.set()
            go_on.wait()

    def take():
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        assert in_child(take)
    finally:
        go_on.set()
        thread.join()
    with lock:
        assert in_child(take)  # the holder itself forks
    take()


def test_a_forked_holder_leaves_its_block():
    lock = Lock()
    lock.__enter__()
    assert in_child(lambda: lock.__exit__(None, None, None))
    lock.__exit__(None, None, None)


def test_locks_are_not_kept_alive():
    lock = Lock()
    gone = weakref.ref(lock)
    del lock
    assert gone() is None


def test_a_property_is_computed_once_and_does_not_make_other_objects_or_children_wait():
    begun, go_on, free = threading.Event(), threading.Event(), threading.Event()
    free.set()
    slow, other = Slow(begun, go_on), Slow(threading.Event(), free)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    begun.wait()
    try:
        assert other.value == other.value == 17
        assert other.times == 1
        assert in_child(lambda: Slow(threading.Event(), free).value)
    finally:
        go_on.set()
        thread.join()
    assert slow.value == 17
    assert isinstance(Slow.value, cached_property)
    assert Slow.value.__doc__ == "Something that takes long."
