//! A GPU's results for a pack, for `differ-gpu record`.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::runner::{Outcome, Seen};
use crate::report::{Entry, OfBackend, Origin, Report};

/// The file with a pack's description.
pub const MANIFEST: &str = "pack.json";

/// The description of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The commit it was packed from.
    pub commit: String,
    /// The back ends' optimisation level.
    pub opt_level: u8,
    /// The architecture.
    pub arch: String,
    /// The first and the last seed.
    pub seeds: Option<(u64, u64)>,
    /// The crates.
    pub crates: Vec<String>,
    /// Programs that could not be compiled: the back end and the reason.
    pub refused: Vec<(String, String)>,
}

impl Manifest {
    /// Reads the description of the pack in a folder.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(folder: &Path) -> anyhow::Result<Manifest> {
        let path = folder.join(MANIFEST);
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// The outcomes as comparisons of programs and of crates.
    pub fn results(&self, outcomes: &[Outcome], seen: &Seen, seconds: u64) -> Vec<Entry> {
        let machine = match driver() {
            Some(driver) => format!("{}, driver {driver}", seen.name),
            None => seen.name.clone(),
        };
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let date = said_by("date", &["-u", "+%F"]).unwrap_or_default();
        let part = |part: &str| {
            let is_programs = part == "gpu-programs";
            let of_part: Vec<&Outcome> = outcomes
                .iter()
                .filter(|outcome| first_seed(&outcome.module).is_some() == is_programs)
                .collect();
            let mut report = Report {
                part: part.to_owned(),
                opt_level: self.opt_level,
                arch: self.arch.clone(),
                seconds,
                ..Report::default()
            };
            if is_programs {
                report.seeds = self.seeds;
            } else {
                report.crates = self.crates.clone();
            }
            for backend in ["nvvm", "llvm"] {
                let of = |outcome: &&&Outcome| self::backend(&outcome.module) == backend;
                let of_backend: Vec<&&Outcome> = of_part.iter().filter(of).collect();
                report.backends.push(of_backend_in(backend, &of_backend, is_programs));
            }
            let refused = self.refused.iter().filter(|_| is_programs);
            for (backend, why) in refused {
                let all = report.backends.iter_mut().filter(|of| of.backend == *backend);
                all.for_each(|of| of.refused += 1);
                report.found.push(format!("{backend}: refused: {why}"));
            }
            report.found.extend(of_part.iter().flat_map(|outcome| lines(outcome)));
            report
        };
        let reports = [part("gpu-crates"), part("gpu-programs")];
        let is_there = |report: &Report| report.backends.iter().any(|of| of.compared + of.refused as u64 > 0);
        reports
            .into_iter()
            .filter(is_there)
            .map(|report| {
                let (machine, date, commit) = (machine.clone(), date.clone(), self.commit.clone());
                Entry { report, origin: Origin { machine, cores, date, commit } }
            })
            .collect()
    }
}

fn of_backend_in(backend: &str, outcomes: &[&&Outcome], is_programs: bool) -> OfBackend {
    let mut of = OfBackend { backend: backend.to_owned(), ..OfBackend::default() };
    for outcome in outcomes {
        of.compared += if is_programs { outcome.kernels } else { outcome.cases } as u64;
        of.differ += if is_programs {
            outcome.found.chunk_by(|a, b| a.kernel == b.kernel).count()
        } else {
            outcome.found.len()
        };
        let cases: usize = outcome.missing.iter().map(|(_, cases, _)| cases).sum();
        of.refused += if is_programs { outcome.missing.len() } else { cases };
    }
    of
}

/// The failures of a module, one line per kernel.
fn lines(outcome: &Outcome) -> Vec<String> {
    let backend = backend(&outcome.module);
    let name = |kernel: &str| match (first_seed(&outcome.module), kernel.strip_prefix('k')) {
        (Some(first), Some(number)) => format!("seed {}", first + number.parse::<u64>().unwrap_or(0)),
        _ => kernel.to_owned(),
    };
    let of_kernel = outcome.found.chunk_by(|a, b| a.kernel == b.kernel);
    let mut all: Vec<String> = of_kernel
        .map(|found| format!("{}, {backend}: {} cases: {}", name(&found[0].kernel), found.len(), found[0]))
        .collect();
    let missing = outcome.missing.iter();
    all.extend(
        missing.map(|(kernel, _, reason)| format!("{}, {backend}: did not run: {reason}", name(kernel))),
    );
    all
}

/// The first seed of a batch of programs, which is named like `b50-0.nvvm`.
fn first_seed(module: &str) -> Option<u64> {
    module.strip_prefix('b')?.split_once('-')?.0.parse().ok()
}

/// `nvvm` or `llvm`, optionally with a level.
fn backend(module: &str) -> &str {
    let last = module.rsplit_once('.').map_or(module, |(_, last)| last);
    last.split_once('-').map_or(last, |(backend, _)| backend)
}

fn driver() -> Option<String> {
    let said = said_by("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader"])?;
    said.lines().next().map(str::to_owned).filter(|version| !version.is_empty())
}

fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::{Difference, What};

    #[test]
    fn outcomes_are_summed_by_part_and_back_end() {
        let found = |kernel: &str| Difference {
            kernel: kernel.to_owned(),
            number: 1,
            input_len: 64,
            what: What::Fault("trap".to_owned()),
        };
        let outcome = |module: &str, kernels, found: Vec<Difference>| Outcome {
            module: module.to_owned(),
            kernels,
            cases: kernels * 32,
            found,
            missing: vec![("k9".to_owned(), 32, "no".to_owned())],
        };
        let manifest = Manifest {
            seeds: Some((50, 149)),
            refused: vec![("llvm".to_owned(), "no".to_owned())],
            ..Manifest::default()
        };
        let outcomes = [
            outcome("b50-0.nvvm", 40, vec![found("k3"), found("k3")]),
            outcome("b50-0.llvm", 49, vec![]),
            outcome("crates-0.nvvm-O3", 5, vec![]),
        ];
        let results = manifest.results(&outcomes, &Seen::default(), 7);
        let [crates, programs] = &results[..] else { panic!("{results:?}") };
        let of = |on: &Entry, i: usize| {
            let of = &on.report.backends[i];
            (of.compared, of.differ, of.refused)
        };
        assert_eq!((of(crates, 0), of(crates, 1)), ((160, 0, 32), (0, 0, 0)));
        assert_eq!((of(programs, 0), of(programs, 1)), ((40, 1, 1), (49, 0, 2)));
        assert!(
            programs.report.found[1].starts_with("seed 53, nvvm: 2 cases: k3"),
            "{:?}",
            programs.report.found
        );
    }
}
