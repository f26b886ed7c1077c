//! Which rows are better held in shared memory than in registers, and on how many blocks.

use gpu_kernels::softmax::operation::Spread;

use super::DeviceProfile;

/// The fewest columns of a row that is better held in shared memory than in registers, for each byte of an element.
const COLUMNS_A_BYTE: usize = 16_384;

/// The most shared memory of a block, so that three are on a multiprocessor.
const BYTES: usize = 74 * 1024;

/// The fewest blocks for each multiprocessor.
const BLOCKS: usize = 4;

/// The blocks from one to that whose part is prefetched, for each multiprocessor: so many for so many.
const PREFETCH: (usize, usize) = (3, 4);

/// Whether rows of elements of `T` are so wide that they are better held in shared memory than in registers.
pub(super) fn is_wide<T>(profile: &DeviceProfile, cols: usize) -> bool {
    !profile.is_cpu && cols >= COLUMNS_A_BYTE * size_of::<T>()
}

/// Whether three blocks fit a multiprocessor.
pub(super) fn is_small<A>(kernel: &Spread<A>, cols: usize) -> bool {
    kernel.shared_bytes(cols) <= BYTES
}

/// Whether the kernel keeps the device busy with so many rows and columns: its blocks are small, and there are enough of them.
pub(super) fn is_busy<A>(kernel: &Spread<A>, profile: &DeviceProfile, [rows, cols]: [usize; 2]) -> bool {
    is_small(kernel, cols) && rows.saturating_mul(kernel.blocks as usize) >= BLOCKS * profile.multiprocessors
}

/// The same of the kernel on the most blocks, whose rows a block alone would read twice: three fit a multiprocessor, or rows are so
/// few that some of the device would have none.
pub(super) fn is_better_than_none<A>(
    kernel: &Spread<A>,
    profile: &DeviceProfile,
    [rows, cols]: [usize; 2],
) -> bool {
    kernel.shared_bytes(cols) <= BYTES || rows < profile.multiprocessors
}

/// The clusters of so many blocks from one to that whose rows it prefetches.
pub(super) fn prefetch_blocks(profile: &DeviceProfile, blocks: u32) -> u32 {
    (profile.multiprocessors * PREFETCH.0 / PREFETCH.1) as u32 / blocks
}
