//! The launches queued on a device since its last synchronisation. A fault comes from one of them.

use std::collections::BTreeMap;
use std::fmt;

use cuda_std::launch::{KernelCall, LaunchConfig};

/// The most distinct launches that are kept. A training step has about twenty.
const KEPT: usize = 64;

/// One launch.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use ferrowarp::device::Launch;
///
/// let launch = Launch { kernel: "saxpy", config: LaunchConfig::cover(1000, 256) };
/// assert!(launch.to_string().starts_with("saxpy (grid (4, 1, 1), block (256, 1, 1)"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The kernel.
    pub kernel: &'static str,
    /// Its grid, block, dynamic shared memory and cluster.
    pub config: LaunchConfig,
}

impl Launch {
    pub(super) fn of(call: &KernelCall<'_>) -> Launch {
        Launch { kernel: call.meta.name, config: call.config }
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LaunchConfig { grid, block, shared_bytes, cluster, .. } = self.config;
        write!(
            f,
            "{} (grid {grid}, block {block}, {shared_bytes} bytes of dynamic shared memory, clusters of {cluster})",
            self.kernel
        )
    }
}

/// The resources that a kernel needs.
///
/// ```
/// use ferrowarp::device::KernelNeeds;
///
/// let needs = KernelNeeds { registers: 72, static_shared: 0, local: 0, max_threads: 896 };
/// assert!(needs.to_string().starts_with("72 registers"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelNeeds {
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Static shared memory per block in bytes.
    pub static_shared: u32,
    /// Local memory per thread in bytes.
    pub local: u32,
    /// The most threads per block for which the registers suffice.
    pub max_threads: u32,
}

impl fmt::Display for KernelNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registers, static_shared, local, max_threads } = self;
        write!(
            f,
            "{registers} registers and {local} bytes of local memory a thread, {static_shared} bytes of static shared \
             memory, and blocks of at most {max_threads} threads"
        )
    }
}

/// Distinct launches: programs repeat the same few. Noting a launch does not allocate.
#[derive(Debug)]
pub(super) struct Launches {
    kept: Vec<Launch>,
    /// The expected index of the next launch, if the program repeats itself.
    next: usize,
    /// The number of launches that found no room.
    others: u64,
    /// The number of all launches.
    count: u64,
}

impl Default for Launches {
    fn default() -> Self {
        Launches { kept: Vec::with_capacity(KEPT), next: 0, others: 0, count: 0 }
    }
}

impl Launches {
    pub fn note(&mut self, launch: Launch) {
        self.count += 1;
        self.keep(launch);
    }

    /// Notes the launches of a graph.
    pub fn note_all(&mut self, launches: &Launches) {
        launches.kept.iter().for_each(|&launch| self.keep(launch));
        self.count += launches.count;
        self.others += launches.others;
    }

    fn keep(&mut self, launch: Launch) {
        let found = match self.kept.get(self.next) {
            Some(&next) if next == launch => Some(self.next),
            _ => self.kept.iter().position(|&kept| kept == launch),
        };
        match found {
            Some(at) => self.next = (at + 1) % self.kept.len(),
            None if self.kept.len() < KEPT => {
                self.kept.push(launch);
                self.next = 0;
            }
            None => self.others += 1,
        }
    }

    /// The distinct launches in the order of their first appearance.
    pub fn kept(&self) -> &[Launch] {
        &self.kept
    }

    /// The number of launches that found no room in [`Self::kept`].
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The number of all launches.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn clear(&mut self) {
        self.kept.clear();
        (self.next, self.others, self.count) = (0, 0, 0);
    }
}

/// The launches of each stream since the host last saw the stream's work end.
#[derive(Debug, Default)]
pub(super) struct QueuedLaunches {
    streams: BTreeMap<u32, Launches>,
}

impl QueuedLaunches {
    /// The launches of one stream.
    pub fn on(&mut self, stream: u32) -> &mut Launches {
        self.streams.entry(stream).or_default()
    }

    /// The number of launches on all streams.
    pub fn count(&self) -> u64 {
        self.streams.values().map(Launches::count).sum()
    }

    /// The launches of all streams.
    pub fn all(&self) -> Launches {
        let mut all = Launches::default();
        self.streams.values().for_each(|launches| all.note_all(launches));
        all
    }

    pub fn clear(&mut self) {
        self.streams.values_mut().for_each(Launches::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(kernel: &'static str, blocks: u32) -> Launch {
        Launch { kernel, config: LaunchConfig::new(blocks, 32) }
    }

    #[test]
    fn repeated_launches_are_kept_once() {
        let mut launches = Launches::default();
        for _ in 0..1000 {
            for (kernel, blocks) in [("a", 1), ("b", 1), ("a", 2), ("a", 1)] {
                launches.note(launch(kernel, blocks));
            }
        }
        assert_eq!(launches.kept(), [launch("a", 1), launch("b", 1), launch("a", 2)]);
        assert_eq!((launches.count(), launches.others()), (4000, 0));
        launches.clear();
        assert_eq!((launches.kept().len(), launches.count()), (0, 0));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_is_allocated() {
        let mut launches = Launches::default();
        let room = launches.kept.capacity();
        (0..100).for_each(|blocks| launches.note(launch("a", blocks + 1)));
        assert_eq!((launches.kept().len(), launches.others(), launches.count()), (64, 36, 100));
        assert_eq!(launches.kept.capacity(), room);

        let mut more = Launches::default();
        more.note(launch("b", 1));
        more.note_all(&launches);
        assert_eq!((more.kept().len(), more.count(), more.others()), (64, 101, 37));
    }

    #[test]
    fn a_stream_that_has_ended_leaves_the_others_launches() {
        let mut queued = QueuedLaunches::default();
        queued.on(0).note(launch("a", 1));
        queued.on(2).note(launch("b", 1));
        queued.on(2).note(launch("b", 1));
        assert_eq!((queued.count(), queued.all().kept().len()), (3, 2));
        queued.on(2).clear();
        assert_eq!((queued.count(), queued.all().kept()), (1, &[launch("a", 1)][..]));
        queued.clear();
        assert_eq!(queued.count(), 0);
    }

    #[test]
    fn a_launch_is_told_whole() {
        let launch = Launch {
            kernel: "sum",
            config: LaunchConfig::new((4, 2), 128).with_shared_bytes(64).with_cluster(2),
        };
        assert_eq!(
            launch.to_string(),
            "sum (grid (4, 2, 1), block (128, 1, 1), 64 bytes of dynamic shared memory, clusters of 2)"
        );
    }
}
