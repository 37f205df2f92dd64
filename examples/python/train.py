"""Trains a GPT of GPT-2's size with PyTorch on sequences of random length, with and without gpucache.

    python examples/python/train.py
    python examples/python/train.py --gpucache
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

if "--gpucache" in sys.argv:
    import gpucache.torch

    gpucache.torch.install()  # before the first tensor on the GPU

STEPS, ROWS, WORDS, WIDTH = 60, 8, 50257, 768
torch.manual_seed(1)
with torch.device("cuda"):
    layer = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
    blocks = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    model = nn.ModuleList([nn.Embedding(WORDS, WIDTH), nn.Embedding(1024, WIDTH), blocks, nn.Linear(WIDTH, WORDS)])
tokens, positions, blocks, head = model
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)


def train_step(text):
    text = text.to("cuda")
    mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        x = tokens(text) + positions(torch.arange(text.shape[1], device="cuda"))
        logits = head(blocks(x, mask=mask, is_causal=True))
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


if "--gpucache" in sys.argv:
    train_step = gpucache.scope("train_step")(train_step)  # or `with gpucache.scope("train_step"):` around the call

times = []
for _ in range(STEPS):
    text = torch.randint(WORDS, (ROWS, int(torch.randint(64, 1025, ()))))
    begin = time.perf_counter()
    loss = train_step(text)
    times.append(1000 * (time.perf_counter() - begin))

median = sorted(times[STEPS // 3 :])[STEPS // 3]
reserved, live = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
print(f"loss {loss:.4f}; {median:.1f} ms per step; reserved {reserved >> 20} MiB, which is {reserved / live:.3f} x the live memory")
