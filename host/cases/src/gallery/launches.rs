//! What the launch of an empty kernel costs: with a wait for each, queued, and in a graph.

use std::time::Instant;

use cuda_std::launch::RawBuffer;

use ferrowarp::device::DeviceError;
use gpu_kernels::gallery::launches::{Arguments, RUNGS};

use super::prelude::*;
use super::transfers::timed;

/// How the host launches, and whose clock measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It waits for each, by the host's clock.
    Waited,
    /// It queues all and waits once, by the host's clock.
    Queued,
    /// The same, by events.
    Events,
    /// All are in a graph, by events.
    Graph,
}

const WAYS: &[((&str, &str), Way)] = &[
    (("waited", "a wait for each launch, by the host's clock"), Way::Waited),
    (("queued", "one wait for all, by the host's clock"), Way::Queued),
    (("events", "the same by the GPU's clock"), Way::Events),
    (("graph", "in a graph, by the GPU's clock"), Way::Graph),
];

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let counts: &[u32] = match scale {
        Scale::Tiny => &[1],
        Scale::Edges | Scale::Count => &[1, 3],
        Scale::Laptop | Scale::Gpu => &[1, 10, 100, 1000],
    };
    each(WAYS, counts, |&(name, way), count| {
        let words = format!("{count} launches of one thread");
        let trial = Trial::of_host(name, count as usize, words, Work::default(), move |device, runs| {
            run(device, way, count, runs)
        });
        if way != Way::Waited {
            return trial;
        }
        trial.with_kernels(vec![RUNGS[0].kernel.meta.name], || {
            let mut arrays = Arrays::default();
            let out = arrays.changed("out", vec![7u32]);
            let arguments = move |p: &Placed| Arguments { out: p.of(out) };
            // SAFETY: the kernel has no precondition.
            unsafe { arrays.launch(&RUNGS[0], LaunchConfig::new(1, 1), arguments, |_, _| Bound::exact(7.0)) }
        })
    })
}

/// The time per launch, of `count` launches each time.
fn run(device: &Device, way: Way, count: u32, runs: usize) -> Result<Timed> {
    let mut out = device.alloc_zeroed::<u32>(1)?;
    let arguments = Arguments { out: RawBuffer::written(&mut out) };
    let launch = |on: &Device| -> Result<(), DeviceError> {
        // SAFETY: the kernel has no precondition.
        Ok(unsafe { (RUNGS[0].kernel.launch)(on, LaunchConfig::new(1, 1), arguments) }?)
    };
    let all = || (0..count).try_for_each(|_| launch(device));
    let by_host = |work: &dyn Fn() -> Result<(), DeviceError>| {
        let start = Instant::now();
        work()?;
        device.synchronize()?;
        Ok(start.elapsed() / count)
    };
    match way {
        Way::Waited => timed(runs, || {
            by_host(&|| (0..count).try_for_each(|_| launch(device).and_then(|()| device.synchronize())))
        }),
        Way::Queued => timed(runs, || by_host(&all)),
        Way::Events => timed(runs, || Ok(device.time(all)?.1 / count)),
        Way::Graph => {
            let on = device.clone();
            let mut graph = device.record(out, move |_, out| {
                let arguments = Arguments { out: RawBuffer::written(out) };
                (0..count).try_for_each(|_| {
                    // SAFETY: the kernel has no precondition.
                    unsafe { (RUNGS[0].kernel.launch)(&on, LaunchConfig::new(1, 1), arguments) }
                })
            })?;
            timed(runs, || Ok(device.time(|| graph.launch())?.1 / count))
        }
    }
}
