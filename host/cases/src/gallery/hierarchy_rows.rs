//! How long a load from cold memory takes, by the distance to the load before it.

use super::hierarchy::{Chase, Memory, Order};
use super::prelude::*;

const RUNGS: &[((&str, &str), Order)] = &[
    (("in_order", "by address"), Order::Sequential),
    (("random", "at random addresses of the same distance"), Order::Random),
];

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // The bytes of the memory and the distances as powers of two, and the loads of a run.
    let (span, distances, hops): (usize, _, usize) = match scale {
        Scale::Tiny => (12, 8..=8, 3),
        Scale::Edges | Scale::Count => (16, 8..=9, 50),
        Scale::Laptop => (26, 7..=16, 1 << 10),
        Scale::Gpu => (32, 7..=16, 1 << 12),
    };
    let distances: Vec<usize> = distances.map(|power| 1 << power).collect();
    each(RUNGS, &distances, |&(name, order), distance| {
        let lines = (1 << span) / distance;
        let chase = Chase { memory: Memory::Cold, lines, step: distance / 4, order, hops, reserved: 0 };
        chase.trial(name, distance)
    })
}
