//! Scope and ordering of atomics.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use cuda_std::atomic::*;

kernels! {
    //@ ptx: atom.relaxed.gpu.add.f32 == 1
    //@ ptx: fence == 0
    atomic_add_f32(p: *mut f32, v: f32) { AtomicF32::from_ptr(p).fetch_add(v, Relaxed); }

    //@ ptx: atom.release.cta.add.f64 == 1
    atomic_add_f64_block(p: *mut f64, v: f64) { BlockAtomicF64::from_ptr(p).fetch_add(v, Release); }

    //@ ptx: fence.sc.gpu == 1
    //@ ptx: atom.acquire.gpu.add.f32 == 1
    atomic_sub_f32_seqcst(p: *mut f32, v: f32) { AtomicF32::from_ptr(p).fetch_sub(v, SeqCst); }

    //@ ptx: atom.acquire.gpu.add.u32 == 1
    atomic_add_u32(p: *mut u32, v: u32) { AtomicU32::from_ptr(p).fetch_add(v, Acquire); }

    //@ ptx: atom.acq_rel.sys.max.s64 == 1
    atomic_max_i64_system(p: *mut i64, v: i64) { SystemAtomicI64::from_ptr(p).fetch_max(v, AcqRel); }

    //@ ptx: atom.relaxed.cta.min.u32 == 1
    atomic_min_u32_block(p: *mut u32, v: u32) { BlockAtomicU32::from_ptr(p).fetch_min(v, Relaxed); }

    //@ ptx: atom.relaxed.gpu.exch.b32 == 1
    atomic_swap_i32(p: *mut i32, v: i32) { *p.add(1) = AtomicI32::from_ptr(p).swap(v, Relaxed); }

    //@ ptx: atom.relaxed.gpu.and.b64 == 1
    //@ ptx: atom.relaxed.gpu.or.b64 == 1
    //@ ptx: atom.relaxed.gpu.xor.b64 == 1
    atomic_bits_u64(p: *mut u64, v: u64) {
        let cell = AtomicU64::from_ptr(p);
        cell.fetch_and(v, Relaxed);
        cell.fetch_or(v, Relaxed);
        cell.fetch_xor(v, Relaxed);
    }

    //@ ptx: atom.acq_rel.sys.cas.b64 == 1
    atomic_cas_f64_system(p: *mut f64, v: f64) {
        if SystemAtomicF64::from_ptr(p).compare_exchange(0.0, v, AcqRel, Acquire).is_ok() {
            *p.add(1) = v;
        }
    }

    // A failure ordering of acquire turns release into acq_rel.
    //@ ptx: atom.acq_rel.gpu.cas.b32 == 1
    atomic_cas_u32(p: *mut u32, v: u32) {
        *p.add(1) = AtomicU32::from_ptr(p).compare_exchange(0, v, Release, Acquire).unwrap_or(7);
    }

    //@ ptx: atom.relaxed.gpu.inc.u32 == 1
    //@ ptx: atom.relaxed.gpu.dec.u32 == 1
    atomic_inc_dec(p: *mut u32) {
        mid::atomic_fetch_inc_u32_device(p, Relaxed, 3);
        mid::atomic_fetch_dec_u32_device(p, Relaxed, 3);
    }

    //@ ptx: ld.relaxed.gpu.u32 == 1
    //@ ptx: ld.acquire.cta.u32 == 1
    //@ ptx: ld.acquire.sys.u64 == 1
    //@ ptx: fence.sc.sys == 1
    atomic_loads(p: *mut u64) {
        let words = p.cast::<u32>();
        let relaxed = AtomicU32::from_ptr(words).load(Relaxed);
        let acquired = BlockAtomicU32::from_ptr(words).load(Acquire);
        let last = SystemAtomicU64::from_ptr(p).load(SeqCst);
        *p.add(1) = last + u64::from(relaxed) + u64::from(acquired);
    }

    //@ ptx: st.relaxed.gpu.u32 == 1
    //@ ptx: st.release.sys.u32 == 1
    //@ ptx: fence.sc.cta == 1
    //@ ptx: st.relaxed.cta.u64 == 1
    atomic_stores(p: *mut u64, v: u64) {
        let words = p.cast::<u32>();
        AtomicU32::from_ptr(words).store(1, Relaxed);
        SystemAtomicU32::from_ptr(words).store(2, Release);
        BlockAtomicU64::from_ptr(p).store(v, SeqCst);
    }

    //@ ptx: fence.acq_rel.cta == 1
    //@ ptx: fence.acq_rel.gpu == 1
    //@ ptx: fence.sc.sys == 1
    atomic_fences(p: *mut u32) {
        *p = 1;
        mid::block_thread_fence(Acquire);
        *p = 2;
        mid::device_thread_fence(AcqRel);
        *p = 3;
        mid::system_thread_fence(SeqCst);
        mid::system_thread_fence(Relaxed);
    }
}
