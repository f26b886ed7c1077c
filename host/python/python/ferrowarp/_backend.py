"""Calls an operator through torch's dispatcher, or directly for NumPy arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy

from . import _native


class _NoTensor:
    """Stands for torch.Tensor until torch is loaded."""


#: torch.Tensor, once torch is loaded.
Tensor: type = _NoTensor
#: The operators with gradients and those without, by name; where one does not have the other, they are the same.
OPERATORS: dict[str, tuple[Any, Any]] = {}
#: torch.is_grad_enabled
_is_grad_enabled: Any = None
#: The number of results of each operator.
_RESULTS = {name: (results, plain) for name, _, results, plain in _native.schemas()}


def find_torch() -> bool:
    """Registers the operators with torch if the program has loaded it. Returns whether it has."""
    global Tensor, _is_grad_enabled
    if Tensor is _NoTensor and "torch" in sys.modules:
        from . import _torch

        OPERATORS.update(_torch.register())
        _is_grad_enabled = _torch.torch.is_grad_enabled
        Tensor = _torch.torch.Tensor
    return Tensor is not _NoTensor


def run(name: str, needs_gradient: bool, *arguments: Any) -> Any:
    """Runs an operator. Without gradients it returns only the first results, as the table of operators says."""
    if isinstance(arguments[0], Tensor):
        full, plain = OPERATORS[name]
        try:
            return (full if needs_gradient and _is_grad_enabled() else plain)(*arguments)
        except RuntimeError as error:
            raise _exception(error) from None
    return _run_numpy(name, arguments)


def _exception(error: RuntimeError) -> Exception:
    """The exception that stands for torch's error, if it comes from an operator of ours."""
    ours = _native.last_error()
    return ours if ours is not None and str(ours) in str(error) else error


def is_torch(first: Any) -> bool:
    """Whether the argument is a torch tensor; otherwise it is a NumPy array, or this fails."""
    if isinstance(first, Tensor):
        return True
    if isinstance(first, numpy.ndarray):
        return False
    if type(first).__module__.split(".")[0] == "torch" and find_torch():
        return isinstance(first, Tensor)
    raise TypeError(f"ferrowarp takes a torch.Tensor or a numpy.ndarray, not {type(first).__name__}")


def needs_gradient(*tensors: Any) -> bool:
    """Whether a torch tensor among the arguments requires a gradient."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            return True
    return False


def _run_numpy(name: str, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(arguments[0], numpy.ndarray):
        # torch was loaded after this package.
        if is_torch(arguments[0]):
            return run(name, needs_gradient(*arguments), *arguments)
    results, plain = _RESULTS[name]
    dense = tuple(_dense(argument) for argument in arguments)
    made = _native.call(name, plain or results, dense)
    return made[0] if len(made) == 1 else made


def _dense(argument: Any) -> Any:
    if isinstance(argument, numpy.ndarray):
        if not argument.dtype.isnative:
            raise TypeError(f"an array of {argument.dtype.str} has the other byte order; convert it with astype")
        return numpy.asarray(argument, order="C")
    if isinstance(argument, Tensor):
        raise TypeError("some arguments are NumPy arrays and some are torch tensors; pass one kind")
    return argument
