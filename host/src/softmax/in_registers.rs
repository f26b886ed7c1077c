//! Chooses among the forward kernels that hold a row in registers.

use ferrowarp_device::DeviceProfile;
use softmax_kernels::operation::Variant;

use super::kernel_choice::{Kernels, LEAST_SPLIT};
use super::options::SoftmaxAs;
use crate::element::Element;

/// Threads that a multiprocessor runs at once of the kernels that hold rows in registers.
const THREADS: u32 = 1024;

/// Rows are spread over clusters if their blocks need at most this many quarters of a round: with elements of 16 bits, or in blocks
/// of [`THREADS`], and of 32 bits. With more, fewer blocks that hold rows in shared memory are faster.
const QUARTERS: [usize; 2] = [9, 24];

/// Whether `variant` holds a row in `blocks` blocks, except up to a vector of elements at its ends.
fn holds<A>(variant: &Variant<A>, vector: usize, cols: usize, blocks: u32) -> bool {
    cols / vector * vector <= variant.elements as usize * blocks as usize
}

/// The kernels with one block per row that hold it in registers, the fewest threads first.
pub(super) fn of_a_block<I: SoftmaxAs<O>, O: Element>(
    profile: &DeviceProfile,
    cols: usize,
) -> impl Iterator<Item = Kernels<I, O>> {
    let variants = I::FORWARD.variants.iter().filter(|variant| profile.limits.runs(variant.meta));
    variants.filter(move |variant| holds(variant, 16 / size_of::<I>(), cols, 1)).map(Kernels::Rows)
}

/// The cluster kernels that hold a row in registers, for each number of blocks, the fewest threads first or last.
pub(super) fn of_clusters<I: SoftmaxAs<O>, O: Element>(
    profile: &DeviceProfile,
    cols: usize,
    is_reversed: bool,
) -> impl Iterator<Item = Kernels<I, O>> {
    let limits = &profile.limits;
    let max_cluster = limits.max_cluster.min(limits.max_grid.x);
    let clusters = I::FORWARD.clusters;
    let variants =
        (0..clusters.len()).map(move |i| &clusters[if is_reversed { clusters.len() - 1 - i } else { i }]);
    variants.filter(|variant| limits.runs(variant.meta)).flat_map(move |variant| {
        let fits =
            move |&blocks: &u32| blocks <= max_cluster && holds(variant, 16 / size_of::<I>(), cols, blocks);
        [2, 4, 8, 16].into_iter().filter(fits).map(move |blocks| Kernels::Cluster(variant, blocks))
    })
}

/// The kernel with a few lanes per row, if each multiprocessor gets a block.
pub(super) fn narrow<I: SoftmaxAs<O>, O: Element>(
    profile: &DeviceProfile,
    rows: usize,
    cols: usize,
) -> Option<Kernels<I, O>> {
    let suits = |it: &&Variant<_>| {
        let blocks = rows / it.rows_at_once() as usize;
        cols <= it.elements as usize && blocks >= profile.multiprocessors && profile.limits.runs(it.meta)
    };
    I::FORWARD.narrow.iter().find(|it| !profile.is_cpu && suits(it)).map(Kernels::Rows)
}

/// The cluster for few wide rows: the smallest blocks, enough for the multiprocessors (for twice as many with 32 bits an element,
/// which take longer), if each thread gets a vector.
pub(super) fn cluster_of_few_rows<I: SoftmaxAs<O>, O: Element>(
    profile: &DeviceProfile,
    rows: usize,
    cols: usize,
) -> Option<Kernels<I, O>> {
    if profile.is_cpu || cols < LEAST_SPLIT {
        return None;
    }
    let mut fitting = of_clusters::<I, O>(profile, cols, false).filter_map(|kernels| match kernels {
        Kernels::Cluster(variant, blocks) => Some((variant, blocks)),
        _ => None,
    });
    let (variant, mut blocks) = fitting.next()?;
    for (other, more) in fitting {
        let has_vectors = cols >= (more * variant.block) as usize * (16 / size_of::<I>());
        let is_idle = rows.saturating_mul(more as usize) <= profile.multiprocessors * size_of::<I>() / 2;
        if std::ptr::eq(other, variant) && has_vectors && is_idle {
            blocks = more;
        }
    }
    let quarters = QUARTERS[usize::from(size_of::<I>() > 2 && variant.block < THREADS)];
    let threads = rows.saturating_mul((blocks * variant.block) as usize);
    let is_short = threads.saturating_mul(4) <= quarters * THREADS as usize * profile.multiprocessors;
    is_short.then_some(Kernels::Cluster(variant, blocks))
}
