//! Indices, barriers, fences.

use cuda_std::{hint, misc, thread, warp};

kernels! {
    //@ ptx: mov.u32 _, %tid.x == 1
    //@ ptx: mov.u32 _, %ntid.x == 1
    //@ ptx: mov.u32 _, %ctaid.x == 1
    //@ ptx: mad == 1
    thread_index_1d(out: *mut u32) { *out = thread::index_1d(); }

    // The compiler knows the range of the index and removes the comparisons.
    //@ ptx: setp == 0
    //@ ptx: selp == 0
    thread_ranges(out: *mut u32) {
        *out = u32::from(thread::thread_idx_x() < 1024 && thread::thread_idx_z() < 64 && thread::block_dim_x() > 0);
    }

    // An index as a signed offset needs no sign extension.
    //@ ptx: cvt.s64 == 0
    //@ ptx: mul.wide.u32 == 1
    thread_offset(out: *mut f32) { *out.offset(thread::thread_idx_x() as i32 as isize) = 1.0; }

    //@ ptx: barrier.sync 0 == 1
    //@ ptx: bar.sync == 0
    //@ ptx: st.global == 2
    thread_sync(out: *mut u32) { *out = 1; thread::sync_threads(); *out = 2; }

    //@ ptx: barrier.red.popc.u32 == 1
    thread_sync_count(out: *mut u32, p: u32) { *out = thread::sync_threads_count(p); }

    //@ ptx: barrier.red.and.pred == 1
    thread_sync_and(out: *mut u32, p: u32) { *out = thread::sync_threads_and(p); }

    //@ ptx: barrier.red.or.pred == 1
    thread_sync_or(out: *mut u32, p: u32) { *out = thread::sync_threads_or(p); }

    //@ ptx: bar.sync 0 == 1
    //@ ptx: barrier.sync == 0
    //@ ptx: st.global == 2
    thread_sync_aligned(out: *mut u32) { *out = 1; thread::sync_threads_aligned(); *out = 2; }

    //@ ptx: bar.red.popc.u32 == 1
    thread_sync_count_aligned(out: *mut u32, p: u32) { *out = thread::sync_threads_count_aligned(p); }

    //@ ptx: bar.red.and.pred == 1
    thread_sync_and_aligned(out: *mut u32, p: u32) { *out = thread::sync_threads_and_aligned(p); }

    //@ ptx: bar.red.or.pred == 1
    thread_sync_or_aligned(out: *mut u32, p: u32) { *out = thread::sync_threads_or_aligned(p); }

    // A barrier keeps both stores, which would otherwise be merged.
    //@ ptx: barrier.sync 3, 64 == 1
    //@ ptx: barrier.arrive _, _ == 1
    //@ ptx: bar.sync == 0
    //@ ptx: st.global == 2
    thread_named(out: *mut u32, id: u32, count: u32) {
        *out = 1;
        thread::sync_named(3, 64);
        *out = 2;
        thread::arrive_named(id, count);
    }

    //@ ptx: bar.sync 3, 64 == 1
    //@ ptx: bar.arrive 4, 96 == 1
    //@ ptx: st.global == 2
    thread_named_aligned(out: *mut u32) {
        *out = 1;
        thread::sync_named_aligned(3, 64);
        *out = 2;
        thread::arrive_named_aligned(4, 96);
    }

    // A fence keeps both stores, which would otherwise be merged.
    //@ ptx: membar.cta == 1
    //@ ptx: st.global == 2
    thread_block_fence(out: *mut u32) { *out = 1; thread::block_fence(); *out = 2; }

    //@ ptx: membar.gl == 1
    //@ ptx: st.global == 2
    thread_device_fence(out: *mut u32) { *out = 1; thread::device_fence(); *out = 2; }

    //@ ptx: membar.gl == 1
    //@ ptx: st.global == 2
    thread_grid_fence(out: *mut u32) { *out = 1; thread::grid_fence(); *out = 2; }

    //@ ptx: membar.sys == 1
    //@ ptx: st.global == 2
    thread_system_fence(out: *mut u32) { *out = 1; thread::system_fence(); *out = 2; }

    //@ ptx: nanosleep.u32 100 == 1
    thread_nanosleep() { thread::nanosleep(100); }

    //@ ptx: mov.u32 _, %laneid == 1
    //@ ptx: activemask.b32 == 1
    warp_lane(out: *mut u32) { *out = warp::lane_id() + warp::activemask(); }

    //@ ptx: mov.u64 _, %clock64 == 2
    misc_clock(out: *mut u64) { let start = misc::clock(); *out = 1; *out = misc::clock() - start; }

    //@ ptx: brkpt == 1
    //@ ptx: pmevent 3 == 1
    misc_debugging() { misc::breakpoint(); misc::profiler_counter(3); }

    //@ ptx: trap >= 1
    misc_trap(n: u32) {
        if n == 7 {
            misc::trap();
        }
    }
}

kernels! { min_arch = 90;
    //@ sm_90a: setmaxnreg.dec.sync.aligned.u32 40 == 1
    //@ sm_90a: setmaxnreg.inc.sync.aligned.u32 232 == 1
    hint_registers(out: *mut u32) {
        hint::fewer_registers::<40>();
        *out = 1;
        hint::more_registers::<232>();
    }
}
