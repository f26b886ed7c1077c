//! What is chosen for a shape and a device.

use std::sync::Arc;

use cuda_std::launch::{Dim3, KernelCall, LaunchError, Launcher, Limits};
use cuda_std::simt::Executor;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp::softmax::{Choice, Options, Target};
use ferrowarp_cases::softmax::logits::logits;
use ferrowarp_cases::softmax::{Setting, forward::Forward};
use ferrowarp_cases::{Case, Scope, assert_right};
use gpu_kernels::softmax::operation::{BF16_TO_BF16, F32_TO_F32, FORWARD};

use crate::executor;

/// A device like an H200.
fn gpu() -> Target {
    Setting::new(Scope::Executor).target
}

/// The names of a choice's kernels.
fn names(choice: &Choice) -> Vec<&'static str> {
    choice.kernels().map(|meta| meta.name).collect()
}

/// The choice on rows that lie so: offsets of output and input, and elements between their rows.
fn case(choice: Choice, offsets: [usize; 2], gaps: [usize; 2]) -> Case {
    let [rows, cols] = choice.shape();
    let layout = |i: usize| Layout::dense(rows, cols).with_stride(cols + gaps[i]).with_offset(offsets[i]);
    let (layouts, logits) = ([layout(0), layout(1)], logits(rows, cols));
    Arc::new(Forward { layouts, options: Options::new(), logits }).case::<f32, f32>(choice)
}

fn chosen(target: &Target, rows: usize, cols: usize) -> Choice {
    Choice::new(&F32_TO_F32, target, rows, cols).unwrap()
}

/// Kernels are listed from narrow to wide, so that the first that holds a row is the smallest.
#[test]
fn tables_are_sorted_and_their_names_differ() {
    let mut all = Vec::new();
    for forward in FORWARD {
        assert!(forward.tiers.is_sorted_by_key(|tier| tier.elements));
        assert!(forward.clusters.is_sorted_by_key(|tier| tier.elements));
        all.extend(forward.tiers.iter().chain(forward.clusters).map(|tier| tier.meta.name));
        all.extend([forward.serial.meta.name, forward.split.reduce.meta.name, forward.split.write.meta.name]);
        for tier in forward.tiers {
            assert_eq!((tier.block % tier.threads, tier.block % 32), (0, 0), "{}", tier.meta.name);
        }
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn a_row_gets_the_smallest_kernel_that_holds_it() {
    for forward in FORWARD {
        let vector = 16 / forward.from.size();
        for (tier, next) in forward.tiers.iter().zip(&forward.tiers[1..]) {
            let widest = tier.elements as usize + vector - 1;
            let choice = |cols| Choice::new(forward, &gpu(), 4096, cols).unwrap();
            assert_eq!(names(&choice(widest)), [tier.meta.name]);
            assert_eq!(names(&choice(widest + 1)), [next.meta.name]);
            let config = choice(widest).config().unwrap();
            assert_eq!(config.grid.x, 4096 / (tier.block / tier.threads));
            assert_eq!((config.block.x, config.cluster), (tier.block, 1));
        }
    }
}

#[test]
fn a_wide_row_gets_the_smallest_cluster_or_the_pair() {
    let with = |capability, max_cluster| Target {
        limits: Limits { capability, max_cluster, ..Limits::default() },
        ..gpu()
    };
    for forward in FORWARD {
        let chosen = |target: &Target, cols| Choice::new(forward, target, 4096, cols).unwrap();
        let pair = [forward.split.reduce.meta.name, forward.split.write.meta.name];
        let tier = forward.tiers.last().unwrap().elements as usize;
        let cluster = forward.clusters.last().unwrap().elements as usize;
        for cols in [tier + 8, 3 * tier, 4 * cluster, 4 * cluster + 8, 16 * cluster] {
            let config = chosen(&gpu(), cols).config().unwrap();
            assert!(config.cluster > 1, "{cols}");
            assert_eq!(config.grid.x, 4096 * config.cluster);
            let name = names(&chosen(&gpu(), cols))[0];
            let elements = forward.clusters.iter().find(|tier| tier.meta.name == name).unwrap().elements;
            assert!((elements * config.cluster) as usize >= cols, "{name} {cols}");
            assert!(
                config.cluster == 2 || ((elements * config.cluster / 2) as usize) < cols,
                "{name} {cols}"
            );
        }
        assert_eq!(names(&chosen(&gpu(), 16 * cluster + 8)), pair);
        // Devices without clusters, and with smaller ones.
        assert_eq!(names(&chosen(&with(89, 1), tier + 8)), pair);
        assert_eq!(names(&chosen(&with(90, 1), tier + 8)), pair);
        assert_eq!(chosen(&with(120, 8), 8 * cluster).config().unwrap().cluster, 8);
        assert_eq!(names(&chosen(&with(120, 8), 8 * cluster + 8)), pair);
    }
}

#[test]
fn a_cpu_computes_a_row_with_one_thread_unless_cores_would_be_idle() {
    let cpu = Target { limits: Limits::default(), multiprocessors: 64, is_cpu: true };
    for forward in FORWARD {
        let chosen = |rows, cols| names(&Choice::new(forward, &cpu, rows, cols).unwrap());
        for (rows, cols) in [(4096, 1024), (1, 10), (1, 16_383), (256, 100_000)] {
            assert_eq!(chosen(rows, cols), [forward.serial.meta.name], "{rows}x{cols}");
        }
        assert_eq!(chosen(8, 100_000), [forward.split.reduce.meta.name, forward.split.write.meta.name]);
    }
}

#[test]
fn few_wide_rows_are_cut_until_the_device_is_busy() {
    for (rows, cols, is_cut) in [
        (8, 1 << 20, true),
        (1, 1 << 20, true),
        (65, 20_000, true),
        (66, 20_000, false),
        (1, 16_384, true),
        (1, 16_383, false),
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
    let cpu = Target { limits: Limits::default(), multiprocessors: 2, is_cpu: true };
    assert_eq!(chosen(&cpu, 1, 20_000).kernels().count(), 1);
}

#[test]
fn rows_are_asked_for_ahead_where_there_are_many_of_a_good_size() {
    let ahead = |target: &Target, rows, cols| chosen(target, rows, cols).blocks_ahead();
    assert!(ahead(&gpu(), 65_536, 4096) > 0);
    assert_eq!(ahead(&gpu(), 132, 4096), 0, "all rows are on their way at once");
    assert_eq!(ahead(&gpu(), 4096, 1 << 22), 0, "the pair does not");
    let old = Target { limits: Limits { capability: 89, ..gpu().limits }, ..gpu() };
    assert_eq!(ahead(&old, 65_536, 4096), 0);
}

/// Asking ahead changes nothing, also where it would reach over the last row.
#[test]
fn asking_ahead_gives_the_same() {
    let small = Target { multiprocessors: 1, ..gpu() };
    let mut asked = 0;
    for (rows, cols, gap) in [(131, 600, 0), (131, 600, 1), (131, 1100, 0), (131, 1100, 5), (9, 33_000, 0)] {
        let choice = chosen(&small, rows, cols);
        asked += usize::from(choice.blocks_ahead() > 0);
        assert_right(&[case(choice, [1, 1], [gap, gap])], &executor(), Case::assess_twice);
    }
    assert!(asked > 1);
}

/// A device whose grids are so small that every matrix is several launches.
#[test]
fn more_rows_than_a_grid_has_are_several_launches() {
    let limits = Limits { max_grid: Dim3::new(8, 1, 1), ..Limits::default() };
    let target = Target { limits: limits.clone(), ..gpu() };
    let on = Device::cpu_with(Executor::new().with_workers(1).with_limits(limits));
    for (cols, rows) in [(10, 131), (300, 29), (33_000, 5), (70_000, 5)] {
        for choice in Choice::every(&F32_TO_F32, &target, rows, cols).unwrap() {
            let grid = choice.config().unwrap().grid.x;
            assert!(grid <= 8, "{choice:?}");
            assert_right(&[case(choice, [1, 2], [3, 0])], &on, Case::assess);
        }
        assert!(chosen(&target, rows, cols).rows_per_launch() < rows);
    }
}

/// Counts the blocks of launches, and runs none.
struct Counting(std::cell::Cell<(usize, u64)>);

impl Launcher for Counting {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        let (launches, blocks) = self.0.get();
        call.check(cuda_std::launch::Residence::Host, &Limits::default())?;
        self.0.set((launches + 1, blocks + call.config.grid.volume()));
        Ok(())
    }
}

#[test]
fn matrices_over_four_billion_elements_and_rows_are_launched_whole() {
    let launched = |rows: usize, cols: usize| {
        let choice = Choice::new(&BF16_TO_BF16, &gpu(), rows, cols).unwrap();
        let count = Counting(Default::default());
        let operand = ferrowarp::softmax::Operand {
            memory: gpu_kernels::softmax::operation::Memory {
                pointer: std::ptr::dangling_mut::<u128>().cast(),
                bytes: None,
                residence: cuda_std::launch::Residence::Host,
            },
            stride: cols,
        };
        // SAFETY: nothing runs.
        unsafe { choice.launch(&count, operand, operand, &Options::new(), operand.memory) }.unwrap();
        count.0.get()
    };
    assert_eq!(launched(1 << 22, 4096), (1, 1 << 22));
    assert!(launched(1 << 33, 300).0 > 1);
    assert_eq!(launched((1 << 32) + 5, 20_000), (3, (1 << 32) + 5));
    assert_eq!(launched(0, 5), (0, 0));
    assert_eq!(launched(5, 0), (0, 0));
    let error = Choice::new(&BF16_TO_BF16, &gpu(), 1, 1 << 32).unwrap_err().to_string();
    assert!(error.contains("4294967296"), "{error}");
}
