//! Matrix instructions: who takes part, what is undefined, and what is refused. Values: `compat-kernels/tests/tensor.rs`.

use crate::common::{self, fault, module, run_and_ask};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, PtxModule};

const MMA: &str =
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r5, %r6, %r7, %r8}, {%r1, %r1, %r1, %r1},
    {%r2, %r2}, {%r3, %r3, %r3, %r3};";
const TILE: &str = ".shared .align 16 .b8 tile[128];";

/// The elements of the first warp's product that are undefined, by lane and register.
fn undefined_of(set_up: &str) -> Vec<(usize, usize)> {
    let body = |register: usize| {
        format!(
            "mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.u32 %r4, %laneid; {set_up} {MMA}
             mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd1, %out; st.global.b32 [%rd1], %r{};",
            5 + register
        )
    };
    let of_register = |register: usize| {
        (0..32).filter(move |&lane| {
            // One lane's result alone, so that the first byte found is its own.
            let only = format!("setp.ne.u32 %p1, %r4, {lane}; @%p1 bra OUT; st.global.b32 [%rd1]");
            let text = module("", &format!("{} OUT:", body(register).replace("st.global.b32 [%rd1]", &only)));
            run_and_ask(&text, LaunchConfig::new(1, 32), &mut [0u32; 32]).unwrap().is_some()
        })
    };
    (0..4).flat_map(|register| of_register(register).map(move |lane| (lane, register))).collect()
}

#[test]
fn an_undefined_number_reaches_its_row_or_column() {
    assert_eq!(undefined_of(""), []);
    // Lane 6 has elements of rows 1 and 9 of A: those of lanes 4 to 7.
    let rows: Vec<_> = (0..4).flat_map(|register| (4..8).map(move |lane| (lane, register))).collect();
    assert_eq!(undefined_of("setp.eq.u32 %p1, %r4, 6; selp.b32 %r1, %r18, %r1, %p1;"), rows);
    // Lane 21 has elements of column 5 of B, which the lanes have third in their group, at the odd place.
    let column: Vec<_> = [1, 3].into_iter().flat_map(|r| (0..8).map(move |g| (4 * g + 2, r))).collect();
    assert_eq!(undefined_of("setp.eq.u32 %p1, %r4, 21; selp.b32 %r2, %r18, %r2, %p1;"), column);
    let own: Vec<_> = (0..4).map(|register| (9, register)).collect();
    assert_eq!(undefined_of("setp.eq.u32 %p1, %r4, 9; selp.b32 %r3, %r18, %r3, %p1;"), own);
    // The lower bits of a number are not read.
    assert_eq!(undefined_of("and.b32 %r1, %r18, 0x1fff;"), []);
}

#[test]
fn all_lanes_come_to_the_same_instruction() {
    let cause = |body: &str, threads: u32| {
        let set = "mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.u32 %r4, %laneid;";
        fault(&module(TILE, &format!("{set}{body}")), LaunchConfig::new(1, threads), &mut [0u32; 32]).0
    };
    let Cause::Mask { missing: 31, .. } = cause(MMA, 31) else { panic!() };
    let Cause::Mask { missing: 3, .. } =
        cause(&format!("setp.eq.u32 %p1, %r4, 3; @%p1 bra OUT; {MMA} OUT:"), 32)
    else {
        panic!()
    };
    let twice = format!("setp.lt.u32 %p1, %r4, 9; @%p1 bra OTHER; {MMA} bra OUT; OTHER: {MMA} OUT:");
    let Cause::Mask { lane: 0, missing: 9, .. } = cause(&twice, 32) else { panic!() };
}

#[test]
fn rows_lie_in_shared_memory() {
    let cause = |rows: &str, matrices: &str| {
        let body = format!(
            "mov.u64 %rd1, tile; mov.u32 %r1, %laneid; and.b32 %r1, %r1, 7; mad.wide.u32 %rd1, %r1, 16, %rd1; {rows}
             {matrices}"
        );
        let text = module(TILE, &body);
        match common::run_module(&text, LaunchConfig::new(1, 32), &mut [0u32; 32]) {
            Ok(()) => None,
            Err(ptx_emulator::EmulatorError::Fault(fault)) => Some((fault.thread[0], fault.cause)),
            Err(error) => panic!("{error}"),
        }
    };
    let (one, four) = (
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%rd1];",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r2, %r3, %r4, %r5}, [%rd1];",
    );
    assert!(cause("", one).is_none() && cause("", four).is_none());
    let Some((5, Cause::Misaligned { .. })) =
        cause("setp.eq.u32 %p1, %r1, 5; @%p1 add.u64 %rd1, %rd1, 8;", one)
    else {
        panic!()
    };
    // Lane 12 gives a row of the second matrix, which the first form does not read.
    let beyond = "mov.u32 %r9, %laneid; setp.eq.u32 %p1, %r9, 12; @%p1 add.u64 %rd1, %rd1, 128;";
    assert!(cause(beyond, one).is_none());
    let Some((12, Cause::OutOfBounds { .. })) = cause(beyond, four) else { panic!() };
    let store = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%rd1], {%r1, %r1};";
    let Some((12, Cause::OutOfBounds { .. })) = cause(beyond, store) else { panic!() };
}

#[test]
fn what_nobody_wrote_is_undefined_in_registers() {
    // Row 2 alone is written; lane 9 has a part of it.
    for (lane, is_undefined) in [(9, false), (13, true)] {
        let body = format!(
            "mov.u64 %rd1, tile; st.shared.v2.b64 [%rd1+32], {{0, 0}}; mov.u32 %r1, %laneid; and.b32 %r2, %r1, 7;
             mad.wide.u32 %rd1, %r2, 16, %rd1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r3}}, [%rd1];
             setp.eq.u32 %p1, %r1, {lane}; @%p1 st.global.b32 [%out], %r3;"
        );
        let found = run_and_ask(&module(TILE, &body), LaunchConfig::new(1, 32), &mut [0u32]).unwrap();
        assert_eq!(found.is_some(), is_undefined, "lane {lane}");
    }
}

#[test]
fn other_forms_are_refused() {
    for text in [
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.bf16.f32 {%r1, %r2, %r3, %r4}, {%r1, %r1, %r1, %r1}, {%r1, %r1},
            {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r1, %r1}, {%r1, %r1},
            {%r1, %r1, %r1, %r1};",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%out];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%out];",
        "movmatrix.sync.aligned.m8n8.b16 %r1, %r2;",
        "cvt.rn.tf32.f32 %r1, %r2;",
    ] {
        let module = PtxModule::parse(&module("", text)).unwrap();
        assert_eq!(module.unsupported().len(), 1, "{text}");
    }
}
