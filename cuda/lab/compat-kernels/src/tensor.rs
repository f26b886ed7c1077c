//! Tensor cores: matrix multiplications from global memory and through shared memory, and matrices moved unchanged.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, tf32, FragmentA, FragmentB, FragmentC};
use cuda_std::prelude::*;
use cuda_std::warp;

macro_rules! products {
    ($($name:ident, $tiles:ident, $ty:ident, $k:literal;)*) => {$(
        /// `d[16, 8]` += `a[16, K]` * `b[K, 8]` for each warp, all row-major.
        #[kernel(min_arch = 80)]
        #[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
        pub unsafe fn $name(a: &[$ty], b: &[$ty], d: *mut f32) {
            let warp = thread::thread_idx_x() as usize / 32;
            let (a, b, d) = (&a[warp * 16 * $k..], &b[warp * 8 * $k..], d.add(warp * 128));
            let left = FragmentA::from_fn(|row, column| a[row * $k + column]);
            let right = FragmentB::from_fn(|row, column| b[row * 8 + column]);
            let sums = FragmentC::from_fn(|row, column| *d.add(row * 8 + column));
            mma::mma_sync(left, right, sums).for_each(|row, column, value| *d.add(row * 8 + column) = value);
        }

        /// `d[48, 16]` = `a[48, depth]` * `b[depth, 16]`, all row-major, with one warp; depth is a multiple of K.
        #[kernel(min_arch = 80)]
        #[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
        pub unsafe fn $tiles(a: &[$ty], b: &[$ty], d: *mut f32, depth: usize) {
            let mut sums = [[FragmentC::ZERO; 2]; 3];
            for at in (0..depth).step_by($k) {
                let left: [_; 3] = core::array::from_fn(|i| {
                    FragmentA::from_fn(|row, column| a[(16 * i + row) * depth + at + column])
                });
                let right: [_; 2] = core::array::from_fn(|j| {
                    FragmentB::from_fn(|row, column| b[(at + row) * 16 + 8 * j + column])
                });
                mma::mma_sync_tiles(&left, &right, &mut sums);
            }
            for (i, row_of_tiles) in sums.into_iter().enumerate() {
                for (j, tile) in row_of_tiles.into_iter().enumerate() {
                    tile.for_each(|row, column, value| *d.add((16 * i + row) * 16 + 8 * j + column) = value);
                }
            }
        }
    )*};
}

products! {
    product_f16, product_tiles_f16, f16, 16;
    product_bf16, product_tiles_bf16, bf16, 16;
    product_tf32, product_tiles_tf32, tf32, 8;
}

/// out = the numbers as `tf32`.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn to_tf32(inp: &[f32], out: *mut u32) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        *out.add(i) = tf32::from_f32(inp[i]).to_bits();
    }
}

/// `d[16, 16]` = `a[16, depth]` * `b[depth, 16]` with one warp, 16 columns of `a` at a time in shared memory.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn product_of_shared(a: &[f16], b: &[f16], d: *mut f32, depth: usize) {
    let (left, right) =
        (shared_array![[u128; 2]; 16].cast::<f16>(), shared_array![[u128; 2]; 16].cast::<f16>());
    let lane = warp::lane_id() as usize;
    let mut sums = [[FragmentC::ZERO; 2]];
    for at in (0..depth).step_by(16) {
        for i in (lane..256).step_by(32) {
            *left.add(i) = a[i / 16 * depth + at + i % 16];
            *right.add(i) = b[at * 16 + i];
        }
        warp::sync_warp(u32::MAX);
        // Four matrices of 8 x 8, ordered down first in A and, transposed, in B.
        let corner = (lane % 16) * 16 + lane / 16 * 8;
        let left = FragmentA::<f16>::from_registers(mma::ldmatrix(left.add(corner)));
        let [w, x, y, z] = mma::ldmatrix_trans(right.add(corner));
        let right = [[w, x], [y, z]].map(FragmentB::from_registers);
        mma::mma_sync_tiles(&[left], &right, &mut sums);
        warp::sync_warp(u32::MAX);
    }
    for (j, tile) in sums[0].into_iter().enumerate() {
        tile.for_each(|row, column, value| *d.add(row * 16 + 8 * j + column) = value);
    }
}

/// `out[lane]` = the lane's registers of the 8 x 8 matrices in `inp`: one, two and four unchanged, the same transposed, and
/// the first transposed in registers.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn registers_of_matrices(inp: &[u16], out: *mut [u32; 15]) {
    let tile = shared_array![u128; 32].cast::<u16>();
    let lane = warp::lane_id() as usize;
    for i in (lane..256).step_by(32) {
        *tile.add(i) = inp[i];
    }
    warp::sync_warp(u32::MAX);
    let row = tile.add(8 * lane);
    // Only the lanes with rows that are read have an address.
    let row_of = |rows: usize| if lane < rows { row } else { core::ptr::null_mut() };
    let [a] = mma::ldmatrix(row_of(8));
    let [b, c] = mma::ldmatrix(row_of(16));
    let [d, e, f, g] = mma::ldmatrix(row);
    let [h] = mma::ldmatrix_trans(row_of(8));
    let [i, j] = mma::ldmatrix_trans(row_of(16));
    let [k, l, m, n] = mma::ldmatrix_trans(row);
    *out.add(lane) = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, mma::movmatrix_trans(a)];
}

/// out = the four matrices in `inp`, stored from registers: the first `matrices` unchanged or transposed.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn stored_matrices(inp: &[[u32; 4]], out: *mut u16, matrices: u32, transposes: bool) {
    let tile = shared_array![u128; 32].cast::<u16>();
    let lane = warp::lane_id() as usize;
    let (row, [a, b, c, d]) = (tile.add(8 * lane), inp[lane]);
    match (matrices, transposes) {
        (1, false) => mma::stmatrix(row, [a]),
        (2, false) => mma::stmatrix(row, [a, b]),
        (_, false) => mma::stmatrix(row, [a, b, c, d]),
        (1, true) => mma::stmatrix_trans(row, [a]),
        (2, true) => mma::stmatrix_trans(row, [a, b]),
        (_, true) => mma::stmatrix_trans(row, [a, b, c, d]),
    }
    warp::sync_warp(u32::MAX);
    for i in (lane..64 * matrices as usize).step_by(32) {
        *out.add(i) = *tile.add(i);
    }
}
