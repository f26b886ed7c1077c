//! The innermost loop: the accumulators of one panel of A and one of B, in registers.
//!
//! The same Rust is compiled for the crate's target processor, and on x86-64 also for AVX-512, whose registers are twice as
//! wide. Host code queries the processor, and selects one by a flag.

use super::{COLS, ROWS};

/// Rows that fit 16 vector registers of 32 bytes, with two for B and one for A.
const HALF: usize = ROWS / 2;

/// Adds up the terms of a panel of A and a panel of B, and adds these sums to `sums`.
#[inline(always)]
pub(super) fn multiply(
    sums: &mut [[f32; COLS]; ROWS],
    a: &[[f32; ROWS]],
    b: &[[f32; COLS]],
    has_avx512: bool,
) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512 {
        // SAFETY: the flag says that the processor has AVX-512.
        return unsafe { multiply_avx512(sums, a, b) };
    }
    let _ = has_avx512;
    for first in [0, HALF] {
        multiply_rows::<HALF>(sums, first, a, b);
    }
}

/// Multiplies all rows at once, in 12 registers of 64 bytes.
///
/// # Safety
/// The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_avx512(sums: &mut [[f32; COLS]; ROWS], a: &[[f32; ROWS]], b: &[[f32; COLS]]) {
    use core::arch::x86_64::{
        _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };
    // SAFETY: each row has 16 accumulators, and each term 16 columns.
    unsafe {
        let mut sums_reg = [_mm512_setzero_ps(); ROWS];
        for (a, b) in a.iter().zip(b) {
            let b = _mm512_loadu_ps(b.as_ptr());
            for i in 0..ROWS {
                sums_reg[i] = _mm512_fmadd_ps(_mm512_set1_ps(a[i]), b, sums_reg[i]);
            }
        }
        for i in 0..ROWS {
            let sum = _mm512_add_ps(_mm512_loadu_ps(sums[i].as_ptr()), sums_reg[i]);
            _mm512_storeu_ps(sums[i].as_mut_ptr(), sum);
        }
    }
}

/// Multiplies the rows from `first` on.
#[inline(always)]
fn multiply_rows<const COUNT: usize>(
    sums: &mut [[f32; COLS]; ROWS],
    first: usize,
    a: &[[f32; ROWS]],
    b: &[[f32; COLS]],
) {
    let mut sums_reg = [[0.0; COLS]; COUNT];
    for (a, b) in a.iter().zip(b) {
        for i in 0..COUNT {
            for j in 0..COLS {
                sums_reg[i][j] = multiply_add(a[first + i], b[j], sums_reg[i][j]);
            }
        }
    }
    for i in 0..COUNT {
        for j in 0..COLS {
            sums[first + i][j] += sums_reg[i][j];
        }
    }
}

/// Returns `a * b + c`, with one rounding if the processor has an instruction for it.
#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    #[cfg(any(target_feature = "fma", target_arch = "aarch64", target_arch = "nvptx64"))]
    return cuda_std::GpuFloat::mul_add(a, b, c);
    #[cfg(not(any(target_feature = "fma", target_arch = "aarch64", target_arch = "nvptx64")))]
    return a * b + c;
}
