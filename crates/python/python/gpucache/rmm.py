"""RMM on gpucache, and with it cuDF, cuML and other libraries of RAPIDS.

::

    import rmm
    import gpucache.rmm

    rmm.mr.set_current_device_resource(gpucache.rmm.resource())

RMM tells the handle of a stream, and not who owns it. So gpucache cannot keep the stream: if a stream is destroyed before the process ends,
call ``gpucache.stream_ends(device, handle)`` before. Otherwise the driver may end the process. Default streams need no call.
"""

from __future__ import annotations

from typing import Any

import rmm

from . import _arguments, _gpucache

__all__ = ["resource"]

#: For the life of the process: RMM calls these functions by their addresses.
_alive: list[Any] = []


def _handle(stream: Any) -> int:
    """The handle of a stream as a number. RMM's streams have it in the shape that CUDA's Python packages agreed on."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(stream.value())


def resource(device: int = 0) -> rmm.mr.DeviceMemoryResource:
    """A memory resource for one device, for ``rmm.mr.set_per_device_resource`` or ``rmm.mr.set_current_device_resource``."""
    number = _arguments.device(device)

    def allocate(bytes: int, stream: Any) -> int:
        return _gpucache.allocate(bytes, number, _handle(stream))

    def deallocate(address: int, bytes: int, stream: Any) -> None:
        if address:
            # RMM frees on a stream that may be another one than that of the allocation: then its work counts too.
            _gpucache.record_stream(address, _handle(stream))
            _gpucache.free(address)

    made = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    _alive.append((made, allocate, deallocate))
    return made
