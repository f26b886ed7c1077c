//! Copies alongside kernels, in one stream and in several.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use cuda_std::launch::RawBuffer;
use ferrowarp::device::{InFlight, PinnedBuffer, Stream};
use gpu_kernels::gallery::overlap::{Arguments, FACTOR, RUNGS, SUMMAND};

use super::prelude::*;
use super::transfers::timed;

/// Parts of the array that the streams process in turns.
const CHUNKS: usize = 16;
const STREAMS: [usize; 4] = [1, 2, 4, 8];

/// An array, and the number of rounds per element.
#[derive(Clone, Copy)]
struct Size {
    len: usize,
    rounds: u32,
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let size = match scale {
        Scale::Tiny => Size { len: 40, rounds: 3 },
        Scale::Edges => Size { len: 1027, rounds: 5 },
        Scale::Count => Size { len: 4096, rounds: 10 },
        Scale::Laptop => Size { len: 1 << 18, rounds: 100 },
        // On an H200 some milliseconds of arithmetic, and the same for copies in each direction.
        Scale::Gpu => Size { len: 1 << 26, rounds: 1000 },
    };
    let light = Size { rounds: 1, ..size };
    let whole = ("whole", "the whole array up, through the kernel, and down");
    let chunks = ("chunks", "the same in chunks, which streams take in turns");
    let copies = ("chunks_light", "chunks again, with a kernel of one step: copies are all there is");
    let mut trials = vec![kernel(size), host(whole, size, 1, 1)];
    trials.extend(STREAMS.map(|streams| host(chunks, size, CHUNKS, streams)));
    trials.extend(STREAMS.map(|streams| host(copies, light, CHUNKS, streams)));
    trials
}

/// The kernel, launched once on the whole array.
fn kernel(Size { len, rounds }: Size) -> Trial {
    let rung = &RUNGS[0];
    let work = Work::of_bytes(8 * len).with_sectors(len.div_ceil(8), len.div_ceil(8));
    Trial::of_rung(rung, 1, format!("{len} numbers, {rounds} steps"), work, move || {
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(len, |i| number(i as u32)));
        let out = arrays.output("out", len);
        let arguments =
            move |p: &Placed| Arguments { out: p.of(out), inp: p.of(inp), len: len as u32, rounds };
        let oracle = move |_, i| Bound::exact(Steps::new(rounds).after(number(i as u32)).into());
        // SAFETY: there are as many threads as the kernel needs, and `len` elements in both.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}

/// The array in `chunks` chunks through `streams` streams. Every number is copied once up and once down.
fn host(name: (&'static str, &'static str), size: Size, chunks: usize, streams: usize) -> Trial {
    let Size { len, rounds } = size;
    let words = match streams {
        1 => "one stream".to_owned(),
        _ => format!("{streams} streams"),
    };
    let words = format!("{len} numbers, {rounds} steps, {chunks} chunks in {words}");
    Trial::of_host(name, streams, words, Work::of_bytes(8 * len), move |device, runs| {
        through(device, size, (chunks, streams), runs)
    })
}

/// The initial number of element `i`.
fn number(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b9)
}

/// Many steps of the generator as one: `x * factor + summand`.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    factor: u32,
    summand: u32,
}

impl Steps {
    /// `rounds` rounds, computed by squaring.
    pub fn new(rounds: u32) -> Self {
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

    pub fn after(self, x: u32) -> u32 {
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
            unsafe { (RUNGS[0].kernel.launch)(stream, (RUNGS[0].kernel.config)(chunk.len), arguments) }?;
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
