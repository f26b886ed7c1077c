//! Chooses a device.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cust::LoadError;

use super::arch::cpu_archs;
use super::cuda;
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::modules::PtxModules;

pub use cuda_std::simt::parse_time_limit;

/// Which device to use. With the feature `clap` it can be the value of a flag.
///
/// ```
/// use ferrowarp::device::DeviceChoice;
///
/// assert_eq!("cpu".parse(), Ok(DeviceChoice::Cpu));
/// assert!("tpu".parse::<DeviceChoice>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum DeviceChoice {
    /// The first GPU, else the CPU.
    #[default]
    Auto,
    /// The first GPU, or an error.
    Cuda,
    /// The CPU, even if there is a GPU.
    Cpu,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choices = [DeviceChoice::Auto, DeviceChoice::Cuda, DeviceChoice::Cpu];
        let named = choices.into_iter().find(|choice| choice.to_string().eq_ignore_ascii_case(text));
        named.ok_or_else(|| format!("`{text}` is not a device; choose `auto`, `cuda` or `cpu`"))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Cuda => "cuda",
            DeviceChoice::Cpu => "cpu",
        })
    }
}

impl Device {
    /// Opens the first GPU, or the CPU if there is none. The environment variable `FERROWARP_DEVICE` overrides this: `cuda`, `cpu`
    /// or `auto`. A program that takes the device as a flag calls [`open`].
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::open()?;
    /// println!("{} with {} multiprocessors or cores", device.name(), device.multiprocessors());
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`open`], or [`DeviceError::Variable`].
    pub fn open() -> Result<Device, DeviceError> {
        Ok(open(of_environment()?)?.0)
    }

    /// Opens the CUDA device with this ordinal, with the [kernels that are found](PtxModules::find): those that the library brings,
    /// unless the environment names others.
    ///
    /// # Errors
    /// Same as for [`Self::cuda_with`], and [`DeviceError::PtxMissing`].
    pub fn cuda(ordinal: u32) -> Result<Device, DeviceError> {
        Self::cuda_with(ordinal, &PtxModules::find()?)
    }

    /// Adds modules to a GPU, such as the kernels of your own crate. The CPU runs all kernels without them.
    ///
    /// ```ignore
    /// let device = Device::open()?.with_modules(embedded_ptx!("kernels")?)?;
    /// ```
    ///
    /// # Errors
    /// The device has other handles or buffers: add modules first. [`DeviceError::KernelInTwoSets`]; no module runs on the device,
    /// or the driver refuses one.
    pub fn with_modules(mut self, modules: PtxModules) -> Result<Device, DeviceError> {
        if !self.is_cuda() {
            return Ok(self);
        }
        let name = self.name().to_owned();
        match Arc::get_mut(&mut self.inner).map(|inner| &mut inner.backend) {
            Some(Backend::Cuda(cuda)) => cuda.add(modules)?,
            _ => return Err(DeviceError::InUse { device: name, action: "adding modules" }),
        }
        Ok(self)
    }

    /// Opens the CUDA device with this ordinal, with the modules of `modules` that suit it best. It uses the device's primary
    /// context, like the CUDA runtime, PyTorch and cudarc, so that their [memory](super::BufferView::from_raw) and
    /// [streams](super::Stream::from_raw) can be used.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError, PtxModules};
    ///
    /// let modules = PtxModules::find();
    /// match modules.and_then(|modules| Device::cuda_with(0, &modules)) {
    ///     Ok(gpu) => println!("{} with {} multiprocessors", gpu.name(), gpu.multiprocessors()),
    ///     Err(error) => println!("no GPU: {error}"),
    /// }
    /// ```
    ///
    /// A process that is forked afterwards cannot use a GPU: its calls fail, and its drops do nothing. Open the device after the
    /// fork.
    ///
    /// # Errors
    /// There is no driver, no such device or no module for its architecture, or the driver refuses a module.
    pub fn cuda_with(ordinal: u32, modules: &PtxModules) -> Result<Device, DeviceError> {
        Ok(Self::of(Backend::Cuda(Box::new(cuda::CudaDevice::open(ordinal, modules)?))))
    }
}

/// The device that `FERROWARP_DEVICE` chooses.
pub(super) fn of_environment() -> Result<DeviceChoice, DeviceError> {
    const VARIABLE: &str = "FERROWARP_DEVICE";
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(DeviceChoice::Auto) };
    let value = value.to_string_lossy().into_owned();
    value.parse().map_err(|_| DeviceError::Variable { name: VARIABLE, value, expected: "auto, cuda or cpu" })
}

/// Opens the device of `choice`, and returns a line that says which device it is and why.
///
/// [`DeviceChoice::Auto`] takes the first GPU, or the CPU if there is no driver, no GPU, or no PTX for the GPU's
/// architecture.
///
/// ```
/// use ferrowarp::device::{DeviceChoice, DeviceError, open};
///
/// let (device, line) = open(DeviceChoice::Cpu)?;
/// println!("{line}");
/// assert!(!device.is_cuda());
/// # Ok::<(), DeviceError>(())
/// ```
///
/// # Errors
/// [`DeviceError::PtxMissing`] if there is a GPU but no PTX was built, every other failure of an existing GPU, and
/// [`DeviceError::NoDriver`] if `FERROWARP_LIBCUDA` names a library that does not load. For [`DeviceChoice::Cuda`], also the
/// reasons
/// for which `Auto` takes the CPU. For the CPU too, [`DeviceError::Variable`] if `FERROWARP_SYNC` or `CUDA_LAUNCH_BLOCKING` is
/// neither 0 nor 1, or `FERROWARP_ARCH` is not a list of architectures.
pub fn open(choice: DeviceChoice) -> Result<(Device, String), DeviceError> {
    open_with(choice, PtxModules::find)
}

/// Same as [`open`], with the modules that `find` returns, for programs with kernels of their own.
///
/// ```
/// use std::path::Path;
///
/// use ferrowarp::device::{DeviceChoice, DeviceError, PtxModules, open_with};
///
/// // The folder is looked at on a machine with a GPU only.
/// let (device, _) = open_with(DeviceChoice::Cpu, || PtxModules::read(Path::new("target/ptx")))?;
/// assert!(!device.is_cuda());
/// # Ok::<(), DeviceError>(())
/// ```
///
/// # Errors
/// The errors of [`open`] and of `find`.
pub fn open_with(
    choice: DeviceChoice,
    find: impl FnOnce() -> Result<PtxModules, DeviceError>,
) -> Result<(Device, String), DeviceError> {
    match choice {
        DeviceChoice::Cpu => cpu("as asked"),
        DeviceChoice::Cuda => open_cuda(find),
        DeviceChoice::Auto => match cuda::count_devices() {
            Err(DeviceError::NoDriver(error @ LoadError::Library { .. })) => {
                cpu(&format!("no CUDA driver found ({})", error.library()))
            }
            // The library that the environment names is a mistake.
            Err(error @ DeviceError::NoDriver(_)) => Err(error),
            Err(error) => cpu(&error.to_string()),
            Ok(0) => cpu("the CUDA driver sees no GPU"),
            Ok(_) => match open_cuda(find) {
                Err(error @ DeviceError::NoModuleFor { .. }) => cpu(&error.to_string()),
                opened => opened,
            },
        },
    }
}

fn cpu(reason: &str) -> Result<(Device, String), DeviceError> {
    cpu_archs()?;
    let device = Device::cpu();
    let cores = device.multiprocessors();
    let plural = if cores == 1 { "" } else { "s" };
    Ok((device, format!("running on the CPU, {cores} core{plural}: {reason}")))
}

fn open_cuda(
    find: impl FnOnce() -> Result<PtxModules, DeviceError>,
) -> Result<(Device, String), DeviceError> {
    let found = cuda::find(0)?;
    let device = Device::cuda_with(0, &find()?)?;
    let line = format!(
        "running on {} (CUDA device 0, compute capability {}.{}, {} multiprocessors)",
        found.name,
        found.major,
        found.minor,
        device.multiprocessors()
    );
    Ok((device, line))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn choices_are_read_and_written_alike() {
        for choice in [DeviceChoice::Auto, DeviceChoice::Cuda, DeviceChoice::Cpu] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert_eq!("CUDA".parse(), Ok(DeviceChoice::Cuda));
        let error = "tpu".parse::<DeviceChoice>().unwrap_err();
        assert!(error.contains("`tpu`") && error.contains("`cpu`"), "{error}");
    }

    #[test]
    fn a_time_limit_is_a_number_of_seconds() {
        assert_eq!(parse_time_limit("2.5"), Ok(Duration::from_millis(2500)));
        for text in ["0", "-1", "NaN", "inf", "1e30", "1e300", "1e-20", "", "soon"] {
            let error = parse_time_limit(text).unwrap_err();
            assert!(error.contains("seconds above 0 and at most 1e19"), "{text}: {error}");
        }
    }

    #[test]
    fn the_cpu_is_always_there() {
        let (device, line) = open(DeviceChoice::Cpu).unwrap();
        assert!(!device.is_cuda());
        assert!(line.starts_with("running on the CPU, ") && line.ends_with(": as asked"), "{line}");
        assert!(!line.contains('\n'));
    }
}
