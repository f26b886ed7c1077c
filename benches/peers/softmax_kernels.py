"""Kernels that are timed with PyTorch's: Triton's tutorial, QuACK of the authors of FlashAttention, and FlashInfer.

Each class loads its package, and raises what keeps it from that. A launch writes into outputs that it is given, and the
sets of inputs are those of `softmax.py`.
"""

import importlib
import importlib.metadata
import math

# Wider rows do not fit into one block of Triton's registers.
TRITON_WIDEST = 65536
CHECKED_ROWS = 64


def unwritten(torch, like):
    """An output in which nothing is right until it is written."""
    return torch.full_like(like, math.nan)


def fresh(torch, x):
    """The input and an output."""
    return x, torch.empty_like(x)


def check(torch, op, inputs, results):
    """Compares the results, the matrix last, with the definition in f32, in rows from the first to the last."""
    rows, cols = inputs[0].shape
    places = torch.linspace(0, rows - 1, min(rows, CHECKED_ROWS), dtype=torch.float64).long().to(inputs[0].device)
    x = inputs[0].detach()[places].float()
    if op == "softmax":
        wanted = [torch.softmax(x, dim=-1)]
    elif op == "backward":
        gradient = inputs[1][places].float()
        wanted = [x * (gradient - (x * gradient).sum(-1, keepdim=True))]
    else:
        target = inputs[1][places]
        loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
        wanted = [loss, torch.softmax(x, dim=-1) - torch.nn.functional.one_hot(target, cols)]
    for result, want in zip(results, wanted, strict=True):
        # What is small beside the mean counts as nothing.
        torch.testing.assert_close(result[places].float(), want, rtol=0.02, atol=1e-3 * want.abs().mean().item())


class Quack:
    """QuACK's kernels, by the functions that do the least around them. The first call of a width and type compiles, and
    what it refuses it says then: a softmax takes rows of a multiple of 16 bytes. It has no log-softmax."""

    def __init__(self, torch):
        self.torch = torch
        # The package has functions of these names.
        self.softmax = importlib.import_module("quack.softmax")
        self.cross_entropy = importlib.import_module("quack.cross_entropy")

    def versions(self):
        return {name: importlib.metadata.version(name) for name in ("quack-kernels", "nvidia-cutlass-dsl")}

    def time(self, bench, op, sets, options):
        """The figures, after a check."""
        empty, launch = self.torch.empty_like, getattr(self, f"launch_{op}")
        outputs = self.outputs(op, sets[0], lambda like: unwritten(self.torch, like))
        launch(*sets[0], *outputs)
        check(self.torch, op, sets[0], outputs)

        def run(i):
            outputs = self.outputs(op, sets[i], empty)
            launch(*sets[i], *outputs)
            return outputs

        return bench.measure(run, len(sets))

    def outputs(self, op, inputs, make):
        """What a launch writes, the matrix last."""
        x = inputs[0].detach()
        if op != "cross_entropy":
            return [make(x)]
        return [make(self.torch.empty(len(x), device=x.device, dtype=self.torch.float32)), make(x)]

    def launch_softmax(self, x, out):
        self.softmax._softmax_fwd(x, out)

    def launch_backward(self, y, gradient, out):
        self.softmax._softmax_backward(gradient, y, out)

    def launch_cross_entropy(self, x, target, loss, out):
        """Losses and gradient in one pass; no weights, and no log-sum-exp."""
        self.cross_entropy.cross_entropy_fwd_out(x.detach(), target, None, loss, None, out, None, -100)


class TritonSoftmax:
    """Row softmax as in Triton's tutorial on fused softmax, in our words: a row in one block of registers, and a
    program that walks over rows, or (no stages) has a single one. Timed at the fastest of its configurations."""

    def __init__(self, torch):
        import triton

        self.torch = torch
        self.triton = triton
        self.kernel = triton_kernel()
        self.processors = torch.cuda.get_device_properties(0).multi_processor_count
        self.shared = torch.cuda.get_device_properties(0).shared_memory_per_multiprocessor
        self.programs = {}

    def versions(self):
        return {"triton": self.triton.__version__}

    def time(self, bench, op, sets, options):
        """The figures of the fastest configuration."""
        rows, cols = sets[0][0].shape
        if cols > TRITON_WIDEST:
            raise RuntimeError(f"left out: a row of {cols} does not fit into one block of {TRITON_WIDEST}")
        best = None
        for config in self.configurations(cols):
            launch = self.launcher(config, rows, cols)
            try:
                found = bench.measure(lambda i: launch(*fresh(self.torch, *sets[i])), len(sets), samples=2)
            except Exception as error:  # Out of registers or shared memory: not this configuration.
                found = {"microseconds": math.inf, "error": error}
            if best is None or found["microseconds"] < best[0]["microseconds"]:
                best = (found, launch, config)
        found, launch, config = best
        if math.isinf(found["microseconds"]):
            raise found["error"]
        x = sets[0][0]
        check(self.torch, op, sets[0], [launch(x, unwritten(self.torch, x))])
        figures = bench.measure(lambda i: launch(*fresh(self.torch, *sets[i])), len(sets))
        return figures | {"configuration": dict(zip(("block", "warps", "stages"), config))}

    def configurations(self, cols):
        """Block, warps, and stages of the loop over rows; 0 stages is a program a row."""
        block = self.triton.next_power_of_2(cols)
        if block <= 1024:
            warps = (1, 2, 4, 8)
        elif block <= 8192:
            warps = (4, 8, 16)
        else:
            warps = (8, 16, 32)
        stages = (0, 2, 4) if block <= 8192 else (0, 2)
        return [(block, w, s) for w in warps for s in stages]

    def launcher(self, config, rows, cols):
        block, warps, stages = config

        def launch(x, out):
            programs = rows if stages == 0 else min(rows, self.resident(config, x, out))
            self.kernel[(programs,)](out, x, rows, cols, block, max(stages, 1), num_warps=warps)
            return out

        return launch

    def resident(self, config, x, out):
        """Programs that the GPU holds at once, by registers, warps and shared memory."""
        key = (config, x.dtype, x.shape[1] % 16)
        if key not in self.programs:
            block, warps, stages = config
            compiled = self.kernel[(1,)](out, x, 1, x.shape[1], block, stages, num_warps=warps)
            registers = max(getattr(compiled, "n_regs", 0) or 64, 16)
            shared = max(compiled.metadata.shared, 1)
            each = min(65536 // (registers * 32 * warps), 64 // warps, self.shared // shared)
            self.programs[key] = max(each, 1) * self.processors
        return self.programs[key]


def triton_kernel():
    global tl
    import triton
    import triton.language as tl

    @triton.jit
    def softmax_rows(out, inp, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
        lane = tl.arange(0, BLOCK)
        inside = lane < cols
        for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
            start = tl.cast(cols, tl.int64) * row
            x = tl.load(inp + start + lane, mask=inside, other=-float("inf")).to(tl.float32)
            y = tl.exp(x - tl.max(x, axis=0))
            y = y / tl.sum(y, axis=0)
            tl.store(out + start + lane, y.to(out.dtype.element_ty), mask=inside)

    return softmax_rows


class FlashInfer:
    """FlashInfer's sampling and top-k kernels, which its first call compiles. They sample from f32: other types are converted."""

    def __init__(self, torch):
        self.torch = torch
        self.flashinfer = importlib.import_module("flashinfer")

    def versions(self):
        return {"flashinfer-python": self.flashinfer.__version__}

    def time(self, bench, op, sets, options):
        """The figures of the fastest way to the result, which are named."""
        best = None
        for way, function in self.ways(op, options).items():
            found = bench.measure(lambda i: function(*sets[i]), len(sets), samples=2)
            if best is None or found["microseconds"] < best[0]["microseconds"]:
                best = (found, way, function)
        _, way, function = best
        return bench.measure(lambda i: function(*sets[i]), len(sets)) | {"configuration": {"way": way}}

    def ways(self, op, options):
        sampling, temperature = self.flashinfer.sampling, options["temperature"]

        def softmax(x, temperature=1.0):
            return sampling.softmax(x, temperature=temperature)

        if op == "sample":
            return {
                "logits": lambda x: sampling.sampling_from_logits(x.float() / temperature, seed=1, offset=0),
                "softmax": lambda x: sampling.sampling_from_probs(softmax(x, temperature), seed=1, offset=0),
            }
        if op == "sample_top_p":
            return {
                "softmax": lambda x: sampling.top_p_sampling_from_probs(
                    softmax(x, temperature), options["top_p"], seed=1, offset=0
                )
            }
        k, top_k = options["k"], self.flashinfer.top_k
        return {
            "softmax, sorted by torch": lambda x: top_k(softmax(x), k, sorted=True),
            "softmax, sorted by the kernel": lambda x: top_k(softmax(x), k, sorted=True, deterministic=True),
        }


# By the contestant's name.
BY_NAME = {"triton": TritonSoftmax, "quack": Quack, "flashinfer": FlashInfer}
