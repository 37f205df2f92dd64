"""A program that runs out of memory, catches the error, and trains on.

    python tests/gpu/frameworks/oom.py --allocator gpucache

Prints the type and the text of the errors in forward, in backward (on autograd's thread) and of one tensor that no GPU could hold. The
losses of a training with such errors in between must equal those of a training without them.
"""

import sys

import common

import torch
from torch import nn

LIMIT = 4 << 30


class Greedy(torch.autograd.Function):
    """Its backward allocates more than there is."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient + too_much(gradient.device).sum()


def too_much(device):
    if device.type == "cpu":
        raise torch.OutOfMemoryError("CUDA out of memory. This is a stand-in.")
    return torch.empty(2 * LIMIT, dtype=torch.uint8, device=device)


class Training:
    def __init__(self, options):
        self.options, self.device = options, torch.device(options.device)
        torch.manual_seed(options.seed)
        width = 64 if options.small else 2048
        with self.device:
            self.net = nn.Sequential(*(nn.Linear(width, width) for _ in range(6)))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        self.width = width

    def step(self, index, rows=256):
        with common.scope(self.options):
            x = torch.full((rows, self.width), 0.01 * (index + 1), device=self.device)
            loss = self.net(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            return loss.item()

    def in_forward(self):
        """A batch whose activations exceed the limit: it fails with many tensors alive."""
        with common.scope(self.options):
            if self.device.type == "cpu":
                too_much(self.device)
            x = torch.zeros(LIMIT // 4 // self.width // 4, self.width, device=self.device)
            self.net(x).square().mean().backward()

    def in_backward(self):
        with common.scope(self.options):
            x = torch.ones(16, self.width, device=self.device, requires_grad=True)
            Greedy.apply(self.net(x)).sum().backward()

    def in_one_tensor(self):
        if self.device.type == "cpu":
            too_much(self.device)
        torch.empty(1 << 45, dtype=torch.uint8, device=self.device)


def caught(training, where):
    """Runs out of memory, and says what a program sees of it."""
    try:
        getattr(training, where)()
    except torch.OutOfMemoryError as error:
        kind, text = type(error), str(error)
    except RuntimeError as error:
        kind, text = type(error), str(error)
    else:
        kind, text = None, "no error"
    training.optimizer.zero_grad()
    stats = torch.cuda.memory_stats() if training.device.type == "cuda" else {}
    common.say(
        part="oom", where=where, allocator=training.options.allocator, type=f"{kind.__module__}.{kind.__name__}" if kind else None,
        is_oom=kind is not None and issubclass(kind, torch.OutOfMemoryError), begins=text.startswith("CUDA out of memory."), text=text,
        num_ooms=stats.get("num_ooms"), reserved=torch.cuda.memory_reserved(), allocated=torch.cuda.memory_allocated(),
        within=torch.cuda.memory_reserved() <= LIMIT,
    )  # fmt: skip


def limit(bytes):
    fraction = 1.0 if bytes is None else bytes / torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(fraction)


def main():
    options = common.arguments(__doc__).parse_args()
    with common.reported(part="oom", allocator=options.allocator):
        common.install(options)
        common.deterministic()
        limit(LIMIT)
        plain = Training(options)
        expected = [plain.step(index) for index in range(30)]
        del plain
        training, losses = Training(options), []
        failures = {5: "in_forward", 10: "in_backward", 15: "in_one_tensor", 16: "in_forward", 17: "in_forward"}
        for index in range(30):
            if index in failures:
                caught(training, failures[index])
            losses.append(training.step(index))
        limit(None)
        larger = "works"
        try:
            if options.device == "cuda":
                training.in_forward()
        except RuntimeError as error:
            larger = str(error)[:300]
        equal = common.digest(losses) == common.digest(expected)
        common.say(
            part="oom", where="end", allocator=options.allocator, equal=equal,
            last_losses=losses[-2:], without_limit=larger, summary_lines=len(torch.cuda.memory_summary().splitlines()),
        )  # fmt: skip
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
