"""Scopes: as context managers and as decorators."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from . import _arguments, _gpucache
from ._errors import Error

if TYPE_CHECKING:
    from typing_extensions import Self

_F = TypeVar("_F", bound=Callable[..., Any])

#: Context managers that each entry of a scope opens too, such as that of ``gpucache.torch`` for backward passes.
around: list[Callable[[], contextlib.AbstractContextManager[Any]]] = []


class _Entries(threading.local):
    """The open entries of one thread: their numbers, and what was opened around some of them."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.around: dict[int, contextlib.ExitStack] = {}


class _Entered(_gpucache.Exit):
    """A place in the program that can be entered: a scope, or the outside of all scopes."""

    def __init__(self) -> None:
        self._entries = _Entries()

    def _enter(self, entries: list[int]) -> None:
        """Enters, and appends the number of the entry. Python runs no handler of a signal between the two."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        entries = self._entries
        before = len(entries.open)
        # Python runs handlers of signals in here. Their exceptions leave the thread outside.
        try:
            self._enter(entries.open)
            if around:
                stack = entries.around[entries.open[-1]] = contextlib.ExitStack()
                for opens in around:
                    stack.enter_context(opens())
        except BaseException:
            while len(entries.open) > before:
                self.__exit__()
            raise
        return self

    def _not_inside(self) -> Error:
        """The error of an exit on a thread that is not inside."""
        return Error(
            f"{self!r} is left on a thread that is not inside: leave it on the thread that entered it. "
            "A generator or a coroutine that is resumed on another thread needs the decorator instead of `with`."
        )

    def __call__(self, function: _F) -> _F:
        """Makes each call of a function an entry. Generators and coroutines are inside only while they run."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self(function.__func__))
        if not callable(function):
            raise TypeError(
                f"{self!r} decorates functions, and {function!r} is none: use `with` for a block, and write this decorator below "
                "others such as @property"
            )
        if inspect.isclass(function):
            raise TypeError(f"{self!r} decorates functions, and {function!r} is a class: decorate its methods")
        if _is(inspect.isasyncgenfunction, function):
            raise TypeError(
                f"{self!r} cannot decorate the asynchronous generator {getattr(function, '__qualname__', function)}: "
                "decorate the functions that it calls"
            )
        return _wrapped(self, function)  # type: ignore[return-value]


def _is(kind: Callable[[Any], bool], function: Any) -> bool:
    """Whether calls of a function or of an object are of this kind, such as coroutines."""
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or (not inspect.isroutine(function) and kind(type(function).__call__))


def _is_old_coroutine(function: Any) -> bool:
    """Whether it is a generator with ``@types.coroutine``, which `await` takes."""
    code = getattr(function, "__code__", None)
    return isinstance(code, types.CodeType) and bool(code.co_flags & inspect.CO_ITERABLE_COROUTINE)


def _wrapped(inside: _Entered, function: Callable[..., Any]) -> Callable[..., Any]:
    if _is(inspect.iscoroutinefunction, function):

        @functools.wraps(function)
        async def of_coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _Steps(inside, function(*args, **kwargs).__await__())

        return of_coroutine
    if _is(inspect.isgeneratorfunction, function):

        @functools.wraps(function)
        def of_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from _steps(inside, function(*args, **kwargs)))

        return types.coroutine(of_generator) if _is(_is_old_coroutine, function) else of_generator

    @functools.wraps(function)
    def of_function(*args: Any, **kwargs: Any) -> Any:
        with inside:
            return function(*args, **kwargs)

    return of_function


class _Steps:
    """Awaits something, and is inside while it runs."""

    def __init__(self, inside: _Entered, steps: Any) -> None:
        self._inside, self._steps = inside, steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps(self._inside, self._steps)


def _steps(inside: _Entered, steps: Any) -> Generator[Any, Any, Any]:
    """Runs a generator or the iterator of a coroutine. Each step of it is an entry."""
    # No variable here keeps what passes through: the program decides how long it lives. An exception that is thrown in has this frame in
    # its traceback, so a variable with the exception would be a cycle.
    todo: list[Callable[[], Any]] = [functools.partial(next, steps)]
    given: list[Any] = []
    while True:
        try:
            with inside:
                given.append(todo.pop()())
        except StopIteration as end:
            return end.value
        try:
            todo.append(functools.partial(steps.send, (yield given.pop())))
        except GeneratorExit:
            with inside:
                steps.close()
            raise
        except BaseException as thrown:
            todo.append(functools.partial(steps.throw, thrown))


class scope(_Entered):  # noqa: N801
    """A scope: work that repeats. What it allocates is served from the memory of its earlier entries.

    Use it as a context manager or as a decorator. Each ``with`` and each call of a decorated function is one entry. The
    first entries learn the order of the allocations. Later entries get their memory from a plan. Scopes of one name share
    their statistics. If scopes are nested, the innermost one serves. What is still alive when the scope is left stays valid.

    >>> import gpucache
    >>> for step in range(3):
    ...     with gpucache.scope("train_step"):
    ...         buffer = gpucache.allocate(4096, device=-1)  # -1 is the host; a framework allocates by itself
    ...         del buffer
    >>> gpucache.stats("train_step").entries
    3
    >>> @gpucache.scope("predict")
    ... def predict():
    ...     return gpucache.allocate(4096, device=-1)
    >>> predict().bytes
    4096

    A decorated generator or coroutine is inside the scope while it runs, and outside while it waits. Each such step counts
    as an entry. A function that only returns a coroutine is inside for its call, and not while the coroutine runs.

    Scopes belong to threads, not to tasks. If a task waits (``await``) inside a ``with`` block, all tasks that run on this
    thread meanwhile are inside too. Decorate the coroutine instead, or end the block before each ``await``.

    A copy by ``copy`` or ``pickle`` is a scope of the same name. It has no open entries.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        if not isinstance(name, str):
            raise TypeError(
                f"the name of a scope is a str, not {type(name).__name__}: write @gpucache.scope(\"train_step\"), with a name"
            )
        if not name:
            raise ValueError('the name of a scope is empty: write gpucache.scope("train_step")')
        self.name = _arguments.scope_name(name)

    def _enter(self, entries: list[int]) -> None:
        _gpucache.enter(self.name, entries)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has no open entries: those belong to the threads that entered this object.
        return type(self), (self.name,)

    def __repr__(self) -> str:
        return f"scope({self.name!r})"


class _Uncached(_Entered):
    def _enter(self, entries: list[int]) -> None:
        _gpucache.enter_uncached(entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Uncached, ()

    def __repr__(self) -> str:
        return "uncached()"


def set_auto_scope(is_on: bool) -> None:
    """Sets whether allocations outside of all scopes come from the scope "auto", which finds loops by itself. This is on by default.

    Each thread follows with its next allocation.

    >>> import gpucache
    >>> gpucache.set_auto_scope(False)
    >>> gpucache.set_auto_scope(True)
    """
    _gpucache.set_auto_scope(_arguments.flag(is_on, "is_on", "allocations outside of all scopes come from the scope `auto`"))


def uncached() -> _Uncached:
    """Outside of all scopes: what is allocated there belongs to no scope, so no scope keeps its memory.

    Use it for what is allocated once, such as weights, as a context manager or as a decorator.

    >>> import gpucache
    >>> with gpucache.scope("load"):
    ...     with gpucache.uncached():
    ...         weights = gpucache.allocate(4096, device=-1)
    >>> gpucache.stats("load").misses
    0
    """
    return _Uncached()
