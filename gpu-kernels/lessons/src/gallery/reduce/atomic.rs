//! An atomic addition per element: correct, short, and serial.
//!
//! All additions go to one address, so the L2 slice that holds it executes them one by one. Their order depends on the
//! schedule, and sums of floats depend on the order: two runs may differ in the last bits.
//@ ptx(reduce_atomic): ld.global.b32 == 1, atom == 1, bar.sync == 0, .local == 0

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicF32;
use cuda_std::{kernel, thread};

/// `*out = 0`.
///
/// Launched with one thread.
///
/// # Safety
/// The launch is as described; no other code uses `out`.
#[kernel]
pub unsafe fn reduce_clear(out: *mut f32) {
    // SAFETY: the only thread writes the only element.
    unsafe { *out = 0.0 };
}

/// Adds the elements of `inp` to `*out`, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `inp` holds `len` elements, and no other code uses `out`.
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Cleared(256))]
pub unsafe fn reduce_atomic(out: *mut f32, inp: *const f32, len: u32) {
    let i = thread::index_1d();
    if i < len {
        // SAFETY: `i` lies in the array, and all accesses to the sum are atomic.
        unsafe { AtomicF32::from_ptr(out).fetch_add(*inp.add(i as usize), Ordering::Relaxed) };
    }
}
