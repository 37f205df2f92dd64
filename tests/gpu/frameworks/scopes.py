"""Trains GPT-2 with scopes in several places, and prints the losses and the memory as JSON.

    python tests/gpu/frameworks/scopes.py --allocator gpucache --place passes

- `step`: one scope around each step.
- `passes`: one scope around the forward pass, and one around the rest of the step.
- `late`: ten steps without a scope, and then one around each step.
- `turns`: four steps in a scope, then two evaluations of another batch without one, and so on.
- `inside`: each step computes the logits of another batch in a scope of its own, inside the scope of the step.

Other allocators do the same without scopes.
"""

import time

import common

import torch
from workloads import MODELS

EARLY, IN_A_ROW, EVALUATIONS = 10, 4, 2


class Program:
    def __init__(self, options):
        self.options = options
        with torch.device(options.device):
            self.training = MODELS["gpt2"](options)
        self.losses = []

    def batch(self, index):
        random = torch.Generator().manual_seed(1000 * self.options.seed + index)
        return [part.to(self.options.device) for part in self.training.batch(random)]

    def forward(self, inputs):
        with torch.autocast(self.options.device, dtype=torch.bfloat16):
            return self.training.model(*inputs)

    def rest(self, loss):
        loss.backward()
        self.training.optimizer.step()
        self.training.optimizer.zero_grad()
        self.losses.append(loss.item())

    def evaluate(self, index):
        with torch.no_grad():
            self.losses.append(self.forward(self.batch(index)).item())

    def step(self, index):
        with common.scope(self.options):
            self.rest(self.forward(self.batch(index)))

    def passes(self, index):
        with common.scope(self.options, "forward"):
            loss = self.forward(self.batch(index))
        with common.scope(self.options, "backward"):
            self.rest(loss)

    def late(self, index):
        if index < EARLY:
            self.rest(self.forward(self.batch(index)))
        else:
            self.step(index)

    def turns(self, index):
        self.step(index)
        if index % IN_A_ROW == IN_A_ROW - 1:
            for number in range(EVALUATIONS):
                self.evaluate(10_000 + index + number)

    def inside(self, index):
        with common.scope(self.options):
            loss = self.forward(self.batch(index))
            with common.scope(self.options, "evaluation"):
                self.evaluate(10_000 + index)
            self.rest(loss)


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--place", default="step", choices=["step", "passes", "late", "turns", "inside"])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rows", type=int)
    options = parser.parse_args()
    with common.reported(part="scopes", allocator=options.allocator, place=options.place):
        common.install(options)
        common.deterministic()
        torch.manual_seed(options.seed)
        program = Program(options)
        step, begin, calls = getattr(program, options.place), time.perf_counter(), None
        for index in range(options.steps):
            if index == options.steps // 2:
                calls, begin = common.device_calls(options), time.perf_counter()
            step(index)
        seconds = (time.perf_counter() - begin) / (options.steps - options.steps // 2)
        after = common.device_calls(options)
        common.say(
            part="scopes", allocator=options.allocator, place=options.place, **common.peaks(), losses=common.digest(program.losses),
            calls_in_second_half=None if after is None else after - (calls or 0), step_ms=round(1e3 * seconds, 2),
        )  # fmt: skip


if __name__ == "__main__":
    main()
