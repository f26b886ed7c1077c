"""Measures the errors of PyTorch's operations on a GPU against float64, at problems like those of `self-check random`.

python3 benches/peers/accuracy.py --out accuracy-peers.json [--problems NUMBER] [--seed SEED] [--only REGEX]

The classes of problems, the extents, the distributions of the values and the measures of the error are those of
host/cases/src/random, at a GPU's sizes. The error of a problem is the Euclidean norm of the errors relative to that of the results, and
the bias the sum of the errors away from 0 relative to the sum of the results' magnitudes, both in units in the last place.
"""

import argparse
import math
import pathlib
import random
import re
import sys

import timing

ELEMENTS = 1 << 16
TERMS = 1 << 21
LEAST_COUNTED = 32
LEAST_COLUMNS = 8
LAYOUTS = ("dense", "gaps", "any element")


def extent(most, small):
    """An extent as place.rs draws it."""
    most = max(most, 1)
    kind = random.randrange(64)
    if kind < 16:
        drawn = 4 * random.randint(1, 5)
    elif small or kind < 32:
        drawn = random.randint(1, 20)
    else:
        drawn = int(most ** random.random())
        if kind >= 48:
            step = 4 * random.randint(1, 16)
            drawn = -(-drawn // step) * step
    return min(max(drawn, 1), most)


def extents(count, most):
    most *= 16 if random.randrange(16) == 0 else 1
    small, first, drawn = random.random() < 0.5, random.randrange(count), [0] * count
    for i in range(count):
        drawn[(first + i) % count] = extent(most, small)
        most //= drawn[(first + i) % count]
    return drawn


class Torch:
    """PyTorch's operations by class: each yields the outputs in float64 and as computed."""

    def __init__(self, torch):
        self.torch = torch
        self.types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

    def uniform(self, kind, shape, largest, layout="dense"):
        """Numbers of a type in a range, stored with gaps or from any element on if asked."""
        torch, unit = self.torch, 4 if kind == "f32" else 8
        gap, first = {"dense": (0, 0), "gaps": (unit, unit), "any element": (random.randrange(10), random.randrange(10))}[layout]
        *outer, cols = shape
        stored = cols + gap if layout != "gaps" else -(-cols // unit) * unit + gap
        flat = torch.empty(first + stored * max(1, int(torch.tensor(outer or [1]).prod())), device="cuda", dtype=self.types[kind])
        view = flat[first:].view(*outer, stored)[..., :cols] if outer else flat[first : first + cols]
        return view.copy_((torch.rand(shape, device="cuda") * 2 - 1) * largest)

    def classes(self):
        """Operation, types and layout, and the function of a random problem."""
        pairs = ["f32", "f16", "bf16", "f32 as f16", "f32 as bf16", "f16 as f32", "bf16 as f32"]
        for layout in LAYOUTS:
            for log in (False, True):
                name = "log-softmax" if log else "softmax"
                for types in pairs:
                    yield name, types, layout, lambda t=types, l=layout, g=log: self.softmax(t, l, g)
                for kind in self.types:
                    yield f"{name} backward", kind, layout, lambda t=kind, l=layout, g=log: self.softmax_backward(t, l, g)
            for kind in self.types:
                yield "cross entropy", kind, layout, lambda t=kind, l=layout: self.cross_entropy(t, l)
                for norm in ("RMSNorm", "LayerNorm"):
                    yield norm, kind, layout, lambda t=kind, l=layout, n=norm: self.norm(n, t, l)
                    yield f"{norm} backward", kind, layout, lambda t=kind, l=layout, n=norm: self.norm_backward(n, t, l)
                yield "cumulative sum", kind, layout, lambda t=kind, l=layout: self.reduce("cumsum", 1, t, l)
            # From any element on, these fail with a misaligned address, and with them the whole process.
            for kind in ("f16", "bf16") if layout != "any element" else ():
                yield "attention", kind, layout, lambda t=kind, l=layout: self.attention(t, l, False)
                yield "attention backward", kind, layout, lambda t=kind, l=layout: self.attention(t, l, True)
            for name in ("sum", "mean"):
                for axis, line in enumerate(("columns", "rows")):
                    for types in ("f32", "f16", "bf16", "f16 as f32", "bf16 as f32"):
                        yield f"{name} of {line}", types, layout, lambda n=name, a=axis, t=types, l=layout: self.reduce(n, a, t, l)
        for a in ("[m, k]", "[k, m]"):
            for b in ("[k, n]", "[n, k]"):
                for types in ("f32", "tf32", "f16", "bf16", "f16 as f32", "bf16 as f32"):
                    yield "matmul", types, f"{a} {b}", lambda t=types, x=a, y=b: self.matmul(t, x, y)

    def pair(self, types):
        first, _, second = types.partition(" as ")
        return first, self.types[second or first]

    def softmax(self, types, layout, log):
        torch, (kind, out) = self.torch, self.pair(types)
        x = self.uniform(kind, extents(2, ELEMENTS), 8.0, layout)
        of = torch.log_softmax if log else torch.softmax
        got = of(x, -1, dtype=out) if out == torch.float32 else of(x, -1).to(out)
        yield None, of(x.double(), -1), got

    def softmax_backward(self, kind, layout, log):
        torch, shape = self.torch, extents(2, ELEMENTS)
        x = (torch.rand(shape, device="cuda", dtype=torch.float64) * 2 - 1) * 6
        x[1::4, : shape[1] // 2] = -torch.inf
        x[2::4, -1] = 40.0
        of = torch.log_softmax if log else torch.softmax
        y, dy = self.uniform(kind, shape, 1.0, layout), self.uniform(kind, shape, 1.0, layout)
        y.copy_(of(x, -1))
        back = torch.ops.aten._log_softmax_backward_data if log else torch.ops.aten._softmax_backward_data
        wide = back(dy.double(), y.double(), 1, torch.float64)
        yield None, wide, back(dy, y, 1, self.types[kind])

    def cross_entropy(self, kind, layout):
        torch, shape = self.torch, extents(2, ELEMENTS)
        x = self.uniform(kind, shape, 8.0, layout)
        targets = torch.randint(shape[1], (shape[0],), device="cuda")
        yield None, *self.gradients(lambda x: torch.nn.functional.cross_entropy(x, targets, reduction="sum"), [x], None)[0]

    def gradients(self, of, inputs, d_out):
        """The gradients in float64 and as computed, for each input."""
        found = []
        for double in (True, False):
            leaves = [(x.double() if double else x.detach()).requires_grad_() for x in inputs]
            out = of(*leaves)
            given = None if d_out is None else d_out.double() if double else d_out
            found.append(self.torch.autograd.grad(out, leaves, given))
        return list(zip(*found))

    def norm(self, norm, kind, layout):
        rows, cols = extents(2, ELEMENTS)
        cols = max(cols, LEAST_COLUMNS)
        x, weight = self.uniform(kind, (rows, cols), 1.0, layout), self.uniform(kind, (cols,), 1.0)
        yield None, self.normed(norm, x.double(), weight.double()), self.normed(norm, x, weight)

    def normed(self, norm, x, weight):
        of = self.torch.nn.functional.layer_norm if norm == "LayerNorm" else self.torch.nn.functional.rms_norm
        return of(x, weight.shape, weight, eps=1e-5)

    def norm_backward(self, norm, kind, layout):
        rows, cols = extents(2, ELEMENTS)
        cols = max(cols, LEAST_COLUMNS)
        x, weight = self.uniform(kind, (rows, cols), 1.0, layout), self.uniform(kind, (cols,), 1.0)
        d_out = self.uniform(kind, (rows, cols), 1.0, layout)
        found = self.gradients(lambda x, weight: self.normed(norm, x, weight), [x, weight], d_out)
        for name, (wide, got) in zip(("d_inp", "d_weight"), found):
            yield name, wide, got

    def reduce(self, name, axis, types, layout):
        torch, (kind, out) = self.torch, self.pair(types)
        x, of = self.uniform(kind, extents(2, ELEMENTS), 1.0, layout), getattr(torch, name)
        yield None, of(x.double(), axis), of(x, axis, dtype=out)

    def matmul(self, types, stored_a, stored_b):
        torch, (kind, out) = self.torch, self.pair(types.replace("tf32", "f32"))
        m, n, k = extents(3, TERMS)
        layout = random.choice(LAYOUTS[:2])
        a = self.uniform(kind, (m, k), 1.0, layout) if stored_a == "[m, k]" else self.uniform(kind, (k, m), 1.0, layout).t()
        b = self.uniform(kind, (k, n), 1.0, layout) if stored_b == "[k, n]" else self.uniform(kind, (n, k), 1.0, layout).t()
        torch.backends.cuda.matmul.allow_tf32 = types == "tf32"
        got = torch.mm(a, b) if out == a.dtype else torch.mm(a, b, out_dtype=out)
        yield None, a.double() @ b.double(), got

    def attention(self, kind, layout, backward):
        torch, pick = self.torch, random.choice
        batch, key_heads, group = pick([1, 1, 1, 2, 3, 4]), pick([1, 1, 2, 3]), pick([1, 1, 1, 2, 4, 5, 8])
        size = pick([64, 64, 128, 128, 8, 16, 96] + ([] if backward else [256]))
        terms = TERMS // 2 if backward else TERMS
        queries, keys = extents(2, max(1, terms // (batch * key_heads * group * size)))
        causal, heads = pick([None, "top", "bottom"]), key_heads * group
        of_heads = lambda length, heads, largest: self.uniform(kind, (batch, length, heads, size), largest, layout).transpose(1, 2)
        q, k, v = of_heads(queries, heads, 2.0), of_heads(keys, key_heads, 2.0), of_heads(keys, key_heads, 1.0)
        offset = keys - queries if causal == "bottom" else 0
        seen = torch.ones(queries, keys, dtype=torch.bool, device="cuda")
        # Queries without keys have no softmax in PyTorch.
        seen = seen.tril(max(offset, 0)) if causal else seen

        def of(q, k, v):
            if q.dtype != torch.float64:
                mask = None if causal != "bottom" and queries == keys or not causal else seen
                is_causal = bool(causal) and mask is None
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, enable_gqa=group > 1)
            k, v = (x.repeat_interleave(group, 1) for x in (k, v))
            logits = (q @ k.transpose(-1, -2) / size**0.5).masked_fill(~seen, -torch.inf)
            return logits.softmax(-1) @ v

        if not backward:
            yield None, of(q.double(), k.double(), v.double()), of(q, k, v)
            return
        found = self.gradients(of, [q, k, v], of_heads(queries, heads, 1.0))
        for name, (wide, got) in zip(("dq", "dk", "dv"), found):
            yield name, wide, got


def ulp(torch, types):
    """The distance from 1 to the next number of the results' type."""
    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    return 2.0**-10 if types == "tf32" else torch.finfo(kinds[types.split(" as ")[-1]]).eps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file to write")
    parser.add_argument("--problems", type=int, default=60, help="the problems of each class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a regular expression for operations")
    options = parser.parse_args()
    timer = timing.Timer("cuda")
    torch, missing, totals = timer.torch, {}, {}
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    for operation, types, layout, problem in Torch(torch).classes():
        if not re.search(options.only, operation):
            continue
        try:
            for _ in range(options.problems):
                for output, wide, got in problem():
                    name = operation if output is None else f"{operation}: {output}"
                    finite = wide.isfinite()
                    wide, got = wide[finite], got.double()[finite]
                    size, unit = wide.norm().item(), ulp(torch, types)
                    if size == 0 or wide.numel() < LEAST_COUNTED:
                        continue
                    off = got - wide
                    error = off.norm().item() / size / unit
                    bias = (off * torch.where(wide < 0, -1.0, 1.0)).sum().item() / wide.abs().sum().item() / unit
                    if not math.isfinite(error):
                        missing[f"{name} of {types}, {layout}"] = "a result is infinite or NaN where the right one is finite"
                        continue
                    total = totals.setdefault((name, types, layout), [0, 0.0, 0.0, 0.0])
                    totals[name, types, layout] = [total[0] + 1, total[1] + error, max(total[2], error), total[3] + bias]
        except Exception as error:
            missing[f"PyTorch's {operation} of {types}, {layout}"] = timing.told(error)
            print(operation, types, layout, timing.told(error), file=sys.stderr)
    results = timer.machine({}, missing)
    results["entries"] = [
        {"name": "PyTorch", "operation": name, "types": types, "layout": layout, "problems": count, "mean": sum_ / count,
         "largest": largest, "bias": bias / count}
        for (name, types, layout), (count, sum_, largest, bias) in sorted(totals.items())
    ]
    timing.write(options.out, results)
    print(f"{len(results['entries'])} classes, {len(missing)} missing")


if __name__ == "__main__":
    main()
