//! Chooses the kernels of the gradients.

use attention_kernels::backward::FusedShape;
use attention_kernels::backward::args::BackwardLaunch;
use attention_kernels::backward::serial::MOST as MOST_SIZE;
use cuda_std::launch::{KernelMeta, KernelOf};
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::error::{Error, Kind};

use super::backward::NAME;
use super::backward_work::Work;
use super::types::Element16;
use crate::operation::{Operation, no_kernel};

/// The elements that a tensor copy writes at a time, even at the end of a row.
const MULTIPLE: usize = 8;

/// The kernels that can compute gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum BackwardBy {
    /// The kernels for a CPU.
    Serial,
    /// The kernels with `wgmma`, with the index in `T::BY_WARPGROUPS`.
    Warpgroups { index: usize },
    /// The kernels with `wgmma` for one gradient at a time, with the index in `T::SEPARATE`.
    Separate { index: usize },
    /// The kernels with `mma.sync`, with the index in `T::FUSED`.
    Fused { index: usize },
}

impl BackwardBy {
    /// The choices for a head size, those that are fastest for many rows first. Rows are aligned if they start and end at 16
    /// bytes.
    pub fn choices<T: Element16>(
        profile: &DeviceProfile,
        head_size: u32,
        is_aligned: bool,
    ) -> impl Iterator<Item = Self> {
        let limits = profile.limits.clone();
        let of = |all: &[KernelOf<_, FusedShape>]| {
            let index = all.iter().position(|kernel| kernel.head_size >= head_size);
            index.filter(|_| is_aligned)
        };
        let warpgroups = of(T::BY_WARPGROUPS).map(|index| Self::Warpgroups { index });
        let separate = of(T::SEPARATE).map(|index| Self::Separate { index });
        let least = T::FUSED.iter().map(|kernel| kernel.head_size).find(|&size| size >= head_size);
        let fits = move |&index: &usize| {
            let kernel = &T::FUSED[index];
            Some(kernel.head_size) == least && kernel.shared_bytes <= limits.max_dynamic_shared_bytes
        };
        let fused = (0..T::FUSED.len()).filter(fits).map(|index| Self::Fused { index });
        let serial = Some(Self::Serial).filter(|_| head_size as usize <= MOST_SIZE);
        let [first, last] = if profile.is_cpu { [serial, None] } else { [None, serial] };
        let all = first.into_iter().chain(warpgroups).chain(separate).chain(fused).chain(last);
        let limits = profile.limits.clone();
        all.filter(move |by| by.kernels::<T>().all(|kernel| limits.runs(kernel)))
    }

    /// The kernels that are launched, in order.
    pub fn kernels<T: Element16>(self) -> impl Iterator<Item = &'static KernelMeta> {
        let (first, second, third) = match self {
            Self::Serial => (T::SERIAL_QUERIES.meta, T::SERIAL_KEYS.meta, None),
            Self::Warpgroups { index } => (T::DELTA.meta, T::BY_WARPGROUPS[index].meta, Some(T::FINISH.meta)),
            Self::Separate { index } => (T::DELTA.meta, T::SEPARATE[index].meta, None),
            Self::Fused { index } => (T::DELTA.meta, T::FUSED[index].meta, Some(T::FINISH.meta)),
        };
        [first, second].into_iter().chain(third)
    }
}

/// The error of a head size without a kernel.
pub(super) fn no_size(size: usize) -> Error {
    let what = format!("there is no kernel for a head size of {size}");
    let needs = "the head size must be 1 to 256";
    Error::from(Kind::Unsupported { what, needs }).of(NAME, None)
}

/// The kernels that are expected to be the fastest.
pub(super) fn choose<T: Element16>(
    operation: Operation<'_>,
    args: &BackwardLaunch<T>,
    is_aligned: bool,
) -> Result<BackwardBy, Error> {
    let head_size = args.head_size;
    if head_size as usize > MOST_SIZE {
        return Err(no_size(head_size as usize));
    }
    let is_aligned = is_aligned && (head_size as usize).is_multiple_of(MULTIPLE);
    let profile = DeviceProfile::from(operation.device);
    let of = |profile: &_| {
        let mut all = BackwardBy::choices::<T>(profile, head_size, is_aligned);
        let first = all.next()?;
        let work = Work::new(args, operation.device);
        let prefers_second =
            matches!(first, BackwardBy::Warpgroups { .. }) && work.prefers_separate(head_size);
        let second = all.next().filter(|by| prefers_second && matches!(by, BackwardBy::Separate { .. }));
        Some(second.unwrap_or(first))
    };
    let needs = "the kernels need 8.0 or later, so use a newer GPU or `Device::cpu()`";
    let lacks = || no_kernel(NAME, profile.limits.capability, needs);
    of(&profile).or_else(|| of(&profile.with_absent_kernels()?)).ok_or_else(lacks)
}
