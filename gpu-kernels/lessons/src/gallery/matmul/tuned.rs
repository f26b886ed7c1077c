//! Tiles of several sizes, and sums whose terms several blocks share.
//!
//! The algorithm is that of [`super::copies`]; host code picks the kernel by [`Rung::choose`](super::Rung::choose). With 16
//! x 8 sums a thread reads a quarter less from shared memory per multiply-add than with 8 x 8, and needs all the registers
//! it can have. Tiles of 256 x 128 read the fewest bytes. Tiles of 64 x 64 leave less of the GPU idle if the result has few
//! tiles: with 8 x 4 sums per thread four warps share a tile, with 8 x 8 two, which issue fewer loads. If even these are
//! few, the two to eight blocks of a cluster share the terms of a tile's sums. They add them up in the order of the blocks,
//! through each other's shared memory: no second launch, and the same bits in every run.
//!
//! Requires compute capability 8.0, for clusters 9.0. Kernels not named `any` require rows of B at multiples of 16 bytes.
//@ ptx(matmul_async_128x128, compute_80+): bar.sync == 2, cp.async.ca >= 16, cp.async.cg >= 4, cp.async.wait_group == 2
//@ ptx(matmul_async_128x128, compute_80+): fma.rn.f32 == 512, ld.shared.v4 == 36, st.shared == 0, .local == 0
//@ ptx(matmul_async_128x128_any, compute_80+): fma.rn.f32 == 512, cp.async.cg == 0, .local == 0
//@ ptx(matmul_async_256x128, matmul_async_128x128_tall, compute_80+): fma.rn.f32 == 1024, ld.shared.v4 == 54, .local == 0
//@ ptx(matmul_async_128x128_cluster, matmul_async_64x64_cluster, compute_90+): barrier.cluster == 4, mapa >= 1, .local == 0
//@ ptx(matmul_async_64x64_square_cluster, compute_90+): barrier.cluster == 4, fma.rn.f32 == 512, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::Arguments;
#[cfg(not(target_arch = "nvptx64"))]
use super::choice::Tiles;
use super::copies::product;
use super::edges::{Matrix, Output};
use cuda_std::kernel;

/// `out = a b`, one block or cluster of blocks per tile of `ROWS` x `COLS` sums, `TM` x `TN` per thread.
///
/// Launched with blocks of `THREADS` threads and the shared memory of `facts`: columns of tiles along x (one cluster per
/// tile with `CLUSTER`), and rows along y.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, both fewer than 2^32, and `out` `m * n`, which
/// no other code uses. `b` and `out` begin at a multiple of 16 bytes; with a `WIDTH` of 4, `n` is a multiple of four.
#[kernel(
    with(
        THREADS = ROWS / TM * (COLS / TN),
        A = ROWS * 8 / THREADS,
        B = COLS * 8 / WIDTH / THREADS,
    ),
    max_threads = THREADS,
    min_arch = 80,
    args = Arguments,
    facts: Tiles = Tiles::with_copies([ROWS, COLS], [TM, TN], WIDTH, CLUSTER, resident, cycles),
    instances(
        ROWS = 128, COLS = 128, TM = 8, TN = 8, CLUSTER = false, min_blocks = 2 {
            matmul_async_128x128 = <4>, resident = 2, cycles = [164, 81];
            matmul_async_128x128_any = <1>, resident = 2, cycles = [168, 84];
        }
        ROWS = 128, COLS = 128, TM = 16, TN = 8, CLUSTER = false, min_blocks = 2 {
            matmul_async_128x128_tall = <4>, resident = 2, cycles = [171, 156];
            matmul_async_128x128_tall_any = <1>, resident = 2, cycles = [171, 157];
        }
        ROWS = 256, COLS = 128, TM = 16, TN = 8, CLUSTER = false, min_blocks = 1 {
            matmul_async_256x128 = <4>, resident = 1, cycles = [324, 160];
            matmul_async_256x128_any = <1>, resident = 1, cycles = [324, 160];
        }
        ROWS = 64, COLS = 64, TM = 8, TN = 4, CLUSTER = false, min_blocks = 5 {
            matmul_async_64x64 = <4>, resident = 5, cycles = [56, 44];
            matmul_async_64x64_any = <1>, resident = 5, cycles = [62, 47];
        }
        ROWS = 128, COLS = 128, TM = 8, TN = 8, CLUSTER = true, min_blocks = 2 {
            matmul_async_128x128_cluster = <4>, min_arch = 90, resident = 2, cycles = [164, 81];
            matmul_async_128x128_any_cluster = <1>, min_arch = 90, resident = 2, cycles = [168, 84];
        }
        ROWS = 64, COLS = 64, TM = 8, TN = 4, CLUSTER = true, min_blocks = 5 {
            matmul_async_64x64_cluster = <4>, min_arch = 90, resident = 5, cycles = [56, 44];
            matmul_async_64x64_any_cluster = <1>, min_arch = 90, resident = 5, cycles = [62, 47];
        }
        ROWS = 64, COLS = 64, TM = 8, TN = 8, CLUSTER = true, min_blocks = 8 {
            matmul_async_64x64_square_cluster = <4>, min_arch = 90, resident = 8, cycles = [92, 82];
            matmul_async_64x64_square_any_cluster = <1>, min_arch = 90, resident = 8, cycles = [104, 92];
        }
    ),
)]
pub unsafe fn matmul_async<
    const ROWS: usize,
    const COLS: usize,
    const TM: usize,
    const TN: usize,
    const WIDTH: usize,
    const CLUSTER: bool,
    const THREADS: usize,
    const A: usize,
    const B: usize,
>(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    m: u32,
    n: u32,
    k: u32,
) {
    let (a, b) = (Matrix { elements: a, rows: m, cols: k }, Matrix { elements: b, rows: k, cols: n });
    let out = Output { elements: out, rows: m, cols: n };
    // SAFETY: the caller's contract.
    unsafe { product::<ROWS, COLS, TM, TN, WIDTH, CLUSTER, THREADS, A, B>(out, a, b) };
}
