"""PyTorch on gpucache.

Call :func:`install` before the first use of CUDA. All tensors of all threads then come from gpucache::

    import torch
    import gpucache.torch

    gpucache.torch.install()
    for batch in batches:
        with gpucache.scope("train_step"):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()

``torch.cuda.memory_allocated``, ``memory_stats``, ``empty_cache`` and their like then tell about gpucache. ``empty_cache`` is
:func:`gpucache.trim` of each device that PyTorch has used, so memory of scopes that other threads are inside stays. What cannot work
raises :class:`gpucache.NotSupportedError`, which names the remedy.
"""

from __future__ import annotations

import os
import pathlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any, Literal, SupportsIndex

import torch

from . import _arguments, _gpucache, _scopes
from ._errors import Error, NotSupportedError
from ._torch import graphs, refuse, statistics
from ._torch.patch import Patches

__all__ = ["install", "is_installed", "pool", "use_pool", "backward_on_caller"]

#: What PyTorch holds by address, for the life of the process: the allocator, and whoever was made from it.
_alive: list[Any] = []

_patches = Patches()

#: The oldest PyTorch whose hooks have today's signatures.
_OLDEST = (2, 6)


def install(
    *,
    limit: str | SupportsIndex | float | None = _arguments.UNSET,
    backward: Literal["shared", "caller", "apart"] = _arguments.UNSET,
    auto_scope: bool = _arguments.UNSET,
) -> None:
    """Has PyTorch allocate all CUDA memory from gpucache. Call it before CUDA is first used.

    Later calls change the options that they name. An option that a call omits keeps its value, also if
    :func:`gpucache.set_limit` or :func:`gpucache.set_auto_scope` set it before the first call.

    ``limit``: the most memory on each device: ``"20GiB"``, a number of bytes, ``"80%"``, a share as a float, or a soft limit as
    ``"soft 20GiB"`` or ``"soft 80%"``. ``None`` or ``"none"`` removes the hard and the soft limit of each device that PyTorch has
    used, also those of ``GPUCACHE_LIMIT``. A later limit of a device by :func:`gpucache.set_limit` or
    ``torch.cuda.set_per_process_memory_fraction`` replaces it there.

    ``backward``: PyTorch runs backward passes on threads of its own. With ``"shared"``, the value at first, such a thread uses
    the scope of the thread that waits for it. If several threads are inside scopes at once, use ``"caller"``: a backward pass
    inside a scope then runs on its calling thread, one device after another. With ``"apart"``, these threads are outside of scopes.

    ``auto_scope``: whether allocations outside of all scopes come from a scope named ``auto``, which finds loops by itself. They do
    at first.

    Raises :class:`gpucache.Error` if CUDA is already initialised; :func:`pool` still works then.
    """
    # All checks come before the first change.
    if backward not in ("shared", "caller", "apart", _arguments.UNSET):
        raise ValueError(f'backward is "shared", "caller" or "apart", not {backward!r}')
    if auto_scope is not _arguments.UNSET:
        auto_scope = _arguments.flag(auto_scope, "auto_scope", "allocations outside of all scopes come from the scope `auto`")
    text = None if limit is _arguments.UNSET else _arguments.limit(limit)
    if text is not None:
        _gpucache.check_limit(text)
    if is_installed():
        _set_options(text, backward, auto_scope)
        return
    _check()
    allocator = _allocator()
    _set_options(text, backward, auto_scope)
    torch.cuda.memory.change_current_allocator(allocator)
    _alive.append(allocator)
    statistics.patch(_patches)
    refuse.patch(_patches)
    graphs.patch(_patches)


def _set_options(limit: str | None, backward: Any, auto_scope: Any) -> None:
    """Sets the options of ``install`` that are given. They were checked before."""
    if limit is not None:
        _gpucache.torch_set_limit(limit)
        for device in _gpucache.torch_used_devices():
            _gpucache.set_limit(device, limit)
    if auto_scope is not _arguments.UNSET:
        _gpucache.set_auto_scope(auto_scope)
    if backward is not _arguments.UNSET:
        _set_backward(backward)


def is_installed() -> bool:
    """Whether PyTorch allocates from gpucache."""
    return bool(_patches)


def pool() -> torch.cuda.MemPool:
    """A ``torch.cuda.MemPool`` whose memory comes from gpucache, for programs that cannot call :func:`install` in time.

    PyTorch allocates in the pool inside ``with gpucache.torch.use_pool(pool):``. It takes memory in segments of 2 or 20 MiB, so
    gpucache plans no single tensors. Backward passes allocate outside of the pool, since they run on other threads. If a device
    or its limit has no memory left, PyTorch gives back the segments that it does not use, and asks again.
    """
    if is_installed():
        raise NotSupportedError(
            "gpucache.torch.pool() is for programs without gpucache.torch.install(). "
            "Here all tensors come from gpucache already: remove the pool"
        )
    _check_build()
    allocator = _allocator("pool_malloc")
    made = torch.cuda.MemPool(allocator.allocator())
    _alive.extend((allocator, made))
    return made


def use_pool(pool: torch.cuda.MemPool, device: int | None = None) -> Any:
    """As ``torch.cuda.use_mem_pool``: allocations of this thread come from the pool."""
    return torch.cuda.use_mem_pool(pool, device)


class _Blocks(threading.local):
    """The open blocks of ``backward_on_caller`` on one thread, which end in any order, and PyTorch's setting outside of them."""

    count = 0
    before = True


_blocks = _Blocks()


class backward_on_caller:  # noqa: N801
    """Runs backward passes of a block on the thread that calls them, as ``install(backward="caller")`` does in all scopes."""

    def __enter__(self) -> None:
        if not _blocks.count:
            _blocks.before = torch.autograd.is_multithreading_enabled()
            torch._C._set_multithreading_enabled(False)
        _blocks.count += 1

    def __exit__(self, *_: object) -> None:
        if not _blocks.count:
            raise Error(
                "the block backward_on_caller cannot end here: this thread is inside none. End it on the thread that began it, and not in a "
                "generator that another thread goes on with"
            )
        _blocks.count -= 1
        if not _blocks.count:
            torch._C._set_multithreading_enabled(_blocks.before)


def _set_backward(backward: str) -> None:
    _gpucache.set_backward_helps(backward != "apart")
    if backward_on_caller in _scopes.around:
        _scopes.around.remove(backward_on_caller)
    if backward == "caller":
        _scopes.around.append(backward_on_caller)


def _allocator(malloc: Literal["malloc", "pool_malloc"] = "malloc") -> Any:
    """PyTorch's object for an allocator, with all functions of gpucache. If no memory is left, ``malloc`` raises an exception, and
    ``pool_malloc`` returns null."""
    functions = dict(_gpucache.torch_functions())
    mallocs = {name: functions.pop(name) for name in ("malloc", "pool_malloc")}
    made = torch._C._cuda_customAllocator(mallocs[malloc], functions.pop("free"))
    missing = [name for name in functions if not hasattr(made, name)]
    if missing:
        raise NotSupportedError(
            f"torch {torch.__version__} has no {', '.join(missing)}: without these hooks, memory of CUDA graphs would be "
            f"reused while it is in use. Install torch {'.'.join(map(str, _OLDEST))} or newer"
        )
    for name, function in functions.items():
        getattr(made, name)(function)
    if not any(_gpucache.torch_find_error(str(path)) for path in _libraries()):
        warnings.warn(
            f"gpucache does not find the class of torch.OutOfMemoryError in torch {torch.__version__}: running out of memory "
            'raises RuntimeError("CUDA out of memory. ..") instead',
            RuntimeWarning,
            stacklevel=3,
        )
    return torch.cuda.memory._CUDAAllocator(made)


def _libraries() -> Iterator[pathlib.Path]:
    """PyTorch's libraries that may have the class of its exception."""
    folder = pathlib.Path(torch.__file__).parent / "lib"
    for name in ("libc10_cuda.so", "libtorch_python.so", "libtorch_cuda.so"):
        yield folder / name


def _check_build() -> None:
    """Refuses a PyTorch that cannot call gpucache."""
    if getattr(torch.version, "cuda", None) is None:
        raise NotSupportedError(
            f"torch {torch.__version__} is built without CUDA, so it has no CUDA memory that gpucache could serve. "
            "Install a build of PyTorch for CUDA: https://pytorch.org/get-started/locally"
        )
    if not torch._C._GLIBCXX_USE_CXX11_ABI:
        raise NotSupportedError(
            f"torch {torch.__version__} is built with the C++ ABI from before 2011, which gpucache's functions do not have. "
            "Install torch 2.7 or newer"
        )


def _check() -> None:
    """Refuses what cannot work, before anything is changed."""
    _check_build()
    if torch.cuda.is_initialized():
        raise Error(
            "gpucache.torch.install() came too late: CUDA is already initialised, and PyTorch cannot change its allocator any "
            "more. Call install() before the first tensor on a GPU, right after `import torch`. If other code initialises CUDA, "
            "use gpucache.torch.pool() instead"
        )
    if torch.backends.cudnn.benchmark:
        raise refuse.cudnn_benchmark()
    backend = torch.cuda.memory.get_allocator_backend()
    if backend == "pluggable":
        raise Error(
            "another library has installed its own allocator in PyTorch (RMM, vLLM's sleep mode and torch_memory_saver do). "
            "Remove that, or gpucache.torch.install()"
        )
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if os.environ.get(name):
            warnings.warn(
                f"{name}={os.environ[name]} has no effect: it is for PyTorch's own allocators, and gpucache replaces them. "
                "Remove it, and use gpucache.torch.install(limit=..) for limits",
                RuntimeWarning,
                stacklevel=3,
            )
