"""Checks arguments, so that an error names the argument and says what to pass."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

_DEVICE = "the number of a GPU, counted from 0, or -1 for the host"
_LIMIT = 'a text such as "20GiB" or "80%", a number of bytes as an int, a share of the device as a float, or None'


def _integer(value: Any, name: str, meaning: str) -> int:
    # True is 1 to Python, and a mistake here.
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} is {meaning}, and {value!r} is no int: pass an int")
    return operator.index(value)


def device(value: SupportsIndex) -> int:
    """The number of a device."""
    number = _integer(value, "device", _DEVICE)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"device is {_DEVICE}, not {number}")
    return number


def count(value: SupportsIndex, name: str, meaning: str, least: int = 0) -> int:
    """A number that is not below ``least``, and fits in 64 bits."""
    number = _integer(value, name, meaning)
    if not least <= number < 1 << 64:
        raise ValueError(f"{name} is {meaning}, from {least} to 2**64 - 1, not {number}")
    return number


def stream(value: SupportsIndex) -> int:
    """The handle of a stream."""
    return count(value, "stream", "a handle of CUDA as a number (of PyTorch: stream.cuda_stream), or 0 for the default stream")


def limit(value: str | int | float | None) -> str:
    """The text of a limit. A float is a share of the device."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"limit is {_LIMIT}, not {value!r}")
    if isinstance(value, float):
        # Not a number is in no range.
        if not 0.0 <= value <= 1.0:
            raise ValueError(
                f"limit is {value}, and a float is a share of the device between 0.0 and 1.0: "
                "pass such a share, or an int for a number of bytes"
            )
        return f"{value * 100:.7f}%"
    if isinstance(value, int) and value < 0:
        raise ValueError(f"limit is {value}, and an int is a number of bytes: pass 0 or more, or None for no limit")
    return str(value)
