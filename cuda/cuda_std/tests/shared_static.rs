//! Shared memory in the attribute form, at module level and inside a function.

mod common;

use common::collect;
use core::mem::MaybeUninit;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::{address_space, thread};

const THREADS: usize = 48;

#[address_space(shared)]
static mut TILE: [MaybeUninit<u32>; THREADS] = [MaybeUninit::uninit(); THREADS];

#[address_space(constant)]
static PRIMES: [u32; 4] = [2, 3, 5, 7];

#[test]
fn statics_of_a_module_and_of_a_function() {
    let seen = collect(9, THREADS as u32, || {
        #[address_space(shared)]
        static mut FACTORS: [MaybeUninit<u32>; 4] = [const { MaybeUninit::uninit() }; 4];
        let tid = thread::thread_idx_x() as usize;
        // SAFETY: every thread writes its own elements before the barrier and reads others after it.
        unsafe {
            TILE[tid].write(tid as u32 + thread::block_idx_x());
            if tid < 4 {
                FACTORS[tid].write(PRIMES[tid] * (1 + thread::block_idx_x()));
            }
            thread::sync_threads_aligned();
            u64::from(TILE[THREADS - 1 - tid].assume_init() * FACTORS[tid % 4].assume_init())
        }
    });
    let expected: Vec<u64> = (0..9)
        .flat_map(|block| {
            (0..THREADS as u64).map(move |tid| {
                (THREADS as u64 - 1 - tid + block) * u64::from(PRIMES[tid as usize % 4]) * (1 + block)
            })
        })
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn blocks_of_a_cluster_cannot_share_a_static() {
    let launch = LaunchConfig::new(4, 1).with_cluster(2);
    let error = Executor::new().run("k", launch, || ()).unwrap_err().to_string();
    assert!(error.starts_with("launch of k failed: its blocks run together"), "{error}");
    assert!(error.contains("one `") && error.contains("shared_array!"), "{error}");
}
