//! Spawns the threads of a grid, and waits for them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::super::block::{Block, Member};
use super::super::fault::{Fault, FaultKind};
use super::super::grid::Grid;
use super::super::shared::BlockShared;
use super::super::stuck;
use super::quiet::Quiet;
use super::relaxed::Relaxed64;
use super::spawn;
use super::waiting::Table;
use crate::launch::Dim3;

/// The number of threads that may live at the same time. Clusters and cooperative grids may have more.
const MOST_LIVE: u64 = 1024;

/// The number of threads of a cooperative grid: what systems allow a process by default.
pub(in super::super) const MOST_COOPERATIVE: u64 = 4096;

/// The number of threads that ThreadSanitizer can distinguish even if some have ended.
const MOST_TOGETHER: u64 = 256;

/// The number of blocks that have shared memory at the same time. It must stay until all threads of the wave are
/// joined, since nothing else orders its end after them.
const MOST_BLOCKS: u64 = 8192;

/// Runs the grid in waves of [`MOST_BLOCKS`]. Within a wave, no block is ordered before another one.
pub(in super::super) fn run_grid(grid: &Grid<'_>) -> Result<(), Box<Fault>> {
    grid.atomic_scopes.prepare();
    if cfg!(miri) {
        announce(grid);
    }
    let cluster = u64::from(grid.config.cluster);
    let units = grid.config.grid.volume() / cluster;
    let wave = if grid.is_cooperative { units } else { (MOST_BLOCKS / cluster).max(1) };
    let mut first = 0;
    while first < units {
        let end = units.min(first + wave);
        run_wave(grid, first..end)?;
        first = end;
    }
    Ok(())
}

/// Announces a launch that may take minutes. `eprintln!` would be shown only after the test.
fn announce(grid: &Grid<'_>) {
    use std::io::Write as _;

    let (blocks, threads) = (grid.config.grid.volume(), grid.config.block.volume());
    let hint = if threads > 64 { "; blocks of 32 or 64 threads are much faster (docs/miri.md)" } else { "" };
    let (kernel, plural) = (grid.kernel, if blocks == 1 { "" } else { "s" });
    // Without a stderr, nothing is shown.
    let _ = writeln!(std::io::stderr(), "Miri: {kernel}, {blocks} block{plural} of {threads} threads{hint}");
}

fn run_wave(grid: &Grid<'_>, units: core::ops::Range<u64>) -> Result<(), Box<Fault>> {
    let cluster = grid.config.cluster;
    // Set with the first fault, and once the other threads were woken for it.
    let (stop, woken) = (AtomicBool::new(false), AtomicBool::new(false));
    let member =
        || Member { shared: BlockShared::new(grid.config.shared_bytes), has_ended: AtomicBool::new(false) };
    let members: Vec<Vec<Member>> = units.clone().map(|_| (0..cluster).map(|_| member()).collect()).collect();
    let blocks_of = |(unit, members)| -> Vec<Block<'_>> {
        let first = grid.config.grid.unravel(unit * u64::from(cluster));
        let index = |rank| Dim3 { x: first.x + rank, ..first };
        let members: &Vec<Member> = members;
        (0..cluster).map(|rank| Block::new(grid, index(rank), members, rank as usize)).collect()
    };
    let blocks: Vec<Vec<Block<'_>>> = units.zip(&members).map(blocks_of).collect();
    let quiet =
        grid.is_cooperative.then(|| Quiet::new(grid.config.grid.volume() * grid.config.block.volume()));
    let tables: Vec<Table<'_>> =
        blocks.iter().map(|blocks| Table::new(blocks, &stop, quiet.as_ref())).collect();
    let most_live = if grid.is_cooperative { u64::MAX } else { MOST_LIVE };
    // The threads of a small grid end only when all have begun.
    let (live, may_end) = (Relaxed64::default(), Relaxed64::default());
    spawn::scope(|scope| {
        let _all_may_end = OnDrop(|| may_end.set(1));
        let threads: u64 = tables.iter().map(|table| u64::from(table.threads())).sum();
        may_end.set(u64::from(threads > MOST_TOGETHER));
        for table in &tables {
            // A thread that ends is not joined here: that would order the next block after it.
            while live.get() > 0 && live.get() + u64::from(table.threads()) > most_live {
                if cfg!(miri) { thread::yield_now() } else { thread::sleep(Duration::from_micros(200)) }
            }
            for number in 0..table.threads() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                live.add(1);
                let (live, may_end, stop, woken, tables) = (&live, &may_end, &stop, &woken, &tables);
                let body = move || {
                    table.run(number);
                    if cfg!(not(miri)) && stop.load(Ordering::Relaxed) && !woken.swap(true, Ordering::Relaxed)
                    {
                        tables.iter().for_each(Table::wake);
                    }
                    // ThreadSanitizer may give a new thread the number of one that has ended, and reports no race
                    // between threads with the same number.
                    while cfg!(not(miri)) && may_end.get() == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                    live.sub(1);
                };
                let (block, thread) = table.place(number);
                if let Err(error) = scope.spawn(Name::of(block, thread), body) {
                    let kind = FaultKind::OutOfStacks { message: error.to_string() };
                    return table.fail(block.fault_of(None, None, kind));
                }
            }
        }
    });
    if quiet.as_ref().is_some_and(Quiet::is_stuck) {
        let views: Vec<_> = tables.iter().flat_map(Table::views).collect();
        if let Some(fault) = stuck::why_words_stuck(&views) {
            return Err(Box::new(fault));
        }
    }
    let fault = tables.into_iter().find_map(Table::into_fault);
    let all = || blocks.iter().flatten();
    let in_flight = || all().find_map(Block::why_in_flight).map(Box::new);
    let overrun = || all().find_map(Block::why_overrun).map(Box::new);
    let fault = fault.or_else(in_flight).or_else(overrun);
    fault.map_or(Ok(()), Err)
}

/// Does something when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// The name of a thread in tools: its block and its position there, cut to the 15 bytes that Linux keeps.
pub(super) struct Name {
    bytes: [u8; Self::MOST + 1],
    len: usize,
}

impl Name {
    const MOST: usize = 15;

    fn of(block: &Block<'_>, thread: u32) -> Name {
        let mut name = Name { bytes: [0; Self::MOST + 1], len: 0 };
        name.push(b'b');
        name.push_place(block.index);
        name.push(b' ');
        name.push(b't');
        name.push_place(block.coordinates(thread));
        name
    }

    /// Returns the name without the zero after it.
    #[cfg(not(miri))]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    /// Returns the name with a zero after it.
    #[cfg(miri)]
    pub fn as_c_str(&self) -> *const core::ffi::c_char {
        self.bytes.as_ptr().cast()
    }

    fn push_place(&mut self, at: Dim3) {
        self.push_number(at.x);
        if at.y != 0 || at.z != 0 {
            self.push(b',');
            self.push_number(at.y);
        }
        if at.z != 0 {
            self.push(b',');
            self.push_number(at.z);
        }
    }

    /// Does the same as `write!`, for which Miri takes ten times as long.
    fn push_number(&mut self, number: u32) {
        let mut unit = 1;
        while number / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.push(b'0' + (number / unit % 10) as u8);
            unit /= 10;
        }
    }

    fn push(&mut self, byte: u8) {
        if self.len < Self::MOST {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }
}
