//! Tensor cores on the executor: where the elements are, the order of additions, and wrong uses.

use std::sync::Mutex;

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::mma::{self, Element, FragmentA, FragmentB, FragmentC, tf32};
use cuda_std::simt::{Executor, Fault, FaultKind, Instead, Scheduler};
use cuda_std::{shared_array, thread, warp};

fn both() -> [Executor; 2] {
    [Executor::new(), Executor::new().with_scheduler(Scheduler::Threads)]
}

fn fault_of(executor: &Executor, threads: u32, kernel: impl Fn() + Sync) -> Fault {
    match executor.run("broken", LaunchConfig::new(1, threads), kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Every element of a matrix belongs to one lane, and each register has the elements of the PTX ISA's tables.
#[test]
fn fragments_cover_their_matrices() {
    fn check<T: Element>(a_of_lane_5: &[(usize, usize)], b_of_lane_5: &[(usize, usize)]) {
        let all = |columns: usize, elements: usize, position: &dyn Fn(u32, usize) -> (usize, usize)| {
            let mut places: Vec<_> = (0..32)
                .flat_map(|lane| (0..elements).map(move |i| (lane, i)))
                .map(|(lane, i)| position(lane, i))
                .map(|(row, column)| row * columns + column)
                .collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..32 * elements));
            (0..elements).map(|i| position(5, i)).collect::<Vec<_>>()
        };
        let (a, b) = (FragmentA::<T>::ELEMENTS, FragmentB::<T>::ELEMENTS);
        assert_eq!(all(T::K, a, &FragmentA::<T>::position), a_of_lane_5);
        assert_eq!(all(8, b, &FragmentB::<T>::position), b_of_lane_5);
        assert_eq!(all(8, 4, &FragmentC::position), [(1, 2), (1, 3), (9, 2), (9, 3)]);
    }
    let a = [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)];
    check::<f16>(&a, &[(2, 1), (3, 1), (10, 1), (11, 1)]);
    check::<bf16>(&a, &[(2, 1), (3, 1), (10, 1), (11, 1)]);
    check::<tf32>(&[(1, 1), (9, 1), (1, 5), (9, 5)], &[(1, 1), (5, 1)]);
}

#[test]
fn an_element_is_what_the_function_said() {
    let kernel = || {
        let a = FragmentA::from_fn(|row, column| bf16::from_f32((16 * row + column) as f32));
        let b = FragmentB::from_fn(|row, column| tf32::from_f32((8 * row + column) as f32));
        for i in 0..8 {
            let (row, column) = FragmentA::<bf16>::position(warp::lane_id(), i);
            assert_eq!(a.element(i).to_f32(), (16 * row + column) as f32);
        }
        for i in 0..2 {
            let (row, column) = FragmentB::<tf32>::position(warp::lane_id(), i);
            assert_eq!(b.element(i).to_f32(), (8 * row + column) as f32);
        }
        let c = FragmentC::from_fn(|row, column| (8 * row + column) as f32);
        c.for_each(|row, column, value| assert_eq!(value, (8 * row + column) as f32));
    };
    Executor::new().run("elements", LaunchConfig::new(1, 64), kernel).unwrap();
    let kernel = || _ = FragmentB::<f16>::from_registers([0; 2]).element(4);
    assert!(matches!(fault_of(&Executor::new(), 1, kernel).kind, FaultKind::Panic { .. }));
}

/// Both schedulers sum from left to right: with these numbers, each order gives a different result.
#[test]
fn sums_are_in_the_order_of_the_columns() {
    let value = |i: usize| 2f32.powi((i * 7 % 23) as i32 - 11) * if i.is_multiple_of(3) { -1.0 } else { 1.1 };
    let element = move |row: usize, column: usize| f16::from_f32(value(17 * row + column));
    for executor in both() {
        let seen = Mutex::new(Vec::new());
        let kernel = || {
            let (a, b) = (FragmentA::from_fn(element), FragmentB::from_fn(element));
            let start = FragmentC::from_fn(|row, column| value(row + column));
            let (mut tiles, mut many) = ([[start; 2]; 3], [[start; 35]; 2]);
            // SAFETY: all lanes reach this, with the same lengths.
            let single = unsafe {
                mma::mma_sync_tiles(&[a; 3], &[b; 2], &mut tiles);
                mma::mma_sync_tiles(&[a; 2], &[b; 35], &mut many);
                mma::mma_sync(a, b, start)
            };
            let all = [tiles.as_flattened(), many.as_flattened()].concat();
            assert!(all.iter().all(|tile| *tile == single));
            single.for_each(|row, column, x| seen.lock().unwrap().push((row, column, x)));
        };
        executor.run("order", LaunchConfig::new(1, 32), kernel).unwrap();
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), 128);
        for (row, column, seen) in seen {
            let product = |k| element(row, k).to_f32() * element(k, column).to_f32();
            let expected = (0..16).fold(value(row + column), |sum, k| sum + product(k));
            assert_eq!(seen.to_bits(), expected.to_bits(), "{row}, {column}");
        }
    }
}

#[test]
fn all_lanes_take_part() {
    let multiply = || {
        let (a, b) = (FragmentA::<f16>::from_registers([0; 4]), FragmentB::from_registers([0; 2]));
        // SAFETY: on the executor a lane that is missing is a fault.
        unsafe { mma::mma_sync(a, b, FragmentC::ZERO) };
    };
    for executor in both() {
        let fault = fault_of(&executor, 40, multiply);
        let FaultKind::LaneNotTakingPart { operation, lane, instead, .. } = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((*operation, *lane, instead), ("mma::mma_sync", 8, &Instead::DoesNotExist));
        let fault = fault_of(&executor, 32, || {
            if thread::thread_idx_x() != 7 {
                multiply();
            }
        });
        let FaultKind::LaneNotTakingPart { lane: 7, instead: Instead::Returned, .. } = fault.kind else {
            panic!("{fault}")
        };
        let fault = fault_of(&executor, 32, || {
            if thread::thread_idx_x() < 16 {
                multiply();
            } else {
                // SAFETY: as above.
                unsafe { warp::sync_warp(u32::MAX) };
            }
        });
        assert!(fault.to_string().contains("waits in warp::sync_warp"), "{fault}");
    }
    let fault = fault_of(&Executor::new(), 32, || {
        let a = FragmentA::<f16>::from_registers([0; 4]);
        let b = FragmentB::from_registers([0; 2]);
        // SAFETY: as above.
        unsafe {
            if thread::thread_idx_x() < 16 {
                mma::mma_sync_tiles(&[a], &[b; 2], &mut [[FragmentC::ZERO; 2]]);
            } else {
                mma::mma_sync_tiles(&[a; 2], &[b], &mut [[FragmentC::ZERO]; 2]);
            }
        }
    });
    assert!(fault.to_string().contains("mma::mma_sync_tiles"), "{fault}");
}

#[test]
fn rows_are_aligned() {
    for executor in both() {
        let fault = fault_of(&executor, 32, || {
            let rows = shared_array![u128; 10].cast::<u8>();
            let lane = warp::lane_id() as usize;
            // SAFETY: on the executor a row in the wrong place is a fault.
            unsafe {
                rows.cast::<u32>().add(lane).write(0);
                warp::sync_warp(u32::MAX);
                mma::ldmatrix::<1, _>(rows.add(16 * (lane % 8) + 8 * usize::from(lane == 3)));
            }
        });
        let FaultKind::Panic { message } = &fault.kind else { panic!("{fault}") };
        assert!(message.starts_with("mma::ldmatrix() got the row 0x"), "{message}");
        assert!(message.ends_with("align rows to 16 bytes"), "{message}");
    }
}
