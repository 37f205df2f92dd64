"""gpucache reuses GPU memory in work that repeats, such as training steps.

>>> import gpucache
>>> for step in range(10):
...     with gpucache.scope("step"):
...         buffer = gpucache.allocate(1 << 20, device=-1)  # -1 is the host; a number from 0 is a GPU
...         del buffer
>>> stats = gpucache.stats("step")
>>> stats.entries, stats.hits
(10, 9)

With PyTorch, call :func:`gpucache.torch.install` before the first use of CUDA. All tensors then come from gpucache::

    import gpucache.torch
    gpucache.torch.install()

    for batch in batches:
        with gpucache.scope("train_step"):
            train(model, batch)

=================== ==========================================================================
module              for
=================== ==========================================================================
``gpucache.torch``  PyTorch
``gpucache.cupy``   CuPy
``gpucache.numba``  Numba
``gpucache.warp``   Warp
``gpucache.rmm``    RMM, and with it cuDF and cuML
=================== ==========================================================================
"""

import importlib as _importlib
from typing import Any as _Any

from ._errors import Error, NotSupportedError, OutOfMemoryError
from ._gpucache import Owned
from ._memory import allocate, base_address, invalidate, record_stream, set_limit, stream_ends, trim
from ._scopes import scope, set_auto_scope, uncached
from ._stats import Stats, device_stats, diagnose, report, reset_peaks, scopes, stats
from ._trace import page, snapshot, trace

__all__ = [
    "Error",
    "NotSupportedError",
    "OutOfMemoryError",
    "Owned",
    "Stats",
    "allocate",
    "base_address",
    "device_stats",
    "diagnose",
    "invalidate",
    "page",
    "record_stream",
    "report",
    "reset_peaks",
    "scope",
    "scopes",
    "set_auto_scope",
    "set_limit",
    "snapshot",
    "stats",
    "stream_ends",
    "trace",
    "trim",
    "uncached",
]

#: Of the package's metadata, which is read at the first use: that takes some milliseconds.
__version__: str

#: Each needs a library that may be missing, so it is imported at its first use.
_FOR_LIBRARIES = ("cupy", "numba", "rmm", "torch", "warp")


def __getattr__(name: str) -> _Any:
    if name in _FOR_LIBRARIES:
        try:
            return _importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            # So that hasattr() is False. `import gpucache.torch` raises the error itself.
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r} here, since a module that it needs is not installed: {error}. Install that "
                "module first"
            ) from error
    if name == "__version__":
        return _importlib.import_module("importlib.metadata").version("gpucache")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
