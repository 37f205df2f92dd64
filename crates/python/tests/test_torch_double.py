"""gpucache.torch with a double of PyTorch: what it installs, replaces and refuses. `frameworks/test_torch.py` has the real PyTorch."""

import ctypes
import subprocess

import pytest

BEGIN = """
import ctypes, warnings
warnings.simplefilter("ignore")  # the double has no class of an exception
import torch, gpucache, gpucache.torch
"""


def test_install_gives_all_functions_and_options(program):
    assert program(BEGIN + """
gpucache.torch.install()
functions = torch.state.allocator.functions
print(*sorted(functions))
assert all(functions.values()) and len(set(functions.values())) == 10
first = torch.state.allocator
gpucache.torch.install(backward="caller", auto_scope=False)
assert torch.state.allocator is first
with gpucache.scope("step"):
    assert not torch.state.multithreading
assert torch.state.multithreading
gpucache.torch.install(backward="shared")
with gpucache.scope("step"):
    assert torch.state.multithreading
""", doubles=True) == (
        "free malloc set_base_alloc_fn set_begin_allocate_to_pool set_end_allocate_to_pool_fn set_init_fn set_memory_fraction_fn "
        "set_record_stream_fn set_release_pool set_reset_fn\n"
    )


def test_an_option_that_is_omitted_keeps_its_value(program):
    assert program(BEGIN + """
from gpucache import _gpucache
calls = []
for name in ("torch_set_limit", "set_limit", "set_auto_scope", "set_backward_helps"):
    setattr(_gpucache, name, lambda *arguments, name=name: calls.append((name, *arguments)))
_gpucache.torch_used_devices = lambda: [1]
gpucache.torch.install()
assert calls == [], calls
gpucache.torch.install(limit="1GiB", backward="caller", auto_scope=False)
print(*calls)
calls.clear()
gpucache.torch.install()
assert calls == [], calls
with gpucache.scope("step"):
    assert not torch.state.multithreading
gpucache.torch.install(limit=None)
print(*calls)
calls.clear()
gpucache.torch.install(limit="none")
print(*calls)
""", doubles=True) == (
        "('torch_set_limit', '1GiB') ('set_limit', 1, '1GiB') ('set_auto_scope', False) ('set_backward_helps', True)\n"
        "('torch_set_limit', 'none') ('set_limit', 1, 'none')\n"
        "('torch_set_limit', 'none') ('set_limit', 1, 'none')\n"
    )


def test_scopes_that_end_in_another_order_restore_the_setting_of_torch(program):
    program(BEGIN + """
gpucache.torch.install(backward="caller")
first, second = gpucache.scope("first"), gpucache.scope("second")
for outside in (True, False):
    torch.state.multithreading = outside
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not torch.state.multithreading
    second.__exit__(None, None, None)
    assert torch.state.multithreading is outside
""", doubles=True)


def test_a_capture_that_fails_ends_its_pool(program):
    program(BEGIN + """
from gpucache import _gpucache
torch.cuda.CUDAGraph.begin = lambda: _gpucache.pool_begin(-1, (0, 1))
gpucache.torch.install()
# A second capture could not begin if the pool of the first one were open.
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    try:
        graph.capture_end()
    except RuntimeError as error:
        assert str(error) == "the capture failed"
    else:
        raise AssertionError("the exception is PyTorch's")
try:
    _gpucache.pool_release(-1, (0, 1))
except gpucache.Error:
    pass
else:
    raise AssertionError("the pool is released")
""", doubles=True)


def test_a_capture_goes_on_behind_a_call_that_was_refused(program):
    program(BEGIN + """
from gpucache import _gpucache
torch.cuda.CUDAGraph.begin = lambda: _gpucache.pool_begin(-1, (0, 1))
gpucache.torch.install()
graph = torch.cuda.CUDAGraph()
graph.capture_begin()

def refuse():
    _gpucache.pool_begin(-1, (0, 2))
    raise RuntimeError("there is a capture already")

torch.cuda.CUDAGraph.begin = refuse
torch.state.captures = True
for call in (torch.cuda.CUDAGraph().capture_begin, graph.capture_end):
    try:
        call()
    except RuntimeError:
        assert _gpucache.open_pools() == [(-1, (0, 1))]
    else:
        raise AssertionError
""", doubles=True)


def test_backward_on_caller_ends_on_its_own_thread(program):
    program(BEGIN + """
import threading
gpucache.torch.install()
block = gpucache.torch.backward_on_caller()
block.__enter__()

def end():
    try:
        block.__exit__(None, None, None)
    except gpucache.Error as error:
        assert "on the thread that began it" in str(error)
        ended.append(error)

ended = []
thread = threading.Thread(target=end)
thread.start()
thread.join()
block.__exit__(None, None, None)
assert len(ended) == 1 and torch.state.multithreading
""", doubles=True)


def test_modules_for_libraries_are_imported_at_their_first_use(program):
    assert program("""
import sys, gpucache
sys.modules["rmm"] = None  # as if it were not installed
assert "torch" not in sys.modules and not hasattr(gpucache, "jax") and not hasattr(gpucache, "rmm")
gpucache.torch.install
try:
    gpucache.rmm
except AttributeError as error:
    print(error)
try:
    import gpucache.rmm
except ModuleNotFoundError as error:
    print(error.name)
try:
    from gpucache import rmm
except ModuleNotFoundError as error:
    print(error.name)
""", doubles=True) == (
        "module 'gpucache' has no attribute 'rmm' here, since a module that it needs is not installed: import of rmm halted; None in "
        "sys.modules. Install that module first\nrmm\nrmm\n"
    )


def test_install_checks_all_arguments_before_it_changes_anything(program):
    assert program(BEGIN + """
from gpucache import _gpucache
limits = []
_gpucache.torch_set_limit = limits.append
for wrong in ({"auto_scope": "no"}, {"auto_scope": 0}, {"backward": "other"}, {"limit": "a lot"}, {"limit": []}, {"limit": 10**5000}):
    try:
        gpucache.torch.install(**{"limit": "1GiB", **wrong})
    except (TypeError, ValueError, gpucache.Error) as error:
        print(type(error).__name__, next(name for name in wrong if name in str(error)))
    assert not gpucache.torch.is_installed() and torch.state.allocator is None and limits == []
torch.state.is_initialized = True
try:
    gpucache.torch.install(limit="1GiB")
except gpucache.Error:
    assert limits == []
torch.state.is_initialized = False
gpucache.torch.install(limit="1GiB")
assert gpucache.torch.is_installed() and limits == ["1GiB"]
""", doubles=True) == (
        "TypeError auto_scope\nTypeError auto_scope\nValueError backward\nError limit\nTypeError limit\nValueError limit\n"
    )


def test_the_functions_allocate_and_free(program):
    program(BEGIN + """
gpucache.torch.install(limit="1TiB")
functions = torch.state.allocator.functions
malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(functions["malloc"])
free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(functions["free"])
record = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(functions["set_record_stream_fn"])
base = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))(functions["set_base_alloc_fn"])
reset = ctypes.CFUNCTYPE(None)(functions["set_reset_fn"])
fraction = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(functions["set_memory_fraction_fn"])
assert malloc(0, -1, None) is None
address, size = malloc(4096, -1, None), ctypes.c_size_t()
assert base(address + 8, size) == address and size.value == 4096
record(address, None)
# Inside of an allocation, as a tensor that was made from an address there.
record(address + 8, None)
# Memory of another library.
record(ctypes.addressof(size), None)
record(None, None)
free(address, 4096, -1, None)
free(None, 0, -1, None)
reset()
fraction(0.5, -1)
fraction(1.0, -1)
assert gpucache.device_stats(-1).live_blocks == 0
""", doubles=True)


def test_a_pool_gets_no_memory_instead_of_an_exception(program):
    program(BEGIN + """
torch.state.is_initialized = True
functions = gpucache.torch.pool().allocator.functions
malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(functions["malloc"])
free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(functions["free"])
gpucache.set_limit("8MiB", device=-1)
assert malloc(64 << 20, -1, None) is None and gpucache.device_stats(-1).out_of_memory == 1
assert malloc(0, -1, None) is None
# PyTorch gives segments back, and asks again.
gpucache.set_limit(None, device=-1)
address = malloc(64 << 20, -1, None)
assert gpucache.base_address(address) == (address, 64 << 20)
free(address, 64 << 20, -1, None)
assert gpucache.device_stats(-1).live_blocks == 0
torch.state.is_initialized = False
gpucache.torch.install()
assert torch.state.allocator.functions["malloc"] != functions["malloc"]
""", doubles=True)


def test_a_fraction_does_not_depend_on_the_locale(program, tmp_path):
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")], capture_output=True)
    if not (tmp_path / "de_DE.UTF-8").exists():
        pytest.skip(f"there is no locale with a decimal comma: {made.stderr}")
    program(f"import os, locale; os.environ['LOCPATH'] = {str(tmp_path)!r}\n" + BEGIN + """
locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
assert locale.localeconv()["decimal_point"] == ","
gpucache.torch.install()
fraction = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(torch.state.allocator.functions["set_memory_fraction_fn"])
fraction(0.123456789, -1)
[limit] = [device.memory.limit for device in gpucache.stats().devices if device.device == -1]
gpucache.set_limit("12.3456789%", device=-1)
assert limit == next(device.memory.limit for device in gpucache.stats().devices if device.device == -1) and limit
""", doubles=True)


def test_statistics_have_the_names_of_torch(program):
    program(BEGIN + """
from gpucache import _gpucache
from gpucache._torch import statistics
gpucache.torch.install()
assert torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["current"] == 0
for call in (torch._C._cuda_memoryStats, torch._C._cuda_resetPeakMemoryStats, torch._C._cuda_resetAccumulatedMemoryStats,
             torch._C._cuda_getMemoryFraction, lambda device: torch._C._cuda_setMemoryFraction(0.5, device)):
    for device in (-1, 2, 10**6):
        try:
            call(device)
        except RuntimeError as error:
            assert str(error) == f"Invalid device argument {device}: devices are numbered from 0, and PyTorch finds 2", error
        else:
            raise AssertionError("this device does not exist")
# As if PyTorch had allocated on the host.
_gpucache.torch_used_devices = lambda: [-1]
statistics._check = lambda _: None
held = gpucache.allocate(4096, device=-1)
stats = torch._C._cuda_memoryStats(-1)
assert stats["num_sync_all_streams"] == stats["num_device_free"] == 0 < stats["num_device_alloc"] == stats["gpucache"]["device_calls"]
assert stats["allocated_bytes"]["all"]["current"] == stats["allocated_bytes"]["large_pool"]["peak"] == 4096
assert stats["allocation"]["all"]["allocated"] == 1 and stats["allocated_bytes"]["all"]["allocated"] == 4096
assert stats["reserved_bytes"]["all"]["current"] >= 4096
torch._C._cuda_resetAccumulatedMemoryStats(-1)
assert torch._C._cuda_memoryStats(-1)["allocation"]["all"]["allocated"] == 0
del held
torch._C._cuda_resetPeakMemoryStats(-1)
assert torch._C._cuda_memoryStats(-1)["allocated_bytes"]["all"]["peak"] == 0
assert torch._C._cuda_getMemoryFraction(-1) == 1.0
torch._C._cuda_setMemoryFraction(0.25, -1)
assert torch._C._cuda_getMemoryFraction(-1) == 0.25
for metric in ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes", "inactive_split_bytes", "allocation",
               "active", "segment", "inactive_split"):
    for pool in ("all", "small_pool", "large_pool"):
        assert set(stats[metric][pool]) == {"current", "peak", "allocated", "freed"}
""", doubles=True)


def test_what_cannot_work_is_refused_with_the_remedy(program):
    assert program(BEGIN + """
gpucache.torch.install()

def benchmark():
    torch.backends.cudnn.benchmark = True

refused = [
    torch.cuda.MemPool,
    lambda: torch.compile(print, mode="reduce-overhead"),
    lambda: torch.compile(print, options={"triton.cudagraphs": True}),
    benchmark,
    lambda: torch._C._set_cudnn_benchmark(True),
    lambda: torch._C._cuda_memorySnapshot((0, 0)),
    lambda: torch._C._cuda_record_memory_history("all"),
    lambda: torch._C._cuda_getCheckpointState(0, (0, 0)),
    lambda: torch.UntypedStorage()._share_cuda_(),
    gpucache.torch.pool,
]
for function in refused:
    try:
        function()
    except gpucache.NotSupportedError as error:
        print(str(error).split(" does not work")[0].split(":")[0])
assert torch.compile(print) is print and torch.compile(print, mode="default") is print
torch.backends.cudnn.benchmark = False
""", doubles=True) == """torch.cuda.MemPool
torch.compile(mode='reduce-overhead')
torch.compile(options={"triton.cudagraphs"
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.benchmark = True
torch.cuda.memory_snapshot, as well as torch.cuda.memory._snapshot,
torch.cuda.memory._record_memory_history
torch.compile with CUDA graphs (cudagraph trees)
sharing a CUDA tensor with another process (torch.multiprocessing, IPC handles)
gpucache.torch.pool() is for programs without gpucache.torch.install(). Here all tensors come from gpucache already
"""


def test_too_late_names_the_pool_which_works(program):
    assert program(BEGIN + """
torch.state.is_initialized = True
try:
    gpucache.torch.install()
except gpucache.Error as error:
    assert "already initialised" in str(error) and "gpucache.torch.pool()" in str(error)
assert torch.state.allocator is None
pool = gpucache.torch.pool()
assert len(pool.allocator.functions) == 10
assert gpucache.torch.use_pool(pool, 0) == (pool, 0)
torch.state.is_initialized = False
torch.state.allocator = "another one"
try:
    gpucache.torch.install()
except gpucache.Error as error:
    print("another library" in str(error))
""", doubles=True) == "True\n"


@pytest.mark.parametrize("later", ["gpucache.set_limit('64MiB', device=0)", "torch._C._cuda_setMemoryFraction(0.25, 0)", "fraction(0.25, 0)"])
def test_a_limit_after_install_holds(program, later):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("there is no driver; tests/driver has a made-up one")
    assert program(BEGIN + f"""
gpucache.torch.install(limit="90%")
functions = torch.state.allocator.functions
malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(functions["malloc"])
fraction = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(functions["set_memory_fraction_fn"])
def limit():
    return next(device for device in gpucache.stats().devices if device.device == 0).memory.limit
{later}
before = limit()
assert malloc(4096, 0, None) and limit() == before and before is not None
gpucache.torch.install(limit="80%")
assert limit() != before
""", doubles=True) == ""
