"""A GPT like that of `parallel`, under PyTorch's DistributedDataParallel, for comparison.

    python examples/parallel/torch_ddp.py --steps 60
    torchrun --standalone --nproc-per-node 2 examples/parallel/torch_ddp.py --steps 60

It has the same sizes and the same number of parameters, in float32 without TF32, and trains on random letters. Rank 0 prints one JSON object
with the fields of `parallel --json` that can be compared.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

VOCABULARY = 63


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        normalized = self.first_norm(x)
        split = lambda y: y.view(batch, context, self.heads, width // self.heads).transpose(1, 2)
        query, key, value = split(self.query(normalized)), split(self.key(normalized)), split(self.value(normalized))
        # As `parallel` does it: all probabilities are stored.
        scores = query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5
        hidden = torch.ones(context, context, dtype=torch.bool, device=x.device).triu(1)
        seen = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value
        x = x + self.out(seen.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.second_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in dict(steps=60, layers=6, width=512, heads=8, context=256, batch=16).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bucket-mib", type=int, default=25, help="most MiB of gradients that are reduced at once")
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local = int(os.environ.get("LOCAL_RANK", 0))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if ranks > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(1)
    model = Gpt(options.layers, options.width, options.heads, options.context).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(
            model, device_ids=[local] if on_gpu else None, bucket_cap_mb=options.bucket_mib, gradient_as_bucket_view=True
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.2 / options.width, betas=(0.9, 0.95), fused=on_gpu)
    shape, seconds, losses = (options.batch // ranks, options.context), [], []
    for _ in range(options.steps):
        tokens = torch.randint(VOCABULARY, shape, device=device)
        began = time.perf_counter()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())  # waits for the step, as `parallel` does
        seconds.append(time.perf_counter() - began)
    timed = seconds[len(seconds) // 2 :]
    if rank == 0:
        figures = {"program": "torch_ddp", "ranks": ranks, "parameters": parameters, "steps_per_second": len(timed) / sum(timed)}
        if on_gpu:
            figures["reserved_bytes"] = torch.cuda.max_memory_reserved()
            figures["live_bytes"] = torch.cuda.max_memory_allocated()
        figures |= {"torch": torch.__version__, "last_loss": losses[-1]}
        print(json.dumps(figures), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
