//! Shuffles, votes, matches and reductions on the executor, against oracles written from the PTX ISA.

use cuda_std::{bf16, f16, thread, warp};

use crate::common::{collect, on};

type Shuffle = unsafe fn(u32, u64, u32, u32) -> (u64, bool);

/// A shuffle mode: name, function, the clamp that CUDA passes, and the PTX ISA's rule for the lane to read.
struct Mode {
    name: &'static str,
    shuffle: Shuffle,
    clamp: u32,
    /// (lane, b, segment mask, max lane, min lane) to (lane to read, in range)
    source: fn(i32, i32, i32, i32, i32) -> (i32, bool),
}

const MODES: [Mode; 4] = [
    Mode {
        name: "up",
        shuffle: warp::warp_shuffle_up,
        clamp: 0,
        source: |lane, b, _, max_lane, _| (lane - b, lane - b >= max_lane),
    },
    Mode {
        name: "down",
        shuffle: warp::warp_shuffle_down,
        clamp: 31,
        source: |lane, b, _, max_lane, _| (lane + b, lane + b <= max_lane),
    },
    Mode {
        name: "bfly",
        shuffle: warp::warp_shuffle_xor,
        clamp: 31,
        source: |lane, b, _, max_lane, _| (lane ^ b, lane ^ b <= max_lane),
    },
    Mode {
        name: "idx",
        shuffle: warp::warp_shuffle_idx,
        clamp: 31,
        source: |_, b, segment, max_lane, min_lane| {
            let j = min_lane | (b & !segment);
            (j, j <= max_lane)
        },
    },
];

/// The pseudo-code of `shfl.sync`: returns the lane that `lane` reads, and the predicate.
fn oracle(mode: &Mode, lane: u32, b: u32, width: u32) -> (u32, bool) {
    let segment = (32 - width) as i32;
    let (lane, b, clamp) = (lane as i32, (b & 31) as i32, mode.clamp as i32);
    let max_lane = (lane & segment) | (clamp & !segment);
    let min_lane = lane & segment;
    let (source, in_range) = (mode.source)(lane, b, segment, max_lane, min_lane);
    (if in_range { source } else { lane } as u32, in_range)
}

#[test]
fn shuffles_follow_the_ptx_isa() {
    for mode in &MODES {
        for width in [1, 2, 4, 8, 16, 32] {
            for b in (0..34).chain([63, 64, u32::MAX]) {
                // Two warps and two blocks, so lane numbers and thread numbers differ.
                let seen = collect(2, 64, || {
                    let own = u64::from(thread::index()) * 0x1_0000_0001;
                    // SAFETY: all lanes of all warps shuffle together.
                    let (value, in_range) = unsafe { (mode.shuffle)(u32::MAX, own, b, width) };
                    assert_eq!(value >> 32, value & 0xffff_ffff, "both halves come from one lane");
                    (value & 0xffff_ffff) << 1 | u64::from(in_range)
                });
                for (thread, seen) in seen.into_iter().enumerate() {
                    let (base, lane) = (thread as u32 & !31, thread as u32 & 31);
                    let (source, in_range) = oracle(mode, lane, b, width);
                    let expected = u64::from(base + source) << 1 | u64::from(in_range);
                    assert_eq!(seen, expected, "{} of lane {lane}, b {b}, width {width}", mode.name);
                }
            }
        }
    }
}

#[test]
fn shuffles_carry_every_type() {
    macro_rules! check {
        ($($ty:ty: |$lane:ident| $make:expr;)*) => {$(
            let seen = collect(1, 32, || {
                let make = |$lane: u32| -> $ty { $make };
                let lane = warp::lane_id();
                // SAFETY: all lanes shuffle together.
                let (value, in_range) = unsafe { warp::warp_shuffle_xor(u32::MAX, make(lane), 5, 32) };
                u64::from(in_range && value == make(lane ^ 5))
            });
            assert_eq!(seen, [1; 32], stringify!($ty));
        )*};
    }
    check! {
        u8: |lane| lane as u8 * 7;
        i8: |lane| -(lane as i8) * 3;
        u16: |lane| lane as u16 * 2001;
        i16: |lane| -(lane as i16) * 999;
        u32: |lane| lane * 0x0400_0001;
        i32: |lane| -(lane as i32) * 0x0300_0001;
        u64: |lane| u64::from(lane) * 0x0400_0000_1234_5678;
        i64: |lane| -i64::from(lane) * 0x0300_0000_1234_5678;
        u128: |lane| u128::from(lane) * 0x0400_0000_1234_5678_9abc_def0_1357_9bdf;
        i128: |lane| -i128::from(lane) * 0x0300_0000_1234_5678_9abc_def0_1357_9bdf;
        f32: |lane| lane as f32 * -1.75;
        f64: |lane| f64::from(lane) * -1.0e300;
        f16: |lane| f16::from_f32(lane as f32 * -1.5);
        bf16: |lane| bf16::from_f32(lane as f32 * 1.0e30);
    }
}

#[test]
fn a_mask_of_half_a_warp() {
    let seen = collect(1, 32, || {
        let lane = warp::lane_id();
        let mask = if lane < 16 { 0x0000_ffff } else { 0xffff_0000 };
        // SAFETY: each half shuffles with its own mask, within segments of 16 lanes.
        let (value, _) = unsafe { warp::warp_shuffle_idx(mask, lane, 3, 16) };
        u64::from(value)
    });
    assert_eq!(seen[..16], [3; 16]);
    assert_eq!(seen[16..], [19; 16]);
}

#[test]
fn a_width_that_is_no_power_of_two_is_refused() {
    for width in [0, 3, 33, 64] {
        on(1, 32).fails("the width of a shuffle is 1, 2, 4, 8, 16 or 32", || {
            // SAFETY: all lanes shuffle together.
            unsafe { warp::warp_shuffle_idx(u32::MAX, 1_u32, 0, width) };
        });
    }
}

#[test]
fn votes() {
    // Predicates by lane, and the mask of lanes that vote; the other lanes vote among themselves.
    let patterns = [0, 1, u32::MAX, 0x8000_0000, 0x5555_5555, 0xffff_0000, 0x0001_0000];
    for predicates in patterns {
        for mask in [u32::MAX, 0x0000_ffff, 0x5555_5555, 1] {
            let seen = collect(1, 32, || {
                let lane = warp::lane_id();
                let mask = if mask >> lane & 1 == 1 { mask } else { !mask };
                let predicate = predicates >> lane & 1 == 1;
                // SAFETY: the lanes in the mask, and those outside it, vote with masks that name them.
                unsafe {
                    u64::from(warp::warp_vote_ballot(mask, predicate))
                        | u64::from(warp::warp_vote_all(mask, predicate)) << 32
                        | u64::from(warp::warp_vote_any(mask, predicate)) << 33
                }
            });
            for (lane, seen) in seen.into_iter().enumerate() {
                let mask = if mask >> lane & 1 == 1 { mask } else { !mask };
                let ballot = predicates & mask;
                let expected =
                    u64::from(ballot) | u64::from(ballot == mask) << 32 | u64::from(ballot != 0) << 33;
                assert_eq!(seen, expected, "predicates {predicates:#x}, mask {mask:#x}, lane {lane}");
            }
        }
    }
}

#[test]
fn a_vote_of_a_short_warp() {
    // 40 threads: the second warp has 8 lanes, which are all the mask may name.
    let seen = collect(1, 40, || {
        let mask = warp::activemask();
        // SAFETY: all threads of the warp vote, and the mask names exactly these.
        u64::from(unsafe { warp::warp_vote_ballot(mask, warp::lane_id().is_multiple_of(2)) })
    });
    assert_eq!(seen[..32], [0x5555_5555; 32]);
    assert_eq!(seen[32..], [0x55; 8]);
}

#[test]
fn matches_compare_bits() {
    macro_rules! check {
        ($($ty:ty: |$lane:ident| $make:expr;)*) => {$(
            let values: Vec<$ty> = (0..32_u32).map(|$lane| $make).collect();
            let seen = collect(1, 32, || {
                let value = values[warp::lane_id() as usize];
                // SAFETY: all lanes match together.
                let (any, all) = unsafe { (warp::warp_match_any(u32::MAX, value), warp::warp_match_all(u32::MAX, value)) };
                u64::from(any) | u64::from(all.is_some()) << 32
            });
            for (lane, seen) in seen.into_iter().enumerate() {
                let same = |other: &$ty| other.to_ne_bytes() == values[lane].to_ne_bytes();
                let any = values.iter().enumerate().fold(0_u64, |mask, (i, v)| mask | u64::from(same(v)) << i);
                let expected = any | u64::from(any == 0xffff_ffff) << 32;
                assert_eq!(seen, expected, "{} of lane {lane}", stringify!($ty));
            }
        )*};
    }
    check! {
        u32: |lane| lane % 5;
        i32: |lane| -(lane as i32 % 3);
        u64: |lane| u64::from(lane % 4) << 40;
        i64: |lane| -i64::from(lane % 7) << 33;
        u32: |_lane| 42;
        f32: |lane| [0.0, -0.0, f32::NAN, 1.5, 1.25][lane as usize % 5];
        f64: |lane| [0.0, -0.0, f64::NAN, 1.5, 1.5 + f64::EPSILON][lane as usize % 5];
        f64: |_lane| f64::NAN;
    }
}

#[test]
fn match_all_gives_the_mask() {
    let seen = collect(1, 32, || {
        let mask = if warp::lane_id() < 4 { 0xf } else { !0xf };
        // SAFETY: the lanes below 4 and the others match with masks that name them.
        u64::from(unsafe { warp::warp_match_all(mask, 7_u32) }.unwrap())
    });
    assert_eq!(seen[..4], [0xf; 4]);
    assert_eq!(seen[4..], [0xffff_fff0; 28]);
}

#[test]
fn integer_reductions() {
    use warp::WarpReductionOp::{Add, And, Max, Min, Or, Xor};
    macro_rules! check {
        ($ty:ty, $value:expr) => {
            for (op, fold) in [
                (Add, (|a, b| <$ty>::wrapping_add(a, b)) as fn($ty, $ty) -> $ty),
                (Min, |a, b| a.min(b)),
                (Max, |a, b| a.max(b)),
                (And, |a, b| a & b),
                (Or, |a, b| a | b),
                (Xor, |a, b| a ^ b),
            ] {
                for mask in [u32::MAX, 0x0000_00ff, 0x8000_0001, 0x5a5a_5a5a] {
                    let value: fn(u32) -> $ty = $value;
                    let seen = collect(1, 32, || {
                        let lane = warp::lane_id();
                        let mask = if mask >> lane & 1 == 1 { mask } else { !mask };
                        // SAFETY: the lanes in the mask, and those outside it, reduce with masks that name them.
                        let (one, other) = unsafe {
                            (warp::warp_reduce(mask, value(lane), op), warp::warp_reduce_shuffle(mask, value(lane), op))
                        };
                        assert_eq!(one, other, "both ways of reducing");
                        u64::from(one as u32)
                    });
                    for (lane, seen) in seen.into_iter().enumerate() {
                        let mask = if mask >> lane & 1 == 1 { mask } else { !mask };
                        let lanes = (0..32).filter(|&other| mask >> other & 1 == 1);
                        let expected = lanes.map(value).reduce(fold).unwrap();
                        assert_eq!(seen as u32, expected as u32, "{op:?}, mask {mask:#x}, lane {lane}");
                    }
                }
            }
        };
    }
    check!(u32, |lane| lane.wrapping_mul(0x9e37_79b9) ^ 0x5555);
    check!(i32, |lane| (lane.wrapping_mul(0x9e37_79b9) ^ 0x5555) as i32);
}

#[test]
fn float_reductions_by_segments() {
    fn value(lane: u32) -> f32 {
        (lane as f32 - 11.0) * 1.5
    }
    macro_rules! check {
        ($($width:literal),*) => {$(
            let seen = collect(1, 64, || {
                let own = value(warp::lane_id());
                // SAFETY: all lanes reduce together.
                let (sum, max, min) = unsafe {
                    (
                        warp::reduce_sum_width::<f32, $width>(u32::MAX, own),
                        warp::reduce_max_width::<f32, $width>(u32::MAX, own),
                        warp::reduce_min_width::<f32, $width>(u32::MAX, own),
                    )
                };
                assert_eq!(max - min, 1.5 * ($width - 1) as f32);
                u64::from(sum.to_bits()) | u64::from(max.to_bits()) << 32
            });
            for (thread, seen) in seen.into_iter().enumerate() {
                let first = thread as u32 % 32 / $width * $width;
                // Multiples of one half below 2^24: the sum is exact in any order.
                let sum: f32 = (first..first + $width).map(value).sum();
                let max = value(first + $width - 1);
                let expected = u64::from(sum.to_bits()) | u64::from(max.to_bits()) << 32;
                assert_eq!(seen, expected, "width {}, thread {thread}", $width);
            }
        )*};
    }
    check!(1, 2, 4, 8, 16, 32);
}

#[test]
fn whole_warp_reductions_give_all_lanes_the_same_bits() {
    // Values whose float sum depends on the order.
    let value = |lane: u32| 1.0 / (lane as f32 + 0.3);
    let seen = collect(1, 32, || {
        let own = value(warp::lane_id());
        // SAFETY: all lanes reduce together.
        unsafe {
            assert_eq!(warp::reduce_max(own), value(0));
            assert_eq!(warp::reduce_min(f64::from(own)), f64::from(value(31)));
            assert_eq!(warp::reduce_sum(1_u64 << 40), 32 << 40);
            u64::from(warp::reduce_sum(own).to_bits())
        }
    });
    assert_eq!(seen, vec![seen[0]; 32]);
    let exact: f64 = (0..32).map(|lane| f64::from(value(lane))).sum();
    assert!((f64::from(f32::from_bits(seen[0] as u32)) - exact).abs() < 1e-5 * exact);
}

#[test]
fn a_nan_does_not_win_a_maximum() {
    let seen = collect(1, 32, || {
        let lane = warp::lane_id();
        let own = if lane == 7 { f32::NAN } else { lane as f32 };
        // SAFETY: all lanes reduce together.
        u64::from(unsafe { warp::reduce_max(own) }.to_bits())
    });
    assert_eq!(seen, [u64::from(31.0_f32.to_bits()); 32]);
}

#[test]
fn a_fault_names_the_line_that_called_the_operation() {
    macro_rules! check {
        ($call:expr) => {
            on(1, 32).fails(&format!("tests/warp.rs:{}: ", line!()), || {
                if warp::lane_id() < 16 {
                    // SAFETY: none; the mask names lanes that do not take part, which the executor reports.
                    _ = unsafe { $call };
                }
            })
        };
    }
    check!(warp::warp_shuffle_up(u32::MAX, 1.5_f64, 1, 32));
    check!(warp::warp_match_any(u32::MAX, 1.5_f32));
    check!(warp::warp_match_all(u32::MAX, 7_u64));
    check!(warp::warp_vote_any(u32::MAX, true));
    check!(warp::warp_reduce(u32::MAX, 1_u32, warp::WarpReductionOp::Or));
    check!(warp::warp_reduce_shuffle(u32::MAX, 1_u32, warp::WarpReductionOp::Or));
    check!(warp::reduce_sum(1.0_f32));
    check!(warp::reduce_max_width::<f32, 8>(u32::MAX, 1.0));
    check!(warp::sync_warp(u32::MAX));
}

/// A number type that the executor does not know, so it is reduced with the GPU's butterfly.
#[derive(Clone, Copy)]
struct Foreign(f32);

impl warp::WarpShuffleValue for Foreign {
    unsafe fn shuffle(
        mode: warp::WarpShuffleMode,
        mask: u32,
        value: Self,
        b: u32,
        width: u32,
    ) -> warp::WarpShuffleResult<Self> {
        // SAFETY: a shuffle of the bits by the same lanes.
        let (value, in_range) = unsafe { f32::shuffle(mode, mask, value.0, b, width) };
        (Self(value), in_range)
    }
}

impl warp::WarpNumber for Foreign {
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
    fn smaller(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
    fn larger(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

#[test]
fn one_exchange_gives_the_bits_of_the_butterfly() {
    macro_rules! check {
        ($($width:literal),*) => {$(
            let same = |known: f32, foreign: Foreign| {
                assert_eq!(known.to_bits(), foreign.0.to_bits(), "width {}", $width);
            };
            on(1, 64).check(|| {
                // Values whose sum depends on the order.
                let own = 1.0 / (thread::thread_idx_x() as f32 + 0.3);
                // SAFETY: all lanes reduce together.
                unsafe {
                    let foreign = Foreign(own);
                    same(warp::reduce_sum_width::<_, $width>(u32::MAX, own), warp::reduce_sum_width::<_, $width>(u32::MAX, foreign));
                    same(warp::reduce_min_width::<_, $width>(u32::MAX, own), warp::reduce_min_width::<_, $width>(u32::MAX, foreign));
                    same(warp::reduce_max_width::<_, $width>(u32::MAX, own), warp::reduce_max_width::<_, $width>(u32::MAX, foreign));
                }
            });
        )*};
    }
    check!(1, 2, 4, 8, 16, 32);
}
