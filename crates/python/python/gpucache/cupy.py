"""CuPy on gpucache.

::

    import cupy
    import gpucache.cupy

    gpucache.cupy.install()
    with gpucache.scope("frame"):
        image = cupy.zeros((1080, 1920))

CuPy and PyTorch then share the idle memory of the device. As with CuPy's own pool, memory is reused in the order of the stream that was
current when it was allocated. If another stream still uses an array when it is freed, call ``gpucache.record_stream(array.data.ptr,
stream.ptr)`` before. Keep that stream until the process ends, or call ``gpucache.stream_ends(device, stream.ptr)`` before it is destroyed.
gpucache keeps streams that got memory, and lets go of those that CuPy made and that nobody else has.
"""

from __future__ import annotations

from typing import Any

import cupy

from . import _gpucache, _memory
from ._errors import NotSupportedError, OutOfMemoryError
from ._gpucache import Owned

__all__ = ["CupyOutOfMemoryError", "allocate", "install", "uninstall"]

#: The handles 0 and 1 are the default stream, and 2 is that of each thread, which a graph can capture.
_DEFAULT_STREAMS = 1

_cupy_error = cupy.cuda.memory.OutOfMemoryError


class CupyOutOfMemoryError(OutOfMemoryError, _cupy_error):  # type: ignore[misc,valid-type]
    """No memory is left. It is an error of gpucache and one of CuPy."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self._text = text

    def __str__(self) -> str:
        return self._text


def _owns(stream: Any) -> bool:
    """Whether CuPy made the stream, and destroys it with this object."""
    return isinstance(stream, cupy.cuda.Stream) and getattr(stream, "_foreign_stream_ref", None) is None


def allocate(nbytes: int) -> Any:
    """Allocates memory on the current device for the current stream: an allocator for ``cupy.cuda.set_allocator``.

    For a part of a program: ``with cupy.cuda.using_allocator(gpucache.cupy.allocate):``.
    """
    device, stream = cupy.cuda.device.get_device_id(), cupy.cuda.get_current_stream()
    # The default streams are never captured, and the driver refuses the question while another stream is.
    if stream.ptr > _DEFAULT_STREAMS and stream.is_capturing():
        raise NotSupportedError(
            "an array is allocated while CuPy captures a CUDA graph: later launches of the graph would use memory that others "
            "have by then. Allocate all arrays before begin_capture(), and write into them by `out=`"
        )
    _memory.keep_stream(device, stream.ptr, stream, _owns(stream))
    try:
        owner = Owned(nbytes, device, stream.ptr)
    except OutOfMemoryError as error:
        raise CupyOutOfMemoryError(str(error)) from None
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(owner.address, nbytes, owner, device), 0)


def _begin_capture(stream: Any, *args: Any, **kwargs: Any) -> Any:
    """As CuPy's. Until the end of the capture, gpucache makes no call that would end it."""
    _gpucache.capture_begins()
    try:
        result = _begin(stream, *args, **kwargs)
    except BaseException:
        _gpucache.capture_ends()
        raise
    _captured.add(stream.ptr)
    return result


def _end_capture(stream: Any, *args: Any, **kwargs: Any) -> Any:
    """As CuPy's. A capture is over also if its end fails."""
    try:
        return _end(stream, *args, **kwargs)
    finally:
        if stream.ptr in _captured:
            _captured.discard(stream.ptr)
            _gpucache.capture_ends()


_Stream = cupy.cuda.stream._BaseStream
_begin, _end = _Stream.begin_capture, _Stream.end_capture

#: The handles of the streams whose captures are announced.
_captured: set[int] = set()


def install() -> None:
    """Has CuPy allocate from gpucache, in all threads. Arrays that exist stay where they are."""
    _Stream.begin_capture, _Stream.end_capture = _begin_capture, _end_capture
    cupy.cuda.set_allocator(allocate)


def uninstall() -> None:
    """Has CuPy allocate from its own pool again. Arrays that exist stay where they are."""
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
