//! A whole matrix multiplication with tensor copies and `wgmma`, and the bugs that such kernels have.

use crate::common::matmul::{M, N, Problem, run, text};
use ptx_emulator::{Cause, EmulatorError, Turns};

const TURNS: [Turns; 2] = [Turns::Ascending, Turns::Descending];

fn problem(turns: Turns) -> Problem {
    Problem { blocks: 1, steps: 4, row_a: 128, turns }
}

/// The cause of the fault, and the instruction that had it, in each order of the threads.
fn faults(text: &str) -> [(Cause, String); 2] {
    TURNS.map(|turns| match run(text, &problem(turns)) {
        Err(EmulatorError::Fault(fault)) => (fault.cause.clone(), fault.instruction),
        other => panic!("{other:?} instead of a fault"),
    })
}

/// The kernel with one text in place of another that it has once.
#[track_caller]
fn with(from: &str, to: &str) -> String {
    let text = text();
    assert_eq!(text.matches(from).count(), 1, "{from}");
    text.replace(from, to)
}

#[test]
fn the_product_is_exact() {
    for turns in TURNS {
        for (blocks, steps) in [(1, 1), (1, 2), (2, 5)] {
            let problem = Problem { blocks, steps, ..problem(turns) };
            assert_eq!(run(&text(), &problem).unwrap(), (0, None), "{blocks} blocks, {steps} steps");
        }
    }
}

#[test]
fn an_accumulator_that_is_read_early() {
    let early = with("wgmma.wait_group.sync.aligned 0;", "");
    for (cause, instruction) in faults(&early) {
        let Cause::PendingRegister { register, access: "read", .. } = cause else { panic!("{cause}") };
        assert_eq!((register.as_str(), instruction.as_str()), ("%d0", "st.global.b32 [%at+0], %d0;"));
    }
}

#[test]
fn an_accumulator_that_is_written_early() {
    let early = with("mov.u32 %before, %r2;", "mov.u32 %before, %r2; mov.b32 %d7, 0;");
    for (cause, _) in faults(&early) {
        let Cause::PendingRegister { register, access: "written", .. } = cause else { panic!("{cause}") };
        assert_eq!(register, "%d7");
    }
}

#[test]
fn a_stage_that_is_released_before_its_multiplications_are_done() {
    let (wait, arrive) =
        ("wgmma.wait_group.sync.aligned 1;", "@%p5 mbarrier.arrive.shared.b64 _, [%before];");
    let own = "@%p4 mbarrier.arrive.shared.b64 _, [%r2];";
    // Released right after the issue; or with a wait for all of them that comes too late.
    for late in ["1", "0"] {
        let early = with(wait, &format!("{own} wgmma.wait_group.sync.aligned {late};"));
        for (cause, instruction) in faults(&early.replace(arrive, "")) {
            let Cause::PendingOperand { .. } = cause else { panic!("{cause}") };
            assert!(instruction.starts_with("cp.async.bulk.tensor.2d"), "{instruction}");
        }
    }
    let right = with(wait, &format!("wgmma.wait_group.sync.aligned 0; {own}")).replace(arrive, "");
    assert_eq!(run(&right, &problem(Turns::Ascending)).unwrap(), (0, None));
}

#[test]
fn a_wrong_number_of_expected_bytes() {
    let expect = "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 49152;";
    for (cause, instruction) in faults(&with(expect, &expect.replace("49152", "65536"))) {
        let Cause::Phase { arrivals: 0, bytes: 16384 } = cause else { panic!("{cause}") };
        assert!(instruction.contains("try_wait.parity"), "{instruction}");
    }
    for (cause, _) in faults(&with(expect, &expect.replace("49152", "32768"))) {
        let Cause::Unsupported(reason) = cause else { panic!("{cause}") };
        assert_eq!(reason, "mbarrier: a copy brings 32768 bytes, and the phase expects 16384");
    }
}

#[test]
fn a_wrong_swizzle_gives_wrong_numbers() {
    let problem = Problem { row_a: 0, ..problem(Turns::Ascending) };
    let (wrong, undefined) = run(&text(), &problem).unwrap();
    assert!(wrong > M * N / 2, "{wrong}");
    assert_eq!(undefined, None);
}

#[test]
fn a_missing_fence_of_the_accumulators() {
    // They are accessed by threads first.
    let zeros: String = (0..128).map(|i| format!("mov.b32 %d{i}, 0;")).collect();
    let start = "and.b32 %r11, %tid, 127;";
    let zeroed = with(start, &format!("{start} {zeros}"));
    assert_eq!(run(&zeroed, &problem(Turns::Ascending)).unwrap(), (0, None));
    for (cause, _) in faults(&zeroed.replace("wgmma.fence.sync.aligned;", "")) {
        let Cause::Wgmma(reason) = cause else { panic!("{cause}") };
        assert!(reason.starts_with("register %d0 was accessed with no wgmma.fence since"), "{reason}");
    }
}

#[test]
fn a_multiplication_that_is_not_waited_for() {
    let (from, to) = ("wgmma.wait_group.sync.aligned 0;", "bra DONE;");
    for (cause, _) in faults(&with(from, to)) {
        let Cause::InFlight(reason) = cause else { panic!("{cause}") };
        assert!(reason.ends_with("is pending when a thread of its warpgroup ends"), "{reason}");
    }
}

#[test]
fn registers_that_the_block_does_not_have() {
    let more = "setmaxnreg.inc.sync.aligned.u32 232;";
    for (cause, _) in faults(&with(more, "setmaxnreg.inc.sync.aligned.u32 240;")) {
        let Cause::Registers(reason) = cause else { panic!("{cause}") };
        assert!(reason.starts_with("the block has 64512 registers"), "{reason}");
    }
    for (cause, _) in faults(&with(more, "setmaxnreg.dec.sync.aligned.u32 176;")) {
        let Cause::Registers(reason) = cause else { panic!("{cause}") };
        assert_eq!(reason, "dec to more registers: 176, the warpgroup has 168");
    }
}

#[test]
fn a_warpgroup_that_parts() {
    let fence = "wgmma.fence.sync.aligned;";
    for (cause, _) in faults(&with(fence, &format!("setp.eq.u32 %p6, %tid, 200; @%p6 bra DONE; {fence}"))) {
        let Cause::Warpgroup { missing: [200, 0, 0], .. } = cause else { panic!("{cause}") };
    }
    let twice = format!("setp.eq.u32 %p6, %r13, 2; @%p6 {fence} @!%p6 {fence}");
    let first = "and.b32 %r11, %tid, 127;";
    let text = with(first, &format!("{first} shr.u32 %r13, %r11, 5;")).replace(fence, &twice);
    for (cause, _) in faults(&text) {
        let Cause::Warpgroup { .. } = cause else { panic!("{cause}") };
    }
}
