// Hint: A loop over `i`, with the sum in a variable, and one store at the end.
// Hint: `a[row][i]` has index `row * k + i`, and `b[i][col]` has `i * n + col`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn matmul_naive_solution(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    if row < m && col < n {
        let mut sum = 0.0;
        for i in 0..k {
            sum += *a.add((row * k + i) as usize) * *b.add((i * n + col) as usize);
        }
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: x is the row.
// Says: likely cause
#[kernel]
pub unsafe fn matmul_naive_swapped(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let at = thread::index_2d();
    let (row, col) = (at.x, at.y);
    if row < m && col < n {
        let mut sum = 0.0;
        for i in 0..k {
            sum += *a.add((row * k + i) as usize) * *b.add((i * n + col) as usize);
        }
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: neighbouring threads have neighbouring rows.
// Says: not good yet; sectors per
#[kernel]
pub unsafe fn matmul_naive_columns(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let t = thread::index_2d();
    let tid = thread::thread_idx_y() * 16 + thread::thread_idx_x();
    let (row, col) = (thread::block_idx_y() * 16 + tid % 16, thread::block_idx_x() * 16 + tid / 16);
    if row < m && col < n {
        let mut sum = 0.0;
        for i in 0..k {
            sum += *a.add((row * k + i) as usize) * *b.add((i * n + col) as usize);
        }
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: the loop has the wrong end.
// Says: likely cause
#[kernel]
pub unsafe fn matmul_naive_extent(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    if row < m && col < n {
        let mut sum = 0.0;
        for i in 0..n {
            sum += *a.add((row * k + i) as usize) * *b.add((i * n + col) as usize);
        }
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: it adds to what is in `c`.
// Says: adds to what `c` holds before
#[kernel]
pub unsafe fn matmul_naive_memory(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    if row < m && col < n {
        let mut sum = 0.0;
        for i in 0..k {
            sum += *a.add((row * k + i) as usize) * *b.add((i * n + col) as usize);
        }
        *c.add((row * n + col) as usize) += sum;
    }
}
