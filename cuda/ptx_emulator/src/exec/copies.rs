//! Asynchronous copies of bytes: `cp.async`, `cp.async.bulk`, `st.async` (PTX ISA, "Data Movement and Conversion
//! Instructions"). Until a copy lands, its target is undefined.

use super::bits::Bits;
use super::grid::Exec;
use super::pending::{Copy, Flight, Source, Store, Target};
use super::space::{Access, Place};
use super::thread::Cx;
use crate::error::Cause;
use crate::instr::{Instr, Slot, Space};

/// Addresses and sizes of bulk copies must be multiples of this.
pub(crate) const UNIT: u64 = 16;

fn in_flight(reason: String) -> Box<Cause> {
    Cause::InFlight(reason).into()
}

impl Cx<'_> {
    /// `cp.async`, of fewer bytes than it writes if it has a number of bytes.
    pub fn copy(&mut self, i: &Instr, bytes: Option<Slot>) -> Exec {
        let (at, size) = (&i.more().at, i.form.literal);
        let bytes = bytes.map_or(Ok(size), |bytes| self.value(bytes))?;
        if bytes > size {
            return Err(Cause::Unsupported(format!("a copy of {bytes} bytes into {size}")).into());
        }
        let (target, source) = (self.address(&at[0])?, self.address(&at[1])?);
        let place = self.place_of(Space::Shared, target, size, Access::Store)?;
        if bytes > 0 {
            // The whole copy is aligned, and its source is valid.
            if !source.is_multiple_of(size) {
                let (access, space) = (Access::Load.name(), Space::Global.name());
                return Err(Cause::Misaligned { access, space, address: source, bytes: size }.into());
            }
            for at in source..source + bytes {
                self.place_of(Space::Global, at, 1, Access::Load)?;
            }
        }
        self.forget(place, size);
        self.copies.open.push(Copy { target, source, size, bytes });
        Ok(())
    }

    /// `cp.async.wait_group`.
    pub fn wait_for_copies(&mut self, left: u64) -> Exec {
        for Copy { target, source, size, bytes } in self.copies.complete(left) {
            let target = self.place_of(Space::Shared, target, size, Access::Store)?;
            for at in 0..size {
                let mut byte = Bits::new(0);
                if at < bytes {
                    byte = self.load(self.place_of(Space::Global, source + at, 1, Access::Load)?, 1);
                }
                if byte.undefined != 0 {
                    self.note(Space::Global.name(), source + at);
                }
                self.store(target.plus(at), 1, byte);
            }
        }
        Ok(())
    }

    /// Makes the target of a copy undefined.
    fn forget(&mut self, target: Place, bytes: u64) {
        for at in (0..bytes).step_by(4) {
            self.store(target.plus(at), 4, Bits::UNDEFINED.and(0xffff_ffff));
        }
    }

    /// The size of a bulk copy, its target and its source.
    fn bulk(&self, i: &Instr) -> Exec<(u64, Place, Place)> {
        let at = &i.more().at;
        let bytes = match self.value(i.a)? {
            bytes if bytes > 0 && bytes.is_multiple_of(UNIT) => bytes,
            bytes => return Err(Cause::Unsupported(format!("a bulk copy of {bytes} bytes")).into()),
        };
        let target = self.places(at[0].space, self.address(&at[0])?, bytes, Access::Store)?;
        let source = self.places(at[1].space, self.address(&at[1])?, bytes, Access::Load)?;
        self.check_fenced(source, bytes)?;
        Ok((bytes, target, source))
    }

    /// `cp.async.bulk` to shared memory.
    pub fn start_bulk_copy(&mut self, i: &Instr) -> Exec {
        let (bytes, target, source) = self.bulk(i)?;
        let barrier = self.fenced_barrier(&i.more().at[2])?;
        self.start_flight(target, Source::Memory(source), bytes, barrier)
    }

    /// `st.async`.
    pub fn start_store(&mut self, i: &Instr) -> Exec {
        if self.grid.cluster == 1 {
            let reason = "st.async in a launch without clusters, at which GPUs trap; launch clusters of at least 2 blocks, or \
                write to the block's own memory";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        let (more, each) = (i.more(), i.form.ty.bytes());
        let bytes = each * more.a.len() as u64;
        let target = self.place(&more.at[0], bytes, Access::Store)?;
        let barrier = self.barrier_place(&more.at[1])?;
        let byte = |value: Bits, at: u64| value.map(|raw| raw >> (8 * at) & 0xff);
        let values = more.a.iter().map(|&value| self.bits(value));
        let value = values.flat_map(|value| (0..each).map(move |at| byte(value, at))).collect();
        self.start_flight(target, Source::Value(value), bytes, barrier)
    }

    /// Starts a copy to shared memory that counts at a barrier.
    pub fn start_flight(&mut self, target: Place, source: Source, bytes: u64, barrier: usize) -> Exec {
        let (Place::Shared(at), stride) = (target, self.shared.stride) else { return Ok(()) };
        if at / stride != barrier / stride {
            let reason = "a copy that counts at a barrier of another block than its target's";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        if let Some(line) = self.shared.flights.line_into(&(at..at + bytes as usize)) {
            let reason =
                format!("a copy into shared memory that the copy of PTX line {line} is on its way to");
            return Err(in_flight(reason));
        }
        self.forget(target, bytes);
        let line = self.line();
        self.shared.flights.start(Flight { target: at, source, bytes, barrier, line });
        Ok(())
    }

    /// Checks bytes of one allocation; the first must be at a multiple of 16.
    pub fn places(&self, space: Space, address: u64, bytes: u64, access: Access) -> Exec<Place> {
        let first = self.place_of(space, address, UNIT, access)?;
        for at in (UNIT..bytes).step_by(UNIT as usize) {
            self.place_of(space, address + at, UNIT, access)?;
        }
        Ok(first)
    }

    /// Lands the copies that a phase waits for, if it lacks nothing else and the thread polls it again.
    pub fn land(&mut self, barrier: usize) -> Exec {
        let thread = [self.ids.rank, self.ids.warp, self.ids.lane];
        for Flight { target: start, source, bytes, .. } in self.shared.flights.take(barrier, thread) {
            let target = Place::Shared(start);
            match &source {
                Source::Box(tile) => self.land_box(start, tile)?,
                Source::Memory(source) => {
                    (0..bytes).for_each(|at| self.store(target.plus(at), 1, self.load(source.plus(at), 1)));
                }
                Source::Value(value) => {
                    (0..bytes).zip(value).for_each(|(at, &byte)| self.store(target.plus(at), 1, byte));
                }
            }
            if !matches!(source, Source::Value(_)) {
                self.shared.unfenced.copy(start, bytes as usize);
            }
            self.complete_bytes(barrier, bytes)?;
        }
        Ok(())
    }

    /// `cp.async.bulk` to global memory.
    pub fn start_bulk_store(&mut self, i: &Instr) -> Exec {
        let (bytes, target, source) = self.bulk(i)?;
        let was = self.contents(source, bytes);
        (0..bytes).step_by(8).for_each(|at| self.store(target.plus(at), 8, Bits::UNDEFINED));
        self.hold_store(Target::Bytes(target), source, was);
        Ok(())
    }

    /// `cp.reduce.async.bulk` to global memory.
    pub fn start_bulk_add(&mut self, i: &Instr) -> Exec {
        let (bytes, target, source) = self.bulk(i)?;
        let was = self.contents(source, bytes);
        self.hold_store(Target::Sums(target), source, was);
        Ok(())
    }

    /// Holds a copy to global memory until its thread waits for it.
    pub fn hold_store(&mut self, target: Target, source: Place, was: Vec<Bits>) {
        let line = self.line();
        self.stores.open.push(Store { target, source, was, is_read: false, line });
    }

    /// Checks that a bulk copy may read the source, if it is shared memory.
    pub fn check_fenced(&self, source: Place, bytes: u64) -> Exec {
        match source {
            Place::Shared(at) if !self.shared.unfenced.are_fenced(at, bytes as usize) => {
                let reason =
                    "a bulk copy reads what was written to shared memory with no fence.proxy.async since";
                Err(in_flight(reason.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The contents of bytes, in units of 8.
    pub fn contents(&self, source: Place, bytes: u64) -> Vec<Bits> {
        (0..bytes).step_by(8).map(|at| self.load(source.plus(at), 8)).collect()
    }

    /// `cp.async.bulk.wait_group`; only for the sources if `reads`.
    pub fn wait_for_bulk_stores(&mut self, left: u64, reads: bool) -> Exec {
        let done = self.stores.done(left);
        let mut groups = core::mem::take(&mut self.stores.groups);
        for store in groups.iter_mut().take(done).flatten().filter(|store| !store.is_read) {
            if self.contents(store.source, 8 * store.was.len() as u64) != store.was {
                let line = store.line;
                return Err(in_flight(format!(
                    "the source of the copy of PTX line {line} has changed before the wait"
                )));
            }
            store.is_read = true;
        }
        if !reads {
            groups.drain(..done).flatten().try_for_each(|store| self.make_bulk_store(store))?;
        }
        self.stores.groups = groups;
        Ok(())
    }

    fn make_bulk_store(&mut self, Store { target, was, .. }: Store) -> Exec {
        match target {
            Target::Bytes(target) => {
                (0..).step_by(8).zip(was).for_each(|(at, bits)| self.store(target.plus(at), 8, bits));
                Ok(())
            }
            Target::Sums(target) => {
                for (at, bits) in (0..).step_by(8).zip(was) {
                    let old = self.load(target.plus(at), 8);
                    if (old.undefined | bits.undefined) != 0 {
                        return Err(Cause::UndefinedMemory { space: Space::Global.name() }.into());
                    }
                    let sum = |shift: u32| {
                        let number = |bits: u64| f32::from_bits((bits >> shift) as u32);
                        u64::from((number(old.value) + number(bits.value)).to_bits()) << shift
                    };
                    self.store(target.plus(at), 8, Bits::new(sum(0) | sum(32)));
                }
                Ok(())
            }
            Target::Box(tile, source) => self.make_tensor_store(&tile, source, &was),
        }
    }

    /// Completes the remaining copies when the thread ends.
    pub fn end_bulk_stores(&mut self) -> Exec {
        self.stores.commit();
        for store in self.stores.complete(0) {
            if !store.is_read {
                let (bytes, line) = (8 * store.was.len(), store.line);
                return Err(in_flight(format!(
                    "the copy of {bytes} bytes of PTX line {line} was reading when its thread ended"
                )));
            }
            self.make_bulk_store(store)?;
        }
        Ok(())
    }
}
