"""Stands for PyTorch where it is not installed: what gpucache.torch needs of torch 2.11, with nothing behind it."""

import contextlib
import types

__version__ = "2.11.0+double"
version = types.SimpleNamespace(cuda="13.0")


class Allocator:
    """As torch._C._cuda_CUDAAllocator: notes the functions."""

    def __init__(self, malloc, free):
        self.functions = {"malloc": malloc, "free": free}

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda function: self.functions.__setitem__(name, function)


state = types.SimpleNamespace(allocator=None, is_initialized=False, benchmark=False, multithreading=True, captures=False)


class _CUDAAllocator:
    def __init__(self, allocator):
        self._allocator = allocator

    def allocator(self):
        return self._allocator


class MemPool:
    def __init__(self, allocator=None):
        self.allocator = allocator


class CUDAGraph:
    """A graph whose capture the driver ends. As the real one, it then does not end its pool. Tests set how it begins one."""

    begin = None

    def capture_begin(self):
        type(self).begin()

    def capture_end(self):
        raise RuntimeError("the capture failed")


class ContextProp:
    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, _, __):
        return self.getter()

    def __set__(self, _, value):
        self.setter(value)


class Cudnn:
    benchmark = ContextProp(lambda: state.benchmark, lambda value: setattr(state, "benchmark", value))


class UntypedStorage:
    is_cuda = True

    def _share_cuda_(self):
        return "shared"


def throws(*_):
    raise RuntimeError("CUDAPluggableAllocator does not yet support this")


_C = types.SimpleNamespace(
    _GLIBCXX_USE_CXX11_ABI=True,
    _cuda_customAllocator=Allocator,
    _set_multithreading_enabled=lambda enabled: setattr(state, "multithreading", enabled),
    _set_cudnn_benchmark=lambda enabled: setattr(state, "benchmark", enabled),
    _cuda_memoryStats=throws,
    _cuda_resetPeakMemoryStats=throws,
    _cuda_resetAccumulatedMemoryStats=throws,
    _cuda_setMemoryFraction=throws,
    _cuda_getMemoryFraction=throws,
    _cuda_memorySnapshot=throws,
    _cuda_record_memory_history=throws,
    _cuda_getCheckpointState=throws,
)
autograd = types.SimpleNamespace(is_multithreading_enabled=lambda: state.multithreading)
backends = types.SimpleNamespace(cudnn=Cudnn())
memory = types.SimpleNamespace(
    _CUDAAllocator=_CUDAAllocator,
    get_allocator_backend=lambda: "native" if state.allocator is None else "pluggable",
    change_current_allocator=lambda allocator: setattr(state, "allocator", allocator.allocator()),
)
cuda = types.SimpleNamespace(
    memory=memory,
    current_stream=lambda: "stream",
    stream=lambda _: contextlib.nullcontext(),
    is_current_stream_capturing=lambda: state.captures,
    CUDAGraph=CUDAGraph,
    MemPool=MemPool,
    device_count=lambda: 2,
    is_initialized=lambda: state.is_initialized,
    use_mem_pool=lambda pool, device: (pool, device),
)


def compile(model=None, *, mode=None, options=None):
    return model
