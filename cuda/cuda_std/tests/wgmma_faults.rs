//! Multiplications by a warpgroup on the executor: when they are performed, and wrong uses.

#![cfg(not(miri))]

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, Fault, FaultKind};
use cuda_std::tensor::{self, Swizzle, TensorMap, TensorMapSpec};
use cuda_std::wgmma::{self, Accumulator, FragmentA, Panel, Pending};
use cuda_std::{bulk, shared, shared_array, thread};

use crate::common::matrices::{Small, check_panic, expected, fill, number, on_a_warpgroup, two_panels};
use crate::common::{Out, all, executors, fibers, has, on, tid};

type A = *mut Panel<bf16, 64>;
type B = *mut Panel<bf16, 32>;

/// Starts accumulators and multiplies once.
unsafe fn started(a: A, b: B) -> Pending<16> {
    let mut pending = Accumulator::<16>::ZERO.start();
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        wgmma::fence();
        pending.multiply(Panel::k_major::<64>(a, 0), Panel::k_major::<32>(b, 0));
    }
    pending
}

#[test]
fn a_missing_fence_is_reported() {
    check_panic("wgmma::Pending::multiply() without a fence after the accumulators were written", |a, b| {
        let mut pending = Accumulator::<16>::ZERO.start();
        // SAFETY: on the executor it is a fault.
        unsafe { pending.multiply(Panel::k_major::<64>(a, 0), Panel::k_major::<32>(b, 0)) };
    });
    check_panic("wgmma::Pending::multiply() without a fence after A's registers were written", |_, b| {
        let mut pending = Accumulator::<16>::ZERO.start();
        // SAFETY: on the executor it is a fault.
        unsafe {
            wgmma::fence();
            pending.multiply(FragmentA::from_registers([0; 4]), Panel::k_major::<32>(b, 0));
        }
    });
}

#[test]
fn a_wait_that_does_not_cover_the_accumulators_is_reported() {
    check_panic(
        "wgmma::Pending::finish() ::<1>() does not wait for wgmma::Pending::multiply() at ",
        |a, b| {
            // SAFETY: on the executor it is a fault.
            unsafe {
                let pending = started(a, b);
                wgmma::commit();
                pending.finish::<1>();
            }
        },
    );
    check_panic("commit its group, and leave fewer groups pending", |a, b| {
        // SAFETY: on the executor it is a fault.
        unsafe { started(a, b).finish::<0>() };
    });
}

#[test]
fn a_thread_that_returns_too_early_is_reported() {
    let expected = "wgmma::Pending::multiply was pending when its thread returned; call wgmma::commit() and wgmma::wait::<0>() \
                    before";
    on_a_warpgroup().fails(expected, || {
        let (a, b) = two_panels();
        // SAFETY: on the executor it is a fault.
        unsafe {
            let _pending = started(a, b);
            wgmma::commit();
            wgmma::wait::<1>();
        }
    });
}

/// Multiplies, and thread 77 writes to an element before the wait.
fn multiply_and_write((a, b): (A, B), element: *mut bf16) {
    // SAFETY: the element is in a panel. On the executor it is a fault if it is read.
    unsafe {
        let pending = started(a, b);
        wgmma::commit();
        if tid() == 77 {
            *element = bf16::from_f32(77.0);
        }
        pending.finish::<0>();
    }
}

#[test]
fn operands_that_change_are_reported() {
    // A thread writes elements of A, then of B, that its own multiplication reads.
    let expected = "finds that shared memory has changed which wgmma::Pending::multiply() at ";
    check_panic(expected, |a, b| multiply_and_write((a, b), Panel::element(a, 63, 0)));
    check_panic(expected, |a, b| multiply_and_write((a, b), Panel::element(b, 31, 15)));
    // Elements that the multiplication does not read may change, such as the next step's.
    on_a_warpgroup().check(|| {
        let (a, b) = two_panels();
        multiply_and_write((a, b), Panel::element(a, 63, 16));
    });
}

#[test]
fn warps_that_disagree_are_reported() {
    let expected = "is not what another thread of the warpgroup called as its multiplication number 0";
    check_panic(expected, |a, b| {
        let step = u32::from(tid() >= 96);
        let mut pending = Accumulator::<16>::ZERO.start();
        // SAFETY: on the executor it is a fault.
        unsafe {
            wgmma::fence();
            pending.multiply(Panel::k_major::<64>(a, 0).step(step), Panel::k_major::<32>(b, 0));
            wgmma::commit();
            pending.finish::<0>();
        }
    });
    check_panic("of 8 registers, but another thread of the warpgroup started 16 as its number 0", |_, _| {
        thread::sync_threads();
        if tid() == 0 {
            let _sixteen = Accumulator::<16>::ZERO.start();
        }
        thread::sync_threads();
        let _eight = Accumulator::<8>::ZERO.start();
    });
    // The last warp starts nothing.
    let expected =
        "wgmma::Pending::finish waits for a multiplication that thread (96, 0, 0) .. it has returned";
    on_a_warpgroup().fails(expected, || {
        let (a, b) = two_panels();
        if tid() / 32 != 3 {
            // SAFETY: on the executor it is a fault.
            unsafe {
                let pending = started(a, b);
                wgmma::commit();
                pending.finish::<0>();
            }
        }
    });
}

#[test]
fn blocks_without_whole_warpgroups_are_reported() {
    on(1, 192).fails("launch a multiple of 128 threads per block", || {
        if tid() >= 128 {
            let _pending = Accumulator::<16>::ZERO.start();
        }
    });
}

#[test]
fn wrong_panels_are_reported() {
    let multiply = |a: A, b: B, first: u32, step: u32| {
        let mut pending = Accumulator::<16>::ZERO.start();
        // SAFETY: on the executor it is a fault.
        unsafe {
            wgmma::fence();
            pending.multiply(Panel::k_major::<64>(a, first), Panel::k_major::<32>(b, 0).step(step));
        }
    };
    check_panic("align it to 1024 bytes", |a, b| multiply(a.wrapping_byte_add(128), b, 0, 0));
    check_panic("got B of step 4, but its panel has 4 steps along K", |a, b| multiply(a, b, 0, 4));
    check_panic("got A of 64 rows from row 8 on in a panel of 64", |a, b| multiply(a, b, 8, 0));
    check_panic("got A of 64 rows from row 4 on in a panel of 64", |a, b| multiply(a, b, 4, 0));
    let elsewhere = Box::new(core::mem::MaybeUninit::<Panel<bf16, 32>>::uninit());
    let elsewhere = elsewhere.as_ptr().expose_provenance();
    check_panic("which are not all in the block's shared memory", |a, _| {
        multiply(a, core::ptr::with_exposed_provenance_mut(elsewhere), 0, 0);
    });
}

#[test]
fn operands_without_a_proxy_fence_are_reported() {
    let expected = "reads operands of what no thread has fenced since it was written .. call bulk::fence_shared() before the \
                    barrier";
    // No fence at all, and none since the operands were written again.
    for is_fenced in [false, true] {
        on_a_warpgroup().by(fibers()).fails(expected, || {
            let a = shared::dynamic_shared_mem_aligned::<Panel<bf16, 64>>();
            let b = a.wrapping_add(1).cast::<Panel<bf16, 32>>();
            fill(a, 1);
            if is_fenced {
                bulk::fence_shared();
            }
            for matrix in [2, 3] {
                fill(b, matrix);
                if is_fenced && matrix == 2 {
                    bulk::fence_shared();
                }
                thread::sync_threads();
                // SAFETY: on the executor it is a fault.
                unsafe {
                    let pending = started(a, b);
                    wgmma::commit();
                    pending.finish::<0>();
                }
                thread::sync_threads();
            }
        });
    }
}

/// Bytes of a stage: 64 rows of A and 32 of B.
const STAGE: u32 = (64 + 32) * 128;

/// The bugs of a kernel with a producer and a consumer.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// The stage is released before the multiplication has completed.
    ReleasedEarly,
    /// The barrier expects fewer bytes than the copies bring.
    TooFewBytes,
    /// It expects more bytes.
    TooManyBytes,
}

/// D[64, 32] = A[64, K] B[32, K]^T, with a warpgroup that multiplies and a thread that copies into two stages.
///
/// # Safety
/// The maps describe A and B, with tiles of a stage's panels.
unsafe fn pipelined(a: &TensorMap, b: &TensorMap, panels: u32, out: *mut f32, bug: Bug) {
    let barriers = shared_array![Barrier; 4];
    let (full, empty) = (barriers, barriers.wrapping_add(2));
    let stages = shared::dynamic_shared_mem_aligned::<Panel<bf16, 96>>();
    let of_stage = |stage: u32| {
        let a = stages.wrapping_add(stage as usize).cast::<Panel<bf16, 64>>();
        (a, a.wrapping_add(1).cast::<Panel<bf16, 32>>())
    };
    let thread = tid();
    // SAFETY: the barriers order the copies and the multiplications.
    unsafe {
        if thread == 0 {
            for stage in 0..2 {
                Barrier::init(full.add(stage), 1);
                Barrier::init(empty.add(stage), 1);
            }
            Barrier::fence_init();
        }
        thread::sync_threads();
        if thread == 128 {
            for i in 0..panels {
                let (stage, phase) = (i % 2, i / 2 % 2);
                Barrier::wait_parity(empty.add(stage as usize), phase ^ 1);
                let bytes = match bug {
                    Bug::TooFewBytes => STAGE - 128,
                    Bug::TooManyBytes => STAGE + 128,
                    _ => STAGE,
                };
                let ready = full.add(stage as usize);
                Barrier::arrive_expect_tx(ready, bytes);
                let (to_a, to_b) = of_stage(stage);
                tensor::global_to_shared(to_a, a, [64 * i as i32, 0], ready);
                tensor::global_to_shared(to_b, b, [64 * i as i32, 0], ready);
            }
        } else if thread < 128 {
            let mut pending = Accumulator::<16>([f32::NAN; 16]).start();
            wgmma::fence();
            for i in 0..panels {
                let (stage, phase) = (i % 2, i / 2 % 2);
                Barrier::wait_parity(full.add(stage as usize), phase);
                let (a, b) = of_stage(stage);
                let (a, b) = (Panel::k_major::<64>(a, 0), Panel::k_major::<32>(b, 0));
                for step in 0..4 {
                    pending.multiply_keeping(i + step > 0, a.step(step), b.step(step));
                }
                wgmma::commit();
                // The multiplications of the previous stage are complete, and this one's are not.
                wgmma::wait::<1>();
                let released =
                    if bug == Bug::ReleasedEarly { Some(stage) } else { (i > 0).then_some(1 - stage) };
                if let Some(stage) = released.filter(|_| thread == 0) {
                    Barrier::arrive(empty.add(stage as usize));
                }
            }
            pending.finish::<0>().for_each(|row, column, x| *out.add(32 * row + column) = x);
        }
    }
}

/// Runs it with 6 panels of K minus 8 columns, which are outside the tensor.
fn run_pipelined(executor: &Executor, bug: Bug) -> Result<(), Box<Fault>> {
    let k = 6 * 64 - 8;
    let matrix = |number_of: u32, rows: usize| -> Vec<bf16> {
        (0..rows * k).map(|i| bf16::small(number(number_of, i / k, i % k))).collect()
    };
    let (a, b) = (matrix(1, 64), matrix(2, 32));
    let map = |elements: &[bf16], rows: u32| {
        let spec = TensorMapSpec::new::<bf16>([k as u64, rows.into()], [64, rows]);
        spec.with_swizzle(Swizzle::Bytes128).encode_for_cpu(elements).unwrap()
    };
    let (map_a, map_b) = (map(&a, 64), map(&b, 32));
    let mut out = vec![f32::NAN; 64 * 32];
    let to = Out(out.as_mut_ptr());
    let config = LaunchConfig::new(1, 160).with_shared_bytes(1024 + 2 * STAGE);
    // SAFETY: the maps describe the matrices.
    let kernel = || unsafe { pipelined(&map_a, &map_b, 6, to.at(0), bug) };
    match executor.run("pipelined", config, kernel) {
        Ok(()) => {
            let wrong = (0..64 * 32).find(|&i| out[i] != expected(i / 32, i % 32, k, 0));
            assert_eq!(wrong, None, "{executor:?}");
            Ok(())
        }
        Err(LaunchError::Fault(fault)) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn stages_are_filled_and_multiplied_under_1000_seeds() {
    for executor in executors(1000) {
        run_pipelined(&executor, Bug::None).unwrap();
    }
}

#[test]
fn a_stage_that_is_released_early_is_reported_in_most_orders() {
    let run = |executor: &Executor| run_pipelined(executor, Bug::ReleasedEarly);
    let faults: Vec<_> = (0..100).filter_map(|seed| run(&Executor::new().with_seed(seed)).err()).collect();
    assert!(faults.len() > 50, "{}", faults.len());
    for fault in faults.into_iter().chain(run(&Executor::new().without_seed()).err()) {
        let expected = "thread (128, 0, 0) .. tensor::global_to_shared() into shared memory that \
                        wgmma::Pending::multiply() at .. still reads; wait for its group";
        has(&fault.to_string(), expected);
    }
}

#[test]
fn a_wrong_number_of_expected_bytes_is_reported() {
    for (bug, bytes) in [(Bug::TooFewBytes, -128), (Bug::TooManyBytes, 128)] {
        for executor in all() {
            let fault = run_pipelined(&executor, bug).unwrap_err();
            let FaultKind::PhaseNotCompleted { bytes: lacking, .. } = fault.kind else { panic!("{fault}") };
            assert_eq!(lacking, bytes, "{fault}");
        }
    }
}
