//! Copies batches from the host while the device trains on the previous one.
//!
//! A thread decodes batches alternately into two page-locked buffers, a stream copies them to two device buffers, and events
//! order the copies with the kernels on the default stream.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mlp_kernels::batch::permuted;

use super::epoch::EpochSpec;
use super::error::{ModelError, to_u32};
use super::timeline::Recorder;
use crate::BatchSize;
use ferrowarp_data::{DataError, Samples};
use ferrowarp_device::device::{Buffer, Device, InFlight, PinnedBuffer};

/// The buffers for batches. A batch has the pixels of its samples and then their labels.
#[derive(Debug)]
pub(super) struct Feed {
    halves: [Buffer<u8>; 2],
    /// Two buffers, unless an error has lost them.
    pinned: Vec<PinnedBuffer<u8>>,
}

/// The batches of an epoch on the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostEpoch<'a> {
    samples: &'a Samples,
    len: u32,
    batch_size: usize,
    order: (u64, u32),
}

/// Trains on a batch. Returns whether to continue.
pub(super) type Learn<'a> = dyn FnMut(&Buffer<u8>, Rows) -> Result<ControlFlow<()>, ModelError> + 'a;

/// Samples of an epoch: the first one and their number.
pub(super) type Rows = (u32, u32);

impl<'a> HostEpoch<'a> {
    pub fn new(samples: &'a Samples, spec: &EpochSpec, batch_size: BatchSize) -> Result<Self, ModelError> {
        let len = to_u32("number of samples", samples.len())?;
        Ok(Self { samples, len, batch_size: batch_size.get(), order: (spec.seed, spec.epoch) })
    }

    /// Bytes of a batch.
    pub fn bytes(&self) -> usize {
        self.batch_size * (self.samples.features() + 1)
    }

    /// The batches that begin at samples from `first` to below `until`.
    fn batches(self, first: usize, until: usize) -> impl Iterator<Item = Rows> + Send + use<> {
        let (len, batch_size) = (self.len as usize, self.batch_size);
        let rows = move |first: usize| (first as u32, batch_size.min(len - first) as u32);
        (first..until.min(len)).step_by(batch_size).map(rows)
    }

    /// Decodes samples into memory of the size of a batch.
    pub fn decode(&self, (first, rows): Rows, memory: &mut [u8]) -> Result<(), DataError> {
        let features = self.samples.features();
        let (pixels, labels) = memory.split_at_mut(self.batch_size * features);
        let (seed, epoch) = self.order;
        for (i, (pixels, label)) in (first..first + rows).zip(pixels.chunks_mut(features).zip(labels)) {
            *label = self.samples.decode(permuted(i, self.len, seed, epoch) as usize, pixels)?;
        }
        Ok(())
    }
}

impl Feed {
    /// Allocates buffers for batches of `bytes` bytes.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, ModelError> {
        let halves = [device.alloc_zeroed(bytes)?, device.alloc_zeroed(bytes)?];
        Ok(Self { halves, pinned: Vec::new() })
    }

    /// Whether its batches have `bytes` bytes.
    pub fn suits(&self, bytes: usize) -> bool {
        self.halves[0].len() == bytes
    }

    /// Decodes and copies one batch now.
    pub fn fetch(&mut self, epoch: HostEpoch<'_>, rows: Rows) -> Result<&Buffer<u8>, ModelError> {
        let mut memory = vec![0; epoch.bytes()];
        epoch.decode(rows, &mut memory)?;
        let [half, _] = &mut self.halves;
        half.copy_from(&memory)?;
        Ok(half)
    }

    /// Calls `learn` with each batch that begins at samples from `first` to below `until`, until it returns `Break`. `learn`
    /// must queue its kernels on the default stream; the buffer holds the batch only for them.
    pub fn run(
        &mut self,
        device: &Device,
        epoch: HostEpoch<'_>,
        [first, until]: [usize; 2],
        recorder: &mut Recorder,
        learn: &mut Learn<'_>,
    ) -> Result<(), ModelError> {
        let Self { halves, pinned } = self;
        while pinned.len() < halves.len() {
            pinned.push(device.alloc_pinned(epoch.bytes())?);
        }
        let (copies, kernels) = (device.stream()?, device.default_stream());
        let mut done = [kernels.record()?, kernels.record()?];
        thread::scope(|scope| {
            let (empty, to_fill) = mpsc::channel::<PinnedBuffer<u8>>();
            let (filled, full) = mpsc::channel();
            pinned.drain(..).for_each(|memory| drop(empty.send(memory)));
            let decoder = thread::Builder::new().name("decoder".to_owned()).spawn_scoped(scope, move || {
                for rows in epoch.batches(first, until) {
                    let Ok(mut memory) = to_fill.recv() else { break };
                    let began = Instant::now();
                    let decoded = epoch.decode(rows, &mut memory);
                    if filled.send(decoded.map(|()| (rows, memory, began..Instant::now()))).is_err() {
                        break;
                    }
                }
                to_fill
            });
            let decoder = decoder.map_err(ModelError::Thread)?;

            let mut in_flight: Option<InFlight<PinnedBuffer<u8>>> = None;
            let mut feed = || -> Result<(), ModelError> {
                for half in [0, 1].into_iter().cycle() {
                    // The thread has ended if there is no other batch.
                    let Ok(batch) = full.recv() else { break };
                    let (rows, memory, loaded) = batch?;
                    recorder.loaded(loaded);
                    if let Some(upload) = in_flight.take() {
                        drop(empty.send(upload.wait()?));
                    }
                    copies.wait(&done[half])?;
                    let begun = recorder.begin_copy(&copies)?;
                    in_flight = Some(copies.upload(memory, &mut halves[half])?);
                    recorder.end_copy(begun, &copies)?;
                    kernels.wait(&copies.record()?)?;
                    let begun = recorder.begin(&kernels)?;
                    let flow = learn(&halves[half], rows)?;
                    recorder.end(begun, &kernels, 1)?;
                    done[half] = kernels.record()?;
                    if flow.is_break() {
                        break;
                    }
                }
                Ok(())
            };
            let fed = feed();
            drop(empty);
            match decoder.join() {
                Ok(left) => pinned.extend(left.try_iter()),
                Err(panic) => resume_unwind(panic),
            }
            pinned.extend(full.try_iter().flatten().map(|(_, memory, _)| memory));
            if let Some(upload) = in_flight {
                pinned.extend(upload.wait().ok());
            }
            fed
        })
    }
}
