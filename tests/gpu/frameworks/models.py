"""Trains one model for 60 steps with one allocator, and prints its losses, its memory and the time of a step as JSON.

    python tests/gpu/frameworks/models.py --allocator gpucache --model gpt2
    python tests/gpu/frameworks/models.py --allocator native --serve      runs what it reads from stdin: "gpt2 --steps 60"

With `--serve`, torch is imported once, and each run is a forked process of its own. The parent never starts CUDA.
"""

import os
import shlex
import statistics
import sys
import time
import warnings

import common

import torch

# The marks are for the last 20 of 60 steps (memory), and for steps 20 to 60 (time, calls of the driver).
STEPS, LAST, WARM = 60, 20, 20
# A run that takes longer hangs.
PATIENCE_S = 120


def models():
    """All models by name. Their modules import torch, which `common` must precede."""
    from further import FURTHER
    from mixed import MIXED
    from unseen import UNSEEN
    from workloads import MODELS

    return MODELS | FURTHER | MIXED | UNSEEN


def options_of(arguments=None):
    parser = common.arguments(__doc__)
    parser.add_argument("--model", default="gpt2", choices=models())
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rows", type=int, help="sequences or pictures of a batch")
    parser.add_argument("--fast", action="store_true", help="kernels that need not be deterministic")
    parser.add_argument("--serial", action="store_true", help="backward on the caller's thread")
    parser.add_argument("--loader", action="store_true", help="batches from a DataLoader with 4 workers and pinned memory")
    parser.add_argument("--serve", action="store_true", help="run what stdin says")
    parser.add_argument("--series", action="store_true", help="also print the time of each step")
    return parser.parse_args(arguments)


class Batches(torch.utils.data.Dataset):
    """The batch of a step comes from its index alone, so that each allocator gets the same ones."""

    def __init__(self, options, workload):
        self.options, self.workload = options, workload

    def __len__(self):
        return self.options.steps

    def __getitem__(self, index):
        return self.workload.batch(torch.Generator().manual_seed(1000 * self.options.seed + index))

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    def loaded(self):
        pinned = self.options.device == "cuda"
        # With a generator of its own, the loader draws nothing from the one of the model.
        own = torch.Generator()
        return torch.utils.data.DataLoader(self, batch_size=None, num_workers=4, pin_memory=pinned, generator=own)


class Run:
    """The steps of one model, and what is measured during them."""

    def __init__(self, options):
        self.options = options
        # The weights are drawn on the device, because a CPU takes seconds for them.
        with torch.device(options.device):
            self.workload = models()[options.model](options)
        self.losses, self.times = [], []
        self.first_peaks = self.warm_stats = self.warm_calls = None

    def step(self, batch):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with common.scope(self.options):
            loss = self.workload.step(batch)
        torch.cuda.synchronize()
        self.times.append(1e3 * (time.perf_counter() - begin))
        self.losses.append(loss.item())

    def run(self):
        steps = self.options.steps
        warm, last = min(WARM, steps // 3), max(steps - LAST, steps // 2)
        batches = Batches(self.options, self.workload)
        for index, batch in enumerate(batches.loaded() if self.options.loader else batches):
            if index == warm:
                self.warm_stats = common.scope_stats(self.options)
                self.warm_calls = common.device_calls(self.options)
            if index == last:
                self.first_peaks = common.peaks()
                torch.cuda.reset_peak_memory_stats()
            self.step(batch)
        return self.result(warm)

    def result(self, warm):
        last, first = common.peaks(), self.first_peaks
        whole = {name: max(first[name] or 0, last[name] or 0) for name in ("reserved", "live", "requested")}
        whole["ratio"] = round(whole["reserved"] / whole["live"], 4) if whole["live"] else None
        calls = common.device_calls(self.options)
        warm_times = sorted(self.times[warm:])
        result = {
            "losses": common.digest(self.losses),
            "last_losses": self.losses[-3:],
            "step_ms": round(statistics.median(warm_times), 3),
            "step_ms_best": round(warm_times[0], 3),
            "step_ms_quarter": round(warm_times[len(warm_times) // 4], 3),
            "first_step_ms": round(self.times[0], 1),
            "last": last,
            "whole": whole,
            "device_calls": None if calls is None or self.warm_calls is None else calls - self.warm_calls,
            "device_used": common.device_used(),
            "planned": common.planned(self.warm_stats, common.scope_stats(self.options)),
            "diagnosis": common.diagnosis(self.options),
        }
        if self.options.series:
            result["times_ms"] = [round(time, 2) for time in self.times]
        return result


def measure(options):
    """One run in this process."""
    fields = {"part": "models", "model": options.model, "allocator": options.allocator, "steps": options.steps}
    fields.update(serial=options.serial, loader=options.loader)
    with common.reported(**fields), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        common.install(options)
        if not options.fast:
            common.deterministic()
        torch.manual_seed(options.seed)
        torch.autograd.set_multithreading_enabled(not options.serial)
        result = Run(options).run()
        # torch names operations without a deterministic kernel in warnings. Losses may then differ between two equal runs.
        said = sorted({str(w.message).split(".")[0][:100] for w in heard if "determinis" in str(w.message)})
        common.say(**fields, **result, nondeterministic=said)


def _wait(child, fields):
    """Waits for a child, ends it if it hangs, and says how it ended."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            common.say(part="models", end=True, exit=code, **fields)
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    common.say(part="models", end=True, exit="ended after two minutes", **fields)


def serve(options):
    """Forks a process for each line of stdin. Modules that take long to import are imported before."""
    # A check during an import that starts CUDA would make every child useless.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torchvision.models  # noqa: F401
    import transformers  # noqa: F401
    from transformers import LlamaForCausalLM  # noqa: F401

    common.say(part="models", ready=True, allocator=options.allocator)
    for line in sys.stdin:
        words = shlex.split(line)
        if not words:
            break
        child = os.fork()
        if child == 0:
            own = ["--allocator", options.allocator, "--model", *words]
            if torch.cuda._is_in_bad_fork():
                os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), *own])
            measure(options_of(own))
            return
        _wait(child, {"model": words[0], "allocator": options.allocator})


if __name__ == "__main__":
    chosen = options_of()
    if chosen.serve:
        serve(chosen)
    else:
        measure(chosen)
