"""GPU operations written in Rust, on torch tensors and NumPy arrays.

A torch tensor is used where it is, without a copy, on torch's current stream. Results are torch tensors. The operations are custom
operators of torch (``torch.ops.ferrowarp``) with gradients, and work under ``torch.compile`` and in CUDA graphs. NumPy arrays are
computed on the CPU.

``python -m ferrowarp`` shows the devices and tests the operations on them.
"""

from . import _backend
from ._functions import (
    attention,
    cross_entropy,
    cumsum,
    layer_norm,
    log_softmax,
    matmul,
    max,
    mean,
    min,
    rms_norm,
    sample,
    softmax,
    sum,
    top_k,
    transpose,
)
from ._native import __version__

__all__ = [
    "__version__",
    "attention",
    "cross_entropy",
    "cumsum",
    "layer_norm",
    "log_softmax",
    "matmul",
    "max",
    "mean",
    "min",
    "rms_norm",
    "sample",
    "softmax",
    "sum",
    "top_k",
    "transpose",
]

_backend.find_torch()
