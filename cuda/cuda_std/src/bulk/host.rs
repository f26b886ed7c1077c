//! The executor's half: a copy is kept at the block whose shared memory it writes, until somebody waits for it.

use core::mem::MaybeUninit;
use core::panic::Location;

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
    unsafe { host::check(barrier) }.map_err(|reason| format!(" counts at a barrier {reason}"))
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
