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
DESC_TRANSA, DESC_TRANSB = 3, 4
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
    """The multiplication of one shape: `candidates` algorithms, of which the caller times each."""

    def __init__(self, torch, dtype, m, n, k, allow_tf32):
        self.torch, self.lib = torch, library()
        self.handle = ctypes.c_void_p()
        self.call("cublasLtCreate", ctypes.byref(self.handle))
        ty = {torch.bfloat16: R_16BF, torch.float16: R_16F, torch.float32: R_32F}[dtype]
        compute = COMPUTE_32F_FAST_TF32 if dtype == torch.float32 and allow_tf32 else COMPUTE_32F
        self.desc = ctypes.c_void_p()
        self.call("cublasLtMatmulDescCreate", ctypes.byref(self.desc), compute, R_32F)
        # cuBLAS's matrices are column-major: the transposed result is B (stored [n, k]) times the transpose of A.
        for attribute, op in ((DESC_TRANSA, OP_T), (DESC_TRANSB, OP_N)):
            value = ctypes.c_int32(op)
            self.call("cublasLtMatmulDescSetAttribute", self.desc, attribute, ctypes.byref(value), ctypes.c_size_t(4))
        self.b, self.a, self.out = (self.layout(ty, *extents) for extents in ((k, n, k), (k, m, k), (n, m, n)))
        preference = ctypes.c_void_p()
        self.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_uint64(WORKSPACE)
        self.call("cublasLtMatmulPreferenceSetAttribute", preference, PREF_MAX_WORKSPACE, ctypes.byref(size), ctypes.c_size_t(8))
        results, count = (Heuristic * CANDIDATES)(), ctypes.c_int()
        self.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle, self.desc, self.b, self.a, self.out, self.out, preference,
            CANDIDATES, results, ctypes.byref(count),
        )
        self.candidates = [results[i] for i in range(count.value) if results[i].state == 0]
        if not self.candidates:
            raise RuntimeError("cuBLASLt has no algorithm for the shape")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
        self.one, self.zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    def layout(self, ty, rows, cols, pitch):
        layout = ctypes.c_void_p()
        self.call(
            "cublasLtMatrixLayoutCreate", ctypes.byref(layout), ty, ctypes.c_uint64(rows), ctypes.c_uint64(cols), ctypes.c_int64(pitch)
        )
        return layout

    def run(self, candidate, a, b, out):
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        self.call(
            "cublasLtMatmul", self.handle, self.desc, ctypes.byref(self.one), pointer(b), self.b, pointer(a), self.a,
            ctypes.byref(self.zero), pointer(out), self.out, pointer(out), self.out, ctypes.byref(candidate.algo),
            pointer(self.workspace), ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream),
        )


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
