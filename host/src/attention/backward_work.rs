//! How much blocks add up for gradients, to divide it evenly and to choose kernels.

use attention_kernels::backward::FusedShape;
use attention_kernels::backward::args::{BackwardLaunch, LEAST_TURN, PADDED};
use ferrowarp_device::device::Device;

/// Rows of a tile.
const TILE: u32 = 128;
/// The matrix multiplications of a tile of dQ, or of dK.
const OF_ROWS: f64 = 3.0;
/// Multiplications that are not worth another block.
const LEAST: f64 = 6.0 * OF_ROWS;
/// Blocks that share a sum, at most.
const MOST: f64 = 16.0;

/// Steps over tiles of 64 rows: those of all tiles of [`TILE`] rows, and the most of one.
#[derive(Clone, Copy, Debug)]
struct Steps {
    all: f64,
    most: f64,
}

/// The steps of a problem.
pub(super) struct Work {
    keys: Steps,
    queries: Steps,
    /// Tiles of keys.
    tiles: f64,
    hides_any: bool,
    multiprocessors: f64,
    /// The counters that there are for sums of parts.
    counters: u64,
}

impl Work {
    pub(super) fn new<T>(args: &BackwardLaunch<T>, device: &Device) -> Self {
        // On a CPU, tests divide the work as on an H200.
        let multiprocessors = if device.is_cuda() { device.multiprocessors() } else { 132 };
        let [diagonal, window, queries, keys] =
            [args.diagonal as i64, args.window as i64, args.queries as i64, args.keys as i64];
        let steps = |length: u32, seen: &dyn Fn(i64, i64) -> [i64; 2], group: u32, heads: u32| {
            let rows = i64::from(FusedShape::BOX_ROWS);
            let of = (0..i64::from(length)).step_by(TILE as usize).map(|first| {
                let [begin, end] = seen(first, i64::from(length).min(first + i64::from(TILE)) - 1);
                ((end.max(0) + rows - 1) / rows - begin.max(0) / rows).max(0) as f64
            });
            let (all, most) = of.fold((0.0, 0.0f64), |(all, most), steps| (all + steps, most.max(steps)));
            let heads = f64::from(heads) * f64::from(args.batch);
            Steps { all: all * f64::from(group) * heads, most: most * f64::from(group) }
        };
        let of_keys = |first: i64, last: i64| [first - diagonal, (last - diagonal + window).min(queries)];
        let of_queries =
            |first: i64, last: i64| [first + diagonal + 1 - window, (last + diagonal + 1).min(keys)];
        let rows = u64::from(args.queries.next_multiple_of(PADDED));
        Self {
            keys: steps(args.keys, &of_keys, args.group, args.key_heads),
            queries: steps(args.queries, &of_queries, 1, args.heads),
            tiles: f64::from(args.keys.div_ceil(TILE)) * f64::from(args.key_heads) * f64::from(args.batch),
            hides_any: diagonal + 1 < keys || window < queries + diagonal,
            multiprocessors: multiprocessors.max(1) as f64,
            counters: rows / u64::from(LEAST_TURN) * u64::from(args.batch) * u64::from(args.heads),
        }
    }

    /// Returns in how many parts blocks of [`BackwardKernels::SEPARATE`] add up a sum over queries, and one over keys. If there
    /// are few sums, the parts make blocks equally long. `of` is the number of sums over queries, and over keys.
    ///
    /// [`BackwardKernels::SEPARATE`]: attention_kernels::backward::BackwardKernels::SEPARATE
    pub(super) fn parts(&self, head_size: u32, of: [u64; 2]) -> [u32; 2] {
        let (mean, most) = self.multiplications(head_size);
        let parts = |most: f64, counted: u64| {
            let parts = (most / mean.max(LEAST)).round().clamp(1.0, MOST);
            if 2 * counted > self.counters { 1 } else { parts as u32 }
        };
        [parts(most[0], of[0] + of[1]), parts(most[1], of[1])]
    }

    /// Returns the multiplications of a multiprocessor, and the most of a sum over queries, and over keys.
    fn multiplications(&self, head_size: u32) -> (f64, [f64; 2]) {
        // Of larger heads, other blocks add up dV.
        let [of_keys, most_of_keys] = if head_size > 128 { [5.0, OF_ROWS] } else { [4.0, 4.0] };
        let mean = (of_keys * self.keys.all + OF_ROWS * self.queries.all) / self.multiprocessors;
        (mean, [most_of_keys * self.keys.most, OF_ROWS * self.queries.most])
    }

    /// Returns whether [`BackwardKernels::SEPARATE`] are faster than [`BackwardKernels::BY_WARPGROUPS`]. The latter multiply
    /// less, but have fewer blocks, and one more launch.
    ///
    /// [`BackwardKernels::SEPARATE`]: attention_kernels::backward::BackwardKernels::SEPARATE
    /// [`BackwardKernels::BY_WARPGROUPS`]: attention_kernels::backward::BackwardKernels::BY_WARPGROUPS
    pub(super) fn prefers_separate(&self, head_size: u32) -> bool {
        // Microseconds of a multiplication, of a step with all of them, and of the launch, measured on an H200.
        let of_one = [0.31, 0.33, 0.41][usize::from(head_size > 64) + usize::from(head_size > 96)];
        let [of_all, of_launch] = [if head_size > 64 { 2.35 } else { 1.6 }, 10.0];
        let (mean, _) = self.multiplications(head_size);
        let rounds = (self.tiles / self.multiprocessors).ceil();
        let steps = if self.hides_any {
            self.keys.most.max(self.keys.all / self.multiprocessors)
        } else {
            self.keys.most * rounds
        };
        of_one * mean.max(LEAST) < of_all * steps + of_launch
    }
}
