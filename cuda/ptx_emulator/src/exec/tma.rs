//! `cp.async.bulk.tensor`: copies of boxes of tensors, each started by one thread.

use super::bits::Bits;
use super::counts::event::Way;
use super::grid::Exec;
use super::pending::{Source, Target};
use super::space::{Access, Place};
use super::thread::Cx;
use super::tile::{Run, Tile, UNIT};
use crate::error::Cause;
use crate::instr::{Addr, Instr, Slot, Space};
use crate::tensor_map::TensorMap;

/// The alignment of a tensor map's address.
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
        let (address, space) = (self.address(at)?, at.space);
        if !address.is_multiple_of(MAP_ALIGNMENT) {
            let (access, space) = (Access::Load.name(), space.name());
            return Err(Cause::Misaligned { access, space, address, bytes: MAP_ALIGNMENT }.into());
        }
        let mut words = [0; 16];
        for (word, at) in words.iter_mut().zip((address..).step_by(8)) {
            let place = self.place_of(space, at, 8, Access::Load)?;
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
            *word = bits.value;
        }
        TensorMap::decode(words).ok_or_else(|| refuse(format!("there is no tensor map at {address:#x}")))
    }

    /// The box of an instruction, whose map is its address number `map`.
    pub fn tile(&self, i: &Instr, map: usize) -> Exec<Tile> {
        let coordinates = &i.more().c;
        let map = self.tensor_map(&i.more().at[map])?;
        if map.sizes.len() != coordinates.len() {
            let (have, rank) = (map.sizes.len(), coordinates.len());
            return Err(refuse(format!("an instruction of {rank} dimensions and a tensor map of {have}")));
        }
        let at = coordinates.iter().map(|&slot| Ok(i64::from(self.value(slot)? as u32 as i32)));
        let (at, element) = (at.collect::<Exec<Vec<_>>>()?, map.element);
        if at[0] * element as i64 % UNIT as i64 != 0 {
            return Err(refuse(format!(
                "the innermost coordinate {} of elements of {element} bytes is not a multiple of {UNIT} bytes",
                at[0]
            )));
        }
        Ok(Tile { map, at })
    }

    /// Checks a box in shared memory, and returns its offset.
    fn box_place(&self, at: &Addr, tile: &Tile, access: Access) -> Exec<usize> {
        let address = self.address(at)?;
        let alignment = tile.map.swizzle.alignment();
        if !address.is_multiple_of(alignment) {
            return Err(refuse(format!(
                "the box at {address:#x} of shared memory is not aligned to {alignment} bytes, as {:?} needs",
                tile.map.swizzle
            )));
        }
        match self.places(at.space, address, tile.bytes(), access)? {
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

    /// `cp.async.bulk.tensor` to shared memory: of the address's block, or of the blocks of a mask.
    pub fn start_tensor_load(&mut self, i: &Instr, blocks: Option<Slot>) -> Exec {
        self.value(i.b)?;
        let (tile, at) = (self.tile(i, 1)?, &i.more().at);
        let bytes = tile.bytes();
        self.check_tensor(&tile, Access::Load)?;
        let target = self.box_place(&at[0], &tile, Access::Store)?;
        let barrier = self.fenced_barrier(&at[2])?;
        let Some(blocks) = blocks else {
            return self.start_flight(Place::Shared(target), Source::Box(tile), bytes, barrier);
        };
        let (blocks, stride) = (self.value(blocks)?, self.shared.stride);
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
            self.start_flight(Place::Shared(at(target)), Source::Box(tile), bytes, barrier)?;
        }
        Ok(())
    }

    /// Lands a copy of a box in shared memory.
    pub fn land_box(&mut self, target: usize, tile: &Tile) -> Exec {
        tile.runs(|Run { offset, address, bytes }| {
            let to = Place::Shared(tile.place(target, offset));
            let is_rounded = tile.map.is_rounded;
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
    pub fn start_tensor_store(&mut self, i: &Instr) -> Exec {
        self.value(i.b)?;
        let tile = self.tile(i, 0)?;
        if tile.map.is_rounded {
            return Err(refuse(
                "a store through a tensor map that rounds to TF32, which is only for reading".into(),
            ));
        }
        self.check_tensor(&tile, Access::Store)?;
        let at = self.box_place(&i.more().at[1], &tile, Access::Load)?;
        let source = Place::Shared(at);
        self.check_fenced(source, tile.bytes())?;
        let was = self.contents(source, tile.bytes());
        self.fill_tensor(&tile, |_| None)?;
        self.hold_store(Target::Box(tile, at), source, was);
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
