//! The transpose of a strided matrix of elements of 2 or 4 bytes.
//!
//! A block has a tile, whose sides are powers of two. If both matrices consist of whole, aligned vectors of 16 bytes, `N`
//! elements, a tile goes through registers: each thread loads `N` vectors that lie below each
//! other, transposes them, and stores vectors of the transpose to shared memory. From there neighbouring threads read
//! neighbouring vectors of a row. Vector `v` of row `c` lies at position `v ^ (c / N % 8)`, so neither the writes nor the reads
//! have bank conflicts.
//!
//! Any other matrix moves through shared memory element by element; its tiles have all of an axis that is short. Large ones
//! with elements of 2 bytes are loaded and stored by vectors in [`axis_transpose_staged()`].
//@ ptx(axis_transpose_b32): ld.global.nc.v4 == 4, st.global.v4 == 4, st.shared.v4 == 4, ld.shared.v4 == 4, .local == 0
//@ ptx(axis_transpose_b16, axis_transpose_b16_large): ld.global.nc.v4 == 8, st.global.v4 == 8, st.shared.v4 == 8, ld.shared.v4 == 8, .local == 0
//@ ptx(axis_transpose_b16_staged): ld.global.nc.v4 == 3, st.global.v4 >= 1, bar.sync == 1, .local == 0
//@ ptx(axis_transpose_b16_1, axis_transpose_b16_8, axis_transpose_b32_8): bar.sync == 1, .local == 0
//@ ptx(axis_transpose_b16, axis_transpose_b16_1, axis_transpose_b16_staged, compute_90+): griddepcontrol.wait == 1

use cuda_std::mem::{load_shared, store_global, store_shared, u32x4};
use cuda_std::shared::{dynamic_shared_mem, dynamic_shared_mem_aligned};
use cuda_std::{grid, kernel, thread};

use super::args::{LEAD, TransposeArgs, WIDE};
use super::fold::load;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::TransposeShape;

/// Threads of a block of other tiles.
const BLOCK: u32 = 256;
/// The side of a tile that lies in shared memory as in the input, and the vectors that a thread loads.
const SIDE: u32 = 64;
const LOADS: usize = 3;

/// An element that has `N` in 16 bytes.
pub trait Word<const N: usize>: Copy + 'static {
    /// Transposes a square of `N` rows.
    fn transpose(rows: [u32x4; N]) -> [u32x4; N];
    /// Returns the vector of these elements.
    fn pack(elements: [Self; N]) -> u32x4;
}

impl Word<4> for u32 {
    #[inline(always)]
    fn transpose(rows: [u32x4; 4]) -> [u32x4; 4] {
        let [a, b, c, d] = rows.map(u32x4::to_array);
        core::array::from_fn(|i| u32x4::new(a[i], b[i], c[i], d[i]))
    }

    #[inline(always)]
    fn pack(elements: [u32; 4]) -> u32x4 {
        u32x4::from(elements)
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

    #[inline(always)]
    fn pack(elements: [u16; 8]) -> u32x4 {
        let pair = |i: usize| u32::from(elements[2 * i]) | u32::from(elements[2 * i + 1]) << 16;
        u32x4::new(pair(0), pair(1), pair(2), pair(3))
    }
}

/// `out[col][row] = inp[row][col]`, in tiles of `SQUARES N` x `SQUARES N` elements.
///
/// Launched with blocks of `BLOCK` threads, one per tile: along x those of the rows, and with [`WIDE`] those of the columns, and
/// along y the others. A block has the dynamic shared memory of its tile.
///
/// # Safety
/// The launch is as described. Rows and columns are multiples of `N`, and every row of both matrices starts at a multiple of
/// 16 bytes. The pointers are valid for their shapes and strides; no other code uses `out`, and no code writes `inp`.
#[kernel(
    with(BLOCK = SQUARES * SQUARES),
    max_threads = BLOCK,
    args,
    facts: TransposeShape = TransposeShape {
        area: (BLOCK * N * N) as u32,
        block: BLOCK as u32,
        bytes: size_of::<T>() as u32,
        lead: 0,
        shared: (BLOCK * N * N * size_of::<T>()) as u32,
        least: LEAST as u32,
    },
    instances(
        axis_transpose_b32 = <u32, 4, 16, 32768>;
        axis_transpose_b16_large = <u16, 8, 16, 65536>;
        axis_transpose_b16 = <u16, 8, 8, 3072>;
    ),
)]
pub unsafe fn axis_transpose<
    T,
    const N: usize,
    const SQUARES: usize,
    const LEAST: usize,
    const BLOCK: usize,
>(
    args: TransposeArgs<T>,
) where
    T: Word<N>,
{
    let (tid, n) = (thread::thread_idx_x(), N as u32);
    let [first_row, first_col] = first_of_tile(&args);
    let vectors = SQUARES as u32;
    let (below, beside) = (tid / vectors, tid % vectors);
    let shared = dynamic_shared_mem_aligned::<u32x4>();
    let at = |row: u32, vector: u32| shared.wrapping_add((row * vectors + (vector ^ (row / n % 8))) as usize);
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
            let (row, vector) = (i * vectors + tid / vectors, tid % vectors);
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

/// Like [`axis_transpose()`] for any shape and alignment, in tiles of 64 x 64 elements.
///
/// A tile lies in shared memory as it does in the input, vector by vector. From there a thread gathers the elements of each vector
/// of the output. With [`LEAD`] rows of the output start at any element of a vector; then a block has, of each row of the output,
/// the vectors that start in the tile or before, and also loads the `N - 1` rows before the tile.
///
/// # Safety
/// The launch is as described, with a tile along the rows for `N - 1` more with [`LEAD`]. The pointers are valid for their shapes
/// and strides, and multiples of an element's size; no other code uses `out`, and no code writes `inp`.
#[kernel(
    max_threads = 256,
    args,
    facts: TransposeShape = TransposeShape {
        area: SIDE * SIDE,
        block: BLOCK,
        bytes: size_of::<T>() as u32,
        lead: N as u32 - 1,
        shared: (SIDE + N as u32) * 16 * (SIDE / N as u32 + 2),
        least: 65536,
    },
    instances(
        axis_transpose_b16_staged = <u16, 8>;
    ),
)]
pub unsafe fn axis_transpose_staged<T: Word<N>, const N: usize>(args: TransposeArgs<T>) {
    let (tid, n) = (thread::thread_idx_x(), N as u32);
    let (inp_stride, out_stride) = (args.inp_stride as usize, args.out_stride as usize);
    let [first_row, first_col] = first_of_tile(&args);
    let lead = if args.flags & LEAD != 0 { n - 1 } else { 0 };
    let pitch = SIDE / n + 1;
    let shared = dynamic_shared_mem_aligned::<u32x4>();
    // The gaps of a vector prevent bank conflicts.
    let at = |row: u32, vector: u32| shared.wrapping_add((row * pitch + row / n + vector) as usize);
    // The elements of the matrix around the start of a row without gaps, or the row's.
    let len = args.rows as usize * inp_stride;
    let around = |of_row: usize| {
        if inp_stride == args.cols as usize {
            [of_row, len.wrapping_sub(of_row)]
        } else {
            [0, args.cols as usize]
        }
    };
    grid::wait_for_dependencies();
    grid::launch_dependents();
    // A row of the tile, a vector, its first column, which may be before the first one, and the row's start.
    let place = |i: usize| {
        let i = tid + i as u32 * BLOCK;
        let (row, vector) = (i / pitch, i % pitch);
        let of_matrix = (first_row + row).wrapping_sub(lead);
        let of_row = of_matrix as usize * inp_stride;
        let skip = args.inp.wrapping_add(of_row + first_col as usize).addr() % 16 / size_of::<T>();
        let col = (first_col + n * vector) as isize - skip as isize;
        let is_there = row < SIDE + lead && of_matrix < args.rows && (vector < pitch - 1 || skip > 0);
        (is_there, row, vector, col, of_row)
    };
    // SAFETY: vectors and elements that are loaded or stored lie in the matrices, and the shared memory holds the vectors of all
    // rows. A thread writes its own vectors, and reads the others' after the barrier, which all threads of the block reach.
    unsafe {
        let is_whole = |(is_there, _, _, col, of_row): (bool, u32, u32, isize, usize)| {
            let [before, after] = around(of_row);
            is_there && col.wrapping_add(before as isize) >= 0 && col + N as isize <= after as isize
        };
        let loaded: [u32x4; LOADS] = core::array::from_fn(|i| {
            let place = place(i);
            if is_whole(place) { load(args.inp.add(place.4).offset(place.3)) } else { u32x4::splat(0) }
        });
        for i in 0..LOADS {
            let place @ (is_there, row, vector, col, of_row) = place(i);
            if is_whole(place) {
                store_shared(at(row, vector), loaded[i]);
            } else if is_there {
                for j in 0..N {
                    let col = (col + j as isize) as usize;
                    if col < args.cols as usize {
                        *at(row, vector).cast::<T>().add(j) = *args.inp.add(of_row + col);
                    }
                }
            }
        }
        thread::sync_threads_aligned();
        // The place of a row of the tile in its first vector.
        let first = ((args.inp.addr() / size_of::<T>()) as u32)
            .wrapping_add(first_row.wrapping_sub(lead).wrapping_mul(inp_stride as u32))
            .wrapping_add(first_col);
        for i in 0..SIDE * SIDE / n / BLOCK {
            let i = tid + i * BLOCK;
            let (col, vector) = (i / 8, i % 8);
            let of_out = first_col + col;
            if of_out < args.cols {
                let to = args.out.add(of_out as usize * out_stride);
                let skip = (to.addr() % 16 / size_of::<T>()) as u32;
                let row = (lead + n * vector).wrapping_sub(skip);
                let element = |j: u32| {
                    let row = row.wrapping_add(j);
                    let skip = first.wrapping_add(row.wrapping_mul(inp_stride as u32)) % n;
                    *at(row, 0).cast::<T>().add((skip + col) as usize)
                };
                let of_matrix = (first_row + n * vector) as isize - skip as isize;
                if of_matrix >= 0 && of_matrix + N as isize <= args.rows as isize {
                    store_global(
                        to.offset(of_matrix).cast(),
                        T::pack(core::array::from_fn(|j| element(j as u32))),
                    );
                } else {
                    for j in 0..N {
                        let to_row = (of_matrix + j as isize) as usize;
                        if to_row < args.rows as usize {
                            *to.add(to_row) = element(j as u32);
                        }
                    }
                }
            }
        }
    }
}

/// Like [`axis_transpose()`] for any shape and alignment, with `ELEMENTS` elements per thread.
///
/// A tile has as many elements as they do, in `1 <<
/// log_rows` rows.
///
/// # Safety
/// The launch is as described. The pointers are valid for their shapes and strides, and multiples of an element's size; no
/// other code uses `out`, and no code writes `inp`.
#[kernel(
    max_threads = 256,
    args,
    facts: TransposeShape = TransposeShape {
        area: BLOCK * ELEMENTS as u32,
        block: BLOCK,
        bytes: size_of::<T>() as u32,
        lead: 0,
        shared: 0,
        least: LEAST as u32,
    },
    instances(
        axis_transpose_b32_8 = <u32, 8, 9216>;
        axis_transpose_b32_4 = <u32, 4, 2048>;
        axis_transpose_b32_2 = <u32, 2, 300>;
        axis_transpose_b32_1 = <u32, 1, 0>;
        axis_transpose_b16_8 = <u16, 8, 9216>;
        axis_transpose_b16_4 = <u16, 4, 2048>;
        axis_transpose_b16_2 = <u16, 2, 300>;
        axis_transpose_b16_1 = <u16, 1, 0>;
    ),
)]
pub unsafe fn axis_transpose_any<T: Copy + 'static, const ELEMENTS: usize, const LEAST: usize>(
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
            let i = tid + i as u32 * BLOCK;
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
            let i = tid + i as u32 * BLOCK;
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
    facts: TransposeShape =
        TransposeShape { area: 4096, block: 1, bytes: size_of::<T>() as u32, lead: 0, shared: 0, least: 0 },
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
