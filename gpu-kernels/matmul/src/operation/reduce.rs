//! The second launch of a multiplication whose sums were split: adds the parts in order and applies the epilogue.
//@ ptx(matmul_reduce_f32, matmul_reduce_f16, matmul_reduce_bf16, compute_80+): .local == 0, bar == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x4, load_global};
use cuda_std::{kernel, thread};

use super::super::args::{MatmulArgs, begin};
use super::super::epilogue::Columns;
use common_kernels::element::Output;

/// Threads of a block.
pub const THREADS: u32 = 128;

/// Adds up the sums of `args.splits` parts in `args.sums`, and writes the results. Each part is `[batch, m, pitch]` of
/// `f32`, and `args.split_pitch` elements after the part before. `pitch` is `n` rounded up to a multiple of four.
///
/// Launched with blocks of [`THREADS`] threads, one thread per four neighbours in a row along x, and the batch along z.
///
/// # Safety
/// The launch is as described. `args.sums` starts at a multiple of 16 bytes. The matrices match their shapes, pitches and
/// batches, and no other code uses `out`.
#[kernel(
    max_threads = 128,
    min_arch = 80,
    args,
    instances(
        matmul_reduce_f32 = <f32>;
        matmul_reduce_f16 = <f16>;
        matmul_reduce_bf16 = <bf16>;
    ),
)]
pub unsafe fn matmul_reduce<T: Output<4>>(args: MatmulArgs<T>) {
    begin();
    let pitch = args.n.next_multiple_of(4);
    let (i, batch) = (thread::index_1d(), thread::block_idx_z());
    let across = pitch / 4;
    // SAFETY: there are columns. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(across != 0) };
    let (row, col) = (i / across, i % across * 4);
    if row >= args.m {
        return;
    }
    let at = (u64::from(batch) * u64::from(args.m) + u64::from(row)) * u64::from(pitch) + u64::from(col);
    let mut total = [0.0f32; 4];
    for split in 0..args.splits {
        // SAFETY: four sums of the part.
        let four: f32x4 =
            unsafe { load_global(args.sums.add((u64::from(split) * args.split_pitch + at) as usize).cast()) };
        let four = four.to_array();
        for i in 0..4 {
            total[i] += four[i];
        }
    }
    // SAFETY: the thread's own results.
    unsafe { Columns::new(&args, batch, col).store(row, total) };
}
