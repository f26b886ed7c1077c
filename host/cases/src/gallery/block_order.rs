//! The order of blocks and warps.

use cuda_std::launch::RawBuffer;
use gpu_kernels::gallery::block_order::{Arguments, RUNGS, Unit};
use gpu_kernels::gallery::overlap::{FACTOR, SUMMAND};

use super::prelude::*;

/// Blocks, threads per block, and steps per thread.
#[derive(Clone, Copy)]
struct Size {
    blocks: usize,
    threads: usize,
    rounds: u32,
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
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

fn trial(rung: &'static Rung<Arguments, Unit>, Size { blocks, threads, rounds }: Size) -> Trial {
    let len = blocks * threads;
    let units = if rung.kernel.facts == Unit::Block { blocks } else { len / WARP };
    // Each thread stores its result. In addition, each unit makes four stores.
    let work = Work::of_bytes(4 * len).with_sectors(0, len / 8 + 4 * units);
    let words = format!("{blocks} blocks of {threads} threads, {rounds} steps");
    let config = LaunchConfig::new(blocks as u32, threads as u32);
    let trial = Trial::of_rung(rung, blocks, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", len);
        let [multiprocessors, tickets] =
            ["multiprocessors", "tickets"].map(|name| arrays.scratch(name, vec![0u32; units]));
        let [starts, ends] = ["starts", "ends"].map(|name| arrays.scratch(name, vec![0u64; units]));
        let next = arrays.scratch("next", vec![0u32; 1]);
        let arguments = move |p: &Placed| {
            let (multiprocessors, tickets) = (p.of(multiprocessors), p.of(tickets));
            let (out, starts, ends, next) = (p.of(out), p.of(starts), p.of(ends), p.of(next));
            Arguments { out, multiprocessors, tickets, starts, ends, next, rounds }
        };
        let oracle = move |_, i| {
            let step = |x: u32, _| x.wrapping_mul(FACTOR).wrapping_add(SUMMAND);
            Bound::exact((0..rounds).fold(i as u32, step).into())
        };
        // SAFETY: there is one element per thread, and notes for each block or warp.
        unsafe { arrays.launch(rung, config, arguments, oracle) }
    });
    trial.with_timeline(move |device| watch(device, rung, config, (units, rounds)))
}

/// Runs one launch, and reads the notes of its blocks or warps.
fn watch(
    device: &Device,
    rung: &'static Rung<Arguments, Unit>,
    config: LaunchConfig,
    (units, rounds): (usize, u32),
) -> Result<Timeline> {
    let mut out = device.alloc_zeroed::<u32>(config.grid.volume() as usize * config.block.x as usize)?;
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
        unsafe { (rung.kernel.launch)(device, config, arguments) }?;
        device.synchronize()?;
    }
    let timeline = Timeline {
        unit: if rung.kernel.facts == Unit::Block { "block" } else { "warp" },
        of_block: units / config.grid.volume() as usize,
        multiprocessors: multiprocessors.to_vec()?,
        tickets: tickets.to_vec()?,
        starts: starts.to_vec()?,
        ends: ends.to_vec()?,
    };
    timeline.checked()
}
