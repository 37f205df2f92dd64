"""Statistics and diagnosis, as objects that are also dictionaries."""

from __future__ import annotations

import json
from typing import Any

from . import _arguments, _gpucache


class Stats(dict[str, Any]):
    """Figures by name. ``stats.hits`` is the same as ``stats["hits"]``, also in its parts. ``str(stats)`` is a table."""

    __slots__ = ("_text",)

    def __init__(self, *args: Any, text: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._text = text

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no figure {name!r} here: there are {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __str__(self) -> str:
        return self._text if self._text is not None else super().__repr__()


def _parsed(data: str, text: str | None) -> Stats:
    return Stats(json.loads(data, object_hook=Stats), text=text)


def stats(name: str | None = None) -> Stats | None:
    """The statistics of a scope, or of the whole process. ``None`` if there is no scope of this name.

    Of a scope: ``entries``, ``hits``, ``recycled``, ``misses``, ``busy_bytes``, ``idle_bytes``, ``high_water_bytes``,
    ``served``, ``plan`` and more. Of the process: ``devices`` and ``scopes``.

    Each of ``devices`` has a ``device``, the number that the functions of this package take: -1 is the host, and a number from
    0 is a GPU. ``trace_device`` is its number in the files of traces. ``device`` is ``None`` for a device of Rust code, which
    no function takes.

    >>> import gpucache
    >>> with gpucache.scope("stats_example"):
    ...     buffer = gpucache.allocate(4096, device=-1)
    >>> stats = gpucache.stats("stats_example")
    >>> stats.entries, stats.busy_bytes, stats["hits"] + stats["recycled"] + stats["misses"]
    (1, 4096, 1)
    >>> -1 in [used.device for used in gpucache.stats().devices]
    True
    """
    if name is None:
        fields, table, numbers = _gpucache.process_stats()
        process = _parsed(fields, table)
        for used, number in zip(process.devices, numbers, strict=True):
            used.update(device=number, trace_device=used.device)
        return process
    data = _gpucache.scope_stats(_arguments.scope_name(name))
    return None if data is None else _parsed(data, _gpucache.scope_text(name))


def device_stats(device: int = 0) -> Stats:
    """The memory of one device, -1 for the host. Only memory that Python's libraries allocate by gpucache counts as allocated.

    The numbers of devices are those in :func:`stats`.

    >>> import gpucache
    >>> before = gpucache.device_stats(-1)
    >>> buffer = gpucache.allocate(4096, device=-1)
    >>> gpucache.device_stats(-1).allocated_bytes - before.allocated_bytes
    4096
    """
    return Stats(_gpucache.device_stats(_arguments.device(device)))


def reset_peaks(device: int | None = None, *, scope: str | None = None) -> None:
    """Sets the peaks of a device, or of a scope, to the bytes that are in use now.

    Without arguments it is device 0. A name without a scope changes nothing.

    >>> import gpucache
    >>> gpucache.reset_peaks(-1)
    >>> used = gpucache.device_stats(-1)
    >>> used.peak_allocated_bytes == used.allocated_bytes
    True
    """
    number = None if device is None else _arguments.device(device)
    name = None if scope is None else _arguments.scope_name(scope, "scope")
    if name is not None:
        _gpucache.reset_scope_peaks(name)
    if number is not None or name is None:
        _gpucache.reset_peaks(number or 0)


def report() -> str:
    """The statistics of all devices and scopes, as a table for people.

    Devices are numbered in the order of their first use, as in traces (``trace_device`` in :func:`stats`).

    >>> import gpucache
    >>> print(gpucache.report())  # doctest: +ELLIPSIS
    device...
    """
    return _gpucache.process_stats()[1]


def diagnose(name: str) -> Stats | None:
    """Why a scope is not planned, or holds more memory than it needs. ``None`` if there is no scope of this name.

    The result has ``is_healthy``, ``is_early`` (too few entries to tell) and ``findings``. Each finding has its ``cause``,
    ``reason`` and ``remedy``. ``str`` gives all of it as a text.

    >>> import gpucache
    >>> with gpucache.scope("diagnosed"):
    ...     pass
    >>> gpucache.diagnose("diagnosed").is_early
    True
    """
    data = _gpucache.diagnose(_arguments.scope_name(name))
    if data is None:
        return None
    found = _parsed(data, None)
    return Stats(found, text=found.pop("text"))


def scopes() -> list[str]:
    """The names of all scopes.

    >>> import gpucache
    >>> with gpucache.scope("listed"):
    ...     pass
    >>> "listed" in gpucache.scopes()
    True
    """
    return _gpucache.scope_names()
