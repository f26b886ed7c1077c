//! State spaces: what an address means, and which bytes of the host a kernel may access.
//!
//! Global and constant memory are the host's own, at the host's addresses. Shared, local and parameter memory have offsets
//! of their own; their generic addresses lie in windows where no pointer of a host process lies.

use crate::instr::{NO_BODY, Space};

/// Start of shared memory's generic addresses.
pub(crate) const SHARED_WINDOW: u64 = 0xe000_0000_0000_0000;
/// Start of the generic addresses of the running thread's local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0xe100_0000_0000_0000;
/// Start of the generic addresses of the cluster's shared memory, with one window per rank.
pub(crate) const CLUSTER_WINDOW: u64 = 0xe200_0000_0000_0000;
/// Start of the generic addresses of the kernel's parameters.
const PARAM_WINDOW: u64 = 0xe500_0000_0000_0000;
/// The size of a window.
pub(crate) const WINDOW: u64 = 1 << 32;
/// The highest bit of a 32-bit address in the cluster's shared memory, as [`narrow`] makes it; the rank follows.
const NARROW: u64 = 1 << 31;
const NARROW_RANK: u32 = 24;
/// Start and stride of function addresses.
const CODE_WINDOW: u64 = 0xef00_0000_0000_0000;
const CODE_STRIDE: u64 = 16;

/// The lowest offset in shared and local memory, so that zero is not a valid address.
pub(crate) const FIRST_OFFSET: u64 = 1024;

/// Bytes of the host that a kernel may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub start: u64,
    pub end: u64,
    pub space: Space,
    pub is_writable: bool,
}

/// All regions of a launch.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    all: Vec<Region>,
}

impl Regions {
    pub fn push(&mut self, region: Region) {
        if region.start < region.end {
            self.all.push(region);
        }
    }

    pub fn holding(&self, start: u64, bytes: u64) -> impl Iterator<Item = &Region> {
        self.all.iter().filter(move |r| r.start <= start && start < r.end && bytes <= r.end - start)
    }
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    Atomic,
}

impl Access {
    pub fn name(self) -> &'static str {
        match self {
            Access::Load => "load",
            Access::Store => "store",
            Access::Atomic => "atomic",
        }
    }
}

/// The place of checked bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Host(u64),
    Shared(usize),
    Local(usize),
    Param(usize),
    /// The kernel's parameters, accessed from any function.
    KernelParam(usize),
    Heap(usize),
}

impl Place {
    /// The place `bytes` further on.
    pub fn plus(mut self, bytes: u64) -> Place {
        match &mut self {
            Place::Host(at) => *at += bytes,
            Place::Shared(at)
            | Place::Local(at)
            | Place::Param(at)
            | Place::KernelParam(at)
            | Place::Heap(at) => {
                *at += bytes as usize;
            }
        }
        self
    }
}

/// The memory an address lies in, allocated or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Global,
    Constant,
    /// Of the own block, or of the block of this rank.
    Shared(Option<u32>),
    Local,
    Param,
}

/// The memory that an address of a state space lies in. A load of a constant by its generic address counts as one from
/// global memory.
pub(crate) fn home(space: Space, address: u64) -> Home {
    let (space, address) = if space == Space::Generic { split(address) } else { (space, address) };
    match space {
        Space::Generic | Space::SharedCluster if let Some((rank, _)) = of_cluster(address) => {
            Home::Shared(Some(rank))
        }
        Space::Shared | Space::SharedCluster => Home::Shared(None),
        Space::Local => Home::Local,
        Space::Param => Home::Param,
        Space::Const => Home::Constant,
        Space::Global | Space::Generic => Home::Global,
    }
}

/// `cvta.space`: the generic address of an address in `space`.
pub(crate) fn generic(space: Space, address: u64) -> u64 {
    address.wrapping_add(window(space))
}

/// `cvta.to.space`: the address in `space` of a generic one.
///
/// Compilers convert addresses before they know where these point, and compare the result with the result for zero. So
/// converting any address is valid, and the result for an address that points elsewhere is not a valid place.
pub(crate) fn specific(space: Space, address: u64) -> u64 {
    address.wrapping_sub(window(space))
}

/// Start of a state space's generic addresses.
fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        _ => 0,
    }
}

/// The address of the function of this index; `None` for a function without a body in the module.
pub(crate) fn function_address(index: Option<usize>) -> u64 {
    CODE_WINDOW + CODE_STRIDE * index.map_or(u64::from(NO_BODY), |index| index as u64)
}

/// The index of the function at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let at = address.checked_sub(CODE_WINDOW)?;
    at.is_multiple_of(CODE_STRIDE).then_some((at / CODE_STRIDE) as usize)
}

/// The 32-bit address in a cluster's shared memory of a 64-bit one.
pub(crate) fn narrow(address: u64) -> u64 {
    of_cluster(address).map_or(address, |(rank, offset)| NARROW | u64::from(rank) << NARROW_RANK | offset)
}

/// The rank and offset of an address in a cluster's shared memory, generic or of 32 bits.
pub(crate) fn of_cluster(address: u64) -> Option<(u32, u64)> {
    if address < WINDOW && address & NARROW != 0 {
        let at = address & !NARROW;
        return Some(((at >> NARROW_RANK) as u32, at & ((1 << NARROW_RANK) - 1)));
    }
    let at = address.checked_sub(CLUSTER_WINDOW)?;
    (at / WINDOW < 16).then_some(((at / WINDOW) as u32, at % WINDOW))
}

/// The state space and offset of a generic address; [`Space::Generic`] with the address itself for the host's memory.
pub(crate) fn split(address: u64) -> (Space, u64) {
    let windows =
        [(Space::Shared, SHARED_WINDOW), (Space::Local, LOCAL_WINDOW), (Space::Param, PARAM_WINDOW)];
    for (space, start) in windows {
        if let Some(offset) = address.checked_sub(start).filter(|&offset| offset < WINDOW) {
            return (space, offset);
        }
    }
    (Space::Generic, address)
}
