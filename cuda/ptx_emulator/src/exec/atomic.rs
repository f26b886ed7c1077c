//! `atom` and `red`: read, combine, write, without another thread in between.

use super::float::{finish32, flush};
use super::memory::{Access, Place};
use super::thread::Cx;
use super::undefined::Bits;
use super::{Exec, int};
use crate::error::Cause;
use crate::instr::{Atom, AtomOp, FloatTy};

impl Cx<'_> {
    pub fn atomic(&mut self, atom: &Atom) -> Exec {
        let bytes = atom.ty.bits / 8;
        let (b, c) = (self.value(atom.b)?, self.value(atom.c)?);
        let place = self.place(&atom.at, u64::from(bytes), Access::Atomic)?;
        let old = self.load(place, bytes as usize);
        if old.undefined != 0 {
            return Err(Cause::UndefinedMemory { space: atom.at.space.name() }.into());
        }
        let old = old.value;
        let new = match atom.op {
            AtomOp::Int(op) => int::binary(op, atom.ty, old, b).unwrap_or_default(),
            AtomOp::FloatAdd(FloatTy::F32) => {
                // Global memory flushes subnormal numbers; shared memory keeps them.
                let ftz = matches!(place, Place::Host(_) | Place::Heap(_));
                let load = |raw: u64| flush(f32::from_bits(raw as u32), ftz);
                finish32(load(old) + load(b), ftz, false)
            }
            AtomOp::FloatAdd(FloatTy::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
            AtomOp::Exch => b,
            AtomOp::Cas if old == b => c,
            AtomOp::Cas => old,
            AtomOp::Inc if old >= b => 0,
            AtomOp::Inc => old + 1,
            AtomOp::Dec if old == 0 || old > b => b,
            AtomOp::Dec => old - 1,
        };
        self.store(place, bytes as usize, Bits::new(new));
        self.frame.set(atom.d, old);
        Ok(())
    }
}
