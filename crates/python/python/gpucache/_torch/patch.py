"""Replaces functions of PyTorch, and remembers the originals."""

from __future__ import annotations

from typing import Any


class Patches:
    """The functions that were replaced, so that tests can put them back."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._originals)

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """Replaces an attribute. A name that this version of PyTorch lacks needs no replacement."""
        if hasattr(owner, name):
            self._originals.append((owner, name, getattr(owner, name)))
            setattr(owner, name, new)

    def undo(self) -> None:
        """Puts all originals back. PyTorch keeps its allocator, so only tests call this."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)
