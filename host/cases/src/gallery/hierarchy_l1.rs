//! How long a load from a table of 64 KiB takes, by the shared memory that the block reserves: L1 has the rest.

use super::hierarchy::{Chase, Memory, Order};
use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // KiB reserved, of the 227 that a block can have, and the loads of a run.
    let (reserved, hops): (&[usize], usize) = match scale {
        Scale::Tiny => (&[0], 3),
        Scale::Edges | Scale::Count => (&[0, 32], 50),
        Scale::Laptop => (&[0, 32], 1 << 15),
        Scale::Gpu => (&[0, 32, 64, 96, 128, 144, 160, 176, 192, 200, 227], 1 << 15),
    };
    let trial = |&reserved: &usize| {
        let reserved = reserved << 10;
        let table =
            Chase { memory: Memory::Warm, lines: 512, step: 32, order: Order::Random, hops, reserved };
        table.trial(("gather", "an element per line of 64 KiB"), reserved)
    };
    reserved.iter().map(trial).collect()
}
