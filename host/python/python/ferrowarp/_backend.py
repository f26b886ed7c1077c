"""Calls an operator through torch's dispatcher, or directly for NumPy arrays."""

from __future__ import annotations

import ast
import sys
import threading
from typing import Any, Iterable, SupportsFloat

import numpy

from . import _native


class _NoTensor:
    """Stands for torch.Tensor until torch is loaded."""


class _Operator:
    """An operator of torch, and the ways to call it."""

    def __init__(self, full: Any, plain: Any, recorded: Any) -> None:
        #: With gradients, by torch's dispatcher.
        self.full = full
        #: Without gradients; where there are none, this is `full`.
        self.plain = plain
        #: The same, which torch.compile does not know.
        self.quick = plain._op
        #: With gradients that autograd records without the dispatcher.
        self.recorded = recorded


#: torch.Tensor, once torch is loaded.
Tensor: type = _NoTensor
#: The operators by name.
OPERATORS: dict[str, _Operator] = {}
#: The module _torch and functions of torch, once it is loaded.
_torch: Any = None
_is_grad_enabled: Any = None
_is_compiling: Any = None
#: Whether a call with these tensors is traced or transformed.
_is_transformed: Any = None
#: Held while the operators are registered.
_REGISTERING = threading.RLock()
#: The operators' names in errors.
TITLES = {name: title for name, title, *_ in _native.schemas()}
#: The arguments of each operator: type, name and default value, which may be empty.
_SCHEMAS = {
    name: [argument.replace("=", " ").split(" ") + [""] for argument in arguments.split(", ")]
    for name, _, arguments, *_ in _native.schemas()
}
#: The arguments' default values; 0 for those that have none.
_DEFAULTS = {name: [ast.literal_eval(argument[2] or "0") for argument in schema] for name, schema in _SCHEMAS.items()}
#: The number of results of each operator.
_RESULTS = {name: counts for name, _, _, *counts in _native.schemas()}


def find_torch() -> bool:
    """Registers the operators with torch if the program has loaded it. Returns whether it has."""
    global Tensor, _torch, _is_grad_enabled, _is_compiling, _is_transformed
    if Tensor is _NoTensor and "torch" in sys.modules:
        with _REGISTERING:
            if Tensor is _NoTensor:
                from . import _torch

                OPERATORS.update({name: _Operator(*calls) for name, calls in _torch.register().items()})
                _is_grad_enabled = _torch.torch.is_grad_enabled
                _is_compiling = _torch.torch.compiler.is_dynamo_compiling
                _is_transformed = _torch.is_transformed
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
    operator = OPERATORS[name]
    try:
        return _way(operator, arguments[:tensors])(*arguments)
    except RuntimeError as error:
        raise _exception(error, name, arguments) from None


def _way(operator: _Operator, tensors: tuple[Any, ...]) -> Any:
    """The way to call an operator with these tensors."""
    if _is_compiling():
        return operator.full if needs_gradient(*tensors) else operator.plain
    if _is_transformed(tensors):
        return operator.full
    for tensor in tensors:
        if getattr(tensor, "requires_grad", False):
            return operator.recorded if _is_grad_enabled() else operator.quick
    return operator.quick


def needs_gradient(*tensors: Any) -> bool:
    """Whether a result of these arguments has gradients, or may have some where the call is traced. Refuses forward gradients."""
    return _is_transformed(tensors) or _is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in tensors)


def gelu(tensor: Any) -> Any:
    """torch's GELU in the form with tanh."""
    return _torch.torch.nn.functional.gelu(tensor, approximate="tanh")


def run_one(name: str, tensor: Any) -> Any:
    """Runs an operator whose other arguments have their default values."""
    if not isinstance(tensor, Tensor):
        return _run_numpy(name, 1, (tensor,))
    operator = OPERATORS[name]
    try:
        return _way(operator, (tensor,))(tensor)
    except RuntimeError as error:
        raise _exception(error, name, (tensor,)) from None


def _exception(error: RuntimeError, name: str, arguments: tuple[Any, ...]) -> Exception:
    """The exception that stands for torch's error, if an operator of ours or torch's check of its arguments raised it."""
    ours = _native.last_error()
    if ours is not None and str(ours) in str(error):
        return ours
    first = str(error).partition("\n")[0]
    if not first.startswith("ferrowarp::") or "Expected a value of type" not in first:
        return error
    try:
        _check_types(name, arguments)
    except (TypeError, ValueError) as refused:
        return refused
    return TypeError(first)


def _check_types(name: str, arguments: tuple[Any, ...]) -> None:
    """Refuses an argument of the wrong type, in the same words for torch and for NumPy."""
    torch, numpys = (Tensor, "torch.Tensor"), (numpy.ndarray, "numpy.ndarray")
    (library, needs), (other, found) = (torch, numpys) if isinstance(arguments[0], Tensor) else (numpys, torch)
    schema = _SCHEMAS[name]
    for (kind, of, *_), given in zip(schema, arguments):
        failed = f"{TITLES[name]} failed: the {of.replace('_', ' ')} is"
        if kind.startswith("Tensor") and not isinstance(given, library) and (given is not None or kind == "Tensor"):
            if isinstance(given, other):
                first = schema[0][1].replace("_", " ")
                raise TypeError(f"{failed} a {found} and the {first} a {needs}; convert one of them")
            raise TypeError(f"{failed} a {type(given).__name__}; it needs a {needs}")
        if kind == "bool" and not isinstance(given, (bool, numpy.bool_)):
            raise TypeError(f"{failed} {given!r}; it must be True or False")
        if kind == "float":
            if not isinstance(given, SupportsFloat):
                raise TypeError(f"{failed} {given!r}; it must be a number")
            try:
                float(given)
            except OverflowError:
                raise ValueError(f"{failed} {given}; it must be a number that 64 bits hold") from None


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
    _check_types(name, arguments)
    results, plain = _RESULTS[name]
    made = _native.call(name, plain or results, with_defaults(name, map(_dense, arguments)))
    return made[0] if len(made) == 1 else made


def with_defaults(name: str, arguments: Iterable[Any]) -> tuple[Any, ...]:
    """All arguments of an operator, with the default values of those that are omitted."""
    given = tuple(arguments)
    return given + tuple(_DEFAULTS[name][len(given) :])


def _dense(argument: Any) -> Any:
    if isinstance(argument, numpy.ndarray):
        if not argument.dtype.isnative:
            raise TypeError(f"an array of {argument.dtype.str} has the other byte order; convert it with astype")
        if isinstance(argument, numpy.ma.MaskedArray):
            raise TypeError("a masked array would lose its mask; pass an array without one, as filled() returns")
        return numpy.asarray(argument, order="C")
    return argument
