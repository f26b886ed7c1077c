"""Times matrix multiplications of cuBLASLt, Triton and torch.compile on a GPU, in turns with ours.

python3 benches/peers/matmul.py --out matmul.json [--ours PROGRAM] [--types bf16,f16,tf32,f32] [--shapes REGEX] [--peers cublaslt,torch,triton,compile,copy]
                         [--random N] [--seed S] [--budget SECONDS]

Every contender computes `out[m, n] = a[m, k] @ b[n, k].T` of random normal numbers. They take turns, as turns.py describes. PROGRAM is our
bench, which `--serve` makes a server. With `--random N` the shapes are N drawn ones instead of the table, in all layouts, also batches and
with epilogues.

- cublaslt: the fastest of up to 8 algorithms that its heuristics propose with 32 MiB of workspace, each timed (ctypes).
- torch: torch.matmul as it comes.
- triton: a persistent kernel with tensor descriptors, tuned over five configurations (16-bit types).
- compile: torch.compile with max-autotune.
- ampere: the fastest of all of cuBLASLt's algorithms, tiles, stages and splits whose kernels are for compute capability 8.x, by their
  names. The heuristics leave them out on a newer GPU.
- triton80: the kernel of Triton's tutorial, compiled for compute capability 8.0 (TRITON_OVERRIDE_ARCH=sm80), tuned over seven configurations.
- copy: a copy of B, for a product of at most 64 rows, whose time is that of reading B. It is no multiplication.

Of `f32` the peers do not use TF32; of `tf32` they do.
"""

import collections
import math
import os
import random
import statistics

import timing
from turns import Ours, Peer, has, parse, run, words

RUNGS = "4096x4096x4096,8192x8192x8192,8192x8192x1024"
TYPES = ("bf16", "f16", "tf32", "f32")

Shape = collections.namedtuple("Shape", "extents layout batch ending", defaults=("kk", 1, "plain"))

SHAPES = [
    (512, 512, 512),
    (1024, 1024, 1024),
    (1536, 1536, 1536),
    (2048, 2048, 2048),
    (3072, 3072, 3072),
    (4096, 4096, 4096),
    (6144, 6144, 6144),
    (8192, 8192, 8192),
    (12288, 12288, 12288),
    (16384, 16384, 16384),
    (2048, 12288, 4096),
    (2048, 4096, 4096),
    (2048, 22016, 4096),
    (2048, 4096, 11008),
    (4096, 15360, 5120),
    (4096, 5120, 13824),
    (8192, 10240, 8192),
    (8192, 57344, 8192),
    (8192, 8192, 28672),
    (4096, 32000, 4096),
    (8192, 8192, 1024),
    (16384, 8192, 4096),
    (128, 4096, 4096),
    (256, 8192, 8192),
    (1, 4096, 4096),
    (1, 28672, 8192),
    (8, 4096, 4096),
    (8, 28672, 8192),
    (16, 4096, 14336),
    (16, 8192, 8192),
    (32, 4096, 4096),
    (32, 28672, 8192),
    (64, 4096, 4096),
    (64, 8192, 28672),
    (1000, 1000, 1000),
    (1023, 1025, 1027),
    (4095, 4097, 4096),
    (3333, 2222, 1111),
    (4104, 4104, 4104),
    (512, 512, 16384),
]


def drawn(count, seed):
    """Random shapes: sides alike, few rows, deep sums, batches; sides of whole tiles, or multiples of 16 bytes, or any."""
    rng = random.Random(seed)

    def extent(least, most):
        value = round(2 ** rng.uniform(math.log2(least), math.log2(most)))
        step = rng.choice((64, 64, 8, 8, 8, 1))
        return max(least, value // step * step)

    shapes = []
    while len(shapes) < count:
        kind = rng.choice(("plain", "plain", "plain", "few", "deep", "batch"))
        batch = rng.choice((2, 4, 8, 16)) if kind == "batch" else 1
        sides = {"plain": (128, 8192), "few": (512, 16384), "deep": (64, 1024), "batch": (64, 2048)}[kind]
        m, n = extent(*sides), extent(*sides)
        m = rng.randint(1, 64) if kind == "few" else m
        k = extent(4096, 32768) if kind == "deep" else extent(64, 8192)
        if m * n * k * batch <= 4e11:
            ending = rng.choice(("plain", "plain", "plain", "bias", "relu", "gelu"))
            shapes.append(Shape((m, n, k), rng.choice(("kk", "kn", "mk", "mn")), batch, ending))
    return shapes


def named(shape):
    """The words of a shape, as our bench takes them."""
    parts = [*map(str, shape.extents), *[shape.layout] * (shape.layout != "kk"), *[f"b{shape.batch}"] * (shape.batch > 1)]
    return "x".join(parts + [shape.ending] * (shape.ending != "plain"))


def as_given(shape, a, b):
    """The operands as `[m, k]` and `[k, n]`."""
    return (a if shape.layout[0] == "k" else a.mT), (b.mT if shape.layout[1] == "k" else b)


def without_bias(given):
    a, b, _, out = given
    return a, b, out


def fastest(timer, sets, lt):
    """The fastest of the candidates, each timed."""
    best = None
    for candidate in lt.candidates:
        peer = Peer(timer, sets, lambda a, b, bias, out: lt.run(candidate, a, b, out))
        seconds = statistics.median(peer.time() for _ in range(3))
        if best is None or seconds < best[0]:
            best = (seconds, candidate)
        peer.free()
    lt.candidates = [best[1]]
    return Peer(timer, sets, lambda a, b, bias, out: lt.run(best[1], a, b, out))


def cublaslt(timer, sets, kind, shape):
    from matmul_kernels import CublasLt

    return fastest(timer, sets, CublasLt(timer.torch, sets[0][0].dtype, shape, kind == "tf32", sets[0][2]))


def ampere(timer, sets, kind, shape):
    from matmul_kernels import OF_8X, CublasLt

    torch, given = timer.torch, without_bias(sets[0])
    of = lambda shape: CublasLt(torch, sets[0][0].dtype, shape, kind == "tf32", sets[0][2])
    one = [x[0] if x.dim() == 3 else x for x in given]
    of(Shape(shape.extents, shape.layout)).of_8x(*one)
    lt = of(shape)
    lt.of_8x(*given)

    def once(candidate):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        try:
            lt.run(candidate, *given)
            start.record()
            lt.run(candidate, *given)
            end.record()
        except RuntimeError:
            return float("inf")
        end.synchronize()
        return start.elapsed_time(end)

    # The six fastest of one launch each, then also with splits of k.
    first = sorted(lt.candidates, key=once)[:6]
    split = [lt.checked((*candidate.configuration[:5], splits)) for candidate in first for splits in (2, 4, 8, 16)]
    if not first:
        raise RuntimeError("no such algorithm")
    lt.candidates = sorted(first + list(filter(None, split)), key=once)[:4]
    peer = fastest(timer, sets, lt)
    peer.kernels = lt.kernels(*given)[0]
    if not any(word in peer.kernels for word in OF_8X):
        raise RuntimeError(f"{peer.kernels} is not for 8.x")
    return peer


def torch_matmul(timer, sets, kind, shape):
    if shape.ending != "plain":
        raise ValueError("without an epilogue alone")
    return Peer(timer, sets, lambda a, b, bias, out: timer.torch.matmul(*as_given(shape, a, b), out=out))


def triton(timer, sets, kind, shape):
    from matmul_kernels import triton_matmul

    _, n, k = shape.extents
    if kind not in ("bf16", "f16") or shape != Shape(shape.extents):
        raise ValueError("for 16-bit types and linear layers alone")
    if n % 8 or k % 8:
        raise ValueError("tensor descriptors need rows at multiples of 16 bytes")
    run = triton_matmul(timer.torch)
    return Peer(timer, sets, lambda a, b, bias, out: run(a, b, out))


def triton80(timer, sets, kind, shape):
    from matmul_kernels import triton_matmul_80

    if kind == "f32":
        raise ValueError("TF32 and 16-bit types alone")
    run = triton_matmul_80(timer.torch)
    return Peer(timer, sets, lambda a, b, bias, out: run(*as_given(shape, a, b), bias, out, shape.ending))


def compiled(timer, sets, kind, shape):
    torch = timer.torch
    torch._dynamo.reset()
    if shape != Shape(shape.extents):
        raise ValueError("for linear layers alone")
    function = torch.compile(lambda a, b: a @ b.T, mode="max-autotune-no-cudagraphs", dynamic=False)
    return Peer(timer, sets, lambda a, b, bias, out: function(a, b))


def copy(timer, sets, kind, shape):
    copies = [timer.torch.empty_like(b) for _, b, *_ in sets]
    return Peer(timer, list(zip(sets, copies)), lambda given, to: to.copy_(given[1]))


PEERS = {
    "cublaslt": cublaslt, "torch": torch_matmul, "triton": triton, "compile": compiled, "copy": copy, "ampere": ampere, "triton80": triton80,
}


def make_sets(timer, kind, shape):
    torch, (m, n, k) = timer.torch, shape.extents
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(kind, torch.float32)
    size = shape.batch * (m * k + n * k + m * n) * dtype.itemsize
    batch = [shape.batch] if shape.batch > 1 else []
    random = lambda *extents: torch.randn(*extents, device="cuda", dtype=dtype)
    of_a = (m, k) if shape.layout[0] == "k" else (k, m)
    of_b = (n, k) if shape.layout[1] == "k" else (k, n)
    empty = lambda: torch.empty(*batch, m, n, device="cuda", dtype=dtype)
    return [(random(*batch, *of_a), random(*batch, *of_b), random(n), empty()) for _ in range(timer.count(size))]


def error_of(timer, sets, peer, name, shape):
    """The error of a peer's last row against f64: the root of the mean square of the differences over that of the row."""
    a, b, bias, out = sets[0]
    if name in ("compile", "copy"):
        return None
    out.zero_()
    timer.replay(peer.graph, 1)
    functional = timer.torch.nn.functional
    a, b = as_given(shape, a, b)
    want = a[..., -1:, :].double() @ b.double() + (0 if shape.ending == "plain" else bias.double())
    want = {"relu": functional.relu, "gelu": lambda x: functional.gelu(x, approximate="tanh")}.get(shape.ending, lambda x: x)(want)
    off = ((out[..., -1:, :].double() - want).norm() / want.norm()).item()
    if not off < 0.01:
        raise RuntimeError(f"its results are off by {off:.2g}")
    return off


def makers(timer, options, server, kind, shape):
    """The contenders of one shape, by name."""
    timer.torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    names = ["matmul", *options.kernels] if server else []
    if server and kind == "bf16" and named(shape) in options.rungs:
        names += server.ask("rungs").split()
    for name in names:
        yield name, lambda: Ours(server, name, f"{kind} {named(shape).replace('x', ' ')}")
    sets = make_sets(timer, kind, shape)
    for name in options.peers:
        if name == "copy" and shape.extents[0] > 64:
            continue

        def make():
            peer = PEERS[name](timer, sets, kind, shape)
            peer.error = error_of(timer, sets, peer, name, shape)
            return peer

        yield name, make


def main():
    flags = [
        ("--rungs", RUNGS, f"shapes at which the rungs of the ladder are timed, too ({RUNGS})"),
        ("--kernels", "", "kernels of ours that are timed, too, such as 'matmul_bf16_kk_128x192w(2splitsofk)'"),
        ("--random", "0", "this many drawn shapes instead of the table"),
        ("--seed", "1", "the seed of the drawn shapes"),
    ]
    options = parse(__doc__, TYPES, PEERS, list(map(words, SHAPES)), flags, default_peers=list(PEERS)[:5])
    options.rungs = options.rungs.split(",")
    options.kernels = options.kernels.split(",") if options.kernels else []
    if "triton80" in options.peers:
        os.environ["TRITON_OVERRIDE_ARCH"] = "sm80"
    timer = timing.Timer("cuda")
    problems = []
    shapes = drawn(int(options.random), int(options.seed)) or list(map(Shape, SHAPES))
    for kind in options.types:
        for shape in filter(lambda shape: has(options.shapes, named(shape)), shapes):
            m, n, k = shape.extents
            entry = {"dtype": kind, "m": m, "n": n, "k": k, "layout": shape.layout, "matrices": shape.batch, "ending": shape.ending}
            make = lambda server, kind=kind, shape=shape: makers(timer, options, server, kind, shape)
            problems.append((f"{kind}/{named(shape)}", entry, 2 * m * n * k * shape.batch, make))
    run(timer, options, problems)


if __name__ == "__main__":
    main()
