//! Memory shared by host and device: first touch, and advice for the driver.

mod predictions;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cuda_std::launch::{Instance, RawBuffer};
use ferrowarp::device::{Advice, Device, DeviceError, Place, UnifiedBuffer};
use gpu_kernels::gallery::Grid;
use gpu_kernels::gallery::unified::{Arguments, COALESCED, Kernels, PAGES, X, Y};

use super::transfers::timed;
use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Timed, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "unified",
    title: "Unified memory",
    axis: Axis { label: "bytes touched", is_log: true },
    measure: Measure::Bytes,
    rungs: || {
        let of_part = |part: Part| {
            let ideas = WAYS.iter().filter_map(move |way| Some(((part.name)(way)?, (part.idea)(way))));
            ideas.collect::<Vec<_>>()
        };
        PARTS.iter().copied().flat_map(of_part).collect()
    },
    trials,
    predictions: predictions::predictions,
};

/// A way to provide a kernel's data.
struct Way {
    /// The rung that times the adding kernel.
    add: &'static str,
    /// The rung that times the filling kernel, if the way has one.
    fill: Option<&'static str>,
    /// The rung that times everything, from the first touch to the last.
    all: &'static str,
    idea: &'static str,
    kernels: &'static Kernels,
    /// Whether tests run the kernels of this way on ordinary memory, for all ways with the same kernels.
    is_case: bool,
    memory: Memory,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// A device buffer, with copies.
    Copied,
    /// Unified, filled by the host, followed by this.
    ByHost(Then),
    /// Unified, filled by a kernel.
    ByKernel,
}

/// The advice for the driver between the host's writes and the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Prefetch,
    /// `x` is mostly read, and `y` belongs to the device.
    Advise,
    /// Both stay in place, and the device accesses them remotely.
    Map,
}

const WAYS: &[Way] = &[
    Way {
        add: "copied",
        fill: Some("copied_fill"),
        all: "copied_all",
        idea: "a device's buffers and copies",
        kernels: &COALESCED,
        is_case: true,
        memory: Memory::Copied,
    },
    Way {
        add: "naive",
        fill: None,
        all: "naive_all",
        idea: "unified, filled by the host",
        kernels: &COALESCED,
        is_case: false,
        memory: Memory::ByHost(Then::Nothing),
    },
    Way {
        add: "initialised",
        fill: Some("initialised_fill"),
        all: "initialised_all",
        idea: "unified, filled by a kernel",
        kernels: &COALESCED,
        is_case: false,
        memory: Memory::ByKernel,
    },
    Way {
        add: "warp_page",
        fill: Some("warp_page_fill"),
        all: "warp_page_all",
        idea: "unified, filled by a kernel, a warp a page",
        kernels: &PAGES,
        is_case: true,
        memory: Memory::ByKernel,
    },
    Way {
        add: "prefetched",
        fill: None,
        all: "prefetched_all",
        idea: "unified, filled by the host, and prefetched",
        kernels: &COALESCED,
        is_case: false,
        memory: Memory::ByHost(Then::Prefetch),
    },
    Way {
        add: "advised",
        fill: None,
        all: "advised_all",
        idea: "unified, filled by the host: x mostly read, y at home on the device",
        kernels: &COALESCED,
        is_case: false,
        memory: Memory::ByHost(Then::Advise),
    },
    Way {
        add: "mapped",
        fill: None,
        all: "mapped_all",
        idea: "unified, filled by the host: both stay there, mapped for the device",
        kernels: &COALESCED,
        is_case: false,
        memory: Memory::ByHost(Then::Map),
    },
];

/// The timed part of a way.
#[derive(Clone, Copy)]
struct Part {
    name: fn(&Way) -> Option<&'static str>,
    idea: fn(&Way) -> &'static str,
    /// Bytes that it reads and writes per element.
    bytes: usize,
    time: fn(&Times) -> Duration,
    words: &'static str,
}

const PARTS: [Part; 3] = [
    Part {
        name: |way| Some(way.add),
        idea: |way| way.idea,
        bytes: 12,
        time: |times| times.add,
        words: "the kernel that adds",
    },
    Part {
        name: |way| way.fill,
        idea: |way| way.idea,
        bytes: 8,
        time: |times| times.fill,
        words: "the kernel that fills",
    },
    Part {
        name: |way| Some(way.all),
        idea: |way| way.idea,
        bytes: 24,
        time: |times| times.all,
        words: "fill, add, and the host's sum of y",
    },
];

/// The times of a run's parts.
struct Times {
    fill: Duration,
    add: Duration,
    all: Duration,
}

fn trials(scale: Scale) -> Vec<Trial> {
    let len = match scale {
        Scale::Tiny => 40,
        // A page of the page kernels, and part of one.
        Scale::Edges => 16_384 + 1_029,
        Scale::Count => 32_768,
        Scale::Laptop => 1 << 20,
        Scale::Gpu => 1 << 25,
    };
    let trial = |part: Part, way: &'static Way| Some(trial(way, part, (part.name)(way)?, len));
    PARTS.iter().flat_map(|&part| WAYS.iter().filter_map(move |way| trial(part, way))).collect()
}

fn trial(way: &'static Way, part: Part, name: &'static str, len: usize) -> Trial {
    let bytes = part.bytes * len;
    let sectors = len.div_ceil(8) as f64;
    // As on ordinary memory: both are stored, then read, and the sum is stored.
    let work = Work::of_bytes(bytes as f64).with_sectors(2.0 * sectors, 3.0 * sectors);
    let words = format!("{len} elements: {}", part.words);
    let trial = Trial::of_host(name, bytes as f64, words, work, move |device, runs| {
        let asked = 2 * len * size_of::<f32>();
        if let Some(free) = device.free_bytes()?.filter(|free| asked > free / 4) {
            return Ok(Timed::Lacking(format!(
                "{asked} bytes are over a quarter of the {free} that are free"
            )));
        }
        // Each run allocates, because touched memory already has a location.
        match timed(runs.min(5), || Ok((part.time)(&run(device, way, len)?))) {
            Err(error) => match error.downcast_ref::<DeviceError>() {
                Some(lack @ DeviceError::NoUnifiedMemory { .. }) => Ok(Timed::Lacking(lack.to_string())),
                _ => Err(error),
            },
            times => times,
        }
    });
    if !way.is_case || part.words != PARTS[0].words {
        return trial;
    }
    let Kernels { fill, add } = way.kernels;
    trial.with_kernels(vec![fill.meta.name, add.meta.name], move || {
        let mut arrays = Arrays::default();
        let (x, y) = (arrays.output("x", len), arrays.output("y", len));
        Problem::new(
            arrays,
            move |on, placed| {
                for kernel in [fill, add] {
                    let arguments = Arguments { x: placed.of(x), y: placed.of(y), len: len as u32 };
                    // SAFETY: there are as many threads as the kernel needs, and `len` elements in both.
                    unsafe { (kernel.launch)(on, (kernel.facts.config)(len), arguments) }?;
                }
                Ok(())
            },
            |name, _| Bound::exact(if name == "x" { X.into() } else { f64::from(X) + f64::from(Y) }),
        )
    })
}

/// Launches a kernel on both, and returns its device time.
fn launch(
    device: &Device,
    kernel: &Instance<Arguments, Grid>,
    [x, y]: [RawBuffer<f32>; 2],
    len: usize,
) -> Result<Duration> {
    let arguments = Arguments { x, y, len: len as u32 };
    // SAFETY: there are as many threads as the kernel needs, and `len` elements in both, which the caller holds.
    let work = || unsafe { (kernel.launch)(device, (kernel.facts.config)(len), arguments) };
    Ok(device.time(work)?.1)
}

/// Checks all elements of the result on the host.
fn check(y: &[f32]) -> Result<()> {
    let wrong = y.iter().filter(|&&sum| sum != X + Y).count();
    ensure!(wrong == 0, "{wrong} of {} sums are not {}", y.len(), X + Y);
    Ok(())
}

/// Fills both, adds them, and sums up the result.
fn run(device: &Device, way: &Way, len: usize) -> Result<Times> {
    match way.memory {
        Memory::Copied => copied(device, way.kernels, len),
        Memory::ByHost(then) => by_host(device, way.kernels, then, len),
        Memory::ByKernel => by_kernel(device, way.kernels, len),
    }
}

fn copied(device: &Device, kernels: &Kernels, len: usize) -> Result<Times> {
    let (mut x, mut y) = (device.alloc_zeroed::<f32>(len)?, device.alloc_zeroed::<f32>(len)?);
    let raw = [RawBuffer::written(&mut x), RawBuffer::written(&mut y)];
    let fill = launch(device, kernels.fill, raw, len)?;
    let mut host = [vec![0.0f32; len], vec![0.0f32; len]];
    let start = Instant::now();
    host[0].fill(X);
    host[1].fill(Y);
    x.copy_from(&host[0])?;
    y.copy_from(&host[1])?;
    let add = launch(device, kernels.add, raw, len)?;
    y.copy_to(&mut host[1])?;
    check(&host[1])?;
    Ok(Times { fill, add, all: start.elapsed() })
}

/// Unified memory that has not been touched.
fn untouched(device: &Device, len: usize) -> Result<[UnifiedBuffer<f32>; 2]> {
    // SAFETY: the callers fill both, by the host or a kernel, before they are read.
    let [x, y] = [(); 2].map(|()| unsafe { device.alloc_unified_unwritten::<f32>(len) });
    Ok([x?, y?])
}

fn raw([x, y]: &mut [UnifiedBuffer<f32>; 2]) -> Result<[RawBuffer<f32>; 2]> {
    Ok([RawBuffer::written(x.view_mut(..)?), RawBuffer::written(y.view_mut(..)?)])
}

fn by_host(device: &Device, kernels: &Kernels, then: Then, len: usize) -> Result<Times> {
    let mut both = untouched(device, len)?;
    let start = Instant::now();
    both[0].host_mut()?.fill(X);
    both[1].host_mut()?.fill(Y);
    let stream = device.default_stream();
    match then {
        Then::Nothing => {}
        Then::Prefetch => both.iter().try_for_each(|buffer| buffer.prefetch(.., Place::Device, &stream))?,
        Then::Advise => {
            both[0].advise(.., Advice::ReadMostly)?;
            both[1].advise(.., Advice::PreferredPlace(Place::Device))?;
        }
        Then::Map => both.iter().try_for_each(|buffer| {
            buffer.advise(.., Advice::PreferredPlace(Place::Host))?;
            buffer.advise(.., Advice::AccessedBy(Place::Device))
        })?,
    }
    let raw = raw(&mut both)?;
    let add = launch(device, kernels.add, raw, len)?;
    if then == Then::Prefetch {
        both[1].prefetch(.., Place::Host, &stream)?;
    }
    check(both[1].host()?)?;
    Ok(Times { fill: Duration::ZERO, add, all: start.elapsed() })
}

fn by_kernel(device: &Device, kernels: &Kernels, len: usize) -> Result<Times> {
    let mut both = untouched(device, len)?;
    let raw = raw(&mut both)?;
    let start = Instant::now();
    let fill = launch(device, kernels.fill, raw, len)?;
    let add = launch(device, kernels.add, raw, len)?;
    check(both[1].host()?)?;
    Ok(Times { fill, add, all: start.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_sum_is_found() {
        check(&[X + Y; 4]).unwrap();
        assert_eq!(check(&[X + Y, 0.0]).unwrap_err().to_string(), "1 of 2 sums are not 3");
    }
}
