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
    // The second block stores the same numbers where the first has loaded them.
    let error = run(&ptx, 2, true).unwrap_err();
    assert!(error.contains("block [1, 0, 0]") && error.contains("of block [0, 0, 0] loads it"), "{error}");
    let ptx =
        exchange("global", "red.global.add", "bar.sync 0;", 32).replace("ld.global", "ld.relaxed.gpu.global");
    run(&ptx, 2, true).unwrap();
}
