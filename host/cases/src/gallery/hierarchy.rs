//! How long one load takes, by the level of memory that answers.

use std::ops::RangeInclusive;

use anyhow::ensure;
use cuda_std::launch::{LaunchError, RawBuffer};
use ferrowarp::device::{Advice, Place};
use gpu_kernels::gallery::hierarchy::{Arguments, RUNGS};
use gpu_kernels::gallery::overlap::{FACTOR, SUMMAND};

use super::overlap::Steps;
use super::prelude::*;
use super::transfers::timed;
use super::unified::or_lacking;

/// Bytes of a cache line.
const LINE: usize = 128;

/// A chain, and the memory that holds it.
#[derive(Clone, Copy)]
pub(super) struct Chase {
    pub memory: Memory,
    /// Elements of the chain, a power of two.
    pub lines: usize,
    /// From an element to the next by number, in words of 4 bytes.
    pub step: usize,
    pub order: Order,
    /// Loads of a run.
    pub hops: usize,
    /// Bytes of shared memory that the block reserves and does not use.
    pub reserved: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Runs follow each other, so caches hold what they can.
    Warm,
    /// Caches hold nothing of it.
    Cold,
    /// The host's, mapped for the device.
    Host,
    /// Shared memory.
    Shared,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Random,
    /// By number.
    Sequential,
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    use Memory::{Host, Shared, Warm};
    // The bytes that a chain spans, as powers of two; and the loads of a run.
    let (caches, pages, far, hops) = match scale {
        Scale::Tiny => (12..=12, 22..=22, 12..=12, 3),
        Scale::Edges => (12..=14, 22..=22, 12..=12, 70),
        Scale::Count => (12..=12, 22..=22, 12..=12, 100),
        Scale::Laptop => (12..=26, 22..=28, 20..=20, 1 << 15),
        Scale::Gpu => (12..=32, 22..=36, 20..=28, 1 << 15),
    };
    let mut trials = Vec::new();
    let mut add = |name, memory, powers: RangeInclusive<u32>, apart: usize, hops| {
        trials.extend(powers.step_by(if memory == Host { 8 } else { 1 }).map(|power| {
            // Elements a page apart would all lie in the same sets of the caches.
            let step = if apart > LINE { (apart + LINE) / 4 } else { apart / 4 };
            let lines = (1 << power) / apart;
            Chase { memory, lines, step, order: Order::Random, hops, reserved: 0 }.trial(name, 1 << power)
        }));
    };
    add(("chase_shared", "an element per word of shared memory"), Shared, 12..=12, 4, 4 * hops);
    add(("chase", "an element per line of 128 bytes"), Warm, caches, LINE, hops);
    add(("pages_64k", "an element per 64 KiB"), Warm, pages.clone(), 1 << 16, hops);
    add(("pages_2m", "an element per 2 MiB"), Warm, pages, 1 << 21, hops);
    add(("chase_host", "an element per line, in the host's memory"), Host, far, LINE, hops.min(1 << 12));
    trials
}

impl Chase {
    /// The trial of a rung, at this place on the axis. It times a run.
    pub fn trial(self, name: (&'static str, &'static str), at: usize) -> Trial {
        let Self { memory, lines, hops, step, reserved, .. } = self;
        let mut words = format!("{lines} elements, {} bytes apart, {hops} loads", 4 * step);
        if reserved > 0 {
            words += &format!(", {reserved} bytes reserved");
        }
        let work = Work::of_bytes(4 * hops);
        // The chain is written once, and the place is read and written.
        let work = match memory {
            Memory::Shared => work.with_sectors(1, 1),
            _ => work.with_sectors(hops + 1, lines + 1),
        };
        let trial =
            Trial::of_host(name, at, words, work, move |device, runs| or_lacking(self.run(device, runs)));
        let names = self.kernels().map(|rung| rung.kernel.meta.name);
        // Tests follow each kernel's chain once.
        if !["chase", "chase_shared"].contains(&name.0) {
            return trial;
        }
        let names = if memory == Memory::Shared { vec![names[1]] } else { names.into() };
        trial.with_kernels(names, move || {
            let mut arrays = Arrays::default();
            let place = arrays.changed("place", vec![0]);
            let table = arrays.scratch("table", vec![0; self.words()]);
            let launch = move |on: &dyn Launcher, p: &Placed| {
                let arguments = self.arguments(p.of(place), p.of(table));
                // SAFETY: `table` has an element for the last of the chain, and one thread follows it.
                unsafe { self.link(on, arguments).and_then(|()| self.follow(on, arguments)) }
            };
            Problem::new(arrays, launch, move |_, _| Bound::exact(self.after(hops).into()))
        })
    }

    /// The kernels that write the chain and follow it.
    fn kernels(self) -> [&'static Rung<Arguments>; 2] {
        [&RUNGS[4], &RUNGS[usize::from(self.memory == Memory::Shared)]]
    }

    /// Words of the table. The chain in shared memory has none.
    fn words(self) -> usize {
        if self.memory == Memory::Shared { 1 } else { (self.lines - 1) * self.step + 1 }
    }

    fn arguments(self, place: RawBuffer<u32>, table: RawBuffer<u32>) -> Arguments {
        let (lines, step, hops) = (self.lines as u32, self.step as u32, self.hops as u32);
        let (factor, summand) = if self.order == Order::Random { (FACTOR, SUMMAND) } else { (1, 1) };
        Arguments { place, table, out: place, lines, step, factor, summand, hops, vectors: 0, rounds: 0 }
    }

    /// Writes the chain.
    ///
    /// # Safety
    /// The table holds [`Self::words`].
    unsafe fn link(self, on: &dyn Launcher, arguments: Arguments) -> Result<(), LaunchError> {
        if self.memory == Memory::Shared {
            return Ok(());
        }
        let [link, _] = self.kernels();
        // SAFETY: the caller's contract.
        unsafe { (link.kernel.launch)(on, (link.kernel.config)(self.lines), arguments) }
    }

    /// Follows the chain.
    ///
    /// # Safety
    /// The table holds the chain.
    unsafe fn follow(self, on: &dyn Launcher, arguments: Arguments) -> Result<(), LaunchError> {
        let [_, follow] = self.kernels();
        let config = (follow.kernel.config)(1).with_shared_bytes(self.reserved as u32);
        // SAFETY: the caller's contract.
        unsafe { (follow.kernel.launch)(on, config, arguments) }
    }

    /// The element that `hops` loads from element 0 lead to.
    fn after(self, hops: usize) -> u32 {
        let element = match self.order {
            Order::Random => Steps::new(hops as u32).after(0),
            Order::Sequential => hops as u32,
        };
        element & (self.lines as u32 - 1)
    }

    /// The times of some runs, each of which goes on where the one before ended.
    fn run(self, device: &Device, runs: usize) -> Result<Timed> {
        let bytes = 4 * self.words();
        // Memory that a pool keeps of another size is not free for this one.
        device.trim()?;
        if let Some(free) = device.free_bytes()?.filter(|free| bytes > free / 2) {
            return Ok(Timed::Lacking(format!("{bytes} bytes are over half of the {free} that are free")));
        }
        let mut place = device.alloc_zeroed::<u32>(1)?;
        let mut own = None;
        let mut mapped = None;
        let table = match self.memory {
            Memory::Host => {
                // SAFETY: `link` writes all elements that are read.
                let buffer = mapped.insert(unsafe { device.alloc_unified_unwritten::<u32>(self.words()) }?);
                buffer.advise(.., Advice::PreferredPlace(Place::Host))?;
                buffer.advise(.., Advice::AccessedBy(Place::Device))?;
                RawBuffer::written(buffer.view_mut(..)?)
            }
            _ => RawBuffer::written(own.insert(device.alloc_zeroed::<u32>(self.words())?)),
        };
        let arguments = self.arguments(RawBuffer::written(&mut place), table);
        // Once around, so that caches hold what they can, within a second.
        let warm = if self.memory == Memory::Cold { 1 } else { self.lines.min(1 << 20) };
        let first = Self { hops: warm, ..self };
        // SAFETY: the table has an element for the last of the chain.
        unsafe {
            self.link(device, arguments)?;
            first.follow(device, Arguments { hops: warm as u32, ..arguments })?;
        }
        let mut hops = warm;
        let flushed = device.l2_bytes()?.filter(|_| self.memory == Memory::Cold).map_or(0, |bytes| 4 * bytes);
        let times = timed(runs, || {
            // Zeroing other memory replaces all lines of L2.
            let other = device.alloc_zeroed::<u8>(flushed)?;
            // SAFETY: as above, and the chain is written.
            let time = device.time(|| unsafe { self.follow(device, arguments) })?.1;
            drop(other);
            hops += self.hops;
            Ok(time)
        })?;
        let (got, want) = (place.to_vec()?[0], self.after(hops));
        ensure!(got == want, "{hops} loads led to element {got} and not to {want}");
        Ok(times)
    }
}
