//! What requests to memory touch: each figure follows from the addresses, by hand.

mod common;

use common::{counts, counts_of_warp, module};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::counts::{Constant, GlobalRequests, Requests, SharedRequests};
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
fn launches_add_up_and_those_that_fail_count_nothing() {
    let text = module("", "st.global.u32 [%out], 1;");
    let mut out = [0u32; 1];
    let mut emulator = Emulator::new(PtxModule::parse(&text).unwrap()).with_counts();
    let address = (&raw mut out).addr().to_le_bytes();
    // SAFETY: `out` outlives the launches, and nobody else uses it.
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
