"""Traces: each allocation of a part of a program, and the files that show them."""

from __future__ import annotations

import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING

from . import _arguments, _gpucache
from ._arguments import Path
from ._errors import Error

if TYPE_CHECKING:
    from ._gpucache import Run

#: A step of a training has some thousand events of about 50 bytes each.
_EVENTS = 1_000_000


class _Process:
    """The trace of the process that is on. A trace that the program has dropped is not."""

    def __init__(self) -> None:
        # A handler of a signal may start or stop a trace while its thread does.
        self._lock = threading.RLock()
        self._on: weakref.ref[trace] | None = None

    def start(self, begun: trace, events: int) -> None:
        with self._lock:
            if self._on is not None and self._on() is not None:
                raise Error("another trace is on, and a process has one at a time: end that trace before you start this one")
            _gpucache.trace_start(events)
            self._on = weakref.ref(begun)

    def stop(self, ended: trace) -> Run:
        with self._lock:
            if self._on is None or self._on() is not ended:
                raise Error("this trace is not on: call start() before stop(), or use it as `with gpucache.trace() as run:`")
            self._on = None
            return _gpucache.trace_stop()


_process = _Process()


class trace:  # noqa: N801
    """Records each allocation of a block and its free, in all threads.

    The trace leaves out blocks from before the trace, and their frees.

    ``events`` is the most that each thread keeps; the trace counts the others in ``lost``. A process has one trace at a time. A
    file that cannot be written is an ``OSError``.

    >>> import gpucache, tempfile, pathlib
    >>> with gpucache.trace() as run:
    ...     with gpucache.scope("traced"):
    ...         buffer = gpucache.allocate(4096, device=-1)
    ...         del buffer
    >>> run.allocations, run.frees, run.lost
    (1, 1, 0)
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> run.page(folder / "run.html")  # for a browser
    >>> run.snapshot(folder / "run.pickle")  # for pytorch.org/memory_viz
    >>> sorted(path.name for path in folder.iterdir())
    ['run.html', 'run.pickle']
    """

    def __init__(self, events: int = _EVENTS) -> None:
        self._events = _arguments.count(events, "events", "the number of events that each thread keeps", least=1)
        self._run: Run | None = None

    @staticmethod
    def read(path: Path) -> trace:
        """Reads a file that ``GPUCACHE_TRACE`` or :meth:`csv` wrote. A file that cannot be read is an ``OSError``."""
        return _read(_arguments.path(path))

    def start(self) -> None:
        """Begins the trace. It ends with :meth:`stop`. While another trace is on, this is an error."""
        _process.start(self, self._events)
        self._run = None

    def stop(self) -> None:
        """Ends the trace. Without :meth:`start`, this is an error."""
        self._run = _process.stop(self)

    def __enter__(self) -> trace:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    @property
    def _ended(self) -> Run:
        if self._run is None:
            raise Error("this trace has not ended: leave its `with` block, or call stop(), before you read it")
        return self._run

    def __len__(self) -> int:
        return len(self._ended)

    def __bool__(self) -> bool:
        # Without this, Python would ask for the length, which a trace has only after its end.
        return True

    @property
    def allocations(self) -> int:
        """How many allocations it has."""
        return self._ended.allocations

    @property
    def frees(self) -> int:
        """How many frees it has."""
        return self._ended.frees

    @property
    def lost(self) -> int:
        """How many events it had no room for."""
        return self._ended.lost

    def page(self, path: Path, name: str = "gpucache") -> None:
        """Writes a report page for a browser: memory over time, each block at its address, what a lower limit would mean."""
        self._ended.write_page(_arguments.path(path), _arguments.text(name, "name", "the title of the page"))

    def snapshot(self, path: Path) -> None:
        """Writes a snapshot for PyTorch's viewer, pytorch.org/memory_viz."""
        self._ended.write_snapshot(_arguments.path(path))

    def perfetto(self, path: Path) -> None:
        """Writes a file for ui.perfetto.dev."""
        self._ended.write_perfetto(_arguments.path(path))

    def csv(self, path: Path) -> None:
        """Writes all events as text."""
        self._ended.write_csv(_arguments.path(path))


def _read(path: str) -> trace:
    read = trace()
    read._run = _gpucache.trace_read(path)
    return read


def page(run: trace | Path, path: Path) -> None:
    """Writes the report page of a trace, or of the file of a trace."""
    (run if isinstance(run, trace) else _read(_arguments.path(run, "run"))).page(path)


def snapshot(run: trace | Path, path: Path) -> None:
    """Writes the snapshot of a trace, or of the file of a trace, for pytorch.org/memory_viz."""
    (run if isinstance(run, trace) else _read(_arguments.path(run, "run"))).snapshot(path)
