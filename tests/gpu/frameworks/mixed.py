"""Models whose steps mix several kinds of work, or whose sizes follow from data. No part of gpucache was tuned on them at first.

    MODELS=grpo,points,tokens tests/gpu/frameworks.sh models
"""

import torch
from torch import nn
from torch.nn import functional

from further import Loop, _gpt
from workloads import Generation, text


def drawn(random, low, high):
    return int(torch.randint(low, high + 1, (1,), generator=random))


def tokens(options):
    """Batches of about as many tokens each: many short texts, or few long ones."""
    model, longest, words = _gpt(options)

    def batch(random):
        length = drawn(random, longest // 16, longest)
        return text(max(1, 8 * longest // length), length, length, words)(random)

    def body(training, inputs):
        with training.cast():
            loss = training.model(*inputs)
        loss.backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        training.update()
        return loss

    return Loop(options, model, batch, body)


class Adapted(nn.Module):
    """A linear layer that is not trained, beside one of low rank that is."""

    def __init__(self, inner, rank=16):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)

    def forward(self, x):
        return self.inner(x) + self.up(self.down(x))


def adapters(options):
    """Only small matrices are trained, and each tenth step saves them to the host and evaluates a text."""
    model, longest, words = _gpt(options)
    model.requires_grad_(False)
    for block in model.blocks:
        block.qkv, block.up = Adapted(block.qkv), Adapted(block.up)
    kept = {}

    def body(training, inputs):
        with training.cast():
            loss = training.model(*inputs)
        loss.backward()
        training.update()
        if training.index % 10 == 9:
            kept.update({name: value.cpu() for name, value in training.model.named_parameters() if value.requires_grad})
            with torch.no_grad(), training.cast():
                loss = loss + training.model(inputs[0][:1], inputs[1][:1])
        return loss

    return Loop(options, model, text(2 if options.small else 16, longest // 16, longest, words), body)


def grpo(options):
    """The model answers prompts, and then learns from its answers: a growing cache and a training step in one."""
    answers = Generation(options)
    model = answers.model.float().train()
    rows, fresh, longest, words = answers.rows, answers.fresh, answers.longest // 2, answers.words

    def batch(random):
        return torch.randint(2, words, (rows, drawn(random, 8, longest)), generator=random), torch.rand(rows, generator=random)

    def body(training, inputs):
        prompt, reward = inputs
        with torch.no_grad(), training.cast():
            made = training.model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=fresh, min_new_tokens=fresh, do_sample=False, pad_token_id=0
            )
        with training.cast():
            logits = training.model(made[:, :-1]).logits[:, prompt.shape[1] - 1 :]
        chosen = logits.float().log_softmax(-1).gather(-1, made[:, prompt.shape[1] :, None]).squeeze(-1)
        loss = -(chosen.mean(1) * (reward - reward.mean())).mean()
        return training.learn(loss)

    return Loop(options, model, batch, body)


def speculative(options):
    """A small model proposes four tokens at a time, and a large one says which of them it takes."""
    large, words = Generation(options), 512 if options.small else 32000
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    small = LlamaForCausalLM(config).to(options.device, torch.bfloat16).eval()

    def proposed(known, cache):
        made = small(known[:, cache.get_seq_length() :] if cache else known, past_key_values=cache, use_cache=True)
        cache = made.past_key_values
        for _ in range(4):
            known = torch.cat((known, made.logits[:, -1:].argmax(-1)), 1)
            made = small(known[:, -1:], past_key_values=cache, use_cache=True)
        return known, cache

    @torch.no_grad()
    def step(batch):
        known = batch[0][:4].to(options.device)
        own = other = None
        ends = known.shape[1] + large.fresh
        while known.shape[1] < ends:
            before = known.shape[1]
            known, other = proposed(known, other)
            made = large.model(known[:, own.get_seq_length() :] if own else known, past_key_values=own, use_cache=True)
            own = made.past_key_values
            # Random weights agree on nothing: the number that is taken follows from the tokens.
            taken = before + 1 + int(made.logits[:, -1].argmax(-1).sum()) % 4
            known = known[:, :taken]
            for cache in (own, other):
                if cache.get_seq_length() >= taken:
                    cache.crop(taken - 1 - cache.get_seq_length())
        return known.double().mean()

    large.step = step
    return large


def speech(options):
    """Sounds of random lengths: convolutions, and then a transformer with a loss over alignments."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    small = options.small
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_dim=(16,) * 7, num_conv_pos_embedding_groups=2) if small else {}
    # These two draw masks on the host and skip layers at random.
    model = Wav2Vec2ForCTC(Wav2Vec2Config(vocab_size=32, mask_time_prob=0.0, layerdrop=0.0, pad_token_id=0, ctc_zero_infinity=True, **sizes))
    rows, longest = (2, 8000) if small else (8, 240_000)

    def batch(random):
        return torch.randn(rows, drawn(random, longest // 4, longest), generator=random), torch.randint(1, 32, (rows, drawn(random, 3, 20)), generator=random)

    def body(training, inputs):
        with training.cast():
            loss = training.model(input_values=inputs[0], labels=inputs[1]).loss
        return training.learn(loss)

    return Loop(options, model, batch, body)


def segmentation(options):
    """Pictures of random sizes, with a class for each pixel."""
    from torchvision.models.segmentation import deeplabv3_resnet50

    rows, low, high = (2, 32, 64) if options.small else (8, 256, 512)
    model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)

    def batch(random):
        size = [8 * drawn(random, low // 8, high // 8) for _ in range(2)]
        return torch.randn(rows, 3, *size, generator=random), torch.randint(21, (rows, *size), generator=random)

    def body(training, inputs):
        with training.cast():
            loss = functional.cross_entropy(training.model(inputs[0])["out"].float(), inputs[1])
        return training.learn(loss)

    return Loop(options, model, batch, body)


class Actor(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(width), nn.ReLU())
        self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, x):
        inner = self.inner(x)
        return self.policy(inner), self.value(inner).squeeze(-1)


def ppo(options):
    """A game is played for 32 moves, whose results are kept; four passes over them follow, in random parts."""
    rows, size, moves = (4, 44, 4) if options.small else (256, 84, 32)
    model = Actor(64 if options.small else 512, 6).to(options.device)
    model(torch.zeros(1, 4, size, size, device=options.device))

    def batch(random):
        return torch.rand(rows, 4, size, size, generator=random), torch.stack([torch.randperm(rows * moves, generator=random) for _ in range(4)])

    def body(training, inputs):
        seen, order = inputs
        kept = []
        with torch.no_grad():
            for move in range(moves):
                policy, value = training.model(seen)
                action = policy.argmax(-1)
                kept.append((seen, action, policy.log_softmax(-1).gather(-1, action[:, None]).squeeze(-1), value))
                seen = (seen * 0.99 + action[:, None, None, None] * 0.001).roll(1, 1)
        states, actions, before, values = (torch.cat(part) for part in zip(*kept, strict=True))
        gains = values.view(moves, -1).flip(0).cumsum(0).flip(0).flatten()
        total = 0
        for passed in order:
            for part in passed.chunk(8):
                policy, value = training.model(states[part])
                ratio = (policy.log_softmax(-1).gather(-1, actions[part][:, None]).squeeze(-1) - before[part]).exp()
                loss = -torch.min(ratio * gains[part], ratio.clamp(0.8, 1.2) * gains[part]).mean() + (value - gains[part]).square().mean()
                loss.backward()
                training.update()
                total = total + loss.detach()
        return total

    return Loop(options, model, batch, body, autocast=False)


def meta(options):
    """An inner step that is itself differentiated: the graph of the gradients stays until the end."""
    rows, width, layers = (4, 32, 3) if options.small else (2048, 1024, 8)
    model = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())))

    def batch(random):
        return [torch.randn(rows, width, generator=random) for _ in range(drawn(random, 2, 4))]

    def body(training, inputs):
        values = dict(training.model.named_parameters())
        for given in inputs[:-1]:
            loss = torch.func.functional_call(training.model, values, given).square().mean()
            grads = torch.autograd.grad(loss, list(values.values()), create_graph=True)
            values = {name: value - 0.01 * grad for (name, value), grad in zip(values.items(), grads, strict=True)}
        loss = torch.func.functional_call(training.model, values, inputs[-1]).square().mean()
        return training.learn(loss)

    return Loop(options, model, batch, body, autocast=False)


class Points(nn.Module):
    """Points fall into cells. Those of a cell are joined, and the number of cells follows from the points."""

    def __init__(self, width, levels):
        super().__init__()
        self.levels = levels
        self.begin = nn.Linear(6, width)
        self.inner = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(levels))
        self.head = nn.Linear(width, 13)

    def forward(self, places, colours):
        x = self.begin(torch.cat((places, colours), 1))
        for level in range(self.levels):
            x = x + self.inner[level](x)
            cells = (places * (256 >> level)).long()
            numbers = (cells[:, 0] * 1024 + cells[:, 1]) * 1024 + cells[:, 2]
            _, of, count = numbers.unique(return_inverse=True, return_counts=True)
            joined = torch.zeros(len(count), x.shape[1], device=x.device, dtype=x.dtype).index_add(0, of, x) / count[:, None]
            middle = torch.zeros(len(count), 3, device=x.device).index_add(0, of, places) / count[:, None]
            x, places = joined, middle
        return self.head(x)


def points(options):
    """Clouds of random numbers of points."""
    low, high = (200, 400) if options.small else (200_000, 600_000)

    def batch(random):
        count = drawn(random, low, high)
        return torch.rand(count, 3, generator=random), torch.rand(count, 3, generator=random)

    def body(training, inputs):
        loss = training.model(*inputs).square().mean()
        return training.learn(loss)

    return Loop(options, Points(16 if options.small else 128, 4), batch, body, autocast=False)


class Recommender(nn.Module):
    """Tables of which a row reads a random number of entries, and a network on their sums."""

    def __init__(self, tables, entries, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(entries, width, mode="sum", sparse=True) for _ in range(tables))
        self.head = nn.Sequential(nn.Linear(tables * width, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, numbers, starts):
        return self.head(torch.cat([table(number, start) for table, number, start in zip(self.tables, numbers, starts, strict=True)], 1))


def recommender(options):
    """Sparse gradients: how much memory they take follows from the batch."""
    tables, entries, width, rows = (3, 100, 8, 4) if options.small else (16, 200_000, 64, 4096)
    model = Recommender(tables, entries, width)

    def batch(random):
        counts = [torch.randint(1, 40, (rows,), generator=random) for _ in range(tables)]
        numbers = [torch.randint(entries, (int(count.sum()),), generator=random) for count in counts]
        return [*numbers, *(count.cumsum(0) - count for count in counts)]

    def body(training, inputs):
        loss = training.model(inputs[:tables], inputs[tables:]).square().mean()
        return training.learn(loss)

    loop = Loop(options, model, batch, body, autocast=False)
    loop.optimizer = torch.optim.SGD(loop.model.parameters(), lr=1e-3)
    return loop


MIXED = {
    "tokens": tokens,
    "adapters": adapters,
    "grpo": grpo,
    "speculative": speculative,
    "speech": speech,
    "segmentation": segmentation,
    "ppo": ppo,
    "meta": meta,
    "points": points,
    "recommender": recommender,
}
