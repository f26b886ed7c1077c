//! The limits of a device, and the errors of a launch.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Dim3, KernelMeta, LaunchConfig, Residence};

/// The limits of a device for one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks along each axis of the grid.
    pub max_grid: Dim3,
    /// Threads along each axis of a block.
    pub max_block: Dim3,
    /// Threads in a block.
    pub max_threads_per_block: u32,
    /// Dynamic shared memory of a block in bytes, with the opt-in if the device has one.
    pub max_dynamic_shared_bytes: u32,
    /// Blocks of a thread-block cluster; 1 if the device has no clusters.
    pub max_cluster: u32,
    /// Threads that may be on the device at once, which bounds the grid of a [cooperative](super::KernelMeta::cooperative)
    /// launch. A kernel's registers and shared memory may lower the bound further; only a CUDA device knows by how much.
    pub max_resident_threads: u64,
    /// The compute capability as one number, 90 for 9.0. It is compared with a kernel's
    /// [least](super::KernelMeta::min_arch) or [only](super::KernelMeta::arch_specific) one. `u32::MAX` runs every kernel.
    pub capability: u32,
    /// Whether it runs kernels for [the CPU executor only](super::KernelMeta::cpu_only). Devices that run PTX do not.
    pub runs_cpu_only: bool,
    /// The kernels of the device's modules, if some of these are for an older architecture: such PTX lacks kernels with a
    /// [least](super::KernelMeta::min_arch) architecture above its own.
    pub kernels: Option<Arc<HashSet<String>>>,
}

impl Default for Limits {
    /// The limits of every CUDA device since compute capability 8.0: 1024 threads per block, a grid of 2^31 - 1 by
    /// 65535 by 65535 blocks (CUDA programming guide, "technical specifications per compute capability"). Shared memory
    /// and clusters are those of compute capability 9.0: 227 KiB (others have 163 KiB (8.0) or 99 KiB (8.6, 8.9, 12.0))
    /// and up to 16 blocks. No kernel is too new. The executor has stacks for 28672 threads at once: more than 100
    /// blocks of 256. Kernels for the CPU only run too, unlike on a CUDA device.
    fn default() -> Self {
        Self {
            max_grid: Dim3::new(i32::MAX as u32, 65535, 65535),
            max_block: Dim3::new(1024, 1024, 64),
            max_threads_per_block: 1024,
            max_dynamic_shared_bytes: 227 * 1024,
            max_cluster: 16,
            max_resident_threads: 28 * 1024,
            capability: u32::MAX,
            runs_cpu_only: true,
            kernels: None,
        }
    }
}

impl Limits {
    /// The limits of a GPU of this compute capability, 86 for 8.6 (CUDA programming guide, "technical specifications per
    /// compute capability"): shared memory and clusters. Our launches request the clusters of 16 blocks that the large dies of
    /// 9.x and 10.x allow. The rest is as in [`Self::default`].
    ///
    /// ```
    /// use cuda_std::launch::Limits;
    ///
    /// let limits = Limits::of_gpu(86);
    /// assert_eq!((limits.max_dynamic_shared_bytes, limits.max_cluster), (99 << 10, 1));
    /// ```
    pub fn of_gpu(capability: u32) -> Self {
        let kibibytes = match capability {
            ..80 => 64,
            80 | 87 => 163,
            90..120 => 227,
            _ => 99,
        };
        let max_cluster = match capability {
            ..90 => 1,
            90..110 => 16,
            _ => 8,
        };
        let max_dynamic_shared_bytes = kibibytes << 10;
        Self { max_dynamic_shared_bytes, max_cluster, capability, runs_cpu_only: false, ..Self::default() }
    }

    /// Returns whether a device with these limits can run the kernel: [`Self::check_kernel`] succeeds, and its modules [have
    /// it](Self::kernels).
    pub fn runs(&self, kernel: &KernelMeta) -> bool {
        let has = |kernels: &Arc<HashSet<String>>| kernel.min_arch == 0 || kernels.contains(kernel.name);
        self.check_kernel(kernel).is_ok() && (kernel.cpu_only || self.kernels.as_ref().is_none_or(has))
    }

    /// Checks that a device with these limits can run the kernel.
    ///
    /// # Errors
    /// [`LaunchError::CpuOnly`], [`LaunchError::TooOld`] and [`LaunchError::OtherArch`].
    pub fn check_kernel(&self, kernel: &KernelMeta) -> Result<(), LaunchError> {
        let &KernelMeta { name: kernel, min_arch: needed, arch_specific, cpu_only, .. } = kernel;
        if cpu_only && !self.runs_cpu_only {
            return Err(LaunchError::CpuOnly { kernel });
        }
        let found = self.capability;
        if arch_specific && found != needed && found != u32::MAX {
            return Err(LaunchError::OtherArch { kernel, needed, found });
        }
        if needed > found { Err(LaunchError::TooOld { kernel, needed, found }) } else { Ok(()) }
    }

    /// Checks `config` against these limits.
    ///
    /// # Errors
    /// The first of grid, block, dynamic shared memory and cluster that is empty or over its limit, or a grid that is not
    /// a whole number of clusters.
    pub fn check(&self, kernel: &'static str, config: &LaunchConfig) -> Result<(), LaunchError> {
        let LaunchConfig { grid, block, shared_bytes, cluster, .. } = *config;
        for (what, got, max) in [("grid", grid, self.max_grid), ("block", block, self.max_block)] {
            if got.x == 0 || got.y == 0 || got.z == 0 {
                return Err(LaunchError::Empty { kernel, what, got });
            }
            if what == "grid" && got.x == LaunchConfig::UNCOUNTED {
                return Err(LaunchError::Uncounted { kernel });
            }
            if got.x > max.x || got.y > max.y || got.z > max.z {
                return Err(LaunchError::TooLarge { kernel, what, got, max });
            }
        }
        if block.volume() > u64::from(self.max_threads_per_block) {
            return Err(LaunchError::TooManyThreads {
                kernel,
                block,
                got: block.volume(),
                max: self.max_threads_per_block,
            });
        }
        if shared_bytes > self.max_dynamic_shared_bytes {
            return Err(LaunchError::TooMuchShared {
                kernel,
                got: u64::from(shared_bytes),
                max: self.max_dynamic_shared_bytes,
            });
        }
        if cluster == 0 || cluster > self.max_cluster {
            return Err(LaunchError::ClusterSize { kernel, got: cluster, max: self.max_cluster });
        }
        if !grid.x.is_multiple_of(cluster) {
            return Err(LaunchError::PartOfCluster { kernel, grid, cluster });
        }
        Ok(())
    }

    /// Returns how many blocks of `config` may be resident at once, in whole clusters, according
    /// to [`Self::max_resident_threads`].
    ///
    /// ```
    /// use cuda_std::launch::{LaunchConfig, Limits};
    ///
    /// let limits = Limits { max_resident_threads: 1000, ..Limits::default() };
    /// assert_eq!(limits.resident_blocks(&LaunchConfig::new(1, 128)), 7);
    /// assert_eq!(limits.resident_blocks(&LaunchConfig::new(4, 128).with_cluster(4)), 4);
    /// ```
    pub fn resident_blocks(&self, config: &LaunchConfig) -> u64 {
        let cluster = u64::from(config.cluster.max(1));
        self.max_resident_threads / (config.block.volume().max(1) * cluster) * cluster
    }

    /// Checks that all blocks of `config` may be resident at once.
    ///
    /// # Errors
    /// [`LaunchError::NotResident`]: there are more than [`Self::resident_blocks`].
    pub fn check_resident(&self, kernel: &'static str, config: &LaunchConfig) -> Result<(), LaunchError> {
        let (got, fit) = (config.grid.volume(), self.resident_blocks(config));
        if got > fit { Err(LaunchError::NotResident { kernel, got, fit }) } else { Ok(()) }
    }
}

/// Why a launch was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An axis of the grid or of the block is zero.
    #[error("launch of {kernel} failed: the {what} {got} is empty; every axis must be at least 1")]
    Empty {
        /// The kernel.
        kernel: &'static str,
        /// `grid` or `block`.
        what: &'static str,
        /// The requested extents.
        got: Dim3,
    },
    /// An axis of the grid or of the block is over the device's limit.
    #[error("launch of {kernel} failed: the {what} {got} is over the device's limit of {max}")]
    TooLarge {
        /// The kernel.
        kernel: &'static str,
        /// `grid` or `block`.
        what: &'static str,
        /// The requested extents.
        got: Dim3,
        /// The largest allowed on each axis.
        max: Dim3,
    },
    /// [`LaunchConfig::cover`] was called for more elements than threads have indices.
    #[error(
        "launch of {kernel} failed: LaunchConfig::cover got more than 2^32 threads to launch, and thread::index_1d has \
         32 bits; let each thread take several elements"
    )]
    Uncounted {
        /// The kernel.
        kernel: &'static str,
    },
    /// The block has too many threads.
    #[error(
        "launch of {kernel} failed: the block {block} has {got} threads, at most {max} are allowed; launch smaller \
         blocks"
    )]
    TooManyThreads {
        /// The kernel.
        kernel: &'static str,
        /// The requested block.
        block: Dim3,
        /// Its threads.
        got: u64,
        /// The limit of the device, or of the kernel's launch bounds.
        max: u32,
    },
    /// More shared memory than a block can have.
    #[error(
        "launch of {kernel} failed: {got} bytes of shared memory per block, at most {max} are allowed; use less, or \
         launch smaller blocks"
    )]
    TooMuchShared {
        /// The kernel.
        kernel: &'static str,
        /// Requested bytes.
        got: u64,
        /// The device's limit in bytes.
        max: u32,
    },
    /// The cluster has no blocks, or more than the device allows.
    #[error(
        "launch of {kernel} failed: a cluster of {got} blocks, from 1 to {max} are allowed; clusters need compute \
         capability 9.0; otherwise launch with 1"
    )]
    ClusterSize {
        /// The kernel.
        kernel: &'static str,
        /// Blocks of a cluster.
        got: u32,
        /// The device's limit.
        max: u32,
    },
    /// The grid is not a whole number of clusters.
    #[error(
        "launch of {kernel} failed: the grid {grid} is not a whole number of clusters of {cluster} blocks along x; \
         round its blocks up to a multiple of {cluster}"
    )]
    PartOfCluster {
        /// The kernel.
        kernel: &'static str,
        /// The requested grid.
        grid: Dim3,
        /// Blocks of a cluster.
        cluster: u32,
    },
    /// The blocks of a cooperative launch wait for each other, and the device has no room for all of them at once.
    #[error(
        "launch of {kernel} failed: its blocks wait for each other, but only {fit} of {got} blocks fit on the device \
         at once; launch at most {fit} blocks that do more each, or smaller blocks"
    )]
    NotResident {
        /// The kernel.
        kernel: &'static str,
        /// Requested blocks.
        got: u64,
        /// Blocks of this size, shared memory and cluster that fit.
        fit: u64,
    },
    /// On the CPU executor, blocks that run at the same time would share a static that each of them should have. These
    /// are the blocks of a cluster, or all blocks if each GPU thread is an OS thread.
    #[error(
        "launch of {kernel} failed: its blocks run together, but this program has one `{name}` for all of them; make it \
         a `shared_array!`"
    )]
    SharedStatics {
        /// The kernel.
        kernel: &'static str,
        /// The first shared static of the program.
        name: &'static str,
    },
    /// The kernel needs a higher compute capability than the device's.
    #[error(
        "launch of {kernel} failed: it needs compute capability {}.{}, the device has {}.{}; choose a kernel for \
         older devices",
        needed / 10, needed % 10, found / 10, found % 10
    )]
    TooOld {
        /// The kernel.
        kernel: &'static str,
        /// The least compute capability, 90 for 9.0.
        needed: u32,
        /// The device's.
        found: u32,
    },
    /// Only devices of one compute capability run the kernel.
    #[error(
        "launch of {kernel} failed: it is compiled for compute_{needed}a, which only devices of compute capability {}.{} \
         run, and the device has {}.{}; choose a kernel for other devices",
        needed / 10, needed % 10, found / 10, found % 10
    )]
    OtherArch {
        /// The kernel.
        kernel: &'static str,
        /// The compute capability that runs it, 90 for 9.0.
        needed: u32,
        /// The device's.
        found: u32,
    },
    /// The kernel is for the CPU executor only, and the launch was on a device that runs PTX.
    #[error(
        "launch of {kernel} failed: it is a kernel for the CPU executor only and has no PTX; launch it on the CPU, \
         or launch another kernel"
    )]
    CpuOnly {
        /// The kernel.
        kernel: &'static str,
    },
    /// An argument lives in the memory of another device.
    #[error(
        "launch of {kernel} failed: argument `{argument}` lives in the memory of {at}, the launch is on \
         {launcher}; copy it there first"
    )]
    WrongDevice {
        /// The kernel.
        kernel: &'static str,
        /// The parameter's name.
        argument: &'static str,
        /// Where the argument lives.
        at: Residence,
        /// Where the kernel should have run.
        launcher: Residence,
    },
    /// FERROWARP_SEED, the seed of the CPU executor's schedule, is not a number.
    #[error(
        "launch of {kernel} failed: FERROWARP_SEED is `{value}`, which is not a 64-bit number; write it in decimal, \
         or in hexadecimal after 0x, or unset the variable for the fixed schedule"
    )]
    Seed {
        /// The kernel.
        kernel: &'static str,
        /// The variable's value.
        value: String,
    },
    /// FERROWARP_KERNEL_SECONDS, the time limit of the CPU executor, is not a time.
    #[error(
        "launch of {kernel} failed: FERROWARP_KERNEL_SECONDS is `{value}`; expected a number of seconds above 0 and at most 1e19, or unset \
         the variable for no limit"
    )]
    TimeLimit {
        /// The kernel.
        kernel: &'static str,
        /// The variable's value.
        value: String,
    },
    /// The kernel ran on the CPU executor and broke a rule of the CUDA model, or panicked.
    #[error(transparent)]
    Fault(#[from] Box<crate::simt::Fault>),
    /// The device refused the launch, or had failed before. This is its own error.
    #[error(transparent)]
    Device(Box<dyn core::error::Error + Send + Sync>),
    /// The device's driver refused the launch or reported a fault of the kernel.
    #[error("launch of {kernel} failed: {message}")]
    Driver {
        /// The kernel.
        kernel: String,
        /// The driver's message, and the fix if it is known.
        message: String,
    },
}
