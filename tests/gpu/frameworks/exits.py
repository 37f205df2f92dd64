"""Ends of processes: each case runs in a process of its own, and must end with its exit code and without a message.

    python tests/gpu/frameworks/exits.py --allocator gpucache

Cases that fail with `native` too are torch's own.
"""

import concurrent.futures
import os
import subprocess
import sys
import threading
import warnings

import common

import torch

# Eight processes at once: each takes half a gigabyte of the GPU and a core.
AT_ONCE = 8
KEPT = []


def _net(device):
    with torch.device(device):
        return torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))


def _step(options, net):
    with common.scope(options):
        net(torch.ones(64, 256, device=options.device)).square().mean().backward()


def live_tensors(options):
    KEPT.extend(torch.ones(1 << n, device=options.device) for n in range(20))


def inside_a_scope(options):
    with common.scope(options):
        live_tensors(options)
        sys.exit(0)


def never_left(options):
    """An entry that nobody leaves."""
    entry = common.scope(options)
    entry.__enter__()
    KEPT.append(entry)
    live_tensors(options)


def error_in_a_scope(options):
    with common.scope(options):
        live_tensors(options)
        raise SystemExit(3)


def after_backward(options):
    """Autograd's threads wait for work when the process ends."""
    net = _net(options.device)
    for _ in range(10):
        _step(options, net)
    KEPT.append(net)


def during_backward(options):
    """The main thread ends, and the interpreter waits for a thread that trains. A daemon thread would abort in torch itself."""
    net = _net(options.device)
    threading.Thread(target=lambda: [_step(options, net) for _ in range(500)]).start()


def at_once(options):
    """No destructor runs, while a thread trains."""
    during_backward(options)
    os._exit(0)


def thread_ended(options):
    """Tensors outlive the thread that made them."""
    thread = threading.Thread(target=live_tensors, args=(options,))
    thread.start()
    thread.join()
    _step(options, _net(options.device))
    del KEPT[::2]


def after_out_of_memory(options):
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device=options.device)
    except RuntimeError as error:
        KEPT.append(error)  # its traceback keeps the frames


def live_graph(options):
    x = torch.ones(1024, device=options.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    KEPT.extend((graph, x, y))


def forked(options):
    """A child of `os.fork` ends without touching CUDA."""
    live_tensors(options)
    warnings.simplefilter("ignore", DeprecationWarning)  # Python's advice about threads
    child = os.fork()
    if child == 0:
        sys.exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(4)


def loader_alive(options):
    data = torch.utils.data.TensorDataset(torch.ones(64, 16))
    batches = iter(torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=options.device == "cuda"))
    KEPT.append((batches, next(batches)[0].to(options.device, non_blocking=True)))


# The exit code of each case.
CASES = {
    live_tensors: 0, inside_a_scope: 0, never_left: 0, error_in_a_scope: 3, after_backward: 0, during_backward: 0, at_once: 0,
    thread_ended: 0, after_out_of_memory: 0, live_graph: 0, forked: 0, loader_alive: 0,
}  # fmt: skip


# PyTorch's own thread for pinned memory prints a traceback now and then, whatever the allocator, if a loader is alive at the end.
MAY_PRINT = [loader_alive]


def outcome(case, code, options):
    command = [sys.executable, os.path.abspath(__file__), "--allocator", options.allocator, "--device", options.device]
    try:
        ended = subprocess.run([*command, "--case", case.__name__], capture_output=True, text=True, timeout=90)
        found, said = ended.returncode, ended.stderr.strip()[-1000:]
    except subprocess.TimeoutExpired as late:
        found, said = "still running after 90 s", str(late.stderr)[-1000:]
    return {"case": case.__name__, "exit": found, "ok": found == code and (case in MAY_PRINT or not said), "stderr": said}


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--case", choices=[case.__name__ for case in CASES], help="this one, in this process")
    options = parser.parse_args()
    if options.case:
        common.install(options)
        next(case for case in CASES if case.__name__ == options.case)(options)
        return
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda item: outcome(*item, options), CASES.items()))
    for found in outcomes:
        common.say(part="exits", allocator=options.allocator, **found)
    sys.exit(0 if all(found["ok"] for found in outcomes) else 1)


if __name__ == "__main__":
    main()
