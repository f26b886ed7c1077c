//! `cp.async.bulk`: what is undefined until the wait, and what is refused. Values: `compat-kernels/tests/bulk.rs`.

use crate::common::{fault, module, run_and_ask};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, PtxModule};

const TILE: &str = ".shared .align 16 .b8 tile[64]; .shared .align 8 .b8 ready[16];";
const COPY: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
const WAIT: &str = "W: mbarrier.try_wait.parity.shared.b64 %p1, [%rd2], 0; @!%p1 bra W;";

/// Numbers of 32 bits, the first at a multiple of 16 bytes.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Aligned(#[allow(dead_code, reason = "kernels read it")] [u32; 16]);

fn text_of(body: &str) -> String {
    let start = "mov.u64 %rd1, tile; mov.u64 %rd2, ready; st.shared.b32 [%rd1], 1; \
        mbarrier.init.shared.b64 [%rd2], 1; fence.mbarrier_init.release.cluster;";
    module(TILE, &format!("{start} {body}")).replace("sm_75", "sm_90")
}

fn undefined_at(body: &str) -> Option<usize> {
    let found = run_and_ask(&text_of(body), LaunchConfig::new(1, 1), &mut [Aligned([5; 16])]);
    found.unwrap().map(|byte| byte.index)
}

fn cause_of(body: &str) -> Cause {
    fault(&text_of(body), LaunchConfig::new(1, 1), &mut [Aligned([5; 16])]).0
}

#[test]
fn a_target_is_undefined_until_the_phase_is_waited_for() {
    let copy = format!("{COPY} [%rd1], [%out+32], 32, [%rd2];");
    let expect = "mbarrier.arrive.expect_tx.shared.b64 %rd3, [%rd2], 32;";
    let read = "ld.shared.b32 %r1, [%rd1]; st.global.b32 [%out], %r1;";
    let look = "mbarrier.test_wait.parity.shared.b64 %p1, [%rd2], 0;";
    for (before, after, is_undefined) in [
        (expect, "", true),
        (expect, look, true),
        (expect, &format!("{look}{look}"), false),
        ("", &format!("{look}{look}{expect}{look}"), true),
        (&format!("{expect}{look}{look}"), look, true),
        (expect, WAIT, false),
    ] {
        let found = undefined_at(&format!("{before}{copy}{after}{read}{}", WAIT.replace('W', "V")));
        assert_eq!(found, is_undefined.then_some(0), "{before} {after}");
    }
    // Undefined bits of the source arrive as such.
    let undefined = format!(
        "st.global.b16 [%out+34], %rs1; {expect} {copy} {WAIT} ld.shared.b32 %r1, [%rd1]; st.global.b16 [%out+34], 0;
        st.global.b32 [%out], %r1;"
    );
    assert_eq!(undefined_at(&undefined), Some(2));
}

#[test]
fn what_a_copy_asks_for_is_checked_when_it_starts() {
    let cause = |operands: &str| {
        cause_of(&format!("mov.b32 %r1, 24; mov.b32 %r2, 0; mov.b64 %rd3, 64; {COPY} {operands};"))
    };
    let misaligned = |operands: &str| matches!(cause(operands), Cause::Misaligned { bytes: 16, .. });
    assert!(misaligned("[%rd1+8], [%out], 16, [%rd2]") && misaligned("[%rd1], [%out+8], 16, [%rd2]"));
    let outside = |operands: &str| matches!(cause(operands), Cause::OutOfBounds { .. });
    assert!(outside("[%rd1+48], [%out], 32, [%rd2]") && outside("[%rd1], [%out+48], 32, [%rd2]"));
    assert!(outside("[%out], [%out], 16, [%rd2]") && outside("[%rd1], [%rd3], 16, [%rd2]"));
    for (operands, reason) in [
        ("[%rd1], [%out], %r1, [%rd2]", "a bulk copy of 24 bytes"),
        ("[%rd1], [%out], %r2, [%rd2]", "a bulk copy of 0 bytes"),
        ("[%rd1], [%out], 16, [%rd2+8]", "no barrier was initialised here"),
    ] {
        let Cause::Unsupported(text) = cause(operands) else { panic!("{operands}") };
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_barrier_is_fenced_before_copies_count_there() {
    let copy = format!("{COPY} [%rd1], [%out], 16, [%rd2+8];");
    let init = "mbarrier.init.shared.b64 [%rd2+8], 1;";
    let Cause::Unsupported(reason) = cause_of(&format!("{init} {copy}")) else { panic!() };
    assert_eq!(reason, "mbarrier: a bulk copy counts at a barrier with no fence since its init");
    for fence in ["fence.proxy.async.shared::cta;", "fence.mbarrier_init.release.cluster;"] {
        assert!(matches!(cause_of(&format!("{init} {fence} {copy}")), Cause::InFlight(_)), "{fence}");
    }
}

#[test]
fn a_copy_on_its_way_when_the_block_ends() {
    for body in [
        format!("{COPY} [%rd1], [%out], 16, [%rd2];"),
        format!("mbarrier.arrive.shared.b64 %rd3, [%rd2]; {COPY} [%rd1], [%out], 16, [%rd2]; {WAIT}"),
    ] {
        let Cause::InFlight(reason) = cause_of(&body) else { panic!("{body}") };
        assert!(reason.starts_with("the copy of 16 bytes of PTX line"), "{reason}");
        assert!(reason.ends_with("was on its way when a block ended that it reads or writes"), "{reason}");
    }
}

const STORE: &str = "cp.async.bulk.global.shared::cta.bulk_group";

#[test]
fn a_source_stays_as_it_is_until_it_was_read() {
    let start =
        format!("fence.proxy.async.shared::cta; {STORE} [%out+32], [%rd1], 32; cp.async.bulk.commit_group;");
    let write = "st.shared.b32 [%rd1+16], 7;";
    for (wait, is_early) in [
        ("", true),
        ("cp.async.bulk.wait_group.read 1;", true),
        ("cp.async.bulk.wait_group.read 0;", false),
        ("cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;", false),
    ] {
        let text = text_of(&format!("{start} {wait} {write} cp.async.bulk.wait_group 0;"));
        let mut out = [Aligned([5; 16])];
        let found = run_and_ask(&text, LaunchConfig::new(1, 1), &mut out);
        if is_early {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("the source of the copy of PTX line"), "{error}");
        } else {
            // Of the source one number was written.
            assert_eq!((out[0].0[8], found.unwrap().map(|byte| byte.index)), (1, Some(36)), "{wait}");
        }
    }
}

#[test]
fn what_is_written_comes_with_the_wait_or_the_end() {
    let start =
        format!("fence.proxy.async.shared::cta; {STORE} [%out+32], [%rd1], 16; cp.async.bulk.commit_group;");
    let read = "ld.global.b32 %r1, [%out+32]; st.global.b32 [%out], %r1;";
    for (wait, is_undefined) in [
        ("cp.async.bulk.wait_group.read 0;", true),
        ("cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;", false),
        ("cp.async.bulk.wait_group 0;", false),
    ] {
        let mut out = [Aligned([5; 16])];
        let text = text_of(&format!("{start} {wait} {read}"));
        let found = run_and_ask(&text, LaunchConfig::new(1, 1), &mut out).unwrap();
        assert_eq!(found.map(|byte| byte.index), Some(if is_undefined { 0 } else { 36 }), "{wait}");
        assert_eq!(out[0].0[8], 1);
    }
    for end in ["", "exit;", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"] {
        let body = format!("fence.proxy.async; {STORE} [%out+32], [%rd1], 16; {end}");
        let Cause::InFlight(reason) = cause_of(&body) else { panic!("{end}") };
        assert!(reason.contains("of 16 bytes") && reason.ends_with("when its thread ended"), "{reason}");
    }
}

#[test]
fn what_threads_wrote_is_fenced() {
    let store =
        format!("{STORE} [%out+32], [%rd1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
    let copy = format!(
        "mbarrier.arrive.expect_tx.shared.b64 %rd3, [%rd2], 16; {COPY} [%rd1], [%out], 16, [%rd2]; {WAIT}"
    );
    let fence = "fence.proxy.async.shared::cta;";
    let written = "st.shared.b32 [%rd1+12], 7;";
    for (before, is_fenced) in [
        (String::new(), false),
        ("fence.proxy.async.global;".to_owned(), false),
        (fence.to_owned(), true),
        (format!("{fence} {written}"), false),
        (format!("{fence} st.shared.b32 [%rd1+16], 7;"), true),
        (copy.clone(), true),
        (format!("{copy} {written}"), false),
    ] {
        let found = run_and_ask(
            &text_of(&format!("{before} {store}")),
            LaunchConfig::new(1, 1),
            &mut [Aligned([5; 16])],
        );
        assert_eq!(found.is_ok(), is_fenced, "{before}");
        if let Err(error) = found {
            assert!(error.to_string().contains("with no fence.proxy.async since"), "{error}");
        }
    }
}

#[test]
fn other_forms_are_refused() {
    for text in [
        "cp.async.bulk.global.shared::cta [%out], [%rd1], 16, [%rd2];",
        "cp.async.bulk.shared::cta.global.bulk_group [%rd1], [%out], 16;",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%out], [%rd1], 16, %rs1;",
        "cp.async.bulk.wait_group;",
        "fence.proxy.alias;",
        "cp.async.bulk.shared::cluster.global [%rd1], [%out], 16, [%rd2];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%rd1], [%out], 16, [%rd2], %rs1;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1], [%out], 16;",
        "cp.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1], [%out], 16, [%rd2];",
    ] {
        let module = PtxModule::parse(&module(TILE, text)).unwrap();
        assert_eq!(module.unsupported().len(), 1, "{text}");
    }
}
