//! Copies alongside kernels, in one stream and in several.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use cuda_std::launch::RawBuffer;
use ferrowarp::device::{Device, InFlight, PinnedBuffer, Stream};
use gpu_kernels::gallery::overlap::{Arguments, FACTOR, RUNG, SUMMAND};

use super::prediction::h200;
use super::transfers::timed;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Timed, Trial, Work, elements};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "overlap",
    title: "Copies next to kernels",
    axis: Axis { label: "streams", is_log: false },
    measure: Measure::Bytes,
    rungs: || {
        vec![
            (RUNG.name, RUNG.idea),
            ("whole", "the whole array up, through the kernel, and down"),
            ("chunks", "the same in chunks, which streams take in turns"),
            ("chunks_light", "chunks again, with a kernel of one step: copies are all there is"),
        ]
    },
    trials,
    predictions,
};

/// Parts of the array that the streams process in turns.
const CHUNKS: usize = 16;
const STREAMS: [usize; 4] = [1, 2, 4, 8];

/// An array, and the number of rounds per element.
#[derive(Clone, Copy)]
struct Size {
    len: usize,
    rounds: u32,
}

/// Bytes of the largest problem, up and down.
const BYTES: f64 = 8.0 * 67_108_864.0;
/// Seconds of its upload, and of its download, at the link's peak.
const U: f64 = BYTES / 2.0 / 63.0e9;
/// Seconds of its kernel.
const K: f64 = 67_108_864.0 * 1000.0 / (64.0 * h200::MULTIPROCESSORS) / h200::CLOCK;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::cycles("kernel", 67_108_864.0 * 1000.0 / (64.0 * h200::MULTIPROCESSORS))
            .from("1000 integer multiply-adds per number, 64 per cycle on each multiprocessor")
            .why("The multipliers are busy all the time."),
        Prediction::rate("whole", BYTES / (U + K + U))
            .from("upload + kernel + download at 63 GB/s")
            .why("A copy carries about seven eighths of the link (see the page of copies between host and device)."),
        Prediction::time_over("chunks", "whole", 1.0)
            .at(1.0)
            .from("one stream, so nothing overlaps")
            .why("16 copies have 16 starts."),
        Prediction::rate("chunks", BYTES / (U + (U + K) / 16.0))
            .from("the longest part, and a sixteenth of the others")
            .why(
                "The link does not carry its full rate in both directions at once: `chunks_light`, which only copies, is as slow.",
            ),
        Prediction::rate("chunks_light", BYTES / (U + U / 16.0))
            .from("both directions at once, and one chunk more")
            .why("Host memory and the link's packets for the other direction take a part of both."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let size = match scale {
        Scale::Tiny => Size { len: 40, rounds: 3 },
        Scale::Edges => Size { len: 1027, rounds: 5 },
        Scale::Count => Size { len: 4096, rounds: 10 },
        Scale::Laptop => Size { len: 1 << 18, rounds: 100 },
        // On an H200 some milliseconds of arithmetic, and the same for copies in each direction.
        Scale::Gpu => Size { len: 1 << 26, rounds: 1000 },
    };
    let light = Size { rounds: 1, ..size };
    let mut trials = vec![kernel(size), host("whole", size, 1, 1)];
    trials.extend(STREAMS.map(|streams| host("chunks", size, CHUNKS, streams)));
    trials.extend(STREAMS.map(|streams| host("chunks_light", light, CHUNKS, streams)));
    trials
}

/// Every number is copied once up and once down.
fn work(Size { len, .. }: Size) -> Work {
    Work::of_bytes(8.0 * len as f64)
}

/// The kernel, launched once on the whole array.
fn kernel(size @ Size { len, rounds }: Size) -> Trial {
    let sectors = len.div_ceil(8) as f64;
    let work = work(size).with_sectors(sectors, sectors);
    let name = (RUNG.name, vec![RUNG.kernel.meta.name]);
    Trial::new(name, 1.0, format!("{len} numbers, {rounds} steps"), work, move || {
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(len, |i| number(i as u32)));
        let out = arrays.output("out", len);
        let config = (RUNG.kernel.facts.config)(len);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out), placed.of(inp));
                let arguments = Arguments { out, inp, len: len as u32, rounds };
                // SAFETY: there are as many threads as the kernel needs, and `len` elements in both.
                unsafe { (RUNG.kernel.launch)(on, config, arguments) }
            },
            move |_, i| Bound::exact(Steps::new(rounds).after(number(i as u32)).into()),
        )
    })
}

/// The array in `chunks` chunks through `streams` streams.
fn host(rung: &'static str, size: Size, chunks: usize, streams: usize) -> Trial {
    let words = match streams {
        1 => format!("{chunks} chunks in one stream"),
        _ => format!("{chunks} chunks in {streams} streams"),
    };
    let Size { len, rounds } = size;
    let words = format!("{len} numbers, {rounds} steps, {words}");
    Trial::of_host(rung, streams as f64, words, work(size), move |device, runs| {
        through(device, size, (chunks, streams), runs)
    })
}

/// The initial number of element `i`.
fn number(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b9)
}

/// Many steps of the generator as one: `x * factor + summand`.
#[derive(Clone, Copy)]
struct Steps {
    factor: u32,
    summand: u32,
}

impl Steps {
    /// `rounds` rounds, computed by squaring.
    fn new(rounds: u32) -> Self {
        let (mut all, mut step) = (Self { factor: 1, summand: 0 }, Self { factor: FACTOR, summand: SUMMAND });
        for bit in 0..u32::BITS {
            if rounds >> bit & 1 == 1 {
                all = all.then(step);
            }
            step = step.then(step);
        }
        all
    }

    fn then(self, next: Self) -> Self {
        let summand = self.summand.wrapping_mul(next.factor).wrapping_add(next.summand);
        Self { factor: self.factor.wrapping_mul(next.factor), summand }
    }

    fn after(self, x: u32) -> u32 {
        x.wrapping_mul(self.factor).wrapping_add(self.summand)
    }
}

/// The host memory of a chunk.
struct Chunk {
    first: usize,
    len: usize,
    inp: Option<PinnedBuffer<u32>>,
    out: Option<PinnedBuffer<u32>>,
}

/// Uploads the array in chunks, processes and downloads it. Returns the time until everything is back.
fn through(
    device: &Device,
    Size { len, rounds }: Size,
    (chunks, streams): (usize, usize),
    runs: usize,
) -> Result<Timed> {
    let (mut inp, mut out) = (device.alloc_zeroed::<u32>(len)?, device.alloc_zeroed::<u32>(len)?);
    let streams = (0..streams).map(|_| device.stream()).collect::<Result<Vec<Stream>, _>>()?;
    let each = len.div_ceil(chunks);
    let firsts = (0..len).step_by(each);
    let mut host = firsts
        .map(|first| {
            let len = each.min(len - first);
            let mut inp = device.alloc_pinned::<u32>(len)?;
            inp.iter_mut().zip(first as u32..).for_each(|(x, i)| *x = number(i));
            Ok(Chunk { first, len, inp: Some(inp), out: Some(device.alloc_pinned(len)?) })
        })
        .collect::<Result<Vec<Chunk>>>()?;
    let times = timed(runs, || {
        let start = Instant::now();
        let mut copies: Vec<[InFlight<_>; 2]> = Vec::with_capacity(host.len());
        for (chunk, stream) in host.iter_mut().zip(streams.iter().cycle()) {
            let range = chunk.first..chunk.first + chunk.len;
            let (from, to) = (chunk.inp.take(), chunk.out.take());
            let (from, to) = (from.context("each run gives it back")?, to.context("each run gives it back")?);
            let up = stream.upload(from, inp.view_mut(range.clone())?)?;
            let arguments = Arguments {
                out: RawBuffer::written(out.view_mut(range.clone())?),
                inp: RawBuffer::read(inp.view(range.clone())?),
                len: chunk.len as u32,
                rounds,
            };
            // SAFETY: there are as many threads and elements in both views as the kernel needs; all other uses are on the
            // same stream.
            unsafe { (RUNG.kernel.launch)(stream, (RUNG.kernel.facts.config)(chunk.len), arguments) }?;
            copies.push([up, stream.download(out.view(range)?, to)?]);
        }
        for (chunk, [up, down]) in host.iter_mut().zip(copies) {
            (chunk.inp, chunk.out) = (Some(up.wait()?), Some(down.wait()?));
        }
        Ok(start.elapsed())
    })?;
    let steps = Steps::new(rounds);
    for Chunk { first, out, .. } in &host {
        let out = out.as_ref().context("each run gives it back")?;
        let wrong = out.iter().zip(*first as u32..).find(|&(&got, i)| got != steps.after(number(i)));
        ensure!(wrong.is_none(), "{wrong:?} is not what the steps make of its number");
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_are_as_good_as_one() {
        let mut x = 12345u32;
        for rounds in 0..70 {
            assert_eq!(Steps::new(rounds).after(12345), x, "{rounds} steps");
            x = x.wrapping_mul(FACTOR).wrapping_add(SUMMAND);
        }
    }
}
