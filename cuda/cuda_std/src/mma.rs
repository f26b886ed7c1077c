//! Tensor cores: multiplication of small matrices by the 32 threads of a warp (compute capability 8.0 and later).
//!
//! A warp computes `D = A * B + C`, where A has 16 rows and B and C have 8 columns. Each matrix is distributed over the
//! lanes, a few elements per lane: its [`FragmentA`], [`FragmentB`] and [`FragmentC`] (PTX ISA, "Matrix fragments for
//! mma.m16n8k16" and "for mma.m16n8k8"). A has [`K`](Element::K) columns, and B the same number of rows: 16 of `f16`
//! and `bf16`, 8 of [`tf32`]. So a row of A is always 32 bytes.
//!
//! [`ldmatrix`] fills fragments from shared memory, `from_fn` from anywhere.
//!
//! A kernel that uses this module is a `#[kernel(min_arch = 80)]`.
//!
//! # Rounding
//! The product of two elements is exact in `f32`. PTX does not define the order and the precision of their sum. The
//! executor adds them to C one after the other, in the order of A's columns, and rounds each sum to the nearest `f32`. So
//! the last bits of its results can differ from those of a GPU.
//!
//! # Safety of the collectives
//! All 32 lanes of the warp execute the same call, with arrays of the same lengths. Anything else is undefined on the
//! device; the executor reports it.
//!
//! # Examples
//! ```
//! use cuda_std::half::f16;
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::mma::{FragmentA, FragmentB, FragmentC, mma_sync};
//! use cuda_std::simt::Executor;
//! use cuda_std::kernel;
//!
//! /// `d[16, 8]` = `a[16, 16]` * `b[16, 8]`, by one warp.
//! ///
//! /// # Safety
//! /// The matrices have these shapes, and the block is one warp.
//! #[kernel(min_arch = 80)]
//! pub unsafe fn product(a: &[f16], b: &[f16], d: *mut f32) {
//!     let a = FragmentA::from_fn(|row, column| a[16 * row + column]);
//!     let b = FragmentB::from_fn(|row, column| b[8 * row + column]);
//!     // SAFETY: all lanes of the warp reach this.
//!     let product = unsafe { mma_sync(a, b, FragmentC::ZERO) };
//!     // SAFETY: the matrix has 16 rows of 8 columns, and each element belongs to one lane.
//!     product.for_each(|row, column, value| unsafe { *d.add(8 * row + column) = value });
//! }
//!
//! let a: [f16; 256] = core::array::from_fn(|i| f16::from_f32((i / 16) as f32));
//! let b: [f16; 128] = core::array::from_fn(|i| f16::from_f32((i % 8) as f32));
//! let mut d = [0.0; 128];
//! // SAFETY: the matrices have these shapes, and the block is one warp.
//! unsafe { product::launch(&Executor::new(), LaunchConfig::new(1, 32), &a, &b, &mut d) }?;
//! assert!(d.iter().enumerate().all(|(i, &x)| x == (16 * (i / 8) * (i % 8)) as f32));
//! # Ok::<(), cuda_std::launch::LaunchError>(())
//! ```

mod fragment;
mod matrix;
mod number;
#[cfg(not(target_arch = "nvptx64"))]
mod operands;

#[cfg(not(target_arch = "nvptx64"))]
mod exchange;

pub use fragment::{Element, FragmentA, FragmentB, FragmentC, tf32};
pub use matrix::{ldmatrix, ldmatrix_trans, movmatrix_trans, stmatrix, stmatrix_trans};
#[doc(hidden)]
pub use number::Number;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use operands::Exchange;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::{FragmentA, FragmentB, FragmentC, Number};
    use crate::mma::Element;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Four(f32, f32, f32, f32);

    macro_rules! intrinsics {
        ($($name:ident = $link_name:literal;)*) => {
            unsafe extern "unadjusted" {$(
                #[link_name = $link_name]
                fn $name(a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32, c0: f32, c1: f32, c2: f32, c3: f32) -> Four;
            )*}
        };
    }

    intrinsics! {
        of_bf16 = "llvm.nvvm.mma.m16n8k16.row.col.bf16";
        of_tf32 = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
    }

    /// One `mma.sync`.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    #[inline(always)]
    pub(super) unsafe fn multiply<T: Element>(
        a: FragmentA<T>,
        b: FragmentB<T>,
        FragmentC([c0, c1, c2, c3]): FragmentC,
    ) -> FragmentC {
        let ([a0, a1, a2, a3], [b0, b1]) = (a.registers(), b.registers());
        // SAFETY: the caller promises that all lanes execute this.
        let Four(d0, d1, d2, d3) = unsafe {
            match T::NUMBER {
                // The intrinsic takes vectors of two `half`, which rustc cannot pass on this target. Assembly with side
                // effects is convergent.
                Number::F16 => {
                    let (d0, d1, d2, d3);
                    core::arch::asm!(
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{c0}, {c1}, {c2}, {c3}}}, \
                         {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};",
                        c0 = inout(reg32) c0 => d0, c1 = inout(reg32) c1 => d1,
                        c2 = inout(reg32) c2 => d2, c3 = inout(reg32) c3 => d3,
                        a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                        b0 = in(reg32) b0, b1 = in(reg32) b1,
                        options(nomem, nostack, preserves_flags),
                    );
                    Four(d0, d1, d2, d3)
                }
                Number::Bf16 => of_bf16(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3),
                Number::Tf32 => of_tf32(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3),
            }
        };
        FragmentC([d0, d1, d2, d3])
    }
}

/// Computes `a * b + c` in the warp: `mma.sync.aligned.m16n8k16` of `f16` or `bf16`, `.m16n8k8` of [`tf32`].
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "mma.sync.aligned.m16n8k16", alias = "mma.sync.aligned.m16n8k8", alias = "wmma")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mma_sync<T: Element>(a: FragmentA<T>, b: FragmentB<T>, c: FragmentC) -> FragmentC {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all lanes execute this.
    unsafe {
        device::multiply(a, b, c)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let mut c = [[c]];
        exchange::multiply("mma::mma_sync", &[a], &[b], &mut c);
        c[0][0]
    }
}

/// Computes [`mma_sync`] of every `a` with every `b`: `c[i][j] += a[i] * b[j]`, a matrix of `M` x `N` tiles.
///
/// On the device it is `M * N` instructions. On the executor the lanes wait for each other only once, so more tiles are
/// relatively faster.
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mma_sync_tiles<T: Element, const M: usize, const N: usize>(
    a: &[FragmentA<T>; M],
    b: &[FragmentB<T>; N],
    c: &mut [[FragmentC; N]; M],
) {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut i = 0;
        while i < M {
            let mut j = 0;
            while j < N {
                // SAFETY: the caller promises that all lanes execute this.
                c[i][j] = unsafe { device::multiply(a[i], b[j], c[i][j]) };
                j += 1;
            }
            i += 1;
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    exchange::multiply("mma::mma_sync_tiles", a, b, c);
}
