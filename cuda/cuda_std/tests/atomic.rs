//! Atomics from many blocks on the executor.

use crate::common::collect;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use cuda_std::atomic::*;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::thread;

const BLOCKS: u32 = 37;
const THREADS: u32 = 65;
const TOTAL: u64 = BLOCKS as u64 * THREADS as u64;

fn run(body: impl Fn() + Sync) {
    Executor::new().run("atomics", LaunchConfig::new(BLOCKS, THREADS), body).unwrap();
}

#[test]
fn counters_count_every_thread() {
    for ordering in [Relaxed, Acquire, Release, AcqRel, SeqCst] {
        let (a, b, c, d) =
            (AtomicU32::new(0), AtomicI64::new(5), SystemAtomicU64::new(0), AtomicF32::new(0.0));
        let e = SystemAtomicF64::new(1e6);
        run(|| {
            a.fetch_add(1, ordering);
            b.fetch_sub(3, ordering);
            c.fetch_add(1 << 33, ordering);
            d.fetch_add(0.5, ordering);
            e.fetch_sub(0.25, ordering);
        });
        assert_eq!(u64::from(a.into_inner()), TOTAL);
        assert_eq!(b.into_inner(), 5 - 3 * TOTAL as i64);
        assert_eq!(c.into_inner(), TOTAL << 33);
        assert_eq!(d.into_inner(), 0.5 * TOTAL as f32);
        assert_eq!(e.into_inner(), 1e6 - 0.25 * TOTAL as f64);
    }
}

#[test]
fn fetch_add_hands_out_every_number_once() {
    let next = AtomicU32::new(0);
    let mut tickets = collect(BLOCKS, THREADS, || u64::from(next.fetch_add(1, Relaxed)));
    tickets.sort_unstable();
    assert_eq!(tickets, (0..TOTAL).collect::<Vec<_>>());
}

#[test]
fn minimum_and_maximum() {
    let (min, max) = (AtomicI32::new(i32::MAX), AtomicU64::new(0));
    let (low, high) = (SystemAtomicI64::new(0), SystemAtomicU32::new(7));
    run(|| {
        let i = thread::index();
        min.fetch_min(1000 - i as i32, Relaxed);
        max.fetch_max(u64::from(i) << 40, AcqRel);
        low.fetch_min(-i64::from(i) << 33, Relaxed);
        high.fetch_max(i, SeqCst);
    });
    let last = TOTAL as i64 - 1;
    assert_eq!(i64::from(min.into_inner()), 1000 - last);
    assert_eq!(max.into_inner(), (last as u64) << 40);
    assert_eq!(low.into_inner(), -last << 33);
    assert_eq!(i64::from(high.into_inner()), last);
}

#[test]
fn bits() {
    let (and, or, xor) = (AtomicU32::new(u32::MAX), AtomicU64::new(0), AtomicI32::new(0));
    run(|| {
        let i = thread::index();
        and.fetch_and(!(1 << (i % 31)), Relaxed);
        or.fetch_or(1 << (i % 64), Relaxed);
        xor.fetch_xor(1 << (i % 3), Relaxed);
    });
    assert_eq!(and.into_inner(), 1 << 31);
    assert_eq!(or.into_inner(), u64::MAX);
    let count = |r: u64| (0..TOTAL).filter(|i| i % 3 == r).count() as i32 % 2;
    assert_eq!(xor.into_inner(), count(0) | count(1) << 1 | count(2) << 2);
}

#[test]
fn floats_change_by_their_bits() {
    let x = AtomicF32::new(-1.5);
    let sign = f32::from_bits(1 << 31);
    assert_eq!(x.fetch_xor(sign, Relaxed), -1.5);
    assert_eq!(x.fetch_or(sign, Relaxed), 1.5);
    assert_eq!(x.fetch_and(f32::from_bits(!(1 << 31)), Relaxed), -1.5);
    assert_eq!(x.swap(2.5, AcqRel), 1.5);
    assert_eq!(x.load(Acquire), 2.5);
    x.store(-0.0, Release);
    // 0 equals -0 as a number, but not by its bits.
    assert!(x.compare_exchange(0.0, 1.0, SeqCst, Relaxed).is_err());
    assert_eq!(x.compare_exchange(-0.0, 1.0, Release, Acquire), Ok(-0.0));
    x.store(f32::NAN, SeqCst);
    assert!(x.compare_exchange(f32::NAN, 3.0, AcqRel, Acquire).is_ok(), "a NaN is found by its bits");
    assert_eq!(x.load(SeqCst), 3.0);
}

#[test]
fn compare_exchange_builds_a_lock() {
    let (lock, mut count) = (AtomicU32::new(0), 0_u64);
    let count_ptr = SendPtr(&raw mut count);
    // One thread a block, for a lane that spins does not let its neighbours on the same core go on.
    Executor::new()
        .run("lock", LaunchConfig::new(500, 1), || {
            let SendPtr(count) = *{ &count_ptr };
            while lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
                std::hint::spin_loop();
            }
            // SAFETY: the lock is held.
            unsafe { *count += 1 };
            lock.store(0, Release);
        })
        .unwrap();
    assert_eq!(count, 500);
}

#[derive(Clone, Copy)]
struct SendPtr(*mut u64);
// SAFETY: the lock orders all accesses.
unsafe impl Sync for SendPtr {}

#[test]
fn block_atomics_count_in_shared_memory() {
    let seen = collect(BLOCKS, THREADS, || {
        let count = cuda_std::shared_array![u32; 1];
        // SAFETY: thread 0 sets the counter before the barrier; afterwards all accesses are atomic and of this
        // block, and the last barrier orders them before the load.
        unsafe {
            if thread::thread_idx_x() == 0 {
                count.write(0);
            }
            thread::sync_threads_aligned();
            let count = BlockAtomicU32::from_ptr(count);
            count.fetch_add(thread::thread_idx_x(), Relaxed);
            thread::sync_threads_aligned();
            u64::from(count.load(Relaxed))
        }
    });
    assert_eq!(seen, vec![u64::from(THREADS * (THREADS - 1) / 2); TOTAL as usize]);
}

#[test]
fn mid_level_functions() {
    use cuda_std::atomic::{intrinsics, mid};
    let mut x = 10_u32;
    let ptr = &raw mut x;
    // SAFETY: a local number that only this thread accesses.
    unsafe {
        assert_eq!(mid::atomic_fetch_sub_u32_block(ptr, AcqRel, 3), 10);
        assert_eq!(mid::atomic_fetch_exch_u32_system(ptr, SeqCst, 2), 7);
        // `inc` wraps to 0 after the bound, `dec` from 0 to the bound (PTX ISA, `atom`).
        assert_eq!(mid::atomic_fetch_inc_u32_device(ptr, Relaxed, 3), 2);
        assert_eq!(mid::atomic_fetch_inc_u32_device(ptr, Relaxed, 3), 3);
        assert_eq!(mid::atomic_fetch_dec_u32_device(ptr, Relaxed, 3), 0);
        assert_eq!(mid::atomic_fetch_dec_u32_device(ptr, Relaxed, 1), 3);
        assert_eq!(mid::atomic_load_32_device(ptr, Acquire), 1);
        mid::atomic_store_32_device(ptr, Release, 8);
        assert_eq!(mid::atomic_compare_and_swap_u32_block(ptr, 8, 9, Relaxed), 8);
        assert_eq!(mid::atomic_compare_and_swap_u32_block(ptr, 8, 1, Release), 9);
        assert_eq!(intrinsics::atomic_fetch_max_acqrel_u32_system(ptr, 12), 9);
        assert_eq!(intrinsics::atomic_load_volatile_32_device(ptr), 12);
    }
    mid::block_thread_fence(AcqRel);
    mid::device_thread_fence(SeqCst);
    mid::system_thread_fence(Relaxed);
    assert_eq!(x, 12);
}

#[test]
#[should_panic(expected = "an atomic load is Relaxed, Acquire or SeqCst")]
fn a_load_cannot_release() {
    AtomicU32::new(0).load(Release);
}

#[test]
#[should_panic(expected = "an atomic store is Relaxed, Release or SeqCst")]
fn a_store_cannot_acquire() {
    AtomicU32::new(0).store(0, Acquire);
}
