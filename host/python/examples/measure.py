"""Measures what a call costs on tiny tensors, next to torch's own functions, and trains with both: writes a page of figures.

``python measure.py --page docs/results/python.md`` needs a GPU. It runs `train.py`, which is next to it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch.nn import functional

import ferrowarp as fw
from ferrowarp import _native

CALLS, SAMPLES = 500, 40


def contenders() -> dict[str, tuple]:
    """For each operation, a call of ours, one of our operator alone, and torch's."""
    x = torch.randn(4, 16, device="cuda")
    weight = torch.randn(16, device="cuda")
    h = torch.randn(1, 16, 2, 64, device="cuda", dtype=torch.bfloat16)
    t = h.transpose(1, 2)
    a, b = (torch.randn(16, 16, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    targets = torch.randint(16, (4,), device="cuda")
    ours = torch.ops.ferrowarp
    softmax, norm, attention = ours._softmax.default, ours._norm.default, ours._attention.default
    matmul, reduce = ours._matmul.default, ours._reduce.default
    losses = ours._cross_entropy.default
    return {
        "softmax": (
            lambda: fw.softmax(x), lambda: softmax(x), lambda: torch.softmax(x, -1),
        ),
        "RMSNorm": (
            lambda: fw.rms_norm(x, weight),
            lambda: norm(x, weight),
            lambda: functional.rms_norm(x, (16,), weight, 1e-6),
        ),
        "cross entropy": (
            lambda: fw.cross_entropy(x, targets, reduction="none"),
            lambda: losses(x, targets),
            lambda: functional.cross_entropy(x, targets, reduction="none"),
        ),
        "attention": (
            lambda: fw.attention(h, h, h, causal=True),
            lambda: attention(h, h, h, None, None, 2),
            lambda: functional.scaled_dot_product_attention(t, t, t, is_causal=True),
        ),
        "matmul": (
            lambda: fw.matmul(a, b), lambda: matmul(a, b), lambda: torch.matmul(a, b),
        ),
        "sum": (lambda: fw.sum(x), lambda: reduce(x), lambda: torch.sum(x, -1)),
    }


def microseconds(call) -> float:
    """The time of a call, without the wait for the GPU, which is never behind: each sample fits its queue."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * spent / CALLS


def overheads() -> dict[str, list[float]]:
    """The median time of a call of each contender, in turns."""
    results = {}
    for name, calls in contenders().items():
        samples = [[] for _ in calls]
        for _ in range(SAMPLES):
            for call, times in zip(calls, samples):
                times.append(microseconds(call))
        results[name] = [statistics.median(times) for times in samples]
    return results


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def page(calls: dict[str, list[float]], training: dict | None) -> str:
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    today = datetime.datetime.now(datetime.timezone.utc).date()
    rows = [
        [name, *(f"{micros:.2f}" for micros in times), f"{times[0] / times[2]:.2f}", f"{times[1] / times[2]:.2f}"]
        for name, times in calls.items()
    ]
    text = (
        "# The Python package: the cost of a call, and training\n\n"
        f"{torch.cuda.get_device_name()}, driver {driver}, torch {torch.__version__}, Python {sys.version.split()[0]}, {today}, "
        f"commit {_native.commit}. Written by `host/python/examples/measure.py`.\n\n"
        "## A call\n\n"
        f"Microseconds of the host for a call on tensors of a few elements: the median of {SAMPLES} samples of {CALLS} calls, the "
        "contenders in turns. The operator is called as `torch.ops.ferrowarp`, the function as `ferrowarp`.\n\n"
    )
    text += table(["operation", "function", "operator", "torch", "function / torch", "operator / torch"], rows)
    if training is None:
        return text
    runs = training["runs"]
    base = {run["compiled"]: run["milliseconds"] for run in runs if run["ops"] == "torch"}
    losses = [run["losses"] for run in runs]
    apart = max(abs(a - b) for of in losses for a, b in zip(losses[0], of))
    rows = [
        [
            run["ops"],
            "compiled" if run["compiled"] else "eager",
            f"{run['milliseconds']:.2f}",
            f"{base[run['compiled']] / run['milliseconds']:.3f}",
            *(f"{run['losses'][at]:.4f}" for at in (0, len(run["losses"]) // 2, -1)),
        ]
        for run in runs
    ]
    text += (
        "\n## Training\n\n"
        "A decoder in bfloat16, trained by `host/python/examples/train.py` with its defaults: with torch's operations, with "
        "ferrowarp's attention, norms and cross entropy and torch's linear layers, and with ferrowarp's linear layers too (everything). "
        f"Milliseconds are the median of a step, the models in turns. Over {training['steps']} steps, the losses of the same step differ by at most "
        f"{apart:.4f}.\n\n"
    )
    header = ["operations", "way", "ms a step", "torch / this", "first loss", "middle", "last"]
    return text + table(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    calls = overheads()
    options.page.write_text(page(calls, None))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "training.json"
        train = [sys.executable, str(pathlib.Path(__file__).with_name("train.py")), "--json", str(file)]
        subprocess.run([*train, "--steps", str(options.steps)], check=True)
        options.page.write_text(page(calls, json.loads(file.read_text())))
    print(options.page.read_text())


if __name__ == "__main__":
    main()
