//! Accesses that nothing orders, of a kernel whose threads exchange numbers through shared or global memory.

use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Emulator, PtxModule};

/// Each thread stores its number, waits as `wait` says, and loads that of its neighbour in the other half of the block.
fn exchange(space: &str, store: &str, wait: &str, distance: u32) -> String {
    let start = if space == "shared" { "mov.u64 %rd1, tile;" } else { "ld.param.u64 %rd1, [out];" };
    format!(
        ".version 8.6\n.target sm_75\n.address_size 64
        .visible .entry exchange(.param .u64 out) {{
            .reg .b32 %r<4>; .reg .b64 %rd<4>;
            .shared .align 4 .b8 tile[256];
            {start}
            mov.u32 %r1, %tid.x;
            mad.wide.u32 %rd2, %r1, 4, %rd1;
            {store}.u32 [%rd2], %r1;
            {wait}
            xor.b32 %r2, %r1, {distance};
            mad.wide.u32 %rd3, %r2, 4, %rd1;
            ld.{space}.u32 %r3, [%rd3];
            ret;
        }}"
    )
}

fn run(ptx: &str, blocks: u32, is_checked: bool) -> Result<(), String> {
    let emulator = Emulator::new(PtxModule::parse(ptx).unwrap());
    let mut emulator = if is_checked { emulator.with_race_check() } else { emulator };
    let mut out = [0u32; 64];
    let argument = (&raw mut out).addr().to_le_bytes();
    // SAFETY: the array has an element for each thread of a block, and outlives the launch.
    let launched = unsafe {
        emulator.lend(&mut out);
        emulator.launch("exchange", LaunchConfig::new(blocks, 64), &[&argument])
    };
    launched.map_err(|error| error.to_string())
}

#[test]
fn a_barrier_orders_the_threads_of_a_block() {
    for space in ["shared", "global"] {
        let store = format!("st.{space}");
        run(&exchange(space, &store, "bar.sync 0;", 32), 1, true).unwrap();
        // Nothing goes wrong on the emulator, whose threads take turns.
        let ptx = exchange(space, &store, "", 32);
        run(&ptx, 1, false).unwrap();
        let error = run(&ptx, 1, true).unwrap_err();
        let (thread, other) =
            ("thread [32, 0, 0]: this thread", "thread [0, 0, 0] of block [0, 0, 0] loads it");
        assert!(error.contains(thread) && error.contains(other), "{error}");
        assert!(error.contains("with no barrier between the two"), "{error}");
    }
}

#[test]
fn a_barrier_of_the_warp_orders_its_lanes_only() {
    let wait = "bar.warp.sync 0xffffffff;";
    run(&exchange("shared", "st.shared", wait, 1), 1, true).unwrap();
    let error = run(&exchange("global", "st.global", wait, 32), 1, true).unwrap_err();
    assert!(error.contains("global memory"), "{error}");
}

#[test]
fn blocks_are_ordered_by_nothing() {
    let ptx = exchange("global", "st.global", "bar.sync 0;", 32);
    // The second block stores the same numbers where the first has stored them.
    let error = run(&ptx, 2, true).unwrap_err();
    assert!(error.contains("block [1, 0, 0]") && error.contains("of block [0, 0, 0] stores it"), "{error}");
    let ptx =
        exchange("global", "red.global.add", "bar.sync 0;", 32).replace("ld.global", "ld.relaxed.gpu.global");
    run(&ptx, 2, true).unwrap();
}

#[test]
fn an_atomic_store_after_an_atomic_load_loses_updates() {
    let kernel = |change: &str| {
        format!(
            ".version 8.6\n.target sm_75\n.address_size 64
            .visible .entry exchange(.param .u64 out) {{
                .reg .b32 %r<4>; .reg .b64 %rd<4>;
                ld.param.u64 %rd1, [out];
                {change}
                ret;
            }}"
        )
    };
    let load = "ld.relaxed.gpu.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1;";
    let lost = kernel(&format!("{load} st.relaxed.gpu.global.u32 [%rd1], %r1;"));
    let error = run(&lost, 1, true).unwrap_err();
    let (access, other) = ("this thread atomically loads and later stores", "atomically stores it");
    assert!(error.contains(access) && error.contains(other), "{error}");
    // Without the load, and with an operation that does both, nothing is lost.
    run(&kernel("st.release.gpu.global.u32 [%rd1], 1; ld.acquire.gpu.global.u32 %r1, [%rd1];"), 1, true)
        .unwrap();
    run(&kernel(&format!("{load} red.global.add.u32 [%rd1], 1;")), 1, true).unwrap();
}

#[test]
fn two_threads_that_store_the_same_number_race_in_global_memory() {
    let ptx = |space| {
        exchange(space, &format!("st.{space}"), "bar.sync 0;", 32).replace("%r2, 4, %rd1", "%r1, 4, %rd1")
    };
    for space in ["shared", "global"] {
        let ptx = ptx(space).replace("mov.u32 %r1, %tid.x;", "mov.u32 %r1, 7;");
        let result = run(&ptx, 1, true);
        assert_eq!(result.is_err(), space == "global", "{result:?}");
    }
}
