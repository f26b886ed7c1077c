//! `cp.async.bulk.tensor`: copies of boxes of tensors, each started by one thread.

use super::Exec;
use super::counts::Way;
use super::memory::{Access, Place};
use super::stores::{Store, Target};
use super::thread::Cx;
use super::tile::{Run, Tile};
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{Addr, Space, TensorBox, TensorLoad, TensorStore};
use crate::tensor_map::{TensorElement, TensorMap};

/// Bytes of a tensor map, and the alignment of its address.
const MAP: u64 = 128;
const MAP_ALIGNMENT: u64 = 64;

/// The nearest TF32 number, ties to even; infinity and NaN stay.
fn nearest_tf32(raw: u64) -> u64 {
    let is_finite = f32::from_bits(raw as u32).is_finite();
    if is_finite { (raw + 0xfff + (raw >> 13 & 1)) & 0xffff_e000 } else { raw }
}

fn refuse(reason: String) -> Box<Cause> {
    Cause::TensorCopy(reason).into()
}

impl Cx<'_> {
    /// The tensor map at an address, in global, constant or parameter memory.
    pub fn tensor_map(&self, at: &Addr) -> Exec<TensorMap> {
        let address = self.address(at)?;
        if !address.is_multiple_of(MAP_ALIGNMENT) {
            let (access, space) = (Access::Load.name(), at.space.name());
            return Err(Cause::Misaligned { access, space, address, bytes: MAP_ALIGNMENT }.into());
        }
        let mut bytes = [0; MAP as usize];
        for (i, part) in bytes.chunks_exact_mut(8).enumerate() {
            let place = self.place_of(at.space, address + 8 * i as u64, 8, Access::Load)?;
            if matches!(place, Place::Shared(_) | Place::Local(_)) {
                return Err(refuse(format!(
                    "the tensor map at {address:#x} is not in global, constant or parameter memory; pass it by value or by pointer"
                )));
            }
            let bits = self.load(place, 8);
            if bits.undefined != 0 {
                return Err(refuse(format!(
                    "the tensor map at {address:#x} has bits that nothing was written to"
                )));
            }
            part.copy_from_slice(&bits.value.to_le_bytes());
        }
        let none = || refuse(format!("there is no tensor map at {address:#x}"));
        TensorMap::decode(&bytes).ok_or_else(none)
    }

    /// The box of an instruction.
    pub fn tile(&self, of: &TensorBox) -> Exec<Tile> {
        let map = self.tensor_map(&of.map)?;
        if map.sizes.len() != of.at.len() {
            let (have, rank) = (map.sizes.len(), of.at.len());
            return Err(refuse(format!("an instruction of {rank} dimensions and a tensor map of {have}")));
        }
        let at = of.at.iter().map(|&slot| Ok(i64::from(self.value(slot)? as u32 as i32)));
        Ok(Tile { map, at: at.collect::<Exec<_>>()? })
    }

    /// Checks a box in shared memory, and returns its offset.
    fn box_place(&self, space: Space, address: u64, tile: &Tile, access: Access) -> Exec<usize> {
        let alignment = tile.map.swizzle.alignment();
        if !address.is_multiple_of(alignment) {
            return Err(refuse(format!(
                "the box at {address:#x} of shared memory is not aligned to {alignment} bytes, as {:?} needs",
                tile.map.swizzle
            )));
        }
        match self.places(space, address, tile.bytes(), access)? {
            Place::Shared(at) => Ok(at),
            _ => Err(refuse(format!("the box at {address:#x} is not in shared memory"))),
        }
    }

    /// Checks the bytes of a box that lie within its tensor, and counts them.
    fn check_tensor(&self, tile: &Tile, access: Access) -> Exec {
        tile.runs(|run| match run.address {
            Some(address) => self.host(Space::Global, address, run.bytes, access).map(|_| ()),
            None => Ok(()),
        })?;
        let way = if access == Access::Load { Way::Load } else { Way::Store };
        if let Some(tally) = self.grid.tally {
            let mut tally = tally.borrow_mut();
            let touch = |Run { address, bytes, .. }: Run| {
                address.into_iter().for_each(|address| tally.touch(way, address, bytes));
                Ok::<(), Box<Cause>>(())
            };
            tile.runs(touch)?;
        }
        Ok(())
    }

    /// `cp.async.bulk.tensor` to shared memory.
    pub fn start_tensor_load(&mut self, load: &TensorLoad) -> Exec {
        if let Some(policy) = load.policy {
            self.value(policy)?;
        }
        let tile = self.tile(&load.source)?;
        let bytes = tile.bytes();
        self.check_tensor(&tile, Access::Load)?;
        let target = self.box_place(load.target.space, self.address(&load.target)?, &tile, Access::Store)?;
        let barrier = self.fenced_barrier(&load.barrier)?;
        let Some(blocks) = load.blocks else { return self.start_box(target, tile, bytes, barrier) };
        let (blocks, stride) = (self.value(blocks)?, self.shared.stride());
        if blocks == 0 || blocks >> self.grid.cluster != 0 {
            let cluster = self.grid.cluster;
            return Err(refuse(format!(
                "the mask {blocks:#b} of a multicast in a cluster of {cluster} blocks"
            )));
        }
        for rank in (0..self.grid.cluster).filter(|rank| blocks >> rank & 1 == 1) {
            self.shared.check_life(rank, self.ids.rank)?;
            let at = |place: usize| rank as usize * stride + place % stride;
            let barrier = self.fenced_barrier_at(at(barrier))?;
            let tile = Tile { map: tile.map.clone(), at: tile.at.clone() };
            self.start_box(at(target), tile, bytes, barrier)?;
        }
        Ok(())
    }

    /// Lands a copy of a box in shared memory.
    pub fn land_box(&mut self, target: usize, tile: &Tile) -> Exec {
        tile.runs(|Run { offset, address, bytes }| {
            let to = Place::Shared(tile.place(target, offset));
            let is_rounded = tile.map.element == TensorElement::Tf32;
            let width = if is_rounded {
                4
            } else if bytes.is_multiple_of(8) {
                8
            } else {
                1
            };
            for at in (0..bytes).step_by(width) {
                let value = match address {
                    Some(address) => self.load(Place::Host(address + at), width),
                    None => Bits::new(0),
                };
                let is_number = value.undefined == 0;
                let value =
                    if is_rounded && is_number { Bits::new(nearest_tf32(value.value)) } else { value };
                self.store(to.plus(at), width, value);
            }
            Ok(())
        })
    }

    /// `cp.async.bulk.tensor` to global memory.
    pub fn start_tensor_store(&mut self, store: &TensorStore) -> Exec {
        if let Some(policy) = store.policy {
            self.value(policy)?;
        }
        let tile = self.tile(&store.target)?;
        if tile.map.element == TensorElement::Tf32 {
            return Err(refuse(
                "a store through a tensor map that rounds to TF32, which is only for reading".into(),
            ));
        }
        self.check_tensor(&tile, Access::Store)?;
        let source = self.box_place(store.source.space, self.address(&store.source)?, &tile, Access::Load)?;
        self.check_fenced(Place::Shared(source), tile.bytes())?;
        let was = self.contents(Place::Shared(source), tile.bytes());
        self.fill_tensor(&tile, |_| None)?;
        let line = self.line();
        let target = Target::Box(tile, source);
        self.stores.start(Store { target, source: Place::Shared(source), was, is_read: false, line });
        Ok(())
    }

    /// Completes a copy of a box to global memory; its source must still be `was`.
    pub fn make_tensor_store(&mut self, tile: &Tile, source: usize, was: &[Bits]) -> Exec {
        self.fill_tensor(tile, |offset| {
            let at = tile.place(source, offset) - source;
            Some(was[at / 8].map(|raw| raw >> (8 * (at % 8))))
        })
    }

    /// Writes a box of a tensor by bytes of the box; undefined where `value` returns `None`.
    fn fill_tensor(&mut self, tile: &Tile, value: impl Fn(u64) -> Option<Bits>) -> Exec {
        tile.runs(|Run { offset, address, bytes }| {
            let Some(address) = address else { return Ok(()) };
            let is_whole = bytes.is_multiple_of(8) && offset.is_multiple_of(8);
            let (width, mask) = if is_whole { (8, u64::MAX) } else { (1, 0xff) };
            for at in (0..bytes).step_by(width) {
                let bits = value(offset + at).unwrap_or(Bits::UNDEFINED).and(mask);
                self.store(Place::Host(address + at), width, bits);
            }
            Ok(())
        })
    }
}
