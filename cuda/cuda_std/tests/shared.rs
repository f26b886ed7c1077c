//! Shared memory of the blocks, in the macro's and the dynamic form.

use cuda_std::{mem, shared, shared_array, thread};

use crate::common::{Out, collect, on, tid};

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
        let expected: Vec<u32> =
            (0..5).flat_map(|block| (0..threads).rev().map(move |t| block * threads + t)).collect();
        let kernel = |out: &Out<u32>| {
            let tile = shared::dynamic_shared_mem::<u32>();
            assert_eq!((tile.addr() % 16, mem::dynamic_smem_size()), (0, threads * 4));
            // SAFETY: the launch requested one element per thread; a barrier separates writes and reads.
            unsafe {
                tile.add(tid()).write(thread::index());
                thread::sync_threads_aligned();
                *out.at(thread::index() as usize) = tile.add(threads as usize - 1 - tid()).read();
            }
        };
        on(5, threads).shared_bytes(threads * 4).writes(&vec![0; expected.len()], kernel, &expected);
    }
}

#[test]
fn dynamic_and_static_memory_do_not_overlap() {
    on(1, 1).shared_bytes(64).check(|| {
        let (dynamic, fixed) = (shared::dynamic_shared_mem::<u8>().addr(), shared_array![u8; 64].addr());
        assert!(dynamic + 64 <= fixed || fixed + 64 <= dynamic);
    });
}
