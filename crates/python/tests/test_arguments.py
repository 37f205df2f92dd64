"""Wrong arguments: the error names the argument, and says what to pass."""

import math

import pytest

import gpucache



class Number:
    """As the integers of other libraries."""

    def __init__(self, number):
        self._number = number

    def __index__(self):
        return self._number


class NoNumber:
    """As the arrays of other libraries, of which only some are integers."""

    def __index__(self):
        raise TypeError("only integer arrays can be converted")


NO_INT = ["cuda:0", 0.5, None, True, [], NoNumber()]


@pytest.mark.parametrize("wrong", NO_INT)
def test_a_device_is_a_number(wrong):
    calls = [gpucache.trim, gpucache.device_stats, lambda device: gpucache.allocate(16, device=device),
             lambda device: gpucache.set_limit("1GiB", device=device)]
    for call in calls if wrong is None else [*calls, gpucache.reset_peaks]:
        with pytest.raises(TypeError, match="device is the number of a GPU.*-1 for the host.*pass an int"):
            call(wrong)


@pytest.mark.parametrize("wrong", NO_INT)
def test_bytes_streams_and_addresses_are_numbers(wrong):
    with pytest.raises(TypeError, match="bytes is a number of bytes.*pass an int"):
        gpucache.allocate(wrong, device=-1)
    with pytest.raises(TypeError, match="stream is a handle of CUDA as a number"):
        gpucache.allocate(16, device=-1, stream=wrong)
    with pytest.raises(TypeError, match="stream is a handle of CUDA as a number"):
        gpucache.record_stream(gpucache.allocate(16, device=-1), wrong)
    with pytest.raises(TypeError, match=r"memory is what gpucache.allocate\(\) returned"):
        gpucache.record_stream(wrong, 0)
    with pytest.raises(TypeError, match="address is an address as a number"):
        gpucache.base_address(wrong)
    with pytest.raises(TypeError, match="events is the number of events"):
        gpucache.trace(wrong)


@pytest.mark.parametrize("wrong", [-1, 1 << 64])
def test_numbers_are_in_their_range(wrong):
    for name, call in (
        ("bytes", lambda: gpucache.allocate(wrong, device=-1)),
        ("stream", lambda: gpucache.allocate(16, device=-1, stream=wrong)),
        ("memory", lambda: gpucache.record_stream(wrong, 0)),
        ("address", lambda: gpucache.base_address(wrong)),
        ("events", lambda: gpucache.trace(wrong)),
    ):
        with pytest.raises(ValueError, match=f"{name} is .* from [01] to 2.*not {wrong}"):
            call()
    with pytest.raises(ValueError, match="events is"):
        gpucache.trace(0)
    with pytest.raises(ValueError, match="device is"):
        gpucache.trim(1 << 31)


def test_numbers_of_other_libraries_are_numbers():
    assert gpucache.trim(Number(-1)) >= 0
    gpucache.set_limit(Number(1 << 40), device=Number(-1))
    [host] = [used for used in gpucache.stats().devices if used.device == -1]
    gpucache.set_limit(None, device=-1)
    assert host.memory.limit == 1 << 40


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -0.5, 1.5, 20e9])
def test_a_float_is_a_share_of_the_device(wrong):
    with pytest.raises(ValueError, match="limit is .* a share of the device between 0.0 and 1.0.* an int for a number of bytes"):
        gpucache.set_limit(wrong, device=-1)


def test_other_limits_are_refused():
    with pytest.raises(ValueError, match="limit is -1, and an int is a number of bytes"):
        gpucache.set_limit(-1, device=-1)
    for wrong in (1 << 64, 10**5000, -(10**5000)):
        with pytest.raises(ValueError, match=r"limit is .*, and an int is a number of bytes below 2\*\*64"):
            gpucache.set_limit(wrong, device=-1)
    for wrong in (True, [], b"1GiB", NoNumber()):
        with pytest.raises(TypeError, match="limit is a text such as"):
            gpucache.set_limit(wrong, device=-1)


def test_numbers_of_any_length_are_refused_with_the_name():
    for name, call in (("bytes", lambda: gpucache.allocate(10**5000, device=-1)), ("device", lambda: gpucache.trim(-(10**5000)))):
        with pytest.raises(ValueError, match=f"{name} is a? ?.*not a number of 16610 bits"):
            call()


def test_a_share_has_no_sign():
    for share in (0.0, -0.0):
        gpucache.set_limit(share, device=-1)
    gpucache.set_limit(None, device=-1)


@pytest.mark.parametrize("wrong", [gpucache.scope("x"), 5, b"x", True, [], None])
def test_the_name_of_a_scope_is_a_text(wrong):
    calls = [("name", gpucache.diagnose)]
    if wrong is not None:
        calls += [("name", gpucache.invalidate), ("name", gpucache.stats), ("scope", lambda name: gpucache.reset_peaks(scope=name))]
    for name, call in calls:
        with pytest.raises(TypeError) as failure:
            call(wrong)
        assert str(failure.value) == f"{name} is the name of a scope, and {wrong!r} is no str: pass a str"


def test_texts_have_no_surrogates():
    calls = [
        ("name", gpucache.scope), ("name", gpucache.invalidate), ("name", gpucache.stats), ("name", gpucache.diagnose),
        ("scope", lambda text: gpucache.reset_peaks(scope=text)), ("limit", lambda text: gpucache.set_limit(text, device=-1)),
    ]
    for name, call in calls:
        with pytest.raises(ValueError, match=rf"{name} is .*'\\udc80' has surrogates.*pass a text without them"):
            call("\udc80")


def test_wrong_arguments_change_nothing():
    held = gpucache.allocate(1 << 20, device=-1)
    del held
    peak = gpucache.device_stats(-1).peak_allocated_bytes
    with pytest.raises(TypeError):
        gpucache.reset_peaks(-1, scope=5)
    assert gpucache.device_stats(-1).peak_allocated_bytes == peak


def test_a_switch_is_true_or_false():
    for wrong in (1, 0, "no", None, []):
        with pytest.raises(TypeError, match="is_on is whether allocations outside of all scopes .* is no bool: pass True or False"):
            gpucache.set_auto_scope(wrong)
    # As numpy's.
    gpucache.set_auto_scope(type("bool_", (), {"__module__": "numpy", "__bool__": lambda self: True})())


@pytest.mark.parametrize("wrong, name", [((-1, -1), "bytes"), ((16, 2**40), "device"), ((16, -1, -1), "stream"), ((2**70, -1), "bytes")])
def test_memory_made_by_its_class_has_the_same_checks(wrong, name):
    with pytest.raises(ValueError, match=f"^{name} is "):
        gpucache.Owned(*wrong)
    with pytest.raises(TypeError, match="bytes is a number of bytes.*pass an int"):
        gpucache.Owned("16", -1)
    assert gpucache.Owned(16, -1).bytes == 16


def test_memory_of_no_bytes():
    gpucache.record_stream(gpucache.allocate(0, device=-1), 0)
    with pytest.raises(gpucache.Error):
        gpucache.allocate(0, device=12345)
