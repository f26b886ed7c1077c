"""Contenders of the bench of matrix multiplication that PyTorch does not call: cuBLASLt with a choice of its heuristics, and a
persistent kernel in Triton.

All compute `out[m, n] = a[m, k] @ b[n, k].T`.
"""

import ctypes
import ctypes.util
import functools
import glob
import os

WORKSPACE = 32 << 20
CANDIDATES = 8

# Values of cuBLAS's headers.
R_32F, R_16F, R_16BF = 0, 2, 14
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
DESC_TRANSA, DESC_TRANSB, DESC_EPILOGUE, DESC_BIAS = 3, 4, 7, 8
LAYOUT_BATCH, LAYOUT_STRIDE = 5, 6
CAP_SWIZZLE, CAP_TILES, CAP_OPTIONS, CAP_STAGES = 2, 6, 7, 13
MOST_OPTIONS = 3
# Words in the names of kernels for compute capability 8.x.
OF_8X = ("ampere", "sm80", "cutlass_80")
EPILOGUES = {"bias": 4, "relu": 6, "gelu": 36, "relu alone": 2, "gelu alone": 32}
PREF_MAX_WORKSPACE = 1
OP_N, OP_T = 0, 1


class Heuristic(ctypes.Structure):
    _fields_ = [
        ("algo", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def library():
    import torch

    root = os.path.dirname(os.path.dirname(torch.__file__))
    found = glob.glob(os.path.join(root, "nvidia", "*", "lib", "libcublasLt.so.*"))
    for path in found + ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError("libcublasLt is not installed")


class CublasLt:
    """A multiplication of matrices that are stored as `shape` says: `candidates` algorithms, of which the caller times each. `stored` has
    the distances between the rows and between the matrices of A and B, unless they are dense. A matrix C is added if `of_c` has its."""

    def __init__(self, torch, dtype, shape, allow_tf32, bias=None, count=CANDIDATES, stored=(None, None), of_c=None):
        self.torch, self.lib = torch, library()
        self.handle = ctypes.c_void_p()
        self.call("cublasLtCreate", ctypes.byref(self.handle))
        m, n, k = self.extents = shape.extents
        ty = {torch.bfloat16: R_16BF, torch.float16: R_16F, torch.float32: R_32F}[dtype]
        compute = COMPUTE_32F_FAST_TF32 if dtype == torch.float32 and allow_tf32 else COMPUTE_32F
        self.types = (compute, R_32F, ty, ty, ty, ty)
        self.variant = (self.types, shape.layout)
        self.desc = ctypes.c_void_p()
        self.call("cublasLtMatmulDescCreate", ctypes.byref(self.desc), compute, R_32F)
        # cuBLAS's matrices are column-major: the transposed result is the transpose of B times the transpose of A.
        self.set(DESC_TRANSA, ctypes.c_int32(OP_T if shape.layout[1] == "k" else OP_N))
        self.set(DESC_TRANSB, ctypes.c_int32(OP_N if shape.layout[0] == "k" else OP_T))
        if shape.ending != "plain":
            self.set(DESC_EPILOGUE, ctypes.c_int32(EPILOGUES[shape.ending]))
        if bias is not None and shape.ending != "plain":
            self.set(DESC_BIAS, ctypes.c_void_p(bias.data_ptr()))
        of = lambda rows, cols, given=None: self.layout(ty, rows, cols, shape.batch, given)
        self.b = of(*((k, n) if shape.layout[1] == "k" else (n, k)), stored[1])
        self.a = of(*((k, m) if shape.layout[0] == "k" else (m, k)), stored[0])
        self.out = of(n, m)
        self.c = of(n, m, of_c) if of_c else self.out
        preference = ctypes.c_void_p()
        self.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_uint64(WORKSPACE)
        self.call("cublasLtMatmulPreferenceSetAttribute", preference, PREF_MAX_WORKSPACE, ctypes.byref(size), ctypes.c_size_t(8))
        results, found = (Heuristic * count)(), ctypes.c_int()
        self.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle, self.desc, self.b, self.a, self.c, self.out, preference,
            count, results, ctypes.byref(found),
        )
        self.candidates = [results[i] for i in range(found.value) if results[i].state == 0]
        if not self.candidates:
            raise RuntimeError("cuBLASLt has no algorithm for the shape")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
        self.one, self.zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    def set(self, attribute, value):
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self.call("cublasLtMatmulDescSetAttribute", self.desc, attribute, ctypes.byref(value), size)

    def layout(self, ty, rows, cols, batch, stored=None):
        layout, (pitch, distance) = ctypes.c_void_p(), stored or (rows, rows * cols)
        self.call(
            "cublasLtMatrixLayoutCreate", ctypes.byref(layout), ty, ctypes.c_uint64(rows), ctypes.c_uint64(cols), ctypes.c_int64(pitch)
        )
        for attribute, value in ((LAYOUT_BATCH, ctypes.c_int32(batch)), (LAYOUT_STRIDE, ctypes.c_int64(distance))):
            size = ctypes.c_size_t(ctypes.sizeof(value))
            self.call("cublasLtMatrixLayoutSetAttribute", layout, attribute, ctypes.byref(value), size)
        return layout

    def run(self, candidate, a, b, out, c=None):
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        self.call(
            "cublasLtMatmul", self.handle, self.desc, ctypes.byref(self.one), pointer(b), self.b, pointer(a), self.a,
            ctypes.byref(self.zero if c is None else self.one), pointer(out if c is None else c), self.c, pointer(out), self.out,
            ctypes.byref(candidate.algo), pointer(self.workspace), ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream),
        )

    def of_8x(self, a, b, out):
        """Makes the candidates all algorithms whose kernels are for compute capability 8.x, by their names, with one split of k. The
        heuristics leave most of them out on a newer GPU. The first call for types and a layout tries all, so it should be without an
        epilogue."""
        known = self.CONFIGURATIONS_OF_8X.get(self.variant)
        if known is None:
            self.candidates = list(filter(None, map(self.checked, self.configurations())))
            names = self.kernels(a, b, out)
            known = [c.configuration for c, name in zip(self.candidates, names) if any(word in name for word in OF_8X)]
            self.CONFIGURATIONS_OF_8X[self.variant] = known
        self.candidates = list(filter(None, map(self.checked, known)))

    # By types and layout.
    CONFIGURATIONS_OF_8X = {}

    def configurations(self):
        """Algorithm, tile, stages, order of tiles, option and splits."""
        ids, count = (ctypes.c_int * 200)(), ctypes.c_int()
        self.call("cublasLtMatmulAlgoGetIds", self.handle, *self.types, 200, ids, ctypes.byref(count))
        for algorithm in ids[: count.value]:
            algo = (ctypes.c_uint64 * 8)()
            if self.lib.cublasLtMatmulAlgoInit(self.handle, *self.types, algorithm, algo):
                continue
            tiles = self.capability(algo, CAP_TILES) or [0]
            stages = self.capability(algo, CAP_STAGES) or [0]
            orders = [0, 1] if self.capability(algo, CAP_SWIZZLE)[:1] == [1] else [0]
            options = self.capability(algo, CAP_OPTIONS)[:1] or [0]
            for option in range(min(options[0], MOST_OPTIONS) + 1):
                for tile in tiles:
                    for stage in stages:
                        for order in orders:
                            yield algorithm, tile, stage, order, option, 1

    def capability(self, algo, attribute):
        values, written = (ctypes.c_uint32 * 256)(), ctypes.c_size_t()
        size = ctypes.c_size_t(1024 if attribute in (CAP_TILES, CAP_STAGES) else 4)
        if self.lib.cublasLtMatmulAlgoCapGetAttribute(algo, attribute, values, size, ctypes.byref(written)):
            return []
        return list(values[: written.value // 4])

    def checked(self, configuration):
        """The candidate of a configuration, or None if it cannot do the shape."""
        algorithm, tile, stage, order, option, splits = configuration
        found = Heuristic()
        algo = ctypes.byref(found.algo)
        if self.lib.cublasLtMatmulAlgoInit(self.handle, *self.types, algorithm, algo):
            return None
        reduction = 2 if splits > 1 else 0
        for attribute, value in ((1, tile), (2, splits), (3, reduction), (4, order), (5, option), (6, stage)):
            value = ctypes.c_uint32(value)
            self.lib.cublasLtMatmulAlgoConfigSetAttribute(algo, attribute, ctypes.byref(value), ctypes.c_size_t(4))
        check = Heuristic()
        layouts = (self.b, self.a, self.out, self.out)
        if self.lib.cublasLtMatmulAlgoCheck(self.handle, self.desc, *layouts, algo, ctypes.byref(check)) or check.workspace > WORKSPACE:
            return None
        found.configuration = configuration
        return found

    def kernels(self, a, b, out):
        """The names of each candidate's kernels, joined. Those of a candidate that fails are empty."""
        from torch.profiler import ProfilerActivity, profile

        mark = self.torch.empty(1, dtype=self.torch.int8, device="cuda")
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            for candidate in self.candidates:
                mark.fill_(1)
                try:
                    self.run(candidate, a, b, out)
                except RuntimeError:
                    pass
            self.torch.cuda.synchronize()
        names = []
        for event in sorted(profiled.events(), key=lambda event: event.time_range.start):
            if "FillFunctor<signed char>" in event.name:
                names.append([])
            elif names and event.device_type == self.torch.autograd.DeviceType.CUDA:
                names[-1].append(event.name)
        if len(names) != len(self.candidates):
            raise RuntimeError(f"the profiler saw {len(names)} of {len(self.candidates)} algorithms")
        return [" + ".join(found) for found in names]


@functools.cache
def triton_matmul(torch):
    """A persistent kernel with tensor descriptors: a block per multiprocessor, tiles in groups of rows, configurations tuned."""
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    def set_blocks(given):
        blocks = ((given["a"], "BM", "BK"), (given["b"], "BN", "BK"), (given["out"], "BM", "BN"))
        for descriptor, *names in blocks:
            descriptor.block_shape = [given[name] for name in names]

    configs = [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=stages, num_warps=warps, pre_hook=set_blocks)
        for bm, bn, bk, stages, warps in (
            (128, 256, 64, 3, 8),
            (128, 128, 64, 4, 8),
            (128, 128, 64, 4, 4),
            (64, 128, 64, 4, 4),
            (64, 64, 64, 5, 4),
        )
    ]

    @triton.autotune(configs=configs, key=["m", "n", "k"])
    @triton.jit
    def kernel(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
        down, across = tl.cdiv(m, BM), tl.cdiv(n, BN)
        for tile in tl.range(tl.program_id(0), down * across, tl.num_programs(0), flatten=True):
            group = tile // (GROUP * across) * GROUP
            rows = min(down - group, GROUP)
            row = (group + tile % (GROUP * across) % rows) * BM
            col = tile % (GROUP * across) // rows * BN
            sums = tl.zeros((BM, BN), tl.float32)
            for step in range(tl.cdiv(k, BK)):
                left, right = a.load([row, step * BK]), b.load([col, step * BK])
                sums = tl.dot(left, right.T, sums)
            out.store([row, col], sums.to(out.dtype))

    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def run(a, b, out):
        (m, k), n = a.shape, b.shape[0]
        given = (TensorDescriptor(x, x.shape, x.stride(), [1, 8]) for x in (a, b, out))
        kernel[(blocks,)](*given, m, n, k)

    return run


@functools.cache
def triton_matmul_80(torch):
    """The kernel of Triton's tutorial, with a bias and an activation: pointers and masks, tiles in groups of rows, configurations tuned."""
    import triton
    import triton.language as tl

    configs = [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=stages, num_warps=warps)
        for bm, bn, bk, stages, warps in (
            (128, 256, 64, 3, 8),
            (128, 256, 32, 4, 8),
            (128, 128, 32, 4, 4),
            (128, 128, 32, 4, 8),
            (64, 128, 32, 4, 4),
            (64, 64, 32, 4, 4),
            (16, 64, 128, 4, 4),
        )
    ]

    bench = functools.partial(triton.testing.do_bench, warmup=2, rep=8)

    @triton.autotune(configs=configs, key=["m", "n", "k", "batch", "ak", "bk"], do_bench=bench)
    @triton.jit(do_not_specialize=["m", "batch", "ab", "bb", "ending"])
    def kernel(
        a, b, bias, out, m, n, k, batch, ab, am, ak, bb, bk, bn, ending,
        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    ):
        tile, matrix = tl.program_id(0), tl.program_id(1).to(tl.int64)
        down, across = tl.cdiv(m, BM), tl.cdiv(n, BN)
        group = tile // (GROUP * across) * GROUP
        rows = min(down - group, GROUP)
        row = (group + tile % (GROUP * across) % rows) * BM + tl.arange(0, BM)
        col = tile % (GROUP * across) // rows * BN + tl.arange(0, BN)
        term = tl.arange(0, BK)
        from_a = a + matrix * ab + (row % m)[:, None] * am + term[None, :] * ak
        from_b = b + matrix * bb + term[:, None] * bk + (col % n)[None, :] * bn
        sums = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(k, BK)):
            left = tl.load(from_a, mask=term[None, :] < k - step * BK, other=0.0)
            right = tl.load(from_b, mask=term[:, None] < k - step * BK, other=0.0)
            sums = tl.dot(left, right, sums)
            from_a += BK * ak
            from_b += BK * bk
        if ending > 0:
            sums += tl.load(bias + col, mask=col < n, other=0.0).to(tl.float32)[None, :]
        if ending == 2:
            sums = tl.maximum(sums, 0.0)
        if ending == 3:
            sums = sums * tl.sigmoid(1.5957691216057308 * (sums + 0.044715 * sums * sums * sums))
        to = out + matrix * m * n + row[:, None] * n + col[None, :]
        tl.store(to, sums.to(out.dtype.element_ty), mask=(row[:, None] < m) & (col[None, :] < n))

    def run(a, b, bias, out, ending):
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = a.shape[0] if a.dim() == 3 else 1
        strides = lambda x: x.stride() if x.dim() == 3 else (0, *x.stride())
        grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]), batch)
        kernel[grid](a, b, bias, out, m, n, k, batch, *strides(a), *strides(b), ("plain", "bias", "relu", "gelu").index(ending))

    return run
