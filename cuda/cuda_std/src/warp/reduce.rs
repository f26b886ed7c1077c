//! Reductions: one value from the values of several lanes.

#[cfg(not(target_arch = "nvptx64"))]
use super::operation::NumberType;
use super::operation::{Fold, WarpReductionOp};
use super::shuffle::WarpShuffleValue;
#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::WarpOp;

#[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.redux.sync.add"]
        pub(super) fn add(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umin"]
        pub(super) fn umin(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umax"]
        pub(super) fn umax(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.min"]
        pub(super) fn min(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.max"]
        pub(super) fn max(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.and"]
        pub(super) fn and(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.or"]
        pub(super) fn or(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.xor"]
        pub(super) fn xor(value: u32, mask: u32) -> u32;
    }
}

/// A value for [`warp_reduce`]: `i32` or `u32`.
pub trait WarpReduceValue: WarpShuffleValue {
    /// See [`warp_reduce`].
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self;

    /// Combines two values with `op`.
    fn combine(self, other: Self, op: WarpReductionOp) -> Self;
}

macro_rules! reduce_values {
    ($($ty:ty: $min:ident, $max:ident;)*) => {$(
        impl WarpReduceValue for $ty {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self {
                #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
                // SAFETY: the caller promises that the lanes in `mask` execute this.
                unsafe {
                    let value = value as u32;
                    let reduced = match op {
                        WarpReductionOp::Add => device::add(value, mask),
                        WarpReductionOp::Min => device::$min(value, mask),
                        WarpReductionOp::Max => device::$max(value, mask),
                        WarpReductionOp::And => device::and(value, mask),
                        WarpReductionOp::Or => device::or(value, mask),
                        WarpReductionOp::Xor => device::xor(value, mask),
                    };
                    reduced as $ty
                }
                #[cfg(all(target_arch = "nvptx64", not(target_feature = "sm_80")))]
                // SAFETY: the caller promises that the lanes in `mask` execute this.
                unsafe {
                    warp_reduce_shuffle(mask, value, op)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let op = WarpOp::Reduce { op, value: i64::from(value) };
                    super::ask("warp::warp_reduce", mask, op).value as $ty
                }
            }

            #[inline(always)]
            fn combine(self, other: Self, op: WarpReductionOp) -> Self {
                match op {
                    WarpReductionOp::Add => self.wrapping_add(other),
                    WarpReductionOp::Min => self.min(other),
                    WarpReductionOp::Max => self.max(other),
                    WarpReductionOp::And => self & other,
                    WarpReductionOp::Or => self | other,
                    WarpReductionOp::Xor => self ^ other,
                }
            }
        }
    )*};
}

reduce_values! {
    u32: umin, umax;
    i32: min, max;
}

/// Combines the values of all lanes in `mask` with `op`, and returns the result in each of them.
///
/// It is one `redux.sync` on compute capability 8.0 and later, and [`warp_reduce_shuffle`] if compiled for an earlier one.
///
/// # Safety
/// See [the module](super#safety-of-the-collectives).
#[doc(alias = "redux.sync", alias = "__reduce_add_sync", alias = "__reduce_max_sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_reduce<T: WarpReduceValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe { T::reduce(mask, value, op) }
}

/// [`warp_reduce`] by shuffles, for every compute capability: five if `mask` has all lanes, else one per lane in `mask`.
///
/// # Safety
/// See [the module](super#safety-of-the-collectives).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_reduce_shuffle<T: WarpReduceValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    // SAFETY: the caller promises that the lanes in `mask` execute this, all with the same mask, so that all take the
    // same branch and read only from lanes in `mask`.
    unsafe {
        if mask == u32::MAX {
            return butterfly::<T, 32>(mask, value, |a, b| a.combine(b, op));
        }
        let (mut reduced, _) = super::warp_shuffle_idx(mask, value, mask.trailing_zeros(), 32);
        let mut rest = mask & mask.wrapping_sub(1);
        while rest != 0 {
            let (other, _) = super::warp_shuffle_idx(mask, value, rest.trailing_zeros(), 32);
            reduced = reduced.combine(other, op);
            rest &= rest - 1;
        }
        reduced
    }
}

/// The butterfly of `WIDTH` lanes: in each step every lane combines its value with that of a lane whose number differs
/// in one bit. Both partners compute the same sum, since `combine` is commutative, so all lanes of a segment end with
/// the same bits.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn butterfly<T: WarpShuffleValue, const WIDTH: u32>(
    mask: u32,
    value: T,
    combine: impl Fn(T, T) -> T,
) -> T {
    let mut reduced = value;
    let mut distance = WIDTH / 2;
    while distance > 0 {
        // SAFETY: the caller promises that the lanes in `mask` execute this.
        let (partner, _) = unsafe { super::warp_shuffle_xor(mask, reduced, distance, 32) };
        reduced = combine(reduced, partner);
        distance /= 2;
    }
    reduced
}

/// Conversions between a number type of this crate and its bits.
#[cfg(not(target_arch = "nvptx64"))]
pub struct HostBits<T> {
    of: NumberType,
    to: fn(T) -> u64,
    from: fn(u64) -> T,
}

/// A number that lanes can add and compare: `f32`, `f64` and the integers of 32 and 64 bits.
pub trait WarpNumber: WarpShuffleValue {
    /// Lets the executor reduce in one exchange, where the GPU needs a butterfly; without it, the executor uses the
    /// butterfly too.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    const HOST_BITS: Option<HostBits<Self>> = None;
    /// Returns the sum; integers wrap.
    fn add(self, other: Self) -> Self;
    /// Returns the smaller number; of a float and a NaN, the float.
    fn smaller(self, other: Self) -> Self;
    /// Returns the larger number; of a float and a NaN, the float.
    fn larger(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($ty:ty: $of:ident, |$x:ident| $to:expr, |$bits:ident| $from:expr, |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl WarpNumber for $ty {
            #[cfg(not(target_arch = "nvptx64"))]
            const HOST_BITS: Option<HostBits<Self>> =
                Some(HostBits { of: NumberType::$of, to: |$x| $to, from: |$bits| $from });
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

numbers! {
    f32: F32, |x| x.to_bits().into(), |bits| f32::from_bits(bits as u32), |a, b| a + b;
    f64: F64, |x| x.to_bits(), |bits| f64::from_bits(bits), |a, b| a + b;
    u32: U32, |x| x.into(), |bits| bits as u32, |a, b| a.wrapping_add(b);
    i32: I32, |x| x.cast_unsigned().into(), |bits| bits as i32, |a, b| a.wrapping_add(b);
    u64: U64, |x| x, |bits| bits, |a, b| a.wrapping_add(b);
    i64: I64, |x| x.cast_unsigned(), |bits| bits.cast_signed(), |a, b| a.wrapping_add(b);
}

/// Reduces the values of each segment of `WIDTH` lanes: on the GPU with [`butterfly`], on the executor in one exchange.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn reduced<T: WarpNumber, const WIDTH: u32>(
    #[cfg_attr(target_arch = "nvptx64", expect(unused))] (name, fold): (&'static str, Fold),
    mask: u32,
    value: T,
    combine: impl Fn(T, T) -> T,
) -> T {
    const {
        assert!(
            WIDTH.is_power_of_two() && WIDTH <= 32,
            "the width of a warp reduction is 1, 2, 4, 8, 16 or 32"
        )
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if let Some(HostBits { of, to, from }) = T::HOST_BITS {
        let op = WarpOp::Fold { fold, of, value: to(value), width: WIDTH };
        return from(super::ask(name, mask, op).value as u64);
    }
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe { butterfly::<T, WIDTH>(mask, value, combine) }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $full:ident, $(#[$width_doc:meta])* $width:ident = $combine:ident, $fold:ident;)*) => {$(
        $(#[$doc])*
        /// Five shuffles; every lane gets the same bits.
        ///
        /// # Safety
        /// All 32 lanes of the warp execute this same call.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $full<T: WarpNumber>(value: T) -> T {
            // SAFETY: the caller promises that all lanes execute this.
            unsafe {
                reduced::<T, 32>(
                    (concat!("warp::", stringify!($full)), Fold::$fold),
                    u32::MAX,
                    value,
                    T::$combine,
                )
            }
        }

        $(#[$width_doc])*
        /// `WIDTH` is 1, 2, 4, 8, 16 or 32; every lane of a segment gets the same bits.
        ///
        /// # Safety
        /// See [the module](super#safety-of-the-collectives); `mask` names whole segments.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $width<T: WarpNumber, const WIDTH: u32>(mask: u32, value: T) -> T {
            // SAFETY: the caller promises that the lanes in `mask` execute this.
            unsafe {
                reduced::<T, WIDTH>(
                    (concat!("warp::", stringify!($width)), Fold::$fold),
                    mask,
                    value,
                    T::$combine,
                )
            }
        }
    )*};
}

reductions! {
    /// Returns the sum of the values of all 32 lanes, in every one of them.
    reduce_sum,
    /// Returns the sum of the values of each segment of `WIDTH` lanes, in every lane of the segment.
    reduce_sum_width = add, Sum;
    /// Returns the smallest value of all 32 lanes, in every one of them; a NaN only if all values are NaNs.
    reduce_min,
    /// Returns the smallest value of each segment of `WIDTH` lanes, in every lane of the segment.
    reduce_min_width = smaller, Smaller;
    /// Returns the largest value of all 32 lanes, in every one of them; a NaN only if all values are NaNs.
    reduce_max,
    /// Returns the largest value of each segment of `WIDTH` lanes, in every lane of the segment.
    reduce_max_width = larger, Larger;
}
