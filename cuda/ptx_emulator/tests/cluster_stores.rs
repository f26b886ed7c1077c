//! `st.async`, bulk copies and arrivals from block to block: when they come, and what is refused. Values:
//! `cluster_kernels.rs`.

use crate::common::{fault, module, run_and_ask};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, PtxModule};

const TILE: &str = ".shared .align 16 .b8 tile[64]; .shared .align 8 .b8 ready[16];";
const SYNC: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
const STORE: &str = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";
const COPY: &str = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes";
const WAIT: &str = "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%rd2], 0; @!%p1 bra W;";

/// Two blocks, with a tile at `%rd1`, a barrier for one arrival at `%rd2`, and the like of the other block at `%rd3` and
/// `%rd4`.
fn text_of(body: &str) -> String {
    let start = format!(
        "mov.u64 %rd1, tile; mov.u64 %rd2, ready; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
        setp.eq.u32 %p2, %r1, 0; mapa.shared::cluster.u64 %rd3, %rd1, %r2;
        mapa.shared::cluster.u64 %rd4, %rd2, %r2; st.shared.b32 [%rd1], 7; st.shared.b32 [%rd1+32], 8;
        mbarrier.init.shared.b64 [%rd2], 1; fence.mbarrier_init.release.cluster; {SYNC}"
    );
    module(TILE, &format!("{start} {body}")).replace("sm_75", "sm_90")
}

fn config() -> LaunchConfig {
    LaunchConfig::new(2, 1).with_cluster(2)
}

fn undefined_at(body: &str) -> Option<usize> {
    run_and_ask(&text_of(body), config(), &mut [5u32; 16]).unwrap().map(|byte| byte.index)
}

fn cause_of(body: &str) -> Cause {
    fault(&text_of(body), config(), &mut [5u32; 16]).0
}

#[test]
fn a_target_is_undefined_until_the_phase_is_waited_for() {
    let start = format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 8; mov.b64 %rd5, 9; {STORE}.b64 [%rd3], %rd5, [%rd4]; {SYNC}"
    );
    let read = "ld.shared.b32 %r3, [%rd1]; st.global.b32 [%out], %r3;";
    for (before, after, is_undefined) in [(WAIT, "", false), ("", WAIT, true)] {
        let found = undefined_at(&format!("{start} {before} {read} {after} {SYNC}"));
        assert_eq!(found, is_undefined.then_some(0));
    }
}

#[test]
fn an_arrival_of_the_other_block_ends_a_phase() {
    let arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd4];";
    assert_eq!(undefined_at(&format!("@%p2 bra W; {arrive} bra E; {WAIT} E: {SYNC}")), None);
    let own = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd2];";
    assert_eq!(undefined_at(&format!("{own} {WAIT} {SYNC}")), None);
    let narrow = "cvt.u32.u64 %r4, %rd2; mapa.shared::cluster.u32 %r5, %r4, %r2;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];";
    assert_eq!(undefined_at(&format!("{narrow} {WAIT} {SYNC}")), None);
    let beyond = narrow.replace("[%r5]", "[%r5+16]");
    let Cause::OutOfBounds { .. } = cause_of(&format!("{beyond} {SYNC}")) else { panic!() };
    let Cause::Phase { arrivals: 1, .. } = cause_of(&format!("@!%p2 {arrive} {WAIT} {SYNC}")) else {
        panic!()
    };
    let Cause::Cluster(reason) = cause_of(&format!("@%p2 exit; nanosleep.u32 1; {arrive}")) else { panic!() };
    assert!(reason.contains("block 0 of the cluster, which has exited"), "{reason}");
}

#[test]
fn a_block_that_ends_too_early() {
    let expected = "was on its way when a block ended that it reads or writes";
    let copy = format!("{COPY} [%rd3+16], [%rd1+32], 16, [%rd4];");
    for body in [
        format!("mov.b32 %r3, 1; {STORE}.b32 [%rd3], %r3, [%rd4]; {SYNC}"),
        format!("fence.proxy.async; {copy} {SYNC}"),
        // The block that it reads.
        format!("fence.proxy.async; @!%p2 bra W; {copy} exit; {WAIT}"),
    ] {
        let Cause::InFlight(reason) = cause_of(&body) else { panic!("{body}") };
        assert!(reason.ends_with(expected), "{reason}");
    }
}

#[test]
fn addresses_and_fences_are_checked() {
    let store = |operands: &str| {
        cause_of(&format!("mov.b32 %r3, 1; mov.b64 %rd5, 0x7fff00000000; {STORE}.v4.b32 {operands};"))
    };
    let values = "{%r3, %r3, %r3, %r3}";
    assert!(matches!(store(&format!("[%rd3+8], {values}, [%rd4]")), Cause::Misaligned { bytes: 16, .. }));
    assert!(matches!(store(&format!("[%rd3+64], {values}, [%rd4]")), Cause::OutOfBounds { .. }));
    assert!(matches!(store(&format!("[%rd5], {values}, [%rd4]")), Cause::OutOfBounds { .. }));
    let Cause::Unsupported(none) = store(&format!("[%rd3], {values}, [%rd4+8]")) else { panic!() };
    assert!(none.contains("no barrier was initialised here"), "{none}");
    let Cause::Cluster(apart) = store(&format!("[%rd3], {values}, [%rd2]")) else { panic!() };
    assert!(apart.contains("at a barrier of another block than its target's"), "{apart}");
    let copy = format!("{COPY} [%rd3+16], [%rd1+32], 16, [%rd4];");
    let Cause::InFlight(unfenced) = cause_of(&copy) else { panic!() };
    assert!(unfenced.contains("with no fence.proxy.async since"), "{unfenced}");
    let Cause::Cluster(beyond) = cause_of("mapa.shared::cluster.u64 %rd5, %rd1, 2;") else { panic!() };
    assert_eq!(beyond, "block 2 of a cluster of 2");
}

/// A GPU traps at `st.async` in a launch without clusters, to the block itself too. What else reaches the block itself works.
#[test]
fn a_store_without_a_cluster_is_refused() {
    let own =
        text_of("mapa.shared::cluster.u64 %rd3, %rd1, %r1; mapa.shared::cluster.u64 %rd4, %rd2, %r1; BODY")
            .replace("xor.b32 %r2, %r1, 1;", "mov.u32 %r2, %r1;");
    let launch = LaunchConfig::new(2, 1);
    let others = format!(
        "cvta.shared.u64 %rd5, %rd1; mapa.u64 %rd5, %rd5, %r1; st.b32 [%rd5], 3; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd4]; {WAIT} {SYNC}"
    );
    run_and_ask(&own.replace("BODY", &others), launch, &mut [5u32; 16]).unwrap();
    let store =
        format!("mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 4; {STORE}.b32 [%rd3], %r1, [%rd4];");
    let (cause, text) = fault(&own.replace("BODY", &format!("{store} {WAIT}")), launch, &mut [5u32; 16]);
    assert!(matches!(cause, Cause::Cluster(_)), "{cause}");
    let expected = "st.async in a launch without clusters, at which GPUs trap; launch clusters of at least 2 blocks, or \
        write to the block's own memory";
    assert!(text.starts_with("kernel k, block [0, 0, 0]") && text.contains(expected), "{text}");
}

#[test]
fn other_forms_are_refused() {
    for text in [
        "st.async.weak.shared::cta.mbarrier::complete_tx::bytes.b32 [%rd3], %r1, [%rd4];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b16 [%rd3], %rs1, [%rd4];",
        "st.async.shared::cluster.b32 [%rd3], %r1, [%rd4];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%rd3], {%rd1, %rd1, %rd1, %rd1}, [%rd4];",
        "cp.async.bulk.shared::cta.shared::cluster.mbarrier::complete_tx::bytes [%rd1], [%rd3], 16, [%rd2];",
        "fence.mbarrier_init.release.gpu;",
        "mapa.shared::cta.u64 %rd3, %rd1, %r1;",
        "mapa.u32 %r3, %r2, %r1;",
    ] {
        let module = PtxModule::parse(&module(TILE, text)).unwrap();
        assert_eq!(module.unsupported().len(), 1, "{text}");
    }
}
