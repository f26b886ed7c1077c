//! Which kernel an attention gets.
//!
//! # The model
//! Blocks on one multiprocessor take turns, and a block's time is proportional to its queries. So the estimate is the number of
//! blocks of the busiest multiprocessor, times the queries of a block. The estimate ranks kernels; it does not predict a time.

use std::fmt;

use cuda_std::launch::{KernelMeta, KernelOf};
use gpu_kernels::attention::args::AttentionArgs;
use gpu_kernels::attention::operation::WarpgroupShape;

use super::{AttentionError, Real};
use crate::softmax::DeviceProfile;

/// The largest head size of the kernel for a CPU.
const MOST_ON_CPU: u32 = gpu_kernels::attention::operation::serial::MOST as u32;

/// What a kernel is chosen for.
///
/// ```
/// use ferrowarp::attention::Problem;
///
/// let problem = Problem { queries: 4096, heads: 32, batch: 2, head_size: 128 };
/// assert_eq!(problem.head_size, 128);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Queries of each head.
    pub queries: u32,
    /// Heads of Q.
    pub heads: u32,
    /// Entries of the batch.
    pub batch: u32,
    /// Elements of a row.
    pub head_size: u32,
}

/// The kernel for an attention on a device.
///
/// ```
/// use ferrowarp::attention::{AttentionError, KernelChoice, Problem};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::DeviceProfile;
///
/// let profile = DeviceProfile::from(&Device::cpu());
/// let problem = Problem { queries: 100, heads: 8, batch: 1, head_size: 96 };
/// let choice = KernelChoice::<bf16>::new(&profile, &problem)?;
/// assert_eq!(choice.to_string(), "attention_bf16_serial");
/// # Ok::<(), AttentionError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice<T: 'static> {
    pub(super) kernel: Kernel<T>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<T: 'static> {
    Serial(&'static KernelOf<AttentionArgs<T>>),
    Warpgroups(&'static KernelOf<AttentionArgs<T>, WarpgroupShape>),
}

impl<T: Real> KernelChoice<T> {
    /// The kernel with the smallest estimate.
    ///
    /// # Errors
    /// The device has no kernel for it, or none of this head size.
    pub fn new(profile: &DeviceProfile, problem: &Problem) -> Result<Self, AttentionError> {
        let head_size = problem.head_size as usize;
        if profile.is_cpu {
            let supported = "1 to 256";
            let is_there = (1..=MOST_ON_CPU).contains(&problem.head_size);
            let choice = Self { kernel: Kernel::Serial(T::SERIAL) };
            return if is_there {
                Ok(choice)
            } else {
                Err(AttentionError::HeadSize { head_size, supported })
            };
        }
        let estimate = |kernel: &&'static KernelOf<_, WarpgroupShape>| {
            let blocks = kernel.tiles(problem.queries, problem.heads, problem.batch);
            blocks.div_ceil(profile.multiprocessors.max(1) as u64) * u64::from(kernel.queries)
        };
        let best = of_warpgroups::<T>(profile, problem).min_by_key(estimate);
        let best = best.map(|kernel| Self { kernel: Kernel::Warpgroups(kernel) });
        best.ok_or_else(|| {
            if T::WARPGROUPS.iter().any(|kernel| profile.limits.runs(kernel.meta)) {
                AttentionError::HeadSize { head_size, supported: "64 and 128" }
            } else {
                AttentionError::NoKernel { capability: profile.limits.capability }
            }
        })
    }

    /// Every kernel of the device that can do it.
    pub fn every(profile: &DeviceProfile, problem: &Problem) -> Vec<Self> {
        let serial = Some(T::SERIAL).filter(|kernel| profile.limits.runs(kernel.meta));
        let serial = serial.map(|kernel| Self { kernel: Kernel::Serial(kernel) });
        let warpgroups = of_warpgroups::<T>(profile, problem);
        serial
            .into_iter()
            .chain(warpgroups.map(|kernel| Self { kernel: Kernel::Warpgroups(kernel) }))
            .collect()
    }

    /// What is launched.
    pub fn kernel(&self) -> &'static KernelMeta {
        match self.kernel {
            Kernel::Serial(kernel) => kernel.meta,
            Kernel::Warpgroups(kernel) => kernel.meta,
        }
    }
}

/// The kernels of `wgmma` that the device has for the head size.
fn of_warpgroups<T: Real>(
    profile: &DeviceProfile,
    problem: &Problem,
) -> impl Iterator<Item = &'static KernelOf<AttentionArgs<T>, WarpgroupShape>> {
    let (limits, head_size) = (profile.limits.clone(), problem.head_size);
    T::WARPGROUPS.iter().filter(move |kernel| {
        kernel.head_size == head_size
            && limits.runs(kernel.meta)
            && kernel.shared_bytes <= limits.max_dynamic_shared_bytes
    })
}

impl<T: Real> fmt::Display for KernelChoice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel().name)
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::half::bf16;
    use cuda_std::launch::Limits;

    use super::*;

    fn chosen(capability: u32, problem: Problem) -> Result<String, String> {
        let limits = Limits { capability, runs_cpu_only: false, ..Limits::default() };
        let profile = DeviceProfile { limits, multiprocessors: 132, is_cpu: false };
        let choice = KernelChoice::<bf16>::new(&profile, &problem);
        choice.map(|choice| choice.to_string()).map_err(|error| error.to_string())
    }

    const PROBLEM: Problem = Problem { queries: 4096, heads: 16, batch: 2, head_size: 128 };

    #[test]
    fn tiles_fit_the_queries() {
        assert_eq!(chosen(90, PROBLEM).unwrap(), "attention_bf16_128_2w");
        assert_eq!(chosen(90, Problem { head_size: 64, ..PROBLEM }).unwrap(), "attention_bf16_64_2w");
    }

    #[test]
    fn what_no_kernel_does_is_refused() {
        let error = chosen(90, Problem { head_size: 96, ..PROBLEM }).unwrap_err();
        assert!(error.contains("head size of 96") && error.contains("64 and 128"), "{error}");
        let error = chosen(80, PROBLEM).unwrap_err();
        assert!(error.contains("compute capability 8.0") && error.contains("need 9.0"), "{error}");
    }
}
