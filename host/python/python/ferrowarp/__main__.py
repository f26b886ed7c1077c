"""``python -m ferrowarp``: shows versions and devices, and tests the operations on them."""

from __future__ import annotations

import argparse
import platform
import sys
from typing import Any, Callable

import numpy

import ferrowarp

from . import _backend, _native


def _softmax(x: Any) -> Any:
    powers = numpy.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _tests(of: Callable[[Any], Any]) -> dict[str, tuple[Any, Any]]:
    """A result and what it should be, by operation; `of` moves an array to the device."""
    rng = numpy.random.default_rng(0)
    x, w = rng.standard_normal((64, 1000)).astype("f4"), rng.standard_normal((1000, 64)).astype("f4")
    h = rng.standard_normal((1, 32, 2, 64)).astype("f2")
    targets = rng.integers(0, 1000, 64)
    q = h.astype("f8").transpose(0, 2, 1, 3)
    attended = _softmax(q @ q.transpose(0, 1, 3, 2) / 8) @ q
    chosen = _softmax(x.astype("f8"))[numpy.arange(64), targets]
    return {
        "softmax": (ferrowarp.softmax(of(x)), _softmax(x.astype("f8"))),
        "cross entropy": (ferrowarp.cross_entropy(of(x), of(targets), reduction="none"), -numpy.log(chosen)),
        "RMSNorm": (ferrowarp.rms_norm(of(x)), x / numpy.sqrt((x.astype("f8") ** 2).mean(-1, keepdims=True))),
        "matmul": (ferrowarp.matmul(of(x), of(w)), x.astype("f8") @ w.astype("f8")),
        "attention": (ferrowarp.attention(of(h), of(h), of(h)), attended.transpose(0, 2, 1, 3)),
        "cumulative sum": (ferrowarp.cumsum(of(x)), x.astype("f8").cumsum(-1)),
        "top-k": (ferrowarp.top_k(of(x), 4)[1], numpy.argsort(-x, -1)[:, :4]),
    }


def main() -> int:
    """Prints everything and returns 1 if a test failed."""
    argparse.ArgumentParser(prog="python -m ferrowarp", description=str(__doc__).partition(": ")[2]).parse_args()
    try:
        import torch

        with_torch = f"torch {torch.__version__}" if _backend.find_torch() else "no torch"
    except ImportError:
        torch, with_torch = None, "no torch"
    print(f"ferrowarp {ferrowarp.__version__}, Python {platform.python_version()}, NumPy {numpy.__version__}, {with_torch}")
    print(f"CUDA driver: {_native.driver()}")
    for index, (name, capability, multiprocessors) in enumerate(_native.devices()):
        if multiprocessors:
            print(f"GPU {index}: {name}, compute capability {capability / 10}, {multiprocessors} multiprocessors")
        else:
            print(f"no GPU: {name}")
    places: dict[str, tuple[Callable, Callable]] = {"NumPy arrays on the CPU": (lambda x: x, lambda x: x)}
    if torch is not None:
        names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        for name in names:
            move = lambda x, name=name: torch.tensor(x, device=name)
            places[f"torch tensors on {name}"] = (move, lambda x: x.cpu().numpy())
    failed = 0
    for place, (to, back) in places.items():
        try:
            tests = _tests(to)
        except RuntimeError as error:
            failed = 1
            print(f"{place}: {error}")
            continue
        for name, (got, expected) in tests.items():
            error = numpy.abs(back(got).astype("f8") - expected).max()
            if not error < 5e-3:
                failed = 1
                print(f"{place}: {name} is wrong by {error}")
        print(f"{place}: tested")
    return failed


if __name__ == "__main__":
    sys.exit(main())
