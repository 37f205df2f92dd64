"""Programs with several streams that PyTorch makes safe. Each checks that nobody else writes into live memory.

    python tests/gpu/frameworks/streams.py --allocator gpucache --rounds 10000

A canary fills a tensor with a number, and a later kernel counts the elements that differ, behind a kernel that only delays. A block
that another stream gets too early shows as a wrong element. The count stays on the device, so the host never waits within a round.
`wrong` must be 0. `--break` leaves out the waits of the program, to show that the canaries see that.
"""

import random
import sys
import threading
import time

import common

import torch

# About 100 microseconds on an H100: longer than the host takes for the round's next calls.
DELAY = 170_000
KIB = 1 << 10
SIZES = [16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB]


class Canary:
    """Counts wrong elements, on the device."""

    def __init__(self, device):
        self.device, self.checked = device, 0

    def filled(self, index, number):
        """A tensor on the current stream. Rounds in a row have one size, so that each would like the memory of the one before."""
        return torch.empty(SIZES[index // 16 % len(SIZES)] // 4, dtype=torch.int32, device=self.device).fill_(number)

    def check(self, x, number, count):
        # The canary's own tensors come from the current stream too, which is more traffic for the allocator.
        count.add_((x != number).sum())
        self.checked += 1


def delay():
    torch.cuda._sleep(DELAY)


class Program:
    """One kind of program. `careless` leaves out the order that makes it safe."""

    def __init__(self, canary, careless):
        self.canary, self.careless = canary, careless
        self.a, self.b, self.c = (torch.cuda.Stream() for _ in range(3))
        # Two streams must not add to one number at once.
        self.counts = [torch.zeros((), dtype=torch.int64, device=canary.device) for _ in range(3)]
        torch.cuda.synchronize()

    def wrong(self):
        torch.cuda.synchronize()
        return sum(int(count) for count in self.counts)


class Recorded(Program):
    """Prefetch on a side stream. `record_stream` tells the allocator about the stream that computes."""

    def round(self, i):
        with torch.cuda.stream(self.b):
            batch = self.canary.filled(i, i)
        with torch.cuda.stream(self.a):
            self.a.wait_stream(self.b)
            if not self.careless:
                batch.record_stream(self.a)
            delay()
            self.canary.check(batch, i, self.counts[0])
        del batch  # the next round allocates on b while a still reads


class Waiting(Program):
    """Prefetch without `record_stream`: the side stream waits before its memory is used again."""

    def round(self, i):
        with torch.cuda.stream(self.b):
            batch = self.canary.filled(i, i)
        with torch.cuda.stream(self.a):
            self.a.wait_stream(self.b)
            delay()
            self.canary.check(batch, i, self.counts[0])
        if not self.careless:
            self.b.wait_stream(self.a)
        del batch


class Hazard(Program):
    """`del` while stream b reads, a wait of stream a for b, then the next allocation on a. Stream c waits for nobody and allocates."""

    def round(self, i):
        with torch.cuda.stream(self.a):
            x = self.canary.filled(i, i)
        self.b.wait_stream(self.a)
        with torch.cuda.stream(self.b):
            delay()
            self.canary.check(x, i, self.counts[1])
        del x
        with torch.cuda.stream(self.c):
            other = self.canary.filled(i, ~i)
            delay()
            self.canary.check(other, ~i, self.counts[2])
        if not self.careless:
            self.a.wait_stream(self.b)
        with torch.cuda.stream(self.a):
            following = self.canary.filled(i, -i - 2)
            self.canary.check(following, -i - 2, self.counts[0])


class Crowd(Program):
    """Eight tensors on random streams live for random times. Each reader on another stream is recorded."""

    def __init__(self, canary, careless):
        super().__init__(canary, careless)
        self.random, self.live = random.Random(5), [None] * 8

    def round(self, i):
        streams = (self.a, self.b, self.c)
        owner, reader = self.random.choice(streams), self.random.randrange(3)
        with torch.cuda.stream(owner):
            x = self.canary.filled(16 * self.random.randrange(4), i)
        with torch.cuda.stream(streams[reader]):
            streams[reader].wait_stream(owner)
            if not self.careless:
                x.record_stream(streams[reader])
            if self.random.random() < 0.3:
                delay()
            self.canary.check(x, i, self.counts[reader])
        self.live[self.random.randrange(8)] = x


class Freed(Program):
    """A thread drops tensors that another thread allocated and used on its stream."""

    def round(self, i):
        with torch.cuda.stream(self.a):
            x = self.canary.filled(i, i)
            delay()
            self.canary.check(x, i, self.counts[0])
        handed = [x]
        del x
        thread = threading.Thread(target=handed.clear)
        thread.start()
        with torch.cuda.stream(self.b):
            y = self.canary.filled(i, ~i)
            self.canary.check(y, ~i, self.counts[1])
        thread.join()


class Cupy(Program):
    """CuPy on its own stream and torch on another one allocate in turn, and read each other's arrays after a wait."""

    def __init__(self, canary, careless):
        super().__init__(canary, careless)
        import cupy

        self.cupy, self.foreign = cupy, cupy.cuda.ExternalStream(self.b.cuda_stream)

    def round(self, i):
        count = SIZES[i // 16 % len(SIZES)] // 4
        with self.foreign:
            theirs = self.cupy.full(count, i, dtype=self.cupy.int32)
        with torch.cuda.stream(self.a):
            ours = self.canary.filled(i, ~i)
            delay()
            self.canary.check(ours, ~i, self.counts[0])
        del ours
        with torch.cuda.stream(self.b):
            # The tensor shares CuPy's memory and keeps it alive.
            shared = torch.as_tensor(theirs, device=self.canary.device)
            delay()
            self.canary.check(shared, i, self.counts[1])
        del theirs, shared


class Pressure(Program):
    """Two streams need the same memory in turn under a limit. The allocator must wait for one before the other gets it."""

    LIMIT, BLOCKS = 1 << 30, 3
    # Each round waits for the device, and fills gigabytes.
    RARELY = 100

    def round(self, i):
        if i % self.RARELY:
            return
        for stream, count in ((self.a, 0), (self.c, 2)):
            with torch.cuda.stream(stream):
                # Two sizes in turn, so that no block of the other stream fits as it is.
                size = (self.LIMIT // 16 * (4 + count // 2)) // 4
                blocks = [torch.empty(size, dtype=torch.int32, device=self.canary.device).fill_(i + n) for n in range(self.BLOCKS)]
                delay()
                for n, block in enumerate(blocks):
                    # Only a part: the canary would need as much memory as the block.
                    self.canary.check(block[:: 1 << 12], i + n, self.counts[count])
                del blocks, block


PROGRAMS = {"recorded": Recorded, "waiting": Waiting, "hazard": Hazard, "crowd": Crowd, "freed": Freed, "pressure": Pressure, "cupy": Cupy}
# Programs without waits of their own.
ALWAYS_SAFE = ("freed", "pressure", "cupy")


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--break", dest="careless", action="store_true", help="leave out the waits; `wrong` should then not be 0")
    options = parser.parse_args()
    with common.reported(part="streams", allocator=options.allocator):
        common.install(options)
        if common.is_gpucache(options) and "cupy" in options.programs:
            import gpucache.cupy

            gpucache.cupy.install()
        names = [name for name in options.programs.split(",") if not (options.careless and name in ALWAYS_SAFE)]
        wrong = sum(run(name, options) for name in names)
    sys.exit(1 if wrong and not options.careless else 0)


def run(name, options):
    """One program. Returns how many elements were wrong."""
    program = PROGRAMS[name](Canary(torch.device(options.device)), options.careless)
    if name == "pressure":
        torch.cuda.set_per_process_memory_fraction(program.LIMIT / torch.cuda.mem_get_info()[1])
    begin = time.perf_counter()
    for index in range(options.rounds):
        with common.scope(options):
            program.round(index)
        if index % 512 == 511:
            torch.cuda.synchronize()  # else thousands of kernels wait, and the canaries see one stream after the other
    wrong = program.wrong()
    if name == "pressure":
        torch.cuda.set_per_process_memory_fraction(1.0)
    common.say(
        part="streams", program=name, allocator=options.allocator, rounds=options.rounds, careless=options.careless, wrong=wrong,
        checks=program.canary.checked, seconds=round(time.perf_counter() - begin, 1), **common.peaks(),
    )  # fmt: skip
    return wrong


if __name__ == "__main__":
    main()
