//! Device time of one launch, over launches that rotate through sets of buffers.

use std::time::Duration;

use ferrowarp::device::{Device, DeviceError, Graph};

/// Work per graph, so that the cost of replaying is negligible.
const GRAPH: Duration = Duration::from_millis(2);

/// Maximum launches per graph.
const MOST_LAUNCHES: usize = 1000;

/// A longer launch streams far more than a cache holds. It needs no rotation, and no replay before it to hide queueing.
const SLOW: Duration = Duration::from_millis(10);

/// Launches that are ready to be timed, and at least one set.
pub struct Rotation<S> {
    graph: Graph<S>,
    launches: usize,
    /// Whether a launch takes much longer than queueing it, which then need not be hidden; true on the CPU.
    is_slow: bool,
    /// Seconds per launch, of each batch.
    samples: Vec<f64>,
}

impl<S: Send + 'static> Rotation<S> {
    /// Runs `launch` on each set, then records launches for about 2 ms, each set at least once. On the CPU it records one
    /// launch.
    ///
    /// # Errors
    /// A launch failed.
    pub fn new<T>(
        device: &Device,
        mut sets: S,
        launch: impl Fn(&mut T) -> Result<(), DeviceError> + Send + Sync + 'static,
    ) -> Result<Self, DeviceError>
    where
        S: AsMut<[T]>,
    {
        let (mut launches, mut is_slow) = (1, true);
        if device.is_cuda() {
            let (_, once) = device.time(|| launch(&mut sets.as_mut()[0]))?;
            is_slow = once > SLOW;
        }
        if !is_slow {
            let (_, round) = device.time(|| sets.as_mut().iter_mut().try_for_each(&launch))?;
            let count = sets.as_mut().len();
            let rounds = (GRAPH.as_secs_f64() / round.as_secs_f64().max(1e-6)).ceil() as usize;
            launches = rounds.clamp(1, (MOST_LAUNCHES / count).max(1)) * count;
        }
        let graph = device.record(sets, move |_, sets: &mut S| {
            let sets = sets.as_mut();
            let count = sets.len();
            (0..launches).try_for_each(|i| launch(&mut sets[i % count]))
        })?;
        Ok(Rotation { graph, launches, is_slow, samples: Vec::new() })
    }

    /// The time of `launches` launches, scaled from the whole graphs that hold them, in one batch with one synchronisation.
    /// One replay that is not timed runs first, while the timed ones are queued.
    ///
    /// # Errors
    /// A launch failed.
    pub fn time(&mut self, device: &Device, launches: u64) -> Result<Duration, DeviceError> {
        let batches = launches.div_ceil(self.launches as u64).max(1);
        if !self.is_slow {
            self.graph.launch()?;
        }
        let (_, time) = device.time(|| (0..batches).try_for_each(|_| self.graph.launch()))?;
        let one = time.as_secs_f64() / (batches * self.launches as u64) as f64;
        self.samples.push(one);
        Ok(Duration::from_secs_f64(one * launches as f64))
    }

    /// The sets, for other launches.
    pub fn into_sets(self) -> S {
        self.graph.into_state()
    }

    /// The launches of a batch.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Seconds per launch in the last `most` batches; the earlier ones were the warm-up.
    pub fn last_samples(&self, most: usize) -> &[f64] {
        &self.samples[self.samples.len().saturating_sub(most)..]
    }
}
