"""The exceptions of gpucache. The compiled part raises them too."""


class Error(RuntimeError):
    """A call of gpucache failed. The text says what happened, why, and what to do.

    >>> import gpucache
    >>> try:
    ...     gpucache.set_limit("a lot", device=-1)
    ... except gpucache.Error as error:
    ...     print("a lot" in str(error))
    True
    """


class OutOfMemoryError(Error, MemoryError):
    """No memory is left on a device, or within a limit.

    It is also a ``MemoryError``. PyTorch raises its own ``torch.OutOfMemoryError`` instead, with the same report.

    >>> import gpucache
    >>> issubclass(gpucache.OutOfMemoryError, MemoryError)
    True
    """


class NotSupportedError(Error, NotImplementedError):
    """Something cannot work together with gpucache. The text names it, and what to do instead."""
