//! Every rung of the softmax ladder against the f64 oracle: on the CPU executor, and as PTX on the emulator.

mod traps;

use cuda_builder::NvvmArch;
use cuda_std::launch::{Launcher, Limits};
use cuda_std::simt::Executor;
use ferrowarp::softmax::Options;
use ferrowarp_cases::emulated;
use ferrowarp_cases::emulated::Emulators;
use ferrowarp_cases::reference;
use ferrowarp_cases::rows::{RELATIVE, edge_rows, logits};
use gpu_kernels::softmax::{LADDER, Prepared, Rung, Variant};
use ptx_emulator::Turns;

/// The ladder's ways that accept the shape and run on the executor, those too that their rung would not choose for it.
fn kernels(rows: usize, cols: usize) -> impl Iterator<Item = Prepared> {
    LADDER.iter().flat_map(Rung::variants).filter_map(move |variant| variant.prepare(rows, cols))
}

/// Where kernels run, and what it allows.
trait On: Launcher {
    fn limits(&self) -> &Limits;

    /// Of [`kernels`] those that run here, and are of a rung whose name begins as `FERROWARP_RUNG` in the environment.
    fn kernels(&self, rows: usize, cols: usize) -> impl Iterator<Item = Prepared> {
        let wanted = std::env::var("FERROWARP_RUNG").unwrap_or_default();
        let is_known = LADDER.iter().any(|rung| rung.name.starts_with(&wanted));
        assert!(is_known, "no rung begins with FERROWARP_RUNG, which is `{wanted}`");
        let prefix = format!("softmax_{wanted}");
        kernels(rows, cols)
            .filter(move |kernel| kernel.runs_on(self.limits()) && kernel.meta().name.starts_with(&prefix))
    }
}

impl On for Executor {
    fn limits(&self) -> &Limits {
        self.limits()
    }
}

impl On for Emulators {
    fn limits(&self) -> &Limits {
        self.limits()
    }
}

/// Runs a kernel, on an output that holds a NaN of our own wherever nobody writes.
fn run(on: &dyn Launcher, kernel: &Prepared, logits: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::from_bits(0x7fc0_1234); logits.len()];
    let mut workspace = vec![f32::NAN; kernel.workspace_len()];
    // SAFETY: the buffers are three, and of the lengths that the shape asks for.
    unsafe { kernel.launch(on, &mut out, logits, &mut workspace) }
        .unwrap_or_else(|error| panic!("{}: {error}", kernel.meta().name));
    assert!(out.iter().all(|x| x.to_bits() != 0x7fc0_1234), "{}: unwritten elements", kernel.meta().name);
    out
}

/// What is wrong with probabilities, if anything.
fn complaint(got: &[f32], logits: &[f32], cols: usize, relative: f64) -> Option<String> {
    reference::softmax_complaint(got, logits, cols, &Options::new(), relative)
}

/// All kernels at this shape against the oracle, and each a second time for the same bits.
fn assert_all_right(on: &impl On, rows: usize, cols: usize) {
    let logits = logits(rows, cols);
    for kernel in on.kernels(rows, cols) {
        let name = kernel.meta().name;
        // The naive kernel adds `cols` numbers one after the other; every other thread at most a 256th of them.
        let is_naive = name == LADDER[0].kernels[0].meta.name;
        let relative = if is_naive { RELATIVE.max(cols as f64 * 6e-8) } else { RELATIVE };
        let first = run(on, &kernel, &logits);
        if let Some(complaint) = complaint(&first, &logits, cols, relative) {
            panic!("{name} {rows}x{cols}: {complaint}");
        }
        let again = run(on, &kernel, &logits);
        assert!(first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: other bits");
    }
}

#[test]
fn every_rung_agrees_with_the_oracle_on_the_executor() {
    for cols in [1, 2, 3, 31, 32, 33, 127, 1023, 1024, 1025] {
        assert_all_right(&Executor::new(), 14, cols);
    }
    assert_all_right(&Executor::new(), 7, 4099);
    assert_all_right(&Executor::new(), 1, 12_673);
}

#[test]
fn every_rung_agrees_with_the_oracle_as_ptx() {
    for on in emulated::by_each() {
        for cols in [1, 2, 3, 31, 32, 33, 127] {
            assert_all_right(&on, 7, cols);
        }
        assert_all_right(&on, 2, 1023);
        assert_all_right(&on, 1, 1025);
    }
}

#[test]
fn every_rung_agrees_in_another_order_for_a_newer_architecture() {
    for on in emulated::newer_by_each() {
        assert_all_right(&on, 7, 33);
        assert_all_right(&on, 2, 513);
    }
}

/// The kernels that only newer architectures have, which the emulator of the oldest leaves out.
#[test]
fn clusters_agree_with_the_oracle_as_ptx() {
    let orders = [Turns::Ascending, Turns::Descending].into_iter();
    for (turns, backend) in orders.flat_map(|turns| emulated::BACK_ENDS.map(|backend| (turns, backend))) {
        let emulator = Emulators::new(backend, NvvmArch::Compute90, turns);
        let clusters = |rows, cols| {
            let new = kernels(rows, cols).filter(|kernel| kernel.meta().min_arch >= 90);
            let new: Vec<_> = new.filter(|kernel| kernel.runs_on(emulator.limits())).collect();
            assert!(!new.is_empty(), "{rows}x{cols}");
            new
        };
        for (rows, cols) in [(7, 1), (2, 130), (2, 1025), (1, 33_001)] {
            let logits = logits(rows, cols);
            for kernel in clusters(rows, cols) {
                let got = run(&emulator, &kernel, &logits);
                let what = format!("{} {rows}x{cols}", kernel.meta().name);
                assert_eq!(complaint(&got, &logits, cols, RELATIVE), None, "{what}");
            }
        }
        for kernel in clusters(1, 133) {
            assert_eq!(wrong_edges(|row| run(&emulator, &kernel, row)), [], "{}", kernel.meta().name);
        }
    }
}

/// The edge rows that a launch gets wrong, and how.
fn wrong_edges(mut launch: impl FnMut(&[f32]) -> Vec<f32>) -> Vec<(&'static str, String)> {
    let rows = edge_rows(133).into_iter();
    rows.filter_map(|(name, row)| Some((name, complaint(&launch(&row), &row, row.len(), RELATIVE)?)))
        .collect()
}

fn assert_edges_right(on: &impl On) {
    for kernel in on.kernels(1, 133) {
        assert_eq!(wrong_edges(|row| run(on, &kernel, row)), [], "{}", kernel.meta().name);
    }
    for kernel in on.kernels(1, 1) {
        for (x, want) in [
            (3.0, 1.0),
            (f32::MIN, 1.0),
            (f32::INFINITY, f32::NAN),
            (f32::NEG_INFINITY, f32::NAN),
            (f32::NAN, f32::NAN),
        ] {
            let got = run(on, &kernel, &[x])[0];
            assert!(got == want || got.is_nan() && want.is_nan(), "{} of {x}: {got}", kernel.meta().name);
        }
    }
}

#[test]
fn edge_rows_come_out_as_defined_on_the_executor() {
    assert_edges_right(&Executor::new());
}

#[test]
fn edge_rows_come_out_as_defined_as_ptx() {
    for on in emulated::by_each() {
        assert_edges_right(&on);
    }
}

/// Both buffers at every distance from a 16-byte boundary, with widths that shift every row against it.
#[test]
fn buffers_need_no_alignment() {
    for (cols, from, to) in [(133, 1, 1), (133, 2, 3), (64, 3, 3), (64, 0, 1), (130, 1, 0), (5, 3, 2)] {
        let logits = logits(7, cols);
        let mut inp = vec![7.0; from];
        inp.extend(&logits);
        let (executor, emulators) = (Executor::new(), emulated::by_each());
        for kernel in kernels(7, cols) {
            let emulators = emulators.iter().filter(|on| kernel.runs_on(on.limits()));
            let emulators = emulators.map(|on| on as &dyn Launcher);
            for on in emulators.chain([&executor as &dyn Launcher]) {
                let mut workspace = vec![f32::NAN; kernel.workspace_len()];
                let mut out = vec![-1.0f32; to + logits.len() + 4];
                let len = logits.len();
                // SAFETY: the buffers are three, and of the lengths that the shape asks for.
                unsafe { kernel.launch(on, &mut out[to..to + len], &inp[from..], &mut workspace) }.unwrap();
                let what = format!("{} {cols} {from} {to}", kernel.meta().name);
                assert_eq!(complaint(&out[to..to + len], &logits, cols, RELATIVE), None, "{what}");
                let around = out[..to].iter().chain(&out[to + len..]);
                assert!(around.into_iter().all(|&x| x == -1.0), "{what}: writes outside");
            }
        }
    }
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
                // Clusters are for rows that a block does not hold.
                assert!(rung.name == "k9_cluster" && cols <= 16_384, "{} has none for {cols}", rung.name);
                continue;
            };
            let config = kernel.config().unwrap();
            assert!(config.block.volume() <= 1024 && config.grid.y == 1, "{} {cols}: {config:?}", rung.name);
        }
    }
    // From there on a rung that cannot do it says so, and the highest one does it at any width.
    let wide: Vec<_> = LADDER.iter().filter(|rung| rung.prepare(3, 32_769).is_none()).collect();
    assert!(wide.iter().map(|rung| rung.name).eq(["k8_resident"]), "{wide:?}");
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

/// Rows of clusters of every size, each a little less than full, and one that has nothing for most of its blocks.
#[test]
fn wide_rows_agree_with_the_oracle() {
    let executor = Executor::new();
    for (rows, cols) in [(3, 32_767), (2, 33_001), (2, 131_070), (1, 262_143), (1, 300_001), (1, 1_048_579)] {
        let logits = logits(rows, cols);
        for variant in LADDER[8].variants() {
            let Some(kernel) = variant.prepare(rows, cols) else { continue };
            let got = run(&executor, &kernel, &logits);
            let name = kernel.meta().name;
            assert_eq!(complaint(&got, &logits, cols, RELATIVE), None, "{name} {rows}x{cols}");
        }
    }
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
