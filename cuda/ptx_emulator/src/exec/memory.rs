//! State spaces: maps addresses to bytes, and checks that the thread may access them.
//!
//! Global and constant memory are the host's own, at the host's addresses. Shared, local and parameter memory have offsets
//! of their own; their generic addresses lie in windows where no pointer of a host process lies.

use super::thread::Cx;
use super::undefined::Bits;
use super::{Exec, heap};
use crate::error::Cause;
use crate::instr::{Addr, NO_BODY, Space};

/// Start of shared memory's generic addresses.
pub(super) const SHARED_WINDOW: u64 = 0xe000_0000_0000_0000;
/// Start of the generic addresses of the running thread's local memory.
pub(super) const LOCAL_WINDOW: u64 = 0xe100_0000_0000_0000;
/// Start of the generic addresses of the cluster's shared memory, with one window per rank.
const CLUSTER_WINDOW: u64 = 0xe200_0000_0000_0000;
/// Start of the generic addresses of the kernel's parameters.
const PARAM_WINDOW: u64 = 0xe500_0000_0000_0000;
/// The size of a window.
const WINDOW: u64 = 1 << 32;
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

    fn holding(&self, start: u64, bytes: u64) -> impl Iterator<Item = &Region> {
        self.all.iter().filter(move |r| r.start <= start && start < r.end && bytes <= r.end - start)
    }
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
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
pub(super) enum Place {
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
    pub fn plus(self, bytes: u64) -> Place {
        match self {
            Place::Host(at) => Place::Host(at + bytes),
            Place::Shared(at) => Place::Shared(at + bytes as usize),
            Place::Local(at) => Place::Local(at + bytes as usize),
            Place::Param(at) => Place::Param(at + bytes as usize),
            Place::KernelParam(at) => Place::KernelParam(at + bytes as usize),
            Place::Heap(at) => Place::Heap(at + bytes as usize),
        }
    }
}

impl Cx<'_> {
    /// Checks an access of `bytes` bytes, and returns its place.
    pub fn place(&self, at: &Addr, bytes: u64, access: Access) -> Exec<Place> {
        self.place_of(at.space, self.address(at)?, bytes, access)
    }

    /// An address in its state space.
    pub fn address(&self, at: &Addr) -> Exec<u64> {
        Ok(self.value(at.base)?.wrapping_add_signed(at.offset))
    }

    /// Checks an access of `bytes` bytes at an address of a state space, and returns its place.
    pub fn place_of(&self, at: Space, address: u64, bytes: u64, access: Access) -> Exec<Place> {
        let access_name = access.name();
        if !address.is_multiple_of(bytes) {
            let space = at.name();
            return Err(Cause::Misaligned { access: access_name, space, address, bytes }.into());
        }
        let (space, offset) = match at {
            Space::Generic => split(address),
            // The block's own shared memory keeps its plain addresses.
            Space::SharedCluster if of_cluster(address).is_some() => (Space::Generic, address),
            Space::SharedCluster if address < WINDOW => (Space::Shared, address),
            space => (space, address),
        };
        let found = match space {
            Space::Shared => {
                let place = || Place::Shared(self.shared.at(self.ids.rank, offset));
                self.fits_shared(offset, bytes).then(place)
            }
            Space::Generic if let Some((rank, offset)) = of_cluster(offset) => {
                self.shared.check_life(rank, self.ids.rank)?;
                self.fits_shared(offset, bytes).then(|| Place::Shared(self.shared.at(rank, offset)))
            }
            Space::Local => {
                let at = offset.wrapping_sub(FIRST_OFFSET);
                let fits = at.saturating_add(bytes) <= self.local.len() as u64;
                fits.then_some(Place::Local(at as usize))
            }
            Space::Param if at == Space::Generic => {
                if access != Access::Load {
                    return Err(Cause::ReadOnly { access: access_name, address, bytes }.into());
                }
                let fits = offset.saturating_add(bytes) <= self.grid.params.len() as u64;
                fits.then_some(Place::KernelParam(offset as usize))
            }
            Space::Param => {
                let fits = offset.saturating_add(bytes) <= self.frame.params.len() as u64;
                fits.then_some(Place::Param(offset as usize))
            }
            Space::SharedCluster => None,
            Space::Generic | Space::Global if heap::holds(offset) => {
                Some(Place::Heap(self.grid.driver.heap.borrow().place(offset, bytes, access)?))
            }
            Space::Generic | Space::Global | Space::Const => {
                return self.host(at, offset, bytes, access);
            }
        };
        found.ok_or_else(|| {
            Cause::OutOfBounds { access: access_name, space: space.name(), address, bytes }.into()
        })
    }

    fn fits_shared(&self, offset: u64, bytes: u64) -> bool {
        let fits = |&(start, end): &(u64, u64)| start <= offset && offset < end && bytes <= end - offset;
        self.grid.shared.iter().any(fits)
    }

    /// `mapa`: maps an address of the block's own shared memory to the same variable in another block, as a generic or
    /// cluster address.
    pub fn map(&self, space: Space, address: u64, rank: u64) -> Exec<u64> {
        let rank = rank as u32;
        if rank >= self.grid.cluster {
            let blocks = self.grid.cluster;
            return Err(Cause::Cluster(format!("block {rank} of a cluster of {blocks}")).into());
        }
        let place = match space {
            Space::SharedCluster if address < WINDOW => (Space::Shared, address),
            _ => split(address),
        };
        match place {
            (Space::Shared, offset) => Ok(CLUSTER_WINDOW + u64::from(rank) * WINDOW + offset),
            _ => Err(Cause::WrongSpace { address, space: Space::Shared.name() }.into()),
        }
    }

    pub fn host(&self, space: Space, address: u64, bytes: u64, access: Access) -> Exec<Place> {
        let mut is_read_only = false;
        for region in self.grid.regions.holding(address, bytes) {
            if space == Space::Generic || region.space == space {
                if access == Access::Load || region.is_writable {
                    return Ok(Place::Host(address));
                }
                is_read_only = true;
            }
        }
        let access = access.name();
        Err(if is_read_only {
            Cause::ReadOnly { access, address, bytes }
        } else {
            Cause::OutOfBounds { access, space: space.name(), address, bytes }
        }
        .into())
    }

    /// Loads the `bytes` bytes at a checked place, at most eight.
    #[inline]
    pub fn load(&self, place: Place, bytes: usize) -> Bits {
        match place {
            Place::Shared(at) => self.shared.memory.load(at, bytes),
            Place::Local(at) => self.local.load(at, bytes),
            Place::Param(at) => self.frame.params.load(at, bytes),
            Place::KernelParam(at) => self.grid.params.load(at, bytes),
            Place::Heap(at) => self.grid.driver.heap.borrow().memory().load(at, bytes),
            Place::Host(address) => {
                let mut all = [0u8; 8];
                let source: *const u8 = core::ptr::with_exposed_provenance(address as usize);
                // SAFETY: the bytes lie in a region that the caller of the launch has lent to it.
                unsafe { core::ptr::copy_nonoverlapping(source, all.as_mut_ptr(), bytes) };
                self.grid.unwritten.loaded(address, bytes, u64::from_le_bytes(all))
            }
        }
    }

    /// Writes the low `bytes` bytes of a value to a checked place.
    #[inline]
    pub fn store(&mut self, place: Place, bytes: usize, bits: Bits) {
        match place {
            Place::Shared(at) => {
                self.grid.note_store();
                self.shared.unfenced.write(at);
                self.shared.pins.write(at);
                self.shared.memory.store(at, bytes, bits);
            }
            Place::Local(at) => {
                self.polls.forget_state();
                self.local.store(at, bytes, bits);
            }
            // A check for a store never returns such a place.
            Place::KernelParam(_) => {}
            Place::Param(at) => {
                self.polls.forget_state();
                self.frame.params.store(at, bytes, bits);
            }
            Place::Heap(at) => {
                self.grid.note_store();
                self.grid.driver.heap.borrow_mut().memory_mut().store(at, bytes, bits);
            }
            Place::Host(address) => {
                self.grid.note_store();
                let by = (self.frame.function, self.frame.pc);
                let all = self.grid.unwritten.stored(address, bytes, bits, by).to_le_bytes();
                let target: *mut u8 = core::ptr::with_exposed_provenance_mut(address as usize);
                // SAFETY: the bytes lie in a writable region that the caller of the launch has lent to it.
                unsafe { core::ptr::copy_nonoverlapping(all.as_ptr(), target, bytes) };
            }
        }
    }

    /// `isspacep`: whether a generic address points into `space`.
    pub fn is_in(&self, space: Space, address: u64) -> bool {
        let is_constant = || self.grid.regions.holding(address, 1).any(|region| region.space == Space::Const);
        match (split(address).0, space) {
            (Space::Generic, Space::Const) => is_constant(),
            (Space::Generic, Space::Global) => !is_constant(),
            (found, _) => found == space,
        }
    }
}

/// The memory an address lies in, allocated or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Global,
    Constant,
    /// Of the own block, or of the block of this rank.
    Shared(Option<u32>),
    Local,
    Param,
}

/// The memory that an address of a state space lies in. A load of a constant by its generic address counts as one from
/// global memory.
pub(super) fn home(space: Space, address: u64) -> Home {
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
pub(super) fn generic(space: Space, address: u64) -> u64 {
    address.wrapping_add(window(space))
}

/// `cvta.to.space`: the address in `space` of a generic one.
///
/// Compilers convert addresses before they know where these point, and compare the result with the result for zero. So
/// converting any address is valid, and the result for an address that points elsewhere is not a valid place.
pub(super) fn specific(space: Space, address: u64) -> u64 {
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
pub(super) fn function_at(address: u64) -> Option<usize> {
    let at = address.checked_sub(CODE_WINDOW)?;
    at.is_multiple_of(CODE_STRIDE).then_some((at / CODE_STRIDE) as usize)
}

/// The 32-bit address in a cluster's shared memory of a 64-bit one.
pub(super) fn narrow(address: u64) -> u64 {
    of_cluster(address).map_or(address, |(rank, offset)| NARROW | u64::from(rank) << NARROW_RANK | offset)
}

/// The rank and offset of an address in a cluster's shared memory, generic or of 32 bits.
fn of_cluster(address: u64) -> Option<(u32, u64)> {
    if address < WINDOW && address & NARROW != 0 {
        let at = address & !NARROW;
        return Some(((at >> NARROW_RANK) as u32, at & ((1 << NARROW_RANK) - 1)));
    }
    let at = address.checked_sub(CLUSTER_WINDOW)?;
    (at / WINDOW < 16).then_some(((at / WINDOW) as u32, at % WINDOW))
}

/// The state space and offset of a generic address; [`Space::Generic`] with the address itself for the host's memory.
fn split(address: u64) -> (Space, u64) {
    let windows =
        [(Space::Shared, SHARED_WINDOW), (Space::Local, LOCAL_WINDOW), (Space::Param, PARAM_WINDOW)];
    for (space, start) in windows {
        if let Some(offset) = address.checked_sub(start).filter(|&offset| offset < WINDOW) {
            return (space, offset);
        }
    }
    (Space::Generic, address)
}
