"""gpucache with a real PyTorch built for CUDA. No GPU is needed: the host stands for one where memory is allocated."""

import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

BEGIN = """
import torch, gpucache, gpucache.torch
from gpucache import _gpucache
"""
FUNCTIONS = BEGIN + """
torch.ops.load_library({library!r})
test, functions = torch.ops.gpucache_test, dict(_gpucache.torch_functions())
malloc, free = functions["malloc"], functions["free"]
"""


@pytest.fixture(scope="session")
def functions(tmp_path_factory):
    """A program that has operators for the functions which PyTorch calls."""
    library = tmp_path_factory.mktemp("thrower") / "thrower.so"
    root = pathlib.Path(torch.__file__).parent
    source = pathlib.Path(__file__).parent / "thrower.cpp"
    includes = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
    libraries = [f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"]
    command = ["g++", "-std=c++20", "-O0", "-fPIC", "-shared", *includes, str(source), *libraries, "-o", str(library)]
    subprocess.run(command, check=True)
    return FUNCTIONS.format(library=str(library))


def test_running_out_is_the_error_of_torch(program, functions):
    assert program(functions + """
allocator = gpucache.torch._allocator()
gpucache.set_limit("8MiB", device=-1)
try:
    with gpucache.scope("step"):
        test.allocate(malloc, 64 << 20, -1)
except torch.OutOfMemoryError as error:
    text = str(error)
    assert text.startswith("CUDA out of memory. Tried to allocate 64.00 MiB. gpucache: "), text
    assert "by its limit" in text, text
    print(type(error).__name__)
for _ in range(1000):
    try:
        test.allocate(malloc, 64 << 20, -1)
    except torch.OutOfMemoryError:
        pass
print(test.caught(malloc, 64 << 20).split("|")[1])
address = test.allocate(malloc, 4096, -1)
test.give_back(free, address)
assert gpucache.device_stats(-1).live_blocks == 0
""") == "OutOfMemoryError\na context\n"


def test_without_the_class_it_is_a_runtime_error(program, functions):
    assert program(functions + """
gpucache.set_limit("8MiB", device=-1)
print(test.caught(malloc, 64 << 20))
try:
    test.allocate(malloc, 64 << 20, -1)
except RuntimeError as error:
    assert not isinstance(error, torch.OutOfMemoryError) and str(error).startswith("CUDA out of memory. "), error
try:
    test.allocate(malloc, 4096, -5)
except RuntimeError as error:
    assert str(error).startswith("gpucache: ") and "-5" in str(error), error
""") == "another\n"


def test_size_0_and_pools(program, functions):
    program(functions + """
assert test.allocate(malloc, 0, -1) == 0
test.give_back(free, 0)
test.begin(functions["set_begin_allocate_to_pool"], 0)
kept = test.allocate(malloc, 4096, -1)
_gpucache.pool_end(-1, (3, 4))
test.give_back(free, kept)
_gpucache.pool_release(-1, (3, 4))
assert gpucache.device_stats(-1).live_blocks == 0
""")


def test_threads_free_each_others_memory(program, functions):
    program(functions + """
before = gpucache.device_stats(-1)
assert test.soak(malloc, free, 4, 100_000) == 0
after = gpucache.device_stats(-1)
assert (after.allocations, after.frees, after.live_blocks, after.allocated_bytes) == (400_000, 400_000, 0, 0), after
""")


def test_a_free_that_fails_is_reported(tmp_path, functions):
    path = tmp_path / "program.py"
    path.write_text(functions + "test.give_back(free, 12345)")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "a free of PyTorch failed: the address 0x3039" in done.stderr


def test_install_replaces_the_allocator_and_the_statistics(program):
    assert program(BEGIN + """
assert not gpucache.torch.is_installed()
gpucache.torch.install(limit="20GiB")
gpucache.torch.install(limit="10GiB", backward="caller")
assert gpucache.torch.is_installed()
assert torch.cuda.memory.get_allocator_backend() == "pluggable"
assert torch.cuda.memory_allocated() == torch.cuda.max_memory_reserved() == 0
assert torch.cuda.memory_stats() == {}
torch.cuda.empty_cache()
with gpucache.scope("step"):
    assert not torch.autograd.is_multithreading_enabled()
assert torch.autograd.is_multithreading_enabled()
gpucache.torch.install(backward="shared")
with gpucache.scope("step"):
    assert torch.autograd.is_multithreading_enabled()

# As if CUDA were initialised.
from torch.cuda import memory, memory_allocated
memory.is_initialized = lambda: True
for module in (torch.cuda, memory):
    module._get_device_index = lambda device, optional=False: device or 0
torch.cuda.device_count = lambda: 1
assert memory_allocated(0) == 0
print(torch.cuda.memory_summary(0).splitlines()[1].split("|")[1].strip())
torch.cuda.reset_peak_memory_stats(0)
torch.cuda.reset_accumulated_memory_stats(0)
assert torch.cuda.memory_stats(0)["num_ooms"] == 0
""") == "PyTorch CUDA memory summary, device ID 0\n"


def test_what_cannot_work_is_refused(program):
    assert program(BEGIN + """
gpucache.torch.install()
memory = torch.cuda.memory

def enable_benchmark():
    torch.backends.cudnn.benchmark = True

def benchmark_flags():
    with torch.backends.cudnn.flags(benchmark=True):
        pass

class Storage:
    is_cuda = True

refused = {
    "MemPool": torch.cuda.MemPool,
    "compile": lambda: torch.compile(lambda x: x, mode="reduce-overhead"),
    "autotune": lambda: torch.compile(mode="max-autotune")(lambda x: x),
    "cudagraphs": lambda: torch.compile(lambda x: x, options={"triton.cudagraphs": True}),
    "benchmark": enable_benchmark,
    "flags": benchmark_flags,
    "snapshot": lambda: torch.cuda.memory_snapshot(),
    "history": lambda: torch._C._cuda_record_memory_history("all"),
    "share": lambda: torch.UntypedStorage._share_cuda_(Storage()),
    "pool": gpucache.torch.pool,
    "settings": lambda: torch._C._accelerator_setAllocatorSettings("expandable_segments:True,pinned_num_register_threads:2"),
    "enable": lambda: torch._C._cuda_cudaCachingAllocator_enable(False),
    "other": lambda: torch.cuda.memory.change_current_allocator(torch.cuda.memory._get_current_allocator()),
}
for name, function in refused.items():
    try:
        function()
    except gpucache.NotSupportedError as error:
        assert "gpucache" in str(error) and len(str(error)) > 60, error
        print(name, end=" ")
torch.backends.cudnn.benchmark = False
torch._C._accelerator_setAllocatorSettings("pinned_use_cuda_host_register:True")
torch.compile(lambda x: x)
with torch.backends.cudnn.flags(benchmark=False):
    pass
""") == "MemPool compile autotune cudagraphs benchmark flags snapshot history share pool settings enable other "


def test_install_refuses_before_it_changes_anything(program):
    assert program(BEGIN + """
def refused(part):
    try:
        gpucache.torch.install()
    except gpucache.Error as error:
        assert part in str(error), error
        assert not gpucache.torch.is_installed() and torch.cuda.memory.get_allocator_backend() == "native"
        print(part)

torch.backends.cudnn.benchmark = True
refused("cudnn.benchmark")
torch.backends.cudnn.benchmark = False
initialised, torch.cuda.is_initialized = torch.cuda.is_initialized, lambda: True
refused("too late")
torch.cuda.is_initialized = initialised
cuda, torch.version.cuda = torch.version.cuda, None
refused("without CUDA")
torch.version.cuda = cuda
for wrong in ({"backward": "fast"}, {"limit": -1}):
    try:
        gpucache.torch.install(**wrong)
    except ValueError:
        print("value")
try:
    gpucache.torch.install(limit="a lot")
except gpucache.Error:
    print("limit")
assert not gpucache.torch.is_installed()
""") == "cudnn.benchmark\ntoo late\nwithout CUDA\nvalue\nvalue\nlimit\n"
