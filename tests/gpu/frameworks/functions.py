"""Functions of PyTorch that concern the allocator: those that must work, tell the truth; those that cannot, say so by name.

    python tests/gpu/frameworks/functions.py --allocator gpucache

Each case is a process of its own. Cases of `TRUTHS` compare figures with the truth, and `untrue` lists those that differ. Cases of
`FEATURES` either work or raise an error, which is printed. A process that ends in any other way has failed.
"""

import concurrent.futures
import json
import os
import subprocess
import sys

import common

import torch

MIB = 1 << 20
# Each process takes half a gigabyte of the GPU and a core.
AT_ONCE = 8


class Checks:
    """Conditions by name."""

    def __init__(self):
        self.untrue = []

    def that(self, is_true, text):
        if not is_true:
            self.untrue.append(text)

    def near(self, found, expected, slack, text):
        self.that(abs(found - expected) <= slack, f"{text}: {found}, expected {expected}")


def allocated(check):
    cuda = torch.cuda
    before, slack = cuda.memory_allocated(), 2 * MIB
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    check.near(cuda.memory_allocated() - before, 100 * MIB, slack, "memory_allocated with a tensor")
    del x
    check.near(cuda.memory_allocated(), before, 0, "memory_allocated without it")
    check.near(cuda.max_memory_allocated() - before, 100 * MIB, slack, "max_memory_allocated")
    cuda.reset_peak_memory_stats()
    check.near(cuda.max_memory_allocated(), cuda.memory_allocated(), 0, "max_memory_allocated after reset_peak_memory_stats")
    check.near(cuda.max_memory_reserved(), cuda.memory_reserved(), 0, "max_memory_reserved after reset_peak_memory_stats")
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    stats, nested = cuda.memory_stats(), cuda.memory_stats_as_nested_dict()
    check.near(stats.get("allocated_bytes.all.current", -1), cuda.memory_allocated(), 0, "memory_stats, allocated_bytes")
    check.near(stats.get("reserved_bytes.all.current", -1), cuda.memory_reserved(), 0, "memory_stats, reserved_bytes")
    check.that(nested.get("allocated_bytes"), "memory_stats_as_nested_dict has allocated_bytes")
    check.that(cuda.memory_reserved() >= cuda.memory_allocated() >= len(x), "reserved is at least allocated")
    check.that(len(cuda.memory_summary()) > 100, "memory_summary is a text")


def reserved(check):
    cuda = torch.cuda
    torch.ones(1, device="cuda")
    cuda.synchronize()
    held, used = cuda.memory_reserved(), common.device_used()
    x = torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    check.near(common.device_used() - used, cuda.memory_reserved() - held, 64 * MIB, "the driver's figure with 1 GiB")
    del x
    cuda.empty_cache()
    check.near(cuda.memory_reserved(), held, 64 * MIB, "memory_reserved after empty_cache")
    check.near(common.device_used(), used, 64 * MIB, "the driver's figure after empty_cache")


def fraction(check):
    cuda = torch.cuda
    total = cuda.mem_get_info()[1]
    cuda.set_per_process_memory_fraction(2048 * MIB / total)
    try:
        torch.empty(3072 * MIB, dtype=torch.uint8, device="cuda")
        check.that(False, "3 GiB under a limit of 2 GiB fail")
    except torch.OutOfMemoryError as error:
        check.that(str(error).startswith("CUDA out of memory."), f"the text begins as torch's: {str(error)[:100]}")
    check.that(cuda.memory_stats().get("num_ooms", 0) >= 1, "num_ooms counts")
    torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    cuda.set_per_process_memory_fraction(1.0)
    torch.empty(3072 * MIB, dtype=torch.uint8, device="cuda")


def accelerator(check):
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    check.near(torch.accelerator.memory_allocated(), torch.cuda.memory_allocated(), 0, "torch.accelerator.memory_allocated")
    check.near(torch.accelerator.memory_reserved(), torch.cuda.memory_reserved(), 0, "torch.accelerator.memory_reserved")
    del x
    torch.accelerator.empty_cache()


def mem_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(MIB, device="cuda")
    return float(x.sum())


def snapshot():
    torch.cuda.memory._record_memory_history()
    x = torch.ones(MIB, device="cuda")
    return len(torch.cuda.memory_snapshot()), len(x)


def fraction_get():
    torch.ones(1, device="cuda")
    return torch.cuda.get_per_process_memory_fraction()


def cudnn_benchmark():
    torch.backends.cudnn.benchmark = True
    net = torch.nn.Conv2d(8, 16, 3, device="cuda")
    for _ in range(3):
        net(torch.ones(4, 8, 64, 64, device="cuda")).sum().backward()
    return float(net.weight.grad.sum()) != 0


def compiled(**how):
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()
    fast, x = torch.compile(net, **how), torch.ones(8, 64, device="cuda")
    for _ in range(4):
        y = fast(x).clone()
        y.sum().backward()
    return bool(torch.allclose(y, net(x), atol=1e-4))


def handles():
    """As tensors travel to other processes."""
    from torch.multiprocessing.reductions import reduce_tensor

    return len(reduce_tensor(torch.ones(MIB, device="cuda")))


def raw():
    address = torch.cuda.caching_allocator_alloc(MIB)
    torch.cuda.caching_allocator_delete(address)
    return address != 0


def settings():
    torch.ones(1, device="cuda")
    torch.cuda.memory._set_allocator_settings("garbage_collection_threshold:0.8")


def second_allocator():
    other = torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
    torch.cuda.memory.change_current_allocator(other)


def late_install():
    """Refused by gpucache. With native, there is nothing to install."""
    torch.ones(1, device="cuda")
    import gpucache.torch

    gpucache.torch.install()


def _group():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    return torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))).cuda()


def _trained(net):
    for _ in range(3):
        net(torch.ones(8, 256, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    torch.distributed.destroy_process_group()


def ddp():
    _trained(torch.nn.parallel.DistributedDataParallel(_group(), gradient_as_bucket_view=True))


def fsdp():
    from torch.distributed.fsdp import fully_shard

    _trained(fully_shard(_group()))


def symmetric_memory():
    import torch.distributed._symmetric_memory as symmetric

    _group()
    x = symmetric.empty(MIB, device="cuda:0")
    symmetric.rendezvous(x, torch.distributed.group.WORLD)
    torch.distributed.destroy_process_group()


TRUTHS = [allocated, reserved, fraction, accelerator]
FEATURES = {
    "mem_pool": mem_pool, "snapshot": snapshot, "fraction_get": fraction_get, "cudnn_benchmark": cudnn_benchmark,
    "compile": compiled, "compile_reduce_overhead": lambda: compiled(mode="reduce-overhead"), "handles": handles, "raw": raw,
    "settings": settings, "second_allocator": second_allocator, "late_install": late_install, "ddp": ddp, "fsdp": fsdp,
    "symmetric_memory": symmetric_memory,
}  # fmt: skip


def case(name, options):
    """One case in this process: a line of JSON."""
    if name != "late_install":
        common.install(options)
    truths = {truth.__name__: truth for truth in TRUTHS}
    fields = {"part": "functions", "case": name, "allocator": options.allocator}
    with common.scope(options), common.reported(**fields):
        if name in truths:
            check = Checks()
            truths[name](check)
            fields["untrue"] = check.untrue
        else:
            found = FEATURES[name]()
            fields["works"] = True if found is None else found
    common.say(**fields)


def outcome(name, options):
    command = [sys.executable, os.path.abspath(__file__), "--allocator", options.allocator, "--case", name]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return {"case": name, "exit": "still running after 120 s"}
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {"case": name, "failed": ended.stderr[-500:]}
    found.pop("where", None)
    return {**found, "exit": ended.returncode}


def main():
    parser = common.arguments(__doc__)
    names = [truth.__name__ for truth in TRUTHS] + list(FEATURES)
    parser.add_argument("--case", choices=names, help="this one, in this process")
    parser.add_argument("--cases", default=",".join(names))
    options = parser.parse_args()
    if options.case:
        case(options.case, options)
        return
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda name: outcome(name, options), options.cases.split(",")):
            common.say(**{"part": "functions", "allocator": options.allocator, **found})


if __name__ == "__main__":
    main()
