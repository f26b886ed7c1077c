//! Kernels whose blocks wait for each other.

use core::sync::atomic::Ordering;

use cuda_std::{cluster, grid, kernel, shared_array, thread};

const WATCHDOG: grid::Watchdog = grid::Watchdog::new("the number of the block before", 50_000_000);

fn block() -> usize {
    thread::block_idx_x() as usize
}

fn tid() -> usize {
    thread::thread_idx_x() as usize
}

/// Twice each number becomes the sum of those of the next block, and one more.
///
/// # Safety
/// Two rows of a number for each thread; `counter` as `grid::sync` asks.
#[kernel(cooperative)]
pub unsafe fn grid_rounds(rows: *mut u32, counter: *mut u32) {
    let (blocks, threads) = (thread::grid_dim_x() as usize, thread::block_dim_x() as usize);
    let len = blocks * threads;
    // SAFETY: a thread writes its own number, in another row than others read in the round.
    unsafe {
        for round in 0..2 {
            let (from, to) = (rows.add(round * len), rows.add((1 - round) * len));
            let next = (block() + 1) % blocks * threads;
            let sum: u32 = (0..threads).map(|i| *from.add(next + i)).sum();
            *to.add(block() * threads + tid()) = sum + 1;
            grid::sync(counter);
        }
    }
}

/// Each block adds one to the number of the block before it; the first begins with `first`.
///
/// # Safety
/// An element of `data` and of `flags` for each block, zeros.
#[kernel(cooperative)]
pub unsafe fn grid_chain(data: *mut u32, flags: *mut u32, first: u32) {
    let block = block();
    // SAFETY: a block writes its number before its flag, and reads another's after that one's flag.
    unsafe {
        if tid() == 0 {
            let before = if block == 0 {
                first
            } else {
                WATCHDOG.wait_until(flags.add(block - 1), Ordering::Acquire, |flag| flag == 1);
                *data.add(block - 1)
            };
            *data.add(block) = before + 1;
            // The last but one forgets it, where `first` is 0.
            if first != 0 || block + 2 != thread::grid_dim_x() as usize {
                grid::store_release(flags.add(block), 1);
            }
        }
    }
}

/// As [`grid_chain`](fn@grid_chain), without flags and without a watchdog: each number shows that it has arrived.
///
/// # Safety
/// An element for each block, zeros.
#[kernel(cooperative)]
pub unsafe fn grid_relaxed_chain(data: *mut u32, first: u32) {
    let block = block();
    // SAFETY: the words are accessed by these functions alone.
    unsafe {
        let before = if block == 0 {
            first
        } else {
            grid::wait_until(data.add(block - 1), Ordering::Relaxed, |number| number != 0)
        };
        if before != 0 {
            grid::store_relaxed(data.add(block), before + 1);
        }
    }
}

/// Every block sends `10 * block` and what follows to all others.
///
/// # Safety
/// `mail` has a zeroed vector for each pair of blocks; `out` an element for each block.
#[kernel(cooperative)]
pub unsafe fn grid_all_to_all(out: *mut u32, mail: *mut [u32; 4]) {
    const SENT: u32 = 1 << 31;
    let (blocks, block, other) = (thread::grid_dim_x() as usize, block(), tid());
    let sums = shared_array![u32; 8];
    // SAFETY: thread `t` sends to block `t` and hears from it.
    unsafe {
        if other < blocks {
            let first = SENT | (10 * block as u32);
            grid::store_all(mail.add(other * blocks + block), [first, first + 1, first + 2, first + 3]);
            let is_there = |words: [u32; 4]| words[0] & words[1] & words[2] & words[3] & SENT != 0;
            let words = grid::wait_until_all(mail.add(block * blocks + other), is_there);
            *sums.add(other) = words.iter().map(|word| word & !SENT).sum();
        }
        thread::sync_threads();
        if other == 0 {
            *out.add(block) = (0..blocks).map(|i| *sums.add(i)).sum();
        }
    }
}

/// Clusters of a cooperative grid, each of which waits for the one after it.
///
/// # Safety
/// An element of `out` for each block and of `flags` for each cluster, zeros.
#[kernel(cooperative, min_arch = 90)]
pub unsafe fn grid_of_clusters(out: *mut u32, flags: *mut u32) {
    let (rank, size) = (cluster::block_rank() as usize, cluster::num_blocks() as usize);
    let (group, groups) = (block() / size, thread::grid_dim_x() as usize / size);
    let mail = shared_array![u32; 1];
    // SAFETY: all threads of the cluster come to its barriers.
    unsafe {
        cluster::sync();
        if rank == 0 && tid() == 0 {
            let before = if group + 1 == groups {
                0
            } else {
                grid::wait_until(flags.add(group + 1), Ordering::Acquire, |word| word != 0)
            };
            for other in 0..size {
                *cluster::map_shared(mail, other as u32) = before + 1;
            }
            grid::store_release(flags.add(group), before + 1);
        }
        cluster::sync();
        if tid() == 0 {
            *out.add(block()) = *mail;
        }
    }
}
