// Hint: All 32 lanes vote. A lane without an element votes `false`.
// Hint: `inp.get(i).is_some_and(|&x| x > limit)` is the vote. Lane 0 writes `out[i / 32]`, if `i` is an element.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn warp_vote_solution(out: *mut u32, inp: &[u32], limit: u32) {
    let i = thread::index_1d() as usize;
    let votes = warp::warp_vote_ballot(u32::MAX, inp.get(i).is_some_and(|&x| x > limit));
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = votes.count_ones();
    }
}

// Wrong: only lanes with an element vote.
// Says: mask; neutral value
#[kernel]
pub unsafe fn warp_vote_mask(out: *mut u32, inp: &[u32], limit: u32) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        let votes = warp::warp_vote_ballot(u32::MAX, inp[i] > limit);
        if warp::lane_id() == 0 {
            *out.add(i / 32) = votes.count_ones();
        }
    }
}

// Wrong: lanes without an element vote `true`.
// Says: expected
#[kernel]
pub unsafe fn warp_vote_absent(out: *mut u32, inp: &[u32], limit: u32) {
    let i = thread::index_1d() as usize;
    let votes = warp::warp_vote_ballot(u32::MAX, inp.get(i).is_none_or(|&x| x > limit));
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = votes.count_ones();
    }
}

// Wrong: a mask of half a warp.
// Says: mask 0x0000ffff; one bit for each lane
#[kernel]
pub unsafe fn warp_vote_half(out: *mut u32, inp: &[u32], limit: u32) {
    let i = thread::index_1d() as usize;
    let votes = warp::warp_vote_ballot(0xffff, inp.get(i).is_some_and(|&x| x > limit));
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = votes.count_ones();
    }
}

// Wrong: leading zeros instead of ones.
// Says: is wrong; expected
#[kernel]
pub unsafe fn warp_vote_leading(out: *mut u32, inp: &[u32], limit: u32) {
    let i = thread::index_1d() as usize;
    let votes = warp::warp_vote_ballot(u32::MAX, inp.get(i).is_some_and(|&x| x > limit));
    if warp::lane_id() == 0 && i < inp.len() {
        *out.add(i / 32) = votes.leading_zeros();
    }
}
