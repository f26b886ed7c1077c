//! All-reduce of `f32` in place.
//!
//! `benches/peers/collective.py` holds the same table of sizes and runs.

use std::sync::Arc;

use anyhow::ensure;
use ferrowarp::collective::{Communicator, Reduction};
use ferrowarp::device::{Buffer, DeviceError};

use super::{CollectiveEntry, Scale, median_time};

/// Bytes per rank: 1 KiB to 1 GiB.
pub const BYTES: [usize; 11] =
    [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30];

/// Runs per batch.
pub fn runs(bytes: usize) -> usize {
    match bytes {
        0..=0x10_0000 => 100,
        0x10_0001..=0x400_0000 => 20,
        _ => 5,
    }
}

/// The minimum bytes that each rank sends and receives: `bytes * 2 (ranks - 1) / ranks`, as nccl-tests computes `busbw`.
/// With it, the bandwidth of any number of ranks can be compared with a link's.
pub fn bus_bytes(bytes: usize, ranks: u32) -> f64 {
    bytes as f64 * 2.0 * f64::from(ranks - 1) / f64::from(ranks)
}

/// Checks a sum of ones, and times sums of zeros: queued one by one, or as a graph.
///
/// # Errors
/// There is not enough memory, an operation failed, or a sum is wrong.
pub fn time(
    communicator: &Arc<Communicator>,
    scale: Scale,
    bytes: usize,
    is_graph: bool,
    entry: &mut CollectiveEntry,
) -> anyhow::Result<()> {
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    let len = bytes / size_of::<f32>();
    let mut buffer = device.upload(&vec![1.0f32; len])?;
    communicator.all_reduce(&stream, &mut buffer, Reduction::Sum)?;
    communicator.synchronize(&stream)?;
    let sum = communicator.size() as f32;
    ensure!(buffer.to_vec()?.iter().all(|&got| got == sum), "a sum of {sum} ones is not {sum}");
    buffer.copy_from(&vec![0.0; len])?;

    let runs = runs(bytes).min(scale.runs);
    let seconds = if is_graph {
        let held = Arc::clone(communicator);
        let mut graph = device.record(buffer, move |stream, buffer: &mut Buffer<f32>| {
            (0..runs).try_for_each(|_| held.all_reduce(stream, &mut *buffer, Reduction::Sum))
        })?;
        graph.launch()?;
        median_time(communicator, scale.samples, runs, || graph.launch())?
    } else {
        let mut batch = || -> Result<(), DeviceError> {
            (0..runs).try_for_each(|_| {
                communicator.all_reduce(&stream, &mut buffer, Reduction::Sum).map_err(Into::into)
            })
        };
        batch()?;
        median_time(communicator, scale.samples, runs, batch)?
    };
    entry.microseconds = Some(seconds * 1e6);
    entry.samples = scale.samples;
    if communicator.size() > 1 {
        entry.bus_bytes_per_second = Some(bus_bytes(bytes, communicator.size()) / seconds);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_bytes_are_those_of_nccl_tests() {
        assert_eq!([1, 2, 4, 8].map(|ranks| bus_bytes(1000, ranks)), [0.0, 1000.0, 1500.0, 1750.0]);
    }

    /// Compares the output of the peers' script with ours.
    #[test]
    fn the_peers_have_the_same_sizes_and_runs() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/collective.py");
        let Ok(output) = std::process::Command::new("python3").args([script, "--list-sizes"]).output() else {
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let ours: String = BYTES.iter().map(|&bytes| format!("{bytes} {}\n", runs(bytes))).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
    }
}
