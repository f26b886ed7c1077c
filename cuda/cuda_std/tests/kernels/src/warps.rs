//! Shuffles, votes, matches, reductions. The operand `c` of a shuffle is the segment mask in bits 8 to 12 and the
//! clamp below: 31, and 0 for `up`.

use cuda_std::f16;
use cuda_std::warp::{self, WarpReductionOp};

kernels! {
    //@ ptx: shfl.sync.down.b32 _, _, 3, 31, -1 == 1
    warp_down(out: *mut u32, v: u32) { *out = warp::warp_shuffle_down(u32::MAX, v, 3, 32).0; }

    //@ ptx: shfl.sync.down.b32 _, _, 3, 6175, -1 == 1
    warp_down_8(out: *mut u32, v: u32) { *out = warp::warp_shuffle_down(u32::MAX, v, 3, 8).0; }

    //@ ptx: shfl.sync.up.b32 _, _, 3, 0, -1 == 1
    warp_up(out: *mut u32, v: u32) { *out = warp::warp_shuffle_up(u32::MAX, v, 3, 32).0; }

    //@ ptx: shfl.sync.up.b32 _, _, 3, 4096, -1 == 1
    warp_up_16(out: *mut u32, v: u32) { *out = warp::warp_shuffle_up(u32::MAX, v, 3, 16).0; }

    //@ ptx: shfl.sync.idx.b32 _, _, 2, 7199, 15 == 1
    warp_idx_4(out: *mut u32, v: u32) { *out = warp::warp_shuffle_idx(0xf, v, 2, 4).0; }

    //@ ptx: shfl.sync.bfly.b32 _, _, 1, 31, -1 == 1
    //@ ptx: selp == 1
    warp_xor(out: *mut u32, v: u32) {
        let (value, in_range) = warp::warp_shuffle_xor(u32::MAX, v, 1, 32);
        *out = if in_range { value } else { 7 };
    }

    //@ ptx: shfl.sync == 2
    warp_xor_f64(out: *mut f64, v: f64) { *out = warp::warp_shuffle_xor(u32::MAX, v, 1, 32).0; }

    //@ ptx: shfl.sync == 4
    //@ ptx: .local == 0
    warp_xor_u128(out: *mut u128, v: *const u128) { *out = warp::warp_shuffle_xor(u32::MAX, *v, 1, 32).0; }

    //@ ptx: shfl.sync == 1
    warp_xor_f16(out: *mut f16, v: *const f16) { *out = warp::warp_shuffle_xor(u32::MAX, *v, 1, 32).0; }

    // A width that is known only at run time is checked, and is still one shuffle.
    //@ ptx: shfl.sync.bfly.b32 == 1
    //@ ptx: popc == 1
    warp_xor_width(out: *mut u32, v: u32, width: u32) { *out = warp::warp_shuffle_xor(u32::MAX, v, 1, width).0; }

    //@ ptx: shfl.sync.bfly.b32 == 5
    //@ ptx: add.f32 == 5
    warp_sum(out: *mut f32, v: f32) { *out = warp::reduce_sum(v); }

    //@ ptx: shfl.sync.bfly.b32 == 5
    //@ ptx: max.f32 == 5
    warp_max(out: *mut f32, v: f32) { *out = warp::reduce_max(v); }

    //@ ptx: shfl.sync.bfly.b32 _, _, _, 31, 255 == 3
    warp_sum_8(out: *mut f32, v: f32) { *out = warp::reduce_sum_width::<f32, 8>(0xff, v); }

    //@ sm_75: shfl.sync.bfly.b32 == 5
    //@ sm_80: redux.sync.add.s32 == 1
    //@ sm_80: shfl == 0
    warp_redux_add(out: *mut u32, v: u32) { *out = warp::warp_reduce(u32::MAX, v, WarpReductionOp::Add); }

    //@ sm_75: shfl.sync.idx.b32 == 8
    //@ sm_80: redux.sync.min.s32 == 1
    warp_redux_min_i32(out: *mut i32, v: i32) { *out = warp::warp_reduce(0xff, v, WarpReductionOp::Min); }

    //@ sm_80: redux.sync.max.u32 == 1
    warp_redux_max_u32(out: *mut u32, v: u32) { *out = warp::warp_reduce(0xff, v, WarpReductionOp::Max); }

    //@ ptx: match.any.sync.b32 == 1
    warp_match_any_f32(out: *mut u32, v: f32) { *out = warp::warp_match_any(u32::MAX, v); }

    //@ ptx: match.any.sync.b64 == 1
    warp_match_any_i64(out: *mut u32, v: i64) { *out = warp::warp_match_any(u32::MAX, v); }

    //@ ptx: match.all.sync.b32 == 1
    warp_match_all_i32(out: *mut u32, v: i32) { *out = warp::warp_match_all(u32::MAX, v).unwrap_or(0); }

    // Compares the bits: no conversion of the float.
    //@ ptx: match.all.sync.b64 == 1
    //@ ptx: cvt.rzi == 0
    warp_match_all_f64(out: *mut u32, v: f64) { *out = warp::warp_match_all(u32::MAX, v).unwrap_or(0); }

    //@ ptx: vote.sync.all.pred == 1
    warp_vote_all(out: *mut u32, v: u32) { *out = u32::from(warp::warp_vote_all(u32::MAX, v > 3)); }

    //@ ptx: vote.sync.any.pred == 1
    warp_vote_any(out: *mut u32, v: u32) { *out = u32::from(warp::warp_vote_any(u32::MAX, v > 3)); }

    //@ ptx: vote.sync.ballot.b32 == 1
    warp_vote_ballot(out: *mut u32, v: u32) { *out = warp::warp_vote_ballot(u32::MAX, v > 3); }

    // The barrier of a warp orders memory: both stores stay.
    //@ ptx: bar.warp.sync -1 == 1
    //@ ptx: st.global == 2
    warp_sync(out: *mut u32) { *out = 1; warp::sync_warp(u32::MAX); *out = 2; }
}
