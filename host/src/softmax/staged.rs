//! Which rows are better held in shared memory than in registers, and on how many blocks.

use gpu_kernels::softmax::operation::Spread;

use super::DeviceProfile;

/// The most shared memory of a block, so that three are on a multiprocessor.
const BYTES: usize = 74 * 1024;

/// The fewest blocks for each multiprocessor.
const BLOCKS: usize = 3;

/// The fewest columns of rows that are spread over blocks because they are few.
pub(super) const LEAST_SPREAD: usize = 16_384;

/// The least shared memory of a block if there is one on most multiprocessors already: with less, to tell each other their results
/// takes the blocks longer than they save.
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

/// The kernel on the blocks that are best if there are fewer rows than multiprocessors: small blocks, enough for the idle
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

/// The prefetch distance in clusters of `blocks` blocks; 0 if there are fewer rows.
pub(super) fn prefetch_blocks(profile: &DeviceProfile, rows: usize, blocks: u32) -> u32 {
    let distance = profile.multiprocessors * PREFETCH.0 / PREFETCH.1 / blocks as usize;
    if rows > distance { distance as u32 } else { 0 }
}
