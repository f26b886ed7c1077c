"""Trains a small language model with torch's operations, with ferrowarp's but torch's linear layers, and with ferrowarp's alone.

``python train.py`` prints the losses and the time of a step of each, eager and compiled, and writes them as JSON to the file that
``--json`` names. It needs a GPU; ``--device cpu`` runs a few steps of a tiny model.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

import ferrowarp as fw


class Torch:
    """The operations of torch."""

    @staticmethod
    def norm(x, more, weight):
        """The norm of x plus more, and that sum."""
        x = x if more is None else x + more
        return functional.rms_norm(x, x.shape[-1:], weight, 1e-6), x

    @staticmethod
    def attention(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    linear = staticmethod(functional.linear)

    @staticmethod
    def linear_gelu(x, weight):
        return functional.gelu(functional.linear(x, weight), approximate="tanh")

    @staticmethod
    def loss(logits, targets):
        # In float32, as ferrowarp computes it.
        return functional.cross_entropy(logits.float(), targets)


class Ferrowarp(Torch):
    """ferrowarp's norms, attention and cross entropy, and torch's linear layers."""

    @staticmethod
    def norm(x, more, weight):
        return (fw.rms_norm(x, weight), x) if more is None else fw.rms_norm(x, weight, residual=more)

    attention = staticmethod(lambda q, k, v: fw.attention(q, k, v, causal=True))
    loss = staticmethod(lambda logits, targets: fw.cross_entropy(logits, targets))


class Everything(Ferrowarp):
    """ferrowarp's linear layers too."""

    linear = staticmethod(lambda x, weight: fw.matmul(x, weight.t()))
    linear_gelu = staticmethod(lambda x, weight: fw.matmul(x, weight.t(), activation="gelu"))


class Model(nn.Module):
    """A decoder of some layers."""

    def __init__(self, ops, vocabulary, width, layers, heads):
        super().__init__()
        self.ops, self.heads = ops, heads
        self.embedding = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        shapes = {"qkv": (3 * width, width), "out": (width, width), "up": (4 * width, width), "down": (width, 4 * width)}
        self.layers = nn.ModuleList(
            nn.ParameterDict(
                {name: nn.Parameter(0.02 * torch.randn(of)) for name, of in shapes.items()}
                | {"norm1": nn.Parameter(torch.ones(width)), "norm2": nn.Parameter(torch.ones(width))}
            )
            for _ in range(layers)
        )
        self.norm = nn.Parameter(torch.ones(width))

    def forward(self, tokens, targets):
        ops = self.ops
        x, more = functional.embedding(tokens, self.embedding), None
        for layer in self.layers:
            batch, length, width = x.shape
            y, x = ops.norm(x, more, layer["norm1"])
            q, k, v = ops.linear(y, layer["qkv"]).view(batch, length, 3, self.heads, width // self.heads).unbind(2)
            more = ops.linear(ops.attention(q, k, v).reshape(x.shape), layer["out"])
            y, x = ops.norm(x, more, layer["norm2"])
            more = ops.linear(ops.linear_gelu(y, layer["up"]), layer["down"])
        logits = ops.linear(ops.norm(x, more, self.norm)[0], self.embedding)
        return ops.loss(logits.flatten(0, 1), targets.flatten())


def text(length, vocabulary, device):
    """Tokens with something to learn: each depends on the two before, most of the time."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.rand(length, generator=generator).tolist()
    drawn = torch.randint(vocabulary, (length,), generator=generator).tolist()
    tokens = [1, 2]
    for at in range(length - 2):
        tokens.append((5 * tokens[-1] + 3 * tokens[-2] + 7) % vocabulary if noise[at] < 0.8 else drawn[at])
    return torch.tensor(tokens, device=device)


class Run:
    """A model in training."""

    def __init__(self, ops, options, compiled):
        torch.manual_seed(0)
        self.model = Model(ops, options.vocabulary, options.width, options.layers, options.heads)
        self.model = self.model.to(options.device, torch.bfloat16)
        self.function = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3, fused=options.device == "cuda")
        self.generator = torch.Generator().manual_seed(2)
        self.options, self.losses, self.times = options, [], []

    def step(self, data, is_timed=False):
        options = self.options
        starts = torch.randint(len(data) - options.length - 1, (options.batch,), generator=self.generator)
        chosen = (starts[:, None] + torch.arange(options.length + 1)).to(options.device)
        batch = data[chosen]
        if options.device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        loss = self.function(batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())
        if options.device == "cuda":
            torch.cuda.synchronize()
        if is_timed:
            self.times.append(time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.device == "cpu":
        options.vocabulary, options.width, options.layers, options.heads = 64, 32, 1, 2
        options.batch, options.length, options.steps = 2, 16, 4
    data = text(1 << 16, options.vocabulary, options.device)
    kinds = [False] if options.eager or options.device == "cpu" else [False, True]
    runs = {(ops.__name__.lower(), compiled): Run(ops, options, compiled) for compiled in kinds for ops in (Torch, Ferrowarp, Everything)}
    for (name, compiled), run in runs.items():
        start = time.perf_counter()
        run.step(data)
        print(f"{name}, {'compiled' if compiled else 'eager'}: the first step took {time.perf_counter() - start:.1f} s", flush=True)
    for step in range(1, options.steps):
        # In turns, so that all have the same clock. The first steps compile and fill caches.
        for run in runs.values():
            run.step(data, is_timed=step >= 5 or options.device == "cpu")
    results = []
    for (name, compiled), run in runs.items():
        losses = [loss.item() for loss in run.losses]
        millis = 1e3 * statistics.median(run.times)
        results.append({"ops": name, "compiled": compiled, "milliseconds": millis, "losses": losses})
        way = "compiled" if compiled else "eager"
        print(f"{name:10} {way:8}: {millis:8.2f} ms a step; losses {losses[0]:.4f}, {losses[len(losses) // 2]:.4f}, {losses[-1]:.4f}")
    first = results[0]["losses"]
    difference = max(abs(a - b) for result in results for a, b in zip(first, result["losses"]))
    print(f"the losses of a step differ by at most {difference:.4f}")
    if options.json:
        gpu = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
        with open(options.json, "w") as file:
            json.dump({"gpu": gpu, "torch": torch.__version__, "steps": options.steps, "runs": results}, file)


if __name__ == "__main__":
    main()
