"""Times the attention of PyTorch and FlashAttention-3 on a GPU, in turns with ours.

python3 benches/peers/attention.py --out attention.json [--ours PROGRAM] [--types bf16,f16] [--shapes REGEX] [--peers sdpa,cudnn,flex,fa3]
                         [--budget SECONDS]

Every contender computes the forward attention of random normal tensors `[batch, length, heads, head size]`. A GPU's clock depends on
what ran before, so the contenders of a shape take turns: each is timed once a round, and the medians of the rounds are compared. Each
is timed as timing.py describes, by CUDA graphs over sets that leave the cache cold. PROGRAM is our bench, which `--serve` makes a
server.

- sdpa: torch.nn.functional.scaled_dot_product_attention as it comes.
- cudnn: the same, restricted to cuDNN.
- flex: FlexAttention, compiled, with a block mask where it is causal.
- fa3: FlashAttention-3, where the module flash_attn_interface is installed.

Clocks and power are those that nvidia-smi reports after the last rounds.
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
TYPES = ("bf16", "f16")
# Queries whose results are checked.
CHECKED = 16

# Batch, length, heads, key heads, head size, and whether it is causal.
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
]


def words(shape):
    return "x".join(str(extent) for extent in shape[:5]) + ("-causal" if shape[5] else "")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--ours", type=pathlib.Path, help="our bench, such as ./bench-attention; without it only the peers")
    parser.add_argument("--types", default=",".join(TYPES), help=f"of {', '.join(TYPES)}")
    parser.add_argument("--shapes", default="", help="a regular expression for shapes such as 4x4096x16x16x128-causal")
    parser.add_argument("--peers", default=",".join(PEERS))
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
    for unknown in (set(options.types) - set(TYPES), set(options.peers) - set(PEERS)):
        if unknown:
            parser.error(f"no {', '.join(sorted(unknown))}; choose from {', '.join(TYPES)} and {', '.join(PEERS)}")
    return options


class Server:
    """Our bench, which prepares an attention and times it when it is asked to."""

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
        error, _, self.kernels = server.ask(f"prepare {name} {kind} {words(shape)}").partition(" ")
        self.error = float(error)

    def time(self):
        return float(self.server.ask(f"time {self.name}"))

    def free(self):
        self.server.ask(f"free {self.name}")


class Peer:
    """A function of the sets, recorded as a graph. It gives the result as `[batch, length, heads, head size]`."""

    def __init__(self, timer, sets, function):
        torch = timer.torch
        self.function = function
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


def with_sdpa(timer, sets, shape, backend=None):
    import contextlib

    from torch.nn.attention import sdpa_kernel

    def function(q, k, v):
        with sdpa_kernel(backend) if backend else contextlib.nullcontext():
            heads_first = [x.transpose(1, 2) for x in (q, k, v)]
            attention = timer.torch.nn.functional.scaled_dot_product_attention
            return attention(*heads_first, is_causal=shape[5], enable_gqa=shape[2] != shape[3]).transpose(1, 2)

    return Peer(timer, sets, function)


def sdpa(timer, sets, shape):
    return with_sdpa(timer, sets, shape)


def cudnn(timer, sets, shape):
    from torch.nn.attention import SDPBackend

    return with_sdpa(timer, sets, shape, SDPBackend.CUDNN_ATTENTION)


def flex(timer, sets, shape):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch = timer.torch
    torch._dynamo.reset()
    mask = None
    if shape[5]:
        mask = create_block_mask(lambda b, h, query, key: query >= key, None, None, shape[1], shape[1], device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)

    def function(q, k, v):
        heads_first = [x.transpose(1, 2) for x in (q, k, v)]
        return compiled(*heads_first, block_mask=mask, enable_gqa=shape[2] != shape[3]).transpose(1, 2)

    return Peer(timer, sets, function)


def fa3(timer, sets, shape):
    from flash_attn_interface import flash_attn_func

    def function(q, k, v):
        out = flash_attn_func(q, k, v, causal=shape[5])
        return out[0] if isinstance(out, tuple) else out

    return Peer(timer, sets, function)


PEERS = {"sdpa": sdpa, "cudnn": cudnn, "flex": flex, "fa3": fa3}


def make_sets(timer, kind, shape):
    torch, (batch, length, heads, key_heads, head_size, _) = timer.torch, shape
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[kind]
    size = 2 * batch * length * (heads + key_heads) * head_size * dtype.itemsize
    random = lambda heads: torch.randn(batch, length, heads, head_size, device="cuda", dtype=dtype)
    return [(random(heads), random(key_heads), random(key_heads)) for _ in range(timer.count(size))]


def error_of(timer, sets, peer, shape):
    """The error of a peer's last queries of the last head against f64: the root of the mean square of the differences over that of
    the results."""
    torch, (q, k, v) = timer.torch, sets[0]
    with torch.no_grad():
        got = peer.function(q, k, v)[-1, -CHECKED:, -1].double()
    rows = q[-1, -CHECKED:, -1].double()
    logits = rows @ k[-1, :, -1].double().T / shape[4] ** 0.5
    if shape[5]:
        places = torch.arange(shape[1], device="cuda")
        logits = logits.masked_fill(places[None] > places[-CHECKED:, None], float("-inf"))
    want = logits.softmax(-1) @ v[-1, :, -1].double()
    off = ((got - want).norm() / want.norm()).item()
    if not off < 0.02:
        raise RuntimeError(f"its results are off by {off:.2g}")
    return off


def clock_and_power():
    found = timing.printed("nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0")
    try:
        return [float(number) for number in (found or "").split(",")]
    except ValueError:
        return []


def entry_of(name, kind, shape):
    batch, length, heads, key_heads, head_size, causal = shape
    extents = {"batch": batch, "length": length, "heads": heads, "key_heads": key_heads, "head_size": head_size}
    return {"name": name, "dtype": kind} | extents | {"causal": causal}


def operations(shape):
    batch, length, heads, _, head_size, causal = shape
    return 4 * batch * heads * head_size * length**2 / (2 if causal else 1)


def contest(timer, options, server, kind, shape):
    """The entries of one shape: the contenders take turns."""
    contenders, failed = {}, []

    def add(name, make):
        try:
            contenders[name] = make()
        except Exception as error:
            failed.append(entry_of(name, kind, shape) | {"error": timing.told(error), "samples": 0, "sets": 0})

    if server:
        add("attention", lambda: Ours(server, "attention", kind, shape))
    sets = make_sets(timer, kind, shape)
    for name in options.peers:
        def make(name=name):
            with timer.torch.no_grad():
                peer = PEERS[name](timer, sets, shape)
            peer.error = error_of(timer, sets, peer, shape)
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
        figures["relative_error"] = contender.error
        if isinstance(contender, Ours):
            figures["kernels"] = contender.kernels
        done.append(entry_of(name, kind, shape) | figures)
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
                entries = [entry_of("all", kind, shape) | {"error": timing.told(error)}]
            results["entries"] += entries
            timing.write(options.out, results)
            for found in entries:
                flops = operations(shape) / found["microseconds"] / 1e6 if "microseconds" in found else 0
                told = found.get("error") or f"{found['microseconds']:10.2f} us {flops:8.1f} TFLOP/s {found.get('clock_and_power', '')}"
                print(f"{kind}/{words(shape):26} {found['name']:10} {told}", flush=True)
            timer.forget()
    results["skipped"] = skipped
    timing.write(options.out, results)
    print(f"{len(results['entries'])} entries, {len(skipped)} shapes skipped")


if __name__ == "__main__":
    main()
