"""The share of the allocations that plans serve, for the ways in which programs train.

    python tests/gpu/frameworks/plan.py --allocators gpucache,gpucache-auto

GPT-2 with random sequence lengths: backward on autograd's thread and on the caller's, activation checkpoints, and a DataLoader with four
workers and pinned memory. A loader must not change the losses. `planned` has the numbers that the share comes from.
"""

import argparse

import common

from compare import Server

WAYS = {
    "default": "gpt2-random",
    "serial": "gpt2-random --serial",
    "loader": "gpt2-random --loader",
    "fixed": "gpt2",
    "checkpoints": "gpt2-checkpointed",
    "checkpoints, serial": "gpt2-checkpointed --serial",
}
# The same losses as the way named.
SAME = {"serial": "default", "loader": "default", "checkpoints, serial": "checkpoints"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--allocators", default="gpucache,gpucache-auto")
    parser.add_argument("--ways", default=";".join(WAYS), help="separated by semicolons")
    parser.add_argument("--options", default="", help="further options of models.py")
    options = parser.parse_args()
    for allocator in options.allocators.split(","):
        server, runs = Server(allocator), {}
        server.lines_until("ready")
        for way in options.ways.split(";"):
            run = runs[way] = server.run(f"{WAYS[way]} {options.options}")
            same = runs.get(SAME.get(way))
            common.say(
                part="plan", way=way, allocator=allocator, share=(run.get("planned") or {}).get("share"), error=run.get("error"),
                equal=None if same is None else same.get("losses") == run.get("losses"), last=run.get("last"), exit=run.get("exit"),
            )  # fmt: skip
        server.end()


if __name__ == "__main__":
    main()
