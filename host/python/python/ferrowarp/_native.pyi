"""The native part. See the sources in `host/python/src`."""

from typing import Any

import numpy

__version__: str
commit: str

def schemas() -> list[tuple[str, str, str, int, int]]:
    """Each operator's name, its name in errors, arguments, number of results, and number of results without gradients."""

def call(name: str, results: int, arguments: tuple[Any, ...]) -> tuple[numpy.ndarray, ...]:
    """Calls an operator on NumPy arrays."""

def check(name: str, results: int, arguments: tuple[Any, ...]) -> None:
    """Fails as an operator does with tensors of these types and shapes: each is a pair of them."""

def register(folder: str) -> None:
    """Gives torch's dispatcher the kernels of the operators; `folder` is torch's `lib`."""

def last_error() -> Exception | None:
    """Takes the last failure in this thread of an operator that torch called."""

def devices() -> list[tuple[str, int, int]]:
    """The GPUs: name, compute capability times 10, multiprocessors."""

def driver() -> str:
    """The newest CUDA version that the driver supports, or why there is no driver."""
