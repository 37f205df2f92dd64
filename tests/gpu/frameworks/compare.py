"""Runs every model with every allocator, one process each, and prints the results and one line of marks for each model.

    python tests/gpu/frameworks/compare.py --models gpt2,vit --allocators native,gpucache

Runs of one model follow each other, so that all allocators meet the same clock of the GPU. Never two at once.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys

import common

MODELS = ["gpt2", "gpt2-random", "mixtral", "resnet50", "vit", "graph", "generate"]
OURS = common.OURS
# The last 20 steps, and the whole run.
SPANS = ("last", "whole")


class Server:
    """A process with one allocator that starts a run for each line."""

    def __init__(self, allocator):
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.py")]
        self.allocator = allocator
        self.process = subprocess.Popen(
            [*command, "--allocator", allocator, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=common.environment_of(allocator),
        )  # fmt: skip

    def lines_until(self, name):
        """The lines of JSON up to the one that has this field."""
        lines = []
        for line in self.process.stdout:
            try:
                lines.append(json.loads(line))
            except ValueError:
                print(line, end="", file=sys.stderr)
                continue
            if name in lines[-1]:
                break
        return lines

    def run(self, words):
        result = {"part": "models", "model": words.split()[0], "allocator": self.allocator, "error": "the process printed no result"}
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except OSError as error:
            result["error"] = f"the process has ended: {error}"
        for line in self.lines_until("end"):
            if "end" in line:
                result["exit"] = line["exit"]
            else:
                result = line
        common.say(**result)
        return result

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


def ratio(a, b):
    return round(a / b, 4) if a and b else None


def removed(ours, native, span):
    """The share of native's fragmentation that is gone. Fragmentation is the share of reserved memory that is not live at the peak."""
    unused = [1 - run[span]["live"] / run[span]["reserved"] if run[span]["reserved"] else 0 for run in (ours, native)]
    return round(1 - unused[0] / unused[1], 4) if unused[1] > 0 else None


def least(runs, span):
    """The smallest ratio of reserved to live memory."""
    return min((run[span]["ratio"] for run in runs if run[span]["ratio"]), default=None)


def marks(model, runs):
    """The line of marks: the results of gpucache beside those of the others."""
    native = runs.get("native")
    others = [run for name, run in runs.items() if name not in OURS and "error" not in run]
    for name in OURS:
        ours = runs.get(name)
        if ours is None or native is None:
            continue
        broken = [run for run in (ours, native) if "error" in run]
        if broken:
            common.say(part="marks", model=model, allocator=name, error=broken[0]["error"])
            continue
        best = {span: min(run[span]["reserved"] for run in others) for span in SPANS}
        common.say(
            part="marks", model=model, allocator=name,
            equal=ours["losses"] == native["losses"],
            time=ratio(ours["step_ms"], native["step_ms"]),
            time_best=ratio(ours["step_ms_best"], native["step_ms_best"]),
            last=ours["last"]["ratio"], last_others=least(others, "last"),
            whole=ours["whole"]["ratio"], whole_others=least(others, "whole"),
            reserved_over_best={span: ratio(ours[span]["reserved"], best[span]) for span in best},
            last_over_requested=ratio(ours["last"]["reserved"], native["last"]["requested"]),
            live_over_native=ratio(ours["whole"]["live"], native["whole"]["live"]),
            device_calls=ours["device_calls"],
            planned=(ours["planned"] or {}).get("share"),
            fragmentation_removed={span: removed(ours, native, span) for span in SPANS},
            exit=ours.get("exit"),
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--allocators", default=",".join(common.SETTINGS))
    parser.add_argument("--options", default="", help='options of models.py for each run, for example "--steps 30"')
    options = parser.parse_args()
    servers = {name: Server(name) for name in options.allocators.split(",")}
    for server in servers.values():
        server.lines_until("ready")
    for model in options.models.split(","):
        words = f"{model} {options.options}"
        runs = {name: server.run(words) for name, server in servers.items()}
        native = runs.get("native", {})
        if "losses" in native and any(runs[name].get("losses", "") != native["losses"] for name in OURS if name in runs):
            # Whether the model is deterministic at all.
            again = servers["native"].run(words)
            common.say(part="again", model=model, native_equals_itself=again.get("losses") == native["losses"])
        marks(model, runs)
    for server in servers.values():
        server.end()


if __name__ == "__main__":
    main()
