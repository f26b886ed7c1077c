//! A register-tiled matrix product, the core of the fused kernels.
//!
//! The simple version: `acc[m][n] = sum over k of a[m][k] * b[k][n]`, one thread per (m, n). Here
//!
//! 1. a block of threads computes a tile of `BM` x `BN` outputs, each thread `TM` x `TN` of them in registers, so
//!    that a value read from shared memory serves `TM` or `TN` products;
//! 2. the tile walks along k in slabs of [`BK`], which the block copies to shared memory by 16-byte accesses;
//! 3. two slabs alternate, so that one barrier a slab is enough: while some threads still multiply slab k, others
//!    may already fill slab k + 1, and nobody can be two slabs ahead.
//!
//! Edges are filled with zeros in shared memory, so the product itself knows no edges. The sum over k runs in
//! order, which makes the result the same on every run.

use cuda_std::mem::{self, f32x4};
use cuda_std::share::share;
use cuda_std::thread;

/// Depth of a slab along k.
pub const BK: usize = 32;

/// Row pitch of a slab whose rows run along k: four more than [`BK`], so that neighbouring rows start in
/// different banks and still on 16 bytes.
const PITCH: usize = BK + 4;

/// Floats of shared memory that a tile of `bm` x `bn` needs: two slabs of A and of B.
pub const fn shared_floats(bm: usize, bn: usize) -> usize {
    2 * slab_floats(bm, bn)
}

const fn slab_floats(bm: usize, bn: usize) -> usize {
    bm * PITCH + BK * bn
}

/// A row-major matrix in global memory.
#[derive(Clone, Copy)]
pub struct Matrix {
    ptr: *const f32,
    rows: usize,
    cols: usize,
    /// Whether every row starts on 16 bytes.
    aligned: bool,
}

impl Matrix {
    /// The `rows` x `cols` matrix at the start of `data`.
    ///
    /// # Safety
    /// `data` holds `rows * cols` elements, which nobody writes while the kernel runs.
    #[inline(always)]
    pub unsafe fn new(data: &[f32], rows: usize, cols: usize) -> Self {
        let aligned = (data.as_ptr() as usize | (cols * size_of::<f32>())).is_multiple_of(16);
        Self { ptr: data.as_ptr(), rows, cols, aligned }
    }

    /// Whether the `rows` x `cols` elements from (`row`, `col`) on all lie in the matrix, in rows that start on 16
    /// bytes.
    #[inline(always)]
    fn holds(&self, row: usize, col: usize, rows: usize, cols: usize) -> bool {
        self.aligned && row + rows <= self.rows && col + cols <= self.cols
    }

    /// Elements `col..col + 4` of a row.
    ///
    /// # Safety
    /// [`Matrix::holds`] is true of them.
    #[inline(always)]
    unsafe fn quad(&self, row: usize, col: usize) -> f32x4 {
        // SAFETY: the elements lie in the matrix, on 16 bytes.
        unsafe { mem::load_global_nc(self.ptr.add(row * self.cols + col).cast()) }
    }

    /// Elements `col..col + 4` of a row; zero outside the matrix.
    #[inline(always)]
    fn quad_or_zero(&self, row: usize, col: usize) -> f32x4 {
        if self.holds(row, col, 1, 4) {
            // SAFETY: just checked.
            return unsafe { self.quad(row, col) };
        }
        let elements: [f32; 4] = core::array::from_fn(|i| {
            if row < self.rows && col + i < self.cols {
                // SAFETY: row and column lie in the matrix.
                unsafe { *self.ptr.add(row * self.cols + col + i) }
            } else {
                0.0
            }
        });
        elements.into()
    }
}

/// How the A operand lies in global memory, and so in its slab.
#[derive(Clone, Copy)]
pub enum OperandA {
    /// As `[m, k]`, for a product A B.
    RowMajor(Matrix),
    /// As `[k, m]`, for a product A^T B.
    Transposed(Matrix),
}

/// How the B operand lies in global memory. Its slab is `[BK, BN]` always.
#[derive(Clone, Copy)]
pub enum OperandB {
    /// As `[k, n]`, for a product A B.
    RowMajor(Matrix),
    /// As `[n, k]`, for a product A B^T.
    Transposed(Matrix),
}

/// The calling thread's part of a block's tile.
pub struct Tile<const BM: usize, const BN: usize, const TM: usize, const TN: usize> {
    /// The sums; entry `[i][j]` belongs to row [`Tile::row`]`(i)`, column `self.col + j`.
    pub acc: [[f32; TN]; TM],
    /// The first of this thread's `TN` neighbouring columns of the product.
    pub col: usize,
    /// The sums over k of the B operand in this thread's columns, where the caller asked for them.
    pub column_sums: [f32; TN],
    first_row: usize,
    row_step: usize,
}

/// Whether [`Tile::product`] also sums the B operand along k.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ColumnSums {
    /// It does, in the threads that hold the first rows of the first block row.
    Yes,
    /// It does not.
    No,
}

impl<const BM: usize, const BN: usize, const TM: usize, const TN: usize> Tile<BM, BN, TM, TN> {
    /// Threads of the block: one for each `TM` x `TN` outputs.
    pub const THREADS: u32 = ((BM / TM) * (BN / TN)) as u32;

    /// The row of the product that `acc[i]` belongs to.
    #[inline(always)]
    pub fn row(&self, i: usize) -> usize {
        self.first_row + i * self.row_step
    }

    /// Multiplies: the tile with the number `tile_row` down the product and `block_idx_x` across. When it returns,
    /// all threads are done with `shared`.
    ///
    /// # Safety
    /// Called by all [`Tile::THREADS`] threads of a one-dimensional block, with the same arguments. `shared` is the block's shared memory,
    /// [`shared_floats`]`(BM, BN)` floats on 16 bytes. The operands' matrices are valid for reads, and agree on k.
    #[inline(always)]
    pub unsafe fn product(
        shared: *mut f32,
        tile_row: u32,
        a: OperandA,
        b: OperandB,
        k: usize,
        sums: ColumnSums,
    ) -> Self {
        let tid = thread::thread_idx_x() as usize;
        let (tx, ty) = (tid % (BN / TN), tid / (BN / TN));
        let row0 = tile_row as usize * BM;
        let col0 = thread::block_idx_x() as usize * BN;
        // A slab along k is read one column at a time, by threads of different rows: neighbouring rows, in
        // different banks. A slab along m is read in runs: each thread's rows follow each other.
        let (first, step, pitch_m, pitch_k) = match a {
            OperandA::RowMajor(_) => (ty, BM / TM, PITCH, 1),
            OperandA::Transposed(_) => (ty * TM, 1, 1, BM),
        };
        let mut tile = Self {
            acc: [[0.0; TN]; TM],
            col: col0 + tx * TN,
            column_sums: [0.0; TN],
            first_row: row0 + first,
            row_step: step,
        };
        let sums_here = sums == ColumnSums::Yes && row0 == 0 && ty == 0;
        let slabs = k.div_ceil(BK);
        // SAFETY: both slabs lie in `shared`. A slab is filled before the barrier and read after it; it is filled
        // again only after the next barrier, which every reader has then reached.
        unsafe {
            Self::fill(shared, a, b, row0, col0, 0);
            thread::sync_threads_aligned();
            for slab in 0..slabs {
                let current = shared.add((slab % 2) * slab_floats(BM, BN));
                if slab + 1 < slabs {
                    let next = shared.add(((slab + 1) % 2) * slab_floats(BM, BN));
                    Self::fill(next, a, b, row0, col0, (slab + 1) * BK);
                }
                let (a_slab, b_slab) = (current.add(first * pitch_m), current.add(BM * PITCH + tx * TN));
                tile.multiply(a_slab, step * pitch_m, pitch_k, b_slab);
                if sums_here {
                    tile.sum_columns(b_slab);
                }
                thread::sync_threads_aligned();
            }
        }
        tile
    }

    /// Calls `write(at, j, sum)` for every output of this thread that lies in a `rows` x `cols` product: `at` is its
    /// index there, `j` its column in the tile.
    #[inline(always)]
    pub fn for_each(&self, rows: usize, cols: usize, mut write: impl FnMut(usize, usize, f32)) {
        for i in 0..TM {
            if self.row(i) < rows {
                let row = self.row(i) * cols + self.col;
                if self.col + TN <= cols {
                    // The common case has no test inside, so that a compiler with vectors can use them.
                    for j in 0..TN {
                        write(row + j, j, self.acc[i][j]);
                    }
                } else {
                    for j in 0..TN {
                        if self.col + j < cols {
                            write(row + j, j, self.acc[i][j]);
                        }
                    }
                }
            }
        }
    }

    /// Adds the product of one slab.
    #[inline(always)]
    unsafe fn multiply(&mut self, a: *const f32, pitch_row: usize, pitch_k: usize, b: *const f32) {
        for k in 0..BK {
            // SAFETY: `k` and the thread's rows and columns lie in the slab.
            unsafe {
                let b_reg: [f32; TN] = core::array::from_fn(|j| *b.add(k * BN + j));
                for i in 0..TM {
                    let a_reg = *a.add(i * pitch_row + k * pitch_k);
                    for j in 0..TN {
                        self.acc[i][j] = mul_add(a_reg, b_reg[j], self.acc[i][j]);
                    }
                }
            }
        }
    }

    /// Adds one slab of B to the column sums.
    #[inline(always)]
    unsafe fn sum_columns(&mut self, b: *const f32) {
        for k in 0..BK {
            for j in 0..TN {
                // SAFETY: `k` and the thread's columns lie in the slab.
                self.column_sums[j] += unsafe { *b.add(k * BN + j) };
            }
        }
    }

    /// Copies one slab of both operands to shared memory.
    #[inline(always)]
    unsafe fn fill(slab: *mut f32, a: OperandA, b: OperandB, row0: usize, col0: usize, k0: usize) {
        // SAFETY: the slab holds BM rows of PITCH (or BK rows of BM, which is less) and, after them, BK of BN.
        unsafe {
            match a {
                OperandA::RowMajor(a) => Self::copy::<BM, BK>(slab, PITCH, a, row0, k0),
                OperandA::Transposed(a) => Self::copy::<BK, BM>(slab, BM, a, k0, row0),
            }
            let slab_b = slab.add(BM * PITCH);
            match b {
                OperandB::RowMajor(b) => Self::copy::<BK, BN>(slab_b, BN, b, k0, col0),
                OperandB::Transposed(b) => Self::copy_transposed(slab_b, b, col0, k0),
            }
        }
    }

    /// Copies `ROWS` x `COLS` elements from (`row0`, `col0`) of `from` to rows `pitch` apart.
    #[inline(always)]
    unsafe fn copy<const ROWS: usize, const COLS: usize>(
        to: *mut f32,
        pitch: usize,
        from: Matrix,
        row0: usize,
        col0: usize,
    ) {
        let tid = thread::thread_idx_x() as usize;
        let threads = Self::THREADS as usize;
        let place = |quad: usize| (quad / (COLS / 4), quad % (COLS / 4) * 4);
        // SAFETY: a quad's place lies in the slab; pitch and column are multiples of four, so it starts on 16
        // bytes, as the slab does.
        let store = |(row, col): (usize, usize), values: f32x4| unsafe {
            *to.add(row * pitch + col).cast() = values;
        };
        // Two loops and not one with a test inside: the whole block takes the same one.
        if from.holds(row0, col0, ROWS, COLS) {
            for (row, col) in share(ROWS * COLS / 4, tid, threads).map(place) {
                // SAFETY: the matrix holds the whole slab.
                store((row, col), unsafe { from.quad(row0 + row, col0 + col) });
            }
        } else {
            for (row, col) in share(ROWS * COLS / 4, tid, threads).map(place) {
                store((row, col), from.quad_or_zero(row0 + row, col0 + col));
            }
        }
    }

    /// Copies `BN` x `BK` elements from (`row0`, `col0`) of `from` to their transpose, `[BK, BN]`.
    #[inline(always)]
    unsafe fn copy_transposed(to: *mut f32, from: Matrix, row0: usize, col0: usize) {
        let tid = thread::thread_idx_x() as usize;
        let threads = Self::THREADS as usize;
        for quad in share(BN * BK / 4, tid, threads) {
            // Neighbouring quads go to neighbouring columns of the slab, so that their stores meet no conflict.
            let (n, k) = (quad % BN, quad / BN * 4);
            let f32x4 { x, y, z, w } = from.quad_or_zero(row0 + n, col0 + k);
            // SAFETY: n < BN and k + 3 < BK.
            unsafe {
                let column = to.add(k * BN + n);
                *column = x;
                *column.add(BN) = y;
                *column.add(2 * BN) = z;
                *column.add(3 * BN) = w;
            }
        }
    }
}

/// `a * b + c` with one rounding: `fma.rn.f32`, and on the CPU the instruction that every x86-64-v3 has.
#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    cuda_std::GpuFloat::mul_add(a, b, c)
}
