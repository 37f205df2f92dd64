"""Scopes as decorators of all kinds of functions."""

import asyncio
import functools
import gc
import inspect
import types
import weakref

import pytest

import gpucache


def take(bytes=4096):
    return gpucache.allocate(bytes, device=-1)


def inside(name):
    """Whether the caller is inside of this scope."""
    held = take()
    stats = gpucache.stats(name)
    return held.bytes == 4096 and stats is not None and stats.busy_bytes == 4096


def test_static_and_class_methods():
    scope = gpucache.scope("descriptor")

    class Model:
        @scope
        @staticmethod
        def above_static(x):
            return inside("descriptor"), x

        @staticmethod
        @scope
        def below_static(x):
            return inside("descriptor"), x

        @scope
        @classmethod
        def above_class(cls, x):
            return inside("descriptor"), cls, x

        @scope
        @staticmethod
        async def coroutine(x):
            return inside("descriptor"), x

    class Derived(Model):
        pass

    for model in (Model, Model()):
        assert model.above_static(1) == model.below_static(1) == asyncio.run(model.coroutine(1)) == (True, 1)
    assert (Derived.above_class(2), Derived().above_class(2)) == ((True, Derived, 2), (True, Derived, 2))
    with pytest.raises(TypeError, match="below others such as @property"):
        scope(property(take))


class Coroutine:
    async def __call__(self, x):
        before = inside("object")
        await asyncio.sleep(0)
        return before, inside("object"), x


class Generator:
    def __call__(self, x):
        yield inside("object"), x


class AsyncGenerator:
    async def __call__(self):
        yield


async def steps():
    yield


def test_objects_and_partial_objects_are_as_their_functions():
    scope = gpucache.scope("object")
    for decorated in (scope(Coroutine()), scope(Coroutine().__call__)):
        assert inspect.iscoroutinefunction(decorated)
        assert asyncio.run(decorated(1)) == (True, True, 1)
    assert asyncio.run(scope(functools.partial(Coroutine(), 2))()) == (True, True, 2)
    assert asyncio.run(scope(functools.partial(functools.partial(Coroutine().__call__), x=3))()) == (True, True, 3)
    assert list(scope(Generator())(4)) == list(scope(functools.partial(Generator(), 4))()) == [(True, 4)]
    assert scope(functools.partial(inside, "object"))() and scope(functools.lru_cache(inside))("object")


def test_asynchronous_generators_are_refused_in_all_forms():
    scope = gpucache.scope("asynchronous generator")
    for wrong in (steps, functools.partial(steps), AsyncGenerator(), AsyncGenerator().__call__, functools.partial(AsyncGenerator()),
                  staticmethod(steps)):
        with pytest.raises(TypeError, match="cannot decorate the asynchronous generator .*decorate the functions that it calls"):
            scope(wrong)


def test_a_coroutine_from_a_generator_can_be_awaited():
    @gpucache.scope("old coroutine")
    @types.coroutine
    def old(x):
        before = inside("old coroutine")
        yield from asyncio.sleep(0).__await__()
        return before, inside("old coroutine"), x

    class Old:
        __call__ = types.coroutine(lambda self, x: (yield from old(x)))

    async def work(function):
        return await function(5)

    for function in (old, gpucache.scope("twice")(old), functools.partial(old), gpucache.scope("twice")(functools.partial(old))):
        assert asyncio.run(work(function)) == (True, True, 5)
    assert asyncio.run(work(gpucache.scope("object of old")(Old()))) == (True, True, 5)


def test_an_exception_that_is_thrown_in_is_in_no_cycle():
    class Tensor:
        pass

    @gpucache.scope("thrown")
    def steps():
        tensor = Tensor()
        known.append(weakref.ref(tensor))
        yield

    gc.disable()
    try:
        for kind in (ValueError, KeyboardInterrupt):
            known, generator = [], steps()
            next(generator)
            try:
                generator.throw(kind())
            except kind:
                pass
            del generator
            assert known[0]() is None
    finally:
        gc.enable()
