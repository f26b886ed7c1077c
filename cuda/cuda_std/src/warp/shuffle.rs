//! Shuffles: a lane reads a value of another lane.

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{ShuffleMode, WarpOp};
use half::{bf16, f16};

#[cfg(target_arch = "nvptx64")]
mod device {
    /// The value, and whether the lane read from was in range.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(super) struct Shuffled {
        pub(super) value: u32,
        pub(super) in_range: bool,
    }

    unsafe extern "C" {
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32p"]
        pub(super) fn idx(mask: u32, value: u32, b: u32, c: u32) -> Shuffled;
        #[link_name = "llvm.nvvm.shfl.sync.up.i32p"]
        pub(super) fn up(mask: u32, value: u32, b: u32, c: u32) -> Shuffled;
        #[link_name = "llvm.nvvm.shfl.sync.down.i32p"]
        pub(super) fn down(mask: u32, value: u32, b: u32, c: u32) -> Shuffled;
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32p"]
        pub(super) fn bfly(mask: u32, value: u32, b: u32, c: u32) -> Shuffled;
    }
}

/// The lane that a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WarpShuffleMode {
    /// The lane `b` of the segment.
    Idx,
    /// The lane `b` below.
    Up,
    /// The lane `b` above.
    Down,
    /// The lane at this lane's number xor `b`.
    Xor,
}

/// The value of the lane read, and whether that lane was in range.
pub type WarpShuffleResult<T> = (T, bool);

/// A value that a shuffle can carry: the integers of 8 to 128 bits, the floats of 16 to 64 bits.
pub trait WarpShuffleValue: Copy {
    /// Reads the value of another lane. A value of 64 bits takes two `shfl.sync`, one of 128 bits four.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    ///
    /// # Panics
    /// If `width` is not 1, 2, 4, 8, 16 or 32.
    unsafe fn shuffle(
        mode: WarpShuffleMode,
        mask: u32,
        value: Self,
        b: u32,
        width: u32,
    ) -> WarpShuffleResult<Self>;
}

/// The operand `c` of `shfl.sync`: the mask of the segment in bits 8 to 12, and in bits 0 to 4 the last lane
/// of the segment that may be read, which for `up` is the first (PTX ISA, `shfl.sync`).
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn segment_and_clamp(mode: WarpShuffleMode, width: u32) -> u32 {
    let clamp = if mode as u32 == WarpShuffleMode::Up as u32 { 0 } else { 0x1f };
    ((32 - width) << 8) | clamp
}

/// One shuffle of the low 32 bits.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
unsafe fn shuffle_32(mode: WarpShuffleMode, mask: u32, value: u32, b: u32, c: u32) -> (u32, bool) {
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    let shuffled = unsafe {
        match mode {
            WarpShuffleMode::Idx => device::idx(mask, value, b, c),
            WarpShuffleMode::Up => device::up(mask, value, b, c),
            WarpShuffleMode::Down => device::down(mask, value, b, c),
            WarpShuffleMode::Xor => device::bfly(mask, value, b, c),
        }
    };
    (shuffled.value, shuffled.in_range)
}

/// Shuffles 32-bit words in place, and returns whether the lane read was in range; the executor moves them in one exchange.
///
/// # Safety
/// See [the module](super#safety-of-the-collectives).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn shuffle_words<const WORDS: usize>(
    mode: WarpShuffleMode,
    mask: u32,
    words: &mut [u32; WORDS],
    b: u32,
    width: u32,
) -> bool {
    assert!(width.is_power_of_two() && width <= 32, "the width of a shuffle is 1, 2, 4, 8, 16 or 32");
    #[cfg(target_arch = "nvptx64")]
    {
        let c = segment_and_clamp(mode, width);
        let mut in_range = false;
        let mut word = 0;
        while word < WORDS {
            // SAFETY: the caller promises that the lanes in `mask` execute this.
            (words[word], in_range) = unsafe { shuffle_32(mode, mask, words[word], b, c) };
            word += 1;
        }
        in_range
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let value = words.iter().rev().fold(0, |value, &word| (value << 32) | u128::from(word));
        let (name, mode) = match mode {
            WarpShuffleMode::Idx => ("warp::warp_shuffle_idx", ShuffleMode::Idx),
            WarpShuffleMode::Up => ("warp::warp_shuffle_up", ShuffleMode::Up),
            WarpShuffleMode::Down => ("warp::warp_shuffle_down", ShuffleMode::Down),
            WarpShuffleMode::Xor => ("warp::warp_shuffle_xor", ShuffleMode::Xor),
        };
        let outcome = super::ask(name, mask, WarpOp::Shuffle { mode, value, b, width });
        *words = core::array::from_fn(|word| (outcome.value >> (32 * word)) as u32);
        outcome.flag
    }
}

macro_rules! shuffle_values {
    ($($ty:ty, $words:literal, |$value:ident| $to:expr, |$shuffled:ident| $from:expr;)*) => {$(
        impl WarpShuffleValue for $ty {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn shuffle(
                mode: WarpShuffleMode,
                mask: u32,
                $value: Self,
                b: u32,
                width: u32,
            ) -> WarpShuffleResult<Self> {
                let mut $shuffled: [u32; $words] = $to;
                // SAFETY: the caller promises that the lanes in `mask` execute this.
                let in_range = unsafe { shuffle_words(mode, mask, &mut $shuffled, b, width) };
                ($from, in_range)
            }
        }
    )*};
}

shuffle_values! {
    u8, 1, |value| [u32::from(value)], |words| words[0] as u8;
    u16, 1, |value| [u32::from(value)], |words| words[0] as u16;
    u32, 1, |value| [value], |words| words[0];
    u64, 2, |value| split_64(value), |words| join_64(words);
    u128, 4, |value| split_128(value), |words| join_128(words);
    i8, 1, |value| [value as u32], |words| words[0] as i8;
    i16, 1, |value| [value as u32], |words| words[0] as i16;
    i32, 1, |value| [value as u32], |words| words[0] as i32;
    i64, 2, |value| split_64(value as u64), |words| join_64(words) as i64;
    i128, 4, |value| split_128(value as u128), |words| join_128(words) as i128;
    f32, 1, |value| [value.to_bits()], |words| f32::from_bits(words[0]);
    f64, 2, |value| split_64(value.to_bits()), |words| f64::from_bits(join_64(words));
    f16, 1, |value| [u32::from(value.to_bits())], |words| f16::from_bits(words[0] as u16);
    bf16, 1, |value| [u32::from(value.to_bits())], |words| bf16::from_bits(words[0] as u16);
}

#[inline(always)]
fn split_64(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[inline(always)]
fn join_64([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
fn split_128(value: u128) -> [u32; 4] {
    [value as u32, (value >> 32) as u32, (value >> 64) as u32, (value >> 96) as u32]
}

#[inline(always)]
fn join_128([a, b, c, d]: [u32; 4]) -> u128 {
    u128::from(join_64([c, d])) << 64 | u128::from(join_64([a, b]))
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($b:ident) = $mode:ident, $alias:literal, $cuda:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Lanes read within their segment of `width` lanes (1, 2, 4, 8, 16 or 32). A lane that would read outside gets
        /// its own value and `false`. A value read from a lane that is not in `mask` is undefined.
        ///
        /// # Safety
        /// See [the module](super#safety-of-the-collectives).
        ///
        /// # Panics
        /// If `width` is not one of the six.
        #[doc(alias = $alias, alias = $cuda)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<T: WarpShuffleValue>(mask: u32, value: T, $b: u32, width: u32) -> (T, bool) {
            // SAFETY: the caller promises that the lanes in `mask` execute this.
            unsafe { T::shuffle(WarpShuffleMode::$mode, mask, value, $b, width) }
        }
    )*};
}

shuffles! {
    /// Returns the value of the lane `delta` above this one.
    warp_shuffle_down(delta) = Down, "shfl.sync.down.b32", "__shfl_down_sync";
    /// Returns the value of the lane `delta` below this one.
    warp_shuffle_up(delta) = Up, "shfl.sync.up.b32", "__shfl_up_sync";
    /// Returns the value of lane `idx` modulo `width` of the segment.
    warp_shuffle_idx(idx) = Idx, "shfl.sync.idx.b32", "__shfl_sync";
    /// Returns the value of lane `lane_id ^ lane_mask`. Every lane of a segment has one partner: the butterfly of
    /// a reduction.
    warp_shuffle_xor(lane_mask) = Xor, "shfl.sync.bfly.b32", "__shfl_xor_sync";
}
