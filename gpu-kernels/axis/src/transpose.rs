//! The transpose of a strided matrix of elements of 2 or 4 bytes.
//!
//! A block of 256 threads has a tile of `16 N` x `16 N` elements, where 16 bytes are `N` elements. Each thread loads `N`
//! vectors that lie below each other, transposes them in registers, and stores vectors of the transpose to shared memory.
//! From there neighbouring threads read neighbouring vectors of a row. Vector `v` of row `c` lies at position
//! `v ^ (c / N % 8)`, so neither the writes nor the reads have bank conflicts. Tiles at the edges and unaligned matrices are
//! moved element by element.
//@ ptx(axis_transpose_b32): ld.global.nc.v4 == 4, st.global.v4 == 4, st.shared.v4 == 4, ld.shared.v4 == 4, .local == 0
//@ ptx(axis_transpose_b16): ld.global.nc.v4 == 8, st.global.v4 == 8, st.shared.v4 == 8, ld.shared.v4 == 8, .local == 0

use cuda_std::mem::{load_shared, store_global, store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::{kernel, thread};

use super::args::TransposeArgs;
use super::fold::load;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::TransposeShape;

/// Threads of a block.
const BLOCK: usize = 256;
/// Vectors of a row of a tile.
const VECTORS: usize = 16;
/// Elements that a thread has in flight when it moves them one by one.
const IN_FLIGHT: usize = 8;

/// An element that has `N` in 16 bytes.
pub trait Word<const N: usize>: Copy + 'static {
    /// Transposes a square of `N` rows.
    fn transpose(rows: [u32x4; N]) -> [u32x4; N];
}

impl Word<4> for u32 {
    #[inline(always)]
    fn transpose(rows: [u32x4; 4]) -> [u32x4; 4] {
        let [a, b, c, d] = rows.map(u32x4::to_array);
        core::array::from_fn(|i| u32x4::new(a[i], b[i], c[i], d[i]))
    }
}

impl Word<8> for u16 {
    #[inline(always)]
    fn transpose(rows: [u32x4; 8]) -> [u32x4; 8] {
        let rows = rows.map(u32x4::to_array);
        core::array::from_fn(|i| {
            let pair = |k: usize| {
                let (low, high) = (rows[2 * k][i / 2], rows[2 * k + 1][i / 2]);
                if i % 2 == 0 { low & 0xffff | high << 16 } else { low >> 16 | high & 0xffff_0000 }
            };
            u32x4::new(pair(0), pair(1), pair(2), pair(3))
        })
    }
}

/// `out[col][row] = inp[row][col]`.
///
/// Launched with blocks of 256 threads along x, one per tile in row-major order, with dynamic shared memory for a tile.
///
/// # Safety
/// The launch is as described. The pointers are valid for their shapes and strides; the flags hold; no other code uses
/// `out`, and no code writes `inp`.
#[kernel(
    max_threads = 256,
    args,
    facts: TransposeShape = TransposeShape { tile: 16 * N as u32, block: 256 },
    instances(
        axis_transpose_b32 = <u32, 4>;
        axis_transpose_b16 = <u16, 8>;
    ),
)]
pub unsafe fn axis_transpose<T: Word<N>, const N: usize>(args: TransposeArgs<T>) {
    let tile = VECTORS * N;
    let tid = thread::thread_idx_x() as usize;
    let [first_row, first_col] = first(&args, tile);
    let (rows, cols) = (args.rows as usize, args.cols as usize);
    let (out_stride, inp_stride) = (args.out_stride as usize, args.inp_stride as usize);
    let is_whole = args.is_aligned() && first_row + tile <= rows && first_col + tile <= cols;
    if is_whole {
        let shared = dynamic_shared_mem_aligned::<u32x4>();
        // SAFETY: the shared memory holds a tile, and its vectors lie in the matrices. A thread writes its own vectors, and reads
        // the others' after the barrier, which all threads of the block reach.
        unsafe {
            let at = |row: usize, vector: usize| shared.add(row * VECTORS + (vector ^ (row / N % 8)));
            let (below, beside) = (tid / VECTORS, tid % VECTORS);
            let square = args.inp.add((first_row + N * below) * inp_stride + first_col + N * beside);
            let square = T::transpose(core::array::from_fn(|i| load(square.add(i * inp_stride))));
            for i in 0..N {
                store_shared(at(N * beside + i, below), square[i]);
            }
            thread::sync_threads_aligned();
            for i in 0..N {
                let (row, vector) = (i * (BLOCK / VECTORS) + tid / VECTORS, tid % VECTORS);
                let to = args.out.add((first_col + row) * out_stride + first_row + N * vector);
                store_global(to.cast(), load_shared(at(row, vector)));
            }
        }
    } else {
        let shared = dynamic_shared_mem_aligned::<u32x4>().cast::<T>();
        // SAFETY: the shared memory holds a tile, and every access lies in the matrices. A thread writes its own elements, and
        // reads the others' after the barrier, which all threads of the block reach.
        unsafe {
            // Neighbouring elements of a row or of a column of the tile lie in different banks.
            let at =
                |row: usize, col: usize| shared.add(row * tile + (col ^ (row % 32 * (4 / size_of::<T>()))));
            let [step, down, across] = [BLOCK / tile, tid / tile, tid % tile];
            for first in (0..tile / step).step_by(IN_FLIGHT) {
                let row = |i: usize| (first + i) * step + down;
                let is_there = |i: usize| first_row + row(i) < rows && first_col + across < cols;
                let loaded: [Option<T>; IN_FLIGHT] = core::array::from_fn(|i| {
                    is_there(i).then(|| *args.inp.add((first_row + row(i)) * inp_stride + first_col + across))
                });
                for i in 0..IN_FLIGHT {
                    if let Some(element) = loaded[i] {
                        *at(across, row(i)) = element;
                    }
                }
            }
            thread::sync_threads_aligned();
            for i in 0..tile / step {
                let row = i * step + down;
                if first_col + row < cols && first_row + across < rows {
                    *args.out.add((first_col + row) * out_stride + first_row + across) = *at(row, across);
                }
            }
        }
    }
}

/// Like [`axis_transpose()`], with one thread per tile.
///
/// Launched with one block of one thread per tile.
///
/// # Safety
/// Same as for [`axis_transpose()`].
#[kernel(
    max_threads = 1,
    args,
    facts: TransposeShape = TransposeShape { tile: 16 * N as u32, block: 1 },
    instances(
        axis_transpose_b32_serial = <u32, 4>, cpu_only = true;
        axis_transpose_b16_serial = <u16, 8>, cpu_only = true;
    ),
)]
pub unsafe fn axis_transpose_serial<T: Word<N>, const N: usize>(args: TransposeArgs<T>) {
    let tile = VECTORS * N;
    let [first_row, first_col] = first(&args, tile);
    for row in first_row..(first_row + tile).min(args.rows as usize) {
        for col in first_col..(first_col + tile).min(args.cols as usize) {
            let (to, from) = (col * args.out_stride as usize + row, row * args.inp_stride as usize + col);
            // SAFETY: the kernel's contract; row and column lie in the matrix.
            unsafe { *args.out.add(to) = *args.inp.add(from) };
        }
    }
}

/// Returns the row and the column of the first element of the block's tile.
#[inline(always)]
fn first<T>(args: &TransposeArgs<T>, tile: usize) -> [usize; 2] {
    let (block, across) = (thread::block_idx_x(), args.cols.div_ceil(tile as u32));
    [(block / across) as usize * tile, (block % across) as usize * tile]
}
