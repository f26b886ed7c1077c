//! What the emulator refuses, and how it says where.

use crate::common::{fault, module, run_module};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule};

fn cause_of(body: &str, threads: u32) -> Cause {
    let declarations = ".shared .align 4 .b8 tile[64]; .const .u32 fixed = 3;";
    fault(&module(declarations, body), LaunchConfig::new(1, threads), &mut [0u32; 4]).0
}

#[test]
fn accesses_outside_of_memory() {
    let cases = [
        ("ld.global.u32 %r1, [%out+16];", "load", "global"),
        ("ld.global.u32 %r1, [%out+-4];", "load", "global"),
        ("st.u64 [%out+16], %out;", "store", "generic"),
        ("mov.u64 %rd1, 0; ld.u32 %r1, [%rd1];", "load", "generic"),
        ("ld.shared.u32 %r1, [tile+64];", "load", "shared"),
        ("mov.u64 %rd1, 0; ld.shared.u32 %r1, [%rd1];", "load", "shared"),
        ("mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2+-4], 1;", "store", "shared"),
        ("atom.global.add.u32 %r1, [%out+16], 1;", "atomic", "global"),
        ("mov.u64 %rd1, 32; cp.async.bulk.prefetch.L2.global [%rd1], 32;", "load", "global"),
        ("mov.u64 %rd1, fixed; ld.global.u32 %r1, [%rd1];", "load", "global"),
        // An address of shared memory is none of global memory.
        ("mov.u64 %rd1, tile; ld.global.u32 %r1, [%rd1];", "load", "global"),
        (".local .b8 mine[8]; mov.u64 %rd1, mine; ld.local.u32 %r1, [%rd1+8];", "load", "local"),
    ];
    for (body, access_want, space_want) in cases {
        match cause_of(body, 1) {
            Cause::OutOfBounds { access, space, .. } => {
                assert_eq!((access, space), (access_want, space_want), "{body}");
            }
            other => panic!("{body}: {other}"),
        }
    }
    assert!(matches!(cause_of("ld.global.u32 %r1, [%out+2];", 1), Cause::Misaligned { bytes: 4, .. }));
    assert!(matches!(
        cause_of("ld.global.v4.u32 {%r1, _, _, _}, [%out+8];", 1),
        Cause::Misaligned { bytes: 16, .. }
    ));
    let write = "mov.u64 %rd1, fixed; cvta.const.u64 %rd2, %rd1; st.u32 [%rd2], 1;";
    assert!(matches!(cause_of(write, 1), Cause::ReadOnly { .. }));
    // To convert an address that points elsewhere is no fault, nor to convert it back or to compare it; to use it is.
    let convert = "mov.b64 %rd1, 0; cvta.to.local.u64 %rd2, %rd1; cvta.local.u64 %rd3, %rd2; cvta.to.shared.u64 %rd4, %out;
        cvta.to.local.u64 %rd5, %rd1; setp.eq.b64 %p1, %rd2, %rd5; setp.eq.and.b64 %p2, %rd3, 0, %p1;
        selp.b32 %r1, 1, 2, %p2; st.global.b32 [%out], %r1;";
    let mut out = [0u32; 4];
    run_module(&module("", convert), LaunchConfig::new(1, 1), &mut out).unwrap();
    assert_eq!(out[0], 1);
    let local = ".local .b8 mine[64];";
    for (access, space_want) in
        [("ld.local.u32 %r1, [%rd2];", "local"), ("ld.shared.u32 %r1, [%rd4];", "shared")]
    {
        match cause_of(&format!("{local}{convert}{access}"), 1) {
            Cause::OutOfBounds { space, .. } => assert_eq!(space, space_want),
            other => panic!("{access}: {other}"),
        }
    }
}

#[test]
fn a_fault_says_where_and_who() {
    let body = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 64; add.u64 %rd2, %out, %rd1;
        st.global.u32 [%rd2], 1;";
    let (_, text) = fault(&module("", body), LaunchConfig::new((3, 1), 1), &mut [0u32; 4]);
    let (head, tail) = text.split_once(" is outside of every allocation of global memory, ").unwrap();
    assert!(
        head.starts_with("kernel k, block [1, 0, 0], thread [0, 0, 0]: store of 4 bytes at 0x"),
        "{text}"
    );
    assert!(tail.starts_with("at PTX line 9: `st.global.u32 [%rd2], 1;"), "{text}");
}

#[test]
fn threads_that_do_not_meet() {
    let half = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra E; bar.sync 0; E:";
    match cause_of(half, 64) {
        Cause::Barrier { id: 0, missing: [0, 0, 0], instead } => {
            assert!(instead.starts_with("has exited"), "{instead}")
        }
        other => panic!("{other}"),
    }
    let two =
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra L; bar.sync 0; bra E; L: bar.sync 0; E:";
    assert!(matches!(cause_of(two, 64), Cause::Barrier { .. }));
    let exited =
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @%p1 ret; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;";
    assert!(matches!(cause_of(exited, 32), Cause::Mask { missing: 3, .. }));
    // A block of 20 threads has no lane 20.
    assert!(matches!(cause_of("vote.sync.ballot.b32 %r1, 1, -1;", 20), Cause::Mask { missing: 20, .. }));
    assert!(matches!(cause_of("bar.warp.sync 2;", 2), Cause::Mask { lane: 0, missing: 0, .. }));
    let outside = "mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 5, 31, 3;";
    assert!(matches!(cause_of(outside, 2), Cause::ShuffleSource { source_lane: 5, .. }));
}

#[test]
fn ends_without_a_return() {
    assert_eq!(cause_of("trap;", 1), Cause::Trap);
    assert!(matches!(cause_of("L: bra L;", 1), Cause::Steps(_)));
}

#[test]
fn instructions_in_unknown_forms() {
    let cases = [
        ("frob.u32 %r1, %r2;", "frob.u32: unknown opcode"),
        ("add.sat.s32 %r1, 1, 2;", "add.sat.s32: modifier `.sat`"),
        ("add.u32 %r1, 1;", "add.u32: 2 operands where 3 are expected"),
        ("add.u32 %rd1, 1, 2;", "add.u32: a destination of 64 bits for a result of 32"),
        ("add.u32 %r1, %rd1, 2;", "add.u32: a source of 64 bits where 32 are read"),
        ("add.f32 %r1, 1, 0f3F800000;", "add.f32: an integer where a float is read"),
        ("cvt.s32.f32 %r1, 0f3F800000;", "cvt.s32.f32: this rounding for these types"),
        ("mov.u32 %r1, %gridid;", "mov.u32: `%gridid` is neither a register nor a variable"),
        ("call.uni elsewhere, ();", "`elsewhere` has no body"),
        ("ld.global.u32 %r1, [tile];", "ld.global.u32: `tile` lives in another state space"),
        ("atom.add.noftz.f16 %rs1, [%out], %rs2;", "atom.add.noftz.f16: type `.f16`"),
    ];
    for (body, reason) in cases {
        assert_eq!(cause_of(body, 1), Cause::Unsupported(reason.to_owned()), "{body}");
        let known = PtxModule::parse(&module(".shared .b8 tile[8];", body)).unwrap().unsupported();
        assert_eq!(known.iter().map(|u| u.reason.as_str()).collect::<Vec<_>>(), [reason]);
    }
}

#[test]
fn text_that_is_no_ptx() {
    for (body, message) in [
        ("add.u32 %r1, 1 2;", "PTX line 8: `;` is expected"),
        ("bra nowhere;", "there is no label `nowhere`"),
        ("@%r1 ret;", "`%r1` is no predicate"),
        ("A: A: ret;", "label `A` is defined twice"),
    ] {
        let error = PtxModule::parse(&module("", body)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = PtxModule::parse(".global .u64 x = generic(y);").unwrap_err().to_string();
    assert_eq!(error, "PTX line 1: there is no variable or function `y`");
}

#[test]
fn launches_that_do_not_fit() {
    let emulator = Emulator::new(PtxModule::parse(&module(".global .u32 g;", "")).unwrap());
    let one = LaunchConfig::new(1, 1);
    // SAFETY: no kernel runs.
    let error = unsafe { emulator.launch("j", one, &[]) }.unwrap_err();
    assert_eq!(error.to_string(), "the module has no kernel `j`; it has k");
    // SAFETY: as above.
    let error = unsafe { emulator.launch("k", one, &[&[0; 4]]) }.unwrap_err();
    assert!(matches!(error, EmulatorError::Arguments { .. }), "{error}");
    assert!(matches!(
        emulator.set_global("g", &[0; 8]),
        Err(EmulatorError::GlobalSize { want: 4, got: 8, .. })
    ));
    assert!(matches!(emulator.global("h"), Err(EmulatorError::NoGlobal { .. })));
    emulator.set_global("g", &7u32.to_le_bytes()).unwrap();
    assert_eq!(emulator.global("g").unwrap(), 7u32.to_le_bytes());
    let large = Emulator::new(PtxModule::parse(&module(".shared .b8 s[49153];", "")).unwrap());
    // SAFETY: as above.
    let error = unsafe { large.launch("k", one, &[&[0; 8]]) }.unwrap_err();
    assert!(matches!(error, EmulatorError::StaticShared { bytes: 49153, .. }), "{error}");
}
