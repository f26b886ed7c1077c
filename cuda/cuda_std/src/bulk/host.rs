//! The executor's half: a copy to shared memory is kept at the block, until somebody waits for it, and one to global memory at
//! its thread.

use core::mem::MaybeUninit;
use core::panic::Location;

use super::TO_GLOBAL;
use super::stores::{self, Store, Stores};
use crate::barrier::{Barrier, host};
use crate::simt::context::current;
use crate::simt::flights::Flight;
use crate::simt::shared::BlockShared;

/// What nobody may read holds: a NaN in every float format.
const POISON: u8 = 0xff;

/// What addresses and sizes are multiples of.
const UNIT: usize = 16;

/// Starts the copy: the target becomes uninitialised.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn global_to_shared(shared: *mut u8, global: *const u8, bytes: u64, barrier: *mut Barrier) {
    let (name, location) = ("bulk::global_to_shared", Location::caller());
    let started = current(name, |context| {
        let own = context.shared();
        let bytes = checked_size(bytes)?;
        check_aligned(shared.addr(), "shared")?;
        check_aligned(global.addr(), "global")?;
        check_shared(own, shared.addr(), bytes)?;
        if own.holds(global.addr(), 1) {
            return Err(format!(
                " from {:#x}, which is in shared memory; copy from global memory",
                global.addr()
            ));
        }
        // SAFETY: the caller's barrier and target.
        unsafe {
            check_barrier(own, barrier)?;
            forget(shared, bytes);
        }
        let flight = Flight::new(context, (name, location), (shared, global, bytes), barrier.cast());
        own.flights.start(flight);
        Ok(())
    });
    if let Err(reason) = started {
        panic!("{name}(){reason}");
    }
}

/// Starts the copy: the target becomes uninitialised.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn shared_to_global(global: *mut u8, shared: *const u8, bytes: u64) {
    let location = Location::caller();
    let started = current(TO_GLOBAL, |context| {
        let own = context.shared();
        let bytes = checked_size(bytes)?;
        check_aligned(global.addr(), "global")?;
        check_aligned(shared.addr(), "shared")?;
        check_shared(own, shared.addr(), bytes)?;
        if own.holds(global.addr(), 1) {
            return Err(format!(
                " to {:#x}, which is in shared memory; copy to global memory",
                global.addr()
            ));
        }
        // What came by copies needs no fence.
        if !own.fences.any() && !own.flights.is_used() {
            return Err(
                " of what no thread has fenced; let those that wrote it call bulk::fence_shared() before the barrier".into(),
            );
        }
        let (was, read) = (stores::snapshot(shared, bytes), Vec::new());
        // SAFETY: the caller's target.
        unsafe { forget(global, bytes) };
        let store = Store { target: global, source: shared, bytes, location, was, read };
        context.channel.with_copies(|copies| copies.stores.start(store));
        Ok(())
    });
    if let Err(reason) = started {
        panic!("{TO_GLOBAL}(){reason}");
    }
}

/// Makes the thread's open copies a group.
#[track_caller]
pub(super) fn commit() {
    current("bulk::commit", |context| context.channel.with_copies(|copies| copies.stores.commit()));
}

/// Hands the running thread's copies to `f`, which waits for some of them.
#[track_caller]
pub(super) fn wait(name: &'static str, f: impl FnOnce(&mut Stores) -> Result<(), String>) {
    let waited = current(name, |context| {
        let mut result = Ok(());
        context.channel.with_copies(|copies| result = f(&mut copies.stores));
        result
    });
    if let Err(reason) = waited {
        panic!("{name}(){reason}");
    }
}

/// Notes that a thread has fenced what it wrote.
#[track_caller]
pub(super) fn fence_shared() {
    current("bulk::fence_shared", |context| context.shared().fences.fence());
}

fn checked_size(bytes: u64) -> Result<usize, String> {
    if bytes > 0 && bytes.is_multiple_of(UNIT as u64) {
        Ok(bytes as usize)
    } else {
        Err(format!(" of {bytes} bytes; copy a multiple of {UNIT}, and not 0"))
    }
}

fn check_aligned(address: usize, of: &str) -> Result<(), String> {
    if address.is_multiple_of(UNIT) {
        Ok(())
    } else {
        Err(format!(" got the {of} address {address:#x}; align it to {UNIT} bytes"))
    }
}

fn check_shared(own: &BlockShared, address: usize, bytes: usize) -> Result<(), String> {
    if own.holds(address, bytes) {
        Ok(())
    } else {
        Err(format!(
            " of {bytes} bytes at {address:#x}, which are not all in the block's shared memory; let them lie in one \
             shared_array!, or in dynamic shared memory"
        ))
    }
}

/// # Safety
/// Where the barrier is in shared memory, it is at most accessed as one.
unsafe fn check_barrier(own: &BlockShared, barrier: *mut Barrier) -> Result<(), String> {
    if !own.holds(barrier.addr(), size_of::<Barrier>()) || !barrier.is_aligned() {
        let address = barrier.addr();
        return Err(format!(
            " got a barrier at {address:#x}, which is not in the block's shared memory; make it an element of a \
             shared_array!"
        ));
    }
    // SAFETY: the caller's.
    unsafe { host::check(barrier) }.map_err(|reason| format!(" counts at a barrier {reason}"))?;
    if own.fences.is_fenced(barrier.addr()) {
        Ok(())
    } else {
        Err(" counts at a barrier that was not fenced; call Barrier::fence_init() after Barrier::init()"
            .into())
    }
}

/// Makes memory uninitialised.
///
/// # Safety
/// It is valid for writes, and so many bytes are a multiple of [`UNIT`].
unsafe fn forget(target: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe {
        if cfg!(miri) {
            let units = target.cast::<MaybeUninit<[u8; UNIT]>>();
            (0..bytes / UNIT).for_each(|i| units.add(i).write(MaybeUninit::uninit()));
        } else {
            target.write_bytes(POISON, bytes);
        }
    }
}
