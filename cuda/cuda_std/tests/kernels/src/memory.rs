//! Vector loads and stores, shared memory, address spaces.

use cuda_std::mem::{self, CachePolicy, f32x2, f32x4, u32x4};
use cuda_std::ptr::{self, AddressSpace};
use cuda_std::{shared, shared_array, thread};

kernels! {
    //@ ptx: ld.v4.b32 == 1
    //@ ptx: st.v4.b32 == 1
    //@ ptx: ld.global == 0
    mem_generic(a: *const f32x4, out: *mut f32x4) { mem::store(out, mem::load(a)); }

    //@ ptx: ld.global.v4.b32 == 1
    //@ ptx: st.global.v4.b32 == 1
    mem_global(a: *const f32x4, out: *mut f32x4) { mem::store_global(out, mem::load_global(a)); }

    // Only one element is used, but one load reads all four.
    //@ ptx: ld.global.nc.v4.b32 == 1
    //@ ptx: ld.global == 1
    mem_nc_one_element(a: *const f32x4, out: *mut f32) { *out = mem::load_global_nc(a).z; }

    //@ ptx: ld.global.nc.v2.b32 == 1
    //@ ptx: st.global.cs.v2.b32 == 1
    mem_pairs(a: *const f32x2, out: *mut f32x2) { mem::store_global_streaming(out, mem::load_global_nc(a)); }

    //@ ptx: ld.global.nc.L1::no_allocate.v4.b32 == 1
    //@ ptx: st.global.L1::no_allocate.v4.b32 == 1
    mem_nc_no_allocate(a: *const u32x4, out: *mut u32x4) {
        mem::store_global_no_allocate(out, mem::load_global_nc_no_allocate(a));
    }

    //@ ptx: ld.global.nc.L1::evict_last.v4.b32 == 1
    //@ ptx: st.global.cs.v4.b32 == 1
    mem_nc_evict_last(a: *const u32x4, out: *mut u32x4) {
        mem::store_global_streaming(out, mem::load_global_nc_evict_last(a));
    }

    //@ ptx: ld.global.nc.L2::128B.v4.b32 == 1
    //@ ptx: st.global.cg.v4.b32 == 1
    mem_nc_prefetch(a: *const u32x4, out: *mut u32x4) { mem::store_global_l2(out, mem::load_global_nc_prefetch_128(a)); }

    //@ ptx: ld.global.L1::no_allocate.v4.b32 == 1
    //@ ptx: st.global.wt.v4.b32 == 1
    mem_no_allocate(a: *const u32x4, out: *mut u32x4) {
        mem::store_global_write_through(out, mem::load_global_no_allocate(a));
    }

    //@ ptx: ld.global.L1::evict_first.v4.b32 == 1
    //@ ptx: ld.global.L1::evict_last.v4.b32 == 1
    //@ ptx: ld.global.cs.v4.b32 == 1
    //@ ptx: ld.global.cg.v4.b32 == 1
    mem_hints(a: *const u32x4, out: *mut u32x4) {
        mem::store_global(out, mem::load_global_evict_first(a));
        mem::store_global(out.add(1), mem::load_global_evict_last(a.add(1)));
        mem::store_global(out.add(2), mem::load_global_streaming(a.add(2)));
        mem::store_global(out.add(3), mem::load_global_l2(a.add(3)));
    }

    //@ sm_80: createpolicy.fractional.L2::evict_first.b64 == 1
    //@ sm_80: ld.global.L2::cache_hint.v4.b32 == 1
    //@ sm_80: createpolicy.fractional.L2::evict_last.b64 == 1
    //@ sm_80: st.global.L2::cache_hint.v4.b32 == 1
    //@ sm_75: ld.global.v4.b32 == 1
    //@ sm_75: st.global.v4.b32 == 1
    mem_policies(a: *const u32x4, out: *mut u32x4) {
        let vector = mem::load_global_with_policy(a, CachePolicy::evict_first());
        mem::store_global_with_policy(out, vector, CachePolicy::evict_last());
    }

    //@ ptx: st.shared.v4.b32 == 1
    //@ ptx: ld.shared.v4.b32 == 1
    //@ ptx: bar.sync == 1
    mem_shared(a: *const f32x4, out: *mut f32x4) {
        let tile = shared_array![f32x4; 64];
        let tid = thread::thread_idx_x() as usize;
        mem::store_shared(tile.add(tid), mem::load_global(a.add(tid)));
        thread::sync_threads_aligned();
        mem::store_global(out.add(tid), mem::load_shared(tile.add(63 - tid)));
    }

    //@ ptx: st.shared.b32 == 1
    //@ ptx: ld.shared.b32 == 1
    //@ ptx: .local == 0
    shared_macro(a: *const f32, out: *mut f32) {
        let tile = shared_array![f32; 64];
        let tid = thread::thread_idx_x() as usize;
        *tile.add(tid) = *a.add(tid);
        thread::sync_threads_aligned();
        *out.add(tid) = *tile.add(63 - tid);
    }

    // The value that a thread wrote may have changed at the barrier: it is read again.
    //@ ptx: st.shared.b32 == 1
    //@ ptx: ld.shared.b32 == 1
    shared_not_kept_across_a_barrier(out: *mut f32) {
        let cell = shared_array![f32; 32];
        let tid = thread::thread_idx_x() as usize;
        *cell.add(tid) = 1.0;
        thread::sync_threads_aligned();
        *out.add(tid) = *cell.add(tid);
    }

    //@ ptx: st.shared.b32 == 1
    //@ ptx: ld.shared.b32 == 1
    //@ ptx: mov.u32 _, %dynamic_smem_size == 1
    shared_dynamic(a: *const f32, out: *mut f32) {
        let tile = shared::dynamic_shared_mem::<f32>();
        let tid = thread::thread_idx_x() as usize;
        *tile.add(tid) = *a.add(tid);
        thread::sync_threads_aligned();
        *out.add(tid) = *tile.add(mem::dynamic_smem_size() as usize / 4 - 1 - tid);
    }

    //@ ptx: mov.u32 _, %total_smem_size == 1
    shared_total(out: *mut u32) { *out = mem::total_smem_size(); }

    // A pointer to either memory; the compiler knows that a kernel's parameter is global.
    //@ ptx: isspacep.shared == 1
    ptr_is_shared(out: *mut u32, p: *const u8, n: u32) {
        let either = if n > 3 { p } else { shared_array![u8; 4].cast_const() };
        *out = u32::from(ptr::is_in_address_space(either, AddressSpace::Shared));
    }

    //@ ptx: isspacep == 0
    ptr_is_known(out: *mut u32) {
        *out = u32::from(ptr::is_in_address_space(shared_array![u8; 4], AddressSpace::Shared));
    }

    //@ ptx: cvta.to.shared.u64 == 1
    //@ ptx: cvta.shared.u64 == 1
    ptr_convert(out: *mut *const u8, p: *const *const u8) {
        let shared = ptr::convert_generic_to_specific_address_space(*p, AddressSpace::Shared);
        *out = shared;
        *out.add(1) = ptr::convert_specific_address_space_to_generic(shared, AddressSpace::Shared);
    }
}
