"""Warp on gpucache.

::

    import warp
    import gpucache.warp

    gpucache.warp.install()
    with gpucache.scope("frame"):
        points = warp.zeros(1024, dtype=warp.vec3, device="cuda")

Needs Warp 1.13 or newer. Memory is reused in the order of the device's stream that was current when it was allocated. gpucache keeps
streams that got memory, and lets go of those that Warp made and that nobody else has. If Warp only borrows a stream, call ``gpucache.stream_ends(device, handle)`` before its owner
destroys it.
"""

from __future__ import annotations

from typing import Any

import warp

from . import _gpucache, _memory
from ._errors import NotSupportedError

__all__ = ["Allocator", "install", "uninstall"]


class Allocator:
    """An allocator of Warp for one device."""

    def __init__(self, device: Any) -> None:
        self.device = warp.get_device(device)

    def allocate(self, size_in_bytes: int) -> int:
        """Allocates memory for the current stream of the device."""
        if self.device.is_capturing:
            raise NotSupportedError(
                "an array is allocated while Warp captures a CUDA graph: later launches of the graph would use memory that others "
                "have by then. Allocate all arrays before warp.ScopedCapture()"
            )
        device, stream = self.device.ordinal, self.device.stream
        handle = stream.cuda_stream or 0
        _memory.keep_stream(device, handle, stream, stream.owner)
        return _gpucache.allocate(size_in_bytes, device, handle)

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Frees memory."""
        _gpucache.free(ptr)


#: For the life of the process: arrays are freed by the allocator that made them.
_alive: list[Allocator] = []


def install() -> None:
    """Has Warp allocate from gpucache on all devices. Arrays that exist stay where they are."""
    if not hasattr(warp, "set_device_allocator"):
        raise NotSupportedError(f"warp {warp.__version__} accepts no allocator: install warp-lang 1.13 or newer")
    devices = warp.get_cuda_devices()
    if not devices:
        raise NotSupportedError("Warp finds no CUDA device, and gpucache serves no others of Warp's")
    for device in devices:
        _alive.append(Allocator(device))
        warp.set_device_allocator(device, _alive[-1])


def uninstall() -> None:
    """Has Warp allocate by itself again. Arrays that exist stay where they are."""
    for device in warp.get_cuda_devices():
        warp.set_device_allocator(device, None)
