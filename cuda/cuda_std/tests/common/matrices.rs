//! What the tests of warpgroup multiplications share.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::LaunchConfig;
use cuda_std::mma::tf32;
use cuda_std::simt::Executor;
use cuda_std::wgmma::{Element, Panel, e4m3};
use cuda_std::{bulk, shared, thread};

use super::{Launch, Out, on, tid};

/// An element that holds small integers.
pub trait Small: Element + Send + Sync {
    fn small(x: i32) -> Self;
}

macro_rules! small {
    ($($ty:ident),*) => {$(
        impl Small for $ty {
            fn small(x: i32) -> Self {
                $ty::from_f32(x as f32)
            }
        }
    )*};
}

small!(bf16, f16, tf32, e4m3);

/// An integer from -4 to 4 that looks random.
pub fn number(matrix: u32, row: usize, column: usize) -> i32 {
    let mut x =
        (row as u32).wrapping_mul(0x9e37_79b9) ^ (column as u32).wrapping_mul(0x85eb_ca6b) ^ matrix << 16;
    x ^= x >> 15;
    x = x.wrapping_mul(0x2c1b_3c6d);
    (x >> 12) as i32 % 9 - 4
}

/// The sum of D's old value and `k` products of A's row and B's column.
pub fn expected(row: usize, column: usize, k: usize, was: i32) -> f32 {
    let product = |k| i64::from(number(1, row, k)) * i64::from(number(2, column, k));
    (i64::from(was) + (0..k).map(product).sum::<i64>()) as f32
}

/// Runs a kernel of one warpgroup with dynamic shared memory. It writes `out`, 64 rows of `columns`.
#[track_caller]
pub fn results(
    executor: &Executor,
    columns: usize,
    bytes: usize,
    kernel: impl Fn(*mut f32) + Sync,
) -> Vec<f32> {
    let mut out = vec![f32::NAN; 64 * columns];
    let to = Out(out.as_mut_ptr());
    let config = LaunchConfig::new(1, 128).with_shared_bytes(1024 + bytes as u32);
    executor.run("multiply", config, || kernel(to.at(0))).unwrap_or_else(|error| panic!("{error}"));
    out
}

/// Fills a panel with numbers of a matrix that has its shape.
pub fn fill<T: Small, const ROWS: usize>(panel: *mut Panel<T, ROWS>, matrix: u32) {
    let in_row = T::IN_ROW;
    for i in (tid()..ROWS * in_row).step_by(thread::block_dim_x() as usize) {
        let (row, column) = (i / in_row, i % in_row);
        let element = Panel::element(panel, row as u32, column as u32);
        // SAFETY: the element belongs to this thread.
        unsafe { *element = T::small(number(matrix, row, column)) };
    }
}

/// The first panels in dynamic shared memory, filled and fenced: 64 rows of A, 32 of B.
pub fn two_panels() -> (*mut Panel<bf16, 64>, *mut Panel<bf16, 32>) {
    let a = shared::dynamic_shared_mem_aligned::<Panel<bf16, 64>>();
    let b = a.wrapping_add(1).cast();
    fill(a, 1);
    fill(b, 2);
    bulk::fence_shared();
    thread::sync_threads();
    (a, b)
}

/// A launch of one warpgroup with memory for panels.
pub fn on_a_warpgroup() -> Launch {
    on(1, 128).shared_bytes(16 * 1024)
}

/// Checks the panic of the first thread at fault in a kernel that does this with panels.
#[track_caller]
pub fn check_panic(expected: &str, kernel: impl Fn(*mut Panel<bf16, 64>, *mut Panel<bf16, 32>) + Sync) {
    on_a_warpgroup().fails(&format!(", thread ( .. panicked: .. {expected}"), || {
        let (a, b) = two_panels();
        kernel(a, b);
    });
}
