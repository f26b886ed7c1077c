"""The operators as custom operators of torch: shapes for tracing (fake kernels), and gradients.

The kernels themselves come from the native part, which torch's dispatcher calls without passing through Python.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any, Callable

import torch
from torch.autograd import forward_ad

from . import _backend, _native

#: Keeps the registrations alive.
_LIBRARY = torch.library.Library("ferrowarp", "DEF")


# What a call asks, without the search for names.
_is_compiling = torch.compiler.is_dynamo_compiling
_in_function = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._is_tracing
_count_modes = torch._C._len_torch_dispatch_stack


def is_transformed(tensors: tuple[Any, ...]) -> bool:
    """Whether a call is traced or in a transform of torch.func, where the tensors do not show whether gradients will be wanted."""
    is_compiling = _is_compiling()
    in_function = is_compiling or _in_function()
    if forward_ad._current_level >= 0:
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and (in_function or forward_ad.unpack_dual(tensor).tangent is not None):
                raise RuntimeError("ferrowarp has no forward-mode derivatives (jvp); take the gradients backwards")
    if is_compiling:
        return torch.compiler.is_exporting()
    return in_function or _count_modes() > 0 or _is_tracing()


def _call(name: str, *arguments: Any) -> Any:
    """Calls an operator in a backward pass, with gradients if that pass is to be differentiated."""
    operator = _backend.OPERATORS[name]
    return (operator.full if torch.is_grad_enabled() else operator.plain)(*arguments)


def _empty(like: torch.Tensor, shape: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)


def _like(x, *_):
    return _empty(x, x.shape)


def _per_row(x, *_):
    return _empty(x, x.shape[:-1], torch.float32)


def _none(like):
    return _empty(like, (0,))


def _fake_top_k(logits, k, *_):
    shape = (*logits.shape[:-1], k)
    return _empty(logits, shape, torch.float32), _empty(logits, shape, torch.int32)


def _fake_norm(input, weight=None, bias=None, residual=None, epsilon=1e-6, centred=False):
    def rows(is_there):
        return _empty(input, input.shape[:-1] if is_there else (0,), torch.float32)

    total = _none(input) if residual is None else _like(input)
    return _like(input), total, rows(centred), rows(True)


def _fake_norm_backward(gradient, of_sum, input, weight, mean, rstd, centred, of_weight, of_bias):
    columns = input.shape[-1:] if input.dim() else (1,)
    return _like(input), *(_empty(input, columns if wanted else (0,)) for wanted in (of_weight, of_bias))


def _fake_attention(query, *_):
    batch, queries, heads, _ = query.shape
    return _like(query), _empty(query, (batch, heads, queries), torch.float32)


def _fake_matmul(a, b, bias=None, residual=None, scale=1.0, activation=0, tf32=False, out_float32=False):
    batch = b if b.dim() > a.dim() else a
    shape = (*batch.shape[:-2], a.shape[-2], b.shape[-1])
    return _empty(a, shape, torch.float32 if out_float32 else None)


def _fake_reduce(input, reduction=0, columns=False):
    return _empty(input, (input.shape[-1:] if input.dim() else (1,)) if columns else input.shape[:-1])


#: The gradients, and what is kept for them.
Gradients = tuple[Callable, Callable]


def _keep(*tensors: int, options: tuple[int, ...] = (), results: tuple[int, ...] = ()) -> Callable:
    """Keeps the arguments with these indices as tensors and as options, and the results with these indices."""

    def setup(ctx, inputs, output):
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*(inputs[at] for at in tensors), *(outputs[at] for at in results))
        ctx.options = [inputs[at] for at in options]

    return setup


def _softmax_gradient(ctx, gradient):
    (output,) = ctx.saved_tensors
    scale, log = ctx.options
    return _call("softmax_backward", gradient, output, scale, log), None, None, None


def _cross_entropy_gradient(ctx, gradient):
    logits, targets = ctx.saved_tensors
    return _call("cross_entropy_backward", gradient, logits, targets, *ctx.options), None, None


def _setup_norm(ctx, inputs, output):
    input, weight, bias, residual, _, centred = inputs
    _, total, mean, rstd = output
    ctx.save_for_backward(input if residual is None else total, weight, mean, rstd)
    ctx.options = (centred, weight is not None, bias is not None, residual is not None)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(mean, rstd)


def _norm_gradient(ctx, gradient, of_sum, *_):
    input, weight, mean, rstd = ctx.saved_tensors
    centred, has_weight, has_bias, has_residual = ctx.options
    if gradient is None:
        gradient = torch.zeros_like(input)
    of_input, of_weight, of_bias = _call(
        "norm_backward", gradient, of_sum if has_residual else None, input, weight, mean, rstd, centred, has_weight, has_bias
    )
    of_residual = of_input if has_residual else None
    return of_input, of_weight if has_weight else None, of_bias if has_bias else None, of_residual, None, None


def _setup_attention(ctx, inputs, output):
    query, key, value, pages, lengths, *ctx.options = inputs
    ctx.is_ragged = pages is not None or lengths is not None
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, *output)
    ctx.mark_non_differentiable(output[1])


def _attention_gradient(ctx, gradient, _):
    if ctx.is_ragged:
        raise RuntimeError("attention backward failed: there are no gradients with pages or lengths")
    made = _call("attention_backward", gradient, *ctx.saved_tensors, *ctx.options)
    return *made, None, None, None, None, None


def _setup_matmul(ctx, inputs, output):
    a, b, bias, residual, *ctx.options = inputs
    ctx.has_residual = residual is not None
    gelu = ctx.options[1] == 2
    ctx.save_for_backward(a, b, bias if gelu else None, residual if gelu else None, output if ctx.options[1] == 1 else None)


def _matmul_gradient(ctx, gradient):
    a, b, bias, residual, output = ctx.saved_tensors
    scale, activation, tf32, out_float32 = ctx.options
    # Omitted arguments need none.
    needs = (*ctx.needs_input_grad, False, False)

    def multiply(x, y):
        return _call("matmul", x, y, None, None, scale, 0, tf32)

    if activation == 1:
        gradient = gradient * (output > 0)
    elif activation == 2:
        before = _call("matmul", a, b, bias, residual, scale, 0, tf32, out_float32)
        gradient = torch.ops.aten.gelu_backward.default(gradient, before, approximate="tanh")
    of_bias = of_residual = of_a = of_b = None
    if needs[3]:
        of_residual = gradient
    if gradient.dtype != a.dtype:
        gradient = gradient.to(a.dtype)
    if needs[2]:
        of_bias = _call("reduce", gradient, 0, True)
    if needs[0]:
        of_a = multiply(gradient, b.transpose(-1, -2))
        of_a = of_a.sum_to_size(a.shape) if of_a.shape != a.shape else of_a
    if needs[1]:
        if b.dim() == 2 and a.dim() > 2:
            a, gradient = a.flatten(0, -2), gradient.flatten(0, -2)
        # In the order of memory of b, which often is the transpose of a layer's weight.
        if b.stride(-1) != 1 and b.stride(-2) == 1:
            of_b = multiply(gradient.transpose(-1, -2), a).transpose(-1, -2)
        else:
            of_b = multiply(a.transpose(-1, -2), gradient)
    return of_a, of_b, of_bias, of_residual, None, None, None, None


def _reduce_gradient(ctx, gradient):
    input, output = ctx.saved_tensors
    reduction, columns = ctx.options
    if input.dim() == 0:
        # One row of one element.
        return gradient.reshape(()), None, None
    if not columns:
        gradient, output = gradient.unsqueeze(-1), output.unsqueeze(-1)
    if reduction >= 2:
        chosen = input == output
        axes = tuple(range(input.dim() - 1)) if columns else (-1,)
        return gradient * chosen / chosen.sum(axes, keepdim=not columns), None, None
    count = math.prod(input.shape[:-1]) if columns else input.shape[-1]
    gradient = gradient.expand(input.shape)
    return gradient / count if reduction == 1 else gradient, None, None


def _cumulative_sum_gradient(ctx, gradient):
    return _call("cumulative_sum", gradient.flip(-1)).flip(-1)


def _transpose_gradient(ctx, gradient):
    return _call("transpose", gradient)


def _refuse_second(ctx, *_):
    raise RuntimeError("ferrowarp has no gradients of these gradients; differentiate once, or without create_graph")


#: The gradients of what cannot be differentiated again.
_SECOND = (_refuse_second, _keep())

#: The shape of each operator's results, and its gradients, if it has some. The native table has schemas and kernels.
_TABLE: dict[str, tuple[Callable, Gradients | None]] = {
    "softmax": (_like, (_softmax_gradient, _keep(options=(1, 2), results=(0,)))),
    "softmax_backward": (_like, _SECOND),
    "cross_entropy": (_per_row, (_cross_entropy_gradient, _keep(0, 1, options=(2,)))),
    "cross_entropy_backward": (lambda gradient, logits, *_: _like(logits), _SECOND),
    "top_k": (_fake_top_k, None),
    "sample": (lambda logits, *_: _empty(logits, logits.shape[:-1], torch.int32), None),
    "norm": (_fake_norm, (_norm_gradient, _setup_norm)),
    "norm_backward": (_fake_norm_backward, _SECOND),
    "attention": (_fake_attention, (_attention_gradient, _setup_attention)),
    "attention_backward": (lambda gradient, q, k, v, *_: (_like(q), _like(k), _like(v)), _SECOND),
    "matmul": (_fake_matmul, (_matmul_gradient, _setup_matmul)),
    "reduce": (_fake_reduce, (_reduce_gradient, _keep(0, options=(1, 2), results=(0,)))),
    "cumulative_sum": (_like, (_cumulative_sum_gradient, _keep())),
    "transpose": (lambda x: _empty(x, x.shape[::-1]), (_transpose_gradient, _keep())),
}


class _Unknown(Exception):
    """A size that only the data decides."""


def _example(argument: Any) -> Any:
    """An argument of a fake kernel as the native check takes it: the type and shape of a tensor. Sizes are those of the example."""
    if isinstance(argument, torch.Tensor):
        return str(argument.dtype).removeprefix("torch."), tuple(map(_example, argument.shape))
    if not isinstance(argument, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return argument
    if not argument.node.has_hint():
        raise _Unknown
    return argument.node.hint


def _fake(name: str, fake: Callable, count: int) -> Callable:
    """The fake kernel of a version with this many results. It refuses what the kernel refuses."""

    def checked(*arguments):
        devices = [argument.device for argument in arguments if isinstance(argument, torch.Tensor)]
        for device in devices:
            if device != devices[0]:
                raise ValueError(f"{_backend.TITLES[name]} failed: operands are on {devices[0]} and {device}; move one of them")
        with contextlib.suppress(_Unknown):
            _native.check(name, count, _backend.with_defaults(name, map(_example, arguments)))
        made = fake(*arguments)
        return made if not isinstance(made, tuple) else made[0] if count == 1 else made[:count]

    return checked


def _recorded(name: str, operator: Any, backward: Callable, setup: Callable) -> type[torch.autograd.Function]:
    """Runs an operator without its gradients, which it gives to autograd."""

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *arguments):
            with torch._C._AutoDispatchBelowAutograd():
                output = operator(*arguments)
            setup(ctx, _backend.with_defaults(name, arguments), output)
            return output

    Recorded.__name__ = name
    Recorded.backward = staticmethod(backward)
    return Recorded


def _register_gradients(name: str, full: Any, saving: Any, gradients: Gradients) -> Callable:
    """Registers the gradients of an operator. Returns a call that is faster than the dispatcher's, without traces and transforms.

    `saving` returns the same and has no gradients: compiled programs, whose gradients are compiled too, call it without a detour.
    """
    quick, traced = (_recorded(name, operator, *gradients) for operator in (saving, full))

    def with_gradients(keys, *arguments):
        if not (torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments)):
            return full.redispatch(keys & torch._C._after_autograd_keyset, *arguments)
        # What make_fx traces is to have gradients.
        is_traced = _count_modes() > 0 and torch._guards.TracingContext.try_get() is None
        return (traced if is_traced else quick).apply(*arguments)

    _LIBRARY.impl(name, with_gradients, "Autograd", with_keyset=True)
    # Without what `apply` does for torch.func.
    return super(torch.autograd.Function, quick).apply


def register() -> dict[str, tuple[Any, Any, Any]]:
    """Defines the operators and returns the calls of each by name: with gradients, without, and with gradients in the eager mode."""
    schemas = _native.schemas()
    for name, _, arguments, results, plain in schemas:
        third = results if 0 < plain < results else 0
        for of, count in ((name, results), (f"_{name}", plain), (f"_full_{name}", third)):
            if count:
                returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
                _LIBRARY.define(f"{of}({arguments}) -> {returns}", tags=(torch.Tag.pt2_compliant_tag,))
                torch.library.register_fake(f"ferrowarp::{of}", _fake(name, _TABLE[name][0], count), lib=_LIBRARY)
                if of != name:
                    # The versions without gradients pass the keys of autograd by.
                    _LIBRARY.impl(of, torch.library.fallthrough_kernel, "Autograd")
    _native.register(os.path.join(os.path.dirname(torch.__file__), "lib"))

    def calls(name: str, results: int, plain: int) -> tuple[Any, Any, Any]:
        def version(prefix: str) -> Any:
            return getattr(torch.ops.ferrowarp, prefix + name).default

        full, gradients = version(""), _TABLE[name][1]
        if gradients is None:
            return full, full, full
        saving = version("_" if plain == results else "_full_")
        return full, version("_"), _register_gradients(name, full, saving, gradients)

    return {name: calls(name, results, plain) for name, _, _, results, plain in schemas}
