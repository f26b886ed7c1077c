//! Decides which rows to hold in shared memory rather than in registers, and on how many blocks.

use softmax_kernels::operation::Spread;

use ferrowarp_device::DeviceProfile;

/// The most shared memory per block, so that three fit a multiprocessor.
const BYTES: usize = 76_400;

/// The fewest blocks for each multiprocessor.
const BLOCKS: usize = 3;

/// The fewest columns for which few rows are spread over blocks.
pub(super) const LEAST_SPREAD: usize = 16_384;

/// The least shared memory per block if most multiprocessors already have one: with less, exchanging results costs more than
/// the additional blocks save.
const LEAST_BYTES: usize = 12 * 1024;

/// Prefetch distance: 3 blocks per 4 multiprocessors.
const PREFETCH: (usize, usize) = (3, 4);

/// Whether three blocks fit a multiprocessor.
pub(super) fn is_small<A>(kernel: &Spread<A>, cols: usize) -> bool {
    kernel.shared_bytes(cols) <= BYTES
}

/// Whether the kernel keeps the device busy with these rows and columns: its blocks are small, and there are enough of them.
pub(super) fn is_busy<A>(kernel: &Spread<A>, profile: &DeviceProfile, [rows, cols]: [usize; 2]) -> bool {
    is_small(kernel, cols) && rows.saturating_mul(kernel.blocks as usize) >= BLOCKS * profile.multiprocessors
}

/// The best kernel and number of blocks for fewer rows than multiprocessors: small blocks, enough for the idle
/// multiprocessors.
pub(super) fn spread_of_few_rows<A>(
    mut kernels: impl Iterator<Item = Spread<A>>,
    profile: &DeviceProfile,
    [rows, cols]: [usize; 2],
) -> Option<Spread<A>> {
    let mut best = kernels.next()?;
    for next in kernels {
        let blocks = rows * next.blocks as usize;
        let is_worth_it = 2 * blocks <= profile.multiprocessors || next.shared_bytes(cols) >= LEAST_BYTES;
        if is_small(&best, cols) && (blocks > profile.multiprocessors || !is_worth_it) {
            break;
        }
        best = next;
    }
    Some(best)
}

/// The prefetch distance in clusters of `blocks` blocks; 0 if there are not more rows than that.
pub(super) fn prefetch_blocks(profile: &DeviceProfile, rows: usize, blocks: u32) -> u32 {
    let distance = profile.multiprocessors * PREFETCH.0 / PREFETCH.1 / blocks as usize;
    if rows > distance { distance as u32 } else { 0 }
}
