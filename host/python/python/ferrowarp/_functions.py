"""The functions of the package."""

from __future__ import annotations

from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeVar

import numpy

from . import _backend
from ._backend import run, run_one

#: A torch.Tensor or a numpy.ndarray.
Array = TypeVar("Array")

_ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2}
_CAUSAL = {None: 0, False: 0, True: 2, "top_left": 1, "bottom_right": 2}


#: The most columns that top-k and a sample choose from.
_MOST = 128


def _check_whole(name: str, value: Any, least: int = -(2**63), most: int = 2**63 - 1) -> None:
    """Refuses what is not a whole number in this range. `name` begins with what failed, if it is an operator's option."""
    if isinstance(value, bool) or not isinstance(value, (int, SupportsIndex)):
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; it must be from {least} to {most}")


def _moved(x: Any, source: int, destination: int) -> Any:
    is_torch = _backend.is_torch(x)
    for axis in (source, destination):
        _check_whole("dim", axis)
    return x.movedim(source, destination) if is_torch else numpy.moveaxis(x, source, destination)


def _option(table: dict, name: str, value: Any) -> int:
    try:
        return table[value]
    except (KeyError, TypeError):
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, table))}") from None


def _check_scale(name: str, scale: float, most: int = 127) -> None:
    if not isinstance(scale, SupportsFloat):
        raise TypeError(f"{name} failed: the scale is {scale!r}; it must be a number")
    if not 2.0**-126 <= scale <= 2.0**most:
        raise ValueError(f"{name} failed: the scale is {scale}; it must be from 2^-126 to 2^{most}")


def softmax(input: Array, dim: int = -1, *, scale: float = 1.0, log: bool = False, zero_masked: bool = False) -> Array:
    """Returns the softmax of ``scale * input`` along an axis, in the input's shape and type.

    Args:
        input: float32, float16 or bfloat16, with up to 8 axes. The last axis is the fastest; another one is moved there.
        dim: The axis.
        scale: A factor from 2^-126 to 2^127: 1 / t for a temperature t.
        log: Returns the logarithm.
        zero_masked: Gives 0 (or -inf) for a row of only -inf. Otherwise such a row gives NaN.

    Raises:
        TypeError: The elements have another type.
        ValueError: The scale is out of range.
        IndexError: There is no such axis.
        RuntimeError: The GPU failed or has no kernel.
    """
    if scale == 1 and dim == -1 and not log and not zero_masked:
        return run_one("softmax", input)
    if dim != -1:
        return _moved(softmax(_moved(input, dim, -1), scale=scale, log=log, zero_masked=zero_masked), -1, dim)
    _check_scale("softmax", scale)
    return run("softmax", 1, input, scale, log, zero_masked)


def log_softmax(input: Array, dim: int = -1, *, scale: float = 1.0, zero_masked: bool = False) -> Array:
    """Returns the logarithm of :func:`softmax`, without loss of small probabilities."""
    return softmax(input, dim, scale=scale, log=True, zero_masked=zero_masked)


def cross_entropy(
    logits: Array,
    targets: Array,
    *,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Array:
    """Returns the cross entropy of logits along the last axis and the class of each row, as float32.

    Args:
        logits: float32, float16 or bfloat16, ``[.., classes]``.
        targets: int64, int32 or uint8, ``[..]``. A target that is no class gives NaN. Without classes all rows give NaN.
        ignore_index: The target of rows that do not count: their loss and gradient are 0.
        reduction: ``"none"`` returns the loss of each row, ``"sum"`` their sum, ``"mean"`` the mean over the rows that count.

    Raises:
        TypeError: The elements have another type.
        ValueError: The shapes do not match.
        RuntimeError: The GPU failed or has no kernel.
    """
    if ignore_index != -100:
        _check_whole("cross entropy failed: ignore_index", ignore_index)
    losses = run("cross_entropy", 1, logits, targets, ignore_index)
    if 0 in logits.shape[-1:]:
        # Without classes the operator writes nothing.
        losses = losses + float("nan")
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction != "mean":
        raise ValueError(f"reduction is {reduction!r}; it must be one of 'mean', 'sum', 'none'")
    # 64 bits hold every index.
    wide = targets.long() if _backend.is_torch(targets) else targets.astype(numpy.int64)
    counted = (wide != ignore_index).sum()
    return losses.sum() / (counted if _backend.is_torch(targets) else losses.dtype.type(counted))


def top_k(
    logits: Array, k: int, *, scale: float = 1.0, log: bool = False, zero_masked: bool = False
) -> tuple[Array, Array]:
    """Returns the ``k`` largest probabilities of a softmax along the last axis as float32, and their columns as int32.

    The largest comes first, and of equal logits the one in the smaller column. ``k`` is from 1 to 128. If there are fewer columns,
    the rest has probability 0 and column -1. A row with a NaN or +inf, or with only -inf, gives NaN and the columns 0, 1, 2 and so on.
    There are no gradients. The options are those of :func:`softmax`.
    """
    _check_whole("top-k failed: k", k, 1, _MOST)
    _check_scale("top-k", scale)
    values, columns = run("top_k", 1, logits, k, scale, log, zero_masked)
    if 0 in logits.shape[-1:]:
        values[...], columns[...] = float("-inf") if log else 0, -1
    return values, columns


def sample(
    logits: Array,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    draw: int = 0,
) -> Array:
    """Draws a column of each row from ``softmax(logits / temperature)``, as int32.

    Args:
        logits: float32, float16 or bfloat16, ``[.., columns]``. Without columns the result is -1, as for a row with a NaN or +inf, or
            with only -inf.
        temperature: At 0 the largest logit is taken.
        top_k: Draws from this many largest logits, 1 to 128.
        top_p: Draws from the fewest tokens that together have this probability.
        seed: The seed of the random numbers, which also depend on the draw, the row and the column.
        draw: The number of the draw: pass another one at every step. A CUDA graph repeats its own.

    Raises:
        TypeError: The elements have another type.
        ValueError: An option is out of range.
        RuntimeError: The GPU failed or has no kernel.
    """
    if top_k is None:
        top_k = 0
    else:
        _check_whole("sampling failed: top_k", top_k, 1, _MOST)
    _check_whole("sampling failed: seed", seed)
    _check_whole("sampling failed: draw", draw)
    tokens = run("sample", 1, logits, temperature, top_k, top_p, seed, draw)
    if 0 in logits.shape[-1:]:
        tokens[...] = -1
    return tokens


def _norm(input: Any, weight: Any, bias: Any, residual: Any, epsilon: float, centred: bool) -> Any:
    if not centred and bias is None and residual is None and epsilon == 1e-6:
        return run("norm", 2, input, weight)[0]
    out = run("norm", 4, input, weight, bias, residual, epsilon, centred)
    return out[0] if residual is None else out[:2]


def rms_norm(
    input: Array, weight: Array | None = None, *, residual: Array | None = None, epsilon: float = 1e-6
) -> Array | tuple[Array, Array]:
    """Returns ``x / sqrt(mean(x^2) + epsilon) * weight`` along the last axis, where x is the input plus the residual.

    Args:
        input: float32, float16 or bfloat16, ``[.., columns]``.
        weight: ``[columns]``, of the input's type.
        residual: Of the input's shape and type. The sum of both, rounded to this type, is normalized. The result is then a pair
            with this sum as the second element.
        epsilon: At least 0.

    Raises:
        TypeError: The elements have another type.
        ValueError: The shapes do not match, or epsilon is out of range.
        RuntimeError: The GPU failed or has no kernel.
    """
    return _norm(input, weight, None, residual, epsilon, False)


def layer_norm(
    input: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    residual: Array | None = None,
    epsilon: float = 1e-5,
) -> Array | tuple[Array, Array]:
    """Returns ``(x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias`` along the last axis, as :func:`rms_norm` does."""
    return _norm(input, weight, bias, residual, epsilon, True)


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    causal: bool | Literal["top_left", "bottom_right"] | None = None,
    window: int | None = None,
    scale: float | None = None,
    pages: Array | None = None,
    lengths: Array | None = None,
) -> Array:
    """Returns ``softmax(scale * query key^T + mask) value``, in the shape of the query.

    Args:
        query: float16 or bfloat16, ``[batch, queries, heads, head size]``, head sizes up to 256. A transposed view of
            ``[batch, heads, ..]`` is fine.
        key: ``[batch, keys, key heads, head size]``; the heads are a multiple of the key heads.
        value: As ``key``.
        causal: ``True`` or ``"bottom_right"`` lets the last query see all keys and each earlier one a key less; ``"top_left"``
            lets query i see the keys up to i. They differ if the numbers of queries and keys differ.
        window: A query sees only this many of those keys, the last ones. It needs a causal mask.
        scale: 1 / sqrt(head size) if it is not given.
        pages: int32, ``[batch, n]``: the pages of a paged cache. Key and value are then ``[pages, page size, ..]``,
            and the page size is a multiple of 16. A page number out of range counts as the last page.
        lengths: int32, ``[batch]``: the number of keys of each batch entry. A number that is negative or too large counts as all keys.

    A GPU needs compute capability 8.0. There are gradients without pages and lengths.

    Raises:
        TypeError: The elements have another type.
        ValueError: The shapes do not match, or an option is out of range.
        RuntimeError: The GPU failed or has no kernel.
    """
    mask = _option(_CAUSAL, "causal", causal)
    if window is None and scale is None:
        out = run("attention", 3, query, key, value, pages, lengths, mask)
    else:
        if scale is not None:
            _check_scale("attention", scale, 64)
        if window is not None:
            _check_whole("attention failed: window", window, 1)
        window = -1 if window is None else window
        out = run("attention", 3, query, key, value, pages, lengths, mask, window, scale or 0.0)
    return out[0] if isinstance(out, tuple) else out


def matmul(
    a: Array,
    b: Array,
    *,
    bias: Array | None = None,
    residual: Array | None = None,
    activation: Literal["relu", "gelu"] | None = None,
    scale: float = 1.0,
    tf32: bool = False,
    out_float32: bool = False,
) -> Array:
    """Returns ``activation(scale * a b + bias + residual)``.

    Args:
        a: float32, float16 or bfloat16, ``[.., m, k]``. Transposed views are as good as others.
        b: ``[.., k, n]`` of the same type. The axes in front are equal, or there are none.
        bias: ``[n]``.
        residual: Of the result's shape and type.
        activation: ``"gelu"`` is the form with tanh.
        scale: A finite factor of the product.
        tf32: Multiplies float32 with 11 bits.
        out_float32: Returns float32 for 16-bit operands.

    Raises:
        TypeError: The elements have another type.
        ValueError: The shapes do not match, or an option is unknown.
        RuntimeError: The GPU failed, or is older than compute capability 8.0.
    """
    if activation is None and scale == 1 and not tf32 and not out_float32:
        return run("matmul", 4, a, b, bias, residual)
    kind = _option(_ACTIVATIONS, "activation", activation)
    if kind == 2 and _backend.is_torch(a) and _backend.needs_gradient(a, b, bias, residual):
        # Its gradient needs what came before the activation.
        before = run("matmul", 4, a, b, bias, residual, scale, 0, tf32, out_float32)
        return _backend.gelu(before)
    return run("matmul", 4, a, b, bias, residual, scale, kind, tf32, out_float32)


def _reduce(input: Any, dim: int | Literal["rows"], kind: int) -> Any:
    of_rows = dim == "rows"
    if not of_rows and dim != -1:
        input = _moved(input, dim, -1)
    return run("reduce", 1, input, kind, of_rows) if kind or of_rows else run_one("reduce", input)


def sum(input: Array, dim: int | Literal["rows"] = -1) -> Array:
    """Returns the sums along an axis, in the input's type; ``"rows"`` adds up all axes except the last.

    The order of additions is fixed, so results are the same bits in every run. They depend on whether the
    rows start at multiples of 16 bytes. float32, float16 and bfloat16 are added in float32.
    """
    return _reduce(input, dim, 0)


def mean(input: Array, dim: int | Literal["rows"] = -1) -> Array:
    """Returns the means along an axis, as :func:`sum` does."""
    return _reduce(input, dim, 1)


def max(input: Array, dim: int | Literal["rows"] = -1) -> Array:
    """Returns the largest elements along an axis; NaN if one is NaN. Equal ones share the gradient."""
    return _reduce(input, dim, 2)


def min(input: Array, dim: int | Literal["rows"] = -1) -> Array:
    """Returns the smallest elements along an axis; NaN if one is NaN. Equal ones share the gradient."""
    return _reduce(input, dim, 3)


def cumsum(input: Array, dim: int = -1) -> Array:
    """Returns the cumulative sums along an axis, in the input's shape and type."""
    if dim != -1:
        return _moved(cumsum(_moved(input, dim, -1)), -1, dim)
    return run_one("cumulative_sum", input)


def transpose(input: Array) -> Array:
    """Returns the transpose of a matrix in new memory. Elements may have any type of 2 or 4 bytes: of NumPy's, float16,
    float32 and the integers of 16 and 32 bits."""
    return run_one("transpose", input)
