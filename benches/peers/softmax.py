"""The peers of `cargo bench softmax` on a GPU: PyTorch eager and compiled, Triton's tutorial kernel, QuACK, FlashInfer, and a copy.

python3 benches/peers/softmax.py --out peers.json [--shapes few|some|all] [--dtypes f32,bf16] [--peers NAMES] [--ops NAMES]
    [--budget SECONDS] [--device cuda|cpu] [--dry-run] [--list-shapes few|some|all|operations]

Timed as our own bench does: device time by events around replays of a CUDA graph, one synchronisation a batch, one
replay before the first event; the launches of a graph take sets of buffers in turns, all together at least four times
the level-2 cache and at least two; a graph holds about 2 ms of work; the median of 10 batches.

A peer that fails at a shape is an entry with the error, and the rest goes on; one that is not installed is listed under
`missing`, with the reason. The order lets a budget cut the end only: all peers and operations at the few shapes, then at
those of one token's logits, then the softmax at the other shapes; what there was no time for is an entry that says so.
A softmax is timed at every shape, the other operations at those of `--list-shapes operations`. torch.compile compiles in
processes of their own first, as many as there are cores to spare, into the cache on disk that the timed process reads.
The copies are the driver's: PyTorch's `copy_` and `clone` of a whole matrix are its memcpy.
"""

import argparse
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import softmax_kernels
import timing

WIDTHS = (
    256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 5632, 6144, 6656, 7168,
    7680, 8192, 8704, 9216, 9728, 10240, 10752, 11264, 11776, 12288, 12672,
)  # fmt: skip
OTHERS = (
    (131072, 128), (131072, 1024), (32768, 4096), (8192, 16384), (8192, 32768), (4096, 65536), (2048, 131072),
    (512, 262144), (4096, 333), (4096, 2047), (4096, 4097), (4096, 12673), (8, 1048576), (131072, 32), (131072, 64),
    (1048576, 16),
)  # fmt: skip
# The next token's logits, of one sequence to 64, by the vocabularies of Llama 2, GPT-2, Llama 3 and Gemma.
DECODE = tuple((rows, cols) for cols in (32000, 50257, 128256, 262144) for rows in (1, 8, 64))
FEW = (
    (4096, 256), (4096, 1024), (4096, 4096), (4096, 12672), (4096, 2047), (131072, 1024), (8192, 32768),
    (2048, 131072),
)  # fmt: skip
# Those of the widths that still show every bend of the curves.
SOME_WIDTHS = (256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12672)
SHAPES = {
    "some": tuple((4096, cols) for cols in SOME_WIDTHS) + OTHERS + DECODE,
    "all": tuple((4096, cols) for cols in WIDTHS) + OTHERS + DECODE,
    "few": FEW,
    # Where other operations than a softmax are timed.
    "operations": FEW + DECODE,
    "cpu": ((64, 10), (16, 333)),
}

# Name, operation, and the phase it is timed in.
CONTESTANTS = (
    ("clone", "softmax", 0),
    ("clone in cache", "softmax", 0),
    ("torch eager", "softmax", 0),
    ("torch eager", "log_softmax", 0),
    ("torch eager", "backward", 0),
    ("torch eager", "cross_entropy", 0),
    ("torch eager", "top_k", 0),
    ("torch eager", "top_k_8", 0),
    ("torch eager", "sample", 0),
    ("torch eager", "sample_top_p", 0),
    ("triton", "softmax", 1),
    ("quack", "softmax", 1),
    ("quack", "backward", 1),
    ("quack", "cross_entropy", 1),
    ("flashinfer", "top_k", 1),
    ("flashinfer", "top_k_8", 1),
    ("flashinfer", "sample", 1),
    ("flashinfer", "sample_top_p", 1),
    ("torch.compile", "softmax", 2),
    ("torch.compile", "cross_entropy", 3),
    ("torch.compile", "top_k", 3),
    ("torch.compile", "top_k_8", 3),
    ("torch.compile", "sample", 3),
    ("torch.compile", "sample_top_p", 3),
    ("torch.compile max-autotune", "softmax", 4),
)
MATRICES = {
    "softmax": 2, "log_softmax": 2, "backward": 3, "cross_entropy": 2, "top_k": 1, "top_k_8": 1, "sample": 1,
    "sample_top_p": 1,
}  # fmt: skip
# As in benches/src/op.rs.
SELECTED = {"top_k": 64, "top_k_8": 8}
TEMPERATURE = 0.8
TOP_P = 0.9
# Where two matrices of f32 fit the caches of today's GPUs, and the copy tells the rate of the cache.
IN_CACHE = ((4096, 512), (4096, 640), (4096, 768))
OPS = tuple(MATRICES)
ASKS_HOST = (("torch eager", "sample"), ("torch eager", "sample_top_p"))
PEERS = ("clone", "eager", "triton", "quack", "flashinfer", "compile", "compile-max")


def peer_of(name):
    """The word of --peers for a contestant's name."""
    words = {"clone in cache": "clone", "torch eager": "eager", "torch.compile": "compile", "torch.compile max-autotune": "compile-max"}
    return words.get(name, name)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--shapes", choices=("few", "some", "all"), default="all")
    parser.add_argument("--dtypes", default="f32,bf16", help="of f32, bf16, f16")
    parser.add_argument("--peers", default="clone,eager,triton,quack,flashinfer,compile", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--ops", default=",".join(OPS), help=f"of {', '.join(OPS)}")
    parser.add_argument("--budget", type=float, default=360.0, help="seconds after which nothing more is begun")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--compile-only", metavar="I/N", help="compile every N-th task of torch.compile, and time nothing")
    parser.add_argument("--profile", metavar="POINTS", help="launch QuACK once at each OP/DTYPE/SHAPE, for Nsight Compute")
    parser.add_argument("--dry-run", action="store_true", help="list what would be timed; needs no torch")
    parser.add_argument("--list-shapes", choices=("few", "some", "all", "operations"), help="print the shapes, a line each")
    options = parser.parse_args()
    options.dtypes = options.dtypes.split(",")
    options.peers = options.peers.split(",")
    options.ops = options.ops.split(",")
    for value, known in [(options.dtypes, ("f32", "bf16", "f16")), (options.peers, PEERS), (options.ops, OPS)]:
        if unknown := set(value) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    if options.out is None and not (options.dry_run or options.list_shapes or options.compile_only or options.profile):
        parser.error("--out FILE is needed")
    return options


def plan(options):
    """What to time, in order: contestant, operation, dtype, shape."""
    shapes = SHAPES["cpu"] if options.device == "cpu" else SHAPES[options.shapes]
    tasks = []
    for place, shape in enumerate(shapes):
        tier = 0 if shape in FEW else 1 if shape in DECODE else 2
        for dtype in options.dtypes:
            for name, op, phase in CONTESTANTS:
                if name == "clone in cache" and (dtype != "f32" or shape not in IN_CACHE):
                    continue
                if op not in options.ops or peer_of(name) not in options.peers:
                    continue
                if op != "softmax" and shape not in SHAPES["operations"] + SHAPES["cpu"]:
                    continue
                tasks.append(((tier, phase, place), (name, op, dtype, shape)))
    return [task for _, task in sorted(tasks, key=lambda task: task[0])]


def main():
    options = parse()
    if options.list_shapes:
        print("".join(f"{rows}x{cols}\n" for rows, cols in SHAPES[options.list_shapes]), end="")
        return
    tasks = plan(options)
    if options.dry_run:
        for name, op, dtype, (rows, cols) in tasks:
            print(f"{name}: {op} {dtype} {rows}x{cols}")
        print(f"{len(tasks)} measurements")
        return
    if options.compile_only:
        compile_only(options, tasks)
        return
    if options.profile:
        profile(options)
        return
    sys.exit(0 if run(options, tasks) else 1)


def profile(options):
    """Launches QuACK once at each point, each launch alone between the profiler's start and stop."""
    bench = Bench(options.device)
    bench.load(["quack"])
    if "quack" in bench.missing:
        sys.exit(f"quack is missing: {bench.missing['quack']}")
    torch, quack = bench.torch, bench.kernels["quack"]
    for point in options.profile.split():
        op, dtype, shape = point.split("/")
        inputs = bench.inputs(op, dtype, tuple(map(int, shape.split("x"))))
        outputs = quack.outputs(op, inputs, torch.empty_like)
        launch = getattr(quack, f"launch_{op}")
        launch(*inputs, *outputs)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        launch(*inputs, *outputs)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        del inputs, outputs
        torch.cuda.empty_cache()


def is_compiled(task):
    return task[0].startswith("torch.compile")


def compile_ahead(options, tasks, seconds):
    """Compiles what torch.compile needs in processes of their own, for so long at most."""
    count = min(8, (os.cpu_count() or 1) // 2, sum(map(is_compiled, tasks)))
    if count < 2 or options.device == "cpu":
        return
    command = [sys.executable, __file__, "--shapes", options.shapes, "--dtypes", ",".join(options.dtypes)]
    command += ["--peers", ",".join(options.peers), "--ops", ",".join(options.ops)]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    workers = [
        subprocess.Popen([*command, "--compile-only", f"{i}/{count}"], env=environment, **quiet) for i in range(count)
    ]
    end = time.monotonic() + seconds
    for worker in workers:
        try:
            worker.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def compile_only(options, tasks):
    """Compiles every N-th task; what fails there fails again where it is timed, and is reported then."""
    place, count = map(int, options.compile_only.split("/"))
    bench = Bench(options.device)
    for name, op, dtype, shape in [task for task in tasks if is_compiled(task)][place::count]:
        try:
            inputs = bench.inputs(op, dtype, shape)
            bench.function(name, op)(*inputs)
            bench.torch.cuda.synchronize()
            del inputs
        except Exception:
            pass
        bench.torch.cuda.empty_cache()


def run(options, tasks):
    """Times the tasks and writes the file; whether anything was timed."""
    # Before torch is imported: it starts its compiler's processes with these.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(os.cpu_count() or 1))
    # QuACK's cache is this process's own: objects of others have crashed the one that loads them.
    os.environ.setdefault("QUACK_CACHE_DIR", tempfile.mkdtemp(prefix="quack-cache-"))
    start = time.monotonic()
    compile_ahead(options, tasks, options.budget / 3)
    print(f"compiled ahead for {time.monotonic() - start:.0f} s", flush=True)
    bench = Bench(options.device)
    bench.load(name for name, *_ in tasks)
    for name, why in bench.missing.items():
        print(f"{name} is missing: {why}", flush=True)
    tasks = [task for task in tasks if task[0] not in bench.missing]
    entries = []
    for number, (name, op, dtype, (rows, cols)) in enumerate(tasks, 1):
        entry = {"name": name, "op": op, "dtype": dtype, "rows": rows, "cols": cols}
        if time.monotonic() - start > options.budget:
            entry["error"] = f"left out: the budget of {options.budget:.0f} s was used up"
        else:
            try:
                entry |= bench.time(name, op, dtype, (rows, cols))
            except Exception as error:  # One peer's failure is a result, whatever it is.
                entry["error"] = timing.told(error)
                bench.forget()
        entries.append(entry)
        outcome = entry.get("error") or f"{entry['microseconds']:.2f} us"
        progress = f"[{number}/{len(tasks)}, {time.monotonic() - start:.0f} s]"
        print(f"{progress} {name} {op} {dtype} {rows}x{cols}: {outcome}", flush=True)
        if number % 50 == 0 or number == len(tasks):
            timing.write(options.out, bench.machine(bench.versions(), bench.missing) | {"entries": entries})
    return any("microseconds" in entry for entry in entries)


class Bench(timing.Timer):
    """The device, and the buffers of the shape that is being timed."""

    def __init__(self, device):
        super().__init__(device)
        torch = self.torch
        self.dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        self.key = self.sets = None
        # What is no part of PyTorch, by the contestant's name, and why it is not there.
        self.kernels = {}
        self.missing = {}

    def load(self, names):
        """Loads what the contestants are made of."""
        for name in dict.fromkeys(names):
            kernels = softmax_kernels.BY_NAME.get(name)
            if kernels and self.is_cuda:
                try:
                    self.kernels[name] = kernels(self.torch)
                except Exception as error:  # Whatever keeps a package from loading is why it is missing.
                    self.missing[name] = timing.told(error)
        # A capture may collect garbage first; what is loaded now is none.
        gc.freeze()

    def forget(self):
        """Frees the buffers, and what a compiler keeps."""
        self.key = self.sets = None
        super().forget()

    def versions(self):
        """Those of what is no part of PyTorch."""
        return {name: version for kernels in self.kernels.values() for name, version in kernels.versions().items()}

    def inputs(self, op, dtype, shape):
        """One set of buffers for the operation."""
        torch, (rows, cols) = self.torch, shape

        def matrix(low, high):
            return torch.empty(rows, cols, device=self.device, dtype=self.dtypes[dtype]).uniform_(low, high)

        if op == "backward":
            return matrix(0, 2 / cols), matrix(-1, 1)
        if op == "cross_entropy":
            return matrix(-8, 8).requires_grad_(), torch.randint(0, cols, (rows,), device=self.device)
        return (matrix(-8, 8),)

    def prepare(self, op, dtype, shape):
        """Sets of buffers for the operation, shared by all contestants that come one after the other."""
        kind = op if op in ("backward", "cross_entropy") else "forward"
        if self.key == (kind, dtype, shape):
            return self.sets
        self.forget()
        size = self.torch.empty(0, dtype=self.dtypes[dtype]).element_size()
        count = self.count(MATRICES[op] * shape[0] * shape[1] * size)
        self.sets = [self.inputs(op, dtype, shape) for _ in range(count)]
        self.key = (kind, dtype, shape)
        return self.sets

    def time(self, name, op, dtype, shape):
        """The entry's figures."""
        sets = self.prepare(op, dtype, shape)
        if name.startswith("clone"):
            # In the cache: one set, which every launch finds there.
            sets = sets[:1] if name == "clone in cache" else sets
            outs = [self.torch.empty_like(x) for (x,) in sets]
            copy = self.measure(lambda i: outs[i].copy_(sets[i][0]), len(sets))
            del outs
            clone = self.measure(lambda i: sets[i][0].clone(), len(sets))
            return min(copy, clone, key=lambda figures: figures["microseconds"])
        if name in softmax_kernels.BY_NAME:
            if name not in self.kernels:
                raise RuntimeError(f"left out: {name} needs a GPU")
            options = {"temperature": TEMPERATURE, "top_p": TOP_P, "k": SELECTED.get(op)}
            return self.kernels[name].time(self, op, sets, options)
        function = self.function(name, op)
        # torch.multinomial asks the host, which no graph can record.
        measure = self.measure_without_graph if (name, op) in ASKS_HOST else self.measure
        return measure(lambda i: function(*sets[i]), len(sets))

    def function(self, name, op):
        torch = self.torch

        def softmax(x):
            return torch.softmax(x, dim=-1)

        def log_softmax(x):
            return torch.log_softmax(x, dim=-1)

        def backward(y, gradient):
            return torch._softmax_backward_data(gradient, y, -1, y.dtype)

        def loss(x, target):
            return torch.nn.functional.cross_entropy(x, target)

        def top_k(x):
            return torch.topk(torch.softmax(x, dim=-1), SELECTED[op])

        def probabilities(x):
            return torch.softmax(x.float() / TEMPERATURE, dim=-1)

        def nucleus(p):
            largest, columns = torch.sort(p, dim=-1, descending=True)
            before = torch.cumsum(largest, dim=-1) - largest
            return torch.where(before < TOP_P, largest, 0.0), columns

        def drawn(p):
            # What torch.multinomial does for one token, without its question to the host whether p is valid.
            return torch.argmax(p / torch.empty_like(p).exponential_(1), dim=-1, keepdim=True)

        def draw(p):
            return drawn(p) if name.startswith("torch.compile") else torch.multinomial(p, 1)

        def sample(x):
            return draw(probabilities(x))

        def sample_top_p(x):
            left, columns = nucleus(probabilities(x))
            return torch.gather(columns, -1, draw(left))

        function = {
            "softmax": softmax, "log_softmax": log_softmax, "backward": backward, "cross_entropy": loss,
            "top_k": top_k, "top_k_8": top_k, "sample": sample, "sample_top_p": sample_top_p,
        }[op]  # fmt: skip
        if name.startswith("torch.compile"):
            # Without this the ninth shape would run uncompiled, silently.
            torch._dynamo.reset()
            mode = "max-autotune-no-cudagraphs" if "max-autotune" in name else "default"
            function = torch.compile(function, mode=mode, dynamic=False)
        if op != "cross_entropy":
            return function
        return lambda x, target: torch.autograd.grad(function(x, target), x)

if __name__ == "__main__":
    main()
