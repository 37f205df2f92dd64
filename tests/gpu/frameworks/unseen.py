"""More models, written after the planner was. Nothing in gpucache was tuned on them before they first ran.

    MODELS=clip,nerf,shampoo tests/gpu/frameworks.sh models
"""

import copy

import torch
from torch import nn
from torch.nn import functional

import nets
from further import Loop, _gpt
from mixed import drawn
from workloads import text


def sizes(options):
    """A convolutional network on square pictures whose size is drawn anew for each batch."""
    from torchvision.models import convnext_tiny

    model = convnext_tiny(num_classes=10)
    rows, low, high = (2, 2, 3) if options.small else (24, 5, 10)

    def batch(random):
        size = 32 * drawn(random, low, high)
        return torch.randn(rows, 3, size, size, generator=random), torch.randint(10, (rows,), generator=random)

    def body(training, inputs):
        with training.cast():
            loss = functional.cross_entropy(training.model(inputs[0]), inputs[1])
        return training.learn(loss)

    return Loop(options, model, batch, body)


class Towers(nn.Module):
    """Two encoders, of pictures and of texts, whose results are compared with each other."""

    def __init__(self, small):
        super().__init__()
        from torchvision.models import resnet18

        self.pictures = resnet18(num_classes=64)
        width, layers, words = (32, 1, 128) if small else (512, 6, 32000)
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
        self.texts, self.last = nn.TransformerEncoder(layer, layers), nn.Linear(width, 64)

    def forward(self, pictures, texts):
        seen = functional.normalize(self.pictures(pictures), dim=-1)
        read = functional.normalize(self.last(self.texts(self.words(texts)).mean(1)), dim=-1)
        return 10 * seen @ read.T


def clip(options):
    """Pictures and texts of random length, of which the pairs are learned."""
    rows, longest, words = (4, 12, 128) if options.small else (64, 77, 32000)

    def batch(random):
        pictures = torch.randn(rows, 3, 64, 64, generator=random)
        return pictures, torch.randint(words, (rows, drawn(random, 8, longest)), generator=random)

    def body(training, inputs):
        with training.cast():
            scores = training.model(*inputs)
            target = torch.arange(len(scores), device=scores.device)
            loss = functional.cross_entropy(scores, target) + functional.cross_entropy(scores.T, target)
        return training.learn(loss)

    return Loop(options, Towers(options.small), batch, body)


class Translator(nn.Module):
    """A recurrent encoder, and a decoder that looks at all its states, one word after the other."""

    def __init__(self, words, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell, self.last = nn.GRUCell(2 * width, width), nn.Linear(width, words)

    def forward(self, source, target):
        states, hidden = self.encoder(self.words(source))
        hidden, loss = hidden[0], 0
        for known, wanted in zip(target[:, :-1].T, target[:, 1:].T, strict=True):
            weights = torch.einsum("bsw,bw->bs", states, hidden).softmax(-1)
            seen = torch.einsum("bs,bsw->bw", weights, states)
            hidden = self.cell(torch.cat((self.words(known), seen), -1), hidden)
            loss = loss + functional.cross_entropy(self.last(hidden), wanted)
        return loss / (target.shape[1] - 1)


def seq2seq(options):
    """Sentences of random lengths on both sides; the decoder is a loop of as many turns as the target has words."""
    words, width, rows, longest = (64, 16, 2, 8) if options.small else (8000, 512, 64, 48)

    def batch(random):
        return [torch.randint(words, (rows, drawn(random, 4, longest)), generator=random) for _ in range(2)]

    return Loop(options, Translator(words, width), batch, lambda training, inputs: training.learn(training.model(*inputs)), autocast=False)


class Unet(nn.Module):
    """Convolutions down to an eighth of the size and up again, with a connection at each size."""

    def __init__(self, width):
        super().__init__()
        widths = [width << level for level in range(4)]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(self.block(a, b) for a, b in zip(widths, widths[1:], strict=False))
        self.up = nn.ModuleList(self.block(a + b, a) for a, b in zip(widths, widths[1:], strict=False))
        self.last = nn.Conv2d(width, 3, 1)

    @staticmethod
    def block(inner, outer):
        return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU())

    def forward(self, x):
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(functional.avg_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up in reversed(self.up):
            x = up(torch.cat((kept.pop(), functional.interpolate(x, scale_factor=2.0)), 1))
        return self.last(x)


def averaged(options):
    """A diffusion model in half precision: a gradient scaler, a copy whose weights are averages, and two kinds of loss."""
    size, rows, width = (16, 2, 8) if options.small else (96, 24, 64)
    model = Unet(width)
    average = copy.deepcopy(model).to(options.device).requires_grad_(False)
    scaler = torch.amp.GradScaler(options.device, enabled=options.device == "cuda")

    def body(training, inputs):
        noise = inputs[1]
        with torch.autocast(training.device, dtype=torch.float16 if training.device == "cuda" else torch.bfloat16):
            made = training.model(inputs[0] + noise)
            loss = functional.mse_loss(made.float(), noise)
            if training.index % 3 == 0:
                loss = loss + (made.float() - average(inputs[0] + noise).float()).abs().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(training.optimizer)
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        scaler.step(training.optimizer)
        scaler.update()
        training.optimizer.zero_grad()
        with torch.no_grad():
            for kept, weight in zip(average.parameters(), training.model.parameters(), strict=True):
                kept.lerp_(weight, 0.01)
        return loss

    return Loop(options, model, lambda random: torch.randn(2, rows, 3, size, size, generator=random).unbind(), body)


def nerf(options):
    """Rays through a field. Points of little weight are left out, so most sizes follow from data; pictures are drawn in pieces."""
    width, rays, points = (32, 64, 8) if options.small else (256, 4096, 64)
    layers = [nn.Linear(39, width), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 4))

    def field(training, places):
        waves = [places] + [wave(places * 2**power) for power in range(6) for wave in (torch.sin, torch.cos)]
        return training.model(torch.cat(waves, -1))

    def colors(training, inputs):
        places = inputs[0][:, None] + torch.linspace(0, 1, points, device=training.device)[None, :, None] * inputs[1][:, None]
        kept = places.norm(dim=-1) < 1.2
        made = torch.zeros(*places.shape[:2], 4, device=training.device)
        made[kept] = field(training, places[kept])
        weights = 1 - (-functional.softplus(made[..., 3]) / points).exp()
        through = torch.cumprod(torch.cat((torch.ones_like(weights[:, :1]), 1 - weights[:, :-1]), 1), 1)
        return ((weights * through)[..., None] * made[..., :3].sigmoid()).sum(1)

    def body(training, inputs):
        loss = training.learn(functional.mse_loss(colors(training, inputs), inputs[2]))
        if training.index % 15 == 14:
            with torch.no_grad():
                for _ in range(4):
                    loss = loss + colors(training, inputs).mean()
        return loss

    return Loop(options, model, lambda random: torch.rand(3, rays, 3, generator=random).unbind(), body, autocast=False)


def distill(options):
    """A small model learns what a large one says about texts of random length."""
    teacher, longest, words = _gpt(options)
    teacher = teacher.to(options.device).eval().requires_grad_(False)
    student = nets.Gpt(vocabulary=words, longest=longest, width=32 if options.small else 384, layers=2, heads=2)

    def logits(model, tokens):
        x = model.tokens(tokens) + model.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in model.blocks:
            x = block(x)
        return model.head(model.last(x))

    def body(training, inputs):
        with training.cast():
            with torch.no_grad():
                wanted = logits(teacher, inputs[0]).float().softmax(-1)
            loss = -(wanted * logits(training.model, inputs[0]).float().log_softmax(-1)).sum(-1).mean()
        return training.learn(loss)

    return Loop(options, student, text(2 if options.small else 4, longest // 16, longest, words), body)


class Preconditioned(torch.optim.Optimizer):
    """Shampoo: the gradient of each matrix between two roots, which are computed again in each tenth step."""

    def __init__(self, parameters, rate=1e-3):
        super().__init__(parameters, {"rate": rate})
        self.steps = 0

    @staticmethod
    def root(matrix):
        values, vectors = torch.linalg.eigh(matrix + 1e-4 * torch.eye(len(matrix), device=matrix.device))
        return vectors * values.clamp(min=1e-6).pow(-0.25) @ vectors.T

    @torch.no_grad()
    def step(self):
        for weight in (weight for group in self.param_groups for weight in group["params"] if weight.grad is not None):
            gradient = weight.grad
            if gradient.dim() == 2 and max(gradient.shape) <= 2048:
                kept = self.state[weight]
                if not kept:
                    kept["sums"] = [torch.zeros(size, size, device=weight.device) for size in gradient.shape]
                kept["sums"][0] += gradient @ gradient.T
                kept["sums"][1] += gradient.T @ gradient
                if self.steps % 10 == 0:
                    kept["roots"] = [self.root(total) for total in kept["sums"]]
                gradient = kept["roots"][0] @ gradient @ kept["roots"][1]
            weight -= self.defaults["rate"] * gradient
        self.steps += 1


def shampoo(options):
    """An optimizer whose tenth step is much larger than the others."""
    longest, words, width = (32, 64, 32) if options.small else (512, 4000, 384)
    model = nets.Gpt(vocabulary=words, longest=longest, width=width, layers=2 if options.small else 6, heads=4)
    made = Loop(options, model, text(2 if options.small else 8, longest // 4, longest, words), lambda t, i: t.learn(t.model(*i)), autocast=False)
    made.optimizer = Preconditioned(made.model.parameters())
    return made


class Answers:
    """Three models answer requests of random size in random order, without gradients."""

    def __init__(self, options):
        from torchvision.models import efficientnet_b0, resnet18

        gpt, longest, words = _gpt(options)
        self.device, self.longest, self.words = options.device, longest, words
        self.models = [model.to(options.device).eval() for model in (gpt, resnet18(), efficientnet_b0())]
        self.rows, self.size = (2, 64) if options.small else (16, 224)

    def batch(self, random):
        made = []
        for _ in range(3):
            kind, rows = drawn(random, 0, 2), drawn(random, 1, self.rows)
            if kind == 0:
                length = drawn(random, self.longest // 8, self.longest)
                made.append((kind, torch.randint(self.words, (2, rows, length), generator=random)))
            else:
                made.append((kind, torch.randn(rows, 3, self.size, self.size, generator=random)))
        return made

    @torch.no_grad()
    def step(self, batch):
        total = 0
        for kind, request in batch:
            request = request.to(self.device)
            made = self.models[kind](*request) if kind == 0 else self.models[kind](request)
            total = total + made.float().mean()
        return total


UNSEEN = {
    "sizes": sizes,
    "clip": clip,
    "seq2seq": seq2seq,
    "averaged": averaged,
    "nerf": nerf,
    "distill": distill,
    "shampoo": shampoo,
    "answers": Answers,
}
