//! Timed collective operations, and computations on several devices that use them.
//!
//! All ranks run the same functions at the same time. The time of the slowest rank counts.

pub mod all_reduce;
pub mod shards;
pub mod wide;

use std::sync::Arc;

use anyhow::Context as _;
use ferrowarp::collective::{CollectiveError, Communicator, Reduction};
use ferrowarp::device::DeviceError;
use serde::{Deserialize, Serialize};

use crate::results::median;
use wide::Shape;

/// One problem on a number of devices: a time, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveEntry {
    /// The timed operation.
    pub name: String,
    /// Type of the elements.
    pub dtype: String,
    /// Devices, each with its own process.
    pub ranks: u32,
    /// The size in words.
    pub problem: String,
    /// Time of one run, the median of the samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub microseconds: Option<f64>,
    /// Bytes per second over the slowest link, as nccl-tests defines them: see [`all_reduce::bus_bytes`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bus_bytes_per_second: Option<f64>,
    /// Images per second, of all devices.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub images_per_second: Option<f64>,
    /// Timed batches.
    pub samples: usize,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl CollectiveEntry {
    fn new(communicator: &Communicator, [name, dtype, problem]: [&str; 3]) -> Self {
        Self {
            name: name.to_owned(),
            dtype: dtype.to_owned(),
            ranks: communicator.size(),
            problem: problem.to_owned(),
            microseconds: None,
            bus_bytes_per_second: None,
            images_per_second: None,
            samples: 0,
            error: None,
        }
    }

    /// Its id.
    pub fn id(&self) -> String {
        let Self { name, dtype, ranks, problem, .. } = self;
        format!("{name}/{dtype}/{problem} on {ranks}")
    }
}

/// The sizes of the problems, and the number of runs.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Sizes of an all-reduce in bytes.
    pub bytes: &'static [usize],
    /// Rows and classes of cross entropy.
    pub rows_and_classes: [usize; 2],
    /// The network.
    pub wide: Shape,
    /// Batches per median.
    pub samples: usize,
    /// Maximum runs per batch.
    pub runs: usize,
}

impl Scale {
    /// For GPUs.
    pub const GPU: Scale = Scale {
        bytes: &all_reduce::BYTES,
        rows_and_classes: [4096, 262_144],
        wide: Shape { batch: 8192, width: 8192, layers: 4 },
        samples: 10,
        runs: 100,
    };
    /// For the CPU.
    pub const CPU: Scale = Scale {
        bytes: &[1 << 10, 1 << 20],
        rows_and_classes: [8, 1000],
        wide: Shape { batch: 8, width: 64, layers: 3 },
        samples: 3,
        runs: 2,
    };

    /// The same with one run of each.
    pub fn once(self) -> Self {
        Self { samples: 1, runs: 1, ..self }
    }
}

/// Checks and times everything with `filter` in its id. Passes on the entries as they come, up to the first failure: after
/// that the ranks are out of step.
pub fn measure(
    communicator: &Arc<Communicator>,
    scale: Scale,
    filter: &str,
    mut give: impl FnMut(CollectiveEntry),
) {
    type Timed<'a> = Box<dyn FnOnce(&mut CollectiveEntry) -> anyhow::Result<()> + 'a>;
    let mut all: Vec<(CollectiveEntry, Timed<'_>)> = Vec::new();
    let entry = |name, dtype, problem: &str| CollectiveEntry::new(communicator, [name, dtype, problem]);
    for (name, is_graph) in [("all_reduce", false), ("all_reduce_graph", true)] {
        for &bytes in scale.bytes {
            let timed = move |entry: &mut CollectiveEntry| {
                all_reduce::time(communicator, scale, bytes, is_graph, entry)
            };
            all.push((entry(name, "f32", &bytes.to_string()), Box::new(timed)));
        }
    }
    let [rows, classes] = scale.rows_and_classes;
    for (name, has_gradient) in [("cross_entropy_losses", false), ("cross_entropy", true)] {
        let timed = move |entry: &mut CollectiveEntry| shards::time(communicator, scale, has_gradient, entry);
        all.push((entry(name, "bf16", &format!("{rows}x{classes}")), Box::new(timed)));
    }
    let timed = move |entry: &mut CollectiveEntry| wide::time(communicator, scale, entry);
    all.push((entry("wide_mlp", "bf16", &scale.wide.to_string()), Box::new(timed)));

    // An all-reduce of one GPU does nothing.
    let is_alone = communicator.size() == 1 && communicator.device().is_cuda();
    all.retain(|(entry, _)| {
        entry.id().contains(filter) && !(is_alone && entry.name.starts_with("all_reduce"))
    });
    for (mut entry, timed) in all {
        if let Err(error) = timed(&mut entry) {
            entry.error = Some(format!("{error:#}"));
            return give(entry);
        }
        give(entry);
    }
}

/// The median time in seconds of one run, over some batches of `runs` runs. All ranks begin a batch together.
fn median_time(
    communicator: &Communicator,
    samples: usize,
    runs: usize,
    mut batch: impl FnMut() -> Result<(), DeviceError>,
) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..samples {
        slowest(communicator, 0.0)?;
        let (_, time) = communicator.device().time(&mut batch)?;
        communicator.check()?;
        times.push(slowest(communicator, time.as_secs_f64())? / runs as f64);
    }
    Ok(median(&times))
}

/// The largest of the ranks' times. Returns when all ranks have called it.
fn slowest(communicator: &Communicator, seconds: f64) -> anyhow::Result<f64> {
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    // The bits of positive floats sort like the floats.
    let mut largest = device.upload(&[seconds.to_bits()])?;
    communicator.all_reduce(&stream, &mut largest, Reduction::Max)?;
    communicator.synchronize(&stream)?;
    let bits = largest.to_vec()?;
    Ok(f64::from_bits(*bits.first().context("there is no time")?))
}

/// Whether all ranks have the same number.
fn is_same_on_all(communicator: &Communicator, number: u64) -> Result<bool, CollectiveError> {
    const OPERATION: &str = "comparing the ranks";
    let on_device = |error| communicator.device_error(OPERATION, error);
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    let own = device.upload(&[number]).map_err(on_device)?;
    let mut all = device.alloc_zeroed::<u64>(communicator.size() as usize).map_err(on_device)?;
    communicator.all_gather(&stream, &own, &mut all)?;
    communicator.synchronize(&stream)?;
    Ok(all.to_vec().map_err(on_device)?.iter().all(|other| *other == number))
}

#[cfg(test)]
mod tests {
    use ferrowarp::device::Device;

    use super::*;

    #[test]
    fn everything_is_checked_and_timed_in_a_world_of_one() {
        let communicator = Arc::new(Communicator::single(&Device::cpu()));
        let mut entries = Vec::new();
        measure(&communicator, Scale::CPU.once(), "", |entry| entries.push(entry));
        let ids: Vec<String> = entries.iter().map(CollectiveEntry::id).collect();
        assert_eq!(
            ids,
            [
                "all_reduce/f32/1024 on 1",
                "all_reduce/f32/1048576 on 1",
                "all_reduce_graph/f32/1024 on 1",
                "all_reduce_graph/f32/1048576 on 1",
                "cross_entropy_losses/bf16/8x1000 on 1",
                "cross_entropy/bf16/8x1000 on 1",
                "wide_mlp/bf16/3 layers of 64, 8 images a rank on 1",
            ]
        );
        assert!(
            entries.iter().all(|entry| entry.error.is_none() && entry.microseconds > Some(0.0)),
            "{entries:?}"
        );
    }

    #[test]
    fn an_entry_survives_json() {
        let communicator = Communicator::single(&Device::cpu());
        let mut entry = CollectiveEntry::new(&communicator, ["all_reduce", "f32", "1024"]);
        entry.microseconds = Some(0.1);
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<CollectiveEntry>(&text).unwrap(), entry);
    }
}
