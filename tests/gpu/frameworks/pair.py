"""The time of one `torch.empty` and the `del` of its tensor, in nanoseconds.

    python tests/gpu/frameworks/pair.py --allocator gpucache

Three ways, because the allocator is only a part of the time:

- `python`: a loop in Python. Threads take turns under the interpreter's lock.
- `script`: a loop in TorchScript, which runs without the interpreter and its lock. Threads truly allocate at once.
- `raw`: torch's entry to the allocator alone, without a tensor.

`small` has one size of 4 KiB. `mixed` has 64 sizes from 512 bytes to 64 MiB in turn, with up to eight tensors alive. `overhead` is the same
loop of `python` or `script` for tensors on the device `meta`, which have no memory. Each figure is the median of 31 rounds after five
rounds of warm-up, the time of a round divided by all its pairs.
"""

import statistics
import threading
import time

import common

import torch

ROUNDS, WARM_UPS = 31, 5
SMALL = [4096] * 64


def mixed(seed):
    """64 sizes, as many of each power of two, in a random order."""
    drawn = torch.Generator().manual_seed(seed)
    exponents = 9 + 17 * torch.rand(64, generator=drawn)
    return [int(2**exponent) // 4 for exponent in exponents.tolist()]


def python_loop(sizes, pairs, device):
    empty, kind = torch.empty, torch.float32
    for _ in range(pairs // len(sizes)):
        for size in sizes:
            x = empty(size, dtype=kind, device=device)
            del x


def python_ring(sizes, pairs, device):
    """Each tensor lives until eight others were allocated."""
    empty, ring = torch.empty, [None] * 8
    for _ in range(pairs // len(sizes)):
        for index, size in enumerate(sizes):
            ring[index & 7] = empty(size, dtype=torch.float32, device=device)


def raw_loop(sizes, pairs, device):
    allocate = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free = torch._C._cuda_cudaCachingAllocator_raw_delete
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(pairs // len(sizes)):
        for size in sizes:
            free(allocate(4 * size, stream))


def _script_loop(sizes: list[int], pairs: int, device: torch.device) -> int:
    # The sum keeps the compiler from leaving the tensors out.
    total = 0
    for _ in range(pairs // len(sizes)):
        for size in sizes:
            x = torch.empty([size], dtype=torch.float32, device=device)
            total += x.numel()
    return total


def _script_ring(sizes: list[int], pairs: int, device: torch.device) -> int:
    ring = [torch.empty([1], device=device) for _ in range(8)]
    total = 0
    for _ in range(pairs // len(sizes)):
        place = 0
        for size in sizes:
            ring[place] = torch.empty([size], dtype=torch.float32, device=device)
            place = (place + 1) % 8
        total += ring[0].numel()
    return total


def timed(loop, sizes, pairs, device, threads, scope):
    """The median time of a pair. A round begins when all threads wait for it."""
    gate = threading.Barrier(threads + 1)

    def work():
        # Gives the thread a context, as the work of a program does. Without one, each `cudaGetDevice` of torch takes microseconds.
        torch.zeros(1, device=device)
        for _ in range(ROUNDS + WARM_UPS):
            gate.wait()
            # A thread is inside its own entry of the scope, as the step of a training thread is.
            with scope():
                loop(sizes, pairs, device)
            gate.wait()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    times = []
    for _ in range(ROUNDS + WARM_UPS):
        gate.wait()
        begin = time.perf_counter_ns()
        gate.wait()
        times.append((time.perf_counter_ns() - begin) / (pairs * threads))
    for worker in workers:
        worker.join()
    return round(statistics.median(times[WARM_UPS:]), 1)


def loops(device):
    """Name, loop, sizes, and whether there is an overhead to measure."""
    script_loop, script_ring = torch.jit.script(_script_loop), torch.jit.script(_script_ring)
    made = [
        ("python", "small", python_loop),
        ("python", "mixed", python_ring),
        ("script", "small", script_loop),
        ("script", "mixed", script_ring),
    ]
    return made if device == "cpu" else [*made, ("raw", "small", raw_loop), ("raw", "mixed", raw_loop)]


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=4096, help="pairs of each thread in a round")
    parser.add_argument("--threads", default="1,4")
    options = parser.parse_args()
    with common.reported(part="pair", allocator=options.allocator):
        common.install(options)
        # The scripts are not to be specialized in the middle of the measurement.
        torch._C._jit_set_profiling_executor(False)
        device, meta = torch.device(options.device), torch.device("meta")
        if options.device == "cuda":
            torch.cuda.init()
        for way, size, loop in loops(options.device):
            sizes = SMALL if size == "small" else mixed(options.seed)
            for threads in map(int, options.threads.split(",")):
                run = (sizes, options.pairs, device, threads)
                fields = {"ns": timed(loop, *run, scope=lambda: common.scope(options))}
                if way != "raw":
                    fields["overhead_ns"] = timed(loop, sizes, options.pairs, meta, threads, scope=lambda: common.scope(options))
                common.say(part="pair", allocator=options.allocator, way=way, sizes=size, threads=threads, **fields)


if __name__ == "__main__":
    main()
