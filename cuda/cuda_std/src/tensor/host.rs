//! Copies on the executor, which keeps them like those of [`bulk`](crate::bulk).

use core::panic::Location;

use super::tile::{CHUNK, Decoded, Tile};
use super::{TO_GLOBAL, TensorMap};
use crate::barrier::Barrier;
use crate::bulk::host::{
    check_barrier, check_fenced_barrier, check_shared, check_source, check_target, forget, origin,
};
use crate::bulk::stores::{self, Store, Stores, Target};
use crate::cluster;
use crate::simt::context::{ThreadContext, current, refuse};
use crate::simt::flights::{Flight, Source};

/// Returns the tile, and checks it and the shared memory that holds it.
fn tile_of(context: &ThreadContext<'_>, map: &TensorMap, at: &[i32], shared: usize) -> Result<Tile, String> {
    let map = Decoded::of(map).ok_or(
        " got a tensor map that is not for the CPU; encode it for the device that runs the kernel, and pass it by value",
    )?;
    if map.rank != at.len() {
        return Err(format!(" got {} coordinates for a tensor of {} dimensions", at.len(), map.rank));
    }
    if !(i64::from(at[0]) * map.element as i64).unsigned_abs().is_multiple_of(CHUNK as u64) {
        return Err(format!(
            " got the innermost coordinate {} of elements of {} bytes; make it a multiple of 16 bytes",
            at[0], map.element
        ));
    }
    let alignment = map.swizzle.alignment();
    if !shared.is_multiple_of(alignment) {
        return Err(format!(
            " got the shared address {shared:#x}; align it to {alignment} bytes for Swizzle::{:?}",
            map.swizzle
        ));
    }
    let tile = Tile::new(map, at);
    check_shared(context.shared(), shared, tile.bytes())?;
    Ok(tile)
}

/// Starts the copy to this block, or to the blocks of the mask: the target becomes uninitialised.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn global_to_shared(
    name: &'static str,
    shared: *mut u8,
    map: &TensorMap,
    at: &[i32],
    (barrier, blocks): (*mut Barrier, Option<u16>),
) {
    let location = Location::caller();
    let started = current(name, |context| {
        let tile = tile_of(context, map, at, shared.addr())?;
        let start = |member: &crate::simt::shared::BlockShared, target: *mut u8, barrier: *mut Barrier| {
            // SAFETY: the caller guarantees a valid barrier and target.
            unsafe {
                check_barrier(member, barrier)?;
                check_fenced_barrier(member, barrier)?;
                check_target(member, target.addr(), tile.bytes())?;
                forget(target, tile.bytes());
            }
            let what = (target, Source::Tile(Box::new(tile)), tile.bytes());
            member.flights.start(Flight::new(origin(context), (name, location), what, barrier.cast()));
            Ok::<_, String>(())
        };
        let Some(blocks) = blocks else { return start(context.shared(), shared, barrier) };
        if blocks == 0 {
            return Err(" to no block; set a bit for each block of the cluster that gets the tile".into());
        }
        for rank in (0..16).filter(|rank| blocks & (1 << rank) != 0) {
            let spaced = |reason| format!(" {reason}");
            let (target, member) = cluster::remote(context, shared, rank).map_err(spaced)?;
            let (barrier, _) = cluster::remote(context, barrier.cast(), rank).map_err(spaced)?;
            start(&member.shared, target, barrier.cast())?;
        }
        Ok(())
    });
    if let Err(reason) = started {
        refuse(name, &format!("(){reason}"));
    }
}

/// Starts the copy: the tile becomes uninitialised in the tensor.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn shared_to_global(map: &TensorMap, at: &[i32], shared: *const u8) {
    let location = Location::caller();
    let started = current(TO_GLOBAL, |context| {
        let tile = tile_of(context, map, at, shared.addr())?;
        let bytes = tile.bytes();
        if tile.is_rounded() {
            return Err(" got a tensor map that rounds to TF32, which is only for reading; encode another one to write".into());
        }
        if let Some(row) = tile.ends_within_chunk() {
            return Err(format!(
                " writes whole 16 bytes, and the tensor's rows end after {row}: what follows them would be lost; store their \
                 ends from registers, or make rows a multiple of 16 bytes long"
            ));
        }
        check_source(context, shared, bytes)?;
        let (was, read) = (stores::snapshot(shared, bytes), Vec::new());
        // SAFETY: the caller guarantees a valid tensor.
        tile.for_each_run(|run, bytes| unsafe { forget(run, bytes) });
        let target = Target::Tile(Box::new(tile));
        let store = Store { operation: TO_GLOBAL, target, source: shared, bytes, location, was, read };
        context.channel.with_state(|stores: &mut Stores| stores.start(store));
        Ok::<_, String>(())
    });
    if let Err(reason) = started {
        refuse(TO_GLOBAL, &format!("(){reason}"));
    }
}
