//! The larger of two numbers, NaN included: `f32::maximum`, which stable Rust does not have yet.

/// Returns the larger number; NaN if one of them is NaN, and 0 if they are 0 and -0. This is IEEE 754's `maximum`.
///
/// One instruction from compute capability 8.0 on.
///
/// ```
/// use cuda_std::float::maximum;
///
/// assert_eq!(maximum(-1.0, 2.0), 2.0);
/// assert!(maximum(f32::NAN, 2.0).is_nan() && maximum(2.0, f32::NAN).is_nan());
/// assert!(maximum(-0.0, 0.0).is_sign_positive());
/// ```
#[doc(alias = "max.NaN.f32")]
#[inline(always)]
pub fn maximum(a: f32, b: f32) -> f32 {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    {
        let result;
        // SAFETY: the instruction only computes a number.
        unsafe {
            core::arch::asm!("max.NaN.f32 {}, {}, {};", out(reg32) result, in(reg32) a, in(reg32) b,
                options(pure, nomem, nostack, preserves_flags));
        }
        result
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
    {
        if a > b || a.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
    }
}
