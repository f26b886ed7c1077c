"""Times matrix multiplications of cuBLASLt, Triton and torch.compile on a GPU, in turns with ours.

python3 benches/peers/matmul.py --out matmul.json [--ours PROGRAM] [--types bf16,f16,tf32,f32] [--shapes REGEX] [--peers cublaslt,torch,triton,compile,copy]
                         [--budget SECONDS]

Every contender computes `out[m, n] = a[m, k] @ b[n, k].T` of random normal numbers. A GPU's clock depends on what ran before, so
the contenders of a shape take turns: each is timed once a round, and the medians of the rounds are compared. Each is timed as
timing.py describes, by CUDA graphs over sets that leave the cache cold. PROGRAM is our bench, which `--serve` makes a server.

- cublaslt: the fastest of up to 8 algorithms that its heuristics propose with 32 MiB of workspace, each timed (ctypes).
- torch: torch.matmul as it comes.
- triton: a persistent kernel with tensor descriptors, tuned over five configurations (16-bit types).
- compile: torch.compile with max-autotune.
- copy: a copy of B, for a product of at most 64 rows, whose time is that of reading B. It is no multiplication.

Of `f32` the peers do not use TF32; of `tf32` they do. Clocks and power are those that nvidia-smi reports after the last
rounds.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import time

import timing

ROUNDS = 7
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


def words(shape):
    return "x".join(str(extent) for extent in shape)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--ours", type=pathlib.Path, help="our bench, such as ./bench-matmul; without it only the peers")
    parser.add_argument("--types", default=",".join(TYPES), help=f"of {', '.join(TYPES)}")
    parser.add_argument("--shapes", default="", help="a regular expression for shapes such as 4096x4096x4096")
    parser.add_argument("--rungs", default=RUNGS, help=f"shapes at which the rungs of the ladder are timed, too ({RUNGS})")
    parser.add_argument("--peers", default="cublaslt,torch,triton,compile,copy")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no shape is begun")
    parser.add_argument("--list-shapes", action="store_true")
    options = parser.parse_args()
    if options.list_shapes:
        print("\n".join(map(words, SHAPES)))
        sys.exit()
    if not options.out:
        parser.error("--out is missing")
    options.types = options.types.split(",")
    options.peers = options.peers.split(",")
    options.rungs = options.rungs.split(",")
    if unknown := set(options.types) - set(TYPES):
        parser.error(f"unknown types: {', '.join(sorted(unknown))}; choose from {', '.join(TYPES)}")
    return options


class Server:
    """Our bench, which prepares a multiplication and times it when it is asked to."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise RuntimeError(answer or "our bench ended")
        return answer


class Ours:
    def __init__(self, server, name, kind, shape):
        self.server, self.name = server, name
        error, _, self.kernels = server.ask(f"prepare {name} {kind} {' '.join(map(str, shape))}").partition(" ")
        self.error = float(error)

    def time(self):
        return float(self.server.ask(f"time {self.name}"))

    def free(self):
        self.server.ask(f"free {self.name}")


class Peer:
    """A function of the sets, recorded as a graph."""

    def __init__(self, timer, sets, function):
        torch = timer.torch
        self.timer, self.sets = timer, sets
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for given in sets[:3]:
                function(*given)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        run = lambda i: function(*sets[i])
        self.graph, self.rounds = timer.record(run, len(sets), 1), 1
        seconds = timer.replay(self.graph, 1)
        self.rounds = max(1, min(round(timing.GRAPH_SECONDS / seconds), timing.MOST_LAUNCHES // len(sets)))
        if self.rounds > 1:
            self.graph = timer.record(run, len(sets), self.rounds)
            seconds = timer.replay(self.graph, 1)
        self.replays = max(1, round(timing.BATCH_SECONDS / seconds))

    def time(self):
        return self.timer.replay(self.graph, self.replays) / (self.replays * self.rounds * len(self.sets))

    def free(self):
        self.graph = None


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
    if shape[0] > 64:
        raise ValueError("for at most 64 rows")
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


def clock_and_power():
    found = timing.printed("nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0")
    try:
        return [float(number) for number in (found or "").split(",")]
    except ValueError:
        return []


def contest(timer, options, server, kind, shape):
    """The entries of one shape: the contenders take turns."""
    timer.torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    entry = lambda name: {"name": name, "dtype": kind, "m": shape[0], "n": shape[1], "k": shape[2]}
    contenders, failed = {}, []

    def add(name, make):
        try:
            contenders[name] = make()
        except Exception as error:
            failed.append(entry(name) | {"error": timing.told(error), "samples": 0, "sets": 0})

    names = ["matmul"] if server else []
    if server and kind == "bf16" and words(shape) in options.rungs:
        names += server.ask("rungs").split()
    for name in names:
        add(name, lambda: Ours(server, name, kind, shape))
    sets = make_sets(timer, kind, shape)
    for name in options.peers:
        def make(name=name):
            peer = PEERS[name](timer, sets, kind, shape)
            peer.error = error_of(timer, sets, peer, name)
            return peer

        add(name, make)
    times = {name: [] for name in contenders}
    readings = {name: [] for name in contenders}
    for turn in range(ROUNDS):
        for name, contender in contenders.items():
            times[name].append(contender.time())
            # The program that reads them takes longer than a turn.
            if turn >= ROUNDS - 2:
                readings[name].append(clock_and_power())
    done = []
    for name, contender in contenders.items():
        figures = {"microseconds": statistics.median(times[name]) * 1e6, "samples": ROUNDS, "sets": len(sets)}
        known = [reading for reading in readings[name] if len(reading) == 2]
        if known:
            figures["clock_and_power"] = [statistics.median(column) for column in zip(*known)]
        if contender.error is not None:
            figures["relative_error"] = contender.error
        if isinstance(contender, Ours):
            figures["kernels"] = contender.kernels
        done.append(entry(name) | figures)
        contender.free()
    return done + failed


def main():
    options = parse()
    timer = timing.Timer("cuda")
    server = Server(options.ours.resolve()) if options.ours else None
    results = timer.machine({}, {}) | {"entries": []}
    start, skipped = time.monotonic(), []
    for kind in options.types:
        for shape in SHAPES:
            if not re.search(options.shapes, words(shape)):
                continue
            if time.monotonic() - start > options.budget:
                skipped.append(f"{kind}/{words(shape)}")
                continue
            try:
                entries = contest(timer, options, server, kind, shape)
            except Exception as error:
                entries = [{"name": "all", "dtype": kind, "m": shape[0], "n": shape[1], "k": shape[2], "error": timing.told(error)}]
            results["entries"] += entries
            timing.write(options.out, results)
            for found in entries:
                flops = 2 * shape[0] * shape[1] * shape[2] / found["microseconds"] / 1e6 if "microseconds" in found else 0
                told = found.get("error") or f"{found['microseconds']:10.2f} us {flops:8.1f} TFLOP/s {found.get('clock_and_power', '')}"
                print(f"{kind}/{words(shape):20} {found['name']:10} {told}", flush=True)
            timer.forget()
    results["skipped"] = skipped
    timing.write(options.out, results)
    print(f"{len(results['entries'])} entries, {len(skipped)} shapes skipped")


if __name__ == "__main__":
    main()
