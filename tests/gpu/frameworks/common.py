"""What the programs of this folder share: the allocator of the process, its memory, and one line of JSON as the result.

Import this module before torch: torch reads the settings of its allocator from the environment while it loads. The allocator is the
value of `--allocator`:

    native, expandable, async    torch's allocator, with expandable segments, or on top of cudaMallocAsync
    gpucache                     gpucache, each step inside a scope
    gpucache-auto                gpucache without scopes
    gpucache-pool                torch's allocator, whose segments in a step come from gpucache (`gpucache.torch.pool`)

`GPUCACHE_INSTALL` holds arguments of `gpucache.torch.install` as JSON, for example `{"backward": "caller"}`.
"""

import argparse
import contextlib
import hashlib
import json
import os
import struct
import sys
import traceback

SETTINGS = {
    "native": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
    "gpucache": "",
    "gpucache-auto": "",
    "gpucache-pool": "",
}
# torch 2.9 renamed the first variable to the second. It still reads both.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# The scope of every program here. Programs without scopes are served by gpucache's own scope.
SCOPE = "train_step"
AUTO_SCOPE = "auto"
# Programs in which gpucache serves each tensor.
OURS = ("gpucache", "gpucache-auto")
# The pool of this process with `gpucache-pool`, once the first step began: a pool can only be made when CUDA has started.
_pools = []


def environment_of(allocator):
    """The environment of a process with this allocator."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if SETTINGS[allocator]:
        environment.update({name: SETTINGS[allocator] for name in VARIABLES})
    # cuBLAS is deterministic only with a fixed workspace.
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return environment


def _allocator_of_arguments():
    for index, word in enumerate(sys.argv):
        if word == "--allocator" and index + 1 < len(sys.argv):
            return sys.argv[index + 1]
        if word.startswith("--allocator="):
            return word.split("=", 1)[1]
    return "native"


def _set_environment():
    allocator = _allocator_of_arguments()
    if allocator not in SETTINGS:
        sys.exit(f"--allocator {allocator}: not known; use one of {', '.join(SETTINGS)}")
    if "torch" in sys.modules:
        raise ImportError("import common before torch")
    environment = environment_of(allocator)
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(environment)


_set_environment()


def arguments(description):
    """A parser with the options of all programs."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--allocator", default="native", choices=SETTINGS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: try the program's logic without a GPU")
    parser.add_argument("--small", action="store_true", help="tiny sizes")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def is_gpucache(options):
    return options.allocator in OURS


def install(options):
    """Gives torch the allocator of the process. Call it before CUDA starts."""
    if options.device == "cpu":
        import on_cpu

        on_cpu.stand_in()
    if is_gpucache(options):
        import gpucache.torch

        gpucache.torch.install(**json.loads(os.environ.get("GPUCACHE_INSTALL", "{}")))


def scope(options, name=SCOPE):
    """The scope of a step. Other allocators have none."""
    if options.allocator == "gpucache-pool":
        return _pool()
    if options.allocator != "gpucache":
        return contextlib.nullcontext()
    import gpucache

    return gpucache.scope(name)


@contextlib.contextmanager
def _pool():
    """A step in the pool. Its backward pass runs on this thread, because a pool serves only one thread."""
    import gpucache.torch

    if not _pools:
        _pools.append(gpucache.torch.pool())
    with gpucache.torch.use_pool(_pools[0]), gpucache.torch.backward_on_caller():
        yield


def deterministic():
    """Makes torch choose deterministic kernels, and warn about operations that have none."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    # To fill each new tensor would hide reads of uninitialized memory, and take time.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    # The backward passes of these kinds of attention are not deterministic, or not in all versions.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def peaks():
    """The most reserved and live bytes since the process began or since peaks were reset. `requested` is without any rounding."""
    import torch

    reserved, live = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    requested = torch.cuda.memory_stats().get("requested_bytes.all.peak")
    return {"reserved": reserved, "live": live, "requested": requested, "ratio": round(reserved / live, 4) if live else None}


def device_used():
    """The bytes that the device says are in use, by every process and for every purpose."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free


def device_calls(options):
    """How often the allocator called the driver for memory; `None` if it does not say."""
    import torch

    if is_gpucache(options):
        import gpucache

        stats = getattr(gpucache, "device_stats", None)
        if stats is not None:
            use = stats(0)
            return use["device_calls"] if isinstance(use, dict) else getattr(use, "device_calls", None)
    if options.allocator == "async":
        return None  # CUDA's pool does not count
    stats = torch.cuda.memory_stats()
    calls = [stats.get(name) for name in ("num_device_alloc", "num_device_free")]
    return None if None in calls else sum(calls)


def scope_stats(options):
    """The statistics of the scope of this program, or of gpucache's own; `None` with another allocator."""
    if not is_gpucache(options):
        return None
    import gpucache

    return gpucache.stats(SCOPE if options.allocator == "gpucache" else AUTO_SCOPE)


def diagnosis(options):
    """Why gpucache does not plan the scope of this program, as a text; `None` if all is well."""
    if not is_gpucache(options):
        return None
    import gpucache

    diagnose = getattr(gpucache, "diagnose", None)
    found = diagnose(SCOPE if options.allocator == "gpucache" else AUTO_SCOPE) if diagnose else None
    return None if found is None or found.get("is_healthy") else str(found)[:2000]


def planned(before, after):
    """The share of the allocations between two readings that a plan served, with the numbers that it comes from."""
    if after is None:
        return None
    served = {}
    for kind, amount in after["served"].items():
        earlier = before["served"][kind]["allocations"] if before else 0
        served[kind] = amount["allocations"] - earlier
    everything = sum(served.values())
    share = round(served.get("planned", 0) / everything, 4) if everything else None
    return {"share": share, "served": served, "entries": after.get("entries"), "plan": after.get("plan")}


def digest(values):
    """A hash of numbers that differs if a single bit of them does."""
    return hashlib.sha256(struct.pack(f"<{len(values)}d", *values)).hexdigest()[:16]


def say(**fields):
    """Prints one line of JSON."""
    print(json.dumps(fields, default=str), flush=True)


@contextlib.contextmanager
def reported(**fields):
    """Reports an error of the block as a line of JSON with these fields, and ends the process with 1."""
    try:
        yield
    except Exception as error:
        where = traceback.format_exc().strip().splitlines()[-7:]
        say(**fields, error=f"{type(error).__module__}.{type(error).__name__}: {error}"[:2000], where=where)
        sys.exit(1)
