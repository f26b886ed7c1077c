"""Calls an operator through torch's dispatcher, or directly for NumPy arrays."""

from __future__ import annotations

import ast
import sys
import threading
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
#: Whether a call with these tensors is traced or transformed.
_is_transformed: Any = None
#: Held while the operators are registered.
_REGISTERING = threading.RLock()
#: torch.nn.functional.gelu
_gelu: Any = None
#: The arguments' default values; 0 for those that have none.
_DEFAULTS = {
    name: [ast.literal_eval(argument.partition("=")[2] or "0") for argument in arguments.split(", ")]
    for name, arguments, _, _ in _native.schemas()
}
#: The number of results of each operator.
_RESULTS = {name: (results, plain) for name, _, results, plain in _native.schemas()}


def find_torch() -> bool:
    """Registers the operators with torch if the program has loaded it. Returns whether it has."""
    global Tensor, _is_grad_enabled, _is_transformed, _gelu
    if Tensor is _NoTensor and "torch" in sys.modules:
        with _REGISTERING:
            if Tensor is _NoTensor:
                from . import _torch

                OPERATORS.update(_torch.register())
                _is_grad_enabled = _torch.torch.is_grad_enabled
                _is_transformed = _torch.is_transformed
                _gelu = _torch.torch.nn.functional.gelu
                # Last: other threads take it as the sign that all is there.
                Tensor = _torch.torch.Tensor
    return Tensor is not _NoTensor


def run(name: str, tensors: int, *arguments: Any) -> Any:
    """Runs an operator, with gradients if one of the first `tensors` arguments needs them.

    Without gradients it returns only the first results, as the table of operators says.
    """
    first = arguments[0]
    if not isinstance(first, Tensor):
        return _run_numpy(name, tensors, arguments)
    full, plain = OPERATORS[name]
    try:
        if needs_gradient(*arguments[:tensors]):
            return full(*arguments)
        return plain(*arguments)
    except RuntimeError as error:
        raise _exception(error) from None


def needs_gradient(*tensors: Any) -> bool:
    """Whether a result of these arguments has gradients, or may have some where the call is traced. Refuses forward gradients."""
    if _is_transformed(tensors):
        return True
    for tensor in tensors:
        if getattr(tensor, "requires_grad", False):
            return _is_grad_enabled()
    return False


def gelu(tensor: Any) -> Any:
    """torch's GELU in the form with tanh."""
    return _gelu(tensor, approximate="tanh")


def run_one(name: str, tensor: Any) -> Any:
    """Runs an operator whose other arguments have their default values."""
    if not isinstance(tensor, Tensor):
        return _run_numpy(name, 1, (tensor,))
    full, plain = OPERATORS[name]
    try:
        return full(tensor) if needs_gradient(tensor) else plain(tensor)
    except RuntimeError as error:
        raise _exception(error) from None


def _exception(error: RuntimeError) -> Exception:
    """The exception that stands for torch's error, if an operator of ours or torch's check of its arguments raised it."""
    ours = _native.last_error()
    if ours is not None and str(ours) in str(error):
        return ours
    first = str(error).partition("\n")[0]
    return TypeError(first) if first.startswith("ferrowarp::") and "Expected a value of type" in first else error


def is_torch(first: Any) -> bool:
    """Whether the argument is a torch tensor; otherwise it is a NumPy array, or this fails."""
    if isinstance(first, Tensor):
        return True
    if isinstance(first, numpy.ndarray):
        return False
    if type(first).__module__.split(".")[0] == "torch" and find_torch():
        return isinstance(first, Tensor)
    raise TypeError(f"ferrowarp takes a torch.Tensor or a numpy.ndarray, not {type(first).__name__}")


def _run_numpy(name: str, tensors: int, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(arguments[0], numpy.ndarray) and is_torch(arguments[0]):
        # torch was loaded after this package.
        return run(name, tensors, *arguments)
    results, plain = _RESULTS[name]
    dense = [_dense(argument) for argument in arguments]
    # Defaults that were omitted.
    dense += _DEFAULTS[name][len(dense) :]
    made = _native.call(name, plain or results, tuple(dense))
    return made[0] if len(made) == 1 else made


def _dense(argument: Any) -> Any:
    if isinstance(argument, numpy.ndarray):
        if not argument.dtype.isnative:
            raise TypeError(f"an array of {argument.dtype.str} has the other byte order; convert it with astype")
        if isinstance(argument, numpy.ma.MaskedArray):
            raise TypeError("a masked array would lose its mask; pass an array without one, as filled() returns")
        return numpy.asarray(argument, order="C")
    if isinstance(argument, Tensor):
        raise TypeError("some arguments are NumPy arrays and some are torch tensors; pass one kind")
    return argument
