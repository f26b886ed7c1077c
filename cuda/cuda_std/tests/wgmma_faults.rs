//! Multiplications by a warpgroup on the executor: when they are made, and what is wrong with their use.

#![cfg(not(miri))]

use crate::common::matrices::{Out, Small, check_panic, expected, fault, fill, number, two_panels};
use crate::common::tiles::{all, fault_of, fibers};
use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::{Executor, FaultKind, Instead};
use cuda_std::tensor::{self, Swizzle, TensorMap, TensorMapSpec};
use cuda_std::wgmma::{self, Accumulator, FragmentA, Panel, Pending};
use cuda_std::{bulk, shared, shared_array, thread};

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
    for executor in all() {
        let fault = fault(&executor, |a, b| {
            // SAFETY: on the executor it is a fault.
            unsafe {
                let _pending = started(a, b);
                wgmma::commit();
                wgmma::wait::<1>();
            }
        });
        let operation = "wgmma::Pending::multiply";
        assert_eq!(fault.kind, FaultKind::WgmmaNotWaitedFor { operation });
        assert!(fault.to_string().contains("call wgmma::commit() and wgmma::wait::<0>() before"), "{fault}");
    }
}

#[test]
fn operands_that_change_are_reported() {
    // A thread writes what its own multiplication reads, of A and of B.
    for of_b in [false, true] {
        check_panic("finds that shared memory has changed which wgmma::Pending::multiply() at ", |a, b| {
            // SAFETY: on the executor it is a fault.
            unsafe {
                let pending = started(a, b);
                wgmma::commit();
                if thread::thread_idx_x() == 77 {
                    let element = if of_b { Panel::element(b, 31, 15) } else { Panel::element(a, 63, 0) };
                    *element = bf16::from_f32(77.0);
                }
                pending.finish::<0>();
            }
        });
    }
    // What the multiplication does not read may change: the next step's elements.
    for executor in all() {
        let config = LaunchConfig::new(1, 128).with_shared_bytes(16 * 1024);
        let kernel = || {
            let (a, b) = two_panels();
            // SAFETY: the written element is not read.
            unsafe {
                let pending = started(a, b);
                wgmma::commit();
                if thread::thread_idx_x() == 77 {
                    *Panel::element(a, 63, 16) = bf16::from_f32(77.0);
                }
                pending.finish::<0>();
            }
        };
        executor.run("multiply", config, kernel).unwrap();
    }
}

#[test]
fn warps_that_disagree_are_reported() {
    check_panic(
        "is not what another thread of the warpgroup called as its multiplication number 0",
        |a, b| {
            let step = u32::from(thread::thread_idx_x() >= 96);
            let mut pending = Accumulator::<16>::ZERO.start();
            // SAFETY: on the executor it is a fault.
            unsafe {
                wgmma::fence();
                pending.multiply(Panel::k_major::<64>(a, 0).step(step), Panel::k_major::<32>(b, 0));
                wgmma::commit();
                pending.finish::<0>();
            }
        },
    );
    check_panic("of 8 registers, but another thread of the warpgroup started 16 as its number 0", |_, _| {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let _sixteen = Accumulator::<16>::ZERO.start();
        }
        thread::sync_threads();
        let _eight = Accumulator::<8>::ZERO.start();
    });
    for executor in all() {
        let fault = fault(&executor, |a, b| {
            if thread::thread_idx_x() / 32 != 3 {
                // SAFETY: on the executor it is a fault.
                unsafe {
                    let pending = started(a, b);
                    wgmma::commit();
                    pending.finish::<0>();
                }
            }
        });
        let FaultKind::WarpgroupIncomplete { operation, missing, instead } = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((*operation, missing.x / 32, instead), ("wgmma::Pending::finish", 3, &Instead::Returned));
    }
}

#[test]
fn blocks_without_whole_warpgroups_are_reported() {
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 192), || {
            if thread::thread_idx_x() >= 128 {
                let _pending = Accumulator::<16>::ZERO.start();
            }
        });
        assert!(fault.to_string().contains("launch a multiple of 128 threads per block"), "{fault}");
    }
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
    // No fence at all, and none since the operands were written again.
    for is_fenced in [false, true] {
        let config = LaunchConfig::new(1, 128).with_shared_bytes(16 * 1024);
        for executor in fibers() {
            let fault = fault_of(&executor, config, || {
                let a = shared::dynamic_shared_mem_aligned::<Panel<bf16, 64>>();
                let b = a.wrapping_add(1).cast::<Panel<bf16, 32>>();
                fill(a, 1);
                fill(b, 2);
                if is_fenced {
                    bulk::fence_shared();
                }
                thread::sync_threads();
                // SAFETY: on the executor it is a fault.
                unsafe {
                    let pending = started(a, b);
                    wgmma::commit();
                    pending.finish::<0>();
                    thread::sync_threads();
                    fill(b, 3);
                    thread::sync_threads();
                    let pending = started(a, b);
                    wgmma::commit();
                    pending.finish::<0>();
                }
            });
            let text = fault.to_string();
            assert!(
                text.contains("reads operands of what no thread has fenced since it was written"),
                "{text}"
            );
            assert!(text.contains("call bulk::fence_shared() before the barrier"), "{text}");
        }
    }
}

/// Bytes of a stage: 64 rows of A and 32 of B.
const STAGE: u32 = (64 + 32) * 128;

/// What a kernel of a producer and a consumer may do wrong.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// The stage is given back before the multiplication has completed.
    ReleasedEarly,
    /// The barrier expects less bytes than the copies bring.
    TooFewBytes,
    /// It expects more.
    TooManyBytes,
}

/// D[64, 32] = A[64, K] B[32, K]^T by a warpgroup that multiplies, and a thread that copies into two stages.
///
/// # Safety
/// The maps are those of A and B, with tiles of a stage's panels.
unsafe fn pipelined(a: &TensorMap, b: &TensorMap, panels: u32, out: *mut f32, bug: Bug) {
    let barriers = shared_array![Barrier; 4];
    let (full, empty) = (barriers, barriers.wrapping_add(2));
    let stages = shared::dynamic_shared_mem_aligned::<Panel<bf16, 96>>();
    let of_stage = |stage: u32| {
        let a = stages.wrapping_add(stage as usize).cast::<Panel<bf16, 64>>();
        (a, a.wrapping_add(1).cast::<Panel<bf16, 32>>())
    };
    let thread = thread::thread_idx_x();
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
                // The multiplications of the stage before are complete, and this one's are not.
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

/// Runs it with 6 panels of K, less 8 columns, which are out of the tensor.
fn run_pipelined(executor: &Executor, bug: Bug) -> Result<(), Box<cuda_std::simt::Fault>> {
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
    let kernel = || {
        let to = &to;
        // SAFETY: the maps are those of the matrices.
        unsafe { pipelined(&map_a, &map_b, 6, to.0, bug) };
    };
    match executor.run("pipelined", config, kernel) {
        Ok(()) => {
            let wrong = (0..64 * 32).find(|&i| out[i] != expected(i / 32, i % 32, k, 0));
            assert_eq!(wrong, None, "{executor:?}");
            Ok(())
        }
        Err(cuda_std::launch::LaunchError::Fault(fault)) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn stages_are_filled_and_multiplied_under_1000_seeds() {
    let new = || Executor::new().without_seed();
    let seeds = (0..1000).map(|seed| new().with_seed(seed));
    for executor in [new()].into_iter().chain(seeds) {
        run_pipelined(&executor, Bug::None).unwrap();
    }
    for executor in all() {
        run_pipelined(&executor, Bug::None).unwrap();
    }
}

#[test]
fn a_stage_that_is_released_early_is_reported_in_most_orders() {
    let run = |executor: &Executor| run_pipelined(executor, Bug::ReleasedEarly);
    let faults: Vec<_> = (0..100).filter_map(|seed| run(&Executor::new().with_seed(seed)).err()).collect();
    assert!(faults.len() > 50, "{}", faults.len());
    for fault in faults.into_iter().chain(run(&Executor::new().without_seed()).err()) {
        let text = fault.to_string();
        let expected = "tensor::global_to_shared() into shared memory that wgmma::Pending::multiply() at ";
        assert!(text.contains(expected) && text.contains("still reads; wait for its group"), "{text}");
        assert_eq!(fault.place.thread.unwrap().x, 128);
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
