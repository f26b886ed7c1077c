"""Times random problems of every operation on a GPU: ours in turns with PyTorch, cuBLASLt and torch.compile.

python3 benches/peers/random_problems.py --out random.json --ours PROGRAM [--seed N] [--problems K] [--first I] [--family NAME]
                                         [--compile N] [--budget SECONDS]

PROGRAM is our bench `random`, which draws each problem from the seed, as host/cases/src/random/bench describes, and times ours. The
contenders of a problem take turns, as turns.py describes. The peers get operands with the same strides, and allocate dense results.

- torch: the function that PyTorch has for it, with the fastest of its ways, if there are several.
- cublaslt: the fastest of up to 8 algorithms that its heuristics propose.
- flash, cudnn, efficient: the kernels behind scaled_dot_product_attention.
- compile: torch.compile, for the first N problems of each family except matrix multiplications and attention.

Each peer's results are compared with f64, and those that are wrong are not timed. Where ours is slower than a peer, all of our kernels that
can do the problem are timed as well.
"""

import argparse
import collections
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import timing
import turns

# The most elements of a result that are compared with f64, and the largest relative errors.
CHECKED = 1 << 22
TOLERANCES = {"bf16": 2e-2, "f16": 3e-3, "tf32": 2e-3, "f32": 2e-5}
COMPILED = (
    "softmax", "softmax gradient", "cross entropy", "top-k", "sampling", "norm", "norm gradient", "row reduction", "column reduction",
    "cumulative sum", "transpose",
)  # fmt: skip

# The sets at which cuBLASLt's algorithms are compared.
FEW = 24
# The most sets, as in benches/src/random/mod.rs.
SETS = 400
# As CublasLt takes it.
Stored = collections.namedtuple("Stored", "extents layout batch ending")


class Problem:
    """A drawn problem: its operands, and functions of them."""

    def __init__(self, torch, given):
        self.torch, self.given = torch, given
        self.dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(given["dtype"], torch.float32)
        self.tolerance = TOLERANCES[given["dtype"]]

    def tensor(self, place, low_high=None):
        """The last two dimensions of a place, or as many as there are."""
        base = self.torch.empty(place["len"], device="cuda", dtype=self.dtype)
        base = base.uniform_(*low_high) if low_high else base.normal_()
        dimensions = next(i for i, extent in enumerate([*place["shape"][:2], 0]) if extent != 1 or i == 2)
        shape, strides = place["shape"][dimensions:], [*place["strides"], 1][dimensions:]
        return base.as_strided(shape, strides, place["first"])

    def elements(self, *places):
        count = 0
        for place in places:
            count += place["shape"][0] * place["shape"][1] * place["shape"][2] * place["shape"][3]
        return count

    def bytes(self):
        """Those that a launch must read or write."""
        return self.elements(*(self.given[name] for name in self.moved if self.given[name])) * self.dtype.itemsize

    def compiled(self, function):
        self.torch._dynamo.reset()
        return self.torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)

    def error(self, function, given):
        """The error of a function's first result against f64."""
        got, want = self.compared(function(*given), *given)
        off = ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
        if not off <= self.tolerance:
            raise RuntimeError(f"its results are off by {off:.2g}")
        return off


def rows_of(x):
    """Rows from the first to the last, as many as are compared."""
    rows, cols = x.shape
    return slice(None, None, max(1, rows * cols // CHECKED))


class Softmax(Problem):
    moved = ("inp", "out")

    def set(self):
        return (self.tensor(self.given["inp"], (-8, 8)),)

    def functions(self):
        of = self.torch.log_softmax if self.given["log"] else self.torch.softmax
        return {"torch": lambda x: of(x, -1)}

    def compared(self, got, x):
        rows = rows_of(x)
        of = self.torch.log_softmax if self.given["log"] else self.torch.softmax
        return got[rows], of(x[rows].double(), -1)


class SoftmaxBackward(Problem):
    moved = ("y", "dy", "dx")

    def set(self):
        cols = self.given["y"]["shape"][3]
        return self.tensor(self.given["y"], (-10, 0) if self.given["log"] else (0, 2 / cols)), self.tensor(self.given["dy"])

    def functions(self):
        torch = self.torch
        of = torch._log_softmax_backward_data if self.given["log"] else torch._softmax_backward_data
        return {"torch": lambda y, dy: of(dy, y, -1, y.dtype)}

    def compared(self, got, y, dy):
        rows = rows_of(y)
        y, dy = y[rows].double(), dy[rows].double()
        if self.given["log"]:
            return got[rows], dy - y.exp() * dy.sum(-1, keepdim=True)
        return got[rows], y * (dy - (y * dy).sum(-1, keepdim=True))


class CrossEntropy(Problem):
    moved = ("logits", "gradient")

    def set(self):
        x = self.tensor(self.given["logits"], (-8, 8))
        return x.requires_grad_(bool(self.given["gradient"])), self.torch.randint(0, x.shape[1], (x.shape[0],), device="cuda")

    def functions(self):
        torch = self.torch
        loss = torch.nn.functional.cross_entropy
        if self.given["gradient"]:
            return {"torch": lambda x, target: torch.autograd.grad(loss(x, target), x)[0]}
        return {"torch": lambda x, target: loss(x, target, reduction="none")}

    def compiled(self, function):
        loss = super().compiled(self.torch.nn.functional.cross_entropy)
        if self.given["gradient"]:
            return lambda x, target: self.torch.autograd.grad(loss(x, target), x)[0]
        return super().compiled(function)

    def compared(self, got, x, target):
        torch, rows = self.torch, rows_of(x)
        x, target, count = x.detach()[rows].double(), target[rows], x.shape[0]
        if not self.given["gradient"]:
            return got[rows], torch.nn.functional.cross_entropy(x, target, reduction="none")
        want = x.softmax(-1)
        want[torch.arange(len(want)), target] -= 1
        return got[rows], want / count


class TopK(Problem):
    moved = ("logits",)

    def set(self):
        return (self.tensor(self.given["logits"], (-8, 8)),)

    def functions(self):
        torch, k = self.torch, self.given["k"]

        def after(x):
            largest, columns = torch.topk(x, k)
            return (largest.float() - torch.logsumexp(x.float(), -1, keepdim=True)).exp(), columns

        return {"torch": lambda x: torch.topk(torch.softmax(x, -1, dtype=torch.float32), k), "topk first": after}

    def compared(self, got, x):
        rows = rows_of(x)
        return got[0][rows], x[rows].double().softmax(-1).topk(self.given["k"])[0]


class Sample(Problem):
    moved = ("logits",)

    def set(self):
        return (self.tensor(self.given["logits"], (-8, 8)),)

    def functions(self):
        torch, given = self.torch, self.given

        def drawn(p):
            # What torch.multinomial does for one token, without its question to the host whether p is valid.
            return torch.argmax(p / torch.empty_like(p).exponential_(1), dim=-1, keepdim=True)

        def cut(p):
            """Of sorted probabilities, those within top-p."""
            before = torch.cumsum(p, dim=-1) - p
            return torch.where(before < given["top_p"] * p.sum(-1, keepdim=True), p, 0.0)

        def function(x):
            if given["top_k"]:
                largest, columns = torch.topk(x, min(given["top_k"], x.shape[1]))
                p = torch.softmax(largest.float() / given["temperature"], -1)
                return torch.gather(columns, -1, drawn(cut(p) if given["top_p"] < 1 else p))
            p = torch.softmax(x.float() / given["temperature"], -1)
            if given["top_p"] < 1:
                p, columns = torch.sort(p, dim=-1, descending=True)
                return torch.gather(columns, -1, drawn(cut(p)))
            return drawn(p)

        return {"torch": function}

    def error(self, function, given):
        function(*given)
        return None


class Norm(Problem):
    moved = ("inp", "out", "residual", "sum")

    def set(self):
        x, residual = self.tensor(self.given["inp"]), self.given["residual"]
        weight = self.torch.randn(x.shape[1], device="cuda", dtype=self.dtype)
        return x, weight, self.tensor(residual) if residual else None

    def functions(self):
        functional, centred = self.torch.nn.functional, self.given["centred"]

        def function(x, weight, residual):
            if residual is not None:
                x = x + residual
            if centred:
                return functional.layer_norm(x, x.shape[-1:], weight, weight, 1e-5), x
            return functional.rms_norm(x, x.shape[-1:], weight, 1e-6), x

        return {"torch": function}

    def compared(self, got, x, weight, residual):
        rows = rows_of(x)
        x = x[rows] if residual is None else x[rows] + residual[rows]
        x, weight, functional = x.double(), weight.double(), self.torch.nn.functional
        if self.given["centred"]:
            return got[0][rows], functional.layer_norm(x, x.shape[-1:], weight, weight, 1e-5)
        return got[0][rows], functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


class NormBackward(Problem):
    moved = ("inp", "d_out", "d_inp")

    def set(self):
        x = self.tensor(self.given["inp"]).requires_grad_()
        weight, bias = (self.torch.randn(x.shape[1], device="cuda", dtype=self.dtype).requires_grad_() for _ in range(2))
        return x, weight, bias, self.tensor(self.given["d_out"])

    def forward(self, x, weight, bias):
        functional = self.torch.nn.functional
        if self.given["centred"]:
            return functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)
        return functional.rms_norm(x, x.shape[-1:], weight, 1e-6)

    def of(self, forward):
        kept = {}

        def function(x, weight, bias, d_out):
            if x.data_ptr() not in kept:
                kept[x.data_ptr()] = forward(x, weight, bias)
            of = (x, weight, bias) if self.given["centred"] else (x, weight)
            return self.torch.autograd.grad(kept[x.data_ptr()], of, d_out, retain_graph=True)

        function.runs_first = True
        return function

    def functions(self):
        return {"torch": self.of(self.forward)}

    def compiled(self, function):
        return self.of(super().compiled(self.forward))

    def compared(self, got, x, weight, bias, d_out):
        rows = rows_of(x)
        x, d_out, weight = x.detach()[rows].double().requires_grad_(), d_out[rows].double(), weight.detach().double()
        (want,) = self.torch.autograd.grad(self.forward(x, weight, weight), x, d_out)
        return got[0][rows], want


class Reduce(Problem):
    moved = ("inp",)

    def set(self):
        return (self.tensor(self.given["inp"]),)

    def functions(self):
        torch = self.torch
        of = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[self.given["reduction"]]
        dim = 1 if self.given["rows"] else 0
        return {"torch": lambda x: of(x, dim=dim)}

    def compared(self, got, x):
        part = slice(0, max(1, CHECKED // x.shape[1 if self.given["rows"] else 0]))
        x = x[part] if self.given["rows"] else x[:, part]
        return got[part], self.functions()["torch"](x.double())


class CumulativeSum(Problem):
    moved = ("inp", "out")

    def set(self):
        return (self.tensor(self.given["inp"]),)

    def functions(self):
        return {"torch": lambda x: self.torch.cumsum(x, dim=1)}

    def compared(self, got, x):
        rows = rows_of(x)
        return got[rows], x[rows].double().cumsum(1)


class Transpose(Problem):
    moved = ("inp", "out")

    def set(self):
        return (self.tensor(self.given["inp"]),)

    def functions(self):
        # The copy of a column is no launch with contiguous().
        return {"torch": lambda x: x.t().clone(memory_format=self.torch.contiguous_format)}

    def compared(self, got, x):
        part = slice(0, max(1, CHECKED // x.shape[0]))
        return got[part], x.t()[part].double()


class Matmul(Problem):
    moved = ("out", "residual")

    def bytes(self):
        return super().bytes() + self.elements(self.given["a"]["place"], self.given["b"]["place"]) * self.dtype.itemsize

    def set(self):
        given = self.given
        a, b = (self.tensor(given[name]["place"]) for name in "ab")
        a, b = (x.mT if given[name]["transposed"] else x for x, name in ((a, "a"), (b, "b")))
        out = self.torch.empty(*a.shape[:-1], b.shape[-1], device="cuda", dtype=self.dtype)
        bias = self.torch.randn(b.shape[-1], device="cuda", dtype=self.dtype) if given["bias"] else None
        return a, b, bias, self.tensor(given["residual"]) if given["residual"] else None, out

    def activated(self, x):
        functional = self.torch.nn.functional
        named = {"relu": functional.relu, "gelu": lambda x: functional.gelu(x, approximate="tanh"), "none": lambda x: x}
        return named[self.given["activation"]](x)

    def functions(self):
        torch, given = self.torch, self.given
        torch.backends.cuda.matmul.allow_tf32 = given["dtype"] == "tf32"
        is_plain = not given["bias"] and not given["residual"] and given["activation"] == "none"

        def plain(a, b, bias, residual, out):
            return torch.matmul(a, b, out=out)

        def epilogue(a, b, bias, residual, out):
            if a.dim() == 3:
                added = bias if residual is None else residual
                x = torch.matmul(a, b) if added is None else torch.baddbmm(added if added.dim() == 3 else added.expand_as(out), a, b)
                x = x + bias if residual is not None and bias is not None else x
                return self.activated(x)
            if bias is not None and residual is None and given["activation"] != "none":
                return torch._addmm_activation(bias, a, b, use_gelu=given["activation"] == "gelu")
            if bias is not None:
                x = torch.addmm(bias, a, b)
                x = x if residual is None else x + residual
            else:
                x = torch.matmul(a, b) if residual is None else torch.addmm(residual, a, b)
            return self.activated(x)

        return {"torch": plain if is_plain else epilogue}

    def cublaslt(self, timer, sets):
        from matmul_kernels import CublasLt

        torch, given = self.torch, self.given
        of_a, of_b = given["a"], given["b"]
        a, b, bias, residual, out = sets[0]
        batch, m, n = of_a["place"]["shape"][1], *out.shape[-2:]
        layout = ("m" if of_a["transposed"] else "k") + ("k" if of_b["transposed"] else "n")
        ending = given["activation"] if given["activation"] != "none" else "plain"
        if bias is not None and ending == "plain":
            ending = "bias"
        elif bias is None and ending != "plain":
            ending += " alone"
        shape = Stored((m, n, a.shape[-1]), layout, batch, ending)
        stored = [(place["strides"][2], place["strides"][1]) for place in (of_a["place"], of_b["place"])]
        of_c = (given["residual"]["strides"][2], given["residual"]["strides"][1]) if residual is not None else None
        lt = CublasLt(self.torch, self.dtype, shape, given["dtype"] == "tf32", bias, stored=stored, of_c=of_c)
        run = lambda candidate: lambda a, b, bias, residual, out: lt.run(candidate, a, b, out, residual) or out
        best = None
        for candidate in lt.candidates:
            try:
                run(candidate)(*sets[0])
                torch.cuda.synchronize()
                recorded = timer.record(lambda i: run(candidate)(*sets[i]), min(len(sets), FEW), 1)
            except RuntimeError:
                continue
            seconds = min(timer.replay(recorded, 1) for _ in range(2))
            if best is None or seconds < best[0]:
                best = (seconds, candidate)
        if best is None:
            raise RuntimeError("no algorithm runs")
        return run(best[1])

    def compared(self, got, a, b, bias, residual, out):
        part = slice(-max(1, min(CHECKED // (b.shape[-1] * (1 if a.dim() == 2 else a.shape[0])), a.shape[-2], 256)), None)
        want = a[..., part, :].double() @ b.double()
        want = want if bias is None else want + bias.double()
        want = want if residual is None else want + residual[..., part, :].double()
        return got[..., part, :], self.activated(want)


class Attention(Problem):
    """`is_backward` for the gradients."""

    is_backward = False

    def bytes(self):
        return (4 if self.is_backward else 2) * self.elements(self.given["q"], self.given["k"]) * self.dtype.itemsize

    def tensor(self, place, low_high=None):
        base = self.torch.empty(place["len"], device="cuda", dtype=self.dtype).normal_()
        return base.as_strided(place["shape"], [*place["strides"], 1], place["first"])

    def set(self):
        return tuple(self.tensor(self.given[name]) for name in "qkk")

    def extents(self):
        (batch, queries, heads, size), (_, keys, key_heads, _) = self.given["q"]["shape"], self.given["k"]["shape"]
        return batch, queries, self.given["paged"] or keys, heads, key_heads, size

    def sees(self, entry, rows):
        """Which keys these queries of a batch entry see."""
        _, queries, most, *_ = self.extents()
        keys = self.given["lengths"][entry] if self.given["lengths"] else most
        torch, causal, window = self.torch, self.given["causal"], self.given["window"]
        query = torch.arange(queries, device="cuda")[rows, None] + (keys - queries if causal == "bottom-right" else 0)
        key = torch.arange(most, device="cuda")[None]
        sees = (key < keys).expand(query.shape[0], most)
        if causal:
            sees = sees & (key <= query)
        return sees & (key > query - window) if window else sees

    def pages(self):
        if not hasattr(self, "table"):
            batch, size = self.extents()[0], self.given["k"]["shape"][1]
            each = -(-self.given["paged"] // size)
            order = self.torch.randperm(self.given["k"]["shape"][0], device="cuda")[: batch * each]
            self.table = order.to(self.torch.int32).reshape(batch, each)
        return self.table

    def whole(self, x):
        """K or V as `[batch, keys, heads, size]`, from its pages."""
        if not self.given["paged"]:
            return x
        batch = self.extents()[0]
        return x[self.pages().long()].reshape(batch, -1, *x.shape[2:])

    def flash(self):
        torch, given = self.torch, self.given
        batch, queries, keys, *_ = self.extents()
        causal, window = given["causal"], given["window"]
        forward = torch.ops.aten._flash_attention_forward
        options = {"window_size_left": window - 1, "window_size_right": 0} if window else {}
        cut = None
        if causal == "top-left" and queries != keys:
            if queries > keys:
                raise ValueError("its mask starts at the end")
            cut = queries
        if not given["lengths"] and not given["paged"]:

            def function(q, k, v):
                k, v = (k, v) if cut is None else (k[:, :cut], v[:, :cut])
                return forward(q, k, v, None, None, queries, k.shape[1], 0.0, bool(causal), False, **options)

            return function
        if cut is not None:
            raise ValueError("its mask starts at the end")
        of_q = torch.arange(batch + 1, device="cuda", dtype=torch.int32) * queries
        lengths = torch.tensor(given["lengths"] or [keys] * batch, device="cuda", dtype=torch.int32)

        def function(q, k, v):
            # It knows no pages.
            k, v = self.whole(k), self.whole(v)
            of_k = torch.arange(batch + 1, device="cuda", dtype=torch.int32) * k.shape[1]
            k, v, most = k.flatten(0, 1), v.flatten(0, 1), k.shape[1]
            result = forward(q.flatten(0, 1), k, v, of_q, of_k, queries, most, 0.0, bool(causal), False, seqused_k=lengths, **options)
            return (result[0].reshape(batch, queries, *result[0].shape[1:]), *result[1:])

        return function

    def sdpa(self, backend):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        torch, given = self.torch, self.given
        batch, queries, keys, heads, key_heads, _ = self.extents()
        causal = given["causal"]
        is_plain = not given["lengths"] and not given["paged"] and not given["window"]
        is_plain = is_plain and (causal != "bottom-right" or queries == keys)
        if not is_plain and backend != "EFFICIENT_ATTENTION":
            raise ValueError("it has no such mask")
        mask = None
        if not is_plain:
            if batch * queries * keys > 1 << 28:
                raise ValueError("the mask is too large")
            mask = torch.stack([self.sees(entry, slice(None)) for entry in range(batch)])[:, None]

        def function(q, k, v):
            k, v = self.whole(k)[:, :keys], self.whole(v)[:, :keys]
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            if key_heads != heads and backend == "EFFICIENT_ATTENTION":
                # It knows no groups: their heads are views with a stride of 0, where that is possible.
                k, v = (x.unsqueeze(2).expand(-1, -1, heads // key_heads, -1, -1).flatten(1, 2) for x in (k, v))
            with sdpa_kernel(getattr(SDPBackend, backend)):
                attention = torch.nn.functional.scaled_dot_product_attention
                of_groups = key_heads != heads and backend != "EFFICIENT_ATTENTION"
                out = attention(q, k, v, attn_mask=mask, is_causal=bool(causal) and mask is None, enable_gqa=of_groups)
            return (out.transpose(1, 2),)

        return function

    def functions(self):
        made = {}
        for name, make in (
            ("flash", self.flash),
            ("cudnn", lambda: self.sdpa("CUDNN_ATTENTION")),
            ("efficient", lambda: self.sdpa("EFFICIENT_ATTENTION")),
        ):
            try:
                made[name] = make()
            except ValueError:
                continue
        return made

    def wanted(self, q, k, v, rows):
        """The result of the last head of the last batch entry, in f64."""
        *_, heads, key_heads, size = self.extents()
        keys = self.extents()[2]
        k, v = self.whole(k)[-1, :keys, -1].double(), self.whole(v)[-1, :keys, -1].double()
        q = q[-1, rows, -1].double()
        if self.is_backward:
            q.requires_grad_()
        logits = (q @ k.T / size**0.5).masked_fill(~self.sees(-1, rows), float("-inf"))
        return q, logits.softmax(-1).nan_to_num(0.0) @ v

    def compared(self, got, q, k, v):
        rows = slice(-min(q.shape[1], 16), None)
        _, want = self.wanted(q, k, v, rows)
        return got[0][-1, rows, -1], want


class AttentionBackward(Attention):
    is_backward = True

    def set(self):
        return (*super().set(), self.tensor(self.given["q"]))

    def flash(self):
        torch, given = self.torch, self.given
        _, queries, keys, *_ = self.extents()
        causal, window = given["causal"], given["window"]
        if causal == "top-left" and queries != keys:
            raise ValueError("its mask starts at the end")
        forward = super().flash()
        options = {"window_size_left": window - 1, "window_size_right": 0} if window else {}
        kept = {}

        def function(q, k, v, d_out):
            if q.data_ptr() not in kept:
                kept[q.data_ptr()] = forward(q, k, v)
            out, log, seed, unused, _ = kept[q.data_ptr()]
            return torch.ops.aten._flash_attention_backward(
                d_out, q, k, v, out, log, None, None, queries, keys, 0.0, bool(causal), seed, unused, **options
            )

        function.runs_first = True
        return function

    def cudnn(self):
        torch, given = self.torch, self.given
        _, queries, keys, heads, key_heads, _ = self.extents()
        causal = bool(given["causal"])
        if given["window"] or given["causal"] == "bottom-right" and queries != keys:
            raise ValueError("it has no such mask")
        aten, kept = torch.ops.aten, {}

        def function(q, k, v, d_out):
            q, k, v, d_out = (x.transpose(1, 2) for x in (q, k, v, d_out))
            if q.data_ptr() not in kept:
                kept[q.data_ptr()] = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
            out, log, cum_q, cum_k, most_q, most_k, seed, offset, _ = kept[q.data_ptr()]
            rest = (seed, offset, None, cum_q, cum_k, most_q, most_k, 0.0, causal)
            dq, dk, dv = aten._scaled_dot_product_cudnn_attention_backward(d_out, q, k, v, out, log, *rest)
            return dq.transpose(1, 2), dk, dv

        function.runs_first = True
        return function

    def functions(self):
        made = {}
        for name, make in (("flash", self.flash), ("cudnn", self.cudnn), ("efficient", lambda: self.of_autograd("EFFICIENT_ATTENTION"))):
            try:
                made[name] = make()
            except ValueError:
                continue
        return made

    def of_autograd(self, backend):
        forward, kept = self.sdpa(backend), {}

        def function(q, k, v, d_out):
            if q.data_ptr() not in kept:
                leaves = [x.detach().requires_grad_() for x in (q, k, v)]
                kept[q.data_ptr()] = (leaves, forward(*leaves)[0])
            leaves, out = kept[q.data_ptr()]
            return self.torch.autograd.grad(out, leaves, d_out, retain_graph=True)

        function.runs_first = True
        return function

    def compared(self, got, q, k, v, d_out):
        rows = slice(-min(q.shape[1], 16), None)
        q, out = self.wanted(q, k, v, rows)
        (want,) = self.torch.autograd.grad(out, q, d_out[-1, rows, -1].double())
        return got[0][-1, rows, -1], want


OPERATIONS = {
    "softmax": Softmax, "softmax-backward": SoftmaxBackward, "cross-entropy": CrossEntropy, "top-k": TopK, "sample": Sample, "norm": Norm,
    "norm-backward": NormBackward, "reduce": Reduce, "cumulative-sum": CumulativeSum, "transpose": Transpose, "matmul": Matmul,
    "attention": Attention, "attention-backward": AttentionBackward,
}  # fmt: skip


def makers(timer, server, line, is_compiled):
    """The contenders of a problem, by name."""
    torch, given = timer.torch, json.loads(line)
    yield "ours", lambda: turns.Ours(server, "ours", line)
    problem = OPERATIONS[given["operation"]](torch, given)
    sets = [problem.set() for _ in range(timer.count(problem.bytes()))]
    functions = problem.functions()

    def make(function):
        function = function()
        torch.cuda.synchronize()
        with torch.cuda.stream(timer.stream):
            error = problem.error(function, sets[0])
            for each in sets if getattr(function, "runs_first", False) else []:
                function(*each)
        peer = turns.Peer(timer, sets, function)
        peer.error = error
        return peer

    for name, function in functions.items():
        yield name, lambda: make(lambda: function)
    if isinstance(problem, Matmul):
        yield "cublaslt", lambda: make(lambda: problem.cublaslt(timer, sets))
    if is_compiled:
        yield "compile", lambda: make(lambda: problem.compiled(functions["torch"]))


def drawn(options):
    """The problems: description and words."""
    server = turns.Server(options.ours.resolve())
    families = [f" {family}" if family else "" for family in options.family.split(",")]
    indices = range(options.first, options.first + options.problems)
    lines = [server.ask(f"draw {options.seed} {index}{families[index % len(families)]}").split("\t") for index in indices]
    server.end()
    return lines


def chosen_for_compile(options, lines):
    """The indices of the problems that torch.compile gets."""
    counts, chosen = {}, []
    for index, (_, line) in enumerate(lines):
        family = json.loads(line)["family"]
        if family in COMPILED and counts.setdefault(family, 0) < options.compile:
            counts[family] += 1
            chosen.append(index)
    return chosen


def compile_ahead(options, count, seconds):
    """Compiles in processes of their own, into the cache on disk, for so long at most."""
    workers = min(12, (os.cpu_count() or 1) - 2, count)
    if workers < 2:
        return
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, *sys.argv]
    running = [subprocess.Popen([*command, "--compile-only", f"{i}/{workers}"], env=environment, **quiet) for i in range(workers)]
    end = time.monotonic() + seconds
    for worker in running:
        try:
            worker.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def compile_only(options, lines):
    import torch

    place, count = map(int, options.compile_only.split("/"))
    for index in chosen_for_compile(options, lines)[place::count]:
        given = json.loads(lines[index][1])
        problem = OPERATIONS[given["operation"]](torch, given)
        try:
            problem.compiled(problem.functions()["torch"])(*problem.set())
            torch.cuda.synchronize()
        except Exception as error:  # It fails again where it is timed.
            print(error)
        torch.cuda.empty_cache()


def summary(results):
    """The ratios of each family, to read at once."""
    problems = {}
    for entry in results["entries"]:
        problems.setdefault(entry["index"], []).append(entry)
    ratios, worst = {}, []
    for entries in problems.values():
        ours = next((entry for entry in entries if entry["name"] == "ours"), None)
        peers = [entry for entry in entries if entry["name"] != "ours" and "microseconds" in entry]
        if not ours or "microseconds" not in ours or not peers:
            continue
        best = min(peers, key=lambda entry: entry["microseconds"])
        ratio = best["microseconds"] / ours["microseconds"]
        ratios.setdefault(ours["family"], []).append(ratio)
        worst.append((ratio, ours, best))
    for family, all in sorted(ratios.items()):
        product = 1.0
        for ratio in all:
            product *= ratio ** (1 / len(all))
        print(f"{family:28} {len(all):4} problems, geometric mean {product:.3f}, least {min(all):.3f}")
    for ratio, ours, best in sorted(worst, key=lambda it: it[0])[:60]:
        other = min(ours.get("others") or [[None, ""]], key=lambda it: it[0] or 1e9)
        print(f"{ratio:.3f} {ours['family']}: {ours['problem']}: {ours['microseconds']:.2f} us {ours['kernels']}; {best['name']} {best['microseconds']:.2f}; other {other}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file to write")
    parser.add_argument("--ours", type=pathlib.Path, required=True, help="our bench, such as ./bench-random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the index of the first problem")
    parser.add_argument("--family", default="", help="draw problems of this family alone, or in turns of several with commas between them")
    parser.add_argument("--compile", type=int, default=3, help="the problems of each family that torch.compile gets")
    parser.add_argument("--compile-only", metavar="I/N", help="compile every N-th of them, and time nothing")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds after which no problem is begun")
    parser.add_argument("--resume", action="store_true", help="go on with what the file has")
    return parser.parse_args()


def main():
    options = parse()
    lines = drawn(options)
    if options.compile_only:
        compile_only(options, lines)
        return
    start = time.monotonic()
    compiled = chosen_for_compile(options, lines)
    if not options.resume:
        compile_ahead(options, len(compiled), options.budget / 3)
        print(f"compiled ahead for {time.monotonic() - start:.0f} s", flush=True)
    options.budget -= time.monotonic() - start
    timer = timing.Timer("cuda")
    timing.GRAPH_SECONDS, timing.BATCH_SECONDS, timing.MOST_LAUNCHES = 1e-3, 2e-3, SETS
    gc.freeze()
    problems = []
    for index, (description, line) in enumerate(lines):
        given = json.loads(line)
        entry = {"seed": options.seed, "index": options.first + index, "family": given["family"], "dtype": given["dtype"], "problem": description}
        make = lambda server, index=index, line=line: makers(timer, server, line, index in compiled)
        problems.append((f"{entry['index']} {given['family']}: {description}", entry, 0, make))
    turns.run(timer, options, problems, None, rounds=5)
    results = json.loads(options.out.read_text())
    summary(results)
    failed = [entry for entry in results["entries"] if entry["name"] == "ours" and "no kernel: " not in entry.get("error", "no kernel: ")]
    for entry in failed:
        print(f"FAILED {entry['family']}: {entry['problem']}: {entry['error']}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
