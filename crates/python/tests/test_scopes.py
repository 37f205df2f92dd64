"""Scopes as context managers and decorators, on the host."""

import asyncio
import contextlib
import copy
import pickle
import signal
import threading

import pytest

import gpucache


def take(bytes=4096):
    return gpucache.allocate(bytes, device=-1)


def entries(name):
    stats = gpucache.stats(name)
    return 0 if stats is None else stats.entries


def test_a_scope_reuses_its_memory():
    for _ in range(10):
        with gpucache.scope("reuse"):
            take()
    stats = gpucache.stats("reuse")
    assert (stats.entries, stats.misses + stats.recycled, stats.hits, stats.busy_bytes) == (10, 1, 9, 0)


def test_the_innermost_scope_serves():
    with gpucache.scope("outer"):
        with gpucache.scope("inner"):
            kept = take()
        assert gpucache.stats("inner").busy_bytes == 4096
        assert gpucache.stats("outer").busy_bytes == 0
        other = take(8192)
        assert gpucache.stats("outer").busy_bytes == 8192
    del kept, other
    assert gpucache.stats("inner").busy_bytes == gpucache.stats("outer").busy_bytes == 0


def test_one_object_can_be_entered_inside_itself_and_by_threads():
    scope = gpucache.scope("again")
    with scope, scope, scope:
        take()

    def work():
        for _ in range(100):
            with scope:
                take()

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert entries("again") == 403


def test_uncached_is_outside():
    with gpucache.scope("around"), gpucache.uncached():
        kept = take()
    assert gpucache.stats("around").busy_bytes == 0 and kept.bytes == 4096


def test_a_decorator_enters_with_each_call_and_keeps_the_function():
    @gpucache.scope("decorated")
    def work(a, *, b=2):
        """The text."""
        return a + b + take().bytes

    assert (work(1), work(1, b=3)) == (4099, 4100)
    assert (work.__name__, work.__doc__, entries("decorated")) == ("work", "The text.", 2)

    class Model:
        @gpucache.scope("method")
        def forward(self, x):
            return self, x

    model = Model()
    assert model.forward(5) == (model, 5)


def test_exceptions_leave_the_scope():
    with pytest.raises(KeyError), gpucache.scope("raises"):
        raise KeyError
    with gpucache.scope("raises after"):
        take()
    assert gpucache.stats("raises").hits + gpucache.stats("raises").misses == 0


def test_a_decorated_generator_is_outside_while_it_waits():
    ended = []

    @gpucache.scope("generator")
    def numbers():
        try:
            sent = yield take()
            with contextlib.suppress(ValueError):
                yield sent
            yield "caught"
        finally:
            ended.append(take().bytes)
        return "end"

    steps = numbers()
    next(steps)
    outside = take(12345)
    assert gpucache.stats("generator").busy_bytes == 0  # nothing of 12345 bytes, and the first block is dropped
    assert steps.send("sent") == "sent"
    assert steps.throw(ValueError()) == "caught"
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert (end.value.value, ended) == ("end", [4096])
    started = numbers()
    next(started)
    started.close()
    assert ended == [4096, 4096]
    # Each step is an entry, and nothing else is.
    assert entries("generator") == 6
    del outside


def test_a_with_block_in_a_generator_may_end_in_any_order():
    def inside(name):
        with gpucache.scope(name):
            yield take()

    one, other = inside("one"), inside("other")
    kept = [next(one), next(other)]
    one.close()
    take()
    other.close()
    with gpucache.scope("after the generators"):
        take()
    assert (entries("one"), entries("other"), entries("after the generators"), len(kept)) == (1, 1, 1, 2)


def test_a_decorated_coroutine_is_outside_while_it_waits():
    async def outside():
        return take(54321)

    @gpucache.scope("coroutine")
    async def work():
        kept = take()
        for _ in range(3):
            await asyncio.sleep(0)
        return kept.bytes

    async def both():
        return await asyncio.gather(work(), outside(), work())

    first, other, last = asyncio.run(both())
    assert (first, other.bytes, last) == (4096, 54321, 4096)
    assert gpucache.stats("coroutine").high_water_bytes == 2 * 4096


def test_a_cancelled_coroutine_leaves():
    @gpucache.scope("cancelled")
    async def work():
        await asyncio.sleep(60)

    async def cancel():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    take()
    assert gpucache.stats("cancelled").hits + gpucache.stats("cancelled").misses == 0


def test_wrong_use_says_what_to_do():
    with pytest.raises(TypeError, match="name"):
        gpucache.scope(lambda: None)
    with pytest.raises(ValueError, match="empty"):
        gpucache.scope("")
    with pytest.raises(TypeError, match="decorate its methods"):

        @gpucache.scope("class")
        class Model:
            pass

    with pytest.raises(TypeError, match="asynchronous generator"):

        @gpucache.scope("steps")
        async def steps():
            yield

    with pytest.raises(TypeError, match="with"):
        gpucache.scope("number")(5)


def test_a_scope_is_left_on_its_thread():
    scope = gpucache.scope("of this thread")
    failures = []

    def leave():
        try:
            scope.__exit__(None, None, None)
        except gpucache.Error as error:
            failures.append(str(error))

    with scope:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert len(failures) == 1 and "thread" in failures[0]
    with pytest.raises(gpucache.Error, match="thread"):
        scope.__exit__(None, None, None)


def test_names_may_have_any_text():
    for name in ("größe", "a\0b", "x" * 10_000, "{}%s"):
        with gpucache.scope(name):
            take()
        assert gpucache.stats(name).name == name


class Stop(Exception):
    """Raised by a handler of a signal."""


def test_an_exception_of_a_signal_leaves_the_thread_outside():
    def stop(*_):
        raise Stop

    scope, before = gpucache.scope("interrupted"), signal.signal(signal.SIGALRM, stop)
    try:
        for number in range(1000):
            with contextlib.suppress(Stop):
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + number % 50 * 1e-5)
                while True:
                    with scope:
                        pass
            kept = take()
            assert gpucache.stats("interrupted").busy_bytes == 0, number
            del kept
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda scope: pickle.loads(pickle.dumps(scope))])
def test_a_copy_is_a_scope_of_the_same_name_outside_of_any_entry(copied):
    scope = gpucache.scope("copied")
    with scope:
        other = copied(scope)
        with pytest.raises(gpucache.Error):
            other.__exit__()
    before = entries("copied")
    with other:
        take()
    assert other.name == "copied" and entries("copied") == before + 1
    with copied(gpucache.uncached()):
        take()
