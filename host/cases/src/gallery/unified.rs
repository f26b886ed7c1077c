//! Memory shared by host and device: first touch, and advice for the driver.

use std::time::Instant;

use anyhow::ensure;
use cuda_std::launch::RawBuffer;
use ferrowarp::device::{Advice, DeviceError, Place, UnifiedBuffer};
use gpu_kernels::gallery::unified::{Arguments, RUNGS, X, Y};

use super::prelude::*;
use super::transfers::timed;

/// A way to provide a kernel's data.
struct Way {
    /// The rungs that time the adding kernel, the filling kernel, and everything from the first touch to the last; the host
    /// fills where the second is missing.
    names: [Option<&'static str>; 3],
    idea: &'static str,
    kernels: Kernels,
    memory: Memory,
}

/// A kernel that fills, and one that adds.
type Kernels = [&'static Rung<Arguments>; 2];

/// One element per thread, and one page per warp.
const COALESCED: Kernels = [&RUNGS[0], &RUNGS[1]];
const PAGES: Kernels = [&RUNGS[2], &RUNGS[3]];

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

const WAYS: &[Way] = &{
    use Memory::{ByHost, ByKernel, Copied};
    use Then::{Advise, Map, Nothing, Prefetch};
    const fn way(names: [&'static str; 3], idea: &'static str, kernels: Kernels, memory: Memory) -> Way {
        let [add, fill, all] = names;
        let fill = if fill.is_empty() { None } else { Some(fill) };
        Way { names: [Some(add), fill, Some(all)], idea, kernels, memory }
    }
    [
        way(["copied", "copied_fill", "copied_all"], "a device's buffers and copies", COALESCED, Copied),
        way(["naive", "", "naive_all"], "unified, filled by the host", COALESCED, ByHost(Nothing)),
        way(
            ["initialised", "initialised_fill", "initialised_all"],
            "unified, filled by a kernel",
            COALESCED,
            ByKernel,
        ),
        way(
            ["warp_page", "warp_page_fill", "warp_page_all"],
            "unified, filled by a kernel, a warp a page",
            PAGES,
            ByKernel,
        ),
        way(
            ["prefetched", "", "prefetched_all"],
            "unified, filled by the host, and prefetched",
            COALESCED,
            ByHost(Prefetch),
        ),
        way(
            ["advised", "", "advised_all"],
            "unified, filled by the host: x mostly read, y at home on the device",
            COALESCED,
            ByHost(Advise),
        ),
        way(
            ["mapped", "", "mapped_all"],
            "unified, filled by the host: both stay there, mapped for the device",
            COALESCED,
            ByHost(Map),
        ),
    ]
};

/// The timed part of a way, in the order of its names: the bytes that it reads and writes per element, and its words.
const PARTS: [(usize, &str); 3] =
    [(12, "the kernel that adds"), (8, "the kernel that fills"), (24, "fill, add, and the host's sum of y")];

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let len = match scale {
        Scale::Tiny => 40,
        // A page of the page kernels, and part of one.
        Scale::Edges => 16_384 + 1_029,
        Scale::Count => 32_768,
        Scale::Laptop => 1 << 20,
        Scale::Gpu => 1 << 25,
    };
    let of_part =
        |part: usize| WAYS.iter().filter_map(move |way| Some(trial(way, way.names[part]?, part, len)));
    (0..PARTS.len()).flat_map(of_part).collect()
}

fn trial(way: &'static Way, name: &'static str, part: usize, len: usize) -> Trial {
    let (each, words) = PARTS[part];
    let sectors = len.div_ceil(8);
    // As on ordinary memory: both are stored, then read, and the sum is stored.
    let work = Work::of_bytes(each * len).with_sectors(2 * sectors, 3 * sectors);
    let words = format!("{len} elements: {words}");
    let trial = Trial::of_host((name, way.idea), each * len, words, work, move |device, runs| {
        let asked = 2 * len * size_of::<f32>();
        if let Some(free) = device.free_bytes()?.filter(|free| asked > free / 4) {
            return Ok(Timed::Lacking(format!(
                "{asked} bytes are over a quarter of the {free} that are free"
            )));
        }
        // Each run allocates, because touched memory already has a location.
        or_lacking(timed(runs.min(5), || Ok(run(device, way, len)?[part])))
    });
    // Tests run the kernels on ordinary memory, once for all ways with the same kernels.
    if part > 0 || !["copied", "warp_page"].contains(&name) {
        return trial;
    }
    trial.with_kernels(way.kernels.map(|rung| rung.kernel.meta.name).into(), move || {
        let mut arrays = Arrays::default();
        let (x, y) = (arrays.output("x", len), arrays.output("y", len));
        let launch = move |on: &dyn Launcher, p: &Placed| {
            way.kernels.iter().try_for_each(|rung| {
                let arguments = Arguments { x: p.of(x), y: p.of(y), len: len as u32 };
                // SAFETY: there are as many threads as the kernel needs, and `len` elements in both.
                unsafe { (rung.kernel.launch)(on, (rung.kernel.config)(len), arguments) }
            })
        };
        Problem::new(arrays, launch, |name, _| {
            Bound::exact(if name == "x" { X.into() } else { f64::from(X) + f64::from(Y) })
        })
    })
}

/// A device without unified memory lacks a feature.
pub(super) fn or_lacking(times: Result<Timed>) -> Result<Timed> {
    match times {
        Err(error) => match error.downcast_ref::<DeviceError>() {
            Some(lack @ DeviceError::NoUnifiedMemory { .. }) => Ok(Timed::Lacking(lack.to_string())),
            _ => Err(error),
        },
        times => times,
    }
}

/// Launches a kernel on both, and returns its device time.
fn launch(
    device: &Device,
    rung: &Rung<Arguments>,
    [x, y]: [RawBuffer<f32>; 2],
    len: usize,
) -> Result<Duration> {
    let arguments = Arguments { x, y, len: len as u32 };
    // SAFETY: there are as many threads as the kernel needs, and `len` elements in both, which the caller holds.
    let work = || unsafe { (rung.kernel.launch)(device, (rung.kernel.config)(len), arguments) };
    Ok(device.time(work)?.1)
}

/// Checks all elements of the result on the host.
fn check(y: &[f32]) -> Result<()> {
    let wrong = y.iter().filter(|&&sum| sum != X + Y).count();
    ensure!(wrong == 0, "{wrong} of {} sums are not {}", y.len(), X + Y);
    Ok(())
}

/// Fills both, adds them, and sums up the result. Returns the times of the parts.
fn run(device: &Device, Way { kernels, memory, .. }: &Way, len: usize) -> Result<[Duration; 3]> {
    match *memory {
        Memory::Copied => copied(device, kernels, len),
        Memory::ByHost(then) => by_host(device, kernels, then, len),
        Memory::ByKernel => by_kernel(device, kernels, len),
    }
}

fn copied(device: &Device, [fill, add]: &Kernels, len: usize) -> Result<[Duration; 3]> {
    let (mut x, mut y) = (device.alloc_zeroed::<f32>(len)?, device.alloc_zeroed::<f32>(len)?);
    let raw = [RawBuffer::written(&mut x), RawBuffer::written(&mut y)];
    let fill = launch(device, fill, raw, len)?;
    let mut host = [vec![0.0f32; len], vec![0.0f32; len]];
    let start = Instant::now();
    host[0].fill(X);
    host[1].fill(Y);
    x.copy_from(&host[0])?;
    y.copy_from(&host[1])?;
    let add = launch(device, add, raw, len)?;
    y.copy_to(&mut host[1])?;
    check(&host[1])?;
    Ok([add, fill, start.elapsed()])
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

fn by_host(device: &Device, [_, add]: &Kernels, then: Then, len: usize) -> Result<[Duration; 3]> {
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
    let add = launch(device, add, raw, len)?;
    if then == Then::Prefetch {
        both[1].prefetch(.., Place::Host, &stream)?;
    }
    check(both[1].host()?)?;
    Ok([add, Duration::ZERO, start.elapsed()])
}

fn by_kernel(device: &Device, [fill, add]: &Kernels, len: usize) -> Result<[Duration; 3]> {
    let mut both = untouched(device, len)?;
    let raw = raw(&mut both)?;
    let start = Instant::now();
    let fill = launch(device, fill, raw, len)?;
    let add = launch(device, add, raw, len)?;
    check(both[1].host()?)?;
    Ok([add, fill, start.elapsed()])
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
