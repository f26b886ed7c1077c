//! What requests to memory touch: each figure follows from the addresses, by hand.

use crate::common::{counts, counts_of_warp, module};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::counts::{
    Bulk, Constant, GlobalRequests, InstructionCounts, Requests, SharedRequests,
};
use cuda_std::testing::{Counts, LaunchCounts};
use ptx_emulator::{Emulator, PtxModule};

/// `%rd1` is `out` and `stride` bytes a lane more, and `offset`.
fn at(stride: u32, offset: u32) -> String {
    format!("mov.u32 %r1, %laneid; mad.wide.u32 %rd1, %r1, {stride}, %out; add.u64 %rd1, %rd1, {offset};")
}

/// What a warp's request is whose lanes are so far apart.
fn load(instruction: &str, stride: u32, offset: u32) -> GlobalRequests {
    counts_of_warp("", &format!("{} {instruction}", at(stride, offset))).global.loads
}

fn global(sectors: u64, lines: u64, ideal_sectors: u64, bytes: u64) -> GlobalRequests {
    GlobalRequests { requests: 1, sectors, lines, ideal_sectors, bytes }
}

#[test]
fn global_loads() {
    let of = |stride, offset| load("ld.global.f32 %r2, [%rd1];", stride, offset);
    // 32 lanes by 4 bytes are 128 bytes: 4 sectors of a line.
    assert_eq!(of(4, 0), global(4, 1, 4, 128));
    // From byte 4 on they reach into a fifth, of the next line.
    assert_eq!(of(4, 4), global(5, 2, 4, 128));
    // From byte 32 on they are 4, three of one line and one of the next.
    assert_eq!(of(4, 32), global(4, 2, 4, 128));
    // Every other word of 256 bytes, every fourth of 512.
    assert_eq!(of(8, 0), global(8, 2, 4, 128));
    assert_eq!(of(16, 0), global(16, 4, 4, 128));
    // Each in a sector of its own, four of them in a line; each in a line.
    assert_eq!(of(32, 0), global(32, 8, 4, 128));
    assert_eq!(of(128, 0), global(32, 32, 4, 128));
    // All the same word.
    assert_eq!(of(0, 0), global(1, 1, 1, 128));
    assert_eq!(load("ld.global.v4.f32 {%r2, %r3, %r4, %r5}, [%rd1];", 16, 0), global(16, 4, 16, 512));
    assert_eq!(load("ld.global.v2.f32 {%r2, %r3}, [%rd1];", 8, 0), global(8, 2, 8, 256));
    assert_eq!(load("ld.global.u8 %r2, [%rd1];", 1, 0), global(1, 1, 1, 32));
    assert_eq!(load("ld.global.u16 %rs2, [%rd1];", 2, 0), global(2, 1, 2, 64));
    // By generic addresses, and as memory that nobody writes.
    assert_eq!(load("ld.f32 %r2, [%rd1];", 4, 0), global(4, 1, 4, 128));
    assert_eq!(load("ld.global.nc.f32 %r2, [%rd1];", 4, 0), global(4, 1, 4, 128));
}

#[test]
fn global_stores_and_atomics() {
    let all = |body: &str| counts_of_warp("", &format!("{} {body}", at(4, 0))).global;
    let of = all("st.global.f32 [%rd1], 0f3F800000;");
    assert_eq!((of.stores, of.loads), (global(4, 1, 4, 128), GlobalRequests::default()));
    // One address for all lanes.
    let of = all("red.global.add.u32 [%out], 1;");
    assert_eq!((of.atomics, of.total()), (global(1, 1, 1, 128), global(1, 1, 1, 128)));
    assert_eq!(all("atom.global.add.u32 %r2, [%rd1], 1;").atomics, global(4, 1, 4, 128));
}

#[test]
fn lanes_that_do_not_load_count_nothing() {
    let body = format!("{} setp.lt.u32 %p1, %r1, 8; @%p1 ld.global.f32 %r2, [%rd1];", at(4, 0));
    let of = counts_of_warp("", &body);
    assert_eq!(of.global.loads, global(1, 1, 1, 32));
    // A warp of 16 threads, and one none of whose lanes loads.
    let half = counts("", &format!("{} ld.global.f32 %r2, [%rd1];", at(4, 0)), LaunchConfig::new(1, 16));
    assert_eq!(half.total.global.loads, global(2, 1, 2, 64));
    let none = format!("{} setp.gt.u32 %p1, %r1, 31; @%p1 ld.global.f32 %r2, [%rd1];", at(4, 0));
    assert_eq!(counts_of_warp("", &none).global.loads, GlobalRequests::default());
}

const TILE: &str = ".shared .align 16 .b8 tile[4096]; .shared .align 8 .b8 other[256];";

/// A request to shared memory whose lanes are `stride` bytes apart.
fn shared(instruction: &str, stride: u32) -> Counts {
    let base = "mov.u32 %r1, %laneid; mov.u64 %rd2, tile;";
    counts_of_warp(TILE, &format!("{base} mad.wide.u32 %rd1, %r1, {stride}, %rd2; {instruction}"))
}

fn banked(wavefronts: u64, ideal_wavefronts: u64, bytes: u64) -> SharedRequests {
    SharedRequests { requests: 1, wavefronts, ideal_wavefronts, bytes }
}

#[test]
fn shared_loads() {
    let of = |stride| {
        let of = shared("ld.shared.f32 %r2, [%rd1];", stride).shared.loads;
        assert_eq!((of.requests, of.ideal_wavefronts, of.bytes), (1, 1, 128));
        of.conflicts()
    };
    // A stride of n words leaves 32 / gcd(n, 32) banks for 32 words.
    assert_eq!([4, 8, 16, 128, 132, 12].map(of), [0, 1, 3, 31, 0, 0]);
    // One word for all lanes, and one for each four of them.
    assert_eq!(of(0), 0);
    assert_eq!(shared("ld.shared.u8 %r2, [%rd1];", 1).shared.loads, banked(1, 1, 32));
    // Quarters of a warp have 32 words each.
    let wide = |stride| shared("ld.shared.v4.f32 {%r2, %r3, %r4, %r5}, [%rd1];", stride).shared.loads;
    assert_eq!(wide(16), banked(4, 4, 512));
    // Every other 16 bytes: of eight lanes two have the same banks.
    assert_eq!(wide(32), banked(8, 4, 512));
    assert_eq!(wide(0), banked(4, 4, 512));
    // A row of 128 bytes for each lane: the 32 passes and 28 conflicts that Nsight Compute reports for `LDS.128`.
    assert_eq!((wide(128), wide(128).conflicts()), (banked(32, 4, 512), 28));
    // Halves of a warp have 32 words each; every other 8 bytes, two lanes of a half have the same banks.
    let double = |stride| shared("ld.shared.v2.f32 {%r2, %r3}, [%rd1];", stride).shared.loads;
    assert_eq!((double(8), double(16)), (banked(2, 2, 256), banked(4, 2, 256)));
    // Two lanes have the halves of a word.
    assert_eq!(shared("ld.shared.u16 %rs1, [%rd1];", 2).shared.loads, banked(1, 1, 64));
    assert_eq!(shared("ld.shared.u16 %rs1, [%rd1];", 64).shared.loads, banked(16, 1, 64));
}

#[test]
fn shared_stores_and_atomics() {
    assert_eq!(shared("st.shared.f32 [%rd1], 0f3F800000;", 8).shared.stores, banked(2, 1, 128));
    let generic = shared("cvta.shared.u64 %rd3, %rd1; st.f32 [%rd3], 0f3F800000;", 128);
    assert_eq!((generic.shared.stores, generic.global.stores.requests), (banked(32, 1, 128), 0));
    assert_eq!(generic.bank_conflicts(), 31);
    // The lanes' operations on one word go one after the other, and those on 32 at once.
    let add = |stride| {
        let words = "st.shared.b32 [%rd1], 0; bar.warp.sync -1;";
        shared(&format!("{words} atom.shared.add.u32 %r2, [%rd1], 1;"), stride).shared.atomics
    };
    assert_eq!((add(0), add(4)), (banked(32, 1, 128), banked(1, 1, 128)));
}

#[test]
fn copies_past_the_registers() {
    let of = shared(
        "mad.wide.u32 %rd3, %r1, 16, %out; cp.async.cg.shared.global [%rd1], [%rd3], 16; cp.async.wait_all;",
        16,
    );
    assert_eq!((of.global.copies, of.shared.copies), (global(16, 4, 16, 512), banked(4, 4, 512)));
    assert_eq!((of.global.loads.requests, of.shared.stores.requests), (0, 0));
    // Bytes that are not read become zeros.
    let of = shared(
        "mad.wide.u32 %rd3, %r1, 16, %out; mov.b32 %r3, 4; cp.async.cg.shared.global [%rd1], [%rd3], 16, %r3;
         cp.async.wait_all;",
        16,
    );
    assert_eq!((of.global.copies, of.shared.copies), (global(16, 4, 4, 128), banked(4, 4, 512)));
}

#[test]
fn matrices_of_shared_memory() {
    // Rows of 16 bytes, one after the other: each matrix is a pass. Four of them 32 bytes apart have half of the banks.
    let load =
        |stride| shared("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%rd1];", stride);
    let (dense, apart) = (load(16).shared.loads, load(32).shared.loads);
    assert_eq!((dense, apart), (banked(4, 4, 512), banked(8, 4, 512)));
    let one = shared("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%rd1];", 16).shared.loads;
    assert_eq!(one, banked(1, 1, 128));
}

#[test]
fn local_and_constant_memory() {
    let body = "mov.u64 %rd1, depot; st.local.b32 [%rd1+4], 7; ld.local.b32 %r2, [%rd1+4];
        cvta.local.u64 %rd2, %rd1; ld.b32 %r3, [%rd2+4];";
    let of = counts_of_warp("", &format!(".local .align 8 .b8 depot[16]; {body}"));
    let (loads, stores) = (Requests { requests: 2, bytes: 256 }, Requests { requests: 1, bytes: 128 });
    assert_eq!(
        (of.local.loads, of.local.stores, of.global.total()),
        (loads, stores, GlobalRequests::default())
    );
    let numbers = ".const .align 4 .u32 numbers[32];";
    let load = |stride: u32| {
        let lane = "mov.u32 %r1, %laneid; mov.u64 %rd1, numbers;";
        let load = format!("{lane} mad.wide.u32 %rd1, %r1, {stride}, %rd1; ld.const.u32 %r2, [%rd1];");
        counts_of_warp(numbers, &load).constant
    };
    assert_eq!(
        (load(0), load(4)),
        (Constant { requests: 1, passes: 1 }, Constant { requests: 1, passes: 32 })
    );
    // A kernel's parameters are constant memory that is not counted: `out` was loaded each time.
    assert_eq!(counts_of_warp("", "").constant, Constant::default());
}

#[test]
fn bulk_copies() {
    let start =
        "mov.u32 %r1, %laneid; mov.u64 %rd1, tile; mov.u64 %rd2, other; setp.ne.u32 %p2, %r1, 0; @%p2 bra E;
        mbarrier.init.shared.b64 [%rd2], 1; fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared.b64 %rd3, [%rd2], 256;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1], [%out], 256, [%rd2];
        W: mbarrier.try_wait.parity.shared.b64 %p1, [%rd2], 0; @!%p1 bra W; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out+256], [%rd1], 128;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:";
    let of = counts_of_warp(TILE, start);
    assert_eq!(of.bulk, Bulk { loads: 1, loaded_bytes: 256, stores: 1, stored_bytes: 128 });
    // They go past the load and store units.
    assert_eq!((of.global.total(), of.shared.total()), Default::default());
    // The first, the arrival, and as many looks as there were branches back and one out.
    assert_eq!(of.collectives.mbarriers, 2 + of.branches.executed - 1);
}

#[test]
fn memory_of_a_cluster() {
    // Each block writes to the next one's tile, and reads its own by the address that others know it by.
    let body = "mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mov.u32 %r3, %tid.x;
        mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2, %r2; mapa.u64 %rd4, %rd2, %r1;
        mad.wide.u32 %rd3, %r3, 4, %rd3; mad.wide.u32 %rd4, %r3, 8, %rd4;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        st.u32 [%rd3], %r3; st.u32 [%rd4+256], %r3;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    let of = counts(TILE, body, LaunchConfig::new(2, 64).with_cluster(2)).total;
    assert_eq!(of.cluster, Requests { requests: 4, bytes: 4 * 128 });
    assert_eq!(of.shared.stores, (0..4).map(|_| banked(2, 1, 128)).sum());
    assert_eq!((of.collectives.cluster_barriers, of.global.total()), (8, GlobalRequests::default()));
}

#[test]
fn launches_add_up_and_those_that_fail_count_nothing() {
    let text = module("", "st.global.u32 [%out], 1;");
    let mut out = [0u32; 1];
    let mut emulator = Emulator::new(PtxModule::parse(&text).unwrap()).with_counts();
    let address = (&raw mut out).addr().to_le_bytes();
    // SAFETY: `out` outlives the launches, and no other code uses it.
    unsafe {
        emulator.lend(&mut out);
        emulator.launch("k", LaunchConfig::new(1, 32), &[&address]).unwrap();
        emulator.launch("k", LaunchConfig::new(3, 32), &[&address]).unwrap();
        emulator.launch("k", LaunchConfig::new(1, 32), &[&8u64.to_le_bytes()]).unwrap_err();
    }
    let launches = emulator.take_counts();
    assert_eq!(launches.iter().map(|one| one.total.global.stores.requests).collect::<Vec<_>>(), [1, 3]);
    let sum: LaunchCounts = launches.into_iter().sum();
    assert_eq!((sum.kernels, sum.total.global.stores.requests), (vec!["k".to_owned()], 4));
    let stores: Vec<_> =
        sum.instructions.iter().filter(|one| one.counts.global.stores.requests > 0).collect();
    assert_eq!((stores.len(), stores[0].counts.global.stores.requests), (1, 4));
}

#[test]
fn instructions_know_their_source() {
    // The places into which something was inlined were named before; line 0 is no line.
    let body = ".loc 1 5 1\n .loc 2 7 9, function_name text, inlined_at 1 5 1\n st.global.u32 [%out], 1;
        .loc 3 4 2, function_name text + 8, inlined_at 2 7 9\n st.global.u32 [%out], 2; st.global.u32 [%out], 3;
        .loc 1 0 0\n st.global.u32 [%out], 4;";
    let files = ".file 1 \"kernel.rs\"\n.file 2 \"a folder/helper.rs\", 0, 0\n.file 3 \"core.rs\"\n";
    let launch = counts(files, body, LaunchConfig::new(1, 32));
    let is_store = |one: &&InstructionCounts| one.counts.global.stores.requests > 0;
    let source = |one: &InstructionCounts| {
        let lines: Vec<String> = one.source.iter().map(ToString::to_string).collect();
        lines.join(" in ")
    };
    let sources: Vec<String> = launch.instructions.iter().filter(is_store).map(source).collect();
    let (helper, core) =
        ("a folder/helper.rs:7 in kernel.rs:5", "core.rs:4 in a folder/helper.rs:7 in kernel.rs:5");
    assert_eq!(sources, [helper, core, core, ""]);
    assert_eq!(launch.of_source("helper.rs", 7).global.stores.requests, 3);
    // The load of the parameter comes before.
    assert_eq!(source(&launch.instructions[0]), "");
}
