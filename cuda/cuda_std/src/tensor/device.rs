//! The instructions, one for each number of dimensions.

use super::TensorMap;
use crate::barrier::Barrier;

/// `cp.async.bulk.tensor` of the map `{map}` and the shared memory at `{shared}`, with the coordinates `$at`; `$before` and
/// `$after` are what the instruction has around the map.
macro_rules! copy {
    ($at:ident, $shared:ident, $map:ident, $prepare:literal, $before:literal, $after:literal, $($operands:tt)*) => {
        match RANK {
            1 => copy!(@rank "1d", "{x}", [x 0] $at, $shared, $map, $prepare, $before, $after, $($operands)*),
            2 => copy!(@rank "2d", "{x}, {y}", [x 0, y 1] $at, $shared, $map, $prepare, $before, $after, $($operands)*),
            3 => copy!(@rank "3d", "{x}, {y}, {z}", [x 0, y 1, z 2] $at, $shared, $map, $prepare, $before, $after,
                $($operands)*),
            4 => copy!(@rank "4d", "{x}, {y}, {z}, {u}", [x 0, y 1, z 2, u 3] $at, $shared, $map, $prepare, $before, $after,
                $($operands)*),
            _ => copy!(@rank "5d", "{x}, {y}, {z}, {u}, {v}", [x 0, y 1, z 2, u 3, v 4] $at, $shared, $map, $prepare, $before,
                $after, $($operands)*),
        }
    };
    (@rank $rank:literal, $coordinates:literal, [$($name:ident $i:literal),*] $at:ident, $shared:ident, $map:ident,
        $prepare:literal, $before:literal, $after:literal, $($operands:tt)*) => {
        core::arch::asm!(
            concat!(
                "{{ .reg .b64 tile, address; cvta.to.shared.u64 tile, {shared}; ", $prepare, "cp.async.bulk.tensor.", $rank, $before,
                "[{map}, {{", $coordinates, "}}]", $after, "; }}"
            ),
            shared = in(reg64) $shared,
            map = in(reg64) $map,
            $($name = in(reg32) coordinate(&$at, $i),)*
            $($operands)*
            options(nostack, preserves_flags),
        )
    };
}

/// Coordinate `i`; the arms for more dimensions than there are do not run.
#[inline(always)]
fn coordinate<const RANK: usize>(at: &[i32; RANK], i: usize) -> i32 {
    if i < RANK { at[i] } else { 0 }
}

/// # Safety
/// See [`global_to_shared`](super::global_to_shared).
#[inline(always)]
pub(super) unsafe fn global_to_shared<const RANK: usize>(
    shared: *mut u8,
    map: &TensorMap,
    at: [i32; RANK],
    barrier: *mut Barrier,
) {
    // SAFETY: the caller guarantees valid memory, map and barrier.
    unsafe {
        copy!(at, shared, map, "cvta.to.shared.u64 address, {barrier}; ",
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], ", ", [address]",
            barrier = in(reg64) barrier,);
    }
}

/// # Safety
/// See [`global_to_shared_multicast`](super::global_to_shared_multicast).
#[inline(always)]
pub(super) unsafe fn global_to_shared_multicast<const RANK: usize>(
    shared: *mut u8,
    map: &TensorMap,
    at: [i32; RANK],
    barrier: *mut Barrier,
    blocks: u16,
) {
    // SAFETY: the caller guarantees valid memory, map and barrier.
    unsafe {
        copy!(at, shared, map, "cvta.to.shared.u64 address, {barrier}; ",
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [tile], ", ", [address], {blocks}",
            barrier = in(reg64) barrier, blocks = in(reg16) blocks,);
    }
}

/// # Safety
/// See [`shared_to_global`](super::shared_to_global).
#[inline(always)]
pub(super) unsafe fn shared_to_global<const RANK: usize>(
    map: &TensorMap,
    at: [i32; RANK],
    shared: *const u8,
) {
    // SAFETY: the caller guarantees valid memory and a valid map.
    unsafe { copy!(at, shared, map, "", ".global.shared::cta.tile.bulk_group ", ", [tile]",) };
}
