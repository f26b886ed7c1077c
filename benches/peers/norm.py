"""Times RMSNorm and LayerNorm of PyTorch, torch.compile and QuACK on a GPU, forward and backward, in turns with ours.

python3 benches/peers/norm.py --out norm.json [--ours PROGRAM] [--types bf16,f32] [--norms REGEX] [--shapes REGEX]
                         [--peers torch,compile,quack,copy] [--budget SECONDS]

Every contender normalises the rows of random normal matrices with a weight, LayerNorm also with a bias. Backward, it computes the gradients
of input, weight and bias. They take turns, as turns.py describes. PROGRAM is our bench, which `--serve` makes a server.

- torch: torch.nn.functional.rms_norm and layer_norm, and their gradients.
- compile: the same, compiled by torch.compile with max-autotune.
- quack: QuACK, where the module is installed.
- copy: a copy of as many bytes. It is no norm.
"""

import timing
from turns import Ours, Peer, has, parse, run, words

TYPES = ("bf16", "f16", "f32")
NORMS = ("rms", "layer", "rms-backward", "layer-backward")

SHAPES = [
    (32768, 256),
    (32768, 512),
    (32768, 768),
    (32768, 1024),
    (32768, 1536),
    (32768, 2048),
    (32768, 3072),
    (32768, 4096),
    (32768, 5120),
    (16384, 6144),
    (16384, 8192),
    (8192, 12288),
    (8192, 16384),
    (4096, 32768),
    (2048, 65536),
    (1024, 4096),
    (64, 4096),
    (4096, 1023),
    (4096, 4097),
    (8, 8192),
]


def forward(torch, norm):
    if norm.startswith("rms"):
        return lambda x, weight, bias: torch.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-6)
    return lambda x, weight, bias: torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def gradients(torch, norm, function):
    """The gradients of a set, whose forward pass has been run."""
    of = (lambda x, weight, bias: (x, weight)) if norm.startswith("rms") else (lambda *all: all)
    kept = {}

    def run(x, weight, bias, d_out):
        key = x.data_ptr()
        if key not in kept:
            kept[key] = function(x, weight, bias)
        return torch.autograd.grad(kept[key], of(x, weight, bias), d_out, retain_graph=True)

    return run


def with_function(timer, sets, norm, function):
    torch = timer.torch
    if norm.endswith("backward"):
        run = gradients(torch, norm, function)
        torch.cuda.synchronize()
        with torch.cuda.stream(timer.stream):
            for given in sets:
                run(*given)
        return Peer(timer, sets, run)

    def run(x, weight, bias, _):
        with torch.no_grad():
            return function(x, weight, bias)

    return Peer(timer, sets, run)


def torch_norm(timer, sets, norm):
    return with_function(timer, sets, norm, forward(timer.torch, norm))


def compiled(timer, sets, norm):
    torch = timer.torch
    torch._dynamo.reset()
    function = torch.compile(forward(torch, norm), mode="max-autotune-no-cudagraphs", dynamic=False)
    return with_function(timer, sets, norm, function)


def quack(timer, sets, norm):
    if norm.startswith("rms"):
        from quack import rmsnorm

        return with_function(timer, sets, norm, lambda x, weight, bias: rmsnorm(x, weight, eps=1e-6))
    from quack.rmsnorm import layernorm_bwd, layernorm_fwd

    # It takes weight and bias as f32.
    vectors = {x.data_ptr(): (weight.detach().float(), bias.detach().float()) for x, weight, bias, _ in sets}
    if norm.endswith("backward"):
        statistics = {}
        for x, *_ in sets:
            of_rows = layernorm_fwd(x.detach(), *vectors[x.data_ptr()], 1e-5, return_rstd=True, return_mean=True)[1:]
            statistics[x.data_ptr()] = of_rows

        def gradients(x, weight, bias, d_out):
            return layernorm_bwd(x.detach(), vectors[x.data_ptr()][0], d_out, *statistics[x.data_ptr()])

        return Peer(timer, sets, gradients)
    return Peer(timer, sets, lambda x, weight, bias, _: layernorm_fwd(x, *vectors[x.data_ptr()], 1e-5))


def copy(timer, sets, norm):
    """As many bytes as the norm reads and writes: of three matrices backward."""
    torch = timer.torch
    rows = 3 if norm.endswith("backward") else 2
    halves = [torch.empty(x.numel() * rows // 2, device="cuda", dtype=x.dtype) for x, *_ in sets]
    targets = [torch.empty_like(half) for half in halves]
    return Peer(timer, list(zip(halves, targets)), lambda given, to: to.copy_(given))


PEERS = {"torch": torch_norm, "compile": compiled, "quack": quack, "copy": copy}


def make_sets(timer, kind, norm, shape):
    torch, (rows, cols) = timer.torch, shape
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[kind]
    is_backward = norm.endswith("backward")
    random = lambda *extents: torch.randn(*extents, device="cuda", dtype=dtype).requires_grad_(is_backward)
    matrices = 3 if is_backward else 2
    sets = timer.count(matrices * rows * cols * dtype.itemsize)
    d_out = lambda: torch.randn(rows, cols, device="cuda", dtype=dtype) if is_backward else None
    return [(random(rows, cols), random(cols), random(cols), d_out()) for _ in range(sets)]


def makers(timer, options, server, kind, norm, shape):
    """The contenders of one shape, by name."""
    if server:
        yield norm, lambda: Ours(server, norm, f"{kind} {words(shape)}")
    sets = make_sets(timer, kind, norm, shape)
    for name in options.peers:

        def make():
            peer = PEERS[name](timer, sets, norm)
            peer.error = None
            return peer

        yield name, make


def main():
    flags = [("--norms", "", f"a regular expression for {', '.join(NORMS)}")]
    options = parse(__doc__, TYPES, PEERS, list(map(words, SHAPES)), flags, default_types=("bf16", "f32"))
    timer = timing.Timer("cuda")
    problems = []
    for norm in filter(lambda norm: has(options.norms, norm), NORMS):
        for kind in options.types:
            for shape in filter(lambda shape: has(options.shapes, words(shape)), SHAPES):
                rows, cols = shape
                entry = {"norm": norm, "dtype": kind, "rows": rows, "cols": cols}
                make = lambda server, kind=kind, norm=norm, shape=shape: makers(timer, options, server, kind, norm, shape)
                problems.append((f"{norm}/{kind}/{words(shape)}", entry, 8 * rows * cols, make))
    run(timer, options, problems, "GB/s")


if __name__ == "__main__":
    main()
