//! Copies operands whose rows do not start at multiples of 16 bytes, which asynchronous copies cannot read.
//!
//! The copies have rows at multiples of 128 bytes. A multiplication of large matrices reads each row many times, so it gains
//! far more than the copy costs.
//@ ptx(matmul_align_16, compute_80+): ld.global.nc.v4 >= 1, st.global.v4 >= 1, .local == 0
//@ ptx(matmul_fold_16, compute_90+): st.global.v4 == 1, .local == 0

use cuda_std::mem::{load_global_nc, store_global, u32x4};
use cuda_std::{KernelArgs, kernel, thread};

use super::super::args::begin;

/// The bytes of a row of a copy are a multiple of this.
pub const ROW_BYTES: u64 = 128;
/// Threads of a block.
pub const THREADS: u32 = 256;

/// A matrix or a batch of them, and its copy. Pitches count bytes.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct AlignArgs {
    /// `[batch, rows, out_pitch]`: written, at multiples of 16 bytes.
    pub out: *mut u8,
    /// `[rows, cols]` for each matrix, at a multiple of the element's size.
    pub inp: *const u8,
    /// Distance from one row of `out` to the next, a multiple of [`ROW_BYTES`].
    pub out_pitch: u64,
    /// Distance from one row of `inp` to the next.
    pub inp_pitch: u64,
    /// Distance from one matrix of `inp` to the next.
    pub inp_batch: u64,
    /// Rows as they are stored.
    pub rows: u32,
    /// Elements of a row.
    pub cols: u32,
}

/// Copies rows of elements of `BYTES` bytes, 2 or 4. Pads a row to the next multiple of 16 bytes with zeros.
///
/// Launched with any number of blocks of [`THREADS`] threads along x, and one matrix per block along z.
///
/// # Safety
/// The launch is as described, and the matrices match the arguments. No other code uses `out`.
#[kernel(
    max_threads = 256,
    min_arch = 80,
    args,
    instances(
        matmul_align_16 = <2>;
        matmul_align_32 = <4>;
    ),
)]
pub unsafe fn matmul_align<const BYTES: u32>(args: AlignArgs) {
    const { assert!(BYTES == 2 || BYTES == 4, "elements of 2 or 4 bytes") };
    begin();
    let batch = u64::from(thread::block_idx_z());
    let inp = args.inp.wrapping_add((batch * args.inp_batch) as usize);
    let out = args.out.wrapping_add((batch * u64::from(args.rows) * args.out_pitch) as usize);
    let per_chunk = 16 / BYTES;
    let chunks = args.cols.div_ceil(per_chunk);
    let all = args.rows * chunks;
    // SAFETY: if there are chunks of the matrix, there are chunks of a row. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(chunks != 0 || all == 0) };
    let mut i = thread::block_idx_x() * THREADS + thread::thread_idx_x();
    while i < all {
        let (row, col) = (i / chunks, i % chunks * per_chunk);
        let from = inp.wrapping_add((u64::from(row) * args.inp_pitch + u64::from(col * BYTES)) as usize);
        // SAFETY: the row has these elements.
        let [x, y, z, w] = unsafe { chunk::<BYTES>(from, args.cols - col) };
        let to = out.wrapping_add((u64::from(row) * args.out_pitch + u64::from(col * BYTES)) as usize);
        // SAFETY: a row of the copy has whole chunks, and no other thread writes this one.
        unsafe { store_global(to.cast(), u32x4::new(x, y, z, w)) };
        i += thread::grid_dim_x() * THREADS;
    }
}

/// Copies rows of A for a map of B that has a group of rows as one row: as many rows as 16 bytes have elements. Such rows start at
/// multiples of 16 bytes even if those of B do not. A stage then has equal rows of all groups, so the copy starts with the first
/// term of each group, then the second. Each part has `args.out_pitch` divided by the rows of a group, filled with zeros.
///
/// Launched like [`matmul_align`](fn@matmul_align).
///
/// # Safety
/// Same as for `matmul_align`. The rows of the copies have whole parts of whole chunks, and those of `inp` whole groups.
#[kernel(
    max_threads = 256,
    min_arch = 90,
    args,
    instances(
        matmul_fold_16 = <2>;
        matmul_fold_32 = <4>;
    ),
)]
pub unsafe fn matmul_fold<const BYTES: u32>(args: AlignArgs) {
    const { assert!(BYTES == 2 || BYTES == 4, "elements of 2 or 4 bytes") };
    begin();
    let batch = u64::from(thread::block_idx_z());
    let inp = args.inp.wrapping_add((batch * args.inp_batch) as usize);
    let out = args.out.wrapping_add((batch * u64::from(args.rows) * args.out_pitch) as usize);
    let group = const { 16 / BYTES };
    let chunks = args.out_pitch as u32 / 16;
    let each = chunks / group;
    // SAFETY: a row has chunks of each part. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(chunks != 0 && each != 0) };
    let mut i = thread::block_idx_x() * THREADS + thread::thread_idx_x();
    while i < args.rows * chunks {
        let (row, chunk) = (i / chunks, i % chunks);
        let (term, first) = (chunk / each, chunk % each * group);
        let from = inp.wrapping_add((u64::from(row) * args.inp_pitch) as usize);
        let bits = |i: u32| {
            let col = (first + i) * group + term;
            if i >= group || col >= args.cols {
                return 0;
            }
            let from = from.wrapping_add((col * BYTES) as usize);
            // SAFETY: the row has the element.
            unsafe { if BYTES == 2 { u32::from(*from.cast::<u16>()) } else { *from.cast::<u32>() } }
        };
        let words =
            [0, 1, 2, 3].map(|i| if BYTES == 4 { bits(i) } else { bits(2 * i) | bits(2 * i + 1) << 16 });
        let to = out.wrapping_add((u64::from(row) * args.out_pitch + u64::from(chunk * 16)) as usize);
        // SAFETY: a row of the copy has whole chunks, and no other thread writes this one.
        unsafe { store_global(to.cast(), u32x4::from(words)) };
        i += thread::grid_dim_x() * THREADS;
    }
}

/// Returns the first 16 bytes of `left` elements, with zeros for missing ones. The loads are as wide as the address allows.
///
/// # Safety
/// `from` points to `left` elements of `BYTES` bytes, which no thread writes.
#[inline(always)]
unsafe fn chunk<const BYTES: u32>(from: *const u8, left: u32) -> [u32; 4] {
    let is_whole = left >= 16 / BYTES;
    let [words, halves] = [from.cast::<u32>(), from.cast::<u32>().wrapping_byte_add(2)];
    // SAFETY: only the caller's elements are read.
    unsafe {
        match from.addr() % 16 {
            0 if is_whole => load_global_nc::<u32x4>(from.cast()).to_array(),
            4 | 8 | 12 if is_whole => [0, 1, 2, 3].map(|i| load_global_nc(words.add(i))),
            2 | 6 | 10 | 14 if is_whole => {
                let half = |at: usize| u32::from(*from.cast::<u16>().add(at));
                let [x, y, z] = [0, 1, 2].map(|i| load_global_nc(halves.add(i)));
                [half(0) | x << 16, x >> 16 | y << 16, y >> 16 | z << 16, z >> 16 | half(7) << 16]
            }
            _ => [0, 1, 2, 3].map(|word| {
                if BYTES == 4 {
                    if word < left { *words.add(word as usize) } else { 0 }
                } else {
                    let half =
                        |at: u32| if at < left { u32::from(*from.cast::<u16>().add(at as usize)) } else { 0 };
                    half(2 * word) | half(2 * word + 1) << 16
                }
            }),
        }
    }
}
