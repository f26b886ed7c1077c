//! Matches: which lanes hold the same value.

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::WarpOp;

#[cfg(target_arch = "nvptx64")]
mod device {
    /// The mask of matching lanes, and whether all lanes match.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(super) struct Matched {
        pub(super) mask: u32,
        pub(super) all: bool,
    }

    unsafe extern "C" {
        #[link_name = "llvm.nvvm.match.any.sync.i32"]
        pub(super) fn any_u32(mask: u32, value: u32) -> u32;
        #[link_name = "llvm.nvvm.match.any.sync.i64"]
        pub(super) fn any_u64(mask: u32, value: u64) -> u32;
        #[link_name = "llvm.nvvm.match.all.sync.i32p"]
        pub(super) fn all_u32(mask: u32, value: u32) -> Matched;
        #[link_name = "llvm.nvvm.match.all.sync.i64p"]
        pub(super) fn all_u64(mask: u32, value: u64) -> Matched;
    }
}

/// A value that lanes compare bit by bit: the 32-bit and 64-bit integers and floats. Floats compare by their
/// bits, so 0 and -0 differ and a NaN equals itself.
pub trait WarpMatchValue: Copy {
    /// See [`warp_match_any`].
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    unsafe fn match_any(mask: u32, value: Self) -> u32;

    /// See [`warp_match_all`].
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    unsafe fn match_all(mask: u32, value: Self) -> Option<u32>;
}

macro_rules! match_values {
    ($($ty:ty: $any:ident, $all:ident, |$value:ident| $bits:expr;)*) => {$(
        impl WarpMatchValue for $ty {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn match_any(mask: u32, $value: Self) -> u32 {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: the caller promises that the lanes in `mask` execute this.
                unsafe {
                    device::$any(mask, $bits)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    super::ask("warp::warp_match_any", mask, WarpOp::MatchAny(u64::from($bits))).value as u32
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn match_all(mask: u32, $value: Self) -> Option<u32> {
                #[cfg(target_arch = "nvptx64")]
                {
                    // SAFETY: the caller promises that the lanes in `mask` execute this.
                    let matched = unsafe { device::$all(mask, $bits) };
                    matched.all.then_some(matched.mask)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let matched =
                        super::ask("warp::warp_match_all", mask, WarpOp::MatchAll(u64::from($bits)));
                    matched.flag.then_some(matched.value as u32)
                }
            }
        }
    )*};
}

match_values! {
    u32: any_u32, all_u32, |value| value;
    i32: any_u32, all_u32, |value| value.cast_unsigned();
    f32: any_u32, all_u32, |value| value.to_bits();
    u64: any_u64, all_u64, |value| value;
    i64: any_u64, all_u64, |value| value.cast_unsigned();
    f64: any_u64, all_u64, |value| value.to_bits();
}

/// Returns the lanes in `mask` that hold the same bits as this lane.
///
/// # Safety
/// See [the module](super#safety-of-the-collectives).
#[doc(alias = "match.any.sync.b32", alias = "match.any.sync.b64", alias = "__match_any_sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_any<T: WarpMatchValue>(mask: u32, value: T) -> u32 {
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe { T::match_any(mask, value) }
}

/// Returns `mask` if all lanes in it hold the same bits, else `None`.
///
/// # Safety
/// See [the module](super#safety-of-the-collectives).
#[doc(alias = "match.all.sync.b32", alias = "match.all.sync.b64", alias = "__match_all_sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_all<T: WarpMatchValue>(mask: u32, value: T) -> Option<u32> {
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe { T::match_all(mask, value) }
}
