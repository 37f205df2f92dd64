"""Checks arguments, so that an error names the argument and says what to pass."""

from __future__ import annotations

import operator
import os
from typing import Any, SupportsIndex

_DEVICE = "the number of a GPU, counted from 0, or -1 for the host"
_LIMIT = 'a text such as "20GiB" or "80%", a number of bytes as an int, a share of the device as a float, or None'

#: What Python's own ``open`` takes, without numbers of open files.
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class _Unset:
    def __repr__(self) -> str:
        return "unset"


#: The default of an argument that a call may omit to leave something as it is, where ``None`` has a meaning of its own.
UNSET: Any = _Unset()


def _integer(value: Any, name: str, meaning: str) -> int:
    # True is 1 to Python, and a mistake here.
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} is {meaning}, and {value!r} is no int: pass an int")


def _shown(number: int) -> str:
    # Python refuses to write numbers of more than some thousand digits.
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


def device(value: SupportsIndex) -> int:
    """The number of a device."""
    number = _integer(value, "device", _DEVICE)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"device is {_DEVICE}, not {_shown(number)}")
    return number


def count(value: SupportsIndex, name: str, meaning: str, least: int = 0) -> int:
    """A number that is not below ``least``, and fits in 64 bits."""
    number = _integer(value, name, meaning)
    if not least <= number < 1 << 64:
        raise ValueError(f"{name} is {meaning}, from {least} to 2**64 - 1, not {_shown(number)}")
    return number


def stream(value: SupportsIndex) -> int:
    """The handle of a stream."""
    return count(value, "stream", "a handle of CUDA as a number (of PyTorch: stream.cuda_stream), or 0 for the default stream")


def flag(value: bool, name: str, meaning: str) -> bool:
    """Whether something is on. numpy has a class of its own for this."""
    if isinstance(value, bool) or (type(value).__module__, type(value).__name__) in (("numpy", "bool"), ("numpy", "bool_")):
        return bool(value)
    raise TypeError(f"{name} is whether {meaning}, and {value!r} is no bool: pass True or False")


def text(value: str, name: str, meaning: str) -> str:
    """A text that UTF-8 can express."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {meaning}, and {value!r} is no str: pass a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} is {meaning}, and {value!r} has surrogates, which UTF-8 cannot express: pass a text without them"
        ) from None
    return value


def scope_name(value: str, name: str = "name") -> str:
    """The name of a scope."""
    return text(value, name, "the name of a scope")


def path(value: Path, name: str = "path") -> str:
    """The path of a file."""
    try:
        decoded = os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{name} is the path of a file, and {value!r} is none: pass a str, bytes or os.PathLike") from None
    if "\0" in decoded:
        raise ValueError(f"{name} is the path of a file, and {value!r} has a null character, which no path can have: remove it")
    return decoded


def limit(value: str | SupportsIndex | float | None) -> str:
    """The text of a limit. A float is a share of the device."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return text(value, "limit", _LIMIT)
    if isinstance(value, float):
        # Not a number is in no range.
        if not 0.0 <= value <= 1.0:
            raise ValueError(
                f"limit is {value}, and a float is a share of the device between 0.0 and 1.0: "
                "pass such a share, or an int for a number of bytes"
            )
        # The sign of -0.0 would be in the text.
        return f"{abs(value) * 100:.7f}%"
    try:
        number = _integer(value, "limit", _LIMIT)
    except TypeError:
        raise TypeError(f"limit is {_LIMIT}, not {value!r}") from None
    if not 0 <= number < 1 << 64:
        raise ValueError(
            f"limit is {_shown(number)}, and an int is a number of bytes below 2**64: pass 0 or more, or None for no limit"
        )
    return str(number)
