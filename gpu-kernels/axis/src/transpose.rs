//! The transpose of a strided matrix of elements of 2 or 4 bytes.
//!
//! A block has a tile, whose sides are powers of two. If both matrices consist of whole, aligned vectors of 16 bytes, `N`
//! elements, a tile has `8 N` x `8 N` elements and goes through registers: each thread loads `N` vectors that lie below each
//! other, transposes them, and stores vectors of the transpose to shared memory. From there neighbouring threads read
//! neighbouring vectors of a row. Vector `v` of row `c` lies at position `v ^ (c / N)`, so neither the writes nor the reads
//! have bank conflicts.
//!
//! Any other matrix moves through shared memory element by element; its tiles have all of an axis that is short.
//@ ptx(axis_transpose_b32): ld.global.nc.v4 == 4, st.global.v4 == 4, st.shared.v4 == 4, ld.shared.v4 == 4, .local == 0
//@ ptx(axis_transpose_b16): ld.global.nc.v4 == 8, st.global.v4 == 8, st.shared.v4 == 8, ld.shared.v4 == 8, .local == 0
//@ ptx(axis_transpose_b16_any, axis_transpose_b16_few): bar.sync == 1, .local == 0
//@ ptx(axis_transpose_b32_any, axis_transpose_b32_few): bar.sync == 1, .local == 0
//@ ptx(axis_transpose_b16, axis_transpose_b16_any, axis_transpose_b16_few, compute_90+): griddepcontrol.wait == 1

use cuda_std::mem::{load_shared, store_global, store_shared, u32x4};
use cuda_std::shared::{dynamic_shared_mem, dynamic_shared_mem_aligned};
use cuda_std::{grid, kernel, thread};

use super::args::{TransposeArgs, WIDE};
use super::fold::load;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::TransposeShape;

/// Threads of a block whose tile goes through registers.
const SQUARE: u32 = 64;
/// Vectors of a row of such a tile.
const VECTORS: u32 = 8;

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

/// `out[col][row] = inp[row][col]`, in tiles of `8 N` x `8 N` elements.
///
/// Launched with blocks of 64 threads, one per tile: along x those of the longer axis, which is that of the columns with
/// [`WIDE`], and along y the others. A block has the dynamic shared memory of its tile.
///
/// # Safety
/// The launch is as described. Rows and columns are multiples of `N`, and every row of both matrices starts at a multiple of
/// 16 bytes. The pointers are valid for their shapes and strides; no other code uses `out`, and no code writes `inp`.
#[kernel(
    max_threads = 64,
    args,
    facts: TransposeShape = TransposeShape { area: (64 * N * N) as u32, block: SQUARE, bytes: size_of::<T>() as u32 },
    instances(
        axis_transpose_b32 = <u32, 4>;
        axis_transpose_b16 = <u16, 8>;
    ),
)]
pub unsafe fn axis_transpose<T: Word<N>, const N: usize>(args: TransposeArgs<T>) {
    let (tid, n) = (thread::thread_idx_x(), N as u32);
    let [first_row, first_col] = first_of_tile(&args);
    let (below, beside) = (tid / VECTORS, tid % VECTORS);
    let shared = dynamic_shared_mem_aligned::<u32x4>();
    let at = |row: u32, vector: u32| shared.wrapping_add((row * VECTORS + (vector ^ (row / n))) as usize);
    grid::wait_for_dependencies();
    grid::launch_dependents();
    // SAFETY: the shared memory holds a tile, and vectors that are loaded or stored lie in the matrices. A thread writes its
    // own vectors, and reads the others' after the barrier, which all threads of the block reach.
    unsafe {
        let (row, col) = (first_row + n * below, first_col + n * beside);
        if row < args.rows && col < args.cols {
            let square = args.inp.add(row as usize * args.inp_stride as usize + col as usize);
            let square = core::array::from_fn(|i| load(square.add(i * args.inp_stride as usize)));
            let square = T::transpose(square);
            for i in 0..n {
                store_shared(at(n * beside + i, below), square[i as usize]);
            }
        }
        thread::sync_threads_aligned();
        for i in 0..n {
            let (row, vector) = (i * (SQUARE / VECTORS) + tid / VECTORS, tid % VECTORS);
            if first_col + row < args.cols && first_row + n * vector < args.rows {
                let of_row = args.out.add((first_col + row) as usize * args.out_stride as usize);
                store_global(
                    of_row.add((first_row + n * vector) as usize).cast(),
                    load_shared(at(row, vector)),
                );
            }
        }
    }
}

/// Returns the first row and column of the block's tile.
#[inline(always)]
fn first_of_tile<T>(args: &TransposeArgs<T>) -> [u32; 2] {
    let (long, short) = (thread::block_idx_x(), thread::block_idx_y());
    let [row, col] = if args.flags & WIDE != 0 { [short, long] } else { [long, short] };
    [row << args.log_rows, col << args.log_cols]
}

/// Like [`axis_transpose()`] for any shape and alignment, with `ELEMENTS` elements per thread.
///
/// Launched like [`axis_transpose()`], with blocks of `BLOCK` threads. A tile has as many elements as they do, in `1 <<
/// log_rows` rows.
///
/// # Safety
/// The launch is as described. The pointers are valid for their shapes and strides, and multiples of an element's size; no
/// other code uses `out`, and no code writes `inp`.
#[kernel(
    max_threads = BLOCK,
    args,
    facts: TransposeShape =
        TransposeShape { area: (BLOCK * ELEMENTS) as u32, block: BLOCK as u32, bytes: size_of::<T>() as u32 },
    instances(
        axis_transpose_b32_any = <u32, 256, 8>;
        axis_transpose_b32_few = <u32, 256, 2>;
        axis_transpose_b16_any = <u16, 256, 8>;
        axis_transpose_b16_few = <u16, 256, 2>;
    ),
)]
pub unsafe fn axis_transpose_any<T: Copy + 'static, const BLOCK: usize, const ELEMENTS: usize>(
    args: TransposeArgs<T>,
) {
    let tid = thread::thread_idx_x();
    let [first_row, first_col] = first_of_tile(&args);
    let [rows, cols] = [1 << args.log_rows, 1u32 << args.log_cols];
    let shared = dynamic_shared_mem::<T>();
    let at =
        |row: u32, col: u32| shared.wrapping_add((row * pitch(cols, size_of::<T>() as u32) + col) as usize);
    grid::wait_for_dependencies();
    grid::launch_dependents();
    // SAFETY: the shared memory holds a tile, and elements that are loaded or stored lie in the matrices. A thread writes its
    // own elements, and reads the others' after the barrier, which all threads of the block reach.
    unsafe {
        let of_inp = |i: usize| {
            let i = tid + (i * BLOCK) as u32;
            (i >> args.log_cols, i & (cols - 1))
        };
        // For an element past the last row or column, another one is loaded.
        let loaded: [T; ELEMENTS] = core::array::from_fn(|i| {
            let (row, col) = of_inp(i);
            let (row, col) = ((first_row + row).min(args.rows - 1), (first_col + col).min(args.cols - 1));
            *args.inp.add(row as usize * args.inp_stride as usize + col as usize)
        });
        for i in 0..ELEMENTS {
            let (row, col) = of_inp(i);
            *at(row, col) = loaded[i];
        }
        thread::sync_threads_aligned();
        for i in 0..ELEMENTS {
            let i = tid + (i * BLOCK) as u32;
            let (row, col) = (i & (rows - 1), i >> args.log_rows);
            let (of_out, col_of_out) = (first_col + col, first_row + row);
            if of_out < args.cols && col_of_out < args.rows {
                let to = of_out as usize * args.out_stride as usize + col_of_out as usize;
                *args.out.add(to) = *at(row, col);
            }
        }
    }
}

/// Returns the distance from one row of a tile to the next in shared memory: an odd number of words, so that neighbouring
/// threads read neighbouring rows without bank conflicts.
#[inline(always)]
pub(super) const fn pitch(cols: u32, bytes: u32) -> u32 {
    if cols * bytes > 4 { cols + 4 / bytes } else { cols }
}

/// Like [`axis_transpose_any()`], with one thread per tile.
///
/// # Safety
/// Same as for [`axis_transpose_any()`].
#[kernel(
    max_threads = 1,
    args,
    facts: TransposeShape = TransposeShape { area: 4096, block: 1, bytes: size_of::<T>() as u32 },
    instances(
        axis_transpose_b32_serial = <u32>, cpu_only = true;
        axis_transpose_b16_serial = <u16>, cpu_only = true;
    ),
)]
pub unsafe fn axis_transpose_serial<T: Copy + 'static>(args: TransposeArgs<T>) {
    let [first_row, first_col] = first_of_tile(&args);
    for row in (first_row..args.rows.min(first_row + (1 << args.log_rows))).map(|row| row as usize) {
        for col in (first_col..args.cols.min(first_col + (1 << args.log_cols))).map(|col| col as usize) {
            let (to, from) = (col * args.out_stride as usize + row, row * args.inp_stride as usize + col);
            // SAFETY: the kernel's contract; row and column lie in the matrix.
            unsafe { *args.out.add(to) = *args.inp.add(from) };
        }
    }
}
