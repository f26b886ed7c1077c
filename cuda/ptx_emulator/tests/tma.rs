//! Tensor copies: which bytes go where, what is undefined until the wait, and what is refused. With `wgmma`:
//! `wgmma_matmul.rs`.

use crate::common::tensor_copy::{LOAD, Line, Problem, WAIT, keep, text_of};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{Counter, Counts};
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule, Turns};

#[test]
fn boxes_of_every_rank_and_swizzle() {
    for row in [0, 32, 64, 128] {
        let tile = [if row == 0 { 24 } else { row as u32 / 2 }, 5, 3, 2, 2];
        let sizes = [100, 9, 7, 5, 4];
        for rank in 1..=5 {
            let new = || Problem::new(2, &sizes[..rank], &tile[..rank], row);
            // In the middle; over the lower edges; over the upper ones; beyond.
            for at in
                [[8, 2, 1, 0, 1], [-8, -2, -1, -1, 0], [96, 7, 6, 4, 3], [104, 0, 0, 0, 0], [-64, 9, 0, 0, 0]]
            {
                new().check_load(&at[..rank]);
                new().check_store(&at[..rank]);
            }
        }
    }
}

#[test]
fn elements_of_every_size() {
    for element in [1, 2, 4, 8] {
        let row = 64 / element as u32;
        let new = || Problem::new(element, &[37, 6], &[row, 4], 64);
        for at in [[-16 / element as i64, 1], [32, 3]] {
            new().check_load(&at);
            new().check_store(&at);
        }
    }
}

#[test]
fn a_map_may_round_to_tf32() {
    let half = f32::EPSILON * 4096.0;
    let numbers = [1.0 + half, -1.0 - 3.0 * half, 2.0f32.next_down(), f32::INFINITY];
    let mut problem = Problem::new(4, &[4, 1], &[4, 1], 0);
    problem.map.is_rounded = true;
    problem.tensor[0].0[..16].copy_from_slice(numbers.map(f32::to_le_bytes).as_flattened());
    let load = format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 16; {LOAD} [%rd1], [%rd3, {{0, 0}}], [%rd2]; {WAIT} {}",
        keep(16)
    );
    problem.run(&text_of(&load)).unwrap();
    let expected = [1.0, -1.0 - 4.0 * half, 2.0, f32::INFINITY];
    assert_eq!(problem.out[0].0[..16], *expected.map(f32::to_le_bytes).as_flattened());
    let Cause::TensorCopy(reason) =
        problem.cause("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {0, 0}], [%rd1];")
    else {
        panic!()
    };
    assert!(reason.contains("only for reading"), "{reason}");
}

fn small() -> Problem {
    Problem::new(4, &[32, 8], &[16, 4], 0)
}

#[test]
fn a_target_is_undefined_until_the_phase_is_waited_for() {
    let load = format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 256; {LOAD} [%rd1], [%rd3, {{0, 0}}], [%rd2];"
    );
    let read = "ld.shared.b32 %r1, [%rd1+4]; st.global.b32 [%out], %r1;";
    for (before, after, is_undefined) in [(WAIT, "", false), ("", WAIT, true)] {
        let found = small().run(&text_of(&format!("{load} {before} {read} {after}"))).unwrap();
        assert_eq!(found.map(|byte| byte.index), is_undefined.then_some(0));
    }
    let Cause::InFlight(reason) = small().cause(&load) else { panic!() };
    assert!(reason.starts_with("the copy of 256 bytes of PTX line"), "{reason}");
}

#[test]
fn two_copies_to_one_place() {
    let body = |second: &str| {
        format!(
            "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 512; {LOAD} [%rd1], [%rd3, {{0, 0}}], [%rd2];
            {LOAD} [%rd1+{second}], [%rd3, {{0, 0}}], [%rd2]; {WAIT}"
        )
    };
    assert!(small().run(&text_of(&body("256"))).is_ok());
    let Cause::InFlight(reason) = small().cause(&body("128")) else { panic!() };
    assert!(reason.starts_with("a copy into shared memory that the copy of PTX line"), "{reason}");
}

#[test]
fn a_store_is_there_after_the_wait() {
    let store = "fence.proxy.async.shared::cta; cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {4, 2}], [%rd1];
        cp.async.bulk.commit_group;";
    let read = |at: u64| format!("mov.u64 %rd4, {at}; ld.global.b32 %r1, [%rd4]; st.global.b32 [%out], %r1;");
    let fill =
        "mov.b32 %r1, 0; FILL: cvt.u64.u32 %rd5, %r1; add.u64 %rd5, %rd1, %rd5; st.shared.b32 [%rd5], %r1;
        add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, 256; @%p1 bra FILL;";
    let wait = "cp.async.bulk.wait_group 0;";
    for (before, after, is_undefined) in [(wait, "", false), ("cp.async.bulk.wait_group.read 0;", wait, true)]
    {
        let mut problem = small();
        // Element 2 of the second row.
        let at = problem.map.address + 3 * problem.map.strides[0] + 4 * 6;
        let found = problem.run(&text_of(&format!("{fill} {store} {before} {} {after}", read(at)))).unwrap();
        assert_eq!(found.map(|byte| byte.index), is_undefined.then_some(0));
        assert!(is_undefined || problem.out[0].0[..4] == 72u32.to_le_bytes());
    }
    let early = format!("{fill} {store} st.shared.b32 [%rd1+8], 1; {wait}");
    let Cause::InFlight(reason) = small().cause(&early) else { panic!() };
    assert!(reason.contains("has changed before the wait"), "{reason}");
    let Cause::InFlight(reason) =
        small().cause(&format!("{fill} {}", store.replace("fence.proxy.async.shared::cta;", "")))
    else {
        panic!()
    };
    assert!(reason.contains("with no fence.proxy.async since"), "{reason}");
}

#[test]
fn maps_and_addresses_are_checked() {
    let load = |operands: &str| format!("mov.u64 %rd4, {}; {LOAD} {operands};", 0);
    let reason = |problem: &mut Problem, body: &str| match problem.cause(body) {
        Cause::TensorCopy(reason) => reason,
        cause => panic!("{cause}"),
    };
    let of = |operands: &str| reason(&mut small(), &load(operands));
    assert!(of("[%rd1+64], [%rd3, {0, 0}], [%rd2]").contains("is not aligned to 128 bytes, as None needs"));
    let mut swizzled = Problem::new(4, &[32, 8], &[32, 4], 128);
    let body = load("[%rd1+512], [%rd3, {0, 0}], [%rd2]");
    assert!(reason(&mut swizzled, &body).contains("is not aligned to 1024 bytes, as Bytes128 needs"));
    let odd = "the innermost coordinate 2 of elements of 4 bytes is not a multiple of 16 bytes";
    assert_eq!(of("[%rd1], [%rd3, {2, 0}], [%rd2]"), odd);
    let other = "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd3, {0}];";
    assert_eq!(reason(&mut small(), other), "an instruction of 1 dimensions and a tensor map of 2");
    assert!(reason(&mut small(), "prefetch.tensormap [%out];").contains("there is no tensor map at"));
    let shared = "cvta.shared.u64 %rd4, %rd1; prefetch.tensormap [%rd4];";
    assert!(reason(&mut small(), shared).contains("is not in global, constant or parameter memory"));
    let Cause::Misaligned { bytes: 64, .. } = small().cause("prefetch.tensormap [%rd3+8];") else { panic!() };
    let Cause::OutOfBounds { .. } = small().cause(&load("[%rd1+8064], [%rd3, {0, 0}], [%rd2]")) else {
        panic!()
    };
    let Cause::Unsupported(none) = small().cause(&load("[%rd1], [%rd3, {0, 0}], [%rd2+8]")) else { panic!() };
    assert!(none.contains("no barrier was initialised here"), "{none}");
    // A tensor that is larger than what was lent.
    let mut large = small();
    large.map.sizes[1] = 800;
    let Cause::OutOfBounds { .. } = large.cause(&load("[%rd1], [%rd3, {0, 700}], [%rd2]")) else { panic!() };
    assert!(
        small()
            .run(&text_of(
                "prefetch.tensormap [%rd3]; cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd3, {0, 0}];"
            ))
            .is_ok()
    );
    let Cause::ReadOnly { .. } = small().cause("st.b32 [%rd3], 0;") else { panic!() };
}

#[test]
fn a_map_in_global_memory() {
    let mut problem = small();
    let map = problem.map.encode();
    problem.out[63] = Line(map);
    let body = format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 256; mov.b64 %rd8, 0;
        {LOAD}.L2::cache_hint [%rd1], [%out+8064, {{16, 4}}], [%rd2], %rd8; {WAIT} ld.shared.b32 %r1, [%rd1];
        st.global.b32 [%out], %r1;"
    );
    assert_eq!(problem.run(&text_of(&body)).unwrap(), None);
    let from = (4 * problem.map.strides[0] + 64) as usize;
    assert_eq!(problem.out[0].0[..4], problem.tensor[from / 128].0[from % 128..][..4]);
}

/// Block 0 of two loads a box for those of the mask; each block keeps what it has.
fn multicast(mask: u32, bytes: [u32; 2]) -> String {
    let load = LOAD.replace("::bytes", "::bytes.multicast::cluster");
    text_of(&format!(
        "mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p5, %r5, 0; selp.b32 %r6, {}, {}, %p5;
        setp.eq.u32 %p6, %r6, 0;
        @!%p6 mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], %r6;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mov.b16 %rs1, {mask}; @%p5 {load} [%rd1], [%rd3, {{4, 1}}], [%rd2], %rs1;
        @%p6 bra END; {WAIT}
        ld.shared.b32 %r1, [%rd1+4]; mul.wide.u32 %rd4, %r5, 4; add.u64 %rd4, %out, %rd4; st.global.b32 [%rd4], %r1;
        END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        bytes[0], bytes[1]
    ))
}

#[test]
fn a_box_for_several_blocks() {
    let config = LaunchConfig::new(2, 1).with_cluster(2);
    for turns in [Turns::Ascending, Turns::Descending] {
        for (mask, bytes) in [(3, [256, 256]), (2, [0, 256]), (1, [256, 0])] {
            let mut problem = small();
            let module = PtxModule::parse(&multicast(mask, bytes)).unwrap();
            let emulator = Emulator::new(module).with_turns(turns).with_max_steps(1_000_000);
            assert_eq!(problem.run_on(emulator, config).unwrap(), None);
            let from = (problem.map.strides[0] + 4 * 5) as usize;
            let number = &problem.tensor[from / 128].0[from % 128..][..4];
            for block in 0..2 {
                let got = &problem.out[0].0[4 * block..][..4];
                assert_eq!(
                    got,
                    if mask >> block & 1 == 1 { number } else { &[0xee; 4] },
                    "{mask}, block {block}"
                );
            }
        }
    }
    for mask in [0, 4, 7] {
        let emulator = Emulator::new(PtxModule::parse(&multicast(mask, [256, 256])).unwrap());
        let error = small().run_on(emulator, config).unwrap_err().to_string();
        assert!(error.contains("of a multicast in a cluster of 2 blocks"), "{error}");
    }
    // A block that gets no box waits for ever.
    let emulator = Emulator::new(PtxModule::parse(&multicast(1, [256, 256])).unwrap());
    let Err(EmulatorError::Fault(fault)) = small().run_on(emulator, config) else { panic!() };
    assert_eq!((fault.cause.clone(), fault.block), (Cause::Phase { arrivals: 0, bytes: 256 }, [1, 0, 0]));
}

#[test]
fn bytes_within_the_tensor_count() {
    // 12 columns and 3 rows of the box are within.
    let mut problem = Problem::new(4, &[12, 3], &[16, 4], 0);
    let body = format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%rd2], 256; {LOAD} [%rd1], [%rd3, {{0, 0}}], [%rd2]; {WAIT}
        fence.proxy.async; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {{8, 0}}], [%rd1];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    );
    let counter = Counter::new();
    let emulator = Emulator::new(PtxModule::parse(&text_of(&body)).unwrap()).with_counter(&counter);
    problem.run_on(emulator, LaunchConfig::new(1, 1)).unwrap();
    let counts = counter.take();
    let total: Counts = counts.iter().map(|counts| counts.total).sum();
    assert_eq!((total.bulk.loads, total.bulk.loaded_bytes), (1, 3 * 48));
    assert_eq!((total.bulk.stores, total.bulk.stored_bytes), (1, 3 * 16));
    // Rows of 48 bytes, 64 bytes apart; 16 bytes of each are stored.
    assert_eq!((counts[0].footprint.loaded, counts[0].footprint.stored), (6, 3));
}

#[test]
fn other_forms_are_refused() {
    let one = |text: &str| PtxModule::parse(&text_of(text)).unwrap().unsupported().len();
    let good = format!("{LOAD} [%rd1], [%rd3, {{0, 0}}], [%rd2];");
    assert_eq!(one(&good), 0);
    for (from, to) in [
        (".2d", ".3d"),
        (".2d", ".6d"),
        (".tile", ".im2col"),
        (".tile", ".tile::gather4"),
        ("::bytes", "::bytes.multicast::cluster"),
        ("::bytes", "::bytes.L2::cache_hint"),
        (".mbarrier::complete_tx::bytes", ""),
        ("shared::cluster", "shared"),
        ("[%rd3, {0, 0}]", "[%rd3]"),
    ] {
        assert_eq!(one(&good.replace(from, to)), 1, "{to}");
    }
    for text in [
        "cp.async.bulk.tensor.2d.global.shared::cta.tile [%rd3, {0, 0}], [%rd1];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd3, {0, 0}], [%rd1];",
        "prefetch.global.tensormap [%rd3];",
        "cp.async.bulk.prefetch.tensor.2d.global [%rd3, {0, 0}];",
    ] {
        assert_eq!(one(text), 1, "{text}");
    }
}

#[test]
fn parameters_of_16_bytes() {
    let text = ".version 8.6\n.target sm_90\n.address_size 64
        .visible .entry k(.param .b128 pair, .param .u64 out) {
            .reg .b64 %rd<9>; ld.param.v2.b64 {%rd1, %rd2}, [pair]; ld.param.u64 %rd3, [out];
            st.global.v2.b64 [%rd3], {%rd2, %rd1}; ret;
        }";
    #[repr(align(16))]
    #[derive(Clone, Copy)]
    struct Pair([u64; 2]);
    let mut out = [Pair([0; 2])];
    let mut emulator = Emulator::new(PtxModule::parse(text).unwrap());
    let address = (out.as_mut_ptr().expose_provenance() as u64).to_le_bytes();
    // SAFETY: the results outlive the launch, and no other code uses them.
    unsafe {
        emulator.lend(&mut out);
        let pair = (7u128 | 9 << 64).to_le_bytes();
        emulator.launch("k", LaunchConfig::new(1, 1), &[&pair, &address]).unwrap();
    }
    assert_eq!(out[0].0, [9, 7]);
}
