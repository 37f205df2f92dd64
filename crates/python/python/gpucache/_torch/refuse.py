"""What cannot work with an allocator that is not PyTorch's own. Each refusal names the remedy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from .._errors import NotSupportedError
from .patch import Patches

#: Modes of torch.compile that capture graphs whose memory PyTorch saves and restores.
_GRAPH_MODES = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}


def cudnn_benchmark() -> NotSupportedError:
    """The refusal of ``torch.backends.cudnn.benchmark = True``."""
    return NotSupportedError(
        "torch.backends.cudnn.benchmark = True does not work with gpucache: PyTorch asks its own allocator for the largest free "
        "block then, and fails with any other allocator. Leave it False: cuDNN then chooses by its rules instead of by measuring"
    )


def _refuses(what: str, remedy: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise NotSupportedError(f"{what} does not work with gpucache. {remedy}")

    return refused


_TRACE = "Use `with gpucache.trace() as run:` and then run.snapshot(path), whose file pytorch.org/memory_viz shows, or run.page(path)"


def _checked_setter(setter: Callable[[bool], None]) -> Callable[[bool], None]:
    def checked(value: bool) -> None:
        if value:
            raise cudnn_benchmark()
        setter(value)

    return checked


def _checked_compile(compile: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compile)
    def checked(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        mode, options = kwargs.get("mode"), kwargs.get("options") or {}
        wants_graphs = options.get("triton.cudagraphs") if isinstance(options, dict) else False
        if mode in _GRAPH_MODES or wants_graphs:
            named = f"mode={mode!r}" if mode in _GRAPH_MODES else 'options={"triton.cudagraphs": True}'
            other = _GRAPH_MODES.get(str(mode), "default")
            raise NotSupportedError(
                f"torch.compile({named}) does not work with gpucache: it saves and restores the memory of PyTorch's own allocator "
                f"between graphs. Use mode={other!r}, and torch.cuda.make_graphed_callables or torch.cuda.graph for graphs"
            )
        return compile(model, *args, **kwargs)

    return checked


def _patch_pools(patches: Patches) -> None:
    remedy = (
        "PyTorch divides pools only in its own allocator. Remove the pool: a scope reuses memory without one, and "
        "memory of `with gpucache.uncached():` goes back by gpucache.trim(). Users of pools have switches: leave out enable_sleep_mode in vLLM; "
        "symmetric memory, FSDP2's and NCCL's registered buffers need a program without gpucache.torch.install()"
    )
    patches.replace(torch.cuda.MemPool, "__init__", _refuses("torch.cuda.MemPool", remedy))


def _patch_history(patches: Patches) -> None:
    c = torch._C
    for name in ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy"):
        patches.replace(c, name, _refuses("torch.cuda.memory._record_memory_history", _TRACE))
    snapshot = "torch.cuda.memory_snapshot, as well as torch.cuda.memory._snapshot,"
    patches.replace(c, "_cuda_memorySnapshot", _refuses(snapshot, _TRACE))
    observer = "Catch torch.OutOfMemoryError instead: its text has the report"
    patches.replace(c, "_cuda_attach_out_of_memory_observer", _refuses("an observer of out of memory", observer))


def _patch_benchmark(patches: Patches) -> None:
    patches.replace(torch._C, "_set_cudnn_benchmark", _checked_setter(torch._C._set_cudnn_benchmark))
    # The property of the module has the setter from before.
    benchmark = vars(type(torch.backends.cudnn)).get("benchmark")
    if benchmark is not None:
        patches.replace(benchmark, "setter", _checked_setter(benchmark.setter))


def _patch_compile(patches: Patches) -> None:
    patches.replace(torch, "compile", _checked_compile(torch.compile))
    remedy = 'Use torch.compile without mode="reduce-overhead", and torch._inductor.config.triton.cudagraphs = False'
    saved = _refuses("torch.compile with CUDA graphs (cudagraph trees)", remedy)
    for name in ("_cuda_getCheckpointState", "_cuda_setCheckpointPoolState", "_cuda_checkPoolLiveAllocations"):
        patches.replace(torch._C, name, saved)


def _patch_handles(patches: Patches) -> None:
    remedy = (
        "The driver exports no memory that is mapped page by page. Share a tensor in host memory: tensor.cpu().share_memory_(). "
        "Or allocate it in a process without gpucache.torch.install()"
    )
    refused = _refuses("sharing a CUDA tensor with another process (torch.multiprocessing, IPC handles)", remedy)
    share = torch.UntypedStorage._share_cuda_

    def share_cuda(storage: Any, *args: Any, **kwargs: Any) -> Any:
        return refused() if storage.is_cuda else share(storage, *args, **kwargs)

    patches.replace(torch.UntypedStorage, "_share_cuda_", share_cuda)


def _checked_settings(set_settings: Callable[[str], Any]) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        # Those of pinned host memory, which stays PyTorch's own.
        if all(part.strip().startswith("pinned_") for part in text.split(",") if part.strip()):
            return set_settings(text)
        raise NotSupportedError(
            f"torch.cuda.memory._set_allocator_settings({text!r}) does not work with gpucache: the settings are those of PyTorch's own "
            "allocator. Limit memory by gpucache.set_limit(..), and leave out the others: gpucache needs none"
        )

    return checked


def _checked_enable(enable: Callable[[bool], None]) -> Callable[[bool], None]:
    def checked(value: bool = True) -> None:
        if not value:
            raise NotSupportedError(
                "torch.cuda.memory.caching_allocator_enable(False) does not work with gpucache. Use `with gpucache.uncached():`, "
                "and gpucache.set_auto_scope(False) for all code outside of scopes"
            )
        enable(value)

    return checked


def _patch_switches(patches: Patches) -> None:
    c = torch._C
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        if hasattr(c, name):
            patches.replace(c, name, _checked_settings(getattr(c, name)))
    if hasattr(c, "_cuda_cudaCachingAllocator_enable"):
        patches.replace(c, "_cuda_cudaCachingAllocator_enable", _checked_enable(c._cuda_cudaCachingAllocator_enable))
    remedy = "A process has one allocator for CUDA: install the other one in a process without gpucache.torch.install()"
    patches.replace(c, "_cuda_changeCurrentAllocator", _refuses("torch.cuda.memory.change_current_allocator", remedy))


def patch(patches: Patches) -> None:
    """Has these functions say what they cannot do, before PyTorch fails in a way that nobody understands."""
    _patch_pools(patches)
    _patch_history(patches)
    _patch_benchmark(patches)
    _patch_compile(patches)
    _patch_handles(patches)
    _patch_switches(patches)
