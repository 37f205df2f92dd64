"""CuPy destroys its streams with their last references, while their memory goes to other streams. The driver ends a process that passes it
the handle of a destroyed stream."""

import json

import cupy

import gpucache.cupy

ROUNDS = 300
ELEMENTS = 1 << 16


def main() -> None:
    gpucache.cupy.install()
    for number in range(ROUNDS):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            filled = cupy.ones(ELEMENTS) * number
            assert float(filled.sum()) == number * ELEMENTS
        del stream, filled
        zeros = [cupy.zeros(1 << (10 + number % 7)) for _ in range(5)]
        assert all(float(array.sum()) == 0 for array in zeros)
        if number % 50 == 49:
            gpucache.trim(0)
    reserved = gpucache.device_stats(0)["reserved_bytes"]
    print(json.dumps({"part": "cupy_streams", "rounds": ROUNDS, "reserved_bytes": reserved}))


main()
