"""The largest batch of GPT-2 with random sequence lengths under a limit, by bisection. Each try is a process of its own.

    python tests/gpu/frameworks/batch.py --allocator gpucache --limit 20

A try trains for some steps with the same sequence lengths for every allocator. It fails if torch runs out of memory. `live` is the most
live memory of the largest batch that fits: no allocator can fit a batch that needs more than the limit.
"""

import json
import os
import time

import common

import torch

GIB = 1 << 30


def attempt(options, rows):
    """Whether some steps with this batch fit, and the peaks of memory."""
    common.install(options)
    torch.manual_seed(options.seed)
    import nets
    from workloads import Training, text

    step, total = None, torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(options.limit * GIB / total)
    try:
        with torch.device(options.device):
            sizes = {"vocabulary": 128, "longest": 64, "width": 32, "layers": 2, "heads": 2} if options.small else {}
            longest = 64 if options.small else options.longest
            model = nets.Gpt(**sizes)
        training = Training(options, model, text(rows, longest // 8, longest, 128 if options.small else 50257))
        for step in range(options.steps):
            batch = training.batch(torch.Generator().manual_seed(1000 * options.seed + step))
            if options.device == "cpu" and rows > 21:
                raise torch.OutOfMemoryError("stand-in")
            with common.scope(options):
                loss = training.step(batch)
            loss.item()
    except torch.OutOfMemoryError as error:
        return {"fits": False, "step": step, "text": str(error)[:200], **common.peaks()}
    return {"fits": True, **common.peaks()}


def forked(options, rows):
    """The result of a try in a child of this process, which never starts CUDA itself."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            result = attempt(options, rows)
        except Exception as error:
            result = {"fits": False, "error": f"{type(error).__name__}: {error}"[:500]}
        os.write(writer, json.dumps(result).encode())
        # The end of the process is not what this program tests, and takes time.
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"fits": False, "error": "the process printed no result"}


def bisected(options):
    """The most rows that fit, and the result of their try."""
    fits, fails, best = 0, None, None
    low, high = options.low, options.high
    while fails is None or fails - fits > 1:
        # The first tries are at both ends, because the answer lies between them for each allocator.
        rows = low if fits == 0 and fails is None else high if fails is None else (fits + fails) // 2
        if rows <= fits:
            high *= 2
            continue
        result = forked(options, rows)
        common.say(part="batch", allocator=options.allocator, rows=rows, **result)
        if "error" in result:
            raise RuntimeError(result["error"])
        if result["fits"]:
            fits, best = rows, result
        else:
            fails = rows
    return fits, best


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--limit", type=float, default=20, help="GiB")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--longest", type=int, default=512, help="tokens of the longest sequence")
    parser.add_argument("--low", type=int, default=16, help="rows that are expected to fit")
    parser.add_argument("--high", type=int, default=40, help="rows that are expected not to fit")
    options = parser.parse_args()
    begin = time.perf_counter()
    with common.reported(part="batch", allocator=options.allocator):
        rows, best = bisected(options)
        common.say(
            part="batch", allocator=options.allocator, largest=rows, limit_gib=options.limit, **(best or {}),
            seconds=round(time.perf_counter() - begin, 1),
        )  # fmt: skip


if __name__ == "__main__":
    main()
