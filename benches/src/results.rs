//! The file of a run's medians, which `cargo xtask report` reads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use ferrowarp::device::{Device, Peaks};
use ferrowarp_report::output_file;
use serde::Serialize;

/// The results of one run, with entries of type `E`.
#[derive(Debug, Serialize)]
pub struct Results<E> {
    /// The device's name.
    pub machine: String,
    /// The processor of the GPU's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// The driver's version.
    pub driver: String,
    /// The day, as year-month-day.
    pub date: String,
    /// The commit of the sources.
    pub commit: String,
    /// Bytes of the GPU's L2 cache.
    pub l2_bytes: Option<usize>,
    /// The peaks of a GPU at its clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<PeaksEntry>,
    /// The measurements, in order.
    pub entries: Vec<E>,
}

/// A GPU's peaks: [`ferrowarp::device::Peaks`].
#[derive(Debug, Serialize)]
pub struct PeaksEntry {
    /// Additions and multiplications of `f32` per second, without tensor cores.
    pub flops: f64,
    /// Bytes that its memory reads or writes per second.
    pub bytes_per_second: f64,
}

/// One contestant of the training bench at one batch size: times, or why there are none.
#[derive(Debug, Serialize)]
pub struct MlpEntry {
    /// Rung or peer.
    pub name: String,
    /// The precision of multiplications: `f32`, or `tf32` if factors are rounded to it.
    pub precision: &'static str,
    /// Images per batch.
    pub batch: usize,
    /// Which images: `mnist` or `synthetic`.
    pub data: &'static str,
    /// Images per epoch.
    pub images: usize,
    /// Seconds of each timed epoch, from its first launch until its losses are on the host.
    pub epoch_seconds: Vec<f64>,
    /// Microseconds per step, over a few steps until the last one's loss is on the host: the median of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_microseconds: Option<f64>,
    /// The share of test images classified correctly after [`RUN`](crate::mlp::RUN) of the timed epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl<E: Serialize> Results<E> {
    /// Creates the results of this machine, without entries.
    ///
    /// # Errors
    /// A query of the device failed.
    pub fn new(device: &Device) -> anyhow::Result<Self> {
        let commit = std::env::var("FERROWARP_COMMIT").ok().or_else(|| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
            printed(Command::new("git").args(["-C", root, "rev-parse", "--short", "HEAD"]))
        });
        let nvidia_smi = ["--query-gpu=driver_version", "--format=csv,noheader"];
        let driver = if device.is_cuda() {
            printed(Command::new("nvidia-smi").args(nvidia_smi)).unwrap_or_else(|| "unknown".to_owned())
        } else {
            "none".to_owned()
        };
        Ok(Self {
            machine: device.name(),
            cpu: device.is_cuda().then(|| Device::cpu().name()),
            driver: driver.lines().next().unwrap_or_default().to_owned(),
            date: printed(Command::new("date").args(["-u", "+%Y-%m-%d"]))
                .unwrap_or_else(|| "unknown".to_owned()),
            commit: commit.unwrap_or_else(|| "unknown".to_owned()),
            l2_bytes: device.l2_bytes()?,
            peaks: device
                .peaks()?
                .map(|Peaks { flops, bytes_per_second }| PeaksEntry { flops, bytes_per_second }),
            entries: Vec::new(),
        })
    }

    /// Writes the file into criterion's folder: `$CRITERION_HOME`, else `criterion` in cargo's target directory.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = folder();
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let path = folder.join(name);
        self.write_to(&path)?;
        Ok(path)
    }

    /// Writes the file, whose folder must exist.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write_to(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("writing the results as JSON")? + "\n";
        output_file::write(path, text.as_bytes())
            .with_context(|| format!("could not write the results to {}", path.display()))
    }
}

fn folder() -> PathBuf {
    if let Some(home) = std::env::var_os("CRITERION_HOME") {
        return home.into();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")).join("criterion")
}

/// The output of a command, if it runs and succeeds.
fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The median of the values; 0 if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }
}
