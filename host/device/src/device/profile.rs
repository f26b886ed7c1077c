//! Measures how long a program's launches take, per kernel, and what the GPU could do in that time.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What one call launches.
///
/// ```
/// use ferrowarp::device::Launched;
///
/// assert_eq!(Launched::Kernel("saxpy").to_string(), "saxpy");
/// assert_eq!(Launched::Graph { launches: 310 }.to_string(), "graph of 310 launches");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launched {
    /// A kernel.
    Kernel(&'static str),
    /// A [`Graph`](super::Graph).
    Graph {
        /// The number of kernel launches in it.
        launches: u64,
    },
}

impl fmt::Display for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Launched::Kernel(name) => f.write_str(name),
            Launched::Graph { launches } => write!(f, "graph of {launches} launches"),
        }
    }
}

/// How often a kernel or a graph was launched, and the total time.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::{kernel, thread};
/// use ferrowarp::device::{Device, LaunchTimes, Launched};
///
/// /// # Safety
/// /// A thread for each element.
/// #[kernel]
/// pub unsafe fn count_up(out: *mut u32) {
///     unsafe { *out.add(thread::index_1d() as usize) += 1 };
/// }
///
/// let device = Device::cpu();
/// let mut numbers = device.alloc_zeroed::<u32>(32)?;
/// device.start_profile();
/// for _ in 0..3 {
///     // SAFETY: 32 threads and elements.
///     unsafe { count_up::launch(&device, LaunchConfig::new(1, 32), &mut numbers)? };
/// }
/// let [LaunchTimes { what, launches, time }] = device.take_profile()[..] else { panic!("one kernel") };
/// assert_eq!((what, launches), (Launched::Kernel("count_up"), 3));
/// println!("{:?} a launch", time / 3);
/// # Ok::<(), ferrowarp::device::DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchTimes {
    /// The kernel or graph.
    pub what: Launched,
    /// The number of launches.
    pub launches: u64,
    /// Their total time, by the GPU's clock or, on the CPU, the host's.
    pub time: Duration,
}

/// The peak rates of a GPU, computed from its clocks.
///
/// ```
/// use ferrowarp::device::{Device, Peaks};
///
/// assert_eq!(Device::cpu().peaks()?, None);
/// let peaks = Peaks { flops: 60e12, bytes_per_second: 4e12 };
/// // 1 MB takes 250 ns, whatever is computed meanwhile.
/// assert_eq!(peaks.least_seconds(1_000_000, 1_000_000), 250e-9);
/// # Ok::<(), ferrowarp::device::DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// `f32` additions and multiplications per second, without tensor cores.
    pub flops: f64,
    /// Bytes that its memory reads or writes per second.
    pub bytes_per_second: f64,
}

impl Peaks {
    /// The least seconds for these bytes and operations, by the roofline model (Williams, Waterman and Patterson 2009).
    pub fn least_seconds(&self, bytes: u64, flop: u64) -> f64 {
        (bytes as f64 / self.bytes_per_second).max(flop as f64 / self.flops)
    }
}

/// The times of launches since the profile was started.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub is_on: AtomicBool,
    pub times: Mutex<Vec<LaunchTimes>>,
}

impl Profile {
    pub(super) fn note(&self, what: Launched, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        match times.iter_mut().find(|times| times.what == what) {
            Some(times) => {
                times.launches += 1;
                times.time += time;
            }
            None => times.push(LaunchTimes { what, launches: 1, time }),
        }
    }
}
