"""Memory by its address, limits and statistics, on the host."""

import gc
import queue
import threading
import weakref

import pytest

import gpucache
from gpucache import _gpucache


@pytest.fixture(autouse=True)
def no_limit():
    yield
    gpucache.set_limit(None, device=-1)


def test_memory_goes_back_with_its_object():
    before = gpucache.device_stats(-1).allocated_bytes
    buffer = gpucache.allocate(1 << 20, device=-1)
    assert buffer.address % 256 == 0 and buffer.bytes == 1 << 20
    assert gpucache.base_address(buffer.address + 5) == (buffer.address, 1 << 20)
    assert gpucache.device_stats(-1).allocated_bytes == before + (1 << 20)
    del buffer
    assert gpucache.device_stats(-1).allocated_bytes == before


def test_the_class_of_memory_is_where_it_says():
    owned = type(gpucache.allocate(16, device=-1))
    assert (owned.__module__, owned) == ("gpucache", gpucache.Owned) and gpucache._gpucache.Run.__module__ == "gpucache._gpucache"


def test_no_bytes_need_no_memory():
    assert gpucache.allocate(0, device=-1).address == 0
    _gpucache.free(0)


def test_objects_in_a_cycle_are_freed_by_the_collector():
    before = gpucache.device_stats(-1).live_blocks
    cycle = [gpucache.allocate(4096, device=-1)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert gpucache.device_stats(-1).live_blocks == before


def test_other_threads_free_by_address():
    before, made = gpucache.device_stats(-1), queue.Queue()

    def free():
        while (address := made.get()) is not None:
            _gpucache.free(address)

    threads = [threading.Thread(target=free) for _ in range(4)]
    [thread.start() for thread in threads]
    for step in range(200):
        with gpucache.scope("freed elsewhere"):
            for number in range(20):
                made.put(_gpucache.allocate(256 * (1 + (step + number) % 7), -1))
    [made.put(None) for _ in threads]
    [thread.join() for thread in threads]
    after = gpucache.device_stats(-1)
    assert (after.allocations - before.allocations, after.frees - before.frees) == (4000, 4000)
    assert (after.allocated_bytes, after.live_blocks) == (before.allocated_bytes, before.live_blocks)


def test_memory_outlives_its_thread_and_its_scope():
    kept = []

    def work():
        with gpucache.scope("short-lived"):
            kept.append(gpucache.allocate(4096, device=-1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert gpucache.base_address(kept[0].address) == (kept[0].address, 4096)
    kept.clear()
    assert gpucache.stats("short-lived").busy_bytes == 0


def test_unknown_addresses_are_refused():
    address = _gpucache.allocate(4096, -1)
    _gpucache.free(address)
    for wrong in (address, 12345):
        with pytest.raises(gpucache.Error, match="nothing is allocated there"):
            _gpucache.free(wrong)
    assert gpucache.base_address(12345) is None


def test_out_of_memory_tells_the_numbers_and_the_program_continues():
    gpucache.trim(-1)
    used = gpucache.device_stats(-1)
    gpucache.set_limit(used.reserved_bytes + (8 << 20), device=-1)
    with gpucache.scope("short"):
        with pytest.raises(gpucache.OutOfMemoryError) as failure:
            gpucache.allocate(64 << 20, device=-1)
        assert gpucache.allocate(4096, device=-1).bytes == 4096
    assert "by its limit" in str(failure.value) and "short" in str(failure.value)
    assert isinstance(failure.value, MemoryError) and isinstance(failure.value, gpucache.Error)
    assert gpucache.device_stats(-1).out_of_memory == used.out_of_memory + 1
    gpucache.set_limit(None, device=-1)
    assert gpucache.allocate(64 << 20, device=-1).bytes == 64 << 20


def test_limits_come_in_all_forms():
    for limit in ("1TiB", "80%", "none", None, 1 << 40, 0.5):
        gpucache.set_limit(limit, device=-1)
    with pytest.raises(gpucache.Error, match="a lot"):
        gpucache.set_limit("a lot", device=-1)


def test_there_is_no_device_of_this_number():
    with pytest.raises(gpucache.Error, match="-7"):
        gpucache.allocate(4096, device=-7)


@pytest.mark.parametrize("call", [gpucache.trim, lambda device: gpucache.set_limit("1GiB", device=device),
                                  lambda device: gpucache.allocate(16, device=device)])
def test_a_missing_gpu_is_told_in_the_words_of_python(call):
    # With a driver and without one.
    with pytest.raises(gpucache.Error, match="or pass device=-1") as failure:
        call(1_000_000)
    assert "Host::new()" not in str(failure.value)


def test_invalidate_and_trim_free_idle_memory():
    with gpucache.scope("idle"):
        gpucache.allocate(1 << 20, device=-1)
    assert gpucache.invalidate("idle") == 1 << 20
    assert gpucache.invalidate("idle") == 0
    gpucache.trim(-1)
    assert gpucache.trim(-1) == 0


def test_peaks_begin_anew():
    with gpucache.scope("peaks"):
        gpucache.allocate(1 << 20, device=-1)
    assert gpucache.stats("peaks").high_water_bytes == 1 << 20
    gpucache.reset_peaks(scope="peaks")
    assert gpucache.stats("peaks").high_water_bytes == 0
    assert gpucache.reset_peaks(scope="nope") is None and gpucache.invalidate("nope") == 0
    assert "nope" not in gpucache.scopes()
    gpucache.reset_peaks(-1)
    used = gpucache.device_stats(-1)
    assert used.peak_allocated_bytes == used.allocated_bytes


def test_statistics_within_an_entry_are_exact():
    for _ in range(4):
        with gpucache.scope("exact"):
            buffers = [gpucache.allocate(4096, device=-1) for _ in range(10)]
            stats = gpucache.stats("exact")
            assert (stats.busy_blocks, stats.busy_bytes) == (10, 40960)
            gpucache.reset_peaks(scope="exact")
            del buffers
            assert gpucache.stats("exact").high_water_bytes == 40960


def test_a_pool_serves_its_streams_until_it_is_released():
    _gpucache.pool_begin(-1, (5, 6), [0])
    kept = gpucache.allocate(4096, device=-1)
    with pytest.raises(gpucache.Error, match="already"):
        _gpucache.pool_begin(-1, (5, 6))
    _gpucache.pool_end(-1, (5, 6))
    assert gpucache.allocate(4096, device=-1).address != kept.address
    del kept
    _gpucache.pool_release(-1, (5, 6))
    with pytest.raises(gpucache.Error):
        _gpucache.pool_release(-1, (5, 6))


def test_a_use_on_another_stream_is_noted():
    buffer = gpucache.allocate(4096, device=-1)
    gpucache.record_stream(buffer, 0)
    gpucache.record_stream(buffer.address, 0)
    # A view begins behind the begin of its array.
    gpucache.record_stream(buffer.address + 100, 0)
    with pytest.raises(gpucache.Error):
        gpucache.record_stream(12345, 0)


def test_an_end_of_a_stream_is_told():
    gpucache.stream_ends(-1, 0)
    with pytest.raises(gpucache.Error, match="-7"):
        gpucache.stream_ends(-7, 0)
    for device, stream, name in (("0", 0, "device"), (0, "0", "stream"), (0, None, "stream")):
        with pytest.raises(TypeError, match=name):
            gpucache.stream_ends(device, stream)


def test_an_end_of_a_stream_lets_it_go():
    kept = type("Stream", (), {})()
    known, end = weakref.ref(kept), gpucache.stream_ends
    for handle in (0, 1, 2):
        gpucache._memory.keep_stream(-1, handle, kept, True)
    assert not gpucache._memory._kept_streams
    gpucache._memory.keep_stream(-1, 4096, kept, True)
    del kept
    end(-1, 8192)
    assert known() is not None
    end(-1, 4096)
    assert known() is None


class Stream:
    """Stands for a library's object of a stream."""


def test_streams_that_nobody_else_has_are_let_go(monkeypatch):
    ended = []
    monkeypatch.setattr(_gpucache, "stream_ends", lambda device, handle: ended.append(handle))
    monkeypatch.setattr(gpucache._memory, "_kept_streams", {})
    # Who borrows a stream knows when it ends. Its object may have the owner.
    used, borrowed = Stream(), weakref.ref(stream := Stream())
    gpucache._memory.keep_stream(-1, 3, stream, False)
    gpucache._memory.keep_stream(-1, 4, used, True)
    del stream
    for handle in range(5, 105):
        gpucache._memory.keep_stream(-1, handle, Stream(), True)
    assert set(ended) <= set(range(5, 105)) and len(ended) > 90
    assert borrowed() is not None and (-1, 4) in gpucache._memory._kept_streams


def test_the_owner_of_a_stream_replaces_a_borrower():
    borrower, owner = Stream(), Stream()
    known = weakref.ref(owner)
    gpucache._memory.keep_stream(-1, 4096, borrower, False)
    gpucache._memory.keep_stream(-1, 4096, owner, True)
    gpucache._memory.keep_stream(-1, 4096, borrower, False)
    del owner
    assert known() is not None
    gpucache.stream_ends(-1, 4096)
    assert known() is None
