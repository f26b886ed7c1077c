//! Operations on floats, and what a launch touches of global memory: each figure follows from the instructions, by hand.

use crate::common::{counts, counts_of_warp};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::counts::{Flop, Footprint};

/// What a warp does that executes these instructions.
fn flop(body: &str) -> Flop {
    counts_of_warp("", &format!("mov.b32 %r1, 0f40000000; mov.b64 %rd1, 0d4000000000000000; {body}")).flop
}

fn of_f32(f32: u64) -> Flop {
    Flop { f32, ..Flop::default() }
}

#[test]
fn simple_operations_are_one_and_a_multiply_add_is_two() {
    assert_eq!(flop("add.rn.f32 %r2, %r1, %r1;"), of_f32(32));
    assert_eq!(flop("sub.f32 %r2, %r1, %r1; mul.rn.f32 %r3, %r1, %r1;"), of_f32(64));
    assert_eq!(flop("fma.rn.f32 %r2, %r1, %r1, %r1;"), of_f32(64));
    assert_eq!(flop("fma.rn.f64 %rd2, %rd1, %rd1, %rd1;"), Flop { f64: 64, ..Flop::default() });
}

#[test]
fn what_is_no_operation_counts_nothing() {
    let nothing = [
        "max.f32 %r2, %r1, %r1;",
        "neg.f32 %r2, %r1; abs.f32 %r3, %r1;",
        "setp.lt.f32 %p1, %r1, %r1;",
        "cvt.f64.f32 %rd2, %r1; cvt.rzi.s32.f32 %r2, %r1;",
        "add.s32 %r2, %r1, %r1; mad.lo.s32 %r3, %r1, %r1, %r1;",
    ];
    for body in nothing {
        assert_eq!(flop(body), Flop::default(), "{body}");
    }
}

#[test]
fn functions_are_counted_apart() {
    let body =
        "ex2.approx.f32 %r2, %r1; rcp.rn.f32 %r3, %r1; div.rn.f32 %r4, %r1, %r1; rsqrt.approx.f32 %r5, %r1;";
    let of = flop(body);
    assert_eq!((of, of.total()), (Flop { functions: 4 * 32, ..Flop::default() }, 0));
}

#[test]
fn threads_whose_predicate_is_off_do_nothing() {
    let body = "mov.u32 %r3, %laneid; setp.lt.u32 %p1, %r3, 5; @%p1 fma.rn.f32 %r2, %r1, %r1, %r1;";
    assert_eq!(flop(body), of_f32(10));
}

#[test]
fn tensor_cores_by_their_shape() {
    let body =
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r5, %r6, %r7, %r8}, {%r1, %r1, %r1, %r1},
        {%r1, %r1}, {%r1, %r1, %r1, %r1};
        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r5, %r6, %r7, %r8}, {%r1, %r1, %r1, %r1},
        {%r1, %r1}, {%r1, %r1, %r1, %r1};";
    assert_eq!(flop(body), Flop { tensor: 2 * 16 * 8 * (8 + 16), ..Flop::default() });
    let two_warps = counts("", &format!("mov.b32 %r1, 0; {body}"), LaunchConfig::new(1, 64)).total.flop;
    assert_eq!(two_warps.tensor, 2 * 2 * 16 * 8 * (8 + 16));
}

#[test]
fn a_sector_is_touched_once_by_whoever_comes() {
    let lanes = "mov.u32 %r1, %laneid; mad.wide.u32 %rd1, %r1, 4, %out;";
    let footprint = |body: &str, config| counts("", &format!("{lanes} {body}"), config).footprint;
    let (one, many) = (LaunchConfig::new(1, 32), LaunchConfig::new(3, 64));
    let load = "ld.global.f32 %r2, [%rd1]; ld.global.f32 %r3, [%rd1]; ld.global.f32 %r4, [%rd1+32];";
    for config in [one, many] {
        assert_eq!(footprint(load, config), Footprint { loaded: 5, stored: 0 });
    }
    let of = footprint("st.global.u32 [%rd1], 1; st.global.u32 [%rd1+256], 1;", many);
    assert_eq!((of, of.bytes()), (Footprint { loaded: 0, stored: 8 }, 256));
    // What adds to a number reads it too.
    assert_eq!(footprint("red.global.add.u32 [%out], 1;", many), Footprint { loaded: 1, stored: 1 });
}

#[test]
fn copies_touch_memory_too() {
    let tile = ".shared .align 16 .b8 tile[4096]; .shared .align 8 .b8 other[256];";
    let of = |body: &str| counts(tile, body, LaunchConfig::new(1, 32)).footprint;
    let body = "mov.u32 %r1, %laneid; mov.u64 %rd2, tile; mad.wide.u32 %rd1, %r1, 16, %rd2;
        mad.wide.u32 %rd3, %r1, 16, %out;
        cp.async.cg.shared.global [%rd1], [%rd3], 16; cp.async.wait_all;";
    assert_eq!(of(body), Footprint { loaded: 16, stored: 0 });
    let bulk = "mov.u32 %r1, %laneid; mov.u64 %rd1, tile; mov.u64 %rd2, other;
        setp.ne.u32 %p2, %r1, 0; @%p2 bra E;
        mbarrier.init.shared.b64 [%rd2], 1; fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared.b64 %rd3, [%rd2], 256;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1], [%out], 256, [%rd2];
        W: mbarrier.try_wait.parity.shared.b64 %p1, [%rd2], 0; @!%p1 bra W; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out+256], [%rd1], 128;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:";
    assert_eq!(of(bulk), Footprint { loaded: 8, stored: 4 });
}
