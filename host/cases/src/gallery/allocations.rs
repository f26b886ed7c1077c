//! What memory costs before anything is in it: from the system, from the device's pool, and page-locked.

use std::time::Instant;

use super::prelude::*;
use super::transfers::{in_bytes, timed};

/// The origin of the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The driver: the pool is empty.
    System,
    /// What an earlier buffer of this size has left in the pool.
    Pool,
    /// A buffer that is kept, and only zeroed by a copy to it.
    Kept,
    /// Page-locked memory of the host.
    Pinned,
}

const ORIGINS: &[((&str, &str), Origin)] = &[
    (("system", "a zeroed buffer of memory that the driver has to find first"), Origin::System),
    (("pool", "a zeroed buffer of memory that an earlier one has left in the pool"), Origin::Pool),
    (("kept", "the buffer of the run before, with nothing to do but the wait"), Origin::Kept),
    (("page_locked", "zeroed page-locked memory of the host"), Origin::Pinned),
];

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let powers = match scale {
        Scale::Tiny | Scale::Edges | Scale::Count => 10..=12,
        Scale::Laptop => 10..=24,
        Scale::Gpu => 10..=30,
    };
    let sizes: Vec<usize> = powers.step_by(2).map(|power| 1 << power).collect();
    each(ORIGINS, &sizes, |&(name, origin), bytes| {
        let work = Work::of_bytes(bytes).with_memory_bytes(0);
        Trial::of_host(name, bytes, in_bytes(bytes), work, move |device, runs| {
            let kept = device.alloc_zeroed::<u8>(bytes)?;
            timed(runs, || {
                if origin == Origin::System {
                    device.trim()?;
                }
                let start = Instant::now();
                match origin {
                    Origin::System | Origin::Pool => drop(device.alloc_zeroed::<u8>(bytes)?),
                    Origin::Kept => drop(kept.view(..)?),
                    Origin::Pinned => drop(device.alloc_pinned::<u8>(bytes)?),
                }
                device.synchronize()?;
                Ok(start.elapsed())
            })
        })
    })
}
