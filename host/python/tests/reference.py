"""The operations in float64, with NumPy alone."""

import numpy as np


def softmax(x, scale=1.0, log=False):
    x = np.asarray(x, np.float64) * scale
    shifted = x - x.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return logs if log else np.exp(logs)


def cross_entropy(logits, targets, ignore_index=-100):
    logs = softmax(logits, log=True)
    safe = np.where(targets == ignore_index, 0, targets)
    losses = -np.take_along_axis(logs, safe[..., None].astype(np.int64), -1)[..., 0]
    return np.where(targets == ignore_index, 0.0, losses)


def norm(x, weight=None, bias=None, residual=None, epsilon=1e-6, centred=False):
    x = np.asarray(x, np.float64)
    if residual is not None:
        # The sum is rounded to the type of the elements.
        x = x + np.asarray(residual, np.float64)
    mean = x.mean(-1, keepdims=True) if centred else 0.0
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + epsilon)
    y = (x - mean) * rstd
    y = y if weight is None else y * np.asarray(weight, np.float64)
    return y if bias is None else y + np.asarray(bias, np.float64)


def attention(q, k, v, causal=None, window=None, scale=None, lengths=None):
    q, k, v = (np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    queries, keys = q.shape[2], k.shape[2]
    logits = q @ k.transpose(0, 1, 3, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    out = np.zeros(q.shape)
    for entry in range(q.shape[0]):
        length = keys if lengths is None else min(int(lengths[entry]), keys)
        for query in range(queries):
            last = {None: length, "top_left": query + 1, "bottom_right": query + 1 + length - queries}[causal]
            last = max(min(last, length), 0)
            first = 0 if window is None else max(0, {"top_left": query + 1, "bottom_right": query + 1 + length - queries}[causal] - window)
            if last > first:
                weights = softmax(logits[entry, :, query, first:last])
                out[entry, :, query] = np.einsum("hk,hkd->hd", weights, v[entry, :, first:last])
    return out.transpose(0, 2, 1, 3)


def gelu(x):
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def matmul(a, b, bias=None, residual=None, scale=1.0, activation=None):
    y = np.asarray(a, np.float64) @ np.asarray(b, np.float64) * scale
    y = y if bias is None else y + np.asarray(bias, np.float64)
    y = y if residual is None else y + np.asarray(residual, np.float64)
    return {None: lambda: y, "relu": lambda: np.maximum(y, 0), "gelu": lambda: gelu(y)}[activation]()
