"""Random allocations on several threads, whose contents are checked.

    python tests/gpu/frameworks/soak.py --allocator gpucache --threads 4 --operations 1000000
    compute-sanitizer python tests/gpu/frameworks/soak.py --allocator gpucache --operations 2000 --exchanges 200

The operations are a loop in TorchScript, which runs without the interpreter's lock, so the threads truly allocate at once. Half of the
threads share the default stream, and the others have one each. Then the threads pass tensors to each other, and each drops those that it
got. `wrong` counts elements that changed, and must be 0.
"""

import contextlib
import queue
import sys
import threading
import time

import common

import torch

# Operations inside one entry of the scope.
CHUNK = 20_000


def _soak(
    operations: int, seed: int, device: torch.device, kept: list[torch.Tensor], numbers: list[int], bare: list[torch.Tensor],
    wrong: torch.Tensor,
) -> int:  # fmt: skip
    """`kept` have contents that are checked before they are dropped. `bare` only come and go."""
    state = seed
    for step in range(operations):
        state = (state * 1103515245 + 12345) % 2147483648
        draw = state // 256
        place = draw % 64
        # 64 bytes to 256 KiB, and sometimes up to 4 MiB.
        size = 16 << ((draw // 64) % 13)
        if (draw // 1024) % 64 == 0:
            size = size * 16
        kind = (draw // 65536) % 64
        if kind == 0:
            wrong += (kept[place] != numbers[place]).sum()
            kept[place] = torch.full([size], step, dtype=torch.int32, device=device)
            numbers[place] = step
        elif kind < 24:
            bare[place] = torch.empty([size + place], dtype=torch.int32, device=device)
        else:
            x = torch.empty([size], dtype=torch.int32, device=device)
            state = state + x.numel() % 2
    return state


class Worker(threading.Thread):
    def __init__(self, number, options, loop, inbox, outbox):
        super().__init__(name=f"worker{number}")
        self.number, self.options, self.loop, self.inbox, self.outbox = number, options, loop, inbox, outbox
        self.device = torch.device(options.device)
        self.own = torch.cuda.Stream() if number % 2 else None
        self.wrong, self.error = 0, None

    def run(self):
        try:
            with torch.cuda.stream(self.own) if self.own else contextlib.nullcontext():
                self.soak()
                self.exchange()
        except Exception as error:  # the main thread reports it
            self.error = f"{type(error).__name__}: {error}"[:1000]

    def soak(self):
        device = self.device
        wrong = torch.zeros((), dtype=torch.int64, device=device)
        kept = [torch.zeros(1, dtype=torch.int32, device=device) for _ in range(64)]
        bare, numbers, state = [x for x in kept], [0] * 64, self.options.seed + self.number
        for _ in range(0, self.options.operations, CHUNK):
            count = min(CHUNK, self.options.operations)
            with common.scope(self.options):
                state = self.loop(count, state, device, kept, numbers, bare, wrong) % (1 << 31)
        for x, number in zip(kept, numbers):
            wrong += (x != number).sum()
        self.wrong += int(wrong)

    def exchange(self):
        """Each tensor is used on the stream of its maker, then on that of its taker, who drops it."""
        wrong = torch.zeros((), dtype=torch.int64, device=self.device)
        for step in range(self.options.exchanges):
            with common.scope(self.options):
                x = torch.full((16 << (step % 16),), step, dtype=torch.int32, device=self.device)
                self.outbox.put((x, step, torch.cuda.current_stream()))
                del x
                theirs, number, stream = self.inbox.get(timeout=60)
                torch.cuda.current_stream().wait_stream(stream)
                theirs.record_stream(torch.cuda.current_stream())
                wrong += (theirs != number).sum()
                del theirs
        self.wrong += int(wrong)


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--operations", type=int, default=1_000_000, help="of each thread")
    parser.add_argument("--exchanges", type=int, default=5_000, help="tensors that each thread passes on")
    options = parser.parse_args()
    with common.reported(part="soak", allocator=options.allocator):
        common.install(options)
        torch._C._jit_set_profiling_executor(False)
        loop, begin = torch.jit.script(_soak), time.perf_counter()
        boxes = [queue.SimpleQueue() for _ in range(options.threads)]
        workers = [
            Worker(number, options, loop, boxes[number], boxes[(number + 1) % options.threads]) for number in range(options.threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        common.say(
            part="soak", allocator=options.allocator, threads=options.threads, operations=options.operations,
            exchanges=options.exchanges, wrong=sum(worker.wrong for worker in workers),
            errors=[worker.error for worker in workers if worker.error], seconds=round(time.perf_counter() - begin, 1),
            **common.peaks(), allocated=torch.cuda.memory_allocated(),
        )  # fmt: skip
    sys.exit(1 if any(worker.wrong or worker.error for worker in workers) else 0)


if __name__ == "__main__":
    main()
