"""Memory itself, for libraries and for tests. Frameworks allocate by themselves once their part is installed."""

from __future__ import annotations

from . import _gpucache
from ._gpucache import Owned


def allocate(bytes: int, *, device: int = 0, stream: int = 0) -> Owned:
    """Allocates memory, which is freed with the returned object. It has ``address`` and ``bytes``.

    ``device`` is a GPU's number, or -1 for the host. ``stream`` is a handle of CUDA as a number, 0 for the default stream.
    Later work of that stream may get the memory as soon as the object is gone.

    >>> import gpucache
    >>> buffer = gpucache.allocate(1 << 20, device=-1)
    >>> buffer.bytes
    1048576
    """
    return Owned(bytes, device, stream)


def record_stream(memory: Owned | int, stream: int) -> None:
    """Notes that work on another stream uses memory. Its next user waits for the work that is on that stream when it is freed."""
    _gpucache.record_stream(memory if isinstance(memory, int) else memory.address, stream)


def base_address(address: int) -> tuple[int, int] | None:
    """The begin and the bytes of the allocation that contains an address. ``None`` if gpucache has none there.

    >>> import gpucache
    >>> buffer = gpucache.allocate(4096, device=-1)
    >>> gpucache.base_address(buffer.address + 100) == (buffer.address, 4096)
    True
    """
    return _gpucache.base_address(address)


def trim(device: int = 0) -> int:
    """Gives idle memory back to a device, for other processes. Returns the number of bytes.

    >>> import gpucache
    >>> gpucache.trim(-1) >= 0
    True
    """
    return _gpucache.trim(device)


def invalidate(name: str | None = None) -> int:
    """Frees the memory of a scope, or of all scopes. What is in use stays valid. Returns the number of bytes.

    Call it between phases, such as before an evaluation with other sizes.

    >>> import gpucache
    >>> with gpucache.scope("phase"):
    ...     buffer = gpucache.allocate(4096, device=-1)
    ...     del buffer
    >>> gpucache.invalidate("phase")
    4096
    """
    return _gpucache.invalidate(name)


def as_limit(limit: str | int | float | None) -> str:
    """The text of a limit. A float is a share of the device."""
    if limit is None:
        return "none"
    if isinstance(limit, bool) or not isinstance(limit, str | int | float):
        raise TypeError(f'a limit is a text such as "20GiB" or "80%", a number of bytes, a share such as 0.8, or None, not {limit!r}')
    if isinstance(limit, float):
        if not 0.0 <= limit <= 1.0:
            raise ValueError(f"a share of the device is between 0.0 and 1.0, not {limit}: write {int(limit)} for a number of bytes")
        return f"{limit * 100:.7f}%"
    if isinstance(limit, int) and limit < 0:
        raise ValueError(f"a limit is not negative: {limit}")
    return str(limit)


def set_limit(limit: str | int | float | None, *, device: int = 0) -> None:
    """Limits how much memory the process reserves on a device: ``"20GiB"``, ``"80%"``, bytes, a share as a float, or ``None``.

    >>> import gpucache
    >>> gpucache.set_limit("1GiB", device=-1)
    >>> gpucache.set_limit(None, device=-1)
    """
    _gpucache.set_limit(device, as_limit(limit))
