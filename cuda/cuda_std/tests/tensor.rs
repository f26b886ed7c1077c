//! Tensor cores on the executor: where the elements are, the order of additions, and wrong uses.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, Element, FragmentA, FragmentB, FragmentC, tf32};
use cuda_std::{shared_array, warp};

use crate::common::{Out, executors, on, tid};

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
    on(1, 64).check(kernel);
    on(1, 1).fails("index out of bounds", || _ = FragmentB::<f16>::from_registers([0; 2]).element(4));
}

/// Both schedulers sum from left to right: with these numbers, each order gives a different result.
#[test]
fn sums_are_in_the_order_of_the_columns() {
    let value = |i: usize| 2f32.powi((i * 7 % 23) as i32 - 11) * if i.is_multiple_of(3) { -1.0 } else { 1.1 };
    let element = move |row: usize, column: usize| f16::from_f32(value(17 * row + column));
    let kernel = |out: &Out<u32>| {
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
        // SAFETY: each element belongs to one lane.
        single.for_each(|row, column, x| unsafe { *out.at(8 * row + column) = x.to_bits() });
    };
    let expected = |i: usize| {
        let (row, column) = (i / 8, i % 8);
        let product = |k| element(row, k).to_f32() * element(k, column).to_f32();
        (0..16).fold(value(row + column), |sum, k| sum + product(k)).to_bits()
    };
    on(1, 32).by(executors(0)).writes(&[0; 128], kernel, &(0..128).map(expected).collect::<Vec<_>>());
}

#[test]
fn all_lanes_take_part() {
    let multiply = || {
        let (a, b) = (FragmentA::<f16>::from_registers([0; 4]), FragmentB::from_registers([0; 2]));
        // SAFETY: on the executor a lane that is missing is a fault.
        unsafe { mma::mma_sync(a, b, FragmentC::ZERO) };
    };
    on(1, 40).fails("mma::mma_sync has .. lane 8 does not exist", multiply);
    on(1, 32).fails("lane 7 has returned", || {
        if tid() != 7 {
            multiply();
        }
    });
    on(1, 32).fails("waits in warp::sync_warp", || {
        if tid() < 16 {
            multiply();
        } else {
            // SAFETY: on the executor a fault.
            unsafe { warp::sync_warp(u32::MAX) };
        }
    });
    on(1, 32).fails("mma::mma_sync_tiles", || {
        let (a, b) = (FragmentA::<f16>::from_registers([0; 4]), FragmentB::from_registers([0; 2]));
        // SAFETY: on the executor a fault.
        unsafe {
            if tid() < 16 {
                mma::mma_sync_tiles(&[a], &[b; 2], &mut [[FragmentC::ZERO; 2]]);
            } else {
                mma::mma_sync_tiles(&[a; 2], &[b], &mut [[FragmentC::ZERO]; 2]);
            }
        }
    });
}

#[test]
fn rows_are_aligned() {
    on(1, 32).fails("panicked: mma::ldmatrix() got the row 0x .. align rows to 16 bytes", || {
        let (rows, lane) = (shared_array![u128; 10].cast::<u8>(), tid());
        // SAFETY: on the executor a row in the wrong place is a fault.
        unsafe {
            rows.cast::<u32>().add(lane).write(0);
            warp::sync_warp(u32::MAX);
            mma::ldmatrix::<1, _>(rows.add(16 * (lane % 8) + 8 * usize::from(lane == 3)));
        }
    });
}
