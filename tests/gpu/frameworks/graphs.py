"""CUDA graphs of PyTorch: each result is compared with eager execution to the bit, and memory is printed after each program.

    python tests/gpu/frameworks/graphs.py --allocator gpucache

Between replays, eager work fills memory with numbers and checks them later (`wrong` counts elements that changed). If eager work gets
memory of a live graph, either the graph's results or these numbers are wrong. `reserved` is what the allocator holds while the graphs of
the program are alive, and `after` once they are deleted and the cache is empty. Compare both with those of `native`.
"""

import copy
import functools
import gc
import random
import sys
import threading
import time

import common

import torch
from torch import nn

import nets


class Churn:
    """Eager tensors with known contents, allocated and dropped in a random order."""

    def __init__(self, device, seed=3):
        self.device, self.random = device, random.Random(seed)
        self.live, self.wrong, self.next = {}, 0, 0

    def work(self, count=8):
        for _ in range(count):
            place, self.next = self.random.randrange(48), self.next + 1
            if place in self.live:
                x, number = self.live.pop(place)
                self.wrong += int((x != number).sum())
            size = int(2 ** self.random.uniform(6, 20))
            self.live[place] = torch.full((size,), self.next, dtype=torch.int32, device=self.device), self.next

    def end(self):
        for x, number in self.live.values():
            self.wrong += int((x != number).sum())
        self.live.clear()
        return self.wrong


class Bench:
    """The network, its inputs, and the ways to capture."""

    def __init__(self, options):
        self.options, self.device = options, torch.device(options.device)
        self.width, self.shape = (32, (2, 16)) if options.small else (512, (16, 256))
        self.rounds = 3 if options.small else options.rounds
        self.churn = Churn(self.device)

    def net(self, blocks=4):
        torch.manual_seed(self.options.seed)
        with self.device:
            return nn.Sequential(*(nets.GptBlock(self.width, 4, 0.0) for _ in range(blocks)))

    def inputs(self, count=4, rows=None):
        shape = (rows or self.shape[0], self.shape[1], self.width)
        return [torch.randn(shape, device=self.device) for _ in range(count)]

    def scope(self):
        return common.scope(self.options)

    def warm_up(self, work):
        """Three calls on a side stream, as PyTorch's documentation advises."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(side)

    def captured(self, work, **how):
        """A graph of the work, and the result that replays write."""
        self.warm_up(work)
        graph = torch.cuda.CUDAGraph()
        with self.scope(), torch.cuda.graph(graph, **how):
            result = work()
        return graph, result


def replay(bench):
    """One graph, with eager work between replays."""
    net, inputs = bench.net().eval().requires_grad_(False), bench.inputs()
    static = inputs[0].clone()
    graph, result = bench.captured(lambda: net(static))
    different = 0
    for index in range(bench.rounds):
        with bench.scope():
            x = inputs[index % len(inputs)]
            static.copy_(x)
            graph.replay()
            bench.churn.work()
            different += not torch.equal(result, net(x))
    return different, [graph]


def shared(bench, pool=True):
    """Graphs of four batch sizes in one pool. Each result is read before the next graph replays."""
    net = bench.net().eval().requires_grad_(False)
    handle = torch.cuda.graph_pool_handle() if pool else None
    made, different = [], 0
    for rows in (bench.shape[0], bench.shape[0] // 2, bench.shape[0] // 4 or 1, 1):
        static = bench.inputs(1, rows)[0]
        made.append((static, *bench.captured(functools.partial(net, static), pool=handle)))
    for index in range(bench.rounds):
        with bench.scope():
            static, graph, result = made[index % len(made)]
            static.normal_()
            graph.replay()
            bench.churn.work()
            different += not torch.equal(result, net(static))
    return different, [graph for _, graph, _ in made]


def training(bench):
    """A whole step as a graph: autograd's thread allocates during the capture."""
    net, (x, y, *_) = bench.net(), bench.inputs()
    eager = copy.deepcopy(net)
    start = copy.deepcopy(net.state_dict())

    def step(which, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(which(x), y)
        loss.backward()
        optimizer.step()
        return loss

    optimizers = [torch.optim.SGD(which.parameters(), lr=0.01) for which in (net, eager)]
    graph, loss = bench.captured(lambda: step(net, optimizers[0]))
    net.load_state_dict(start)
    different = 0
    for _ in range(min(bench.rounds, 50)):
        graph.replay()
        with bench.scope():
            bench.churn.work()
            different += not torch.equal(loss, step(eager, optimizers[1]))
    different += sum(not torch.equal(a, b) for a, b in zip(net.parameters(), eager.parameters()))
    return different, [graph]


def callables(bench):
    """`make_graphed_callables`: forward and backward are graphs, the optimizer is eager."""
    net, (x, y, *_) = bench.net(), bench.inputs()
    eager = copy.deepcopy(net)
    with bench.scope():
        graphed = torch.cuda.make_graphed_callables(net, (x.clone(),))
    optimizers = [torch.optim.SGD(which.parameters(), lr=0.01) for which in (net, eager)]
    different = 0
    for _ in range(min(bench.rounds, 50)):
        with bench.scope():
            losses = []
            for which, optimizer in zip((graphed, eager), optimizers):
                optimizer.zero_grad(set_to_none=True)
                losses.append(nn.functional.mse_loss(which(x), y))
                losses[-1].backward()
                optimizer.step()
            bench.churn.work()
            different += not torch.equal(*losses)
    return different, [graphed]


def beside(bench):
    """Another thread allocates on its own stream during the capture. Its memory must not come from the graph's pool."""
    net, inputs = bench.net().eval().requires_grad_(False), bench.inputs()
    static, other, stop = inputs[0].clone(), Churn(bench.device, seed=11), threading.Event()

    def work():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while not stop.is_set():
                other.work(2)
            other.end()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        graph, result = bench.captured(lambda: net(static), capture_error_mode="thread_local")
        different = 0
        for index in range(bench.rounds):
            static.copy_(inputs[index % len(inputs)])
            graph.replay()
            different += not torch.equal(result, net(inputs[index % len(inputs)]))
    finally:
        stop.set()
        thread.join()
    bench.churn.wrong += other.wrong
    return different, [graph]


PROGRAMS = {
    "replay": replay,
    "shared": shared,
    "private": lambda bench: shared(bench, pool=False),
    "training": training,
    "callables": callables,
    "beside": beside,
}


def run(name, options):
    """One program. Returns how many results and elements were wrong."""
    torch.cuda.empty_cache()
    bench, before = Bench(options), torch.cuda.memory_reserved()
    begin = time.perf_counter()
    different, graphs = PROGRAMS[name](bench)
    torch.cuda.synchronize()
    reserved, allocated = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
    wrong = bench.churn.end()
    graphs.clear()
    del bench
    gc.collect()
    torch.cuda.empty_cache()
    common.say(
        part="graphs", program=name, allocator=options.allocator, different=int(different), wrong=wrong, before=before,
        reserved=reserved, allocated=allocated, after=torch.cuda.memory_reserved(), after_allocated=torch.cuda.memory_allocated(),
        seconds=round(time.perf_counter() - begin, 1),
    )  # fmt: skip
    return different + wrong


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args()
    with common.reported(part="graphs", allocator=options.allocator):
        common.install(options)
        common.deterministic()
        mistakes = sum(run(name, options) for name in options.programs.split(","))
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
