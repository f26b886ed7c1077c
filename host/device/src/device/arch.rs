//! The architectures whose code a device uses: `FERROWARP_ARCH`.

use super::error::DeviceError;
use super::ptx_header::{OLDEST, PtxTarget, architectures};

const VARIABLE: &str = "FERROWARP_ARCH";

/// The architectures that `FERROWARP_ARCH` names, the newest last. Returns none if it does not limit the code of a device: it is
/// not set, or `all` or `native` is in its list, which build scripts understand too.
///
/// # Errors
/// [`DeviceError::Variable`] if it is not a list of architectures.
#[doc(hidden)]
pub fn named_archs() -> Result<Vec<PtxTarget>, DeviceError> {
    let value = std::env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().into_owned();
    parse(&value).ok_or(DeviceError::Variable {
        name: VARIABLE,
        value,
        expected: concat!("architectures such as compute_80,compute_90; there are ", architectures!()),
    })
}

/// The architectures that `FERROWARP_ARCH` names, if the CPU is to be used. It always waits and runs all kernels; a value that
/// a GPU refuses is a mistake here too.
///
/// # Errors
/// [`DeviceError::Variable`].
#[doc(hidden)]
pub fn cpu_archs() -> Result<Vec<PtxTarget>, DeviceError> {
    super::cuda::waits_for_each_launch()?;
    named_archs()
}

fn parse(value: &str) -> Option<Vec<PtxTarget>> {
    let names: Vec<&str> =
        if value.is_empty() { Vec::new() } else { value.split(',').map(str::trim).collect() };
    if names.iter().any(|name| ["all", "native"].contains(name)) {
        return Some(Vec::new());
    }
    let mut targets = names.into_iter().map(str::parse).collect::<Result<Vec<PtxTarget>, _>>().ok()?;
    targets.sort_by_key(PtxTarget::rank);
    Some(targets)
}

/// The newest architecture that `FERROWARP_ARCH` names and that `device` of this compute capability runs, as a compute
/// capability; `None` if the variable does not limit the code.
///
/// # Errors
/// The value is not a list of architectures, or the device runs none of them.
pub(super) fn limit(device: &str, major: u32, minor: u32) -> Result<Option<(u32, u32)>, DeviceError> {
    newest(&named_archs()?, device, major, minor)
}

fn newest(
    named: &[PtxTarget],
    device: &str,
    major: u32,
    minor: u32,
) -> Result<Option<(u32, u32)>, DeviceError> {
    match named.iter().rev().find(|target| target.runs_on(major, minor)) {
        Some(PtxTarget { architecture, .. }) => Ok(Some((architecture / 10, architecture % 10))),
        None if named.is_empty() => Ok(None),
        None => {
            let named = named.iter().map(PtxTarget::to_string).collect::<Vec<_>>().join(", ");
            Err(DeviceError::ArchTooNew { device: device.to_owned(), major, minor, named })
        }
    }
}

/// What to do for a GPU of this compute capability without a module.
pub(super) fn how_to_serve(major: u32, minor: u32) -> String {
    if 10 * major + minor < OLDEST {
        return "7.5 (Turing) is the oldest that kernels can be built for, so use a newer GPU or the CPU"
            .to_owned();
    }
    format!(
        "build it with `cargo xtask build-ptx --arch compute_{major}{minor}`, or `--arch all` for every GPU; in your own crate, \
         add it to `.archs(..)` in the build script"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_the_device_runs_limits_its_code() {
        for (value, device, expected) in [
            ("", 90, None),
            ("all", 90, None),
            ("compute_80,native", 90, None),
            ("compute_80", 90, Some(80)),
            ("80", 80, Some(80)),
            ("compute_90,sm_75, compute_86", 89, Some(86)),
            ("compute_75,compute_80,compute_90,compute_100", 90, Some(90)),
            ("compute_80,compute_90a", 90, Some(90)),
            ("compute_80,compute_90a", 100, Some(80)),
            ("compute_120", 121, Some(120)),
        ] {
            let (major, minor) = (device / 10, device % 10);
            let found = newest(&parse(value).unwrap(), "a GPU", major, minor).unwrap();
            assert_eq!(found.map(|(major, minor)| 10 * major + minor), expected, "{value} on {device}");
        }
        for value in [
            "compute_",
            "ampere",
            "compute_80,",
            "80;90",
            "-80",
            "compute_70",
            "compute_999",
            "compute_80a",
            "compute_90f",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
        let error = newest(&parse("compute_90,compute_100").unwrap(), "Old GPU", 8, 6).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FERROWARP_ARCH names compute_90, compute_100, and Old GPU, which has compute capability 8.6, runs none of them; \
             name compute_86 or an older one, or unset FERROWARP_ARCH"
        );
    }
}
