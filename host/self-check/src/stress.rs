//! Runs the kernels under many schedules: results must not depend on the order of blocks, warps and lanes.
//!
//! Every case runs once in the executor's fixed order and once under each seed. The outputs must have the same bits, because
//! every sum of a kernel has a fixed order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use cuda_std::simt::{Executor, Scheduler};
use ferrowarp::device::Device;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use ferrowarp_cases::compare::Outputs;
use ferrowarp_cases::{Case, Scope, small};
use ferrowarp_report::{print_line, print_note};

/// The most differences that are printed; more are only counted.
const MOST_PRINTED: usize = 20;

/// Runs the cases of the chosen kernels under `seeds` seeds, starting at `first`. Returns whether none differed.
pub fn run(seeds: u64, first: u64, chosen: &dyn Fn(&str) -> bool) -> Result<bool> {
    let end =
        first.checked_add(seeds).context("the last seed is beyond 64 bits; begin with a smaller one")?;
    let cases: Vec<Case> =
        small::all(Scope::Small).into_iter().filter(|case| case.kernels().any(chosen)).collect();
    ensure!(
        seeds > 0 && !cases.is_empty(),
        "nothing to run; ask for at least one seed of a kernel that exists"
    );
    let device = Device::cpu_with(Executor::new().without_seed());
    let fixed = cases
        .par_iter()
        .map(|case| case.run(&device).with_context(|| format!("{case} in the fixed order")))
        .collect::<Result<Vec<Outputs>>>()?;
    let differences = under_seeds(first..end, &cases, &fixed);
    let kernels: BTreeSet<&str> = cases.iter().flat_map(Case::kernels).collect();
    print_line(format_args!(
        "{seeds} seeds from {first:#x}, {} kernels, {} cases, {} runs: {differences} different",
        kernels.len(),
        cases.len(),
        cases.len() as u64 * seeds
    ))?;
    Ok(differences == 0)
}

/// Runs each case of the chosen kernels once, with one OS thread per GPU thread, and prints its name, for Miri or a
/// sanitizer. Of every `of` cases it runs the one at `part`, counted alternately forwards and backwards, since later
/// neighbours are larger. Under Miri it runs the [`smallest`] instances.
pub fn on_threads((part, of): (usize, usize), chosen: &dyn Fn(&str) -> bool) -> Result<()> {
    let device = Device::cpu_with(Executor::new().without_seed().with_scheduler(Scheduler::Threads));
    let all = if cfg!(miri) { smallest(small::all(Scope::Tiny)) } else { small::all(Scope::Small) };
    let is_here =
        |i: usize| if (i / of).is_multiple_of(2) { i % of == part } else { of - 1 - i % of == part };
    let mut cases = all;
    let mut chosen_before = 0;
    cases.retain(|case| {
        let is_chosen = case.kernels().any(chosen);
        chosen_before += usize::from(is_chosen);
        is_chosen && is_here(chosen_before - 1)
    });
    ensure!(
        !cases.is_empty(),
        "nothing to run; name a kernel that exists, and a part below the number of parts"
    );
    for case in &cases {
        print_line(format_args!("case {case}"))?;
        case.run(&device).with_context(|| case.to_string())?;
    }
    print_line(format_args!("{} cases ended", cases.len()))?;
    Ok(())
}

/// The smallest instances of each kernel: for rows, one each per thread, per some lanes of a warp, per warp and per several
/// warps; for tiles, the smallest tile; and only `bf16` if there is `f16` too. The others have the same body with other
/// numbers or types, and would take Miri many times as long.
fn smallest(mut cases: Vec<Case>) -> Vec<Case> {
    let names: BTreeSet<String> = cases.iter().map(first_kernel).map(str::to_owned).collect();
    let is_bf16_there = |name: &str| name.contains("_f16") && names.contains(&name.replace("_f16", "_bf16"));
    cases.retain(|case| !is_bf16_there(first_kernel(case)));
    let all: Vec<_> = cases.iter().map(body_and_size).collect();
    let mut sizes = BTreeMap::new();
    for (body, size) in &all {
        sizes.entry(body).and_modify(|least: &mut u32| *least = *size.min(least)).or_insert(*size);
    }
    let mut is_smallest = all.iter().map(|(body, size)| sizes[body] == *size);
    cases.retain(|_| is_smallest.next().unwrap_or_default());
    cases
}

fn first_kernel(case: &Case) -> &'static str {
    case.kernels().next().unwrap_or_default()
}

/// The common part of a kernel's instances, and the size of this instance. Their names have `THREADSxVECTORS` of a row, or
/// `ROWSxCOLUMNS` of a tile.
fn body_and_size(case: &Case) -> ((String, u32), u32) {
    /// The most vectors of a row per thread.
    const MOST_VECTORS: u32 = 16;
    let name = first_kernel(case);
    let extents = |word: &str| {
        let (a, b) = word.split_once('x')?;
        Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?))
    };
    let Some((threads, vectors)) = name.split('_').find_map(extents) else {
        return ((name.to_owned(), 0), 0);
    };
    let body: Vec<&str> = name.split('_').filter(|word| extents(word).is_none()).collect();
    let is_row = vectors <= MOST_VECTORS;
    let kind = [1, 31, 32].into_iter().filter(|&most| is_row && threads > most).count();
    ((body.join("_"), kind as u32), threads * vectors)
}

/// Runs every case under every seed. Returns the number of runs that failed or differed from the fixed order.
fn under_seeds(seeds: Range<u64>, cases: &[Case], fixed: &[Outputs]) -> usize {
    let len = seeds.end - seeds.start;
    let bar = ProgressBar::new(len);
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} seeds, {eta} left {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let differences = AtomicUsize::new(0);
    seeds.into_par_iter().for_each(|seed| {
        let device = Device::cpu_with(Executor::new().with_seed(seed));
        for (case, fixed) in cases.iter().zip(fixed) {
            let Err(error) = case.run(&device).and_then(|got| compare(fixed, &got)) else { continue };
            let before = differences.fetch_add(1, Ordering::Relaxed);
            bar.set_message(format!("({} different)", before + 1));
            if before < MOST_PRINTED {
                let only = case.kernels().next().unwrap_or_default();
                bar.suspend(|| {
                    // If standard output is closed, the later line with the counts fails.
                    let _ = print_line(format_args!(
                        "FAIL  seed {seed:#x}, {case}: {error:#}\n      replay: cargo run --release --bin self-check -- \
                         --seeds 1 --first {seed:#x} --only {only}"
                    ));
                });
            }
        }
        bar.inc(1);
        // There is no bar without a terminal.
        if bar.is_hidden() && bar.position().is_multiple_of(len.div_ceil(10)) {
            print_note(format_args!("{} of {len} seeds", bar.position()));
        }
    });
    bar.finish_and_clear();
    differences.into_inner()
}

/// Checks that all outputs are the same bit for bit.
fn compare(fixed: &Outputs, got: &Outputs) -> Result<()> {
    ensure!(fixed.len() == got.len(), "{} outputs, not {}", got.len(), fixed.len());
    fixed.iter().zip(got).try_for_each(|((name, fixed), (_, got))| same(name, fixed, got))
}

fn same(name: &str, fixed: &[f64], got: &[f64]) -> Result<()> {
    ensure!(fixed.len() == got.len(), "{name} has {} elements, not {}", got.len(), fixed.len());
    let pairs = fixed.iter().zip(got).enumerate();
    let mut different = pairs.filter(|(_, (fixed, got))| fixed.to_bits() != got.to_bits());
    let Some((at, (fixed_value, value))) = different.next() else { return Ok(()) };
    let number = different.count() + 1;
    bail!(
        "{name}[{at}] is {value:e}, not {fixed_value:e} as in the fixed order; {number} of {} elements differ",
        fixed.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_run_under_every_seed() {
        let cases = small::all(Scope::Small);
        let run: BTreeSet<&str> = cases.iter().flat_map(Case::kernels).collect();
        let kernels: BTreeSet<&str> = gpu_kernels::KERNELS.iter().map(|kernel| kernel.name).collect();
        assert_eq!(run, kernels);
    }

    #[test]
    fn miri_runs_the_smallest_instances() {
        let run: BTreeSet<&str> = smallest(small::all(Scope::Small)).iter().flat_map(Case::kernels).collect();
        let of = |body: &str| run.iter().copied().filter(|name| name.starts_with(body)).collect::<Vec<_>>();
        assert_eq!(
            of("cross_entropy_f32"),
            [
                "cross_entropy_f32_1x16",
                "cross_entropy_f32_32x2",
                "cross_entropy_f32_64x8",
                "cross_entropy_f32_8x2",
                "cross_entropy_f32_serial",
                "cross_entropy_f32_staged",
                "cross_entropy_f32_wide"
            ]
        );
        assert_eq!(
            of("softmax_k9"),
            ["softmax_k9_cluster_512x8", "softmax_k9_cluster_split_out", "softmax_k9_cluster_split_sums"]
        );
        assert_eq!(of("update_layer"), ["update_layer"]);
        // Only the smallest tile, and only bf16 of f16 and bf16.
        assert!(of("linear_backward_64x64").is_empty() && of("norm_f16").is_empty());
    }

    #[test]
    fn a_difference_is_told_by_its_first_element() {
        let complaint = |got: &[f64]| same("out", &[1.0, 0.0, f64::NAN], got).err();
        assert!(complaint(&[1.0, 0.0, f64::NAN]).is_none());
        let error = complaint(&[1.0, -0.0, 2.0]).unwrap().to_string();
        assert_eq!(error, "out[1] is -0e0, not 0e0 as in the fixed order; 2 of 3 elements differ");
        assert!(complaint(&[1.0]).is_some());
    }

    #[test]
    fn few_seeds_make_no_difference_and_a_planted_one_is_counted() {
        let cases: Vec<Case> = small::all(Scope::Small).into_iter().step_by(29).collect();
        let device = Device::cpu_with(Executor::new().without_seed());
        let mut fixed: Vec<_> = cases.iter().map(|case| case.run(&device).unwrap()).collect();
        assert_eq!(under_seeds(0..2, &cases, &fixed), 0);
        fixed[0][0].1[0] += 1.0;
        assert_eq!(under_seeds(0..2, &cases, &fixed), 2);
    }
}
