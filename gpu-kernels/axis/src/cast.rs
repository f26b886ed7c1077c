//! Copies a tensor of any strides into another one and converts its elements, or fills a tensor with one number.
//!
//! A thread moves groups of neighbouring elements of the last axis, of 16 bytes on the wider side. If they do not start at
//! multiples of 16 bytes, it goes element by element.
//@ ptx(axis_cast_f32_f32): ld.global.nc.v4 == 1, st.global.v4 == 1, .local == 0
//@ ptx(axis_cast_bf16_f32, axis_cast_f16_f32): ld.global.nc.v2 == 1, st.global.v4 == 1, .local == 0
//@ ptx(axis_cast_f32_bf16, axis_cast_f32_f16): ld.global.nc.v4 == 1, st.global.v2 == 1, .local == 0
//@ ptx(axis_cast_bf16_bf16, axis_cast_f16_f16): ld.global.nc.v4 == 1, st.global.v4 == 1, .local == 0

use cuda_std::half::{bf16, bf16x2_to_f32, f16, f16x2_to_f32};
use cuda_std::mem::{Vector, load_global_nc, u32x2, u32x4};
use cuda_std::{kernel, thread};

use super::args::CastArgs;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::CastShape;
use common_kernels::element::{Element, Number, Output};

/// An element of which `N` can be read at once.
pub trait Source<const N: usize>: Number {
    /// The bits of `N` elements.
    type Packed: Vector;

    /// Returns the elements in these bits.
    fn unpack(packed: Self::Packed) -> [f32; N];
}

impl Source<4> for f32 {
    type Packed = u32x4;

    #[inline(always)]
    fn unpack(packed: u32x4) -> [f32; 4] {
        <f32 as Element<4>>::unpack(packed)
    }
}

macro_rules! sources_of_16_bits {
    ($($ty:ident: $unpack:ident;)*) => {$(
        impl Source<8> for $ty {
            type Packed = u32x4;

            #[inline(always)]
            fn unpack(packed: u32x4) -> [f32; 8] {
                <$ty as Element<8>>::unpack(packed)
            }
        }

        impl Source<4> for $ty {
            type Packed = u32x2;

            #[inline(always)]
            fn unpack(packed: u32x2) -> [f32; 4] {
                let [[a, b], [c, d]] = packed.to_array().map($unpack);
                [a, b, c, d]
            }
        }
    )*};
}

sources_of_16_bits! { f16: f16x2_to_f32; bf16: bf16x2_to_f32; }

/// `out[i][j][k][l] = inp[i][j][k][l]`, or `value` if `inp` is null.
///
/// Launched with any number of blocks and at most 256 threads along x.
///
/// # Safety
/// The launch is as described. The pointers are valid for their strides; the flag holds; no other code uses `out`, and no code
/// writes `inp`.
#[kernel(
    max_threads = 256,
    args,
    facts: CastShape = CastShape { group: N as u32, block: 256 },
    instances(
        axis_cast_f32_f32 = <f32, f32, 4>;
        axis_cast_f32_f16 = <f32, f16, 4>;
        axis_cast_f32_bf16 = <f32, bf16, 4>;
        for I in [f16, bf16] {
            axis_cast_{I}_f32 = <f32, 4>;
            axis_cast_{I}_f16 = <f16, 8>;
            axis_cast_{I}_bf16 = <bf16, 8>;
        }
    ),
)]
pub unsafe fn axis_cast<I: Source<N>, O: Output<N>, const N: usize>(args: CastArgs<I, O>) {
    let [d0, d1, d2, len] = args.extents;
    let groups = len.div_ceil(N as u64);
    let all = d0 * d1 * d2 * groups;
    let block = u64::from(thread::block_dim_x());
    let mut at = u64::from(thread::block_idx_x()) * block + u64::from(thread::thread_idx_x());
    while at < all {
        let (row, group) = divide(at, groups);
        let ((rest, k), first) = (divide(row, d2), group * N as u64);
        let (i, j) = divide(rest, d1);
        let offset = |[a, b, c, d]: [u64; 4]| (i * a + j * b + k * c + first * d) as usize;
        let (out, inp) = (offset(args.out_strides), offset(args.inp_strides));
        let (out, inp) = (args.out.wrapping_add(out), args.inp.wrapping_add(inp));
        let (count, is_fill) = ((len - first).min(N as u64) as usize, args.inp.is_null());
        // SAFETY: the kernel's contract; the group lies in the tensors, and a whole one is aligned with the flag.
        unsafe {
            if args.is_aligned() && count == N {
                let values = if is_fill { [args.value; N] } else { I::unpack(load_global_nc(inp.cast())) };
                O::store(out, values);
            } else {
                for l in 0..count {
                    let from = inp.wrapping_add(l * args.inp_strides[3] as usize);
                    let value = if is_fill { args.value } else { (*from).to_f32() };
                    *out.add(l * args.out_strides[3] as usize) = O::from_f32(value);
                }
            }
        }
        at += u64::from(thread::grid_dim_x()) * block;
    }
}

/// Returns the quotient and the remainder. Numbers of 32 bits are divided much faster, and those of one row not at all.
#[inline(always)]
fn divide(a: u64, b: u64) -> (u64, u64) {
    if b == 1 {
        (a, 0)
    } else if a < b {
        (0, a)
    } else if (a | b) >> 32 == 0 {
        let (a, b) = (a as u32, b as u32);
        (u64::from(a / b), u64::from(a % b))
    } else {
        (a / b, a % b)
    }
}
