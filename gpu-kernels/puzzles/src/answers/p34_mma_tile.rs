// Hint: The tile begins at row `w / (n / 8) * 16` and column `w % (n / 8) * 8` of `c`. A warp beyond the last row does nothing, as a whole.
// Hint: A loop over `i` in steps of 16. Element `(row, col)` of the fragment of `a` is `a[first_row + row][i + col]`, that of `b` is `b[i + row][first_col + col]`.

use cuda_std::half::bf16;
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync};
use cuda_std::{kernel, thread};

#[kernel(min_arch = 80)]
pub unsafe fn mma_tile_solution(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let warp = thread::index_1d() / 32;
    let (k, n) = (k as usize, n as usize);
    let (row, col) = (warp as usize / (n / 8) * 16, warp as usize % (n / 8) * 8);
    if row < m as usize {
        let mut sums = FragmentC::ZERO;
        for i in (0..k).step_by(16) {
            let of_a = FragmentA::from_fn(|r, c| *a.add((row + r) * k + i + c));
            let of_b = FragmentB::from_fn(|r, c| *b.add((i + r) * n + col + c));
            sums = mma_sync(of_a, of_b, sums);
        }
        sums.for_each(|r, s, value| *c.add((row + r) * n + col + s) = value);
    }
}

// Wrong: without tensor cores.
// Says: not good yet; launches that do not use tensor cores
#[kernel(min_arch = 80)]
pub unsafe fn mma_tile_scalar(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let at = thread::index_1d();
    let (k, n) = (k as usize, n as usize);
    let (tile, lane) = ((at / 32) as usize, (at % 32) as usize);
    let (first, col) = (tile / (n / 8) * 16, tile % (n / 8) * 8 + lane % 8);
    if first < m as usize {
        for row in (first + lane / 8..first + 16).step_by(4) {
            let mut sum = 0.0f32;
            for i in 0..k {
                sum += (*a.add(row * k + i)).to_f32() * (*b.add(i * n + col)).to_f32();
            }
            *c.add(row * n + col) = sum;
        }
    }
}

// Wrong: only the last step counts.
// Says: likely cause
#[kernel(min_arch = 80)]
pub unsafe fn mma_tile_last(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let warp = thread::index_1d() / 32;
    let (k, n) = (k as usize, n as usize);
    let (row, col) = (warp as usize / (n / 8) * 16, warp as usize % (n / 8) * 8);
    if row < m as usize {
        let mut sums = FragmentC::ZERO;
        for i in (0..k).step_by(16) {
            let of_a = FragmentA::from_fn(|r, c| *a.add((row + r) * k + i + c));
            let of_b = FragmentB::from_fn(|r, c| *b.add((i + r) * n + col + c));
            sums = mma_sync(of_a, of_b, FragmentC::ZERO);
        }
        sums.for_each(|r, s, value| *c.add((row + r) * n + col + s) = value);
    }
}

// Wrong: the fragment of `b` is transposed.
// Says: likely cause
#[kernel(min_arch = 80)]
pub unsafe fn mma_tile_transposed(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let warp = thread::index_1d() / 32;
    let (k, n) = (k as usize, n as usize);
    let (row, col) = (warp as usize / (n / 8) * 16, warp as usize % (n / 8) * 8);
    if row < m as usize {
        let mut sums = FragmentC::ZERO;
        for i in (0..k).step_by(16) {
            let of_a = FragmentA::from_fn(|r, c| *a.add((row + r) * k + i + c));
            let of_b = FragmentB::from_fn(|r, c| *b.add((i + c) * n + col + r % 8));
            sums = mma_sync(of_a, of_b, sums);
        }
        sums.for_each(|r, s, value| *c.add((row + r) * n + col + s) = value);
    }
}

// Wrong: tiles go down first.
// Says: likely cause
#[kernel(min_arch = 80)]
pub unsafe fn mma_tile_order(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let warp = thread::index_1d() / 32;
    let (k, n) = (k as usize, n as usize);
    let (row, col) = (warp as usize % (m as usize / 16) * 16, warp as usize / (n / 8) * 8);
    if row < m as usize {
        let mut sums = FragmentC::ZERO;
        for i in (0..k).step_by(16) {
            let of_a = FragmentA::from_fn(|r, c| *a.add((row + r) * k + i + c));
            let of_b = FragmentB::from_fn(|r, c| *b.add((i + r) * n + col + c));
            sums = mma_sync(of_a, of_b, sums);
        }
        sums.for_each(|r, s, value| *c.add((row + r) * n + col + s) = value);
    }
}

// Wrong: warps beyond the last row.
// Says: elements; computed wrongly
#[kernel(min_arch = 80)]
pub unsafe fn mma_tile_guard(c: *mut f32, a: *const bf16, b: *const bf16, m: u32, n: u32, k: u32) {
    let warp = thread::index_1d() / 32;
    let (k, n) = (k as usize, n as usize);
    let (row, col) = (warp as usize / (n / 8) * 16, warp as usize % (n / 8) * 8);
    {
        let mut sums = FragmentC::ZERO;
        for i in (0..k).step_by(16) {
            let of_a = FragmentA::from_fn(|r, c| *a.add((row + r) * k + i + c));
            let of_b = FragmentB::from_fn(|r, c| *b.add((i + r) * n + col + c));
            sums = mma_sync(of_a, of_b, sums);
        }
        sums.for_each(|r, s, value| *c.add((row + r) * n + col + s) = value);
    }
}
