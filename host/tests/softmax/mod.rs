//! Every rung of the softmax ladder against the f64 oracle: on the CPU executor, and as PTX on the emulator.

mod traps;

use cuda_builder::NvvmArch;
use cuda_std::launch::{Launcher, Limits};
use cuda_std::simt::Executor;
use ferrowarp::device::Device;
use ferrowarp_cases::softmax::ladder;
use ferrowarp_cases::{Case, Scope, assert_right, emulated};
use gpu_kernels::ladders::softmax::{LADDER, Variant};
use ptx_emulator::Turns;

/// The cases of that name that a device can run, of rungs whose name begins as `FERROWARP_RUNG` in the environment.
fn cases(scope: Scope, device: &Device, name: &str) -> Vec<Case> {
    let mut wanted = std::env::var("FERROWARP_RUNG").unwrap_or_default();
    if wanted.ends_with(|c: char| c.is_ascii_digit()) {
        // `k1` is not k10.
        wanted.push('_');
    }
    let is_known = LADDER.iter().any(|rung| rung.name.starts_with(&wanted));
    assert!(is_known, "no rung begins with FERROWARP_RUNG, which is `{wanted}`");
    let prefix = format!("softmax_{wanted}");
    let mut cases = ladder::cases(scope, device.limits(), |it| it == name);
    cases.retain(|case| case.kernels().any(|kernel| kernel.starts_with(&prefix)));
    cases
}

fn executor() -> Device {
    Device::cpu_with(Executor::new())
}

fn assert_right_as_ptx(name: &str) {
    for on in emulated::by_each() {
        assert_right(&cases(Scope::OldEmulator, &on, name), &on, Case::assess);
    }
}

#[test]
fn on_the_executor_every_rung_agrees_with_the_oracle() {
    let on = executor();
    assert_right(&cases(Scope::Executor, &on, "rows"), &on, Case::assess_twice);
}

#[test]
fn as_ptx_every_rung_agrees_with_the_oracle() {
    assert_right_as_ptx("rows");
}

#[test]
fn every_rung_agrees_in_another_order_for_a_newer_architecture() {
    for on in emulated::newer_by_each() {
        assert_right(&cases(Scope::NewEmulator, &on, "rows"), &on, Case::assess);
    }
}

/// The kernels that only newer architectures have, which the emulator of the oldest leaves out.
#[test]
fn as_ptx_clusters_agree_with_the_oracle() {
    let orders = [Turns::Ascending, Turns::Descending].into_iter();
    for (turns, backend) in
        orders.flat_map(|turns| emulated::back_ends().map(move |backend| (turns, backend)))
    {
        let on = emulated::device(backend, NvvmArch::Compute90, turns);
        let cases = ladder::cases(Scope::NewEmulator, on.limits(), |name| name == "clusters");
        assert_right(&cases, &on, Case::assess);
    }
}

#[test]
fn on_the_executor_edge_rows_come_out_as_defined() {
    let on = executor();
    assert_right(&cases(Scope::Executor, &on, "hard rows"), &on, Case::assess);
}

#[test]
fn as_ptx_edge_rows_come_out_as_defined() {
    assert_right_as_ptx("hard rows");
}

/// Both buffers at every distance from a 16-byte boundary, with widths that shift every row against it.
#[test]
fn buffers_need_no_alignment() {
    let on = executor();
    assert_right(&cases(Scope::Executor, &on, "boundaries"), &on, Case::assess);
    assert_right_as_ptx("boundaries");
}

/// Rows of clusters of every size, each a little less than full, and one that has nothing for most of its blocks.
#[test]
fn wide_rows_agree_with_the_oracle() {
    let on = executor();
    assert_right(&cases(Scope::Executor, &on, "wide rows"), &on, Case::assess);
}

/// A launcher that must not be used.
struct Nowhere;

impl Launcher for Nowhere {
    unsafe fn submit(
        &self,
        call: &cuda_std::launch::KernelCall<'_>,
    ) -> Result<(), cuda_std::launch::LaunchError> {
        panic!("{} was launched", call.meta.name)
    }
}

#[test]
fn without_elements_nothing_is_launched() {
    for (rows, cols) in [(0, 0), (0, 5), (5, 0)] {
        for rung in LADDER {
            let kernel = rung.prepare(rows, cols).unwrap();
            assert_eq!(kernel.config(), None);
            // SAFETY: there are no elements.
            unsafe { kernel.launch(&Nowhere, &mut [0.0f32; 0], &[0.0f32; 0], &mut [0.0f32; 0]) }.unwrap();
            assert_eq!(kernel.workspace_len(), 0);
        }
    }
}

#[test]
fn shapes_that_a_rung_cannot_do_are_refused() {
    for rung in LADDER {
        assert!(rung.prepare(1 << 32, 1).is_none(), "{}", rung.name);
        assert!(rung.prepare(1, 1 << 32).is_none(), "{}", rung.name);
        assert!(rung.prepare(u32::MAX as usize, 1 << 31).is_none(), "{}", rung.name);
    }
}

#[test]
fn every_width_has_a_kernel_until_a_row_fills_the_registers() {
    for cols in [1, 128, 129, 512, 513, 1024, 3072, 3073, 8192, 16_385, 32_768] {
        for rung in LADDER {
            let Some(kernel) = rung.prepare(3, cols) else {
                // Clusters are for rows that a block does not hold in registers.
                let is_wide = ["k9_cluster", "k10_staged"].contains(&rung.name);
                assert!(is_wide && cols <= 16_384, "{} has none for {cols}", rung.name);
                continue;
            };
            let config = kernel.config().unwrap();
            assert!(config.block.volume() <= 1024 && config.grid.y == 1, "{} {cols}: {config:?}", rung.name);
        }
    }
    // From there on a rung that cannot do it says so, and the pair of k9 does it at any width.
    let without =
        |cols| LADDER.iter().filter(move |rung| rung.prepare(3, cols).is_none()).map(|rung| rung.name);
    assert!(without(32_769).eq(["k8_resident"]));
    assert!(without(1 << 20).eq(["k8_resident", "k10_staged"]));
}

/// The name of the kernel that writes the result, the blocks of its clusters, and the elements of the workspace.
fn choice(limits: &Limits, rows: usize, cols: usize) -> (&'static str, u32, usize) {
    let rung = &LADDER[8];
    assert_eq!(rung.name, "k9_cluster");
    let way = rung.prepare_on(limits, rows, cols).unwrap();
    (way.meta().name, way.config().unwrap().cluster, way.workspace_len())
}

#[test]
fn a_row_gets_the_cluster_that_holds_it_or_the_pair() {
    let newest = Limits::default();
    let pair = "softmax_k9_cluster_split_out";
    for (cols, expected) in [
        (16_385, ("softmax_k9_cluster_512x8", 2, 0)),
        (32_768, ("softmax_k9_cluster_512x8", 2, 0)),
        (32_769, ("softmax_k9_cluster_512x8", 4, 0)),
        (131_072, ("softmax_k9_cluster_512x8", 8, 0)),
        (131_073, ("softmax_k9_cluster_1024x8", 8, 0)),
        (262_144, ("softmax_k9_cluster_1024x8", 8, 0)),
        (262_145, ("softmax_k9_cluster_1024x8", 16, 0)),
        (524_288, ("softmax_k9_cluster_1024x8", 16, 0)),
        (524_289, (pair, 1, 2 * 4096 * 129)),
        (1 << 21, (pair, 1, 2 * 4096 * 256)),
    ] {
        assert_eq!(choice(&newest, 4096, cols), expected, "{cols}");
    }
    // Few rows, which in clusters would leave most of a GPU idle.
    assert_eq!(choice(&newest, 8, 262_144), ("softmax_k9_cluster_1024x8", 8, 0));
    assert_eq!(choice(&newest, 7, 262_144), (pair, 1, 2 * 7 * 64));
    assert_eq!(choice(&newest, 8, 1 << 20), (pair, 1, 2 * 8 * 256));
    // Devices without clusters, and with smaller ones.
    let old = Limits { max_cluster: 1, capability: 89, ..Limits::default() };
    assert_eq!(choice(&old, 4096, 20_000), (pair, 1, 2 * 4096 * 5));
    let portable = Limits { max_cluster: 8, ..Limits::default() };
    assert_eq!(choice(&portable, 4096, 262_144).1, 8);
    assert_eq!(choice(&portable, 4096, 262_145).0, pair);
}

#[test]
fn a_row_gets_the_fewest_blocks_of_which_three_fit_or_sixteen() {
    let rung = &LADDER[9];
    assert_eq!(rung.name, "k10_staged");
    let choice = |limits: &Limits, cols: usize| {
        let config = rung.prepare_on(limits, 4096, cols)?.config().unwrap();
        assert_eq!(config.grid.volume(), 4096 * u64::from(config.cluster));
        Some((config.cluster, config.shared_bytes))
    };
    let newest = Limits::default();
    // 320 bytes for barriers and pairs, and 16 for each vector of a part, which is a whole number of warps.
    for (cols, expected) in [
        (16_384, None),
        (16_385, Some((1, 320 + 4 * 16_384))),
        (18_864, Some((1, 320 + 4 * 18_864))),
        (18_868, Some((2, 320 + 4 * 9472))),
        (131_072, Some((8, 320 + 4 * 16_384))),
        (262_144, Some((16, 320 + 4 * 16_384))),
        (524_288, Some((16, 320 + 4 * 32_768))),
        (923_648, Some((16, 320 + 4 * 57_728))),
        (925_700, None),
    ] {
        assert_eq!(choice(&newest, cols), expected, "{cols}");
    }
    // Devices without clusters, with smaller ones, and with less shared memory.
    assert_eq!(choice(&Limits { max_cluster: 1, capability: 89, ..Limits::default() }, 20_000), None);
    assert_eq!(choice(&Limits { max_cluster: 8, ..Limits::default() }, 262_144), None);
    let small = Limits { max_dynamic_shared_bytes: 99 * 1024, ..Limits::default() };
    assert_eq!(choice(&small, 400_000).map(|(blocks, _)| blocks), Some(16));
    assert_eq!(choice(&small, 524_288), None);
}

#[test]
fn names_tell_the_file_and_the_place_in_the_ladder() {
    for (i, rung) in LADDER.iter().enumerate() {
        assert!(rung.name.starts_with(&format!("k{}_", i + 1)), "{}", rung.name);
        for meta in rung.variants().flat_map(Variant::steps).map(|step| step.meta) {
            assert!(meta.name.starts_with(&format!("softmax_{}", rung.name)), "{}", meta.name);
            let path = format!("softmax/{}", rung.name);
            assert!(meta.file.ends_with(".rs") && meta.file.contains(&path), "{}", meta.file);
        }
    }
}
