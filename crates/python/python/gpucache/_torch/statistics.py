"""Statistics with PyTorch's names.

PyTorch's Python functions (``memory_allocated``, ``memory_summary``, ..) ask functions of ``torch._C``, which throw for an allocator
that is not PyTorch's own. Those are replaced. So all names work, also where a program imported them before.

gpucache has one pool, which is told as ``large_pool``; ``small_pool`` is 0. It has no segments and no split blocks: these are 0.
What is not counted is 0 too, as PyTorch does for ``cudaMallocAsync``: the peak of the number of allocations, all bytes that were ever
reserved, and ``num_sync_all_streams``. Each allocation that runs out counts in ``num_ooms``. gpucache retries within one call of malloc, so
``num_alloc_retries`` is 0. Calls that map pages count in ``num_device_alloc``, and calls that unmap pages in ``num_device_free``.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _gpucache
from .patch import Patches

#: Figures at the last reset_accumulated_memory_stats, by device.
_accumulated_before: dict[int, dict[str, int]] = {}

#: Fractions that were set, by device.
_fractions: dict[int, float] = {}


def _check(device: int) -> None:
    """Refuses a number without a device, as PyTorch does."""
    count = torch.cuda.device_count()
    if not 0 <= device < count:
        raise RuntimeError(f"Invalid device argument {device}: devices are numbered from 0, and PyTorch finds {count}")


def used(device: int) -> dict[str, int]:
    """The memory of a device. All 0 where PyTorch has allocated nothing, without a context there."""
    if device not in _gpucache.torch_used_devices():
        return {}
    return dict(_gpucache.device_stats(device))


def _figure(current: int, peak: int = 0, allocated: int = 0, freed: int = 0) -> dict[str, dict[str, int]]:
    whole = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
    return {"all": whole, "small_pool": dict.fromkeys(whole, 0), "large_pool": dict(whole)}


def memory_stats(device: int) -> dict[str, Any]:
    """As ``torch._C._cuda_memoryStats``, with what is only gpucache's under ``gpucache``."""
    _check(device)
    now = used(device)
    before = _accumulated_before.get(device, {})

    def value(name: str) -> int:
        return now.get(name, 0)

    def since(name: str) -> int:
        return value(name) - before.get(name, 0)

    live = _figure(value("live_blocks"), 0, since("allocations"), since("frees"))
    in_use = _figure(
        value("allocated_bytes"),
        value("peak_allocated_bytes"),
        since("total_allocated_bytes"),
        since("total_freed_bytes"),
    )
    nothing = _figure(0)
    return {
        "num_alloc_retries": 0,
        "num_ooms": since("out_of_memory"),
        "num_sync_all_streams": 0,
        "num_device_alloc": since("device_allocations"),
        "num_device_free": since("device_frees"),
        "max_split_size": -1,
        "allocation": live,
        "active": live,
        "segment": nothing,
        "inactive_split": nothing,
        "allocated_bytes": in_use,
        "requested_bytes": in_use,
        "active_bytes": in_use,
        "reserved_bytes": _figure(value("reserved_bytes"), value("peak_reserved_bytes")),
        "inactive_split_bytes": nothing,
        "oversize_allocations": nothing["all"],
        "oversize_segments": nothing["all"],
        "gpucache": {"device_calls": since("device_calls")},
    }


def reset_peaks(device: int) -> None:
    """As ``torch._C._cuda_resetPeakMemoryStats``."""
    _check(device)
    if device in _gpucache.torch_used_devices():
        _gpucache.reset_peaks(device)


def reset_accumulated(device: int) -> None:
    """As ``torch._C._cuda_resetAccumulatedMemoryStats``."""
    _check(device)
    _accumulated_before[device] = used(device)


def set_fraction(fraction: float, device: int) -> None:
    """As ``torch._C._cuda_setMemoryFraction``."""
    _check(device)
    _gpucache.set_limit(device, "none" if fraction >= 1.0 else f"{fraction * 100:.7f}%")
    _fractions[device] = fraction


def fraction(device: int) -> float:
    """As ``torch._C._cuda_getMemoryFraction``."""
    _check(device)
    return _fractions.get(device, 1.0)


def patch(patches: Patches) -> None:
    """Replaces PyTorch's functions."""
    c = torch._C
    patches.replace(c, "_cuda_memoryStats", memory_stats)
    patches.replace(c, "_cuda_resetPeakMemoryStats", reset_peaks)
    patches.replace(c, "_cuda_resetAccumulatedMemoryStats", reset_accumulated)
    patches.replace(c, "_cuda_setMemoryFraction", set_fraction)
    patches.replace(c, "_cuda_getMemoryFraction", fraction)
    # The same for torch.accelerator, which is CUDA here.
    patches.replace(c, "_accelerator_isAllocatorInitialized", lambda: True)
    patches.replace(c, "_accelerator_getDeviceStats", memory_stats)
    patches.replace(c, "_accelerator_resetPeakStats", reset_peaks)
    patches.replace(c, "_accelerator_resetAccumulatedStats", reset_accumulated)
