"""Memory itself, for libraries and for tests. Frameworks allocate by themselves once their part is installed."""

from __future__ import annotations

import itertools
import sys
import threading
from typing import Any, SupportsIndex

from . import _arguments, _gpucache
from ._errors import Error
from ._gpucache import Owned

#: The streams that got memory, by device and handle, each with whether its object owns it. Their memory may wait for an event on them later,
#: and the driver ends a process that passes it the handle of a destroyed stream.
_kept_streams: dict[tuple[int, int], tuple[Any, bool]] = {}

#: Held while these change. An object that goes away meanwhile may call `stream_ends` on the same thread.
_streams_lock = threading.RLock()

#: With each new stream, so many older ones are looked at, in turn.
_LOOKS = 2

#: The highest handle of a default stream.
_LAST_DEFAULT = 2

_MEMORY = "what gpucache.allocate() returned, or an address as a number"


def checked(bytes: int, device: int, stream: int) -> tuple[int, int, int]:
    """The arguments of an allocation, as ints of their ranges."""
    return _arguments.count(bytes, "bytes", "a number of bytes"), _arguments.device(device), _arguments.stream(stream)


def allocate(bytes: int, *, device: int = 0, stream: int = 0) -> Owned:
    """Allocates memory, which is freed with the returned object. It has ``address`` and ``bytes``.

    ``device`` is a GPU's number, or -1 for the host. ``stream`` is a handle of CUDA as a number, 0 for the default stream.
    Later work of that stream may get the memory as soon as the object is gone.

    >>> import gpucache
    >>> buffer = gpucache.allocate(1 << 20, device=-1)
    >>> buffer.bytes
    1048576
    """
    return Owned(*checked(bytes, device, stream))


def record_stream(memory: Owned | int, stream: int) -> None:
    """Notes that work on another stream uses memory. Its next user waits for the work that is on that stream when it is freed.

    ``memory`` is what :func:`allocate` returned, or an address in an allocation. ``stream`` 0 is the default stream of the memory's own
    device. Any other stream must live until the process ends, or until :func:`stream_ends` is called for it.
    """
    address = memory.address if isinstance(memory, Owned) else _arguments.count(memory, "memory", _MEMORY)
    handle = _arguments.stream(stream)
    try:
        _gpucache.record_stream(address, handle)
    except Error:
        # A view of an array may begin behind the array's memory.
        begin, _ = _gpucache.base_address(address) or (address, 0)
        if begin == address:
            raise
        _gpucache.record_stream(begin, handle)


def stream_ends(device: int, stream: int) -> None:
    """Tells gpucache that a stream is about to be destroyed. ``stream`` is its handle as a number.

    Call it before the owner of a stream destroys it, if memory was allocated for that stream or recorded on it. Otherwise the driver may end
    the process: gpucache passes the handle to it when other work needs the memory.

    Streams that CuPy or Warp made and that got memory need no call: gpucache keeps them, and lets go of those that nobody else has.
    Those that were only recorded do. After this call gpucache keeps the stream no longer.

    >>> import gpucache
    >>> gpucache.stream_ends(-1, 0)  # the host's stream never ends, so this does nothing
    """
    number, handle = _arguments.device(device), _arguments.stream(stream)
    _gpucache.stream_ends(number, handle)
    with _streams_lock:
        kept = _kept_streams.pop((number, handle), None)
    # The stream may go with it.
    del kept


def keep_stream(device: int, handle: int, stream: Any, owns: bool) -> None:
    """Keeps a library's object of a stream that gets memory. If it ``owns`` the stream, the stream is destroyed with it."""
    # The handles 0 and 1 are the default stream, and 2 is that of each thread. Nobody destroys these.
    if handle <= _LAST_DEFAULT:
        return
    known = _kept_streams.get((device, handle))
    if known is None or (owns and not known[1]):
        with _streams_lock:
            _kept_streams[device, handle] = stream, owns
            unused = _take_unused()
        for place, _ in unused:
            _gpucache.stream_ends(*place)


def _references(kept: tuple[Any, bool]) -> int:
    return sys.getrefcount(kept[0])


#: The references to an object that only a kept pair has.
_ALONE = _references((object(), True))


def _take_unused() -> list[tuple[tuple[int, int], tuple[Any, bool]]]:
    """Takes out some streams that nobody else has. No work can come to them any more. Otherwise a stream for each task would pile up."""
    unused = []
    for place in list(itertools.islice(_kept_streams, _LOOKS)):
        kept = _kept_streams.pop(place)
        if kept[1] and _references(kept) <= _ALONE:
            unused.append((place, kept))
        else:
            # The last one to be looked at next.
            _kept_streams[place] = kept
    return unused


def base_address(address: int) -> tuple[int, int] | None:
    """The begin and the bytes of the allocation that contains an address. ``None`` if gpucache has none there.

    >>> import gpucache
    >>> buffer = gpucache.allocate(4096, device=-1)
    >>> gpucache.base_address(buffer.address + 100) == (buffer.address, 4096)
    True
    """
    return _gpucache.base_address(_arguments.count(address, "address", "an address as a number"))


def trim(device: int = 0) -> int:
    """Gives idle memory back to a device, for other processes. Returns the number of bytes.

    Memory of scopes that another thread is inside stays. Each thread that allocated outside of scopes is inside the scope ``auto`` until it
    ends. ``gpucache.invalidate()`` frees that memory too: each of these threads gives it back at its next allocation or free, or when it ends.

    >>> import gpucache
    >>> gpucache.trim(-1) >= 0
    True
    """
    return _gpucache.trim(_arguments.device(device))


def invalidate(name: str | None = None) -> int:
    """Frees the memory of a scope, or of all scopes. What is in use stays valid. Returns the number of bytes.

    A name that no scope has frees 0 bytes. The first call with such a name prints a line on stderr.

    Call it between phases, such as before an evaluation with other sizes.

    >>> import gpucache
    >>> with gpucache.scope("phase"):
    ...     buffer = gpucache.allocate(4096, device=-1)
    ...     del buffer
    >>> gpucache.invalidate("phase")
    4096
    """
    return _gpucache.invalidate(None if name is None else _arguments.scope_name(name))


def set_limit(limit: str | SupportsIndex | float | None, *, device: int = 0) -> None:
    """Limits how much memory the process reserves on a device: ``"20GiB"``, bytes as an int, ``"80%"``, or a share as a float.

    ``"soft 20GiB"`` and ``"soft 80%"`` are soft limits, which refuse nothing: idle memory goes back first, and then the process reserves
    more. A device may have one hard and one soft limit. ``None`` or ``"none"`` removes both, also those of ``GPUCACHE_LIMIT``.

    >>> import gpucache
    >>> gpucache.set_limit("1GiB", device=-1)
    >>> gpucache.set_limit(None, device=-1)
    """
    _gpucache.set_limit(_arguments.device(device), _arguments.limit(limit))
