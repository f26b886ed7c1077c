//! Copies a tensor of any strides into another one and converts its elements, or fills a tensor with one number.
//!
//! A thread has 8 neighbouring elements of the last axis at a time: one or two accesses of 16 bytes on each side if all groups
//! start at multiples of 16 bytes, and otherwise element by element.
//@ ptx(axis_cast_f32_f32): ld.global.nc.v4 == 2, st.global.v4 == 4, .local == 0
//@ ptx(axis_cast_bf16_f32, axis_cast_f16_f32): ld.global.nc.v4 == 1, st.global.v4 == 4, .local == 0
//@ ptx(axis_cast_f32_bf16, axis_cast_f32_f16): ld.global.nc.v4 == 2, st.global.v4 == 2, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::{kernel, thread};

use super::args::CastArgs;
use super::fold::load;
#[cfg(not(target_arch = "nvptx64"))]
use super::kernels::CastShape;
use common_kernels::element::{Element, Number, Output};

/// Elements that a thread has at a time.
const GROUP: usize = 8;

/// An element that can be read by 8.
pub trait Source: Number {
    /// Reads 8 elements.
    ///
    /// # Safety
    /// `ptr` is a multiple of 16 and points to 8 elements that no code writes during the launch.
    unsafe fn load(ptr: *const Self) -> [f32; GROUP];
}

impl Source for f32 {
    #[inline(always)]
    unsafe fn load(ptr: *const Self) -> [f32; GROUP] {
        // SAFETY: the caller's 8 elements are two vectors.
        let [a, b] = unsafe { [load(ptr), load(ptr.add(4))] }.map(<f32 as Element<4>>::unpack);
        core::array::from_fn(|i| if i < 4 { a[i] } else { b[i - 4] })
    }
}

macro_rules! sources_of_16_bits {
    ($($ty:ident),*) => {$(
        impl Source for $ty {
            #[inline(always)]
            unsafe fn load(ptr: *const Self) -> [f32; GROUP] {
                // SAFETY: the caller's contract for the pointer.
                <$ty as Element<GROUP>>::unpack(unsafe { load(ptr) })
            }
        }
    )*};
}

sources_of_16_bits! { f16, bf16 }

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
    facts: CastShape = CastShape { group: GROUP as u32, block: 256 },
    instances(
        for I in [f32, f16, bf16] {
            axis_cast_{I}_f32 = <f32>;
            axis_cast_{I}_f16 = <f16>;
            axis_cast_{I}_bf16 = <bf16>;
        }
    ),
)]
pub unsafe fn axis_cast<I: Source, O: Output<GROUP>>(args: CastArgs<I, O>) {
    let [d0, d1, d2, len] = args.extents;
    let groups = len.div_ceil(GROUP as u64);
    let all = d0 * d1 * d2 * groups;
    let block = u64::from(thread::block_dim_x());
    let mut at = u64::from(thread::block_idx_x()) * block + u64::from(thread::thread_idx_x());
    while at < all {
        let (row, group) = divide(at, groups);
        let ((rest, k), first) = (divide(row, d2), group * GROUP as u64);
        let (i, j) = divide(rest, d1);
        let count = (len - first).min(GROUP as u64) as usize;
        // SAFETY: the kernel's contract; the indices lie in the tensors, and the group in the last axis.
        unsafe {
            let offset = |[a, b, c, d]: [u64; 4]| (i * a + j * b + k * c + first * d) as usize;
            let out = args.out.add(offset(args.out_strides));
            let inp = args.inp.wrapping_add(offset(args.inp_strides));
            let is_whole = args.is_aligned() && count == GROUP;
            let element = |l: usize| match args.inp.is_null() {
                true => args.value,
                false => (*inp.add(l * args.inp_strides[3] as usize)).to_f32(),
            };
            if is_whole && !args.inp.is_null() {
                O::store(out, I::load(inp));
            } else if is_whole {
                O::store(out, [args.value; GROUP]);
            } else {
                for l in 0..count {
                    *out.add(l * args.out_strides[3] as usize) = O::from_f32(element(l));
                }
            }
        }
        at += u64::from(thread::grid_dim_x()) * block;
    }
}

/// Returns the quotient and the remainder. Numbers of 32 bits are divided much faster.
#[inline(always)]
fn divide(a: u64, b: u64) -> (u64, u64) {
    if b == 1 {
        (a, 0)
    } else if (a | b) >> 32 == 0 {
        let (a, b) = (a as u32, b as u32);
        (u64::from(a / b), u64::from(a % b))
    } else {
        (a / b, a % b)
    }
}
