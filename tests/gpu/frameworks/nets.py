"""Networks that no package has with this shape: GPT-2, a small Mixtral, and a graph network on sampled neighbours."""

import math

import torch
from torch import nn
from torch.nn import functional


class GptBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attended(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + functional.dropout(self.attend(self.before_attention(x)), self.dropout, self.training)
        inner = functional.gelu(self.up(self.before_mlp(x)), approximate="tanh")
        return x + functional.dropout(self.down(inner), self.dropout, self.training)


class Gpt(nn.Module):
    """GPT-2. The default sizes are those of the model with 124 million parameters."""

    def __init__(self, vocabulary=50257, longest=1024, width=768, layers=12, heads=12, dropout=0.1, checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads, dropout) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * layers) if "down" in name or "attended" in name else 1))

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            if self.checkpointed:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        logits = self.head(self.last(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Expert(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """Each token goes to two experts. The number of tokens of an expert depends on the data."""

    def __init__(self, width, inner, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width, inner) for _ in range(experts))

    def forward(self, x):
        flat = x.flatten(0, 1)
        shares, chosen = functional.softmax(self.router(flat).float(), dim=-1).topk(2, dim=-1)
        shares = shares / shares.sum(-1, keepdim=True)
        mixed = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            token, place = torch.where(chosen == index)
            if len(token) > 0:
                result = expert(flat[token]) * shares[token, place, None]
                mixed.index_add_(0, token, result.to(flat.dtype))
        return mixed.view_as(x)


class MixtralBlock(nn.Module):
    def __init__(self, width, heads, groups, inner, experts):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.before_attention, self.before_mixture = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width * groups // heads, bias=False)
        self.mixture = Mixture(width, inner, experts)

    def attend(self, x, turn):
        batch, length, width = x.shape
        q = turned(self.q(x).view(batch, length, self.heads, -1).transpose(1, 2), *turn)
        k, v = (part.view(batch, length, self.groups, -1).transpose(1, 2) for part in self.kv(x).chunk(2, dim=-1))
        k, v = (part.repeat_interleave(self.heads // self.groups, dim=1) for part in (turned(k, *turn), v))
        mixed = functional.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, turn):
        x = x + self.attend(self.before_attention(x), turn)
        return x + self.mixture(self.before_mixture(x))


def turned(x, cosine, sine):
    """Rotary positions."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Mixtral(nn.Module):
    def __init__(self, vocabulary=32000, width=1024, layers=6, heads=16, groups=4, inner=1792, experts=8):
        super().__init__()
        self.size = width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(MixtralBlock(width, heads, groups, inner, experts) for _ in range(layers))
        self.last = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens, targets):
        steps = torch.arange(0, self.size, 2, device=tokens.device) / self.size
        angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device).float(), 10000.0**-steps)
        angles = torch.cat((angles, angles), dim=-1)
        turn = (angles.cos(), angles.sin())
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, turn)
        return functional.cross_entropy(self.head(self.last(x)).flatten(0, 1).float(), targets.flatten())


class Sampled(nn.Module):
    """A graph network on a random graph. Each step samples neighbours of neighbours, so every size depends on the data."""

    def __init__(self, device, nodes=400_000, most=32, features=128, width=256, classes=47, fanouts=(15, 10, 5)):
        super().__init__()
        made = torch.Generator(device).manual_seed(7)
        self.fanouts = fanouts
        self.register_buffer("neighbours", torch.randint(nodes, (nodes, most), device=device, generator=made))
        self.register_buffer("degrees", torch.randint(1, most + 1, (nodes,), device=device, generator=made))
        self.register_buffer("features", torch.randn(nodes, features, device=device, generator=made))
        self.register_buffer("labels", torch.randint(classes, (nodes,), device=device, generator=made))
        widths = [features] + [width] * (len(fanouts) - 1) + [classes]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.other = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:]))

    @torch.no_grad()
    def sample(self, seeds):
        """The nodes of each layer, from the seeds outwards, and the edges between a layer and the next one."""
        layers, edges = [seeds], []
        for fanout in self.fanouts:
            nodes = layers[-1]
            drawn = torch.rand(len(nodes), fanout, device=nodes.device) * self.degrees[nodes, None]
            drawn = self.neighbours[nodes[:, None], drawn.long()]
            kept = torch.arange(fanout, device=nodes.device) < self.degrees[nodes, None]
            target, place = torch.where(kept)
            # The nodes themselves come first, so that each layer begins with the one before it.
            fresh = torch.unique(drawn[target, place])
            fresh = fresh[~torch.isin(fresh, nodes)]
            outer = torch.cat((nodes, fresh))
            order = torch.argsort(outer)
            source = order[torch.searchsorted(outer[order], drawn[target, place])]
            layers.append(outer)
            edges.append((source, target))
        return layers, edges

    def forward(self, seeds):
        layers, edges = self.sample(seeds)
        x = self.features[layers[-1]]
        for index, (own, other) in enumerate(zip(self.own, self.other)):
            source, target = edges[-1 - index]
            count = len(layers[-2 - index])
            total = torch.zeros(count, x.shape[1], device=x.device).index_add(0, target, x[source])
            degree = torch.bincount(target, minlength=count).clamp(min=1)
            x = own(x[:count]) + other(total / degree[:, None])
            if index + 1 < len(self.own):
                x = functional.dropout(functional.relu(x), 0.5, self.training)
        return functional.cross_entropy(x, self.labels[seeds])
