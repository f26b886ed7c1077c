//! RMSNorm and LayerNorm of rows that fit the registers of a warp or a block.
//!
//! The variance is computed from differences to the mean, which are in registers, not as the difference of two large sums.
//@ ptx(norm_f32_512x4): ld.global.v4 >= 8, st.global.v4 >= 4, .local == 0
//@ ptx(norm_bf16_256x4, norm_f16_256x4): ld.global.v4 >= 8, st.global.v4 >= 4, .local == 0
//@ allow-local(norm_bf16_256x4, norm_f16_256x4, compute_75, compute_100): four blocks limit a thread to 64 registers, and it needs a few more
//@ allow-local(norm_bf16_any_1024x4, compute_75): it spills a little on this architecture, where it was not measured
//@ allow-local(norm_bf16_512x3, norm_f16_512x3, norm_f32_any_1024x4, compute_80): two to four registers too few

use cuda_std::half::{bf16, f16};
use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::{fastmath, kernel, shared_array, thread};

use super::args::{CENTRED, NormArgs};
use super::row::{Columns, Held, begin, correction, log_threads, packed, sums_of_row};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::RowsShape;
use common_kernels::element::Element;

/// `out = (x - mean) rstd weight + bias` along each row; x is `inp` plus `residual`. Without [`CENTRED`] the mean is 0.
///
/// `THREADS` threads hold a row, `VECTORS` vectors of `N` elements each. Launched with blocks of `BLOCK` threads, enough for
/// `rows`. With `WHOLE`, every load and store is a vector; otherwise it is one element. With `NARROW`, only as many threads hold
/// a row as it needs, a power of two.
///
/// With `EARLY` 0 the weight and the bias are loaded after the row's sums, with 1 the weight before them, with 2 both. Early
/// loads hide latency and cost registers. The instances with `few` are the fastest if each block has its own multiprocessor.
///
/// # Safety
/// The launch is as described; `cols` is at least 1 and at most what the threads of a row hold. With `WHOLE` the flag
/// `ALIGNED` is set. The pointers are valid for their shapes and strides; no other code uses what is written. An output may
/// be an input, elementwise.
#[kernel(
    with(BLOCK = max(THREADS, 128)),
    max_threads = BLOCK,
    args,
    facts: RowsShape = RowsShape::new(N * THREADS * VECTORS, BLOCK, THREADS).of_rows(WHOLE, few).narrow(NARROW),
    instances(
        T = f32, N = 4, WHOLE = true, few = false, NARROW = false, EARLY = 2 {
            norm_f32_narrow = <32, 2>, NARROW = true;
            norm_f32_32x4 = <32, 4>;
            norm_f32_32x6 = <32, 6>;
            norm_f32_32x8 = <32, 8>;
            norm_f32_64x6 = <64, 6>;
            norm_f32_256x2 = <256, 2>;
            norm_f32_128x6 = <128, 6>;
            norm_f32_256x4 = <256, 4>;
            norm_f32_256x6 = <256, 6>, EARLY = 1;
            norm_f32_few_512x4 = <512, 4>, few = true;
            norm_f32_512x4 = <512, 4>, EARLY = 1;
            norm_f32_few_512x8 = <512, 8>, few = true;
            norm_f32_1024x4 = <1024, 4>, EARLY = 0;
        }
        for T in [f16, bf16], N = 8, WHOLE = true, few = false, NARROW = false, EARLY = 2 {
            norm_{T}_narrow = <32, 2>, NARROW = true;
            norm_{T}_32x3 = <32, 3>;
            norm_{T}_32x4 = <32, 4>;
            norm_{T}_64x3 = <64, 3>;
            norm_{T}_64x4 = <64, 4>;
            norm_{T}_128x3 = <128, 3>;
            norm_{T}_128x4 = <128, 4>;
            norm_{T}_few_256x4 = <256, 4>, few = true;
            norm_{T}_160x4 = <160, 4>, EARLY = 1;
            norm_{T}_256x3 = <256, 3>;
            norm_{T}_256x4 = <256, 4>, EARLY = 1, min_blocks = 4;
            norm_{T}_few_512x4 = <512, 4>, few = true;
            norm_{T}_512x3 = <512, 3>, EARLY = 0, min_blocks = 3;
            norm_{T}_512x4 = <512, 4>, EARLY = 1;
            norm_{T}_1024x4 = <1024, 4>, EARLY = 0;
        }
        T = f32, N = 4, WHOLE = false, few = false, NARROW = false, EARLY = 2 {
            norm_f32_any_narrow = <32, 2>, NARROW = true;
            norm_f32_any_64x2 = <64, 2>;
            norm_f32_any_128x2 = <128, 2>;
            norm_f32_any_256x2 = <256, 2>;
            norm_f32_any_256x4 = <256, 4>, EARLY = 0;
            norm_f32_any_256x5 = <256, 5>, EARLY = 0;
            norm_f32_any_512x4 = <512, 4>, EARLY = 0;
            norm_f32_any_1024x4 = <1024, 4>, EARLY = 0, min_blocks = 2;
        }
        for T in [f16, bf16], N = 8, WHOLE = false, few = false, NARROW = false, EARLY = 0 {
            norm_{T}_any_narrow = <32, 1>, NARROW = true;
            norm_{T}_any_64x1 = <64, 1>;
            norm_{T}_any_128x1 = <128, 1>;
            norm_{T}_any_128x2 = <128, 2>;
            norm_{T}_any_256x2 = <256, 2>;
            norm_{T}_any_320x2 = <320, 2>;
            norm_{T}_any_512x2 = <512, 2>;
            norm_{T}_any_1024x2 = <1024, 2>;
            norm_{T}_any_1024x4 = <1024, 4>;
        }
    ),
)]
pub unsafe fn norm_rows<
    T,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
    const EARLY: usize,
    const WHOLE: bool,
    const NARROW: bool,
>(
    args: NormArgs<T>,
) where
    T: Element<N>,
{
    begin();
    // The sums of the warps: for the mean, then for the variance.
    let (of_mean, of_variance) = (shared_array![[f32; 1]; 32], shared_array![[f32; 2]; 32]);
    let tid = thread::thread_idx_x() as usize;
    let (row, thread, threads) = if NARROW {
        let log = log_threads(args.cols, (N * VECTORS) as u32);
        (thread::block_idx_x() as usize * (BLOCK >> log) + (tid >> log), tid & ((1 << log) - 1), 1 << log)
    } else {
        (thread::block_idx_x() as usize * (BLOCK / THREADS) + tid / THREADS, tid % THREADS, THREADS)
    };
    // Threads without a row take part in the shuffles and barriers of the others.
    let is_there = row < args.rows as usize;
    let (row, len) = if is_there { (row, args.cols as usize) } else { (0, 0) };
    let columns: Columns = Columns::of_elements::<N>(thread, threads, len, WHOLE);
    if tid == 0 {
        args.prefetch_vectors(EARLY == 0, EARLY < 2);
    }
    // SAFETY: the kernel's contract; all threads call the sums, and each sum has its own shared memory.
    unsafe {
        let mut x: Held<VECTORS> = columns.load_all(args.inp.add(row * args.inp_stride as usize));
        let mut weight: Held<VECTORS> = [u32x4::new(0, 0, 0, 0); VECTORS];
        if EARLY >= 1 && !args.weight.is_null() {
            weight = columns.load_all(args.weight);
        }
        let mut bias: Held<VECTORS> = [u32x4::new(0, 0, 0, 0); VECTORS];
        if EARLY >= 2 && !args.bias.is_null() {
            bias = columns.load_all(args.bias);
        }
        if !args.residual.is_null() {
            let residual: Held<VECTORS> =
                columns.load_all(args.residual.add(row * args.residual_stride as usize));
            for i in 0..VECTORS {
                let (a, b) = (T::unpack(x[i]), T::unpack(residual[i]));
                x[i] = packed::<T, N>(core::array::from_fn(|j| a[j] + b[j]));
            }
        }
        if !args.sum.is_null() {
            for i in 0..VECTORS {
                columns.store(args.sum.add(row * args.sum_stride as usize), i, T::unpack(x[i]));
            }
        }
        let mut mean = 0.0;
        if args.has(CENTRED) {
            // The elements past the row's end are zeros.
            let sum = x.iter().flat_map(|&x| T::unpack(x)).fold(0.0, |sum, x| sum + x);
            mean = sums_of_row::<THREADS, NARROW, 1>(threads, of_mean, [sum])[0] * args.per_column;
        }
        let sums = (0..VECTORS).fold([0.0; 2], |[sum, squares], i| {
            let of_vector = columns.deviations::<N>(i, T::unpack(x[i]), mean);
            [sum + of_vector[0], squares + of_vector[1]]
        });
        if size_of::<T>() < size_of::<f32>() {
            // Stops the compiler from keeping the unpacked elements in registers as well.
            for x in &mut x {
                *x = u32x4::new(opaque(x.x), opaque(x.y), opaque(x.z), opaque(x.w));
            }
        }
        let sums = sums_of_row::<THREADS, NARROW, 2>(threads, of_variance, sums);
        let [off, variance] = correction(sums, args.per_column, args.has(CENTRED));
        let rstd = fastmath::rsqrt_approx(variance + args.epsilon);
        if is_there && thread == 0 {
            if !args.mean.is_null() {
                *args.mean.add(row) = mean + off;
            }
            if !args.rstd.is_null() {
                *args.rstd.add(row) = rstd;
            }
        }
        for i in 0..VECTORS {
            let mut y = T::unpack(x[i]).map(|x| (x - mean - off) * rstd);
            if !args.weight.is_null() {
                let weight = if EARLY >= 1 { T::unpack(weight[i]) } else { columns.load(args.weight, i) };
                y = core::array::from_fn(|j| y[j] * weight[j]);
            }
            if !args.bias.is_null() {
                let bias = if EARLY >= 2 { T::unpack(bias[i]) } else { columns.load(args.bias, i) };
                y = core::array::from_fn(|j| y[j] + bias[j]);
            }
            columns.store(args.out.add(row * args.out_stride as usize), i, y);
        }
    }
}
