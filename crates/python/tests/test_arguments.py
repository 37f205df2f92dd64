"""Wrong arguments: the error names the argument, and says what to pass."""

import math

import pytest

import gpucache

NO_INT = ["cuda:0", 0.5, None, True, []]


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
    class Number:
        def __index__(self):
            return -1

    assert gpucache.trim(Number()) >= 0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -0.5, 1.5, 20e9])
def test_a_float_is_a_share_of_the_device(wrong):
    with pytest.raises(ValueError, match="limit is .* a share of the device between 0.0 and 1.0.* an int for a number of bytes"):
        gpucache.set_limit(wrong, device=-1)


def test_other_limits_are_refused():
    with pytest.raises(ValueError, match="limit is -1, and an int is a number of bytes"):
        gpucache.set_limit(-1, device=-1)
    for wrong in (True, [], b"1GiB"):
        with pytest.raises(TypeError, match="limit is a text such as"):
            gpucache.set_limit(wrong, device=-1)
