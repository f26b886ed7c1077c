//! The bytes that all threads load or copy per second, by the level of memory that holds them.

use anyhow::ensure;
use cuda_std::launch::{LaunchError, RawBuffer};
use ferrowarp::device::{Advice, Place};
use gpu_kernels::gallery::hierarchy::{Arguments, LOADS, RUNGS, STRIDE, next};
use gpu_kernels::gallery::overlap::{FACTOR, SUMMAND};
use gpu_kernels::gallery::{Grid, copy_offset};

use super::prelude::*;
use super::transfers::timed;
use super::unified::or_lacking;

/// Threads of a block.
const BLOCK: usize = 256;

/// Launches of a copy per run, at least.
const COPIES: usize = 32;

/// Where the vectors lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Shared,
    Device,
    Host,
}

/// All threads read vectors.
#[derive(Clone, Copy)]
struct Read {
    memory: Memory,
    vectors: usize,
    blocks: usize,
    rounds: usize,
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    use Memory::{Device, Host, Shared};
    // The bytes of the table and of both arrays of a copy, as powers of two; the blocks of an H200 that reads, and its rounds.
    let (tables, copies, blocks, rounds) = match scale {
        Scale::Tiny => (12..=12, 12..=12, 1, 1),
        Scale::Edges | Scale::Count => (12..=14, 12..=13, 2, 3),
        Scale::Laptop => (12..=24, 14..=24, 16, 16),
        Scale::Gpu => (14..=32, 20..=30, 132 * 8, 512),
    };
    let read = |name, memory, power: u32, rounds| {
        let bytes = 1 << power;
        Read { memory, vectors: bytes / 16, blocks, rounds }.trial(name, bytes)
    };
    let mut trials = vec![read(("read_shared", "from shared memory"), Shared, 14.min(*tables.end()), rounds)];
    let host = 28.min(*tables.end());
    trials.extend(
        tables.map(|power| read(("read", "from global memory, again and again"), Device, power, rounds)),
    );
    trials.push(read(("read_host", "from the host's memory"), Host, host, (rounds / 64).max(1)));
    let copy = |name, is_cold| copies.clone().map(move |power| copy(name, 1 << power, is_cold));
    trials.extend(copy(("copy_warm", "a copy between the same arrays every time"), false));
    trials.extend(copy(("copy_cold", "a copy between arrays in turn"), true));
    trials
}

impl Read {
    fn trial(self, name: (&'static str, &'static str), at: usize) -> Trial {
        let Self { memory, blocks, rounds, .. } = self;
        let loads = rounds * LOADS as usize;
        let words = format!("{at} bytes, {blocks} blocks of {BLOCK} threads with {loads} loads each");
        // Caches hold the table after the first time, if it fits.
        let (loaded, threads) = (16 * loads * blocks * BLOCK, blocks * BLOCK);
        let work = Work::of_bytes(loaded).with_memory_bytes(at);
        let work = match memory {
            Memory::Shared => work.with_sectors(0, threads / 8).with_conflicts(0),
            _ => work.with_sectors(loaded / 32, at / 32 + threads / 8),
        };
        let trial =
            Trial::of_host(name, at, words, work, move |device, runs| or_lacking(self.run(device, runs)));
        let [link, read] = self.kernels();
        let kernels = match memory {
            Memory::Shared => vec![read.kernel.meta.name],
            Memory::Device => vec![link.kernel.meta.name, read.kernel.meta.name],
            Memory::Host => return trial,
        };
        trial.with_kernels(kernels, move || {
            let mut arrays = Arrays::default();
            let table = arrays.scratch("table", vec![0u32; 4 * self.vectors]);
            let out = arrays.output("out", blocks * BLOCK);
            let launch = move |on: &dyn Launcher, p: &Placed| {
                let arguments = self.arguments(p.of(out), p.of(table));
                // SAFETY: there is an element per thread, and `table` has the vectors.
                unsafe { self.link(on, arguments).and_then(|()| self.read(on, arguments)) }
            };
            Problem::new(arrays, launch, move |_, i| Bound::exact(self.wanted(i).into()))
        })
    }

    /// The kernels that write the table and read it.
    fn kernels(self) -> [&'static Rung<Arguments>; 2] {
        [&RUNGS[4], &RUNGS[if self.memory == Memory::Shared { 3 } else { 2 }]]
    }

    fn arguments(self, out: RawBuffer<u32>, table: RawBuffer<u32>) -> Arguments {
        let (vectors, rounds) = (self.vectors as u32, self.rounds as u32);
        let (lines, step, factor, summand) = (4 * vectors, 1, FACTOR, SUMMAND);
        Arguments { place: out, table, out, lines, step, factor, summand, hops: 0, vectors, rounds }
    }

    /// Writes the table: a chain of all words.
    ///
    /// # Safety
    /// The table has the vectors.
    unsafe fn link(self, on: &dyn Launcher, arguments: Arguments) -> Result<(), LaunchError> {
        if self.memory == Memory::Shared {
            return Ok(());
        }
        let [link, _] = self.kernels();
        // SAFETY: the caller's contract.
        unsafe { (link.kernel.launch)(on, (link.kernel.config)(4 * self.vectors), arguments) }
    }

    /// Reads the table.
    ///
    /// # Safety
    /// The table has the vectors, and the output an element per thread.
    unsafe fn read(self, on: &dyn Launcher, arguments: Arguments) -> Result<(), LaunchError> {
        let [_, read] = self.kernels();
        // SAFETY: the caller's contract.
        unsafe { (read.kernel.launch)(on, (read.kernel.config)(self.blocks * BLOCK), arguments) }
    }

    /// The sum of thread `i`.
    fn wanted(self, i: usize) -> u32 {
        let Self { memory, vectors, blocks, rounds } = self;
        let first = if memory == Memory::Shared { 0 } else { i / BLOCK * (vectors / blocks) };
        let reads = (0..rounds * LOADS as usize).map(|k| (first + i % BLOCK + k * STRIDE as usize) % vectors);
        let words = reads.flat_map(|vector| (4 * vector..4 * vector + 4).map(move |word| (vector, word)));
        let lines = 4 * vectors as u32;
        let value = |(vector, word): (usize, usize)| match memory {
            Memory::Shared => vector as u32,
            _ => next(word as u32, lines, FACTOR, SUMMAND),
        };
        words.map(value).fold(0, u32::wrapping_add)
    }

    fn run(self, device: &Device, runs: usize) -> Result<Timed> {
        device.trim()?;
        let mut out = device.alloc_zeroed::<u32>(self.blocks * BLOCK)?;
        let (mut own, mut mapped) = (None, None);
        let words = 4 * self.vectors;
        let table = match self.memory {
            Memory::Host => {
                // SAFETY: `link` writes all of it.
                let buffer = mapped.insert(unsafe { device.alloc_unified_unwritten::<u32>(words) }?);
                buffer.advise(.., Advice::PreferredPlace(Place::Host))?;
                buffer.advise(.., Advice::AccessedBy(Place::Device))?;
                RawBuffer::written(buffer.view_mut(..)?)
            }
            _ => RawBuffer::written(own.insert(device.alloc_zeroed::<u32>(words)?)),
        };
        let arguments = self.arguments(RawBuffer::written(&mut out), table);
        // SAFETY: there is an element per thread, and the table has the vectors.
        unsafe { self.link(device, arguments) }?;
        // SAFETY: as above.
        let times = timed(runs, || Ok(device.time(|| unsafe { self.read(device, arguments) })?.1))?;
        let got = out.to_vec()?;
        for i in [0, got.len() / 2, got.len() - 1] {
            ensure!(got[i] == self.wanted(i), "thread {i} read {} and not {}", got[i], self.wanted(i));
        }
        Ok(times)
    }
}

/// A copy from one half of `bytes` bytes to the other.
fn copy(name: (&'static str, &'static str), bytes: usize, is_cold: bool) -> Trial {
    let len = bytes / 8;
    Trial::of_host(
        name,
        bytes,
        format!("{len} elements"),
        Work::of_bytes(bytes).with_memory_bytes(0),
        move |device, runs| {
            // Sets that together are several times as large as L2.
            let cached = device.l2_bytes()?.filter(|_| is_cold).unwrap_or(0);
            let sets = (4 * cached).div_ceil(bytes).max(1);
            let copies = sets.max(COPIES);
            let inp = elements(len, word);
            let pairs = (0..sets).map(|_| Ok((device.alloc_zeroed::<u32>(len)?, device.upload(&inp)?)));
            let pairs = pairs.collect::<Result<Vec<_>>>()?;
            let rung: &Rung<copy_offset::Arguments, Grid> = &copy_offset::RUNGS[1];
            let on = device.clone();
            let mut graph = device.record(pairs, move |_, pairs| {
                (0..copies).try_for_each(|i| {
                    let (out, inp) = &mut pairs[i % sets];
                    let (out, inp) = (RawBuffer::written(out), RawBuffer::slice(&*inp));
                    let arguments = copy_offset::Arguments { out, inp, len: len as u32, distance: 0 };
                    // SAFETY: both have `len` elements, and the grid is the kernel's for that many.
                    unsafe { (rung.kernel.launch)(&on, (rung.kernel.config)(len), arguments) }
                })
            })?;
            let times = timed(runs, || Ok(device.time(|| graph.launch())?.1 / copies as u32))?;
            for (out, _) in graph.into_state() {
                ensure!(out.to_vec()? == inp, "the copy differs from its source");
            }
            Ok(times)
        },
    )
}
