//! Blocks that wait for each other.

use core::sync::atomic::Ordering;

use cuda_std::{grid, misc};

const WATCHDOG: grid::Watchdog = grid::Watchdog::new("a word", 1000);

kernels! {
    //@ ptx: ld.acquire.gpu.u32 == 1
    //@ ptx: ld.relaxed == 0
    //@ ptx: mov.u64 _, %globaltimer == 0
    grid_wait(out: *mut u32, word: *const u32) {
        *out = grid::wait_until(word, Ordering::Acquire, |value| value > 3);
    }

    //@ ptx: ld.relaxed.gpu.u32 == 1
    //@ ptx: ld.acquire == 0
    grid_wait_relaxed(out: *mut u32, word: *const u32) {
        *out = grid::wait_until(word, Ordering::Relaxed, |value| value > 3);
    }

    //@ ptx: ld.relaxed.gpu.v4.b32 == 1
    grid_wait_all(out: *mut [u32; 4], words: *const [u32; 4]) {
        *out = grid::wait_until_all(words, |[x, y, z, w]| x & y & z & w != 0);
    }

    //@ ptx: ld.relaxed.gpu.u32 == 1
    //@ ptx: mov.u64 _, %globaltimer == 1
    grid_wait_watched(word: *const u32) {
        WATCHDOG.wait_until(word, Ordering::Relaxed, |value| value > 3);
    }

    //@ ptx: st.release.gpu.u32 == 1
    //@ ptx: st.relaxed.gpu.u32 == 1
    //@ ptx: st.relaxed.gpu.v4.b32 == 1
    //@ ptx: ld.relaxed.gpu.v4.b32 == 1
    grid_words(word: *mut u32, words: *mut [u32; 4]) {
        grid::store_release(word, 1);
        grid::store_relaxed(word, 2);
        grid::store_all(words, grid::load_all(words.add(1)));
    }

    //@ ptx: barrier.sync == 2
    //@ ptx: atom.release.gpu.add.u32 == 1
    //@ ptx: ld.acquire.gpu.u32 == 1
    grid_sync(counter: *mut u32) { grid::sync(counter); }

    //@ ptx: mov.u64 _, %globaltimer == 2
    grid_time(out: *mut u64) {
        let start = misc::global_timer();
        *out = misc::global_timer() - start;
    }
}
