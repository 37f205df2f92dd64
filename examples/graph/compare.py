"""The same decoder in PyTorch: one CUDA graph for each batch size, in private pools or in a shared one.

    python examples/graph/compare.py --rows 256 --width 1024 --blocks 24

Each variant runs in a process of its own, and prints one line of JSON. `bytes` is the reserved memory beside the model's. Divide it by
the `bytes` of the variant `alone`, which has the largest batch size only.
"""

import argparse
import json
import subprocess
import sys
import time

VARIANTS = [("alone", "down"), ("private", "up"), ("private", "down"), ("shared", "up"), ("shared", "down")]
# As PyTorch's documentation advises.
WARM_UPS = 3
TIMED = 51


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--variant", choices=[name for name, _ in VARIANTS])
    parser.add_argument("--order", choices=["up", "down"])
    return parser.parse_args()


class Model:
    def __init__(self, torch, options):
        self.torch = torch
        torch.manual_seed(1)
        width = options.width
        self.table = 2 * torch.rand(width, width, device="cuda") - 1
        self.weights = [(2 * torch.rand(width, width, device="cuda") - 1) / width**0.5 for _ in range(options.blocks)]
        rows = options.batches * options.rows
        self.states = [torch.zeros(rows, width, device="cuda") for _ in range(options.blocks)]

    def step(self, tokens):
        functional = self.torch.nn.functional
        x = functional.embedding(tokens, self.table)
        for weights, state in zip(self.weights, self.states):
            normal = x * self.torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)
            product = normal @ weights
            rows = state[: len(tokens)]
            rows.mul_(0.5).add_(functional.gelu(product, approximate="tanh"))
            x = x + rows
        return x.argmax(1)


class Graph:
    """A graph of one batch size, as a server would capture it at the first request of this size."""

    def __init__(self, torch, model, rows, pool):
        self.tokens = torch.arange(rows, device="cuda") % model.table.shape[0]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                model.step(self.tokens)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.next = model.step(self.tokens)
        self.run()

    def run(self):
        self.graph.replay()
        self.tokens.copy_(self.next)


def median_us(torch, work):
    for _ in range(10):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(TIMED):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[TIMED // 2]


def measure(options):
    import torch

    model = Model(torch, options)
    torch.zeros(64, options.width, device="cuda") @ model.table  # creates cuBLAS's workspace
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base, (free, _) = torch.cuda.memory_reserved(), torch.cuda.mem_get_info()
    sizes = list(range(1, options.batches + 1)) if options.variant != "alone" else [options.batches]
    if options.order == "down":
        sizes.reverse()
    pool = torch.cuda.graph_pool_handle() if options.variant == "shared" else None
    start = time.perf_counter()
    graphs = {size: Graph(torch, model, size * options.rows, pool) for size in sizes}
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    report = {
        "torch": torch.__version__,
        "variant": options.variant,
        "order": options.order,
        "base_bytes": base,
        "bytes": torch.cuda.max_memory_reserved() - base,
        "device_bytes": free - torch.cuda.mem_get_info()[0],
        "start_seconds": seconds,
    }
    for name, size in [("smallest_step", min(sizes)), ("largest_step", max(sizes))]:
        graph = graphs[size]
        direct = median_us(torch, lambda: model.step(graph.tokens))
        report[name] = {"batch": size, "direct_us": direct, "graph_us": median_us(torch, graph.run)}
    print(json.dumps(report))


def main():
    options = arguments()
    if options.variant:
        measure(options)
        return
    for variant, order in VARIANTS:
        command = [sys.executable, __file__, "--variant", variant, "--order", order]
        for name in ["batches", "rows", "width", "blocks"]:
            command += [f"--{name}", str(getattr(options, name))]
        subprocess.run(command, check=True)


main()
