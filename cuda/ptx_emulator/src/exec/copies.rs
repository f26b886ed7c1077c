//! `cp.async` (PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy").
//!
//! A copy lands when its thread waits for it and not before, which the ISA allows. Until then the target is undefined.

use std::collections::VecDeque;

use super::Exec;
use super::memory::Access;
use super::thread::Cx;
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{CopyAsync, Slot, Space};

/// A copy that its thread has not waited for.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Offset in shared memory.
    target: u64,
    source: u64,
    size: u64,
    /// Bytes to copy; the rest becomes zeros.
    bytes: u64,
}

/// The copies of a thread.
#[derive(Debug, Default)]
pub(super) struct Copies {
    open: Vec<Pending>,
    groups: VecDeque<Vec<Pending>>,
}

impl Cx<'_> {
    /// `cp.async`.
    pub fn copy(&mut self, copy: &CopyAsync) -> Exec {
        let bytes = copy.bytes.map_or(Ok(copy.size), |bytes| self.value(bytes))?;
        if bytes > copy.size {
            let reason = format!("a copy of {bytes} bytes into {}", copy.size);
            return Err(Cause::Unsupported(reason).into());
        }
        let target = self.value(copy.target.base)?.wrapping_add_signed(copy.target.offset);
        let source = self.value(copy.source.base)?.wrapping_add_signed(copy.source.offset);
        let pending = Pending { target, source, size: copy.size, bytes };
        let place = self.place_of(Space::Shared, target, pending.size, Access::Store)?;
        if bytes > 0 {
            // The whole copy is aligned, and its source is valid.
            self.check_source(&pending)?;
        }
        for at in (0..pending.size).step_by(4) {
            self.store(place.plus(at), 4, Bits::UNDEFINED.and(0xffff_ffff));
        }
        self.copies.open.push(pending);
        Ok(())
    }

    fn check_source(&self, pending: &Pending) -> Exec {
        let Pending { source, size, bytes, .. } = *pending;
        if !source.is_multiple_of(size) {
            let (access, space) = (Access::Load.name(), Space::Global.name());
            return Err(Cause::Misaligned { access, space, address: source, bytes: size }.into());
        }
        (0..bytes).try_for_each(|at| self.place_of(Space::Global, source + at, 1, Access::Load).map(|_| ()))
    }

    /// `cp.async.commit_group`.
    pub fn commit_copies(&mut self) {
        let group = core::mem::take(&mut self.copies.open);
        self.copies.groups.push_back(group);
    }

    /// `cp.async.wait_group`, or `cp.async.wait_all`.
    pub fn wait_for_copies(&mut self, left: Option<Slot>) -> Exec {
        let left = match left {
            Some(left) => self.value(left)?,
            None => {
                self.commit_copies();
                0
            }
        };
        while self.copies.groups.len() as u64 > left {
            for pending in self.copies.groups.pop_front().unwrap_or_default() {
                self.make_copy(pending)?;
            }
        }
        Ok(())
    }

    fn make_copy(&mut self, Pending { target, source, size, bytes }: Pending) -> Exec {
        let target = self.place_of(Space::Shared, target, size, Access::Store)?;
        for at in 0..size {
            let byte = if at < bytes {
                self.load(self.place_of(Space::Global, source + at, 1, Access::Load)?, 1)
            } else {
                Bits::new(0)
            };
            if byte.undefined != 0 {
                self.note(Space::Global.name(), source + at);
            }
            self.store(target.plus(at), 1, byte);
        }
        Ok(())
    }
}
