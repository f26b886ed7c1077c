"""The peer of train-mnist on the CPU: the same network, data, batch size and steps in JAX, one compiled epoch.

python3 benches/peers/mlp_jax.py --data DIR [--epochs 5] [--batch-size 64] [--lr 0.3] [--lr-decay 0.7] [--seed 42]

DIR holds the four IDX files. Prints one JSON object: seconds of each epoch (the first without the compilation,
which is timed apart), test accuracy after the last, versions.
"""

import argparse
import functools
import gzip
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

SIZES = (784, 300, 100, 10)


def read_idx(folder, name):
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
            dims = raw[3]
            shape = np.frombuffer(raw, ">u4", dims, 4)
            return np.frombuffer(raw, np.uint8, offset=4 + 4 * dims).reshape(shape)
    raise SystemExit(f"{folder} has no {name}; run train-mnist once, which fetches it")


def init(seed):
    rng = np.random.default_rng(seed)
    bound = [1 / np.sqrt(n) for n in SIZES[:-1]]
    return [
        (rng.uniform(-b, b, (i, o)).astype(np.float32), rng.uniform(-b, b, o).astype(np.float32))
        for b, i, o in zip(bound, SIZES, SIZES[1:])
    ]


def logits(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss(params, x, y):
    z = jax.nn.log_softmax(logits(params, x))
    return -jnp.mean(jnp.take_along_axis(z, y[:, None], axis=1))


def step(lr, params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


@functools.partial(jax.jit, static_argnames=("batch",), donate_argnums=(0,))
def epoch(params, images, labels, order, lr, batch):
    full = images.shape[0] // batch * batch

    def body(params, index):
        x = images[index].astype(jnp.float32) / 255
        return step(lr, params, x, labels[index]), None

    params, _ = jax.lax.scan(body, params, order[:full].reshape(-1, batch))
    if full < images.shape[0]:  # The last, short batch is trained too.
        params, _ = body(params, order[full:])
    return params


@jax.jit
def correct(params, images, labels):
    x = images.astype(jnp.float32) / 255
    return jnp.sum(jnp.argmax(logits(params, x), axis=1) == labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--lr-decay", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "highest")

    def load(name):
        images = read_idx(args.data, f"{name}-images-idx3-ubyte").reshape(-1, 784)
        return jnp.asarray(images), jnp.asarray(read_idx(args.data, f"{name}-labels-idx1-ubyte").astype(np.int32))

    images, labels = load("train")
    test_images, test_labels = load("t10k")
    params = jax.tree.map(jnp.asarray, init(args.seed))
    rng = np.random.default_rng(args.seed)
    orders = [jnp.asarray(rng.permutation(len(labels)).astype(np.int32)) for _ in range(args.epochs)]

    start = time.perf_counter()
    compiled = epoch.lower(params, images, labels, orders[0], args.lr, args.batch_size).compile()
    compile_seconds = time.perf_counter() - start
    seconds = []
    for index, order in enumerate(orders):
        lr = args.lr * args.lr_decay**index
        start = time.perf_counter()
        params = compiled(params, images, labels, order, lr)
        jax.block_until_ready(params)
        seconds.append(time.perf_counter() - start)
    hits = int(correct(params, test_images, test_labels))
    print(
        json.dumps(
            {
                "peer": "jax",
                "version": jax.__version__,
                "device": jax.devices()[0].platform,
                "batch_size": args.batch_size,
                "lr": args.lr,
                "lr_decay": args.lr_decay,
                "compile_seconds": compile_seconds,
                "epoch_seconds": seconds,
                "test_accuracy": hits / len(test_labels),
            }
        )
    )


if __name__ == "__main__":
    main()
