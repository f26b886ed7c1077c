//! `cp.async`: what is undefined until the wait, and what is refused. Values: `compat-kernels/tests/copies.rs`.

use crate::common::{fault, module, run_and_ask};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, PtxModule};

const TILE: &str = ".shared .align 16 .b8 tile[64];";

fn undefined_at(body: &str) -> Option<usize> {
    let text = module(TILE, &format!("mov.u64 %rd1, tile; st.shared.b32 [%rd1], 1; {body}"));
    run_and_ask(&text, LaunchConfig::new(1, 1), &mut [5u32; 8]).unwrap().map(|byte| byte.index)
}

#[test]
fn a_target_is_undefined_until_its_group_is_waited_for() {
    let copy = "cp.async.ca.shared.global [%rd1], [%out+16], 4;";
    let read = "ld.shared.b32 %r1, [%rd1]; st.global.b32 [%out], %r1;";
    for (between, is_undefined) in [
        ("", true),
        ("cp.async.commit_group;", true),
        ("cp.async.commit_group; cp.async.wait_group 1;", true),
        // The copy is in no group.
        ("cp.async.wait_group 0;", true),
        ("cp.async.wait_all;", false),
        ("cp.async.commit_group; cp.async.wait_group 0;", false),
        ("cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;", false),
    ] {
        let found = undefined_at(&format!("{copy}{between}{read}"));
        assert_eq!(found, is_undefined.then_some(0), "{between}");
    }
    // Undefined bits of the source arrive as such.
    let undefined = "st.global.b16 [%out+18], %rs1; cp.async.ca.shared.global [%rd1], [%out+16], 4;
        cp.async.wait_all; ld.shared.b32 %r1, [%rd1]; and.b32 %r1, %r1, 0xffff0000; st.global.b16 [%out+18], 0;
        st.global.b32 [%out], %r1;";
    assert_eq!(undefined_at(undefined), Some(2));
}

#[test]
fn addresses_are_checked_when_the_copy_starts() {
    let cause = |copy: &str| {
        let text = module(TILE, &format!("mov.u64 %rd1, tile; mov.b32 %r1, 17; mov.b64 %rd2, 64; {copy}"));
        fault(&text, LaunchConfig::new(1, 1), &mut [0u64; 4]).0
    };
    let Cause::Misaligned { bytes: 8, .. } = cause("cp.async.ca.shared.global [%rd1+4], [%out], 8;") else {
        panic!()
    };
    let Cause::Misaligned { bytes: 8, .. } = cause("cp.async.ca.shared.global [%rd1], [%out+4], 8, 4;")
    else {
        panic!()
    };
    let Cause::OutOfBounds { .. } = cause("cp.async.cg.shared.global [%rd1+64], [%out], 16;") else {
        panic!()
    };
    let Cause::OutOfBounds { .. } = cause("cp.async.ca.shared.global [%rd1], [%rd2], 4;") else { panic!() };
    let Cause::Unsupported(reason) = cause("cp.async.ca.shared.global [%rd1], [%out], 16, %r1;") else {
        panic!()
    };
    assert_eq!(reason, "a copy of 17 bytes into 16");
    for text in [
        "cp.async.cg.shared.global [%rd1], [%out], 8;",
        "cp.async.ca.shared.global [%rd1], [%out], 2;",
        "cp.async.shared.global [%rd1], [%out], 4;",
        "cp.async.ca.global.global [%rd1], [%out], 4;",
        "cp.async.wait_group;",
    ] {
        let module = PtxModule::parse(&module(TILE, text)).unwrap();
        assert_eq!(module.unsupported().len(), 1, "{text}");
    }
}
