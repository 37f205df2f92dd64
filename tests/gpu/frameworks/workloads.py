"""The models of `models.py`: each is a function that makes the batch of a step, and one that does the step."""

import torch
from torch.nn import functional

import nets


class Training:
    """A model with AdamW. A step is forward, backward and the optimizer, in bf16 by autocast."""

    def __init__(self, options, model, batch, loss=None, autocast=True):
        self.device, self.autocast = options.device, autocast
        self.model = model.to(options.device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.batch, self.loss = batch, loss

    def step(self, batch):
        inputs = [part.to(self.device, non_blocking=True) for part in batch]
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.autocast):
            loss = self.model(*inputs) if self.loss is None else self.loss(self.model(inputs[0]), inputs[1])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


class Generation:
    """A random-weight Llama answers prompts of random length. Its cache grows with each token."""

    def __init__(self, options):
        from transformers import LlamaConfig, LlamaForCausalLM

        small = options.small
        width, layers = (64, 2) if small else (1024, 6)
        config = LlamaConfig(
            vocab_size=512 if small else 32000, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=2048, bos_token_id=1, eos_token_id=None,
        )  # fmt: skip
        self.model = LlamaForCausalLM(config).to(options.device, torch.bfloat16).eval()
        self.model.generation_config.eos_token_id = None
        self.device, self.rows, self.fresh = options.device, 2 if small else 24, 4 if small else 32
        self.longest, self.words = (32, 512) if small else (768, 32000)

    def batch(self, random):
        length = int(torch.randint(16, self.longest, (1,), generator=random))
        return (torch.randint(2, self.words, (self.rows, length), generator=random),)

    @torch.no_grad()
    def step(self, batch):
        prompt = batch[0].to(self.device)
        answer = self.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=self.fresh, min_new_tokens=self.fresh,
            do_sample=False, use_cache=True, pad_token_id=0,
        )  # fmt: skip
        return answer[:, prompt.shape[1] :].double().mean()


def text(rows, shortest, longest, words):
    """Batches of token sequences. Within a batch all sequences have one length."""

    def batch(random):
        length = int(torch.randint(shortest, longest + 1, (1,), generator=random))
        text = torch.randint(words, (rows, length + 1), generator=random)
        return text[:, :-1], text[:, 1:]

    return batch


def _gpt2(options, shortest, checkpointed=False):
    if options.small:
        model = nets.Gpt(vocabulary=128, longest=64, width=32, layers=2, heads=2, checkpointed=checkpointed)
        return Training(options, model, text(2, shortest // 16, 64, 128))
    return Training(options, nets.Gpt(checkpointed=checkpointed), text(options.rows or 8, shortest, 1024, 50257))


def _mixtral(options):
    if options.small:
        model = nets.Mixtral(vocabulary=128, width=32, layers=2, heads=4, groups=2, inner=48, experts=4)
        return Training(options, model, text(2, 32, 32, 128))
    return Training(options, nets.Mixtral(), text(options.rows or 4, 1024, 1024, 32000))


def _pictures(options, model, rows, size):
    """Four batches of noise in turn: to draw new ones would take longer than the step."""
    drawn = torch.Generator("cpu").manual_seed(options.seed)
    made = []
    for _ in range(4):
        pictures = torch.randn(rows, 3, size, size, generator=drawn, device="cpu")
        labels = torch.randint(10, (rows,), generator=drawn, device="cpu")
        made.append((pictures.pin_memory(), labels.pin_memory()))
    turn = iter(range(1 << 30))
    return Training(options, model, lambda _: made[next(turn) % 4], functional.cross_entropy)


def _resnet(options):
    from torchvision.models import resnet18, resnet50

    model = resnet18(num_classes=10) if options.small else resnet50()
    return _pictures(options, model, *((2, 64) if options.small else (options.rows or 64, 224)))


def _vit(options):
    from torchvision.models import vit_b_16
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(32, 16, 2, 2, 32, 64, num_classes=10) if options.small else vit_b_16()
    return _pictures(options, model, *((2, 32) if options.small else (options.rows or 64, 224)))


def _graph(options):
    nodes, seeds = (2000, 32) if options.small else (400_000, 1024)
    model = nets.Sampled(options.device, nodes=nodes)

    def batch(random):
        count = int(torch.randint(seeds // 2, seeds * 2, (1,), generator=random))
        return (torch.randperm(nodes, generator=random)[:count],)

    return Training(options, model, batch, autocast=False)


MODELS = {
    "gpt2": lambda options: _gpt2(options, 1024),
    "gpt2-random": lambda options: _gpt2(options, 64),
    "mixtral": _mixtral,
    "resnet50": _resnet,
    "vit": _vit,
    "graph": _graph,
    "generate": Generation,
    "gpt2-checkpointed": lambda options: _gpt2(options, 64, checkpointed=True),
}
# Those of the table. The last one is for `plan.py`.
MEASURED = [name for name in MODELS if name != "gpt2-checkpointed"]
