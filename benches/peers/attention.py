"""Times the attention of PyTorch and FlashAttention-3 on a GPU, in turns with ours.

python3 benches/peers/attention.py --out attention.json [--ours PROGRAM] [--types bf16,f16] [--shapes REGEX]
                         [--peers sdpa,flash,efficient,cudnn,flex,fa3] [--kernels NAMES] [--budget SECONDS]
                         [--random N] [--seed S] [--kinds forward,decode,backward]

Every contender computes the forward attention of random normal tensors `[batch, length, heads, head size]`. They take turns, as turns.py
describes. PROGRAM is our bench, which `--serve` makes a server. At one shape the rungs of our ladder take turns, too. With `--random N`
the shapes are N drawn ones of each kind instead of the table: forward, few queries (decode), gradients (backward).

- sdpa: torch.nn.functional.scaled_dot_product_attention as it comes.
- flash, efficient, cudnn: the same, restricted to FlashAttention 2, to memory-efficient attention, and to cuDNN.
- flex: FlexAttention, compiled, with a block mask where it is causal.
- fa3: FlashAttention-3, where the module flash_attn_interface is installed.

With FERROWARP_ARCH=compute_80 ours is the code for compute capability 8.0, whose instructions FlashAttention 2 uses too.

Gradients have the peers flash and cudnn: the operators that PyTorch's autograd calls.
"""

import math
import random

import timing
from turns import Ours, Peer, has, parse, run
from turns import words as extents_of

TYPES = ("bf16", "f16")

# The shape at which the rungs of the ladder are timed, too, in bf16.
RUNGS = (4, 4096, 16, 16, 128, False)

# Of a shape. A shape without the last four has as many queries as keys, no gradients, normal inputs, and no sliding window.
EXTENTS = ("batch", "length", "heads", "key_heads", "head_size", "causal", "queries", "backward", "inputs", "window")
SHAPES = [
    (32, 512, 16, 16, 128, False),
    (16, 1024, 16, 16, 128, False),
    (8, 2048, 16, 16, 128, False),
    (4, 4096, 16, 16, 128, False),
    (2, 8192, 16, 16, 128, False),
    (1, 16384, 16, 16, 128, False),
    (32, 512, 16, 16, 128, True),
    (16, 1024, 16, 16, 128, True),
    (8, 2048, 16, 16, 128, True),
    (4, 4096, 16, 16, 128, True),
    (2, 8192, 16, 16, 128, True),
    (1, 16384, 16, 16, 128, True),
    (16, 1024, 32, 32, 64, False),
    (4, 4096, 32, 32, 64, False),
    (1, 16384, 32, 32, 64, False),
    (16, 1024, 32, 32, 64, True),
    (4, 4096, 32, 32, 64, True),
    (1, 16384, 32, 32, 64, True),
    (4, 4096, 32, 8, 128, True),
    (1, 8192, 64, 8, 128, False),
    (1, 8192, 64, 8, 128, True),
    (1, 32768, 64, 8, 128, True),
    (4, 1000, 16, 16, 128, False),
    (3, 4097, 16, 16, 128, True),
    (1, 77, 12, 12, 64, True),
    (8, 197, 12, 12, 64, False),
    (8, 2048, 16, 16, 80, False),
    (8, 2048, 16, 16, 80, True),
    (8, 2048, 16, 16, 96, False),
    (8, 2048, 16, 16, 96, True),
    (8, 2048, 16, 16, 192, False),
    (8, 2048, 16, 16, 192, True),
    (8, 2048, 16, 16, 256, False),
    (8, 2048, 16, 16, 256, True),
    (1, 8192, 32, 8, 128, False, 1),
    (1, 131072, 32, 8, 128, False, 1),
    (16, 8192, 32, 8, 128, False, 1),
    (64, 4096, 32, 8, 128, False, 1),
    (8, 8192, 32, 32, 128, False, 1),
    (4, 32768, 16, 1, 128, False, 1),
    (16, 8192, 32, 8, 64, False, 1),
    (16, 8192, 32, 8, 96, False, 1),
    (16, 8192, 32, 8, 192, False, 1),
    (16, 8192, 16, 8, 256, False, 1),
    (16, 8192, 32, 8, 128, False, 4),
    (16, 8192, 16, 16, 128, False, 16),
]
BACKWARD = [
    (32, 512, 16, 16, 128, False),
    (8, 2048, 16, 16, 128, False),
    (4, 4096, 16, 16, 128, False),
    (1, 16384, 16, 16, 128, False),
    (32, 512, 16, 16, 128, True),
    (8, 2048, 16, 16, 128, True),
    (4, 4096, 16, 16, 128, True),
    (1, 16384, 16, 16, 128, True),
    (16, 1024, 32, 32, 64, False),
    (4, 4096, 32, 32, 64, False),
    (16, 1024, 32, 32, 64, True),
    (4, 4096, 32, 32, 64, True),
]
SHAPES += [(*shape, shape[1], True) for shape in BACKWARD]
SHAPES += [
    (1, 131072, 16, 16, 128, True),
    (1, 131072, 16, 16, 128, True, 131072, True),
    (1, 16384, 16, 16, 128, True, 16384, False, "normal", 1024),
    (1, 32768, 32, 8, 128, True, 32768, False, "normal", 4096),
    (1, 16384, 64, 8, 64, True, 16384, False, "normal", 128),
    (4, 4096, 16, 16, 128, False, 4096, False, "large"),
    (4, 4096, 16, 16, 128, False, 4096, True, "large"),
    (4, 4096, 16, 16, 128, True, 4096, False, "dominant"),
    (4, 4096, 16, 16, 128, True, 4096, True, "dominant"),
    (16, 1024, 32, 32, 64, True, 1024, False, "large"),
]


KINDS = ("forward", "decode", "backward")


def drawn(count, seed, kinds):
    """Random shapes of each kind: lengths of whole tiles, or multiples of 8, or any."""
    shapes = []
    for kind in kinds:
        rng = random.Random(f"{seed} {kind}")

        def extent(least, most):
            step = rng.choice((64, 64, 8, 1))
            return max(least, round(2 ** rng.uniform(math.log2(least), math.log2(most))) // step * step)

        for _ in range(count):
            head_size = rng.choice((64, 64, 64, 128, 128, 128, 80, 96, 192, 256))
            heads = rng.choice((8, 12, 16, 32))
            key_heads = heads // rng.choice((1, 1, 4) if kind != "decode" else (1, 4, 4, 4))
            if kind == "decode":
                length = extent(1024, 65536)
                elements = rng.uniform(4e6, 1.2e8)
                batch = max(1, min(128, round(elements / (length * key_heads * head_size))))
                shapes.append((batch, length, heads, key_heads, head_size, False, rng.choice((1, 1, 1, 4))))
            else:
                length = extent(128, 8192)
                elements = rng.uniform(2e6, 3.2e7)
                batch = max(1, min(64, round(elements / (length * heads * head_size))))
                shape = (batch, length, heads, key_heads if kind == "forward" else heads, head_size, rng.random() < 0.5)
                shapes.append(shape if kind == "forward" else (*shape, length, True))
    return shapes


def queries_of(shape):
    return shape[6] if len(shape) > 6 else shape[1]


def is_backward(shape):
    return len(shape) > 7 and shape[7]


def inputs_of(shape):
    return shape[8] if len(shape) > 8 else "normal"


def checked(shape):
    """How many of the last queries are checked: with hard inputs the error varies from query to query."""
    return 16 if inputs_of(shape) == "normal" else 128


def window_of(shape):
    return shape[9] if len(shape) > 9 else None


def words(shape):
    end = f"-window{window_of(shape)}" if window_of(shape) else "-causal" if shape[5] else f"-{shape[6]}q" if queries_of(shape) != shape[1] else ""
    end += "-backward" if is_backward(shape) else ""
    end += "" if inputs_of(shape) == "normal" else f"-{inputs_of(shape)}"
    return extents_of(shape[:5]) + end


def with_sdpa(timer, sets, shape, backend=None):
    import contextlib

    from torch.nn.attention import sdpa_kernel

    def function(q, k, v):
        with sdpa_kernel(backend) if backend else contextlib.nullcontext():
            if window_of(shape):
                raise ValueError("it has no sliding window")
            heads_first = [x.transpose(1, 2) for x in (q, k, v)]
            attention = timer.torch.nn.functional.scaled_dot_product_attention
            return attention(*heads_first, is_causal=shape[5], enable_gqa=shape[2] != shape[3]).transpose(1, 2)

    return Peer(timer, sets, function)


def sdpa(timer, sets, shape):
    return with_sdpa(timer, sets, shape)


def with_backend(name):
    def peer(timer, sets, shape):
        from torch.nn.attention import SDPBackend

        return with_sdpa(timer, sets, shape, getattr(SDPBackend, name))

    return peer


def flex(timer, sets, shape):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch = timer.torch
    torch._dynamo.reset()
    mask = None
    if shape[5]:
        window = window_of(shape) or shape[1]
        sees = lambda b, h, query, key: (query >= key) & (query - key < window)
        mask = create_block_mask(sees, None, None, shape[1], shape[1], device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)

    def function(q, k, v):
        heads_first = [x.transpose(1, 2) for x in (q, k, v)]
        return compiled(*heads_first, block_mask=mask, enable_gqa=shape[2] != shape[3]).transpose(1, 2)

    return Peer(timer, sets, function)


def fa3(timer, sets, shape):
    from flash_attn_interface import flash_attn_func

    def function(q, k, v):
        window = (window_of(shape) - 1, 0) if window_of(shape) else (-1, -1)
        out = flash_attn_func(q, k, v, causal=shape[5], window_size=window)
        return out[0] if isinstance(out, tuple) else out

    return Peer(timer, sets, function)


def gradients(name):
    """The gradients by the operators that autograd calls, so that they can be recorded alone."""

    def peer(timer, sets, shape):
        aten = timer.torch.ops.aten
        forward = getattr(aten, f"_scaled_dot_product_{name}_attention")
        backward = getattr(aten, f"_scaled_dot_product_{name}_attention_backward")
        saved = {}
        for q, k, v in sets:
            heads_first = [x.transpose(1, 2) for x in (q, k, v)]
            kept = (None, True, 0.0, shape[5]) if name == "cudnn" else (0.0, shape[5])
            out, log, cum_q, cum_k, most_q, most_k, seed, offset, _ = forward(*heads_first, *kept)
            d_out = timer.torch.randn_like(q).transpose(1, 2)
            given = (d_out, *heads_first, out, log)
            if name == "cudnn":
                rest = (seed, offset, None, cum_q, cum_k, most_q, most_k, 0.0, shape[5])
            else:
                rest = (cum_q, cum_k, most_q, most_k, 0.0, shape[5], seed, offset)
            saved[q.data_ptr()] = given, rest

        def function(q, k, v):
            given, rest = saved[q.data_ptr()]
            return backward(*given, *rest)

        peer = Peer(timer, sets, function)
        peer.saved = saved
        return peer

    return peer


GRADIENTS = {"flash": gradients("flash"), "cudnn": gradients("cudnn")}
PEERS = {
    "sdpa": sdpa,
    "flash": with_backend("FLASH_ATTENTION"),
    "efficient": with_backend("EFFICIENT_ATTENTION"),
    "cudnn": with_backend("CUDNN_ATTENTION"),
    "flex": flex,
    "fa3": fa3,
}


def make_sets(timer, kind, shape):
    torch, (batch, length, heads, key_heads, head_size) = timer.torch, shape[:5]
    queries = queries_of(shape)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[kind]
    tensors = 4 if is_backward(shape) else 2
    size = tensors * batch * (queries * heads + length * key_heads) * head_size * dtype.itemsize
    random = lambda length, heads: torch.randn(batch, length, heads, head_size, device="cuda", dtype=dtype)
    keys = lambda: random(length, key_heads)
    sets = [(random(queries, heads), keys(), keys()) for _ in range(timer.count(size))]
    for q, k, _ in sets:
        if inputs_of(shape) == "large":
            q *= 16
        elif inputs_of(shape) == "dominant":
            q[..., 0] = 13
            k[:, length // 3, :, 0] = 13
    return sets


def error_of(timer, sets, peer, shape):
    """The error of a peer's last queries of the last head against f64: the root of the mean square of the differences over that of
    the results."""
    torch, (q, k, v) = timer.torch, sets[0]
    if is_backward(shape):
        return error_of_gradients(torch, sets[0], peer, shape)
    with torch.no_grad():
        got = peer.function(q, k, v)[-1, -checked(shape):, -1].double()
    rows = q[-1, -checked(shape):, -1].double()
    logits = rows @ k[-1, :, -1].double().T / shape[4] ** 0.5
    if shape[5]:
        places = torch.arange(shape[1], device="cuda")
        before = places[-checked(shape):, None] - places[None]
        window = window_of(shape) or shape[1]
        logits = logits.masked_fill((before < 0) | (before >= window), float("-inf"))
    want = logits.softmax(-1) @ v[-1, :, -1].double()
    off = ((got - want).norm() / want.norm()).item()
    if not off < 0.02:
        raise RuntimeError(f"its results are off by {off:.2g}")
    return off


def error_of_gradients(torch, given, peer, shape):
    """As `error_of`, of the gradients of the last queries."""
    q, k, v = given
    d_out = peer.saved[q.data_ptr()][0][0].transpose(1, 2)
    with torch.no_grad():
        got = peer.function(q, k, v)[0].transpose(1, 2)[-1, -checked(shape):, -1].double()
    rows = q[-1, -checked(shape):, -1].double().requires_grad_()
    logits = rows @ k[-1, :, -1].double().T / shape[4] ** 0.5
    if shape[5]:
        places = torch.arange(shape[1], device="cuda")
        logits = logits.masked_fill(places[None] > places[-checked(shape):, None], float("-inf"))
    out = logits.softmax(-1) @ v[-1, :, -1].double()
    (want,) = torch.autograd.grad(out, rows, d_out[-1, -checked(shape):, -1].double())
    off = ((got - want).norm() / want.norm()).item()
    if not off < (0.05 if inputs_of(shape) == "normal" else float("inf")):
        raise RuntimeError(f"its gradients are off by {off:.2g}")
    return off


def operations(shape):
    batch, length, heads, _, head_size, causal = shape[:6]
    window = window_of(shape) or length
    keys = window - window * window / length / 2 if causal else length
    return 2 * batch * heads * head_size * queries_of(shape) * keys * (5 if is_backward(shape) else 2)


def makers(timer, options, server, kind, shape):
    """The contenders of one shape, by name."""
    names = ["attention", *filter(None, options.kernels.split(","))] if server else []
    if server and kind == "bf16" and shape == RUNGS:
        names += server.ask("rungs").split()
    for name in names:
        yield name, lambda name=name: Ours(server, name, f"{kind} {words(shape)}")
    sets = make_sets(timer, kind, shape)
    peers = GRADIENTS if is_backward(shape) else PEERS
    for name in filter(peers.__contains__, options.peers):

        def make():
            with timer.torch.no_grad():
                peer = peers[name](timer, sets, shape)
            peer.error = error_of(timer, sets, peer, shape)
            return peer

        yield name, make


def main():
    flags = [
        ("--kernels", "", "further kernels of ours to time, such as attention_bf16_64_3w"),
        ("--random", "0", "this many drawn shapes of each kind instead of the table"),
        ("--seed", "1", "the seed of the drawn shapes"),
        ("--kinds", ",".join(KINDS), "the kinds of drawn shapes"),
    ]
    options = parse(__doc__, TYPES, PEERS, list(map(words, SHAPES)), flags)
    timer = timing.Timer("cuda")
    problems = []
    shapes = drawn(int(options.random), int(options.seed), options.kinds.split(",")) or SHAPES
    for kind in options.types:
        for shape in filter(lambda shape: has(options.shapes, words(shape)), shapes):
            extents = (*shape[:6], queries_of(shape), is_backward(shape), inputs_of(shape))
            entry = {"dtype": kind} | dict(zip(EXTENTS, extents))
            entry |= {"window": window_of(shape)} if window_of(shape) else {}
            make = lambda server, kind=kind, shape=shape: makers(timer, options, server, kind, shape)
            problems.append((f"{kind}/{words(shape)}", entry, operations(shape), make))
    run(timer, options, problems)


if __name__ == "__main__":
    main()
