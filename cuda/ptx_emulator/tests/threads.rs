//! Control flow, calls, memory, barriers and warp operations.

use crate::common::{check, fault, module, run_module};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, Emulator, PtxModule, Turns};

fn run<const N: usize>(body: &str, config: LaunchConfig) -> [u32; N] {
    let mut out = [0xdead_beef; N];
    run_module(&module("", body), config, &mut out).unwrap_or_else(|error| panic!("{body}: {error}"));
    out
}

/// Each thread of a block stores `%r9` at its index.
fn by_thread(body: &str) -> String {
    format!("mov.u32 %r1, %tid.x; {body} mad.wide.u32 %rd1, %r1, 4, %out; st.global.u32 [%rd1], %r9;")
}

#[test]
fn branches_and_loops() {
    check(&[
        ("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 3; setp.lt.u32 %p1, %r1, 10; @%p1 bra L;", "%r1", 12),
        ("mov.u32 %r1, 5; bra.uni E; mov.u32 %r1, 6; E:", "%r1", 5),
        ("mov.pred %p1, 0; mov.u32 %r1, 5; @!%p1 mov.u32 %r1, 6; @%p1 mov.u32 %r1, 7;", "%r1", 6),
        (
            "T: .branchtargets A, B; mov.u32 %r1, 1; brx.idx %r1, T; A: mov.u32 %r2, 3; B: mov.u32 %r2, 4;",
            "%r2",
            4,
        ),
        // Names in braces hide those outside.
        ("mov.u32 %r1, 5; { .reg .u32 %r1; mov.u32 %r1, 6; } ", "%r1", 5),
    ]);
}

#[test]
fn calls_pass_parameters_and_return_values() {
    let functions = "
        .func (.param .b64 r) twice(.param .b32 a, .param .align 8 .b8 b[16]) {
            .reg .b32 %r<4>; .reg .b64 %rd<4>; .local .align 8 .b8 depot[8];
            ld.param.b32 %r1, [a]; ld.param.b64 %rd1, [b+8];
            st.local.b32 [depot+4], %r1; mov.b64 %rd2, depot; ld.local.b32 %r2, [%rd2+4];
            cvta.local.u64 %rd3, %rd2; ld.b32 %r3, [%rd3+4]; add.u32 %r2, %r2, %r3;
            mul.wide.u32 %rd3, %r2, 1; add.u64 %rd1, %rd1, %rd3; st.param.b64 [r], %rd1; ret;
        }";
    let body = "{ .param .b32 x; .param .align 8 .b8 y[16]; .param .b64 z;
          st.param.b32 [x], 21; st.param.v2.b64 [y], {1, 100}; call.uni (z), twice, (x, y);
          ld.param.b64 %rd1, [z]; }
        st.global.b64 [%out], %rd1;";
    let mut out = [0u64];
    run_module(&module(functions, body), LaunchConfig::new(1, 1), &mut out).unwrap();
    assert_eq!(out, [142]);
}

#[test]
fn variables_and_addresses() {
    let variables = "
        .global .align 4 .u32 numbers[3] = {1, 0xfffffffe, 3};
        .const .align 4 .f32 half = 0f3F000000;
        .global .align 8 .u64 where[2] = {generic(numbers)+4, 5};
        .shared .align 16 .b8 tile[64];";
    let body = "
        ld.global.u32 %r1, [numbers+4]; st.global.u32 [%out], %r1;
        ld.const.f32 %r2, [half]; st.global.f32 [%out+4], %r2;
        ld.global.u64 %rd1, [where]; ld.u32 %r3, [%rd1+4]; st.u32 [%out+8], %r3;
        mov.u64 %rd2, tile; st.shared.v4.u32 [%rd2+16], {7, 8, 9, 10};
        cvta.shared.u64 %rd3, %rd2; ld.u8 %r4, [%rd3+24]; st.global.u32 [%out+12], %r4;
        isspacep.shared %p1, %rd3; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%out+16], %r5;
        isspacep.global %p1, %rd3; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%out+20], %r5;
        cvta.to.shared.u64 %rd4, %rd3; sub.u64 %rd5, %rd4, %rd2; st.global.u64 [%out+24], %rd5;
        mov.u32 %r6, 0xff; st.global.u8 [%out+32], %r6; ld.global.s8 %r7, [%out+32]; st.global.u32 [%out+36], %r7;";
    let mut out = [0u64; 5];
    run_module(&module(variables, body), LaunchConfig::new(1, 1), &mut out).unwrap();
    assert_eq!(out, [0x3f00_0000_ffff_fffe, 0x9_0000_0003, 1, 0, 0xffff_ffff_0000_00ff]);
}

#[test]
fn atomics_combine_and_give_the_old_value() {
    let old_and_new = |instruction: &str, start: u32| {
        let body = format!(
            "mov.u32 %r1, {start}; st.global.u32 [%out], %r1; {instruction}; st.global.u32 [%out+4], %r2;"
        );
        let [new, old] = run::<2>(&body, LaunchConfig::new(1, 1));
        assert_eq!(old, start, "{instruction}");
        new
    };
    let cases = [
        ("atom.global.add.u32 %r2, [%out], 5", 7, 12),
        ("atom.add.s32 %r2, [%out], -8", 7, u32::MAX),
        ("atom.min.s32 %r2, [%out], -8", 7, -8i32 as u32),
        ("atom.min.u32 %r2, [%out], -8", 7, 7),
        ("atom.xor.b32 %r2, [%out], 6", 5, 3),
        ("atom.exch.b32 %r2, [%out], 6", 5, 6),
        ("atom.acq_rel.gpu.cas.b32 %r2, [%out], 5, 9", 5, 9),
        ("atom.relaxed.sys.cas.b32 %r2, [%out], 4, 9", 5, 5),
        ("atom.inc.u32 %r2, [%out], 3", 2, 3),
        ("atom.inc.u32 %r2, [%out], 3", 3, 0),
        ("atom.dec.u32 %r2, [%out], 3", 0, 3),
        ("atom.dec.u32 %r2, [%out], 3", 9, 3),
        ("atom.add.f32 %r2, [%out], 0f40000000", 0x3f80_0000, 0x4040_0000),
        // In global memory subnormal numbers are flushed.
        ("atom.add.f32 %r2, [%out], 0f00000001", 1, 0),
    ];
    for (instruction, start, expected) in cases {
        assert_eq!(old_and_new(instruction, start), expected, "{instruction} of {start:#x}");
    }
    let sum = run::<1>(
        "st.global.u32 [%out], 0; bar.sync 0; red.global.add.u32 [%out], 2;",
        LaunchConfig::new(1, 96),
    );
    assert_eq!(sum, [192]);
}

#[test]
fn indices() {
    let body = "
        mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
        mov.u32 %r5, %tid.y; mov.u32 %r6, %ntid.x; mov.u32 %r7, %tid.x; mad.lo.u32 %r8, %r5, %r6, %r7;
        mad.lo.u32 %r9, %r4, 6, %r8; mad.wide.u32 %rd1, %r9, 4, %out; st.global.u32 [%rd1], %r9;";
    assert_eq!(run::<24>(body, LaunchConfig::new((2, 2), (3, 2))), core::array::from_fn(|i| i as u32));
    let lanes = run::<40>(
        &by_thread("mov.u32 %r9, %laneid; mov.u32 %r2, %warpid; mad.lo.u32 %r9, %r2, 100, %r9;"),
        LaunchConfig::new(1, 40),
    );
    assert_eq!((lanes[31], lanes[32], lanes[39]), (31, 100, 107));
    let masks = run::<32>(
        &by_thread("mov.u32 %r9, %lanemask_lt; mov.u32 %r2, %lanemask_ge; add.u32 %r9, %r9, %r2;"),
        LaunchConfig::new(1, 32),
    );
    assert_eq!(masks, [u32::MAX; 32]);
    assert_eq!(run::<32>(&by_thread("mov.u32 %r9, %lanemask_le;"), LaunchConfig::new(1, 32))[31], u32::MAX);
}

#[test]
fn barriers_order_the_block_and_reduce() {
    let tile = ".shared .align 4 .b8 tile[256];";
    let turned = "
        mov.u32 %r1, %tid.x; mov.u64 %rd1, tile; mad.wide.u32 %rd2, %r1, 4, %rd1; st.shared.u32 [%rd2], %r1;
        barrier.sync 1;
        sub.u32 %r2, 63, %r1; mad.wide.u32 %rd3, %r2, 4, %rd1; ld.shared.u32 %r3, [%rd3];
        mad.wide.u32 %rd4, %r1, 4, %out; st.global.u32 [%rd4], %r3;";
    let mut out = [0u32; 64];
    run_module(&module(tile, turned), LaunchConfig::new(1, 64), &mut out).unwrap();
    assert_eq!(out, core::array::from_fn(|i| 63 - i as u32));
    for (instruction, expected) in [
        ("bar.red.popc.u32 %r9, 0, %p1;", 3),
        ("bar.red.and.pred %p2, 0, %p1; selp.u32 %r9, 1, 0, %p2;", 0),
        ("bar.red.or.pred %p2, 0, !%p1; selp.u32 %r9, 1, 0, %p2;", 1),
    ] {
        let body = by_thread(&format!("setp.lt.u32 %p1, %r1, 3; {instruction}"));
        assert_eq!(run::<40>(&body, LaunchConfig::new(1, 40)), [expected; 40], "{instruction}");
    }
    // The two warps meet apart, each at its own barrier.
    let apart = by_thread("mov.u32 %r2, %warpid; bar.sync %r2, 32; mov.u32 %r9, 5;");
    assert_eq!(run::<64>(&apart, LaunchConfig::new(1, 64)), [5; 64]);
}

#[test]
fn arrivals_are_counted_and_do_not_wait() {
    // The second warp writes and arrives, three times before it waits for anybody; the first one waits and reads.
    let tile = ".shared .align 4 .b8 tile[128];";
    let by_warp = |first: &str, second: &str| {
        let body = format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, %warpid; and.b32 %r4, %r1, 31; mov.u64 %rd1, tile;
            mad.wide.u32 %rd2, %r4, 4, %rd1; setp.eq.u32 %p1, %r2, 1; @%p1 bra SECOND; {first} ret;
            SECOND: {second}"
        );
        module(tile, &body)
    };
    let read = "ld.shared.u32 %r3, [%rd2]; mad.wide.u32 %rd4, %r4, 4, %out; st.global.u32 [%rd4], %r3;";
    let waits = format!("bar.sync 2, 64; {read} barrier.sync 3, 64; barrier.sync.aligned 2, 64;");
    let arrives = "st.shared.u32 [%rd2], %r1; bar.arrive 2, 64; barrier.arrive 3, 64; barrier.cta.arrive.aligned 2, 64;";
    let mut out = [0u32; 32];
    run_module(&by_warp(&waits, arrives), LaunchConfig::new(1, 64), &mut out).unwrap();
    assert_eq!(out, core::array::from_fn(|i| 32 + i as u32));

    let cause = |first: &str, second: &str| {
        fault(&by_warp(first, second), LaunchConfig::new(1, 64), &mut [0u32; 32]).0
    };
    let Cause::Unsupported(apart) = cause("bar.sync 2, 96;", "bar.arrive 2, 64;") else { panic!() };
    assert_eq!(apart, "barrier 2 of 64 threads, and of 96");
    let Cause::Unsupported(apart) = cause("bar.arrive 2, 96;", "bar.arrive 2, 64;") else { panic!() };
    assert!(apart.starts_with("barrier 2 of"), "{apart}");
    let Cause::Unsupported(many) = cause("bar.sync 2, 32;", "bar.arrive 2, 32;") else { panic!() };
    assert_eq!(many, "64 threads at a barrier of 32");
    let Cause::Barrier { id: 2, .. } = cause("bar.sync 2, 64;", "") else { panic!() };
    let module = PtxModule::parse(&module("", "bar.arrive 2;")).unwrap();
    assert_eq!(module.unsupported().len(), 1);
}

#[test]
fn the_number_of_registers_changes_nothing() {
    let body =
        by_thread("setmaxnreg.dec.sync.aligned.u32 24; mov.u32 %r9, 5; setmaxnreg.inc.sync.aligned.u32 256;");
    assert_eq!(run::<32>(&body, LaunchConfig::new(1, 32)), [5; 32]);
    for text in ["setmaxnreg.inc.sync.aligned.u32 264;", "setmaxnreg.sync.aligned.u32 24;"] {
        let module = PtxModule::parse(&module("", text)).unwrap();
        assert_eq!(module.unsupported().len(), 1, "{text}");
    }
}

#[test]
fn shuffles_follow_the_pseudo_code() {
    // Operand c: clamp in its low bits, segment mask from bit 8 on; the expected lane and whether it is in range.
    type Expected = fn(u32) -> (u32, bool);
    let cases: [(&str, Expected); 7] = [
        ("bfly.b32 %r2|%p1, %r1, 16, 31, -1", |lane| (lane ^ 16, true)),
        ("bfly.b32 %r2|%p1, %r1, 1, 0x1c1f, -1", |lane| (lane ^ 1, true)),
        ("down.b32 %r2|%p1, %r1, 3, 31, -1", |lane| if lane < 29 { (lane + 3, true) } else { (lane, false) }),
        (
            "down.b32 %r2|%p1, %r1, 3, 0x181f, -1",
            |lane| {
                if lane % 8 < 5 { (lane + 3, true) } else { (lane, false) }
            },
        ),
        ("up.b32 %r2|%p1, %r1, 3, 0, -1", |lane| if lane >= 3 { (lane - 3, true) } else { (lane, false) }),
        (
            "up.b32 %r2|%p1, %r1, 3, 0x1800, -1",
            |lane| {
                if lane % 8 >= 3 { (lane - 3, true) } else { (lane, false) }
            },
        ),
        ("idx.b32 %r2|%p1, %r1, 2, 0x1c1f, -1", |lane| (lane / 4 * 4 + 2, true)),
    ];
    for (shuffle, expected) in cases {
        let body =
            by_thread(&format!("shfl.sync.{shuffle}; selp.u32 %r9, 100, 0, %p1; add.u32 %r9, %r9, %r2;"));
        let want: [u32; 32] = core::array::from_fn(|lane| {
            let (source, in_range) = expected(lane as u32);
            source + if in_range { 100 } else { 0 }
        });
        assert_eq!(run::<32>(&body, LaunchConfig::new(1, 32)), want, "{shuffle}");
    }
}

#[test]
fn votes_matches_and_reductions() {
    let ballot = by_thread("setp.gt.u32 %p1, %r1, 27; vote.sync.ballot.b32 %r9, %p1, -1;");
    assert_eq!(run::<32>(&ballot, LaunchConfig::new(1, 32)), [0xf000_0000; 32]);
    for (mode, expected) in [("all", 0), ("any", 1), ("uni", 0)] {
        let body =
            format!("setp.gt.u32 %p1, %r1, 27; vote.sync.{mode}.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;");
        assert_eq!(run::<32>(&by_thread(&body), LaunchConfig::new(1, 32)), [expected; 32], "{mode}");
    }
    let matched = by_thread("shr.u32 %r2, %r1, 4; match.any.sync.b32 %r9, %r2, -1;");
    let halves = core::array::from_fn(|lane| if lane < 16 { 0xffff } else { 0xffff_0000 });
    assert_eq!(run::<32>(&matched, LaunchConfig::new(1, 32)), halves);
    let all = by_thread("mov.u64 %rd2, 5; match.all.sync.b64 %r9|%p1, %rd2, -1;");
    assert_eq!(run::<32>(&all, LaunchConfig::new(1, 32)), [u32::MAX; 32]);
    for (op, expected) in [("add.s32", 496), ("max.u32", 31), ("min.s32", 0), ("or.b32", 31), ("xor.b32", 0)]
    {
        let body = by_thread(&format!("redux.sync.{op} %r9, %r1, -1;"));
        assert_eq!(run::<32>(&body, LaunchConfig::new(1, 32)), [expected; 32], "{op}");
    }
    // Half a warp each, by different paths.
    let split = by_thread(
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra L; redux.sync.add.u32 %r9, 1, 0xffff0000; bra E;
         L: redux.sync.add.u32 %r9, %r1, 0xffff; activemask.b32 %r2; add.u32 %r9, %r9, %r2; E: bar.warp.sync -1;",
    );
    let sums = core::array::from_fn(|lane| if lane < 16 { 120 + 0xffff } else { 16 });
    assert_eq!(run::<32>(&split, LaunchConfig::new(1, 32)), sums);
}

#[test]
fn a_thread_may_wait_for_another_without_a_barrier() {
    // Thread 0 spins until the last has stored.
    let body = "
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra S;
        atom.add.u32 %r2, [%out], 1; bra E;
        S: ld.volatile.global.u32 %r3, [%out]; setp.ne.u32 %p2, %r3, 3; @%p2 bra S;
        st.global.u32 [%out+4], 1; E:";
    let mut out = [0u32; 2];
    run_module(&module("", body), LaunchConfig::new(1, 4), &mut out).unwrap();
    assert_eq!(out, [3, 1]);
}

#[test]
fn a_missing_barrier_shows_in_one_order() {
    // Each thread reads what the one after it writes: with the last thread first that goes well by chance.
    let body = "
        mov.u32 %r1, %tid.x; mov.u64 %rd1, tile; mad.wide.u32 %rd2, %r1, 4, %rd1; st.shared.u32 [%rd2], %r1;
        add.u32 %r2, %r1, 1; and.b32 %r2, %r2, 31; mad.wide.u32 %rd3, %r2, 4, %rd1; ld.shared.u32 %r3, [%rd3];
        mad.wide.u32 %rd4, %r1, 4, %out; st.global.u32 [%rd4], %r3;";
    let ptx = module(".shared .align 4 .b8 tile[128];", body);
    let run = |turns| {
        let mut out = [0u32; 32];
        let address = out.as_mut_ptr().addr() as u64;
        let mut emulator = Emulator::new(PtxModule::parse(&ptx).unwrap()).with_turns(turns);
        // SAFETY: `out` outlives the launch, and no other code uses it.
        unsafe {
            emulator.lend(&mut out);
            emulator.launch("k", LaunchConfig::new(1, 32), &[&address.to_le_bytes()]).unwrap();
        }
        (out, emulator.undefined_in(&out[..31]).map(|byte| byte.index))
    };
    let (descending, undefined) = run(Turns::Descending);
    assert_eq!(descending[..31], core::array::from_fn::<u32, 31, _>(|i| i as u32 + 1));
    assert_eq!(undefined, None);
    let (ascending, undefined) = run(Turns::Ascending);
    assert_eq!((&ascending[..31], undefined), (&[0x7ff5_7ff5; 31][..], Some(0)));
}
