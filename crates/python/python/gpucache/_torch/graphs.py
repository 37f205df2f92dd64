"""Captures of CUDA graphs that fail, or that change their pool on the way."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import _gpucache
from .._errors import Error
from .patch import Patches

_Pools = list[tuple[int, tuple[int, int]]]


def _abandon(pools: Iterable[tuple[int, tuple[int, int]]]) -> None:
    """Ends pools, which PyTorch does not do if a capture fails."""
    for device, name in pools:
        # PyTorch may have ended it before the failure.
        with contextlib.suppress(Error):
            _gpucache.pool_end(device, name)
            _gpucache.pool_release(device, name)


def _new(before: _Pools) -> _Pools:
    return [pool for pool in _gpucache.open_pools() if pool not in before]


def _captures(stream: Any) -> bool:
    """Whether a graph is still captured on the stream. A capture that failed is over."""
    with torch.cuda.stream(stream), contextlib.suppress(RuntimeError):
        return bool(torch.cuda.is_current_stream_capturing())
    return False


def _beginning(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
        before = _gpucache.open_pools()
        try:
            result = call(graph, *args, **kwargs)
        except BaseException:
            _abandon(_new(before))
            raise
        graph._gpucache_capture = torch.cuda.current_stream(), _new(before)
        return result

    return begin


def _ending(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def end(graph: Any, *args: Any, **kwargs: Any) -> Any:
        stream, pools = getattr(graph, "_gpucache_capture", (None, []))
        try:
            return call(graph, *args, **kwargs)
        except BaseException:
            # PyTorch refuses to end it on another stream than that of its begin. It goes on then.
            if pools and not _captures(stream):
                _abandon(pools)
            raise

    return end


def _going_on(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def go_on(*args: Any, **kwargs: Any) -> Any:
        # PyTorch ends the pool and begins it again within the capture.
        _gpucache.capture_begins()
        try:
            return call(*args, **kwargs)
        finally:
            _gpucache.capture_ends()

    return go_on


def patch(patches: Patches) -> None:
    """Ends the pools of a capture that fails. Otherwise the process would count as one that captures, for ever."""
    graph = torch.cuda.CUDAGraph
    patches.replace(graph, "capture_begin", _beginning(graph.capture_begin))
    patches.replace(graph, "capture_end", _ending(graph.capture_end))
    for name in ("begin_capture_to_if_node", "begin_capture_to_while_loop_node", "end_capture_to_conditional_node"):
        patches.replace(graph, name, _going_on(getattr(graph, name, graph.capture_end)))
