//! The times of the kernels of a training run, compared with their work.

use std::ops::Range;

use crate::BatchSize;
use crate::model::{KernelWork, Pipeline, Trained};
use ferrowarp_device::device::{Device, DeviceError, LaunchTimes, Launched};
use ferrowarp_report::{KernelRecord, Profile};

/// The times of launches, and the work of their steps.
#[derive(Debug, Default)]
pub(super) struct Profiler {
    times: Vec<LaunchTimes>,
    work: Vec<KernelWork>,
    /// The work of a whole step; below, of the kernel that only gathers a batch.
    step: Vec<KernelWork>,
    gather: Vec<KernelWork>,
    /// Bytes of the parameters.
    parameters: u64,
    pipeline: Option<Pipeline>,
}

impl Profiler {
    /// Adds the times that `device` measured while it trained on the samples `done` of an epoch of `samples`.
    pub fn add(
        &mut self,
        device: &Device,
        pipeline: Pipeline,
        trained: Trained<'_>,
        batch_size: BatchSize,
        done: Range<usize>,
        samples: usize,
    ) {
        let (sizes, batch) = (trained.sizes, batch_size.get());
        let of_step = |rows| KernelWork::of_step(pipeline, trained, rows);
        for LaunchTimes { what, launches, time } in device.take_profile() {
            match self.times.iter_mut().find(|times| times.what == what) {
                Some(times) => {
                    times.launches += launches;
                    times.time += time;
                }
                None => self.times.push(LaunchTimes { what, launches, time }),
            }
        }
        for first in done.step_by(batch) {
            let end = samples.min(first + batch);
            let next = batch.min(samples - end);
            for work in of_step([end - first, next]) {
                match self.work.iter_mut().find(|found| found.kernel == work.kernel) {
                    Some(found) => found.add(&work),
                    None => self.work.push(work),
                }
            }
        }
        self.step = of_step([batch; 2]);
        self.gather = KernelWork::of_step(Pipeline::Naive, trained, [batch; 2]);
        self.parameters = sizes.windows(2).map(|pair| 4 * (pair[0] as u64 + 1) * pair[1] as u64).sum();
        self.pipeline = Some(pipeline);
    }

    /// Returns the profile of the run.
    ///
    /// # Errors
    /// The device does not report its peak rates.
    pub fn finish(self, device: &Device) -> Result<Profile, DeviceError> {
        let peaks = device.peaks()?;
        let mut kernels = self.records();
        for record in &mut kernels {
            let least = peaks.zip(record.bytes).zip(record.flop);
            let least = least.map(|((peaks, bytes), flop)| peaks.least_seconds(bytes, flop));
            record.roofline = least.filter(|_| record.seconds > 0.0).map(|least| least / record.seconds);
        }
        Ok(Profile { kernels, peaks: peaks.map(|peaks| [peaks.flops, peaks.bytes_per_second]) })
    }

    /// Makes a record for each kernel (instances count as one) and for each graph.
    fn records(mut self) -> Vec<KernelRecord> {
        let mut records: Vec<(&'static str, KernelRecord)> = Vec::new();
        for LaunchTimes { what, launches, time } in &self.times {
            let mut record = KernelRecord {
                kernel: what.to_string(),
                launches: *launches,
                seconds: time.as_secs_f64(),
                bytes: None,
                flop: None,
                roofline: None,
            };
            let family = match what {
                Launched::Graph { launches: inside } => {
                    let of_step = self.step.iter().map(|work| work.launches).sum::<u64>().max(1);
                    let steps = launches * inside / of_step;
                    // Move the bytes and operations from the single launches to the graph.
                    let (mut bytes, mut flop) = (0, 0);
                    for work in &self.step {
                        (bytes, flop) = (bytes + steps * work.bytes, flop + steps * work.flop);
                        if let Some(all) = self.work.iter_mut().find(|all| all.kernel == work.kernel) {
                            all.bytes = all.bytes.saturating_sub(steps * work.bytes);
                            all.flop = all.flop.saturating_sub(steps * work.flop);
                        }
                    }
                    (record.bytes, record.flop) = (Some(bytes), Some(flop));
                    ""
                }
                Launched::Kernel(name) => self
                    .work
                    .iter()
                    .find(|work| name.starts_with(work.kernel))
                    .map_or(*name, |work| work.kernel),
            };
            match records.iter_mut().find(|(found, _)| !family.is_empty() && *found == family) {
                Some((_, found)) => {
                    found.kernel = family.to_owned();
                    found.launches += record.launches;
                    found.seconds += record.seconds;
                }
                None => records.push((family, record)),
            }
        }
        for (family, record) in records.iter_mut().filter(|(family, _)| !family.is_empty()) {
            if let Some(work) = self.work.iter().find(|work| work.kernel == *family) {
                // Every launch of many steps reads and writes the parameters.
                let moved = if self.pipeline == Some(Pipeline::Resident) { 2 * self.parameters } else { 0 };
                (record.bytes, record.flop) = (Some(work.bytes + moved * record.launches), Some(work.flop));
            } else if let Some(work) = self.gather.iter().find(|work| work.kernel == *family) {
                (record.bytes, record.flop) =
                    (Some(work.bytes * record.launches), Some(work.flop * record.launches));
            }
        }
        records.into_iter().map(|(_, record)| record).collect()
    }
}
