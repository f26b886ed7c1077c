//! Shared memory of the blocks, in the macro's and the dynamic form.

use crate::common::{Cells, collect};
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::{mem, shared, shared_array, thread};

#[test]
fn every_block_has_its_own_array() {
    let seen = collect(64, 33, || {
        let sum = shared_array![u64; 1];
        // SAFETY: one thread after another in turns that barriers separate.
        unsafe {
            if thread::thread_idx_x() == 0 {
                sum.write(u64::from(thread::block_idx_x()));
            }
            for turn in 0..33 {
                thread::sync_threads_aligned();
                if thread::thread_idx_x() == turn {
                    *sum += 100;
                }
            }
            thread::sync_threads_aligned();
            sum.read()
        }
    });
    let expected: Vec<u64> = (0..64).flat_map(|block| [block + 3300; 33]).collect();
    assert_eq!(seen, expected);
}

#[test]
fn two_arrays_are_two_places() {
    let seen = collect(2, 8, || {
        let (a, b) = (shared_array![u8; 3], shared_array![u64; 8]);
        let again = || shared_array![u16; 5];
        assert_eq!(again(), again(), "one place in the source is one array");
        assert!(b.is_aligned());
        let (a, b) = (a.addr(), b.addr());
        u64::from(a + 3 <= b || b + 64 <= a)
    });
    assert_eq!(seen, [1; 16]);
}

#[test]
fn all_threads_of_a_block_see_one_address() {
    let seen = collect(1, 70, || shared_array![f32; 100].addr() as u64);
    assert_eq!(seen, vec![seen[0]; 70]);
}

#[test]
fn arrays_of_aligned_types_are_aligned() {
    let seen = collect(1, 1, || {
        let (_odd, vectors) = (shared_array![u8; 1], shared_array![mem::f32x4; 4]);
        (vectors.addr() % 16) as u64
    });
    assert_eq!(seen, [0]);
}

#[test]
fn dynamic_shared_memory() {
    for threads in [1_u32, 31, 257] {
        let config = LaunchConfig::new(5, threads).with_shared_bytes(threads * 4);
        let cells = Cells::new(5 * threads as usize);
        Executor::new()
            .run("reverse", config, || {
                let tile = shared::dynamic_shared_mem::<u32>();
                assert_eq!(tile.addr() % 16, 0);
                assert_eq!(mem::dynamic_smem_size(), threads * 4);
                let tid = thread::thread_idx_x();
                // SAFETY: the launch asked for one element a thread; a barrier separates writes and reads.
                unsafe {
                    tile.add(tid as usize).write(thread::index());
                    thread::sync_threads_aligned();
                    cells.put(u64::from(tile.add((threads - 1 - tid) as usize).read()));
                }
            })
            .unwrap();
        let threads = u64::from(threads);
        let expected: Vec<u64> =
            (0..5).flat_map(|block| (0..threads).rev().map(move |t| block * threads + t)).collect();
        assert_eq!(cells.values(), expected);
    }
}

#[test]
fn dynamic_and_static_memory_do_not_overlap() {
    let config = LaunchConfig::new(1, 1).with_shared_bytes(64);
    Executor::new()
        .run("both", config, || {
            let (dynamic, fixed) = (shared::dynamic_shared_mem::<u8>().addr(), shared_array![u8; 64].addr());
            assert!(dynamic + 64 <= fixed || fixed + 64 <= dynamic);
        })
        .unwrap();
}
