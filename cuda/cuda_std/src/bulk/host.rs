//! Bulk copies on the executor. The block keeps a copy to shared memory until a thread waits for it, and each thread
//! keeps its copies to global memory.

use core::mem::MaybeUninit;
use core::panic::Location;

use super::stores::{self, Store, Stores, Target};
use crate::barrier::{Barrier, state};
use crate::cluster;
use crate::simt::Place;
use crate::simt::context::{ThreadContext, current, refuse};
use crate::simt::flights::{Flight, Source};
use crate::simt::proxy::CHUNK;
use crate::simt::shared::BlockShared;
use crate::wgmma::host::warpgroup;

/// The content of memory that must not be read yet: a NaN in every float format.
const POISON: u8 = 0xff;

/// Addresses and sizes are multiples of this number of bytes.
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
        // SAFETY: the caller guarantees a valid barrier and target.
        unsafe {
            check_barrier(own, barrier)?;
            check_fenced_barrier(own, barrier)?;
            check_target(own, shared.addr(), bytes)?;
            forget(shared, bytes);
        }
        let flight = Flight::new(
            origin(context),
            (name, location),
            (shared, Source::Memory(global), bytes),
            barrier.cast(),
        );
        own.flights.start(flight);
        Ok(())
    });
    if let Err(reason) = started {
        refuse(name, &format!("(){reason}"));
    }
}

/// Starts the copy: the target becomes uninitialised.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn shared_to_global(global: *mut u8, shared: *const u8, bytes: u64) {
    start_store("bulk::shared_to_global", Target::Memory(global), global, shared, bytes);
}

/// Starts the additions.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn add_to_global(global: *mut f32, shared: *const f32, bytes: u64) {
    start_store("bulk::add_to_global", Target::Sums(global), global.cast(), shared.cast(), bytes);
}

#[track_caller]
fn start_store(operation: &'static str, target: Target, global: *mut u8, shared: *const u8, bytes: u64) {
    let location = Location::caller();
    let started = current(operation, |context| {
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
        check_source(context, shared, bytes)?;
        let (was, read) = (stores::snapshot(shared, bytes), Vec::new());
        if matches!(target, Target::Memory(_)) {
            // SAFETY: the caller guarantees a valid target.
            unsafe { forget(global, bytes) };
        }
        let store = Store { operation, target, source: shared, bytes, location, was, read };
        context.channel.with_state(|stores: &mut Stores| stores.start(store));
        Ok(())
    });
    if let Err(reason) = started {
        refuse(operation, &format!("(){reason}"));
    }
}

/// Starts the copy to another block: the target becomes uninitialised.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn shared_to_shared(
    target: *mut u8,
    shared: *const u8,
    bytes: u64,
    (barrier, rank): (*mut Barrier, u32),
) {
    let (name, location) = ("bulk::shared_to_shared", Location::caller());
    let started = current(name, |context| {
        let own = context.shared();
        let bytes = checked_size(bytes)?;
        check_aligned(target.addr(), "target's")?;
        check_aligned(shared.addr(), "source's")?;
        check_shared(own, target.addr(), bytes)?;
        check_shared(own, shared.addr(), bytes)?;
        check_source(context, shared, bytes)?;
        // SAFETY: the caller guarantees a valid barrier and target.
        unsafe {
            start_remote(context, (name, location), (target, Source::Memory(shared), bytes), (barrier, rank))
        }
    });
    if let Err(reason) = started {
        refuse(name, &format!("(){reason}"));
    }
}

/// Starts a store to another block: the target becomes uninitialised.
///
/// # Safety
/// See [`store_async`](crate::cluster::store_async).
#[track_caller]
pub(crate) unsafe fn store_async<T: Copy>(pointer: *mut T, value: T, barrier: *mut Barrier, rank: u32) {
    let (name, location) = ("cluster::store_async", Location::caller());
    let started = current(name, |context| {
        let (bytes, address) = (size_of::<T>(), pointer.addr());
        if context.cluster().len() == 1 {
            return Err(" in a launch without clusters, at which GPUs trap; launch clusters of at least 2 blocks, or write \
                to the block's own memory"
                .into());
        }
        check_shared(context.shared(), address, bytes)?;
        if !address.is_multiple_of(bytes) {
            return Err(format!(" got the address {address:#x}; align it to the store's {bytes} bytes"));
        }
        let mut all = [MaybeUninit::uninit(); 16];
        // SAFETY: at most 16 bytes, which need no alignment here.
        unsafe { all.as_mut_ptr().cast::<T>().write_unaligned(value) };
        let source = Source::Value(all);
        // SAFETY: the caller guarantees a valid barrier and target.
        unsafe { start_remote(context, (name, location), (pointer.cast(), source, bytes), (barrier, rank)) }
    });
    if let Err(reason) = started {
        refuse(name, &format!("(){reason}"));
    }
}

/// Starts a copy to the counterpart of `target` in block `rank`. It counts at the counterpart of `barrier` there.
///
/// # Safety
/// See [the module](super#safety-of-the-copies), for both.
unsafe fn start_remote(
    context: &ThreadContext<'_>,
    call: (&'static str, &'static Location<'static>),
    (target, source, bytes): (*mut u8, Source, usize),
    (barrier, rank): (*mut Barrier, u32),
) -> Result<(), String> {
    let spaced = |reason| format!(" {reason}");
    let (target, member) = cluster::remote(context, target, rank).map_err(spaced)?;
    let (barrier, _) = cluster::remote(context, barrier.cast(), rank).map_err(spaced)?;
    // SAFETY: the caller guarantees a valid target, and memory that is accessed only as a barrier.
    unsafe {
        check_barrier(&member.shared, barrier.cast())?;
        if matches!(source, Source::Memory(_)) {
            check_fenced_barrier(&member.shared, barrier.cast())?;
        }
        check_target(&member.shared, target.addr(), bytes)?;
        forget(target, bytes);
    }
    let flight = Flight::new(origin(context), call, (target, source, bytes), barrier.cast());
    member.shared.flights.start(flight);
    Ok(())
}

/// Groups the thread's open copies.
#[track_caller]
pub(super) fn commit() {
    current("bulk::commit", |context| context.channel.with_state(Stores::commit));
}

/// Hands the running thread's copies to `f`, which waits for some of them.
#[track_caller]
pub(super) fn wait(name: &'static str, f: impl FnOnce(&mut Stores) -> Result<(), String>) {
    let waited = current(name, |context| context.channel.with_state(f));
    if let Err(reason) = waited {
        refuse(name, &format!("(){reason}"));
    }
}

/// Notes that a thread has fenced its writes.
#[track_caller]
pub(super) fn fence_shared() {
    current("bulk::fence_shared", |context| context.shared().fences.fence());
}

/// Returns the thread that starts a copy, and whether it is a fiber.
pub(crate) fn origin(context: &ThreadContext<'_>) -> (Place, bool) {
    (context.place(), context.channel.is_fiber())
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

pub(crate) fn check_shared(own: &BlockShared, address: usize, bytes: usize) -> Result<(), String> {
    if own.holds(address, bytes) {
        Ok(())
    } else {
        Err(format!(
            " of {bytes} bytes at {address:#x}, which are not all in the block's shared memory; put them in one \
             shared_array! or in dynamic shared memory"
        ))
    }
}

/// Checks that the copy sees what threads wrote to these bytes of shared memory.
pub(crate) fn check_source(
    context: &ThreadContext<'_>,
    shared: *const u8,
    bytes: usize,
) -> Result<(), String> {
    if !context.channel.is_fiber() {
        return context.shared().check_fenced();
    }
    let chunk = |at: usize| {
        let address = shared.wrapping_add(at);
        // SAFETY: the block's shared memory, which the executor has initialised. All threads of the block are fibers of
        // this OS thread. The compiler assumes nothing about the value of a volatile read.
        (address.addr(), unsafe { address.cast::<[u8; CHUNK]>().read_volatile() })
    };
    let chunks = (0..bytes).step_by(CHUNK).map(chunk);
    context.shared().check_visible(chunks, None).map_err(|reason| format!(" {reason}"))
}

/// # Safety
/// If `barrier` is in shared memory, it is accessed only as a barrier.
pub(crate) unsafe fn check_barrier(own: &BlockShared, barrier: *mut Barrier) -> Result<(), String> {
    if !own.holds(barrier.addr(), size_of::<Barrier>()) || !barrier.is_aligned() {
        let address = barrier.addr();
        return Err(format!(
            " got a barrier at {address:#x}, which is not in the block's shared memory; make it an element of a \
             shared_array!"
        ));
    }
    // SAFETY: it lies in shared memory, aligned, and is accessed only as a barrier.
    unsafe { state::check(barrier.cast()) }.map_err(|reason| format!(" counts at a barrier {reason}"))
}

/// Checks that a barrier may have been fenced after it was initialised.
pub(crate) fn check_fenced_barrier(own: &BlockShared, barrier: *mut Barrier) -> Result<(), String> {
    if own.fences.is_fenced(barrier.addr()) {
        Ok(())
    } else {
        Err(" counts at a barrier that was not fenced; call Barrier::fence_init() after Barrier::init()"
            .into())
    }
}

/// Checks that no pending multiplication reads the target.
pub(crate) fn check_target(own: &BlockShared, address: usize, bytes: usize) -> Result<(), String> {
    match warpgroup::reader(own, address, bytes) {
        None => Ok(()),
        Some(location) => Err(format!(
            " into shared memory that wgmma::Pending::multiply() at {location} still reads; wait for its group, and let the thread \
             that copies wait for that"
        )),
    }
}

/// Makes memory uninitialised.
///
/// # Safety
/// `target` is valid for writes.
pub(crate) unsafe fn forget(target: *mut u8, bytes: usize) {
    // SAFETY: the target is valid for writes.
    unsafe {
        if cfg!(miri) {
            let nothing = vec![MaybeUninit::<u8>::uninit(); bytes];
            target.cast::<MaybeUninit<u8>>().copy_from_nonoverlapping(nothing.as_ptr(), bytes);
        } else {
            target.write_bytes(POISON, bytes);
        }
    }
}
