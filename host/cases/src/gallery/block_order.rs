//! The order of blocks and warps.

use cuda_std::launch::{LaunchConfig, RawBuffer};
use ferrowarp::device::Device;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::block_order::{Arguments, RUNGS, Unit};
use gpu_kernels::gallery::overlap::{FACTOR, SUMMAND};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Timeline, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "block_order",
    title: "The order of blocks and warps",
    axis: Axis { label: "blocks", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Blocks, threads per block, and steps per thread.
#[derive(Clone, Copy)]
struct Size {
    blocks: usize,
    threads: usize,
    rounds: u32,
}

/// Cycles of a block of 1024 threads with 1000 multiply-adds each; a multiprocessor does 64 per cycle.
const BLOCK: f64 = 1024.0 * 1000.0 / 64.0;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::cycles("blocks", 3.0 * 2.0 * BLOCK)
            .from("3 waves of 2 blocks, 16,000 cycles per block")
            .why(
                "There is no wave here. One block of 1024 threads already keeps the multipliers busy, so two blocks at once take \
                 twice as long, and one block left alone takes half.",
            ),
        Prediction::cycles("blocks", 5.0 * BLOCK)
            .from("5 blocks per multiprocessor, 16,000 cycles each")
            .elsewhere("out of order, not timed", "learning_cuda")
            .why("Work per multiprocessor is what counts. The launch and the last stores come on top."),
        Prediction::cycles("warps", 256.0 * 1000.0 / 64.0)
            .from("256 threads of 1000 multiply-adds, 64 per cycle")
            .elsewhere("out of order, not timed", "learning_cuda")
            .why("Two warps per scheduler do not quite hide the latency, and a launch takes about a microsecond on its own."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let size = |blocks, threads, rounds| Size { blocks, threads, rounds };
    // On an H200 the first rung's last problem is two and a half waves of blocks: two of them fill a multiprocessor.
    let [of_blocks, of_warps] = match scale {
        Scale::Tiny => [size(2, 32, 3), size(1, 64, 3)],
        Scale::Edges => [size(7, 64, 5), size(3, 96, 5)],
        Scale::Count => [size(8, 64, 10), size(4, 128, 10)],
        Scale::Laptop => [size(64, 1024, 100), size(16, 256, 100)],
        Scale::Gpu => [size(660, 1024, 1000), size(132, 256, 1000)],
    };
    let of = |rung: &'static Rung<Arguments, Unit>| match rung.kernel.facts {
        Unit::Block => trial(rung, of_blocks),
        Unit::Warp => trial(rung, of_warps),
    };
    RUNGS.iter().map(of).collect()
}

/// The number of notes that each block of `threads` threads writes.
fn of_block(unit: Unit, threads: usize) -> usize {
    match unit {
        Unit::Block => 1,
        Unit::Warp => threads / 32,
    }
}

fn trial(rung: &'static Rung<Arguments, Unit>, size @ Size { blocks, threads, rounds }: Size) -> Trial {
    let (len, units) = (blocks * threads, blocks * of_block(rung.kernel.facts, threads));
    // Each thread stores its result. In addition, each unit makes four stores.
    let work = Work::of_bytes(4.0 * len as f64).with_sectors(0.0, (len / 8 + 4 * units) as f64);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let words = format!("{blocks} blocks of {threads} threads, {rounds} steps");
    let config = LaunchConfig::new(blocks as u32, threads as u32);
    let trial = Trial::new(name, blocks as f64, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", len);
        let multiprocessors = arrays.scratch("multiprocessors", vec![0u32; units]);
        let tickets = arrays.scratch("tickets", vec![0u32; units]);
        let starts = arrays.scratch("starts", vec![0u64; units]);
        let ends = arrays.scratch("ends", vec![0u64; units]);
        let next = arrays.scratch("next", vec![0u32; 1]);
        Problem::new(
            arrays,
            move |on, placed| {
                let arguments = Arguments {
                    out: placed.of(out),
                    multiprocessors: placed.of(multiprocessors),
                    tickets: placed.of(tickets),
                    starts: placed.of(starts),
                    ends: placed.of(ends),
                    next: placed.of(next),
                    rounds,
                };
                // SAFETY: there is one element per thread, and notes for each block or warp.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let step = |x: u32, _| x.wrapping_mul(FACTOR).wrapping_add(SUMMAND);
                Bound::exact((0..rounds).fold(i as u32, step).into())
            },
        )
    });
    trial.with_timeline(move |device| watch(device, rung, size))
}

/// Runs one launch, and reads the notes of its blocks or warps.
fn watch(
    device: &Device,
    rung: &'static Rung<Arguments, Unit>,
    Size { blocks, threads, rounds }: Size,
) -> anyhow::Result<Timeline> {
    let unit = rung.kernel.facts;
    let of_block = of_block(unit, threads);
    let units = blocks * of_block;
    let mut out = device.alloc_zeroed::<u32>(blocks * threads)?;
    let [mut multiprocessors, mut tickets] = [device.alloc_zeroed(units)?, device.alloc_zeroed(units)?];
    let [mut starts, mut ends] = [device.alloc_zeroed(units)?, device.alloc_zeroed(units)?];
    // Launches twice and keeps the second timeline: the first launch may wait for the kernel's code to be loaded.
    for _ in 0..2 {
        let mut next = device.alloc_zeroed(1)?;
        let arguments = Arguments {
            out: RawBuffer::written(&mut out),
            multiprocessors: RawBuffer::written(&mut multiprocessors),
            tickets: RawBuffer::written(&mut tickets),
            starts: RawBuffer::written(&mut starts),
            ends: RawBuffer::written(&mut ends),
            next: RawBuffer::written(&mut next),
            rounds,
        };
        // SAFETY: there is one element per thread, and notes for each block or warp.
        unsafe { (rung.kernel.launch)(device, LaunchConfig::new(blocks as u32, threads as u32), arguments) }?;
        device.synchronize()?;
    }
    let timeline = Timeline {
        unit: match unit {
            Unit::Block => "block",
            Unit::Warp => "warp",
        },
        of_block,
        multiprocessors: multiprocessors.to_vec()?,
        tickets: tickets.to_vec()?,
        starts: starts.to_vec()?,
        ends: ends.to_vec()?,
    };
    timeline.checked()
}
