//! `mbarrier`: what is refused, and who waits for ever. Values: `compat-kernels/tests/barriers.rs`.

use crate::common::{fault, module, run_and_ask};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, PtxModule};

const TILE: &str = ".shared .align 8 .b8 tile[16];";

fn cause_of(body: &str, threads: u32) -> Cause {
    let text =
        module(TILE, &format!("mov.u64 %rd1, tile; mov.u32 %r1, %tid.x; {body}")).replace("sm_75", "sm_90");
    fault(&text, LaunchConfig::new(1, threads), &mut [0u64; 2]).0
}

#[track_caller]
fn check_refusal(body: &str, expected: &str) {
    let Cause::Unsupported(reason) = cause_of(body, 1) else { panic!("{body}") };
    assert!(reason.contains(expected), "{reason}");
}

#[test]
fn misuse_is_reported() {
    let init = "mbarrier.init.shared.b64 [%rd1], 2;";
    let arrive = "mbarrier.arrive.shared.b64 %rd2, [%rd1];";
    check_refusal("mbarrier.init.shared.b64 [%rd1], 0;", "a barrier of 0 arrivals");
    check_refusal("mbarrier.init.shared.b64 [%rd1], 1048576;", "a barrier of 1048576 arrivals");
    check_refusal(&format!("{init} {init}"), "a second init");
    check_refusal(arrive, "no barrier was initialised here");
    check_refusal(&format!("{init} mbarrier.inval.shared.b64 [%rd1]; {arrive}"), "no barrier");
    check_refusal(
        &format!("{init} mbarrier.arrive.shared.b64 %rd2, [%rd1], 3;"),
        "3 arrivals at a phase that 2",
    );
    let many = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%rd1], 1048575;
        mbarrier.arrive.expect_tx.shared.b64 %rd2, [%rd1], 1;";
    check_refusal(&format!("{init} {many}"), "1048576 bytes of a phase");
    check_refusal(&format!("{init} mbarrier.test_wait.parity.shared.b64 %p1, [%rd1], 2;"), "the parity 2");
    let old = format!(
        "{init} {arrive} mov.b64 %rd3, %rd2; {arrive} {arrive} {arrive}
        mbarrier.test_wait.shared.b64 %p1, [%rd1], %rd3;"
    );
    check_refusal(&old, "the state of phase 0 in phase 2");
    let Cause::Misaligned { bytes: 8, .. } = cause_of("mbarrier.init.shared.b64 [%rd1+4], 1;", 1) else {
        panic!()
    };
    let Cause::OutOfBounds { .. } = cause_of("mbarrier.init.shared.b64 [%rd1+16], 1;", 1) else { panic!() };
}

#[test]
fn a_phase_that_never_ends_is_reported() {
    let body = "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [%rd1], 3; bar.sync 0;
        mbarrier.arrive.shared.b64 %rd2, [%rd1];
        WAIT: mbarrier.try_wait.shared.b64 %p2, [%rd1], %rd2; @!%p2 bra WAIT;";
    let Cause::Phase { arrivals: 1, bytes: 0 } = cause_of(body, 2) else { panic!() };
    let bytes = "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [%rd1], 1; bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 %rd2, [%rd1], 48;
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%rd1], 0; @!%p2 bra WAIT;";
    let Cause::Phase { arrivals: 0, bytes: 48 } = cause_of(bytes, 64) else { panic!() };
}

#[test]
fn the_bytes_of_a_barrier_are_nobodys() {
    let body = "mov.u64 %rd1, tile; st.shared.b64 [%rd1], 0; mbarrier.init.shared.b64 [%rd1], 1;
        ld.shared.b64 %rd2, [%rd1]; st.global.b64 [%out], %rd2;";
    let found = run_and_ask(&module(TILE, body), LaunchConfig::new(1, 1), &mut [0u64; 2]).unwrap();
    assert_eq!(found.map(|byte| byte.index), Some(0));
}

#[test]
fn other_forms_are_refused() {
    for text in [
        "mbarrier.arrive.b64 %rd2, [%out];",
        "mbarrier.arrive.noComplete.shared.b64 %rd2, [%rd1], 1;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 %rd2, [%rd1];",
        "mbarrier.test_wait.parity.shared::cluster.b64 %p1, [%rd1], 0;",
        "mbarrier.test_wait.parity.shared.b64 %p1, [%rd1];",
        "mbarrier.pending_count.b64 %r1, %rd1;",
    ] {
        let module = PtxModule::parse(&module(TILE, text)).unwrap();
        assert_eq!(module.unsupported().len(), 1, "{text}");
    }
}
