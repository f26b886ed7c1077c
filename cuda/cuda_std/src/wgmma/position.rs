//! Where the elements of D are.

/// Returns row and column of register `i` of the thread with this number in its warpgroup, 0 to 127.
#[inline(always)]
pub(super) const fn position(thread: u32, i: usize) -> (usize, usize) {
    let (warp, group, lane) = (thread / 32, thread % 32 / 4, thread % 4);
    ((warp * 16 + group) as usize + i / 2 % 2 * 8, i / 4 * 8 + (lane * 2) as usize + i % 2)
}
