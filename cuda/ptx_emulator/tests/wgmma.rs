//! `wgmma`: values of each type, shape and layout of operands; what is undefined; and what is refused. Whole kernels:
//! `wgmma_matmul.rs`.

use crate::common::wgmma::{A, BYTES, Case, Layout, Ty};
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule};

const TYPES: [Ty; 4] = [Ty::F16, Ty::Bf16, Ty::Tf32, Ty::E4m3];

/// An operand with gaps between its parts, in the half of shared memory for A or for B.
fn layout(row: Option<usize>, trans: bool, of_b: bool) -> Layout {
    let start = if of_b { BYTES / 2 } else { 0 };
    let (leading, stride) = match (row, trans) {
        (None, false) => (8192, 192),
        (None, true) => (8192, 144),
        (Some(row), false) => (16, 16 * row),
        (Some(row), true) => (32 * row, 8 * row),
    };
    Layout { row, trans, leading, stride, start, before: 0, base: 0 }
}

fn case(ty: Ty, n: usize) -> Case {
    let of = |of_b| layout(Some(128), false, of_b);
    Case { ty, n, a: A::Shared(of(false)), b: of(true), keeps: false, scales: [1, 1] }
}

#[track_caller]
fn check(case: &Case) {
    let (got, undefined) = case.run(&case.text()).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    assert_eq!(undefined, None, "{case:?}");
    let expected = case.expected();
    let wrong = (0..got.len()).find(|&i| got[i] != expected[i]);
    assert_eq!(wrong.map(|i| (i, got[i], expected[i])), None, "{case:?}");
}

#[track_caller]
fn refusal(case: &Case, text: &str) -> Cause {
    match case.run(text) {
        Err(EmulatorError::Fault(fault)) => fault.cause,
        other => panic!("{:?} instead of a fault", other.map(|(_, undefined)| undefined)),
    }
}

#[track_caller]
fn reason(case: &Case, text: &str) -> String {
    match refusal(case, text) {
        Cause::Wgmma(reason) => reason,
        cause => panic!("{cause}"),
    }
}

#[test]
fn every_number_of_columns() {
    for n in (8..=256).step_by(8) {
        check(&case(TYPES[n / 8 % 4], n));
    }
}

#[test]
fn every_layout_of_both_operands() {
    for row in [None, Some(32), Some(64), Some(128)] {
        for ty in TYPES {
            let of = |of_b| layout(row, false, of_b);
            check(&Case { a: A::Shared(of(false)), b: of(true), ..case(ty, 72) });
        }
        for ty in [Ty::F16, Ty::Bf16] {
            for (a, b) in [(true, false), (false, true), (true, true)] {
                // Whole rows of a swizzle along N.
                let b = layout(row, b, true);
                check(&Case { a: A::Shared(layout(row, a, false)), b, ..case(ty, 128) });
            }
        }
    }
}

#[test]
fn elements_of_a_in_registers() {
    for ty in TYPES {
        check(&Case { a: A::Registers, ..case(ty, 40) });
    }
    check(&Case { a: A::Registers, b: layout(Some(128), true, true), ..case(Ty::Bf16, 64) });
}

#[test]
fn later_parts_of_k_in_a_swizzled_row() {
    for (row, before) in [(128, 32), (128, 96), (64, 32)] {
        let of = |of_b| Layout { before, ..layout(Some(row), false, of_b) };
        check(&Case { a: A::Shared(of(false)), b: of(true), ..case(Ty::Bf16, 16) });
    }
    let beyond = Layout { before: 112, ..layout(Some(128), false, true) };
    let case = Case { b: beyond, ..case(Ty::Bf16, 16) };
    assert!(reason(&case, &case.text()).contains("starts at byte 112 of a swizzled row of 128"));
}

#[test]
fn patterns_that_start_elsewhere() {
    for (row, base) in [(128, 3), (128, 7), (64, 2), (32, 1)] {
        let of = |of_b: bool| {
            let layout = layout(Some(row), false, of_b);
            Layout { start: layout.start + 128 * base, base: base as u64, ..layout }
        };
        check(&Case { a: A::Shared(of(false)), b: of(true), ..case(Ty::F16, 24) });
    }
}

#[test]
fn scales_and_old_accumulators() {
    for (keeps, scales) in [(true, [1, 1]), (true, [-1, 1]), (false, [1, -1]), (true, [-1, -1])] {
        for a in [case(Ty::F16, 8).a, A::Registers] {
            check(&Case { keeps, scales, a, ..case(Ty::F16, 8) });
        }
    }
}

#[test]
fn operands_that_nothing_was_written_to() {
    // The first 16 bytes of shared memory, those of row 0 of A.
    let case = case(Ty::Bf16, 8);
    let text = case.text().replace("mov.u32 %r1, %tid;", "mov.u32 %r1, %tid; add.u32 %r1, %r1, 1;");
    let (_, undefined) = case.run(&text).unwrap();
    assert_eq!(undefined.map(|byte| byte.index), Some(0));
    // An accumulator.
    let text = case.text().replace("setp.ne.u32 %p0, 0, 0;", "setp.ne.u32 %p0, 1, 0;");
    let Cause::UnwrittenRegister { register } = refusal(&case, &text.replace("mov.b32 %d2, 0f3F800000;", ""))
    else {
        panic!()
    };
    assert_eq!(register, "%d2");
}

#[test]
fn what_threads_wrote_is_fenced() {
    let case = case(Ty::Bf16, 8);
    let unfenced = reason(&case, &case.text().replace("fence.proxy.async.shared::cta;", ""));
    assert!(unfenced.contains("was written by threads with no fence.proxy.async since"), "{unfenced}");
    let again = "bar.sync 0; setp.eq.u32 %p2, %tid, 5; @%p2 st.shared.b32 [%rd1], 0;";
    let unfenced = reason(&case, &case.text().replace("bar.sync 0;", again));
    assert!(unfenced.starts_with("shared memory at 0x400 was written"), "{unfenced}");
}

#[test]
fn registers_of_a_stay_as_they_are() {
    let case = Case { a: A::Registers, ..case(Ty::Bf16, 8) };
    let commit = "wgmma.commit_group.sync.aligned;";
    let text = case.text().replace(commit, &format!("{commit} mov.b32 %a1, 0;"));
    let Cause::PendingRegister { register, access: "written", role: "an element of A", .. } =
        refusal(&case, &text)
    else {
        panic!()
    };
    assert_eq!(register, "%a1");
    let text = case.text().replace("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned; mov.b32 %a2, 0;");
    assert!(reason(&case, &text).starts_with("register %a2 was written with no wgmma.fence since"));
}

#[test]
fn shared_memory_that_is_read_is_not_written() {
    let case = case(Ty::Bf16, 8);
    let commit = "wgmma.commit_group.sync.aligned;";
    let write = |at: usize| {
        let store =
            format!("mov.u64 %rd2, tiles; setp.eq.u32 %p2, %tid, 64; @%p2 st.shared.b8 [%rd2+{at}], 0;");
        case.text().replace(commit, &format!("{commit} {store}"))
    };
    let Cause::PendingOperand { address: 0x410, line } = refusal(&case, &write(16)) else { panic!() };
    assert!(case.text().lines().nth(line as usize - 1).unwrap().contains("wgmma.mma_async"));
    // The next 32 bytes of the row are of another part of k.
    assert!(case.run(&write(32)).is_ok());
}

#[test]
fn operands_are_the_same_in_all_threads() {
    let case = case(Ty::Bf16, 8);
    let fence = "wgmma.fence.sync.aligned;";
    let other = format!("setp.eq.u32 %p2, %tid, 99; @%p2 add.u64 %desc_b, %desc_b, 2; {fence}");
    assert!(reason(&case, &case.text().replace(fence, &other)).contains("different descriptors"));
    let other = format!("setp.ne.u32 %p0, %tid, 99; {fence}");
    assert!(
        reason(&case, &case.text().replace(fence, &other)).contains("different descriptors or predicates")
    );
}

#[test]
fn shapes_on_the_same_accumulators() {
    let case = case(Ty::Bf16, 16);
    let commit = "wgmma.commit_group.sync.aligned;";
    let again = |n: usize, order: [usize; 8]| {
        let list: Vec<String> = order[..n / 2].iter().map(|i| format!("%d{i}")).collect();
        let multiply = format!(
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{}}}, %desc_a, %desc_b, 1, 1, 1, 0, 0;",
            list.join(", ")
        );
        case.text().replace(commit, &format!("{multiply} {commit}"))
    };
    let (twice, _) = case.run(&again(16, [0, 1, 2, 3, 4, 5, 6, 7])).unwrap();
    let expected: Vec<f32> = case.expected().iter().map(|sum| 2.0 * sum).collect();
    assert_eq!(twice, expected);
    for text in [again(8, [0, 1, 2, 3, 4, 5, 6, 7]), again(16, [1, 0, 2, 3, 4, 5, 6, 7])] {
        assert!(reason(&case, &text).contains("has others or another shape"));
    }
}

#[test]
fn a_multiplication_counts_for_its_warpgroup() {
    let case = case(Ty::E4m3, 48);
    let counter = cuda_std::testing::Counter::new();
    let emulator = Emulator::new(PtxModule::parse(&case.text()).unwrap()).with_counter(&counter);
    let (got, _) = case.run_on(emulator).unwrap();
    assert_eq!(got, case.expected());
    let total = counter.take().into_iter().map(|counts| counts.total).sum::<cuda_std::testing::Counts>();
    assert_eq!((total.flop.tensor, total.collectives.matrices), (2 * 64 * 48 * 32, 4));
}
