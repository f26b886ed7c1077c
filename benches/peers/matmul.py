"""Times matrix multiplications of cuBLASLt, Triton and torch.compile on a GPU, in turns with ours.

python3 benches/peers/matmul.py --out matmul.json [--ours PROGRAM] [--types bf16,f16,tf32,f32] [--shapes REGEX] [--peers cublaslt,torch,triton,compile,copy]
                         [--budget SECONDS]

Every contender computes `out[m, n] = a[m, k] @ b[n, k].T` of random normal numbers. They take turns, as turns.py describes. PROGRAM is our
bench, which `--serve` makes a server.

- cublaslt: the fastest of up to 8 algorithms that its heuristics propose with 32 MiB of workspace, each timed (ctypes).
- torch: torch.matmul as it comes.
- triton: a persistent kernel with tensor descriptors, tuned over five configurations (16-bit types).
- compile: torch.compile with max-autotune.
- copy: a copy of B, for a product of at most 64 rows, whose time is that of reading B. It is no multiplication.

Of `f32` the peers do not use TF32; of `tf32` they do.
"""

import statistics

import timing
from turns import Ours, Peer, has, parse, run, words

RUNGS = "4096x4096x4096,8192x8192x8192,8192x8192x1024"
TYPES = ("bf16", "f16", "tf32", "f32")

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


def cublaslt(timer, sets, kind, shape):
    from matmul_kernels import CublasLt

    lt = CublasLt(timer.torch, sets[0][0].dtype, *shape, allow_tf32=kind == "tf32")
    best = None
    for candidate in lt.candidates:
        peer = Peer(timer, sets, lambda a, b, out: lt.run(candidate, a, b, out))
        seconds = statistics.median(peer.time() for _ in range(3))
        if best is None or seconds < best[0]:
            best = (seconds, candidate)
        peer.free()
    return Peer(timer, sets, lambda a, b, out: lt.run(best[1], a, b, out))


def torch_matmul(timer, sets, kind, shape):
    return Peer(timer, sets, lambda a, b, out: timer.torch.matmul(a, b.T, out=out))


def triton(timer, sets, kind, shape):
    from matmul_kernels import triton_matmul

    if kind not in ("bf16", "f16"):
        raise ValueError("for 16-bit types alone")
    if shape[1] % 8 or shape[2] % 8:
        raise ValueError("tensor descriptors need rows at multiples of 16 bytes")
    return Peer(timer, sets, triton_matmul(timer.torch))


def compiled(timer, sets, kind, shape):
    torch = timer.torch
    torch._dynamo.reset()
    function = torch.compile(lambda a, b: a @ b.T, mode="max-autotune-no-cudagraphs", dynamic=False)
    return Peer(timer, sets, lambda a, b, out: function(a, b))


def copy(timer, sets, kind, shape):
    copies = [timer.torch.empty_like(b) for _, b, _ in sets]
    return Peer(timer, list(zip(sets, copies)), lambda given, to: to.copy_(given[1]))


PEERS = {"cublaslt": cublaslt, "torch": torch_matmul, "triton": triton, "compile": compiled, "copy": copy}


def make_sets(timer, kind, shape):
    torch, (m, n, k) = timer.torch, shape
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(kind, torch.float32)
    size = (m * k + n * k + m * n) * dtype.itemsize
    random = lambda *extents: torch.randn(*extents, device="cuda", dtype=dtype)
    return [(random(m, k), random(n, k), torch.empty(m, n, device="cuda", dtype=dtype)) for _ in range(timer.count(size))]


def error_of(timer, sets, peer, name):
    """The error of a peer's last row against f64: the root of the mean square of the differences over that of the row."""
    a, b, out = sets[0]
    if name in ("compile", "copy"):
        return None
    out.zero_()
    timer.replay(peer.graph, 1)
    want = a[-1].double() @ b.T.double()
    off = ((out[-1].double() - want).norm() / want.norm()).item()
    if not off < 0.01:
        raise RuntimeError(f"its results are off by {off:.2g}")
    return off


def makers(timer, options, server, kind, shape):
    """The contenders of one shape, by name."""
    timer.torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    names = ["matmul", *options.kernels] if server else []
    if server and kind == "bf16" and words(shape) in options.rungs:
        names += server.ask("rungs").split()
    for name in names:
        yield name, lambda: Ours(server, name, f"{kind} {' '.join(map(str, shape))}")
    sets = make_sets(timer, kind, shape)
    for name in options.peers:
        if name == "copy" and shape[0] > 64:
            continue

        def make():
            peer = PEERS[name](timer, sets, kind, shape)
            peer.error = error_of(timer, sets, peer, name)
            return peer

        yield name, make


def main():
    flags = [
        ("--rungs", RUNGS, f"shapes at which the rungs of the ladder are timed, too ({RUNGS})"),
        ("--kernels", "", "kernels of ours that are timed, too, such as 'matmul_bf16_kk_128x192w(2splitsofk)'"),
    ]
    options = parse(__doc__, TYPES, PEERS, list(map(words, SHAPES)), flags)
    options.rungs = options.rungs.split(",")
    options.kernels = options.kernels.split(",") if options.kernels else []
    timer = timing.Timer("cuda")
    problems = []
    for kind in options.types:
        for shape in filter(lambda shape: has(options.shapes, words(shape)), SHAPES):
            m, n, k = shape
            entry = {"dtype": kind, "m": m, "n": n, "k": k}
            make = lambda server, kind=kind, shape=shape: makers(timer, options, server, kind, shape)
            problems.append((f"{kind}/{words(shape)}", entry, 2 * m * n * k, make))
    run(timer, options, problems)


if __name__ == "__main__":
    main()
