// Hint: In the step that begins at `first`, thread `(x, y)` copies `a[row][first + x]` and `b[first + y][col]`.
// Hint: All threads must reach both barriers, also those outside of `c`: only the store at the end has a guard.
// Hint: The product of the tiles: `a_tile[y * 16 + i] * b_tile[i * 16 + x]`.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn matmul_tiled_solution(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 256];
    let b_tile = shared_array![f32; 256];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    let mut sum = 0.0;
    for first in (0..k).step_by(16) {
        let (i, j) = (first + x, first + y);
        let own = (y * 16 + x) as usize;
        *a_tile.add(own) = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
        *b_tile.add(own) = if j < k && col < n { *b.add((j * n + col) as usize) } else { 0.0 };
        thread::sync_threads();
        for i in 0..16 {
            sum += *a_tile.add((y * 16 + i) as usize) * *b_tile.add((i * 16 + x) as usize);
        }
        thread::sync_threads();
    }
    if row < m && col < n {
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: without tiles.
// Says: not good yet; reads of each input byte; 4 are enough
#[kernel]
pub unsafe fn matmul_tiled_naive(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
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

// Wrong: the barrier at the end of a step is missing.
// Says: depends on luck; shared memory; after the reads
#[kernel]
pub unsafe fn matmul_tiled_second_barrier(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 256];
    let b_tile = shared_array![f32; 256];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    let mut sum = 0.0;
    for first in (0..k).step_by(16) {
        let (i, j) = (first + x, first + y);
        let own = (y * 16 + x) as usize;
        *a_tile.add(own) = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
        *b_tile.add(own) = if j < k && col < n { *b.add((j * n + col) as usize) } else { 0.0 };
        thread::sync_threads();
        for i in 0..16 {
            sum += *a_tile.add((y * 16 + i) as usize) * *b_tile.add((i * 16 + x) as usize);
        }
    }
    if row < m && col < n {
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: the barrier after the copies is missing.
// Says: shared memory; barrier
#[kernel]
pub unsafe fn matmul_tiled_first_barrier(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 256];
    let b_tile = shared_array![f32; 256];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    let mut sum = 0.0;
    for first in (0..k).step_by(16) {
        let (i, j) = (first + x, first + y);
        let own = (y * 16 + x) as usize;
        *a_tile.add(own) = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
        *b_tile.add(own) = if j < k && col < n { *b.add((j * n + col) as usize) } else { 0.0 };
        for i in 0..16 {
            sum += *a_tile.add((y * 16 + i) as usize) * *b_tile.add((i * 16 + x) as usize);
        }
        thread::sync_threads();
    }
    if row < m && col < n {
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: no 0 beyond the end.
// Says: elements; compare the row with the rows
#[kernel]
pub unsafe fn matmul_tiled_edges(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 256];
    let b_tile = shared_array![f32; 256];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    let mut sum = 0.0;
    for first in (0..k).step_by(16) {
        let (i, j) = (first + x, first + y);
        let own = (y * 16 + x) as usize;
        *a_tile.add(own) = *a.add((row * k + i) as usize);
        *b_tile.add(own) = if j < k && col < n { *b.add((j * n + col) as usize) } else { 0.0 };
        thread::sync_threads();
        for i in 0..16 {
            sum += *a_tile.add((y * 16 + i) as usize) * *b_tile.add((i * 16 + x) as usize);
        }
        thread::sync_threads();
    }
    if row < m && col < n {
        *c.add((row * n + col) as usize) = sum;
    }
}

// Wrong: threads outside of `c` return.
// Says: barrier; never reaches
#[kernel]
pub unsafe fn matmul_tiled_returns(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 256];
    let b_tile = shared_array![f32; 256];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let at = thread::index_2d();
    let (row, col) = (at.y, at.x);
    if row >= m || col >= n {
        return;
    }
    let mut sum = 0.0;
    for first in (0..k).step_by(16) {
        let (i, j) = (first + x, first + y);
        let own = (y * 16 + x) as usize;
        *a_tile.add(own) = if row < m && i < k { *a.add((row * k + i) as usize) } else { 0.0 };
        *b_tile.add(own) = if j < k && col < n { *b.add((j * n + col) as usize) } else { 0.0 };
        thread::sync_threads();
        for i in 0..16 {
            sum += *a_tile.add((y * 16 + i) as usize) * *b_tile.add((i * 16 + x) as usize);
        }
        thread::sync_threads();
    }
    if row < m && col < n {
        *c.add((row * n + col) as usize) = sum;
    }
}
