//! Turns the traces of a warp's lanes into the warp's requests.

use std::collections::HashMap;

use cuda_std::testing::counts::{Counts, GlobalRequests, SharedRequests};

use super::event::{Collective, Deed, Event, Way};

/// Bytes of a sector and of a cache line.
const SECTOR: u64 = 32;
const LINE: u64 = 128;
/// Banks of shared memory, and bytes of a bank's word.
const BANKS: u64 = 32;
const WORD: u64 = 4;

/// An instruction that lanes executed together.
#[derive(Debug)]
pub(crate) struct Request {
    path: u64,
    pub instr: u32,
    pub deed: Deed,
    /// In lane order.
    pub lanes: Vec<Lane>,
}

/// One lane's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub lane: u8,
    pub bytes: u32,
    pub value: u64,
}

/// What the lanes did together, from what each did.
pub(crate) fn gather(lanes: impl Iterator<Item = Vec<Event>>) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut known: HashMap<(u64, u32, Deed), usize> = HashMap::new();
    for (lane, events) in (0..).zip(lanes) {
        // Lanes mostly execute the same instructions in the same order.
        let mut next = 0;
        for Event { path, value, instr, deed, bytes } in events {
            let is_it =
                |request: &Request| (request.path, request.instr, request.deed) == (path, instr, deed);
            let at = match requests.get(next) {
                Some(request) if is_it(request) => next,
                _ => *known.entry((path, instr, deed)).or_insert_with(|| {
                    requests.push(Request { path, instr, deed, lanes: Vec::new() });
                    requests.len() - 1
                }),
            };
            let lanes = &mut requests[at].lanes;
            debug_assert!(
                lanes.last().is_none_or(|before| before.lane < lane),
                "a lane comes to a place once"
            );
            lanes.push(Lane { lane, bytes, value });
            next = at + 1;
        }
    }
    requests
}

impl Request {
    /// Its counts, without the executed instructions.
    pub fn counts(&self) -> Counts {
        let (mut counts, lanes) = (Counts::default(), &self.lanes[..]);
        let bytes = bytes(lanes);
        match self.deed {
            Deed::Block | Deed::Off => {}
            Deed::Branch => {
                counts.branches.executed = 1;
                counts.branches.divergent = u64::from(lanes.iter().any(|lane| lane.value != lanes[0].value));
            }
            Deed::Global(way) => {
                let of = &mut counts.global;
                *[&mut of.loads, &mut of.stores, &mut of.atomics, &mut of.copies][way as usize] =
                    global(lanes);
            }
            Deed::Shared(way) => {
                let of = &mut counts.shared;
                *[&mut of.loads, &mut of.stores, &mut of.atomics, &mut of.copies][way as usize] =
                    shared(lanes, way);
            }
            Deed::Cluster => (counts.cluster.requests, counts.cluster.bytes) = (1, bytes),
            Deed::Local(Way::Load) => {
                (counts.local.loads.requests, counts.local.loads.bytes) = (1, bytes);
            }
            Deed::Local(_) => (counts.local.stores.requests, counts.local.stores.bytes) = (1, bytes),
            Deed::Constant => {
                counts.constant.requests = 1;
                counts.constant.passes = distinct(lanes.iter().map(|lane| lane.value).collect());
            }
            Deed::Bulk(Way::Load | Way::Copy) | Deed::Box(Way::Load | Way::Copy) => {
                (counts.bulk.loads, counts.bulk.loaded_bytes) = (lanes.len() as u64, bytes);
            }
            Deed::Bulk(_) | Deed::Box(_) => {
                (counts.bulk.stores, counts.bulk.stored_bytes) = (lanes.len() as u64, bytes)
            }
            Deed::Collective(collective) => {
                let of = &mut counts.collectives;
                *match collective {
                    Collective::Shuffle => &mut of.shuffles,
                    Collective::Vote => &mut of.votes,
                    Collective::WarpBarrier => &mut of.warp_barriers,
                    Collective::Barrier => &mut of.barriers,
                    Collective::ClusterBarrier => &mut of.cluster_barriers,
                    Collective::Mbarrier => &mut of.mbarriers,
                    Collective::Matrix => &mut of.matrices,
                } = 1;
            }
        }
        counts
    }
}

/// The sectors that the lanes access.
pub(crate) fn sectors(lanes: &[Lane]) -> impl Iterator<Item = u64> {
    lanes.iter().flat_map(|lane| units(lane, SECTOR))
}

/// The sectors that bytes lie in.
pub(crate) fn sectors_of(address: u64, bytes: u64) -> core::ops::RangeInclusive<u64> {
    address / SECTOR..=(address + bytes.max(1) - 1) / SECTOR
}

/// The units of `unit` bytes that an access touches.
fn units(lane: &Lane, unit: u64) -> core::ops::RangeInclusive<u64> {
    lane.value / unit..=(lane.value + u64::from(lane.bytes).max(1) - 1) / unit
}

fn bytes(lanes: &[Lane]) -> u64 {
    lanes.iter().map(|lane| u64::from(lane.bytes)).sum()
}

fn distinct(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len() as u64
}

/// The number of units of `unit` bytes that the accesses touch.
fn touched(lanes: &[Lane], unit: u64) -> u64 {
    distinct(lanes.iter().flat_map(|lane| units(lane, unit)).collect())
}

fn global(lanes: &[Lane]) -> GlobalRequests {
    GlobalRequests {
        requests: 1,
        sectors: touched(lanes, SECTOR),
        lines: touched(lanes, LINE),
        ideal_sectors: touched(lanes, 1).div_ceil(SECTOR),
        bytes: bytes(lanes),
    }
}

fn shared(lanes: &[Lane], way: Way) -> SharedRequests {
    let widest = lanes.iter().map(|lane| u64::from(lane.bytes)).max().unwrap_or(WORD);
    // Lanes served at once: those that can have one word per bank.
    let lanes_at_once = BANKS / (widest / WORD).clamp(1, BANKS);
    let together =
        |a: &Lane, b: &Lane| u64::from(a.lane) / lanes_at_once == u64::from(b.lane) / lanes_at_once;
    let parts = lanes.chunk_by(together);
    let (wavefronts, ideal_wavefronts) =
        parts.fold((0, 0), |(all, ideal), part| (all + wavefronts(part, way), ideal + 1));
    SharedRequests { requests: 1, wavefronts, ideal_wavefronts, bytes: bytes(lanes) }
}

/// Passes of the lanes served at once: the largest number of words in one bank.
fn wavefronts(lanes: &[Lane], way: Way) -> u64 {
    let mut words: Vec<u64> = lanes
        .iter()
        .flat_map(|lane| lane.value / WORD..=(lane.value + u64::from(lane.bytes) - 1) / WORD)
        .collect();
    words.sort_unstable();
    if way != Way::Atomic {
        words.dedup();
    }
    let mut by_bank = [0; BANKS as usize];
    words.iter().for_each(|word| by_bank[(word % BANKS) as usize] += 1);
    by_bank.into_iter().max().unwrap_or(0)
}
