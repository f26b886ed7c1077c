//! Cross entropy of rows whose columns are sharded over devices, in three kernels.
//!
//! A device's shard is neighbouring columns of all rows, from class `first_class` on. Its rows are cut into parts, one per
//! block.
//! 1. [`cross_entropy_part`](fn@cross_entropy_part) computes three numbers for each part: maximum, sum of exponentials, and
//!    the target's logit.
//! 2. The devices gather each other's numbers. [`cross_entropy_combine`](fn@cross_entropy_combine) computes the loss.
//! 3. [`cross_entropy_gradient`](fn@cross_entropy_gradient) writes the gradient of the shard.
//!
//! All devices combine the same numbers in the same order, so their losses are equal bit for bit. Results mean the same as
//! in [the kernels of one device](super). If a gradient is wanted, the shard is read twice.
//!
//! Requires: at least one row, strides of at least `cols`, and the same `parts` on all devices.
//@ ptx(cross_entropy_part_f32): ld.global.v4 >= 4, bar.sync == 1, st.global.v4 == 0
//@ ptx(cross_entropy_part_f16, cross_entropy_part_bf16): ld.global.v4 >= 4, bar.sync == 1, st.global.v4 == 0
//@ ptx(cross_entropy_gradient_f32): ld.global.v4 >= 4, st.global.v4 >= 4, bar.sync == 0
//@ ptx(cross_entropy_gradient_f16, cross_entropy_gradient_bf16): ld.global.v4 >= 4, st.global.v4 >= 4, bar.sync == 0
//@ ptx(cross_entropy_combine): bar.sync == 0, .shared == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, KernelArgs, kernel, thread};

use super::args::{Gradient, Target, class_of};
use super::wide;
#[cfg(not(target_arch = "nvptx64"))]
use crate::fit::Fit;
use crate::forward_split::part_of;
use crate::row::{NO_PAIR, Row, exchange, merge};
use common_kernels::element::Element;

/// Numbers of a part: its maximum, its sum of exponentials, and the target's logit, NaN if the shard does not have it.
pub const NUMBERS: usize = 3;

/// Numbers of a row that [`cross_entropy_gradient`](fn@cross_entropy_gradient) needs: its maximum, the factor of the
/// exponentials, and what is subtracted in the target's column.
pub const FACTORS: usize = 3;

/// The arguments of [`cross_entropy_part`](fn@cross_entropy_part). Strides are in elements.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ShardPartArgs<T> {
    /// `[NUMBERS, rows, parts]`, written.
    pub numbers: *mut f32,
    /// `[rows, cols]`.
    pub logits: *const T,
    /// `[rows]`, of the type that `target_bytes` selects.
    pub targets: *const u8,
    /// Rows.
    pub rows: u32,
    /// Distance from one row of `logits` to the next.
    pub stride: u64,
    /// Columns of the shard.
    pub cols: u32,
    /// The class of the shard's first column.
    pub first_class: i64,
    /// The target of ignored rows.
    pub ignore_index: i64,
    /// Same as for the kernels of one device.
    pub target_bytes: u32,
    /// Parts of a row.
    pub parts: u32,
    /// Whether ignored rows are read, for their log-sum-exp: 0 or 1.
    pub reads_ignored: u32,
}

/// The arguments of [`cross_entropy_gradient`](fn@cross_entropy_gradient). Strides are in elements.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ShardGradientArgs<T> {
    /// `[rows, cols]`, written.
    pub d_logits: *mut T,
    /// `[rows, cols]`.
    pub logits: *const T,
    /// `[rows]`, of the type that `target_bytes` selects.
    pub targets: *const u8,
    /// `[FACTORS, rows]`.
    pub factors: *const f32,
    /// Rows.
    pub rows: u32,
    /// Distance from one row of `d_logits` to the next.
    pub d_stride: u64,
    /// Distance from one row of `logits` to the next.
    pub stride: u64,
    /// Columns of the shard.
    pub cols: u32,
    /// The class of the shard's first column.
    pub first_class: i64,
    /// The target of ignored rows.
    pub ignore_index: i64,
    /// Same as for the kernels of one device.
    pub target_bytes: u32,
    /// Parts of a row.
    pub parts: u32,
}

/// Writes the numbers of each part of each row of a shard.
///
/// Launched with `rows * parts` blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as described; all pointers are valid for their shapes; no other code uses `numbers`.
#[kernel(
    with(BLOCK = 512),
    max_threads = BLOCK,
    min_blocks = 2,
    args,
    facts: Fit = Fit::any_width(BLOCK),
    instances(
        cross_entropy_part_f32 = <f32, 4, 4>;
        cross_entropy_part_f16 = <f16, 8, 4>;
        cross_entropy_part_bf16 = <bf16, 8, 4>;
    ),
)]
pub unsafe fn cross_entropy_part<T: Element<N>, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    args: ShardPartArgs<T>,
) {
    let block = thread::block_idx_x();
    let (index, part) = part_of(block, args.parts);
    // SAFETY: the kernel's contract. All threads of the block call the exchange, and only the first one writes.
    unsafe {
        let class = class_of(args.targets, args.target_bytes, index);
        let target = Target::of_shard(class, args.ignore_index, args.first_class, args.cols);
        let logits = args.logits.add(index * args.stride as usize);
        let row = Row::<T, T, BLOCK>::new::<N>(logits.cast_mut(), logits, args.cols as usize, part);
        let is_needed = !target.is_ignored || args.reads_ignored != 0;
        let source = if is_needed { row } else { row.empty() };
        let edge_reg = source.load_edges::<N>(f32::NEG_INFINITY);
        let (mine, _) = wide::reduce::<T, N, BLOCK, VECTORS>(source, edge_reg, false);
        let pair = exchange::<BLOCK>(shared, merge::<32>(mine, 1.0), 1.0);
        if thread::thread_idx_x() == 0 {
            let logit =
                if target.is_column() { (*logits.add(target.col as usize)).to_f32() } else { f32::NAN };
            let len = args.rows as usize * args.parts as usize;
            let numbers = args.numbers.add(block as usize);
            *numbers = pair.x;
            *numbers.add(len) = pair.y;
            *numbers.add(2 * len) = logit;
        }
    }
}

/// Computes the loss and the log-sum-exp of each row, and the factors of its gradient, from the numbers of all devices.
///
/// `numbers` is `[devices, NUMBERS, rows, parts]`; `loss`, `lse` and `d_loss` are `[rows]`; `targets` is `[rows]`, of the
/// type that `target_bytes` selects; `factors` is `[FACTORS, rows]`. `lse`, `factors` and `d_loss` may be null. Launched
/// with at least `rows` threads.
///
/// # Safety
/// The launch is as described; all pointers are valid for their shapes; no other code uses what is written.
#[kernel(max_threads = 256)]
pub unsafe fn cross_entropy_combine(
    loss: *mut f32,
    lse: *mut f32,
    factors: *mut f32,
    numbers: *const f32,
    targets: *const u8,
    d_loss: *const f32,
    rows: u32,
    parts: u32,
    devices: u32,
    target_bytes: u32,
    ignore_index: i64,
    d_scale: f32,
) {
    let row = thread::index_1d() as usize;
    let [rows, parts, devices] = [rows as usize, parts as usize, devices as usize];
    if row >= rows {
        return;
    }
    // SAFETY: the kernel's contract, and the row lies in the matrix.
    unsafe {
        let is_ignored = class_of(targets, target_bytes, row) == ignore_index;
        let len = rows * parts;
        let number = |device: usize, which: usize, part: usize| {
            *numbers.add((device * NUMBERS + which) * len + row * parts + part)
        };
        let (mut max, mut logit) = (NO_PAIR.x, f32::NAN);
        for device in 0..devices {
            for part in 0..parts {
                max = max.max(number(device, 0, part));
                // `max` ignores NaN. All parts of one device have the same logit.
                logit = logit.max(number(device, 2, part));
            }
        }
        let mut sum = 0.0;
        for device in 0..devices {
            for part in 0..parts {
                sum += number(device, 1, part) * (number(device, 0, part) - max).exp();
            }
        }
        let ln_sum = sum.ln();
        *loss.add(row) = if is_ignored { 0.0 } else { ln_sum - (logit - max) };
        if !lse.is_null() {
            *lse.add(row) = max + ln_sum;
        }
        if !factors.is_null() {
            // A target that no device has is a mistake. If a target's logit is NaN, the sum is NaN too.
            let mut scale = if logit.is_nan() && !is_ignored { f32::NAN } else { d_scale };
            if !d_loss.is_null() {
                scale *= *d_loss.add(row);
            }
            *factors.add(row) = max;
            *factors.add(rows + row) = scale / sum;
            *factors.add(2 * rows + row) = scale;
        }
    }
}

/// Writes the gradient of each part of each row of a shard, from the factors of
/// [`cross_entropy_combine`](fn@cross_entropy_combine).
///
/// Launched with `rows * parts` blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as described; all pointers are valid for their shapes; no other code uses `d_logits`, which may be `logits`
/// with the same stride.
#[kernel(
    with(BLOCK = 512),
    max_threads = BLOCK,
    min_blocks = 2,
    args,
    facts: Fit = Fit::any_width(BLOCK),
    instances(
        cross_entropy_gradient_f32 = <f32, 4, 4>;
        cross_entropy_gradient_f16 = <f16, 8, 4>;
        cross_entropy_gradient_bf16 = <bf16, 8, 4>;
    ),
)]
pub unsafe fn cross_entropy_gradient<
    T: Element<N>,
    const N: usize,
    const VECTORS: usize,
    const BLOCK: usize,
>(
    args: ShardGradientArgs<T>,
) {
    // From the last part to the first: L2 still holds the parts that were read last.
    let (index, part) = part_of(thread::grid_dim_x() - 1 - thread::block_idx_x(), args.parts);
    // SAFETY: the kernel's contract. Only one thread reads and writes an element, and reads it before it writes it.
    unsafe {
        let class = class_of(args.targets, args.target_bytes, index);
        let target = Target::of_shard(class, args.ignore_index, args.first_class, args.cols);
        let logits = args.logits.add(index * args.stride as usize);
        let d_logits = args.d_logits.add(index * args.d_stride as usize);
        let row = Row::<T, T, BLOCK>::new::<N>(d_logits, logits, args.cols as usize, part);
        let [max, factor, scale] =
            core::array::from_fn(|i| *args.factors.add(i * args.rows as usize + index));
        let gradient = Gradient::new(target, factor, scale);
        let source = if gradient.is_zero() { row.empty() } else { row };
        let edge_reg = source.load_edges::<N>(f32::NEG_INFINITY);
        let logit = match row.output_at::<N>(target.col as usize) {
            Some(_) => (*logits.add(target.col as usize)).to_f32(),
            None => f32::NAN,
        };
        wide::write::<T, N, BLOCK, VECTORS>([row, source], gradient, (edge_reg, logit), max);
    }
}
