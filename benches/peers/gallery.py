"""The peers of `cargo xtask gallery` on a GPU: PyTorch, eager and compiled, at the problems of our own run.

python3 benches/peers/gallery.py --ours gallery.json --out peers.json [--lessons NAMES] [--budget SECONDS] [--device cuda|cpu]

Timed as our own bench does (see timing.py). A peer that fails is an entry with the error, and the rest goes on. Products of
f32 are products of f32: TF32 is off.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import timing


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", type=pathlib.Path, required=True, help="what our run of the gallery wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file to write")
    parser.add_argument("--lessons", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds after which nothing more is begun")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    options.lessons = options.lessons.split(",")
    if unknown := set(options.lessons) - set(PEERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PEERS)}")
    return options


def numbers(problem):
    """The numbers in the words for a problem."""
    return [int(number) for number in re.findall(r"\d+", problem)]


class Problem:
    """The arrays of a peer, in sets that launches take in turns."""

    def __init__(self, timer, entry):
        self.timer = timer
        self.torch = timer.torch
        self.numbers = numbers(entry["problem"])

    def random(self, *shape):
        return self.torch.empty(*shape, device=self.timer.device).uniform_(-1, 1)

    def sets(self, make):
        """As many sets as leave the cache cold."""
        first = make()
        size = sum(array.numel() * array.element_size() for array in first)
        return [first] + [make() for _ in range(self.timer.count(size) - 1)]

    def time(self, make, function):
        sets = self.sets(make)
        return self.timer.measure(lambda i: function(*sets[i]), len(sets))

    def compiled(self, function):
        # Without this the ninth shape would run uncompiled, silently.
        self.torch._dynamo.reset()
        return self.torch.compile(function, dynamic=False)


def vector_add(problem):
    n, torch = problem.numbers[0], problem.torch
    arrays = lambda: tuple(problem.random(n) for _ in range(3))
    yield "torch.add", lambda: problem.time(arrays, lambda a, b, out: torch.add(a, b, out=out))


def copy(problem):
    n, torch = problem.numbers[0], problem.torch
    arrays = lambda: tuple(torch.zeros(n, device=problem.timer.device, dtype=torch.int32) for _ in range(2))
    yield "torch copy_", lambda: problem.time(arrays, lambda a, out: out.copy_(a))


def reduce(problem):
    n, torch = problem.numbers[0], problem.torch
    yield "torch.sum", lambda: problem.time(lambda: (problem.random(n),), torch.sum)


def dot(problem):
    n, torch = problem.numbers[0], problem.torch
    yield "torch.dot", lambda: problem.time(lambda: (problem.random(n), problem.random(n)), torch.dot)


def fusion(problem):
    if len(problem.numbers) > 1:
        return  # A layer.
    n, torch = problem.numbers[0], problem.torch
    arrays = lambda: (problem.random(n) * 4,)

    def sin_cos(x):
        return torch.sin(x) ** 2 + torch.cos(x) ** 2

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    yield "torch eager, sin_cos", lambda: problem.time(arrays, sin_cos)
    yield "torch.compile, sin_cos", lambda: problem.time(arrays, problem.compiled(sin_cos))
    yield "torch eager, gelu", lambda: problem.time(arrays, gelu)
    yield "torch.compile, gelu", lambda: problem.time(arrays, problem.compiled(gelu))
    builtin = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    yield "torch's own gelu", lambda: problem.time(arrays, builtin)


def recompute(problem):
    n, torch = problem.numbers[0], problem.torch

    def both(x, gradient):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(torch.sigmoid(torch.sigmoid(torch.sigmoid(x))), x, gradient)

    arrays = lambda: (problem.random(n) * 4, problem.random(n))
    yield "torch eager", lambda: problem.time(arrays, both)


def matmul(problem):
    m, n, k = problem.numbers[:3]
    torch = problem.torch
    arrays = lambda: (problem.random(m, k), problem.random(k, n), problem.random(m, n))
    yield "cuBLAS", lambda: problem.time(arrays, lambda a, b, out: torch.matmul(a, b, out=out))


def halves(problem):
    """Products of bf16 and the transpose of the second operand, and softmax of bf16."""
    torch, device = problem.torch, problem.timer.device
    normal = lambda *shape: torch.randn(*shape, device=device, dtype=torch.bfloat16)
    if len(problem.numbers) == 2:
        yield "torch.softmax", lambda: problem.time(lambda: (normal(*problem.numbers),), lambda x: torch.softmax(x, -1))
        return
    m, n, k = problem.numbers
    arrays = lambda: (normal(m, k), normal(n, k), normal(m, n))
    name = "cuBLAS" if m == n else "cuBLAS, logits"
    yield name, lambda: problem.time(arrays, lambda a, b, out: torch.matmul(a, b.T, out=out))


PEERS = {
    "vector_add": vector_add,
    "copy_offset": copy,
    "reduce": reduce,
    "dot": dot,
    "fusion": fusion,
    "recompute": recompute,
    "matmul": matmul,
    "alignment": halves,
}


def main():
    options = parse()
    ours = json.loads(options.ours.read_text())["entries"]
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(os.cpu_count() or 1))
    timer = timing.Timer(options.device)
    timer.torch.backends.cuda.matmul.allow_tf32 = False
    start, entries, seen = time.monotonic(), [], set()
    for entry in ours:
        key = (entry["lesson"], entry["problem"])
        if entry["lesson"] not in options.lessons or key in seen:
            continue
        seen.add(key)
        problem = Problem(timer, entry)
        for name, measured in PEERS[entry["lesson"]](problem):
            kept = ("lesson", "at", "problem", "bytes", "flop", "peak")
            found = {"name": name, "idea": "PyTorch"} | {field: entry[field] for field in kept if field in entry}
            if time.monotonic() - start > options.budget:
                found["error"] = f"left out: the budget of {options.budget:.0f} s was used up"
            else:
                try:
                    figures = measured()
                    found |= {field: figures[field] for field in ("microseconds", "samples")}
                except Exception as error:  # One peer's failure is a result, whatever it is.
                    found["error"] = timing.told(error)
                timer.forget()
            entries.append(found)
            outcome = found.get("error") or f"{found['microseconds']:.2f} us"
            print(f"{entry['lesson']} {name} {entry['problem']}: {outcome}", flush=True)
    timing.write(options.out, timer.machine({}, {}) | {"entries": entries})
    sys.exit(0 if any("microseconds" in entry for entry in entries) else 1)


if __name__ == "__main__":
    main()
