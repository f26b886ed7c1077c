"""The peers of `cargo bench mlp`: the same network, images, batches, rates and clock in PyTorch and JAX.

python3 benches/peers/mnist.py --out mnist-peers.json [--data DIR] [--peers NAMES] [--batches 16,64,256,1024]
    [--epochs 5] [--images N] [--seed 42] [--budget SECONDS] [--entry-seconds SECONDS] [--device cuda|cpu] [--list-settings]

DIR holds MNIST's four IDX files; without it the images are made up. They lie on the device as bytes, and a step gathers
its batch and scales it; the order of an epoch is a random permutation drawn before the clock starts. The last, short
batch is trained too. An epoch's time is the host's, from the first call until the device is done. A peer warms up, then
gets its first weights back and trains the epochs that are timed; the accuracy is that after the last of them. What
takes longer than --entry-seconds trains fewer epochs and has no accuracy, except with f32 in batches of 64.

Names: eager, graph (a CUDA graph of 100 steps, the rest of an epoch by a graph of one), epoch-graph (a CUDA graph of a
whole epoch), compile (torch.compile of the step; the last, short batch is not compiled), jax (jit of an epoch, a scan
over its steps). On a GPU each is timed with products of f32 and with factors rounded to TF32. A framework that is not
installed, and a peer that fails, is an entry with the error. Batches of 64 come first, then the others in f32, then those
in TF32, and what takes least time first, so that no budget leaves a peer or a batch without a time.
"""

import argparse
import functools
import gzip
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

SIZES = (784, 300, 100, 10)
BATCHES = (16, 64, 256, 1024)
RUN = 5
# The size that accuracies are compared at.
USUAL = 64
# The steps that warm up what runs step by step.
WARM_UP_STEPS = 100
LR = 0.3
LR_DECAY = 0.7

# The most steps of a CUDA graph of many steps.
GRAPH_STEPS = 100
NAMES = {
    "eager": "torch eager",
    "graph": f"torch, CUDA graph of {GRAPH_STEPS} steps",
    "epoch-graph": "torch, CUDA graph of an epoch",
    "compile": "torch.compile",
    "jax": "JAX, scan over an epoch",
}
# Those that take least time first.
BY_COST = ("jax", "graph", "eager", "epoch-graph", "compile")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--data", type=pathlib.Path, help="the folder with the IDX files")
    parser.add_argument("--peers", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="images of a batch")
    parser.add_argument("--precisions", help="of f32, tf32; on a CPU f32 alone")
    parser.add_argument("--epochs", type=int, default=RUN, help="epochs that are timed")
    parser.add_argument("--images", type=int, default=60000, help="images of an epoch, at most")
    parser.add_argument("--lr", type=float, default=LR)
    parser.add_argument("--lr-decay", type=float, default=LR_DECAY)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds after which nothing more is begun")
    parser.add_argument("--entry-seconds", type=float, help="seconds of timed epochs after which no other is begun [on a GPU 2]")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--list-settings", action="store_true", help="print what `cargo bench mlp` must have too")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    if unknown := set(options.peers) - set(NAMES):
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    known = ["f32", "tf32"] if options.device == "cuda" else ["f32"]
    options.precisions = options.precisions.split(",") if options.precisions else known
    if unknown := set(options.precisions) - set(known):
        parser.error(f"no such precision here: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    if options.entry_seconds is None:
        options.entry_seconds = 2.0 if options.device == "cuda" else float("inf")
    try:
        options.batches = [int(batch) for batch in options.batches.split(",")]
    except ValueError:
        parser.error(f"--batches {options.batches} are no numbers; give such as 16,64")
    if min(*options.batches, options.epochs, options.images, 1 << 30) < 1:
        parser.error("batches, epochs and images must be at least 1")
    if options.out is None and not options.list_settings:
        parser.error("--out FILE is needed")
    return options


def main():
    options = parse()
    if options.list_settings:
        print(list(SIZES), list(BATCHES), RUN, LR, LR_DECAY)
        return
    sys.exit(0 if run(options) else 1)


def run(options):
    """Times the peers and writes the file after each; whether anything was timed."""
    global np
    import numpy as np

    # Before the frameworks are imported, which read these.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(os.cpu_count() or 1))
    os.environ["JAX_PLATFORMS"] = "cuda" if options.device == "cuda" else "cpu"
    start = time.monotonic()
    data = Data(options)
    frameworks = Frameworks(options, data)
    entries = []
    for precision, batch, peer in plan(options):
        entry = {"name": NAMES[peer], "precision": precision, "batch": batch}
        entry |= {"data": data.name, "images": len(data.labels)}
        began = time.monotonic() - start
        if began > options.budget:
            entry["error"] = f"left out: the budget of {options.budget:.0f} s was used up"
        elif batch > len(data.labels):
            entry["error"] = f"left out: there are only {len(data.labels)} images"
        else:
            try:
                entry |= measure(frameworks.trainer(peer, batch, precision), options, (precision, batch) == ("f32", USUAL))
            except Exception as error:  # One peer's failure is a result, whatever it is.
                entry["error"] = f"{type(error).__name__}: {error}"[:500]
        entries.append(entry)
        write(options.out, frameworks.machine() | {"entries": in_order(options, entries)})
        took = time.monotonic() - start - began
        print(f"[{began:.0f} s] {entry['name']} {precision} {batch}: {outcome(entry)}; took {took:.1f} s", flush=True)
    return any("epoch_seconds" in entry for entry in entries)


def plan(options):
    """Precision, batch and peer, the most important first: what is compared most, and what takes least."""

    def place(task):
        precision, batch, peer = task
        tier = 0 if batch == USUAL else 1 if precision == "f32" else 2
        return tier, options.precisions.index(precision), BY_COST.index(peer), options.batches.index(batch)

    tasks = [(p, b, name) for p in options.precisions for b in options.batches for name in options.peers]
    return sorted(tasks, key=place)


def in_order(options, entries):
    """The entries peer by peer."""
    names = [NAMES[peer] for peer in options.peers]

    def place(entry):
        precision = options.precisions.index(entry["precision"])
        return names.index(entry["name"]), options.batches.index(entry["batch"]), precision

    return sorted(entries, key=place)


def outcome(entry):
    if "error" in entry:
        return entry["error"]
    seconds = statistics.median(entry["epoch_seconds"])
    accuracy = f", accuracy {100 * entry['accuracy']:.2f} %" if "accuracy" in entry else ""
    return f"{seconds:.4f} s an epoch, {len(entry['epoch_seconds'])} epochs{accuracy}"


def measure(trainer, options, is_whole):
    """The entry's figures. A trainer has `reset()`, `warm_up(order, lr)`, `epoch(order, lr)`, which waits, and `accuracy()`."""
    rng = np.random.default_rng(options.seed)
    orders = [trainer.order(rng.permutation(trainer.images)) for _ in range(options.epochs)]
    trainer.reset()
    trainer.warm_up(orders[0], options.lr)
    trainer.reset()
    seconds = []
    for number, order in enumerate(orders):
        lr = options.lr * options.lr_decay**number
        start = time.perf_counter()
        trainer.epoch(order, lr)
        seconds.append(time.perf_counter() - start)
        if not is_whole and sum(seconds) > options.entry_seconds:
            break
    figures = {"epoch_seconds": seconds}
    if len(seconds) == len(orders):
        figures["accuracy"] = trainer.accuracy()
    return figures


def write(path, results):
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)


class Data:
    """Images `[n, 784]` and labels `[n]` of both halves as bytes."""

    def __init__(self, options):
        if options.data is None:
            self.name = "synthetic"
            rng = np.random.default_rng(7)
            pictures = inked(rng, (SIZES[-1], SIZES[0]))
            self.labels, self.test_labels = (rng.integers(0, SIZES[-1], n, np.uint8) for n in (60000, 10000))
            self.pixels, self.test_pixels = (
                np.where(rng.random((len(labels), SIZES[0])) < 0.2, inked(rng, (len(labels), SIZES[0])), pictures[labels])
                for labels in (self.labels, self.test_labels)
            )
        else:
            self.name = "mnist"
            self.pixels, self.labels = read_half(options.data, "train")
            self.test_pixels, self.test_labels = read_half(options.data, "t10k")
        self.pixels, self.labels = self.pixels[: options.images], self.labels[: options.images]


def inked(rng, shape):
    """Random pixels of which one in five is not 0, as in MNIST."""
    return np.where(rng.random(shape) < 0.2, rng.integers(1, 256, shape), 0).astype(np.uint8)


def read_half(folder, half):
    images = read_idx(folder, f"{half}-images-idx3-ubyte")
    return images.reshape(len(images), -1), read_idx(folder, f"{half}-labels-idx1-ubyte")


def read_idx(folder, name):
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
            dims = raw[3]
            shape = np.frombuffer(raw, ">u4", dims, 4)
            return np.frombuffer(raw, np.uint8, offset=4 + 4 * dims).reshape(shape)
    raise SystemExit(f"{folder} has no {name}; run train-mnist once, which fetches it")


def first_weights(seed):
    """Layer by layer, uniform in 1 / sqrt(inputs) both ways, weights `[inputs, outputs]`."""
    rng = np.random.default_rng(seed)
    return [
        tuple(rng.uniform(-(i**-0.5), i**-0.5, shape).astype(np.float32) for shape in ((i, o), (o,)))
        for i, o in zip(SIZES, SIZES[1:])
    ]


class Frameworks:
    """The frameworks, imported when first needed."""

    def __init__(self, options, data):
        self.options = options
        self.data = data
        self.versions = {"python": platform.python_version()}

    def trainer(self, peer, batch, precision):
        if peer == "jax":
            import jax

            self.versions["jax"] = jax.__version__
            return JaxTrainer(self.options, self.data, batch, precision)
        import torch

        self.versions |= {"torch": torch.__version__}
        if torch.version.cuda:
            self.versions["cuda"] = torch.version.cuda
        if peer in ("graph", "epoch-graph"):
            if self.options.device != "cuda":
                raise RuntimeError("left out: CUDA graphs need a GPU")
            steps = None if peer == "epoch-graph" else GRAPH_STEPS
            return TorchGraph(self.options, self.data, batch, precision, steps)
        return TorchTrainer(self.options, self.data, batch, precision, is_compiled=peer == "compile")

    def machine(self):
        is_cuda = self.options.device == "cuda"
        found = {
            "machine": nvidia_smi("name") if is_cuda else "CPU",
            "driver": nvidia_smi("driver_version") if is_cuda else "none",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "versions": self.versions,
        }
        if commit := os.environ.get("FERROWARP_COMMIT"):
            found["commit"] = commit
        return found


def nvidia_smi(what):
    command = ("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader")
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
        return lines[0].strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


class TorchTrainer:
    """PyTorch, step by step. Weights, order and rate keep their places, so that graphs can be recorded."""

    def __init__(self, options, data, batch, precision, is_compiled=False):
        import torch

        self.torch = torch
        self.device = options.device
        self.seed = options.seed
        self.batch = batch
        self.images = len(data.labels)
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        self.pixels, self.labels = self.upload(data.pixels), self.upload(data.labels.astype(np.int64))
        self.test = self.upload(data.test_pixels), self.upload(data.test_labels.astype(np.int64))
        self.layers = [torch.nn.Linear(i, o).to(options.device) for i, o in zip(SIZES, SIZES[1:])]
        self.parameters = [p for layer in self.layers for p in (layer.weight, layer.bias)]
        self.lr = torch.zeros((), device=options.device)
        self.taken = torch.zeros(self.images, dtype=torch.int64, device=options.device)
        self.step = self.eager_step
        if is_compiled:
            # Without this a ninth batch size would run uncompiled, silently.
            torch._dynamo.reset()
            self.step = torch.compile(self.eager_step, dynamic=False)

    def upload(self, array):
        return self.torch.from_numpy(np.array(array, order="C")).to(self.device)

    def order(self, permutation):
        return self.upload(permutation.astype(np.int64))

    def reset(self):
        with self.torch.no_grad():
            for layer, (weights, biases) in zip(self.layers, first_weights(self.seed)):
                layer.weight.copy_(self.upload(weights.T))
                layer.bias.copy_(self.upload(biases))

    def logits(self, pixels):
        x = pixels.to(self.torch.float32) / 255
        for layer in self.layers[:-1]:
            x = self.torch.relu(layer(x))
        return self.layers[-1](x)

    def eager_step(self, index):
        torch = self.torch
        loss = torch.nn.functional.cross_entropy(self.logits(self.pixels[index]), self.labels[index])
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for parameter, gradient in zip(self.parameters, gradients):
                parameter.sub_(self.lr * gradient)

    def begin(self, order, lr):
        self.taken.copy_(order)
        self.lr.fill_(lr)

    def warm_up(self, order, lr):
        self.begin(order, lr)
        self.steps(min(WARM_UP_STEPS, self.images // self.batch) * self.batch)
        self.synchronize()

    def epoch(self, order, lr):
        self.begin(order, lr)
        whole = self.images // self.batch * self.batch
        self.steps(whole)
        if whole < self.images:
            self.eager_step(self.taken[whole:])
        self.synchronize()

    def steps(self, images):
        for first in range(0, images, self.batch):
            self.step(self.taken[first : first + self.batch])

    def synchronize(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def accuracy(self):
        pixels, labels = self.test
        with self.torch.no_grad():
            hits = (self.logits(pixels).argmax(1) == labels).sum().item()
        return hits / len(labels)


class TorchGraph(TorchTrainer):
    """PyTorch, an epoch of replays of a CUDA graph of many steps; the steps that are left over by graphs of one."""

    def __init__(self, options, data, batch, precision, steps):
        super().__init__(options, data, batch, precision)
        torch = self.torch
        whole = self.images // batch
        self.is_epoch = steps is None
        self.recorded = min(steps or whole, whole)
        # What the graphs read: the samples of their steps.
        self.many = self.taken if self.is_epoch else torch.zeros(self.recorded * batch, dtype=torch.int64, device="cuda")
        self.reset()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.eager_step(self.many[:batch])
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for number in range(self.recorded):
                self.eager_step(self.many[number * batch : (number + 1) * batch])
            if self.is_epoch and whole * batch < self.images:
                self.eager_step(self.many[whole * batch :])
        self.one_index = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self.one = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.one):
            self.eager_step(self.one_index)

    def warm_up(self, order, lr):
        # The first replays upload the graph.
        for _ in range(2):
            self.epoch(order, lr)

    def epoch(self, order, lr):
        self.begin(order, lr)
        first = 0
        if self.is_epoch:
            self.graph.replay()
            first = self.images
        while self.images - first >= len(self.many):
            self.many.copy_(self.taken[first : first + len(self.many)])
            self.graph.replay()
            first += len(self.many)
        while self.images - first >= self.batch:
            self.one_index.copy_(self.taken[first : first + self.batch])
            self.one.replay()
            first += self.batch
        if first < self.images:
            self.eager_step(self.taken[first:])
        self.synchronize()


class JaxTrainer:
    """JAX, an epoch as one program."""

    def __init__(self, options, data, batch, precision):
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp = jax, jnp
        self.seed = options.seed
        self.images = len(data.labels)
        self.data = jnp.asarray(data.pixels), jnp.asarray(data.labels.astype(np.int32))
        self.test = jnp.asarray(data.test_pixels), jnp.asarray(data.test_labels.astype(np.int32))
        # Part of what is compiled, so it is set while it is traced too.
        self.precision = "highest" if precision == "f32" else "tensorfloat32"
        self.run = jax.jit(functools.partial(self.steps, batch), donate_argnums=(0,))

    def order(self, permutation):
        return self.jnp.asarray(permutation.astype(np.int32))

    def reset(self):
        self.parameters = [tuple(map(self.jnp.asarray, layer)) for layer in first_weights(self.seed)]

    def logits(self, parameters, pixels):
        x = pixels.astype(self.jnp.float32) / 255
        for weights, biases in parameters[:-1]:
            x = self.jax.nn.relu(x @ weights + biases)
        weights, biases = parameters[-1]
        return x @ weights + biases

    def loss(self, parameters, pixels, labels):
        z = self.jax.nn.log_softmax(self.logits(parameters, pixels))
        return -self.jnp.mean(self.jnp.take_along_axis(z, labels[:, None], axis=1))

    def steps(self, batch, parameters, pixels, labels, order, lr):
        full = self.images // batch * batch

        def step(parameters, index):
            gradients = self.jax.grad(self.loss)(parameters, pixels[index], labels[index])
            return self.jax.tree.map(lambda p, g: p - lr * g, parameters, gradients), None

        parameters, _ = self.jax.lax.scan(step, parameters, order[:full].reshape(-1, batch))
        if full < self.images:
            parameters, _ = step(parameters, order[full:])
        return parameters

    def warm_up(self, order, lr):
        # Compiles.
        self.epoch(order, lr)

    def epoch(self, order, lr):
        with self.jax.default_matmul_precision(self.precision):
            self.parameters = self.run(self.parameters, *self.data, order, lr)
        self.jax.block_until_ready(self.parameters)

    def accuracy(self):
        pixels, labels = self.test
        with self.jax.default_matmul_precision(self.precision):
            hits = self.jnp.sum(self.jnp.argmax(self.logits(self.parameters, pixels), axis=1) == labels)
        return int(hits) / len(labels)


if __name__ == "__main__":
    main()
