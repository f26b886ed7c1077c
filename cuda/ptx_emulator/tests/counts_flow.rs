//! Which lanes count as executing an instruction together: branches, loops, calls, predicates.

use crate::common::{self, counts, counts_of_warp};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::Counts;
use cuda_std::testing::counts::{Branches, Collectives, Instructions};

/// Instructions of [`common::module`] around a body: the load of the parameter and the return.
const AROUND: u64 = 2;

fn branches(executed: u64, divergent: u64) -> Branches {
    Branches { executed, divergent }
}

/// Requests to store by the warp or warps.
fn stores(counts: &Counts) -> u64 {
    counts.global.stores.requests
}

/// A branch by `%p1`, which `test` sets, to one of two stores.
fn if_else(test: &str) -> String {
    format!(
        "mov.u32 %r1, %laneid; mov.u32 %r2, %warpid; mov.u32 %r3, %ctaid.x; {test} @%p1 bra E;
         st.global.u32 [%out], 1; bra.uni D; E: st.global.u32 [%out], 2; D: st.global.u32 [%out], 3;"
    )
}

#[test]
fn a_branch_by_lane_diverges() {
    let of = counts_of_warp("", &if_else("setp.lt.u32 %p1, %r1, 16;"));
    assert_eq!((of.branches, stores(&of)), (branches(1, 1), 3));
    // By 32 lanes: three moves, the comparison, the branch, the last store. By 16: a store and a jump, and a store.
    let (warps, threads) = (AROUND + 6 + 3, (AROUND + 6) * 32 + 3 * 16);
    // The predicate of a branch is off for lanes that do not take it.
    assert_eq!(of.instructions, Instructions { warps, threads, threads_on: threads - 16 });
    assert_eq!(of.efficiency(), threads as f64 / warps as f64 / 32.0);
    assert_eq!((of.branches.efficiency(), Branches::default().efficiency()), (0.0, 1.0));
}

#[test]
fn a_branch_by_warp_or_by_block_does_not() {
    let of =
        |test: &str, blocks, threads| counts("", &if_else(test), LaunchConfig::new(blocks, threads)).total;
    for of in [of("setp.eq.u32 %p1, %r2, 0;", 1, 64), of("setp.eq.u32 %p1, %r3, 0;", 2, 32)] {
        assert_eq!((of.branches, stores(&of), of.efficiency()), (branches(2, 0), 4, 1.0));
        assert_eq!(of.instructions.warps, 2 * (AROUND + 6) + 2 + 1);
    }
}

#[test]
fn an_if_without_else() {
    let body = "mov.u32 %r1, %laneid; setp.ge.u32 %p1, %r1, 8; @%p1 bra D; st.global.u32 [%out], 1;
        D: st.global.u32 [%out], 3;";
    let of = counts_of_warp("", body);
    assert_eq!((of.branches, stores(&of)), (branches(1, 1), 2));
    let (warps, threads) = (AROUND + 5, (AROUND + 4) * 32 + 8);
    assert_eq!(of.instructions, Instructions { warps, threads, threads_on: threads - 8 });
}

#[test]
fn a_predicate_is_no_branch() {
    let body = "mov.u32 %r1, %laneid; setp.ge.u32 %p1, %r1, 24; @%p1 st.global.u32 [%out], 1;";
    let of = counts_of_warp("", body);
    assert_eq!((of.branches, stores(&of)), (branches(0, 0), 1));
    let warps = AROUND + 3;
    assert_eq!(of.instructions, Instructions { warps, threads: warps * 32, threads_on: warps * 32 - 24 });
    assert_eq!((of.efficiency(), of.predicated_efficiency() * 160.0), (1.0, 136.0));
}

#[test]
fn a_loop_with_another_end_for_each_lane() {
    // Lane i stores i + 1 times, and once after the loop.
    let body = "mov.u32 %r1, %laneid; mov.u32 %r2, 0;
        L: st.global.u32 [%out], %r2; add.u32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %r1; @%p1 bra L;
        st.global.u32 [%out+4], %r2;";
    let of = counts_of_warp("", body);
    // One lane is left at the last branch, and leaves.
    assert_eq!((of.branches, stores(&of)), (branches(32, 31), 33));
    let (warps, threads) = (AROUND + 3 + 4 * 32, (AROUND + 3) * 32 + 4 * (1..=32).sum::<u64>());
    assert_eq!(of.instructions, Instructions { warps, threads, threads_on: threads - 32 });
}

#[test]
fn lanes_meet_again_after_an_inner_loop() {
    // Of four rounds, the inner loop of lane i in round j has (i + j) % 4 + 1: 10 for each lane in all, but 4 in each round for
    // the warp.
    let body = "mov.u32 %r1, %laneid; mov.u32 %r2, 0;
        O: add.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 3; mov.u32 %r4, 0;
        I: st.global.u32 [%out], %r4; add.u32 %r4, %r4, 1; setp.le.u32 %p1, %r4, %r3; @%p1 bra I;
        st.global.u32 [%out], %r4; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4; @%p2 bra O;";
    let of = counts_of_warp("", body);
    // In each round three of four inner branches part lanes.
    assert_eq!((stores(&of), of.branches), (16 + 4, branches(16 + 4, 12)));
    assert_eq!(of.global.stores.bytes, 4 * 32 * (10 + 4));
}

#[test]
fn lanes_that_go_on_early_or_leave_in_the_midst() {
    // Odd lanes leave out the second store of each round, lanes from 16 on leave in the second round of four.
    let body = "mov.u32 %r1, %laneid; mov.u32 %r2, 0; and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 1;
        setp.ge.u32 %p2, %r1, 16;
        L: add.u32 %r2, %r2, 1; st.global.u32 [%out], %r2; @%p1 bra C; st.global.u32 [%out+4], %r2;
        setp.ge.and.u32 %p3, %r2, 2, %p2; @%p3 bra E;
        C: setp.lt.u32 %p4, %r2, 4; @%p4 bra L;
        E: st.global.u32 [%out+8], %r2;";
    let of = counts_of_warp("", body);
    // Two stores a round, and one after the loop.
    assert_eq!(stores(&of), 4 * 2 + 1);
    // The odd lanes have all four rounds, the even ones from 16 on two.
    assert_eq!(of.global.stores.bytes, 4 * (16 * 4 + 8 * 4 + 8 * 2 + 8 * 4 + 8 * 2 + 32));
    // Three branches a round: to C each time by the odd lanes, to E in the second round by half of the even ones, to L by all.
    assert_eq!(of.branches, branches(12, 4 + 1));
}

#[test]
fn a_loop_with_two_ways_in() {
    // Even lanes start at A, odd ones at B; each goes around three times.
    let body =
        "mov.u32 %r1, %laneid; and.b32 %r1, %r1, 1; mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 1; @%p1 bra B;
        A: st.global.u32 [%out], %r2;
        B: st.global.u32 [%out+4], %r2; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3; @%p2 bra A;";
    let of = counts_of_warp("", body);
    assert_eq!(of.global.stores.bytes, 4 * (16 * 3 + 16 * 2 + 32 * 3));
    assert_eq!(stores(&of), 3 + 3);
}

#[test]
fn a_function_is_executed_for_each_place_that_calls_it() {
    let functions = ".func store(.param .b64 to) {
        .reg .b64 %rd<2>; ld.param.b64 %rd1, [to]; st.global.u32 [%rd1], 1; ret; }";
    let call = "{ .param .b64 x; st.param.b64 [x], %out; call.uni store, (x); }";
    let apart =
        format!("mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @%p1 bra E; {call} bra.uni D; E: {call} D:");
    let looped =
        format!("mov.u32 %r1, 0; L: {call} add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra L;");
    assert_eq!(stores(&counts_of_warp(functions, call)), 1);
    assert_eq!(stores(&counts_of_warp(functions, &apart)), 2);
    let of = counts_of_warp(functions, &looped);
    // In each round the argument, the call, three instructions of the function, and three of the loop.
    assert_eq!((stores(&of), of.instructions.warps, of.efficiency()), (5, AROUND + 1 + 5 * 8, 1.0));
}

#[test]
fn a_table_of_targets() {
    let body = "mov.u32 %r1, %laneid; and.b32 %r1, %r1, 3; T: .branchtargets A, B, C, C; brx.idx %r1, T;
        A: st.global.u32 [%out], 1; bra.uni D; B: st.global.u32 [%out], 2; bra.uni D; C: st.global.u32 [%out], 3; D:";
    let of = counts_of_warp("", body);
    assert_eq!((of.branches, stores(&of), of.global.stores.bytes), (branches(1, 1), 3, 128));
}

#[test]
fn collectives_count_by_warp() {
    let body = "mov.u32 %r1, %laneid; bar.sync 0; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; bar.warp.sync -1;
        setp.lt.u32 %p1, %r1, 16; @%p1 bra E; bar.warp.sync 0xffff0000; E: vote.sync.any.pred %p2, %p1, -1;
        shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;";
    let of = counts("", body, LaunchConfig::new(2, 96)).total;
    let of_warp =
        Collectives { shuffles: 2, votes: 1, warp_barriers: 2, barriers: 1, ..Collectives::default() };
    assert_eq!(of.collectives, (0..6).map(|_| of_warp).sum());
    assert_eq!(of.branches, branches(6, 6));
}

#[test]
fn what_lanes_do_that_others_wait_for_is_done_before() {
    // Lanes from 16 on come to the store behind the branch before those below have passed their barrier: on a GPU they wait
    // there.
    let body = "mov.u32 %r1, %laneid; setp.ge.u32 %p1, %r1, 16; @%p1 bra E; bar.warp.sync 0xffff;
        E: st.global.u32 [%out], 1; bar.sync 0; st.global.u32 [%out], 2;";
    let of = counts_of_warp("", body);
    assert_eq!((stores(&of), of.global.stores.bytes), (2, 256));
}

#[test]
fn the_order_of_turns_changes_nothing() {
    // Counted by hand above, in ascending order.
    let body = if_else("setp.lt.u32 %p1, %r1, 16;");
    let ascending = counts("", &body, LaunchConfig::new(2, 80));
    assert_eq!(
        common::counts_in_turns("", &body, LaunchConfig::new(2, 80), ptx_emulator::Turns::Descending),
        ascending
    );
}

#[test]
fn the_whole_is_the_sum_of_the_instructions() {
    let of = counts("", &if_else("setp.lt.u32 %p1, %r1, 16;"), LaunchConfig::new(3, 96));
    let sum: Counts = of.instructions.iter().map(|one| one.counts).sum();
    assert_eq!((sum, of.kernels), (of.total, vec!["k".to_owned()]));
    assert_eq!(of.total.instructions.warps, 9 * (AROUND + 6 + 3));
}
