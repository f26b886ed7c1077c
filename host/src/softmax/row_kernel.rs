//! Chooses among kernels for any width or for some widths, and divides the rows among launches.

use cuda_std::launch::LaunchConfig;
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::error::Error;
use softmax_kernels::operation::{RowVariants, Spread, Variant};

use super::kernel_choice::{counted, prefetch_blocks};
use super::staged;
use crate::operation::{early, no_kernel};

/// Few rows are spread over at most this many blocks per multiprocessor, if the blocks do not hold them.
const STREAMS: usize = 4;

/// The kernel for a width, and the launches for the rows.
pub(super) struct RowKernel<A: 'static> {
    pub spread: Spread<A>,
    pub cols: u32,
    rows: usize,
    rows_per_launch: usize,
    prefetch_blocks: u32,
    row_bytes: usize,
}

impl<A> RowKernel<A> {
    /// Chooses the kernel for rows of `T`. Returns `None` if there are no elements.
    pub fn new<T>(
        operation: &'static str,
        kernels: &'static RowVariants<A>,
        profile: &DeviceProfile,
        [rows, cols]: [usize; 2],
    ) -> Result<Option<Self>, Error> {
        let width = counted(operation, cols)?;
        if rows == 0 || cols == 0 {
            return Ok(None);
        }
        let absent = || choice(kernels, &profile.with_absent_kernels()?, [rows, cols]);
        let needs = "it needs compute capability 7.5 or higher";
        let lacks = || no_kernel(operation, profile.limits.capability, needs);
        let spread = choice(kernels, profile, [rows, cols]).or_else(absent).ok_or_else(lacks)?;
        let (variant, blocks, at_once) = (spread.variant, spread.blocks, spread.rows_at_once() as usize);
        let groups = (profile.limits.max_grid.x / blocks) as usize;
        let bytes = cols.saturating_mul(at_once * size_of::<T>());
        let prefetch_blocks = if variant.staged.is_some() && !variant.streams() {
            staged::prefetch_blocks(profile, rows, blocks)
        } else {
            prefetch_blocks(variant, profile, [rows.div_ceil(at_once), bytes], false)
        };
        let rows_per_launch = groups.saturating_mul(at_once).min(u32::MAX as usize);
        let row_bytes = cols * size_of::<T>();
        Ok(Some(Self { spread, cols: width, rows, rows_per_launch, prefetch_blocks, row_bytes }))
    }

    /// The prefetch distance for matrices with these strides: 0 if the rows of a block are not contiguous.
    pub fn prefetch_blocks(&self, strides: &[u64]) -> u32 {
        let is_whole =
            self.spread.rows_at_once() == 1 || strides.iter().all(|&stride| stride == u64::from(self.cols));
        if is_whole { self.prefetch_blocks } else { 0 }
    }

    /// Grid, block, cluster and shared memory for `rows` rows.
    pub fn config(&self, rows: u32) -> LaunchConfig {
        early(self.spread.config(rows, self.cols as usize), rows, self.row_bytes)
    }

    /// The first row and the number of rows of each launch.
    pub fn launches(&self) -> impl Iterator<Item = (usize, u32)> + use<A> {
        let (rows, most) = (self.rows, self.rows_per_launch);
        (0..rows).step_by(most).map(move |first| (first, (rows - first).min(most) as u32))
    }
}

/// The fastest known kernel for the shape: the first that holds a row, or one that holds it in shared memory.
fn choice<A>(
    kernels: &'static RowVariants<A>,
    profile: &DeviceProfile,
    shape @ [rows, cols]: [usize; 2],
) -> Option<Spread<A>> {
    let suits = |variant: &&Variant<A>| {
        cols <= variant.elements as usize
            && (variant.threads == 1 || !profile.is_cpu)
            && profile.limits.runs(variant.meta)
    };
    let first = kernels.variants.iter().find(suits).map(Spread::one);
    if let Some(streaming) = kernels.staged.filter(|it| it.streams()) {
        let spread = Spread::staged(streaming, &profile.limits, cols);
        let few = || of_few_streams(spread, profile, shape, kernels.staged_from);
        return if profile.is_cpu { first } else { few().or(first) };
    }
    let fits_registers = first.is_some_and(|kernel| kernel.variant.elements < u32::MAX);
    let mut staged = kernels.staged.into_iter().flat_map(|it| Spread::staged(it, &profile.limits, cols));
    let best = if profile.is_cpu {
        None
    } else if rows < profile.multiprocessors && cols >= staged::LEAST_SPREAD {
        // One block per row is better with more than one row per four multiprocessors.
        let is_worth_it = !fits_registers || 4 * rows <= profile.multiprocessors;
        is_worth_it.then(|| staged::spread_of_few_rows(staged, profile, shape)).flatten()
    } else if cols >= kernels.staged_from {
        staged.find(|kernel| staged::is_busy(kernel, profile, shape))
    } else {
        None
    };
    best.or(first)
}

/// The cluster for rows that are too few to fill the device with one block each: enough blocks for the idle multiprocessors,
/// each with at least `least` columns.
fn of_few_streams<A>(
    kernels: impl Iterator<Item = Spread<A>>,
    profile: &DeviceProfile,
    [rows, cols]: [usize; 2],
    least: usize,
) -> Option<Spread<A>> {
    let is_worth_it = |kernel: &Spread<A>| {
        let blocks = kernel.blocks as usize;
        blocks > 1
            && rows.saturating_mul(blocks) <= STREAMS * profile.multiprocessors
            && cols >= blocks * least
    };
    kernels.filter(is_worth_it).last()
}

#[cfg(test)]
mod tests {
    use cuda_std::half::bf16;
    use cuda_std::launch::Limits;
    use softmax_kernels::operation::RowKernels;

    use super::*;

    fn gpu() -> DeviceProfile {
        let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
        DeviceProfile { limits, multiprocessors: 132, is_cpu: false }
    }

    /// The gradient's kernel and its number of blocks.
    fn chosen<T: RowKernels>(profile: &DeviceProfile, shape: [usize; 2]) -> (&'static str, u32) {
        let spread = RowKernel::new::<T>("test", T::BACKWARD, profile, shape).unwrap().unwrap().spread;
        (spread.variant.meta.name, spread.blocks)
    }

    #[test]
    fn rows_too_wide_for_registers_are_held_in_shared_memory() {
        let [f32_staged, bf16_staged] = ["softmax_backward_f32_staged", "softmax_backward_bf16_staged"];
        for (cols, f32, bf16) in [
            (12_287, ("softmax_backward_f32_1024x4", 1), ("softmax_backward_bf16_512x4", 1)),
            (12_288, ("softmax_backward_f32_1024x4", 1), (bf16_staged, 1)),
            (16_383, ("softmax_backward_f32_1024x4", 1), (bf16_staged, 1)),
            (16_384, (f32_staged, 2), (bf16_staged, 1)),
            (32_767, (f32_staged, 4), (bf16_staged, 2)),
            (131_072, (f32_staged, 16), (bf16_staged, 8)),
            (262_144, ("softmax_backward_f32_wide", 1), (bf16_staged, 16)),
            (524_288, ("softmax_backward_f32_wide", 1), ("softmax_backward_bf16_wide", 1)),
        ] {
            assert_eq!(chosen::<f32>(&gpu(), [4096, cols]), f32, "{cols}");
            assert_eq!(chosen::<bf16>(&gpu(), [4096, cols]), bf16, "{cols}");
        }
    }

    #[test]
    fn few_wide_rows_are_spread_over_more_blocks() {
        let [f32_staged, bf16_staged] = ["softmax_backward_f32_staged", "softmax_backward_bf16_staged"];
        for (rows, cols, f32, bf16) in [
            (1, 16_383, ("softmax_backward_f32_1024x4", 1), ("softmax_backward_bf16_512x4", 1)),
            (1, 16_384, (f32_staged, 16), (bf16_staged, 16)),
            // With less than 12 KiB per block, more blocks do not pay.
            (8, 32_000, (f32_staged, 16), (bf16_staged, 8)),
            (8, 131_072, (f32_staged, 16), (bf16_staged, 16)),
            // Three blocks per multiprocessor, and no more blocks than that needs.
            (64, 32_000, (f32_staged, 4), ("softmax_backward_bf16_1024x4", 1)),
            (33, 32_000, (f32_staged, 4), (bf16_staged, 4)),
            // More than a third of a multiprocessor's shared memory, and more than all of it.
            (131, 262_144, (f32_staged, 16), (bf16_staged, 16)),
            (132, 262_144, ("softmax_backward_f32_wide", 1), (bf16_staged, 16)),
            (1, 524_288, ("softmax_backward_f32_wide", 1), (bf16_staged, 16)),
        ] {
            assert_eq!(chosen::<f32>(&gpu(), [rows, cols]), f32, "{rows}x{cols}");
            assert_eq!(chosen::<bf16>(&gpu(), [rows, cols]), bf16, "{rows}x{cols}");
        }
    }

    #[test]
    fn devices_without_clusters_read_wide_rows_twice() {
        let limits = |limits| DeviceProfile { limits, ..gpu() };
        let old = limits(Limits { capability: 89, max_cluster: 1, ..gpu().limits });
        assert_eq!(chosen::<f32>(&old, [4096, 16_388]), ("softmax_backward_f32_wide", 1));
        let alone = limits(Limits { max_cluster: 1, ..gpu().limits });
        assert_eq!(chosen::<f32>(&alone, [4096, 16_388]), ("softmax_backward_f32_wide", 1));
        let cpu = DeviceProfile { limits: Limits::default(), is_cpu: true, ..gpu() };
        assert_eq!(chosen::<bf16>(&cpu, [4096, 32_768]), ("softmax_backward_bf16_serial", 1));
    }

    #[test]
    fn wide_rows_that_are_read_in_chunks_are_spread_while_they_are_few() {
        let cpu = DeviceProfile { limits: Limits::default(), is_cpu: true, ..gpu() };
        let old =
            DeviceProfile { limits: Limits { capability: 89, max_cluster: 1, ..gpu().limits }, ..gpu() };
        for (profile, shape, expected) in [
            (&gpu(), [4096, 256], ("sample_f32_32x2", 1)),
            (&gpu(), [4096, 257], ("sample_f32_32x8", 1)),
            (&gpu(), [1, 1024], ("sample_f32_32x8", 1)),
            (&gpu(), [4096, 1025], ("sample_f32_64x8", 1)),
            (&gpu(), [4096, 4097], ("sample_f32_wide", 1)),
            (&gpu(), [265, 131_072], ("sample_f32_wide", 1)),
            (&gpu(), [64, 32_000], ("sample_f32_cluster", 4)),
            (&gpu(), [64, 262_144], ("sample_f32_cluster", 8)),
            (&gpu(), [1, 262_144], ("sample_f32_cluster", 16)),
            (&old, [1, 262_144], ("sample_f32_wide", 1)),
            (&cpu, [1, 262_144], ("sample_f32_serial", 1)),
        ] {
            let kernel =
                RowKernel::new::<f32>("test", &f32::SAMPLING.sample, profile, shape).unwrap().unwrap();
            let spread = kernel.spread;
            assert_eq!((spread.variant.meta.name, spread.blocks), expected, "{shape:?}");
            assert_eq!(kernel.config(1).shared_bytes, 0);
        }
    }

    #[test]
    fn a_launch_has_the_grid_cluster_and_shared_memory_of_its_rows() {
        let kernel =
            RowKernel::new::<f32>("test", f32::BACKWARD, &gpu(), [1 << 30, 131_072]).unwrap().unwrap();
        let config = kernel.config(3);
        assert_eq!((config.grid.x, config.block.x, config.cluster), (48, 256, 16));
        assert_eq!(config.shared_bytes as usize, 320 + 2 * 131_072 * 4 / 16);
        assert!(kernel.launches().all(|(_, rows)| u64::from(rows) * 16 < 1 << 31));
        assert_eq!(kernel.launches().map(|(_, rows)| rows as usize).sum::<usize>(), 1 << 30);
        assert_eq!(kernel.prefetch_blocks(&[131_073]), 6);
    }
}
