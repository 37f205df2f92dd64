"""Captures of CUDA graphs that fail. PyTorch then does not end the pool of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import _gpucache
from .patch import Patches


def _abandoning(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except BaseException:
            _gpucache.pools_abandon()
            raise

    return checked


def patch(patches: Patches) -> None:
    """Ends the pools of a capture that fails. Otherwise the process would count as one that captures, for ever."""
    graph = torch.cuda.CUDAGraph
    for name in ("capture_begin", "capture_end"):
        patches.replace(graph, name, _abandoning(getattr(graph, name)))
