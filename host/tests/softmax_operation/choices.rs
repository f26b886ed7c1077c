//! What is chosen for a shape and a device.

use std::sync::Arc;

use cuda_std::bf16;
use cuda_std::launch::{Dim3, KernelCall, LaunchConfig, LaunchError, Launcher, Limits, RawBuffer, Residence};
use cuda_std::simt::Executor;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp::softmax::{KernelChoice, SoftmaxAs};
use ferrowarp::{CrossEntropy, DeviceProfile, Softmax};
use ferrowarp_cases::reference::Number;
use ferrowarp_cases::softmax::forward::Forward;
use ferrowarp_cases::softmax::logits::logits;
use ferrowarp_cases::{Case, Scope, Setting, assert_right, for_each_pair};
use gpu_kernels::softmax::forward::ForwardLaunch;
use gpu_kernels::softmax::operation::ForwardKernels;

use super::executor;

/// A device like an H200.
fn gpu() -> DeviceProfile {
    Setting::new(Scope::Executor).profile
}

/// The names of a choice's kernels.
fn names<I: SoftmaxAs<O>, O: Number>(choice: &KernelChoice<I, O>) -> Vec<&'static str> {
    choice.kernels().map(|meta| meta.name).collect()
}

/// The choice on rows that lie so: offsets of output and input, and elements between their rows.
fn case(choice: KernelChoice<f32>, offsets: [usize; 2], gaps: [usize; 2]) -> Case {
    let [rows, cols] = choice.shape();
    let layout = |i: usize| Layout::dense(rows, cols).with_stride(cols + gaps[i]).with_offset(offsets[i]);
    let (layouts, logits) = ([layout(0), layout(1)], logits(rows, cols));
    Arc::new(Forward { layouts, options: Softmax::new(), logits }).case(choice)
}

fn chosen(profile: &DeviceProfile, rows: usize, cols: usize) -> KernelChoice<f32> {
    KernelChoice::new(profile, rows, cols).unwrap()
}

/// Kernels are listed from narrow to wide, so that the first that holds a row is the smallest.
#[test]
fn tables_are_sorted_and_their_names_differ() {
    let mut all = Vec::new();
    for_each_pair!(|forward| {
        assert!(forward.variants.is_sorted_by_key(|variant| variant.elements));
        assert!(forward.narrow.is_sorted_by_key(|variant| variant.elements));
        assert!(forward.clusters.is_sorted_by_key(|variant| variant.elements));
        let variants = forward.variants.iter().chain(forward.narrow).chain(forward.clusters);
        all.extend(variants.map(|variant| variant.meta.name));
        all.extend([forward.serial.meta.name, forward.split.reduce.meta.name, forward.split.write.meta.name]);
        for variant in forward.variants.iter().chain(forward.narrow) {
            assert_eq!(
                (variant.block % variant.threads, variant.block % 32),
                (0, 0),
                "{}",
                variant.meta.name
            );
        }
    });
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn a_row_gets_the_smallest_kernel_that_holds_it() {
    for_each_pair!(|forward| {
        let vector = 16 / size_of::<I>();
        for (variant, next) in forward.variants.iter().zip(&forward.variants[1..]) {
            let widest = variant.elements as usize + vector - 1;
            let choice = |cols| KernelChoice::<I, O>::new(&gpu(), 4096, cols).unwrap();
            assert_eq!(names(&choice(widest)), [variant.meta.name]);
            assert_eq!(names(&choice(widest + 1)), [next.meta.name]);
            let config = choice(widest).config().unwrap();
            assert_eq!(config.grid.x, 4096 / variant.rows_at_once());
            assert_eq!((config.block.x, config.cluster), (variant.block, 1));
        }
    });
}

#[test]
fn many_narrow_rows_of_whole_vectors_get_the_fewest_lanes() {
    let name = |rows, cols| names(&chosen(&gpu(), rows, cols))[0];
    assert_eq!(name(1 << 20, 16), "softmax_f32_narrow_4x1");
    assert_eq!(name(1 << 20, 4), "softmax_f32_narrow_4x1");
    assert_eq!(name(1 << 20, 20), "softmax_f32_narrow_4x2");
    assert_eq!(name(1 << 20, 17), "softmax_f32_8x1", "rows that do not begin at vectors");
    assert_eq!(name(1 << 20, 36), "softmax_f32_8x2", "wider than they hold");
    assert_eq!(name(4096, 16), "softmax_f32_8x1", "fewer blocks than multiprocessors");
    let config = chosen(&gpu(), 1 << 20, 16).config().unwrap();
    assert_eq!((config.grid.x, config.block.x), ((1 << 20) / 128, 256));
}

#[test]
fn few_wide_rows_get_as_many_blocks_as_half_of_the_device() {
    for (rows, cols, f32, bf16) in [
        (1, 16_384, ("softmax_f32_cluster_256x8", 16), ("softmax_bf16_cluster_256x4", 8)),
        (8, 32_000, ("softmax_f32_cluster_256x8", 16), ("softmax_bf16_cluster_256x4", 8)),
        (64, 32_000, ("softmax_f32_cluster_256x8", 4), ("softmax_bf16_cluster_256x4", 4)),
        (64, 128_256, ("softmax_f32_cluster_256x8", 16), ("softmax_bf16_cluster_256x4", 16)),
        // More than two rounds of blocks. With fewer, the largest blocks hold rows that no others hold.
        (64, 262_144, ("softmax_f32_staged", 16), ("softmax_bf16_staged", 8)),
        (8, 262_144, ("softmax_f32_cluster_1024x8", 16), ("softmax_bf16_cluster_512x4", 16)),
        (132, 32_000, ("softmax_f32_cluster_256x8", 4), ("softmax_bf16_cluster_256x4", 4)),
        (1, 16_383, ("softmax_f32_512x8", 1), ("softmax_bf16_512x4", 1)),
    ] {
        let blocks = |config: Option<LaunchConfig>| config.unwrap().cluster;
        let choice = chosen(&gpu(), rows, cols);
        assert_eq!((names(&choice)[0], blocks(choice.config())), f32, "{rows}x{cols}");
        let choice = KernelChoice::<bf16>::new(&gpu(), rows, cols).unwrap();
        assert_eq!((choice.kernels().next().unwrap().name, blocks(choice.config())), bf16, "{rows}x{cols}");
    }
}

/// The smallest number of blocks that holds a wide row in shared memory so that three blocks fit a multiprocessor.
/// There are at most `most` blocks.
fn staged_blocks<I>(forward: &ForwardKernels<I, impl Sized>, most: u32, cols: usize) -> Option<u32> {
    let is_wide = cols >= 16_384 * size_of::<I>();
    let mut sizes = [1, 2, 4, 8, 16].into_iter().filter(|&blocks| is_wide && blocks <= most);
    sizes.find(|&blocks| forward.staged.shared_bytes(cols, blocks) <= 76_400)
}

#[test]
fn a_wide_row_gets_the_smallest_cluster_or_the_pair() {
    let with = |capability, max_cluster| DeviceProfile {
        limits: Limits { capability, max_cluster, ..Limits::default() },
        ..gpu()
    };
    for_each_pair!(|forward| {
        let chosen = |profile: &DeviceProfile, cols| KernelChoice::<I, O>::new(profile, 4096, cols).unwrap();
        let pair = [forward.split.reduce.meta.name, forward.split.write.meta.name];
        let widest = forward.variants.last().unwrap().elements as usize;
        let cluster = forward.clusters.last().unwrap().elements as usize;
        let (mut staged, mut in_registers) = (0, 0);
        for cols in [widest + 8, 3 * widest, 4 * cluster, 4 * cluster + 8, 16 * cluster] {
            let config = chosen(&gpu(), cols).config().unwrap();
            assert_eq!(config.grid.x, 4096 * config.cluster);
            let name = names(&chosen(&gpu(), cols))[0];
            if let Some(blocks) = staged_blocks(forward, 16, cols) {
                assert_eq!((name, config.cluster), (forward.staged.meta.name, blocks), "{cols}");
                assert_eq!(config.shared_bytes as usize, forward.staged.shared_bytes(cols, blocks));
                staged += 1;
                continue;
            }
            in_registers += 1;
            assert!(config.cluster > 1, "{cols}");
            let elements =
                forward.clusters.iter().find(|variant| variant.meta.name == name).unwrap().elements;
            assert!((elements * config.cluster) as usize >= cols, "{name} {cols}");
            assert!(
                config.cluster == 2 || ((elements * config.cluster / 2) as usize) < cols,
                "{name} {cols}"
            );
        }
        assert!(staged > 0 && (in_registers > 0 || size_of::<I>() == 2), "{staged} {in_registers}");
        // The widest that neither registers nor shared memory hold, and devices without clusters, or with smaller ones.
        let none = [(gpu(), 16, 16 * cluster + 8), (with(89, 1), 0, widest + 8)];
        let fewer = [(with(90, 1), 1, widest + 8), (with(120, 8), 8, 8 * cluster + 8)];
        for (profile, most, cols) in none.into_iter().chain(fewer) {
            let names = names(&chosen(&profile, cols));
            match staged_blocks(forward, most, cols) {
                Some(_) => assert_eq!(names, [forward.staged.meta.name], "{cols}"),
                None => assert_eq!(names, pair, "{cols}"),
            }
        }
        assert_eq!(chosen(&with(120, 8), 8 * cluster).config().unwrap().cluster, 8);
    });
}

#[test]
fn a_cpu_computes_a_row_with_one_thread_unless_cores_would_be_idle() {
    let cpu = DeviceProfile { limits: Limits::default(), multiprocessors: 64, is_cpu: true };
    for_each_pair!(|forward| {
        let chosen = |rows, cols| names(&KernelChoice::<I, O>::new(&cpu, rows, cols).unwrap());
        for (rows, cols) in [(4096, 1024), (1, 10), (1, 16_383), (256, 100_000)] {
            assert_eq!(chosen(rows, cols), [forward.serial.meta.name], "{rows}x{cols}");
        }
        assert_eq!(chosen(8, 100_000), [forward.split.reduce.meta.name, forward.split.write.meta.name]);
    });
}

/// What runs PTX in the host's memory has the kernels of a GPU, as here an executor that refuses all others.
#[test]
fn a_device_gets_the_kernels_that_it_has() {
    for runs_cpu_only in [true, false] {
        let limits = Limits { runs_cpu_only, ..Limits::default() };
        let on = Device::cpu_with(Executor::new().with_limits(limits));
        let profile = DeviceProfile::from(&on);
        for_each_pair!(|forward| {
            let serial = forward.serial.meta;
            let every = KernelChoice::<I, O>::every(&profile, 3, 10).unwrap();
            let has_serial = every.iter().any(|choice| choice.kernels().any(|meta| meta.name == serial.name));
            assert!(serial.cpu_only);
            assert_eq!(has_serial, runs_cpu_only, "{}", serial.name);
            let choice = KernelChoice::<I, O>::new(&profile, 3, 10).unwrap();
            assert_eq!(names(&choice) == [serial.name], runs_cpu_only);
        });
        let mut logits = on.tensor(&[0.0f32; 6], [2, 3]).unwrap();
        Softmax::new().run_in_place(&on, &mut logits).unwrap();
        let y = Softmax::new().run(&on, &logits).unwrap();
        Softmax::new().backward_in_place(&on, &mut logits, &y).unwrap();
        CrossEntropy::new().run(&on, &y, &on.upload(&[0i64, 1]).unwrap()).unwrap();
    }
}

#[test]
fn few_wide_rows_are_cut_until_the_device_is_busy() {
    for (rows, cols, is_cut) in [
        (8, 1 << 20, true),
        (1, 1 << 20, true),
        (1, 262_144, false),
        (8, 262_144, false),
        (512, 262_144, false),
    ] {
        let choice = chosen(&gpu(), rows, cols);
        assert_eq!(choice.kernels().count() == 2, is_cut, "{rows}x{cols}: {choice:?}");
        if is_cut {
            let (parts, grid) = (choice.parts(), choice.config().unwrap().grid.x as usize);
            assert_eq!(grid, rows * parts);
            assert!(cols / parts >= 4096, "{rows}x{cols}: {parts}");
            let is_busy = grid > 132 || cols / (parts + 1) < 4096;
            assert!(is_busy, "{rows}x{cols}: {grid} blocks");
            assert_eq!(choice.workspace_bytes(), rows * parts * 8);
        }
    }
    // The CPU has few cores, which one row keeps busy.
    let cpu = DeviceProfile { limits: Limits::default(), multiprocessors: 2, is_cpu: true };
    assert_eq!(chosen(&cpu, 1, 20_000).kernels().count(), 1);
}

#[test]
fn rows_are_prefetched_where_there_are_many_of_a_good_size() {
    let prefetch = |profile: &DeviceProfile, rows, cols| chosen(profile, rows, cols).prefetch_blocks();
    assert!(prefetch(&gpu(), 65_536, 4096) > 0);
    assert_eq!(prefetch(&gpu(), 132, 4096), 0, "all rows are on their way at once");
    assert_eq!(prefetch(&gpu(), 4096, 1 << 22), 0, "the pair does not");
    let old = DeviceProfile { limits: Limits { capability: 89, ..gpu().limits }, ..gpu() };
    assert_eq!(prefetch(&old, 65_536, 4096), 0);
}

/// Also where it would reach over the last row.
#[test]
fn a_prefetch_changes_no_result() {
    let small = DeviceProfile { multiprocessors: 1, ..gpu() };
    let mut prefetches = 0;
    for (rows, cols, gap) in [(131, 600, 0), (131, 600, 1), (131, 1100, 0), (131, 1100, 5), (9, 33_000, 0)] {
        let choice = chosen(&small, rows, cols);
        prefetches += usize::from(choice.prefetch_blocks() > 0);
        assert_right(&[case(choice, [1, 1], [gap, gap])], &executor(), Case::assess_twice);
    }
    assert!(prefetches > 1);
}

/// A device whose grids are so small that every matrix is several launches.
#[test]
fn more_rows_than_a_grid_has_are_several_launches() {
    let limits = Limits { max_grid: Dim3::new(8, 1, 1), ..Limits::default() };
    let profile = DeviceProfile { limits: limits.clone(), ..gpu() };
    let on = Device::cpu_with(Executor::new().with_workers(1).with_limits(limits));
    for (cols, rows) in [(10, 131), (300, 29), (33_000, 5), (70_000, 5)] {
        for choice in KernelChoice::<f32>::every(&profile, rows, cols).unwrap() {
            let grid = choice.config().unwrap().grid.x;
            assert!(grid <= 8, "{choice:?}");
            assert_right(&[case(choice, [1, 2], [3, 0])], &on, Case::assess);
        }
        assert!(chosen(&profile, rows, cols).rows_per_launch() < rows);
    }
}

/// Counts the blocks of launches, and runs none.
struct Counting(std::cell::Cell<(usize, u64)>);

impl Launcher for Counting {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        let (launches, blocks) = self.0.get();
        call.check(Residence::Host, &Limits::default())?;
        self.0.set((launches + 1, blocks + call.config.grid.volume()));
        Ok(())
    }
}

#[test]
fn matrices_over_four_billion_elements_and_rows_are_launched_whole() {
    let launched = |rows: usize, cols: usize| {
        let choice = KernelChoice::<bf16>::new(&gpu(), rows, cols).unwrap();
        let count = Counting(Default::default());
        let pointer = std::ptr::dangling_mut::<u128>().cast();
        let elements = RawBuffer { pointer, bytes: None, residence: Residence::Host };
        let args =
            ForwardLaunch { pairs: elements.cast(), ..ForwardLaunch::new(elements, elements, [cols; 2]) };
        // SAFETY: nothing runs.
        unsafe { choice.launch(&count, args, &Softmax::new()) }.unwrap();
        count.0.get()
    };
    assert_eq!(launched(1 << 22, 4096), (1, 1 << 22));
    assert!(launched(1 << 33, 300).0 > 1);
    assert_eq!(launched((1 << 32) + 5, 20_000), (3, (1 << 32) + 5));
    assert_eq!(launched(0, 5), (0, 0));
    assert_eq!(launched(5, 0), (0, 0));
    let error = KernelChoice::<bf16>::new(&gpu(), 1, 1 << 32).unwrap_err().to_string();
    assert!(error.contains("4294967296"), "{error}");
}
