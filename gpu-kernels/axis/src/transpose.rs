//! The transpose of a strided matrix of elements of 2 or 4 bytes.
//!
//! A block of 256 threads has a tile. Whole tiles of `16 N` x `16 N` elements, where 16 bytes are `N` elements, go through
//! registers:
//! each thread loads `N` vectors that lie below each other, transposes them, and stores vectors of the transpose to shared
//! memory. From there neighbouring threads read neighbouring vectors of a row. Vector `v` of row `c` lies at position
//! `v ^ (c / N % 8)`, so neither the writes nor the reads have bank conflicts. If rows start at any element of a vector, a
//! vector comes from the two that have its elements, and so does each vector that is written.
//!
//! Every other tile is copied to shared memory as it lies in the input, vector by vector. A thread then gathers the elements of
//! each vector of the output. Rows that follow each other without gaps are one run of memory, so a matrix of few rows or few
//! columns moves by whole vectors too. Only the vectors at the ends of a run go element by element. Elements of small matrices
//! are gathered from global memory.
//@ ptx(axis_transpose_b32): ld.global.nc.v4 == 8, st.global.v4 == 5, st.shared.v4 == 8, ld.shared.v4 == 4, .local == 0
//@ ptx(axis_transpose_b16): ld.global.nc.v4 == 12, st.global.v4 == 9, st.shared.v4 == 12, ld.shared.v4 == 8, .local == 0
//@ ptx(axis_transpose_b32_any): ld.global.nc.v4 == 12, st.shared.v4 == 8, ld.shared.v4 >= 2, .local == 0
//@ ptx(axis_transpose_b16_any): ld.global.nc.v4 == 20, st.shared.v4 == 12, ld.shared.v4 >= 2, .local == 0

use cuda_std::mem::{load_shared, store_global, store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::{kernel, thread};

use super::args::{DIRECT, TransposeArgs};
use super::fold::load;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::TransposeShape;
use common_kernels::element::VECTOR_ALIGN;
use common_kernels::unaligned::Unaligned;

/// Threads of a block.
const BLOCK: usize = 256;
/// Vectors of a row of a tile.
const VECTORS: usize = 16;
/// Vectors that a thread has in flight on their way to shared memory.
const IN_FLIGHT: usize = 4;

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

/// `out[col][row] = inp[row][col]`.
///
/// Launched with blocks of 256 threads along x, one per tile in row-major order, with the dynamic shared memory of
/// [`TransposeShape`]'s tiles.
///
/// # Safety
/// The launch is as described. The pointers are valid for their shapes and strides, and multiples of an element's size; with
/// `IS_ALIGNED`, every row of both matrices starts at a multiple of 16 bytes, and [`DIRECT`] has no meaning; no other code uses
/// `out`, and no code writes `inp`.
#[kernel(
    max_threads = 256,
    args,
    facts: TransposeShape = TransposeShape { vector: N as u32, block: 256 },
    instances(
        axis_transpose_b32 = <u32, 4, true>;
        axis_transpose_b16 = <u16, 8, true>;
        axis_transpose_b32_any = <u32, 4, false>;
        axis_transpose_b16_any = <u16, 8, false>, min_blocks = 3;
    ),
)]
pub unsafe fn axis_transpose<T: Word<N>, const N: usize, const IS_ALIGNED: bool>(args: TransposeArgs<T>) {
    let tile = Tile::of_block(&args);
    let is_square = [tile.rows, tile.cols] == [(VECTORS * N) as u32; 2];
    // SAFETY: the kernel's contract; all threads of the block call the same function.
    unsafe {
        if is_square && (IS_ALIGNED || tile.is_inside(&args, N)) {
            square::<T, N, IS_ALIGNED>(&args, tile);
        } else {
            through_shared::<T, N, IS_ALIGNED>(&args, tile);
        }
    }
}

/// Moves a whole square.
///
/// # Safety
/// Same as for [`axis_transpose()`]. All threads of the block call this. The tile is a square, inside of the matrix or aligned.
#[inline(always)]
unsafe fn square<T: Word<N>, const N: usize, const IS_ALIGNED: bool>(args: &TransposeArgs<T>, tile: Tile) {
    let tid = thread::thread_idx_x() as usize;
    let (out_stride, inp_stride) = (args.out_stride as usize, args.inp_stride as usize);
    let (first_row, first_col) = (tile.first_row as usize, tile.first_col as usize);
    let (below, beside) = (tid / VECTORS, tid % VECTORS);
    let shared = dynamic_shared_mem_aligned::<u32x4>();
    let at = |row: usize, vector: usize| shared.wrapping_add(row * VECTORS + (vector ^ (row / N % 8)));
    // SAFETY: the shared memory holds a tile, and its vectors, and those around them, lie in the matrices. A thread writes its
    // own vectors, and reads the others' after the barrier, which all threads of the block reach.
    unsafe {
        let square = args.inp.add((first_row + N * below) * inp_stride + first_col + N * beside);
        let square = if IS_ALIGNED {
            core::array::from_fn(|i| load(square.add(i * inp_stride)))
        } else {
            let loaded: [Unaligned; N] =
                core::array::from_fn(|i| Unaligned::load(square.add(i * inp_stride), |from| load(from)));
            loaded.map(|vectors| vectors.vector::<T>())
        };
        let square = T::transpose(square);
        for i in 0..N {
            store_shared(at(N * beside + i, below), square[i]);
        }
        thread::sync_threads_aligned();
        for i in 0..N {
            let (row, vector) = (i * (BLOCK / VECTORS) + tid / VECTORS, tid % VECTORS);
            let of_row = args.out.add((first_col + row) * out_stride + first_row);
            let (to, own) = (of_row.add(N * vector), load_shared(at(row, vector)));
            let skip = if IS_ALIGNED { 0 } else { of_row.addr() % VECTOR_ALIGN };
            if skip == 0 {
                store_global(to.cast(), own);
            } else if vector > 0 {
                // The vector of the output that starts before this one.
                let before = load_shared(at(row, vector - 1));
                let vector = Unaligned::new([before, own], (VECTOR_ALIGN - skip) as u32).vector::<T>();
                store_global(to.wrapping_byte_sub(skip).cast(), vector);
            } else {
                // The ends of the row, which share vectors with neighbours.
                let (of_last, skip) = (at(row, VECTORS - 1).cast::<T>(), skip / size_of::<T>());
                for j in 0..N {
                    if j + skip < N {
                        *to.add(j) = *at(row, 0).cast::<T>().add(j);
                    } else {
                        *to.add((VECTORS - 1) * N + j) = *of_last.add(j);
                    }
                }
            }
        }
    }
}

/// Moves a tile of any shape and alignment.
///
/// # Safety
/// Same as for [`axis_transpose()`]. All threads of the block call this.
#[inline(always)]
unsafe fn through_shared<T: Word<N>, const N: usize, const IS_ALIGNED: bool>(
    args: &TransposeArgs<T>,
    tile: Tile,
) {
    let (tid, n) = (thread::thread_idx_x(), N as u32);
    let shared = dynamic_shared_mem_aligned::<u32x4>().cast::<T>();
    // Moves vectors that lie a power of two apart to different banks.
    let moved = |i: u32| ((i / (8 * n)) ^ (i / (64 * n))) % 8 * n;
    let at = |i: u32| shared.wrapping_add((i ^ moved(i)) as usize);
    let (out_stride, inp_stride) = (args.out_stride as usize, args.inp_stride as usize);
    let (row, col) = (tile.first_row as usize, tile.first_col as usize);
    let from = args.inp.wrapping_add(row * inp_stride + col);
    let to = args.out.wrapping_add(col * out_stride + row);
    let inp = Runs::new::<T, N>(from, [tile.rows, tile.cols], inp_stride);
    let out = Runs::new::<T, N>(to, [tile.cols, tile.rows], out_stride);
    let pitch = if inp.count == 1 { tile.cols } else { n * inp.vectors };
    // The elements around a run that lie in the same row, or, if the run has whole rows, in the matrix.
    let (before, after) = match inp_stride == tile.cols as usize {
        true => (row * inp_stride, (args.rows as usize - row) * inp_stride),
        false => (col, args.cols as usize - col),
    };
    // The run of a vector, and the vector's first element in it, which may be before the run.
    let place = |of: &Runs, i: u32| {
        let (run, vector) = if of.count == 1 { (0, i) } else { (i / of.vectors, i % of.vectors) };
        (run, vector, (n * vector) as isize - of.skip::<N>(run) as isize)
    };
    let is_direct = !IS_ALIGNED && args.has(DIRECT);
    let vectors = if is_direct { 0 } else { inp.count * inp.vectors };
    for first in (tid..vectors).step_by(IN_FLIGHT * BLOCK) {
        let places: [_; IN_FLIGHT] = core::array::from_fn(|i| place(&inp, first + (i * BLOCK) as u32));
        let is_there = |i: usize| first + ((i * BLOCK) as u32) < vectors;
        let is_whole = |i: usize| {
            let start = places[i].2;
            is_there(i) && start + before as isize >= 0 && start + N as isize <= after as isize
        };
        let pointer =
            |i: usize| from.wrapping_add(places[i].0 as usize * inp_stride).wrapping_offset(places[i].2);
        let loaded: [u32x4; IN_FLIGHT] = core::array::from_fn(|i| match is_whole(i) {
            // SAFETY: a vector of the matrix.
            true => unsafe { load(pointer(i)) },
            false => u32x4::splat(0),
        });
        for i in 0..IN_FLIGHT {
            let (run, vector, start) = places[i];
            let to = run * n * inp.vectors + n * vector;
            if is_whole(i) {
                // SAFETY: the shared memory holds the vectors of all runs.
                unsafe { store_shared(at(to).cast(), loaded[i]) };
            } else if is_there(i) {
                for j in 0..N {
                    let k = start.wrapping_add(j as isize) as usize;
                    if k < inp.len as usize {
                        // SAFETY: an element of the run.
                        unsafe { *at(to + j as u32) = *from.wrapping_add(run as usize * inp_stride + k) };
                    }
                }
            }
        }
    }
    // SAFETY: all threads of the block execute this.
    unsafe { thread::sync_threads_aligned() };
    for i in (tid..out.count * out.vectors).step_by(BLOCK) {
        let (run, _, start) = place(&out, i);
        let to = to.wrapping_add(run as usize * out_stride);
        let first = if start < 0 { 0 } else { start as u32 };
        let (mut row, mut col) = (first, run);
        if out.count == 1 {
            (row, col) = (first % tile.rows, first / tile.rows);
        }
        // The next element of the run.
        let mut next = || {
            // SAFETY: an element of the matrix, or of the tile, which a thread wrote before the barrier.
            let element = unsafe {
                match is_direct {
                    true => *from.wrapping_add(row as usize * inp_stride + col as usize),
                    false => *at(row * pitch + inp.skip::<N>(row) + col),
                }
            };
            row += 1;
            if row == tile.rows {
                (row, col) = (0, col + 1);
            }
            element
        };
        if start >= 0 && start as usize + N <= out.len as usize {
            let vector = T::pack(core::array::from_fn(|_| next()));
            // SAFETY: a vector of the run, which only this thread writes.
            unsafe { store_global(to.wrapping_offset(start).cast(), vector) };
        } else {
            for j in 0..N {
                let k = start.wrapping_add(j as isize) as usize;
                if k < out.len as usize {
                    // SAFETY: an element of the run, which only this thread writes.
                    unsafe { *to.wrapping_add(k) = next() };
                }
            }
        }
    }
}

/// The rows of a tile as they lie in memory: as one run if they follow each other without gaps.
#[derive(Clone, Copy)]
struct Runs {
    count: u32,
    len: u32,
    /// Vectors of a run, also those at its ends that it has a part of. Some runs have one less.
    vectors: u32,
    /// The first run's first element in its vector.
    first: u32,
    /// How far the next run's first element is from this in its vector.
    turn: u32,
}

impl Runs {
    #[inline(always)]
    fn new<T, const N: usize>(ptr: *const T, [rows, cols]: [u32; 2], stride: usize) -> Self {
        let first = (ptr.addr() % VECTOR_ALIGN / size_of::<T>()) as u32;
        let is_one = rows == 1 || stride == cols as usize;
        let (count, len) = if is_one { (1, rows * cols) } else { (rows, cols) };
        let turn = if is_one { 0 } else { (stride % N) as u32 };
        let most = if turn == 0 { first } else { N as u32 - 1 };
        Self { count, len, vectors: (most + len).div_ceil(N as u32), first, turn }
    }

    /// Returns the place of a run's first element in its vector. If there is one run, the number has no meaning.
    #[inline(always)]
    fn skip<const N: usize>(&self, run: u32) -> u32 {
        (self.first + run * self.turn) % N as u32
    }
}

/// A block's part of the input.
#[derive(Clone, Copy)]
struct Tile {
    first_row: u32,
    first_col: u32,
    rows: u32,
    cols: u32,
}

impl Tile {
    /// Returns whether the matrix, or its row if there are gaps between rows, has a vector of `n` elements before and after
    /// each part of a row.
    #[inline(always)]
    fn is_inside<T>(&self, args: &TransposeArgs<T>, n: usize) -> bool {
        let (stride, n) = (args.inp_stride as usize, n as u32);
        let (starts, ends) = (self.first_col >= n, self.first_col + self.cols + n <= args.cols);
        let is_dense = stride == args.cols as usize;
        let has_rows = (self.first_row > 0, self.first_row + self.rows < args.rows);
        (starts || is_dense && has_rows.0) && (ends || is_dense && has_rows.1)
    }

    #[inline(always)]
    fn of_block<T>(args: &TransposeArgs<T>) -> Self {
        let (block, across) = (thread::block_idx_x(), args.cols.div_ceil(args.tile_cols));
        let (first_row, first_col) = (block / across * args.tile_rows, block % across * args.tile_cols);
        let (rows, cols) =
            (args.tile_rows.min(args.rows - first_row), args.tile_cols.min(args.cols - first_col));
        Self { first_row, first_col, rows, cols }
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
    facts: TransposeShape = TransposeShape { vector: N as u32, block: 1 },
    instances(
        axis_transpose_b32_serial = <u32, 4>, cpu_only = true;
        axis_transpose_b16_serial = <u16, 8>, cpu_only = true;
    ),
)]
pub unsafe fn axis_transpose_serial<T: Word<N>, const N: usize>(args: TransposeArgs<T>) {
    let tile = Tile::of_block(&args);
    for row in (tile.first_row..tile.first_row + tile.rows).map(|row| row as usize) {
        for col in (tile.first_col..tile.first_col + tile.cols).map(|col| col as usize) {
            let (to, from) = (col * args.out_stride as usize + row, row * args.inp_stride as usize + col);
            // SAFETY: the kernel's contract; row and column lie in the matrix.
            unsafe { *args.out.add(to) = *args.inp.add(from) };
        }
    }
}
