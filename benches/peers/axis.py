"""Times sums, means, maxima, cumulative sums, transposes and copies of PyTorch and torch.compile on a GPU, in turns with ours.

python3 benches/peers/axis.py --out axis.json [--ours PROGRAM] [--types bf16,f32] [--operations REGEX] [--shapes REGEX]
                         [--peers torch,compile,copy] [--budget SECONDS]

Every contender computes a result for each row or column of random normal matrices, the cumulative sums of their rows, their
transposes, or copies. They take turns, as turns.py describes. PROGRAM is our bench, which `--serve` makes a server.

- torch: torch.sum, mean, amax and cumsum, a copy of the transpose, and clone. Sums and cumulative sums of one long row are CUB's.
- compile: the same, compiled by torch.compile with max-autotune.
- copy: a copy of as many bytes: of a half of the matrix that is reduced, or of the whole one.
"""

import timing
from turns import Ours, Peer, has, parse, run, words

TYPES = ("bf16", "f16", "f32")

REDUCTIONS = [(131072, 256), (32768, 1024), (4096, 4096), (16384, 8192), (1024, 131072)]
SHAPES = {
    "rows": REDUCTIONS + [(1, 1 << 28)],
    "columns": REDUCTIONS + [(1 << 24, 16)],
    "cumsum": [(4096, 4096), (64, 1 << 20), (1, 1 << 28)],
    "transpose": [(4096, 4096), (16384, 16384), (8191, 4097)],
    "cast": [(4096, 4096), (16384, 16384), (8191, 4097)],
}
OPERATIONS = [f"{name}-{axis}" for axis in ("rows", "columns") for name in ("sum", "mean", "max")] + ["cumsum", "transpose", "cast"]


def shapes(operation):
    return SHAPES[operation.split("-")[-1]]


def function(torch, operation):
    if operation == "cumsum":
        return lambda x: torch.cumsum(x, dim=1)
    if operation == "transpose":
        return lambda x: x.t().contiguous()
    if operation == "cast":
        return lambda x: x.clone()
    name, axis = operation.split("-")
    dim = 1 if axis == "rows" else 0
    of = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[name]
    return lambda x: of(x, dim=dim)


def torch_axis(timer, sets, operation):
    return Peer(timer, sets, function(timer.torch, operation))


def compiled(timer, sets, operation):
    torch = timer.torch
    torch._dynamo.reset()
    return Peer(timer, sets, torch.compile(function(torch, operation), mode="max-autotune-no-cudagraphs", dynamic=False))


def copy(timer, sets, operation):
    """As many bytes as the operation reads and writes, but for the results of a reduction."""
    torch = timer.torch
    is_reduction = operation.split("-")[-1] in ("rows", "columns")
    parts = [x.flatten()[: x.numel() // 2] if is_reduction else x.flatten() for x, in sets]
    targets = [torch.empty_like(part) for part in parts]
    return Peer(timer, list(zip(parts, targets)), lambda given, to: to.copy_(given))


PEERS = {"torch": torch_axis, "compile": compiled, "copy": copy}


def make_sets(timer, kind, operation, shape):
    torch, (rows, cols) = timer.torch, shape
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[kind]
    matrices = 1 if operation.split("-")[-1] in ("rows", "columns") else 2
    sets = timer.count(matrices * rows * cols * dtype.itemsize)
    return [(torch.randn(rows, cols, device="cuda", dtype=dtype),) for _ in range(sets)]


def makers(timer, options, server, kind, operation, shape):
    """The contenders of one shape, by name."""
    if server:
        yield operation, lambda: Ours(server, operation, f"{kind} {words(shape)}")
    sets = make_sets(timer, kind, operation, shape)
    for name in options.peers:

        def make():
            peer = PEERS[name](timer, sets, operation)
            peer.error = None
            return peer

        yield name, make


def main():
    flags = [("--operations", "", f"a regular expression for {', '.join(OPERATIONS)}")]
    all_shapes = [f"{operation} {words(shape)}" for operation in OPERATIONS for shape in shapes(operation)]
    options = parse(__doc__, TYPES, PEERS, all_shapes, flags, default_types=("bf16", "f32"))
    timer = timing.Timer("cuda")
    problems = []
    for operation in filter(lambda operation: has(options.operations, operation), OPERATIONS):
        for kind in options.types:
            for shape in filter(lambda shape: has(options.shapes, words(shape)), shapes(operation)):
                rows, cols = shape
                entry = {"operation": operation, "dtype": kind, "rows": rows, "cols": cols}
                make = lambda server, kind=kind, operation=operation, shape=shape: makers(
                    timer, options, server, kind, operation, shape
                )
                problems.append((f"{operation}/{kind}/{words(shape)}", entry, rows * cols, make))
    run(timer, options, problems, "GB/s")


if __name__ == "__main__":
    main()
