// Puzzle 34, mma_tile (11-tensor-cores): multiply two matrices on tensor cores.
//
// Write `c = a * b`: `a` is `[m, k]` and `b` is `[k, n]`, both of `bf16`, and `c` is `[m, n]` of `f32`. `m` and `k` are multiples of 16,
// and `n` of 8.
//
// A tensor core multiplies 16 x 16 elements of `a` with 16 x 8 of `b` in one instruction of a warp, and adds the product to 16 x
// 8 sums in `f32`. Each lane holds a part of each: a fragment.
//
//     let of_a = FragmentA::from_fn(|row, col| ..);      calls the closure for the elements of this lane
//     let of_b = FragmentB::from_fn(|row, col| ..);
//     sums = mma_sync(of_a, of_b, sums);                 all lanes of the warp together; `FragmentC::ZERO` at first
//     sums.for_each(|row, col, value| ..);               the elements of this lane
//
// The grid has blocks of 128 threads, enough for a warp per 16 x 8 elements of `c`. Warp `w` has the tile `w % (n / 8)` along the
// columns and `w / (n / 8)` along the rows.
//
// Good: the tensor cores do it.

use cuda_std::half::bf16;
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync};
use cuda_std::{kernel, thread};

#[kernel(min_arch = 80)]
pub unsafe fn mma_tile(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let warp = thread::index_1d() / 32;
    // Your code here.
}
