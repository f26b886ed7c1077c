// Hint: The tile of `a` has 32 rows of 16, that of `b` has 16 rows of 32. Each thread copies two elements of each.
// Hint: `for half in [0, 16]` gives both rows and both columns of a thread. The compiler unrolls the loop and keeps `sums` in registers.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn matmul_registers_solution(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 32 * 16];
    let b_tile = shared_array![f32; 16 * 32];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (top, left) = (32 * thread::block_idx_y(), 32 * thread::block_idx_x());
    let mut sums = [[0.0; 2]; 2];
    for first in (0..k).step_by(16) {
        for half in [0, 16] {
            let (row, i) = (top + y + half, first + x);
            let value = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
            *a_tile.add(((y + half) * 16 + x) as usize) = value;
            let (i, col) = (first + y, left + x + half);
            let value = if i < k && col < n { *b.add((i * n + col) as usize) } else { 0.0 };
            *b_tile.add((y * 32 + x + half) as usize) = value;
        }
        thread::sync_threads();
        for i in 0..16 {
            let of_a = [0, 16].map(|half| *a_tile.add(((y + half) * 16 + i) as usize));
            let of_b = [0, 16].map(|half| *b_tile.add((i * 32 + x + half) as usize));
            for r in 0..2 {
                for s in 0..2 {
                    sums[r][s] += of_a[r] * of_b[s];
                }
            }
        }
        thread::sync_threads();
    }
    for r in 0..2 {
        for s in 0..2 {
            let (row, col) = (top + y + 16 * r, left + x + 16 * s);
            if row < m && col < n {
                *c.add((row * n + col) as usize) = sums[r as usize][s as usize];
            }
        }
    }
}

// Wrong: 16 x 16 elements at a time, four times.
// Says: not good yet; reads of each input byte; 2 are enough
#[kernel]
pub unsafe fn matmul_registers_by_sixteen(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let at = [
        32 * thread::block_idx_y() + thread::thread_idx_y(),
        32 * thread::block_idx_x() + thread::thread_idx_x(),
    ];
    for (dy, dx) in [(0, 0), (0, 16), (16, 0), (16, 16)] {
        let (row, col) = (at[0] + dy, at[1] + dx);
        if row < m && col < n {
            let mut sum = 0.0;
            for i in 0..k {
                sum += *a.add((row * k + i) as usize) * *b.add((i * n + col) as usize);
            }
            *c.add((row * n + col) as usize) = sum;
        }
    }
}

// Wrong: the barrier at the end of a step is missing.
// Says: depends on luck; shared memory; after the reads
#[kernel]
pub unsafe fn matmul_registers_second_barrier(
    c: *mut f32,
    a: *const f32,
    b: *const f32,
    m: u32,
    n: u32,
    k: u32,
) {
    let a_tile = shared_array![f32; 32 * 16];
    let b_tile = shared_array![f32; 16 * 32];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (top, left) = (32 * thread::block_idx_y(), 32 * thread::block_idx_x());
    let mut sums = [[0.0; 2]; 2];
    for first in (0..k).step_by(16) {
        for half in [0, 16] {
            let (row, i) = (top + y + half, first + x);
            let value = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
            *a_tile.add(((y + half) * 16 + x) as usize) = value;
            let (i, col) = (first + y, left + x + half);
            let value = if i < k && col < n { *b.add((i * n + col) as usize) } else { 0.0 };
            *b_tile.add((y * 32 + x + half) as usize) = value;
        }
        thread::sync_threads();
        for i in 0..16 {
            let of_a = [0, 16].map(|half| *a_tile.add(((y + half) * 16 + i) as usize));
            let of_b = [0, 16].map(|half| *b_tile.add((i * 32 + x + half) as usize));
            for r in 0..2 {
                for s in 0..2 {
                    sums[r][s] += of_a[r] * of_b[s];
                }
            }
        }
    }
    for r in 0..2 {
        for s in 0..2 {
            let (row, col) = (top + y + 16 * r, left + x + 16 * s);
            if row < m && col < n {
                *c.add((row * n + col) as usize) = sums[r as usize][s as usize];
            }
        }
    }
}

// Wrong: rows and columns of the four sums are swapped.
// Says: likely cause
#[kernel]
pub unsafe fn matmul_registers_swapped(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 32 * 16];
    let b_tile = shared_array![f32; 16 * 32];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (top, left) = (32 * thread::block_idx_y(), 32 * thread::block_idx_x());
    let mut sums = [[0.0; 2]; 2];
    for first in (0..k).step_by(16) {
        for half in [0, 16] {
            let (row, i) = (top + y + half, first + x);
            let value = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
            *a_tile.add(((y + half) * 16 + x) as usize) = value;
            let (i, col) = (first + y, left + x + half);
            let value = if i < k && col < n { *b.add((i * n + col) as usize) } else { 0.0 };
            *b_tile.add((y * 32 + x + half) as usize) = value;
        }
        thread::sync_threads();
        for i in 0..16 {
            let of_a = [0, 16].map(|half| *a_tile.add(((y + half) * 16 + i) as usize));
            let of_b = [0, 16].map(|half| *b_tile.add((i * 32 + x + half) as usize));
            for r in 0..2 {
                for s in 0..2 {
                    sums[s][r] += of_a[r] * of_b[s];
                }
            }
        }
        thread::sync_threads();
    }
    for r in 0..2 {
        for s in 0..2 {
            let (row, col) = (top + y + 16 * r, left + x + 16 * s);
            if row < m && col < n {
                *c.add((row * n + col) as usize) = sums[r as usize][s as usize];
            }
        }
    }
}

// Wrong: no guard for the last rows.
// Says: elements; compare the row with the rows
#[kernel]
pub unsafe fn matmul_registers_guard(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 32 * 16];
    let b_tile = shared_array![f32; 16 * 32];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (top, left) = (32 * thread::block_idx_y(), 32 * thread::block_idx_x());
    let mut sums = [[0.0; 2]; 2];
    for first in (0..k).step_by(16) {
        for half in [0, 16] {
            let (row, i) = (top + y + half, first + x);
            let value = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
            *a_tile.add(((y + half) * 16 + x) as usize) = value;
            let (i, col) = (first + y, left + x + half);
            let value = if i < k && col < n { *b.add((i * n + col) as usize) } else { 0.0 };
            *b_tile.add((y * 32 + x + half) as usize) = value;
        }
        thread::sync_threads();
        for i in 0..16 {
            let of_a = [0, 16].map(|half| *a_tile.add(((y + half) * 16 + i) as usize));
            let of_b = [0, 16].map(|half| *b_tile.add((i * 32 + x + half) as usize));
            for r in 0..2 {
                for s in 0..2 {
                    sums[r][s] += of_a[r] * of_b[s];
                }
            }
        }
        thread::sync_threads();
    }
    for r in 0..2 {
        for s in 0..2 {
            let (row, col) = (top + y + 16 * r, left + x + 16 * s);
            if col < n {
                *c.add((row * n + col) as usize) = sums[r as usize][s as usize];
            }
        }
    }
}
