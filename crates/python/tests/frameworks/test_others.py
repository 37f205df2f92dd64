"""gpucache with real libraries beside PyTorch. No GPU is needed: the host stands for one, as device -1."""

import gc
import logging
import types
import weakref

import pytest

import gpucache


def live():
    gc.collect()
    return gpucache.device_stats(-1).live_blocks


def stream(handle, is_capturing=False):
    return types.SimpleNamespace(ptr=handle, cuda_stream=handle, owner=True, is_capturing=lambda: is_capturing)


@pytest.fixture
def cupy(monkeypatch):
    library = pytest.importorskip("cupy")
    import gpucache.cupy

    # CuPy asks the driver about memory of device -1.
    monkeypatch.setattr(library.cuda.device, "get_device_id", lambda: 0)
    monkeypatch.setattr(gpucache.cupy, "Owned", lambda bytes, device, stream: gpucache._gpucache.Owned(bytes, -1, stream))
    monkeypatch.setattr(library.cuda, "get_current_stream", lambda: stream(0))
    return library


def test_cupy_frees_with_the_last_array(cupy):
    import gpucache.cupy

    before = live()
    memory = gpucache.cupy.allocate(4096)
    part = cupy.cuda.MemoryPointer(memory.mem, 256)
    assert part.ptr == memory.ptr + 256 and memory.mem.size == 4096 and memory.mem.device_id == 0
    del memory
    assert live() == before + 1
    del part
    assert live() == before
    assert gpucache.cupy.allocate(0).ptr == 0


def test_captures_of_cupy_are_announced(cupy, monkeypatch):
    import gpucache.cupy

    calls = []
    monkeypatch.setattr(gpucache.cupy._gpucache, "capture_begins", lambda: calls.append("begins"))
    monkeypatch.setattr(gpucache.cupy._gpucache, "capture_ends", lambda: calls.append("ends"))
    monkeypatch.setattr(gpucache.cupy, "_begin", lambda stream: calls.append("begin"))

    def end(stream):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(gpucache.cupy, "_end", end)
    stream = types.SimpleNamespace(ptr=4096)
    gpucache.cupy._begin_capture(stream)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="on purpose"):
            gpucache.cupy._end_capture(stream)
    assert calls == ["begins", "begin", "ends"]
    monkeypatch.setattr(gpucache.cupy, "_begin", end)
    with pytest.raises(RuntimeError, match="on purpose"):
        gpucache.cupy._begin_capture(stream)
    assert calls[3:] == ["begins", "ends"]


def test_cupy_runs_out_with_an_error_of_both(cupy, monkeypatch):
    import gpucache.cupy

    gpucache.set_limit("8MiB", device=-1)
    try:
        for kind in (cupy.cuda.memory.OutOfMemoryError, gpucache.OutOfMemoryError, MemoryError):
            with pytest.raises(kind, match="8.00 MiB in all by its limit"):
                gpucache.cupy.allocate(64 << 20)
    finally:
        gpucache.set_limit(None, device=-1)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: stream(5, is_capturing=True))
    with pytest.raises(gpucache.NotSupportedError, match="begin_capture"):
        gpucache.cupy.allocate(4096)


def test_cupy_takes_the_allocator(cupy):
    import gpucache.cupy

    before = cupy.cuda.get_allocator()
    try:
        gpucache.cupy.install()
        assert cupy.cuda.get_allocator() == gpucache.cupy.allocate
        gpucache.cupy.uninstall()
        assert cupy.cuda.get_allocator() == cupy.get_default_memory_pool().malloc
    finally:
        cupy.cuda.set_allocator(before)


class NumbaContext:
    device = types.SimpleNamespace(id=-1)
    synchronized = 0
    is_current = False
    fails = False

    def push(self):
        self.is_current = True

    def pop(self):
        self.is_current = False

    def synchronize(self):
        # The driver waits for the thread's current context.
        self.synchronized += self.is_current
        if self.fails:
            raise RuntimeError("on purpose")


def test_numba_frees_after_the_work_of_the_device(monkeypatch):
    pytest.importorskip("numba.cuda")
    import gpucache.numba

    # Without a driver.
    information = types.SimpleNamespace(free=1 << 20, total=1 << 20)
    monkeypatch.setattr(gpucache.numba.driver.NumbaCUDAMemoryManager, "get_memory_info", lambda _: information)
    context, before = NumbaContext(), live()
    manager = gpucache.numba.MemoryManager(context=context)
    manager.initialize()
    # Numba makes its logger when it finds a driver.
    monkeypatch.setattr(gpucache.numba.driver, "_logger", logging.getLogger("numba"), raising=False)
    assert manager.interface_version == 1
    memory = manager.memalloc(4096)
    assert memory.size == 4096 and gpucache.base_address(memory.device_pointer_value) is not None
    del memory
    # A fifth of the memory may wait for its free.
    assert (live(), context.synchronized) == (before + 1, 0)
    manager.deallocations.clear()
    assert (live(), context.synchronized, context.is_current) == (before, 1, False)
    # If the wait fails, work may still use the memory. It goes back after the next wait.
    memory = manager.memalloc(4096)
    del memory
    context.fails = True
    with pytest.raises(RuntimeError, match="on purpose"):
        manager.deallocations.clear()
    context.fails = False
    assert (live(), context.is_current) == (before + 1, False)
    memory = manager.memalloc(4096)
    del memory
    manager.deallocations.clear()
    assert live() == before
    # If memory is short, those that wait are freed first.
    waiting = manager.memalloc(4096)
    del waiting
    real, calls = gpucache.numba._gpucache.allocate, []

    def short_once(size, device):
        calls.append(live())
        if len(calls) == 1:
            raise gpucache.OutOfMemoryError("short")
        return real(size, device)

    monkeypatch.setattr(gpucache.numba._gpucache, "allocate", short_once)
    memory = manager.memalloc(4096)
    assert calls == [before + 1, before]
    del memory
    manager.deallocations.clear()
    manager.deallocations.memory_capacity = 12345
    manager.initialize()
    assert manager.deallocations.memory_capacity == 12345
    with pytest.raises(gpucache.NotSupportedError, match="IPC"):
        manager.get_ipc_handle(None)


def test_numba_finds_the_manager_by_its_name(monkeypatch):
    cuda = pytest.importorskip("numba.cuda")
    import gpucache.numba

    chosen = []
    monkeypatch.setattr(cuda, "set_memory_manager", chosen.append)
    gpucache.numba.install()
    assert chosen == [gpucache.numba._numba_memory_manager]
    monkeypatch.setattr(gpucache.numba.driver, "_memory_manager", object)
    with pytest.raises(gpucache.NotSupportedError, match="too late"):
        gpucache.numba.install()


def test_warp_allocates_for_the_stream_of_the_device(monkeypatch):
    warp = pytest.importorskip("warp")
    import gpucache.warp

    device = types.SimpleNamespace(ordinal=-1, is_capturing=False, stream=stream(None))
    monkeypatch.setattr(warp, "get_device", lambda _: device)
    before, allocator = live(), gpucache.warp.Allocator("cuda:0")
    assert isinstance(allocator, warp._src.context.Allocator)
    address = allocator.allocate(4096)
    assert gpucache.base_address(address) == (address, 4096)
    allocator.deallocate(address, 4096)
    assert live() == before
    device.is_capturing = True
    with pytest.raises(gpucache.NotSupportedError, match="ScopedCapture"):
        allocator.allocate(4096)


def test_warp_streams_that_got_memory_are_kept_until_they_end(monkeypatch):
    warp = pytest.importorskip("warp")
    import gpucache.warp

    # The host's memory, for a stream that is named as one of a GPU.
    monkeypatch.setattr(gpucache.warp._gpucache, "allocate", lambda bytes, device, stream: 256)
    device = types.SimpleNamespace(ordinal=-1, is_capturing=False, stream=type("Stream", (), {"cuda_stream": 12345, "owner": True})())
    monkeypatch.setattr(warp, "get_device", lambda _: device)
    allocator, kept = gpucache.warp.Allocator("cuda:0"), weakref.ref(device.stream)
    assert allocator.allocate(4096) == 256
    device.stream = stream(None)
    gc.collect()
    assert kept() is not None
    gpucache.stream_ends(-1, 12345)
    gc.collect()
    assert kept() is None


def test_warp_gets_an_allocator_for_each_device(monkeypatch):
    warp = pytest.importorskip("warp")
    import gpucache.warp

    given = {}
    monkeypatch.setattr(warp, "set_device_allocator", given.__setitem__)
    monkeypatch.setattr(warp, "get_device", lambda device: device)
    monkeypatch.setattr(warp, "get_cuda_devices", lambda: ["cuda:0", "cuda:1"])
    gpucache.warp.install()
    assert [allocator.device for allocator in given.values()] == ["cuda:0", "cuda:1"]
    gpucache.warp.uninstall()
    assert list(given.values()) == [None, None]
    monkeypatch.setattr(warp, "get_cuda_devices", lambda: [])
    with pytest.raises(gpucache.NotSupportedError, match="no CUDA device"):
        gpucache.warp.install()


def test_rmm_has_a_resource():
    rmm = pytest.importorskip("rmm")
    import gpucache.rmm

    before, resource = live(), gpucache.rmm.resource(-1)
    assert isinstance(resource, rmm.mr.DeviceMemoryResource)
    address = resource.allocate(4096)
    assert gpucache.base_address(address) == (address, 4096)
    resource.deallocate(address, 4096)
    assert live() == before
    gpucache.set_limit("8MiB", device=-1)
    try:
        with pytest.raises(MemoryError):
            resource.allocate(64 << 20)
    finally:
        gpucache.set_limit(None, device=-1)
