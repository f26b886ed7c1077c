//! Indices, barriers and fences on the executor.

use crate::common::{collect, tid};
use cuda_std::glam::{UVec2, UVec3};
use cuda_std::launch::Dim3;
use cuda_std::{shared_array, thread, warp};

const LAUNCHES: &[(Dim3, Dim3)] = &[
    (Dim3::new(1, 1, 1), Dim3::new(1, 1, 1)),
    (Dim3::new(3, 1, 1), Dim3::new(33, 1, 1)),
    (Dim3::new(2, 3, 1), Dim3::new(5, 7, 1)),
    (Dim3::new(2, 3, 5), Dim3::new(3, 2, 7)),
    (Dim3::new(1, 1, 3), Dim3::new(1, 1, 64)),
    (Dim3::new(1, 5, 1), Dim3::new(1, 1024, 1)),
];

/// The coordinates of every thread in the order of `thread::index()`: blocks x first, then threads x first.
fn coordinates(grid: Dim3, block: Dim3) -> Vec<(UVec3, UVec3)> {
    let mut all = Vec::new();
    for bz in 0..grid.z {
        for by in 0..grid.y {
            for bx in 0..grid.x {
                for tz in 0..block.z {
                    for ty in 0..block.y {
                        for tx in 0..block.x {
                            all.push((UVec3::new(bx, by, bz), UVec3::new(tx, ty, tz)));
                        }
                    }
                }
            }
        }
    }
    all
}

fn pack(v: UVec3) -> u64 {
    u64::from(v.x) | u64::from(v.y) << 21 | u64::from(v.z) << 42
}

/// Checks one index function against `expected(block_idx, thread_idx, grid_dim, block_dim)` for all launches.
fn check(actual: impl Fn() -> u64 + Sync, expected: impl Fn(UVec3, UVec3, UVec3, UVec3) -> u64) {
    for &(grid, block) in LAUNCHES {
        let dims = (UVec3::new(grid.x, grid.y, grid.z), UVec3::new(block.x, block.y, block.z));
        let expected: Vec<u64> =
            coordinates(grid, block).into_iter().map(|(b, t)| expected(b, t, dims.0, dims.1)).collect();
        assert_eq!(collect(grid, block, &actual), expected, "grid {grid}, block {block}");
    }
}

#[test]
fn indices_follow_the_launch() {
    check(|| pack(thread::block_idx()), |b, _, _, _| pack(b));
    check(|| pack(thread::thread_idx()), |_, t, _, _| pack(t));
    check(|| pack(thread::grid_dim()), |_, _, g, _| pack(g));
    check(|| pack(thread::block_dim()), |_, _, _, d| pack(d));
}

#[test]
fn scalar_forms_are_the_axes_of_the_vector_forms() {
    check(
        || {
            let same = thread::block_idx()
                == UVec3::new(thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z())
                && thread::thread_idx()
                    == UVec3::new(thread::thread_idx_x(), thread::thread_idx_y(), thread::thread_idx_z())
                && thread::grid_dim()
                    == UVec3::new(thread::grid_dim_x(), thread::grid_dim_y(), thread::grid_dim_z())
                && thread::block_dim()
                    == UVec3::new(thread::block_dim_x(), thread::block_dim_y(), thread::block_dim_z());
            u64::from(same)
        },
        |_, _, _, _| 1,
    );
}

#[test]
fn global_indices() {
    check(|| u64::from(thread::index_1d()), |b, t, _, d| u64::from(b.x * d.x + t.x));
    check(
        || pack(thread::index_2d().extend(0)),
        |b, t, _, d| pack(UVec2::new(b.x * d.x + t.x, b.y * d.y + t.y).extend(0)),
    );
    check(|| pack(thread::index_3d()), |b, t, _, d| pack(b * d + t));
    check(|| u64::from(thread::first()), |b, t, _, _| u64::from(b == UVec3::ZERO && t == UVec3::ZERO));
}

#[test]
fn index_numbers_all_threads_once() {
    for &(grid, block) in LAUNCHES {
        let seen = collect(grid, block, || u64::from(thread::index()));
        let count = grid.volume() * block.volume();
        assert_eq!(seen, (0..count).collect::<Vec<_>>(), "grid {grid}, block {block}");
    }
}

#[test]
fn counting_barriers() {
    // Thread counts on both sides of a warp and of a block.
    for threads in [1, 31, 32, 33, 100, 1024] {
        for modulus in [1, 2, 7, 2000] {
            let holds = |t: u64| t.is_multiple_of(modulus);
            let count = (0..threads).filter(|&t| holds(t)).count() as u64;
            let seen = collect(2, threads as u32, || {
                let predicate = u32::from(holds(u64::from(thread::thread_idx_x()))) * 5;
                // SAFETY: all threads of the block reach the three barriers.
                let (count, and, or) = unsafe {
                    (
                        thread::sync_threads_count_aligned(predicate),
                        thread::sync_threads_and_aligned(predicate),
                        thread::sync_threads_or_aligned(predicate),
                    )
                };
                u64::from(count) | u64::from(and) << 16 | u64::from(or) << 17
            });
            let expected = count | u64::from(count == threads) << 16 | u64::from(count > 0) << 17;
            assert_eq!(
                seen,
                vec![expected; 2 * threads as usize],
                "{threads} threads, every {modulus}th true"
            );
        }
    }
}

#[test]
fn barrier_publishes_shared_memory() {
    for threads in [1u32, 31, 33, 256] {
        let seen = collect(3, threads, || {
            let tile = shared_array![u32; 256];
            let tid = thread::thread_idx_x();
            // SAFETY: every thread writes its own element below 256, and reads another's after the barrier.
            unsafe {
                tile.add(tid as usize).write(tid + 1000 * thread::block_idx_x());
                thread::sync_threads_aligned();
                u64::from(tile.add((threads - 1 - tid) as usize).read())
            }
        });
        let expected: Vec<u64> =
            (0..3).flat_map(|b| (0..u64::from(threads)).rev().map(move |t| t + 1000 * b)).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn sync_warp_orders_shared_memory() {
    let seen = collect(2, 64, || {
        let tile = shared_array![u32; 64];
        let tid = tid();
        // SAFETY: each thread writes its own element, and reads one of its own warp after the warp's barrier.
        unsafe {
            tile.add(tid).write(tid as u32);
            warp::sync_warp(u32::MAX);
            u64::from(tile.add(tid ^ 1).read())
        }
    });
    assert_eq!(seen, (0..128).map(|thread| (thread % 64) ^ 1).collect::<Vec<u64>>());
}

#[test]
fn fences_and_nanosleep_return() {
    let seen = collect(1, 3, || {
        thread::block_fence();
        thread::device_fence();
        thread::grid_fence();
        thread::system_fence();
        thread::nanosleep(10);
        u64::from(thread::warp_size())
    });
    assert_eq!(seen, [32; 3]);
}

#[test]
#[should_panic(expected = "thread::thread_idx_x() was called outside a kernel")]
fn an_index_outside_a_kernel_is_refused() {
    let _ = thread::thread_idx_x();
}
