//! Loads and stores: finds the bytes of an address, and checks that the thread may access them.

use super::bits::Bits;
use super::grid::Exec;
use super::heap;
use super::polls::{Turn, mixed};
use super::races::{Kind, Seen};
use super::row::Flow;
use super::space::{Access, CLUSTER_WINDOW, FIRST_OFFSET, Place, WINDOW, of_cluster, split};
use super::thread::Cx;
use crate::error::Cause;
use crate::instr::{Addr, Instr, SINK, Slot, Space, flag};

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
    pub fn map(&self, i: &Instr) -> Exec<u64> {
        let (address, rank) = (self.value(i.a)?, self.value(i.b)? as u32);
        if rank >= self.grid.cluster {
            let blocks = self.grid.cluster;
            return Err(Cause::Cluster(format!("block {rank} of a cluster of {blocks}")).into());
        }
        let place = match i.form.space {
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

    /// Records an access at a checked place, if races are looked for.
    fn check_race(&self, place: Place, bytes: u64, kind: Kind) -> Exec {
        let Some(races) = &self.grid.races else { return Ok(()) };
        let (is_shared, address) = match place {
            Place::Shared(at) => (true, at as u64),
            Place::Host(at) => (false, at),
            _ => return Ok(()),
        };
        let block = self.grid.block_number(self.ids.ctaid);
        let seen = Seen { ids: self.ids, block, kind, line: self.line(), passed: [0; 2] };
        Ok(races.borrow_mut().access(is_shared, address, bytes, seen)?)
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

    /// Checks the cache policy, which has no effect, in the last operand.
    pub fn check_policy(&self, policy: u32) -> Exec {
        if policy == SINK { Ok(()) } else { self.value(policy).map(|_| ()) }
    }

    /// `ld`. Of a word that other threads may store, the load is a poll.
    pub fn ld(&mut self, i: &Instr) -> Exec<Flow> {
        let (form, more) = (&i.form, i.more());
        let (at, bytes) = (&more.at[0], form.ty.bytes());
        self.check_policy(i.a)?;
        let address = self.address(at)?;
        let place = self.place_of(at.space, address, bytes * more.d.len() as u64, Access::Load)?;
        let kind = if form.has(flag::STRONG) { Kind::AtomicLoad } else { Kind::Load };
        self.check_race(place, bytes * more.d.len() as u64, kind)?;
        for (index, &d) in more.d.iter().enumerate() {
            let offset = index as u64 * bytes;
            let mut value = self.load(place.plus(offset), bytes as usize);
            if value.undefined != 0 {
                self.note(at.space.name(), address + offset);
            }
            if form.ty.is_signed() {
                value = value.map(|raw| form.ty.extend(raw)).and(u64::MAX >> (64 - form.d_bits));
            }
            self.frame.set_bits(d, value);
        }
        if !form.has(flag::STRONG) {
            return Ok(Flow::Next);
        }
        Ok(Flow::Polled(self.poll(&more.d, address)))
    }

    /// `st`.
    pub fn st(&mut self, i: &Instr) -> Exec {
        let (more, bytes) = (i.more(), i.form.ty.bytes());
        self.check_policy(i.b)?;
        let place = self.place(&more.at[0], bytes * more.a.len() as u64, Access::Store)?;
        if self.grid.races.is_some() {
            let mut parts = more.a.iter().enumerate();
            // In global memory it is work done twice.
            let is_same = matches!(place, Place::Shared(_))
                && parts.all(|(index, &value)| {
                    let held = self.load(place.plus(index as u64 * bytes), bytes as usize);
                    held.undefined == 0 && held.value == self.bits(value).value & i.form.ty.mask()
                });
            let kind = match (i.form.has(flag::STRONG), is_same) {
                (true, _) => Kind::AtomicStore,
                (false, true) => Kind::StoreOfSame,
                (false, false) => Kind::Store,
            };
            self.check_race(place, bytes * more.a.len() as u64, kind)?;
        }
        for (index, &value) in more.a.iter().enumerate() {
            self.store(place.plus(index as u64 * bytes), bytes as usize, self.bits(value));
        }
        Ok(())
    }

    /// `cp.async.bulk.prefetch`: checks the prefetched memory, 16 bytes at a time.
    pub fn prefetch(&mut self, i: &Instr) -> Exec {
        let (at, bytes) = (i.more().at[0], self.value(i.a)?);
        if !bytes.is_multiple_of(16) {
            return Err(Cause::Unsupported(format!("a prefetch of {bytes} bytes")).into());
        }
        for done in (0..bytes).step_by(16) {
            self.place(&Addr { offset: at.offset + done as i64, ..at }, 16, Access::Load)?;
        }
        Ok(())
    }

    /// `atom` and `red`: reads, combines and writes, without another thread in between. `new` gets the old value, the
    /// operands, and whether the memory is global.
    pub fn atomic(&mut self, i: &Instr, new: impl Fn(u64, u64, u64, bool) -> u64) -> Exec {
        let (ty, at) = (i.form.ty, &i.more().at[0]);
        let (b, c) = (self.value(i.b)?, self.value(i.c)?);
        let place = self.place(at, ty.bytes(), Access::Atomic)?;
        self.check_race(place, ty.bytes(), Kind::Atomic)?;
        let old = self.load(place, ty.bytes() as usize);
        if old.undefined != 0 {
            return Err(Cause::UndefinedMemory { space: at.space.name() }.into());
        }
        let is_global = matches!(place, Place::Host(_) | Place::Heap(_));
        let new = new(old.value, b, c, is_global) & ty.mask();
        self.store(place, ty.bytes() as usize, Bits::new(new));
        self.frame.set(i.d, old.value);
        Ok(())
    }

    /// Records that the thread has loaded words that other threads may store.
    fn poll(&mut self, loaded: &[Slot], address: u64) -> Turn {
        let frame = &*self.frame;
        let values = loaded.iter().map(|&d| frame.bits(d).value);
        let found = mixed(core::iter::once(address).chain(values));
        self.polls.look((frame.function, frame.pc), found, || mixed(frame.numbers()))
    }

    /// Records that a phase of the mbarrier at this offset is incomplete; `found` stands for the barrier's state.
    pub fn poll_phase(&mut self, barrier: usize, found: u64) -> Turn {
        self.polls.phase = Some((barrier, self.frame.pc));
        // Registers are compared only if nothing happened for a while.
        if !self.grid.progress.is_quiet.get() {
            return Turn::Looked;
        }
        let frame = &*self.frame;
        let found = mixed([barrier as u64, found].into_iter());
        match self.polls.look((frame.function, frame.pc), found, || mixed(frame.numbers())) {
            Turn::Stood => Turn::Stood,
            Turn::Moved | Turn::Looked => Turn::Looked,
        }
    }
}
