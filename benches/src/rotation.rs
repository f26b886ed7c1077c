//! Device time of one launch, over launches that take the sets in turns.

use std::time::Duration;

use ferrowarp::device::{Device, DeviceError, Graph};

use crate::matrices::{Set, Sets};

/// Work of a graph, so that what replaying costs is lost in it.
const GRAPH: Duration = Duration::from_millis(2);

/// The most launches a graph holds.
const MOST_LAUNCHES: usize = 1000;

/// A launch longer than this streams far more than a cache holds: no rotation, and nothing before it to hide.
const SLOW: Duration = Duration::from_millis(10);

/// Launches that are ready to be timed.
pub struct Rotation {
    /// None on the CPU.
    graph: Option<Graph>,
    launches: usize,
    is_slow: bool,
    /// Seconds a launch, of each batch.
    samples: Vec<f64>,
}

impl Rotation {
    /// Runs `launch` on each set, then records as many launches as make up about 2 ms, each set at least once.
    ///
    /// # Errors
    /// A launch failed.
    pub fn new<T>(
        device: &Device,
        sets: &mut Sets<T>,
        launch: &dyn Fn(&mut Set<T>) -> Result<(), DeviceError>,
    ) -> Result<Self, DeviceError> {
        let mut rotation = Self { graph: None, launches: 1, is_slow: false, samples: Vec::new() };
        if !device.is_cuda() {
            return Ok(rotation);
        }
        let (_, once) = device.time(|| launch(&mut sets.sets[0]))?;
        rotation.is_slow = once > SLOW;
        if !rotation.is_slow {
            let (_, round) = device.time(|| sets.sets.iter_mut().try_for_each(launch))?;
            let rounds = (GRAPH.as_secs_f64() / round.as_secs_f64().max(1e-6)).ceil() as usize;
            let most = (MOST_LAUNCHES / sets.sets.len()).max(1);
            rotation.launches = rounds.clamp(1, most) * sets.sets.len();
        }
        let count = sets.sets.len();
        let all = || (0..rotation.launches).try_for_each(|i| launch(&mut sets.sets[i % count]));
        rotation.graph = Some(device.record(all)?);
        Ok(rotation)
    }

    /// The time of `launches` launches: as many whole graphs as hold them, in one batch with one synchronisation,
    /// scaled. A graph that is not timed goes first, after which the timed ones are queued.
    ///
    /// # Errors
    /// A launch failed.
    ///
    /// # Safety
    /// The sets are those that the rotation was made with.
    pub unsafe fn time<T>(
        &mut self,
        device: &Device,
        sets: &mut Sets<T>,
        launch: &dyn Fn(&mut Set<T>) -> Result<(), DeviceError>,
        launches: u64,
    ) -> Result<Duration, DeviceError> {
        let batches = launches.div_ceil(self.launches as u64).max(1);
        let time = match &self.graph {
            // SAFETY: the graph's buffers are those of the caller's sets, which are borrowed, and so free and alive.
            Some(graph) => unsafe {
                if !self.is_slow {
                    graph.launch()?;
                }
                device.time(|| (0..batches).try_for_each(|_| graph.launch()))?.1
            },
            None => device.time(|| (0..batches).try_for_each(|_| launch(&mut sets.sets[0])))?.1,
        };
        let one = time.as_secs_f64() / (batches * self.launches as u64) as f64;
        self.samples.push(one);
        Ok(Duration::from_secs_f64(one * launches as f64))
    }

    /// Launches that a batch is made of.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Seconds a launch in the last `most` batches; those before them were to warm up.
    pub fn last_samples(&self, most: usize) -> &[f64] {
        &self.samples[self.samples.len().saturating_sub(most)..]
    }
}
