//! Steps of the fused pipeline that are recorded once and queued many times by one call.

use super::core::Shared;
use super::dataset::DeviceDataset;
use super::error::to_u32;
use super::fused;
use super::ops::Queue;
use super::precision::Precision;
use crate::BatchSize;
use ferrowarp::device::{Device, DeviceError, Graph};

/// The most steps of a graph: the host queues up to 320 launches of three layers by one call, and what it wants to do
/// between two steps waits for no more.
const MOST_STEPS: usize = 64;

/// Recorded steps. They begin with the batch that was gathered last and gather the one after theirs; which these are stands
/// in the device's memory, so that one graph serves every epoch.
#[derive(Debug)]
pub(super) struct Recorded {
    graph: Graph<Shared>,
    /// An even number: the two buffers of batches change places at each step, and must stand as they did.
    steps: usize,
    data: DeviceDataset,
    has_momentum: bool,
}

impl Recorded {
    /// How many of the next `steps` steps are recorded, where some are: as few rounds as can be, of one length, with little
    /// left over.
    pub fn steps_of(steps: usize) -> Option<usize> {
        let rounds = steps.div_ceil(MOST_STEPS).max(1);
        Some(steps / (2 * rounds) * 2).filter(|&steps| steps > 0)
    }

    /// Records steps on `data` that have all been launched before.
    pub fn new(
        device: &Device,
        core: &Shared,
        data: &DeviceDataset,
        (precision, batch_size, momentum): (Precision, BatchSize, f32),
        steps: usize,
    ) -> Result<Self, DeviceError> {
        let is_swapped = core.lock().training.ahead.is_swapped;
        let record = |is_programmatic| {
            let (on, of) = (device.clone(), data.clone());
            let graph = device.record(core.clone(), move |_, core: &mut Shared| {
                let (core, queue) =
                    (&mut *core.lock(), Queue { is_programmatic, ..Queue::new(&on, precision) });
                let rows = to_u32("batch size", batch_size.get())?;
                (0..steps).try_for_each(|_| fused::step(queue, core, (&of, batch_size), momentum, rows))
            });
            // Half of a recording has left them as they are not.
            let training = &mut core.lock().training;
            if training.ahead.is_swapped != is_swapped {
                training.swap();
            }
            graph
        };
        // Drivers before CUDA 12.3 record no launch that begins before the one ahead of it has ended.
        let graph = record(true).or_else(|_| record(false))?;
        Ok(Self { graph, steps, data: data.clone(), has_momentum: momentum != 0.0 })
    }

    /// Whether it is made for this, and not too short for `steps` steps.
    pub fn suits(&self, data: &DeviceDataset, momentum: f32, steps: usize) -> bool {
        let is_long = Self::steps_of(steps).is_none_or(|wanted| wanted <= 2 * self.steps);
        self.data.is(data) && self.has_momentum == (momentum != 0.0) && is_long
    }

    /// How many steps it is.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Queues the steps.
    pub fn launch(&mut self) -> Result<(), DeviceError> {
        self.graph.launch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_even_and_leave_little() {
        assert_eq!(
            [0, 1, 2, 3, 31, 64, 65].map(Recorded::steps_of).map(Option::unwrap_or_default),
            [0, 0, 2, 2, 30, 64, 32]
        );
        for steps in 2..5000 {
            let of_round = Recorded::steps_of(steps).unwrap();
            assert!(of_round.is_multiple_of(2) && of_round <= MOST_STEPS);
            assert!(steps % of_round < 2 * steps.div_ceil(MOST_STEPS), "{steps}: {of_round}");
        }
    }
}
