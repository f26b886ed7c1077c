//! The threads of a grid: spawned, and waited for.

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::super::Grid;
use super::super::block::{Block, Member};
use super::super::fault::{Fault, FaultKind};
use super::super::shared::BlockShared;
use super::latest::Latest;
use super::seat::Table;
use super::spawn;
use crate::launch::Dim3;

/// Threads that may live at a time. A cluster may need more, which all its threads need.
const MOST_LIVE: u64 = 1024;

/// Blocks whose shared memory is there at a time. It has to stay until all threads of the wave have been waited for,
/// since nothing else orders its end behind them.
const MOST_BLOCKS: u64 = 8192;

/// Runs the grid. No block is ordered before another one, in waves of [`MOST_BLOCKS`].
pub(in super::super) fn run_grid(grid: &Grid<'_>) -> Result<(), Box<Fault>> {
    grid.scopes.prepare();
    let cluster = u64::from(grid.config.cluster);
    let units = grid.config.grid.volume() / cluster;
    let wave = (MOST_BLOCKS / cluster).max(1);
    let mut first = 0;
    while first < units {
        let end = units.min(first + wave);
        run_wave(grid, first..end)?;
        first = end;
    }
    Ok(())
}

fn run_wave(grid: &Grid<'_>, units: core::ops::Range<u64>) -> Result<(), Box<Fault>> {
    let cluster = grid.config.cluster;
    let stop = AtomicBool::new(false);
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
    let tables: Vec<Table<'_>> = blocks.iter().map(|blocks| Table::new(blocks, &stop)).collect();
    let live = Latest::default();
    spawn::scope(|scope| {
        for table in &tables {
            // A thread that ends is not joined here: that would order the next block behind it.
            while live.get() > 0 && live.get() + u64::from(table.threads()) > MOST_LIVE {
                if cfg!(miri) { thread::yield_now() } else { thread::sleep(Duration::from_micros(200)) }
            }
            for number in 0..table.threads() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                live.add(1);
                let live = &live;
                let body = move || {
                    table.run(number);
                    live.sub(1);
                };
                if let Err(error) = scope.spawn(&name(table, number), body) {
                    let (block, _) = table.place(number);
                    let kind = FaultKind::OutOfStacks { message: error.to_string() };
                    return table.fail(block.fault_of(None, None, kind));
                }
            }
        }
    });
    tables.into_iter().find_map(Table::into_fault).map_or(Ok(()), Err)
}

/// How tools call the thread. Linux keeps 15 bytes of a name, so it is as short as possible.
fn name(table: &Table<'_>, number: u32) -> String {
    let (block, thread) = table.place(number);
    let mut name = String::with_capacity(16);
    for (letter, at) in [('b', block.index), ('t', block.coordinates(thread))] {
        if !name.is_empty() {
            name.push(' ');
        }
        name.push(letter);
        push_number(&mut name, at.x);
        if at.y != 0 || at.z != 0 {
            name.push(',');
            push_number(&mut name, at.y);
        }
        if at.z != 0 {
            name.push(',');
            push_number(&mut name, at.z);
        }
    }
    name
}

/// As `write!` does it, which Miri takes ten times as long for.
fn push_number(name: &mut String, number: u32) {
    if number >= 10 {
        push_number(name, number / 10);
    }
    name.push(char::from(b'0' + (number % 10) as u8));
}
