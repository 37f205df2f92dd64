"""Numba on gpucache.

Call :func:`install` before the first use of CUDA, or set ``NUMBA_CUDA_MEMORY_MANAGER=gpucache.numba``::

    import gpucache.numba
    from numba import cuda

    gpucache.numba.install()
    with gpucache.scope("step"):
        array = cuda.device_array(1024)

Numba does not say which streams use an array. So gpucache frees arrays in small groups, after all work of the device is
done, as Numba's own manager does.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from typing import Any

from numba import cuda
from numba.cuda.cudadrv import driver

from . import _gpucache
from ._errors import NotSupportedError, OutOfMemoryError

__all__ = ["MemoryManager", "install"]


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """Numba's plug for memory of one context. Numba itself allocates pinned host memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Memory that work may still use, since the wait for it failed: the driver refuses to wait while a graph is captured.
        self._unfreed: list[int] = []

    def initialize(self) -> None:
        """Lets arrays wait for their free. Numba calls this whenever it prepares a context."""
        # Numba frees the arrays that wait once they have a fifth of these bytes. With 0 bytes, as at first, it would free each array at
        # once, and wait for the device each time.
        if not self.deallocations.memory_capacity:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size: int) -> Any:
        """Allocates memory for the default stream."""
        device = int(self.context.device.id)
        try:
            address = _gpucache.allocate(size, device)
        except OutOfMemoryError:
            # The arrays that wait for their free may be enough.
            self.deallocations.clear()
            address = _gpucache.allocate(size, device)
        deallocations, context, unfreed = self.deallocations, weakref.proxy(self.context), self._unfreed

        def free(address: int) -> None:
            unfreed.append(address)
            # At the end of the process, Numba's context may go first.
            with contextlib.suppress(ReferenceError):
                _wait(context)
            while unfreed:
                _gpucache.free(unfreed.pop())

        def finalize() -> None:
            deallocations.add_item(free, address, size)

        return cuda.MemoryPointer(context, ctypes.c_void_p(address), size, finalizer=finalize)

    def get_memory_info(self) -> Any:
        """The free and the total memory of the device, as the driver tells."""
        # Numba's own manager asks the driver, and nothing of itself.
        return driver.NumbaCUDAMemoryManager.get_memory_info(self)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Refused."""
        raise NotSupportedError(
            "sharing a CUDA array with another process (IPC handles) does not work with gpucache: the driver exports no memory "
            "that is mapped page by page. Copy the array to host memory, or use Numba's own memory manager"
        )

    @property
    def interface_version(self) -> int:
        """The version of Numba's plug."""
        return 1


def _wait(context: Any) -> None:
    """Waits for all work of a context. Numba's own call waits for the thread's current one, which may be another one, or none."""
    context.push()
    try:
        context.synchronize()
    finally:
        context.pop()


def install() -> None:
    """Has Numba allocate from gpucache. Call it before the first use of CUDA."""
    if getattr(driver, "_memory_manager", None) not in (None, MemoryManager):
        raise NotSupportedError(
            "gpucache.numba.install() came too late: Numba has chosen its memory manager with the first use of CUDA, and keeps it. Call it "
            "before the first array or kernel, or set NUMBA_CUDA_MEMORY_MANAGER=gpucache.numba"
        )
    cuda.set_memory_manager(MemoryManager)


#: Numba looks for this name.
_numba_memory_manager = MemoryManager
