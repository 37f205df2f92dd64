"""Models that the table of marks does not have: other networks, and training loops with more than one kind of step.

    MODELS=lstm,bert,accumulate tests/gpu/frameworks.sh models
"""


import torch
from torch import nn
from torch.nn import functional

import nets
from workloads import Generation, Training, text


class Loop(Training):
    """A training loop with a body of its own: `body(training, inputs)` does a step, and returns its loss."""

    def __init__(self, options, model, batch, body, autocast=True):
        super().__init__(options, model, batch, autocast=autocast)
        self.body, self.index = body, 0

    def cast(self):
        return torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.autocast)

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def learn(self, loss):
        loss.backward()
        self.update()
        return loss

    def step(self, batch):
        inputs = [part.to(self.device, non_blocking=True) for part in batch]
        loss = self.body(self, inputs)
        self.index += 1
        return loss.detach()


def _gpt(options, longest=1024):
    if options.small:
        return nets.Gpt(vocabulary=128, longest=64, width=32, layers=2, heads=2), 64, 128
    return nets.Gpt(), longest, 50257


def accumulate(options):
    """Four batches of random lengths, and then the optimizer."""
    model, longest, words = _gpt(options)
    rows = 2 if options.small else 4

    def batch(random):
        return [part for _ in range(4) for part in text(rows, longest // 16, longest, words)(random)]

    def body(training, inputs):
        total = 0
        for tokens, targets in zip(inputs[::2], inputs[1::2], strict=True):
            with training.cast():
                loss = training.model(tokens, targets)
            (loss / 4).backward()
            total = total + loss.detach()
        training.update()
        return total

    return Loop(options, model, batch, body)


def evaluate(options):
    """Training, and after each tenth step an evaluation of three larger batches."""
    model, longest, words = _gpt(options)
    rows = 2 if options.small else 8

    def body(training, inputs):
        with training.cast():
            loss = training.model(*inputs)
        loss.backward()
        training.update()
        if training.index % 10 == 9:
            with torch.no_grad(), training.cast():
                for _ in range(3):
                    loss = loss + training.model(*(part.repeat(2, 1) for part in inputs))
        return loss

    return Loop(options, model, text(rows, longest // 2, longest // 2, words), body)


def curriculum(options):
    """Each step has a longer text than the one before."""
    model, longest, words = _gpt(options)
    rows, lengths = 2 if options.small else 8, iter(range(longest // 8, 1 << 20, longest // 64))

    def batch(random):
        length = min(next(lengths), longest)
        return text(rows, length, length, words)(random)

    return Training(options, model, batch)


class Gan(nn.Module):
    """A generator of pictures and the network that judges them."""

    def __init__(self, width, size):
        super().__init__()
        self.width, self.small = width, size // 8
        self.begin = nn.Linear(64, 4 * width * self.small**2)
        self.make = nn.Sequential(
            *self.larger(4 * width, 2 * width), *self.larger(2 * width, width), nn.ConvTranspose2d(width, 3, 4, 2, 1)
        )
        self.judge = nn.Sequential(
            *(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2)),
            *(nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1)),
        )

    def larger(self, inner, outer):
        return nn.ConvTranspose2d(inner, outer, 4, 2, 1), nn.BatchNorm2d(outer), nn.ReLU()

    def pictures(self, noise):
        return self.make(self.begin(noise).view(-1, 4 * self.width, self.small, self.small)).tanh()


def gan(options):
    """Two updates of the judge, and one of the generator."""
    width, size, rows = (8, 32, 2) if options.small else (128, 64, 128)
    model = Gan(width, size).to(options.device)
    model.judge(torch.zeros(1, 3, size, size, device=options.device))

    def body(training, inputs):
        for pictures in inputs:
            with training.cast():
                made = training.model.pictures(torch.randn(rows, 64, device=pictures.device)).detach()
                loss = functional.softplus(-training.model.judge(pictures)).mean()
                loss = loss + functional.softplus(training.model.judge(made)).mean()
            loss.backward()
            training.update()
        with training.cast():
            made = training.model.pictures(torch.randn(rows, 64, device=training.device))
            loss = functional.softplus(-training.model.judge(made)).mean()
        return training.learn(loss)

    def batch(random):
        return [torch.randn(rows, 3, size, size, generator=random) for _ in range(2)]

    return Loop(options, model, batch, body)


class Recurrent(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.tokens, self.layers = nn.Embedding(words, width), nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens, targets):
        logits = self.head(self.layers(self.tokens(tokens))[0])
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def lstm(options):
    words, width, rows, longest = (128, 32, 2, 32) if options.small else (16000, 1024, 32, 512)
    return Training(options, Recurrent(words, width), text(rows, 16, longest, words))


def _labels(options, model, batch):
    """A batch has a text, and a text of labels."""

    def body(training, inputs):
        with training.cast():
            loss = training.model(input_ids=inputs[0], labels=inputs[1].contiguous()).loss
        return training.learn(loss)

    return Loop(options, model, batch, body)


def bert(options):
    from transformers import BertConfig, BertForMaskedLM

    if options.small:
        sizes = dict(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        return _labels(options, BertForMaskedLM(BertConfig(**sizes)), text(2, 16, 32, 128))
    return _labels(options, BertForMaskedLM(BertConfig()), text(16, 16, 512, 30000))


def t5(options):
    """An encoder and a decoder, each with a text of its own random length."""
    from transformers import T5Config, T5ForConditionalGeneration

    small = options.small
    sizes = dict(vocab_size=128, d_model=32, d_ff=64, num_layers=2, num_heads=2, d_kv=16) if small else dict(num_layers=8)
    model = T5ForConditionalGeneration(T5Config(decoder_start_token_id=0, **sizes))
    rows, longest, words = (2, 32, 128) if small else (16, 512, 32000)

    def batch(random):
        return text(rows, 16, longest, words)(random)[0], text(rows, 16, longest // 2, words)(random)[0]

    return _labels(options, model, batch)


def detection(options):
    """Pictures of random sizes with random numbers of boxes."""
    from torchvision.models.detection import fasterrcnn_resnet50_fpn

    low, high, count = (64, 96, 1) if options.small else (480, 800, 2)
    model = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, min_size=high // 2, max_size=high, num_classes=20)

    def batch(random):
        size = [int(torch.randint(low, high, (1,), generator=random)) for _ in range(2)]
        boxes = int(torch.randint(1, 12, (1,), generator=random))
        corners = torch.rand(count, boxes, 2, generator=random) * (low / 2)
        places = torch.cat((corners, corners + 16 + torch.rand(count, boxes, 2, generator=random) * (low / 2 - 16)), -1)
        return torch.rand(count, 3, *size, generator=random), places, torch.randint(1, 20, (count, boxes), generator=random)

    def body(training, inputs):
        pictures, boxes, labels = inputs
        targets = [{"boxes": b, "labels": n} for b, n in zip(boxes, labels, strict=True)]
        with training.cast():
            loss = sum(training.model(list(pictures), targets).values())
        return training.learn(loss)

    return Loop(options, model, batch, body)


class Unet(nn.Module):
    """Two scales of convolutions and attention between them."""

    def __init__(self, width):
        super().__init__()
        self.first, self.down = self.block(3, width), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.inner, self.norm = self.block(2 * width, 2 * width), nn.GroupNorm(8, 2 * width)
        self.attend = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up, self.last = nn.ConvTranspose2d(2 * width, width, 2, 2), self.block(2 * width, width)
        self.head = nn.Conv2d(width, 3, 1)

    def block(self, inner, outer):
        parts = [nn.Conv2d(inner, outer, 3, 1, 1), nn.GroupNorm(8, outer), nn.SiLU(), nn.Conv2d(outer, outer, 3, 1, 1), nn.SiLU()]
        return nn.Sequential(*parts)

    def forward(self, x):
        first = self.first(x)
        inner = self.inner(self.down(first))
        rows = self.norm(inner).flatten(2).transpose(1, 2)
        mixed = self.attend(rows, rows, rows, need_weights=False)[0].transpose(1, 2).reshape(inner.shape)
        return self.head(self.last(torch.cat((first, self.up(inner + mixed)), 1)))


def diffusion(options):
    """Pictures of one of four sizes at a step, with noise to be found."""
    width, sizes, rows = (8, [8, 12, 16, 24], 2) if options.small else (128, [48, 64, 80, 96], 16)

    def batch(random):
        size = sizes[int(torch.randint(4, (1,), generator=random))]
        return [torch.randn(rows, 3, size, size, generator=random) for _ in range(2)]

    def body(training, inputs):
        pictures, noise = inputs
        with training.cast():
            loss = functional.mse_loss(training.model(pictures + noise).float(), noise)
        return training.learn(loss)

    return Loop(options, Unet(width), batch, body)


def swin(options):
    """Layers that are left out at random, for single pictures of the batch."""
    from torchvision.models import swin_t

    rows, size = (2, 64) if options.small else (64, 224)

    def batch(random):
        return torch.randn(rows, 3, size, size, generator=random), torch.randint(1000, (rows,), generator=random)

    return Training(options, swin_t(), batch, functional.cross_entropy)


class Drawn(Generation):
    """Generation with other settings of `generate`."""

    def __init__(self, options, **settings):
        super().__init__(options)
        self.settings = settings

    @torch.no_grad()
    def step(self, batch):
        prompt = batch[0].to(self.device)
        settings = dict(max_new_tokens=self.fresh, min_new_tokens=self.fresh, use_cache=True, pad_token_id=0) | self.settings
        return self.model.generate(prompt, attention_mask=torch.ones_like(prompt), **settings).double().mean()


def serve(options):
    """Eight requests of a server at a time, which end at different lengths; new ones join. The cache is a list of tensors."""
    drawn = Generation(options)
    drawn.rows = 1
    running = []

    def step(batch):
        running.append([batch[0].to(drawn.device), None])
        with torch.no_grad():
            for _ in range(4):
                for request in running:
                    made = drawn.model(request[0] if request[1] is None else request[0][:, -1:], past_key_values=request[1], use_cache=True)
                    request[:] = torch.cat((request[0], made.logits[:, -1:].argmax(-1)), 1), made.past_key_values
        # The request that began eight steps ago ends, or at random one that began later.
        ended = running.pop(0 if len(running) > 8 else -1) if len(running) > 7 or batch[0].shape[1] % 3 == 0 else running[-1]
        return ended[0].double().mean()

    drawn.step = step
    return drawn


FURTHER = {
    "accumulate": accumulate,
    "evaluate": evaluate,
    "curriculum": curriculum,
    "gan": gan,
    "lstm": lstm,
    "bert": bert,
    "t5": t5,
    "detection": detection,
    "diffusion": diffusion,
    "swin": swin,
    "beams": lambda options: Drawn(options, num_beams=4, do_sample=False),
    "static-cache": lambda options: Drawn(options, do_sample=False, cache_implementation="static"),
    "serve": serve,
}
