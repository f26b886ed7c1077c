//! ReLU in `f32` and in 16 bits: half the bytes, and so half the time.
//!
//! A thread takes 16 bytes of any type, four numbers or eight, compares them with 0 and stores them. Two 16-bit numbers take
//! one instruction (PTX ISA, `max.f16x2` and `max.bf16x2`, from compute capability 8.0 on). So not even the number of
//! instructions differs: each thread moves the same bytes in all rungs, and 16-bit types pack twice the numbers into them.
//!
//! The larger of a NaN and 0 is 0 here, as in PTX and Rust.
//@ ptx(relu_f32): ld.global.v4 == 1, st.global.v4 == 1, .local == 0
//@ ptx(relu_f16, compute_80+): ld.global.v4 == 1, st.global.v4 == 1, max.f16x2 == 4, .local == 0
//@ ptx(relu_bf16, compute_80+): ld.global.v4 == 1, st.global.v4 == 1, max.bf16x2 == 4, .local == 0

use common_kernels::element::Element;
use cuda_std::half::{bf16, f16};
use cuda_std::mem::{load_global, store_global, u32x4};
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u8, inp: u8)
    values(len: u32)
    facts(Width)
    "f32" = relu_of[0]: "four numbers of 4 bytes a thread";
    "f16" = relu_of[1]: "eight of 2 bytes, 11 bits of precision";
    "bf16" = relu_of[2]: "eight of 2 bytes, the range of `f32`";
}

/// Numbers of a thread.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Width(pub usize);

/// Computes `out[i]`, the larger of `inp[i]` and 0, both of type `T`. One thread takes the numbers after the last 16 bytes.
///
/// Launched with at least `len / N`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len` numbers of type `T` and begin at a multiple of 16 bytes; no other code uses
/// the elements of `out`.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Width = Width(N),
    instances(
        relu_f32 = <f32, 4>;
        relu_f16 = <f16, 8>;
        relu_bf16 = <bf16, 8>;
    ),
)]
pub unsafe fn relu_of<T: Element<N>, const N: usize>(out: *mut u8, inp: *const u8, len: u32) {
    let (out, inp) = (out.cast::<T>(), inp.cast::<T>());
    let (i, len) = (N * thread::index_1d() as usize, len as usize);
    if i + N <= len {
        // SAFETY: these are `N` numbers, 16 bytes at a multiple of 16, and only this thread writes them.
        unsafe {
            let vector = load_global(inp.add(i).cast::<u32x4>());
            store_global(out.add(i).cast(), T::larger(vector, u32x4::new(0, 0, 0, 0)));
        }
    } else {
        for i in i..len {
            // SAFETY: `i` lies in both, and only this thread writes the number.
            unsafe { *out.add(i) = T::from_f32((*inp.add(i)).to_f32().max(0.0)) };
        }
    }
}
