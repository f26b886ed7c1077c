//! The resources of every kernel on every architecture: `resources.json`, and a table of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cuda_builder::ptxas::KernelResources;
use serde::{Deserialize, Serialize};

use crate::checks::Allowed;
use crate::occupancy::{self, Occupancy};

/// The report's name in the folder of the PTX files.
pub const FILE: &str = "resources.json";

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The PTX files.
    pub modules: Vec<Module>,
}

/// One PTX file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// `compute_90`
    pub arch: String,
    /// The file's name.
    pub file: String,
    /// The file's hash.
    pub sha256: String,
    /// The resources of its kernels.
    pub kernels: Vec<KernelResources>,
    /// The threads per block of the kernels that state a maximum.
    #[serde(default)]
    pub threads: BTreeMap<String, u32>,
}

impl Module {
    /// The occupancy of a kernel in blocks of its maximum of threads, without dynamic shared memory.
    pub fn occupancy(&self, kernel: &KernelResources) -> Option<Occupancy> {
        let threads = *self.threads.get(&kernel.kernel)?;
        Some(occupancy::of(&self.arch, threads, kernel))
    }

    /// The names of its kernels.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.kernel.as_str())
    }
}

impl Report {
    /// Reads the report of an earlier build.
    ///
    /// # Errors
    /// The file cannot be read, or is not a report.
    pub fn read(path: &Path) -> anyhow::Result<Report> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a report of resources", path.display()))
    }

    /// Writes the report into a folder that no other program uses.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("writing the report as JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }

    /// The PTX files and their architectures.
    pub fn files(&self, folder: &Path) -> Vec<(String, PathBuf)> {
        self.modules.iter().map(|module| (module.arch.clone(), folder.join(&module.file))).collect()
    }

    /// The architectures, in order, and the number of kernels of each.
    pub fn kernels_by_arch(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for module in &self.modules {
            match counts.iter_mut().find(|(arch, _)| *arch == module.arch) {
                Some((_, count)) => *count += module.kernels.len(),
                None => counts.push((&module.arch, module.kernels.len())),
            }
        }
        counts
    }

    /// The table: a line for each kernel and architecture. The last columns are the blocks on a multiprocessor, the share of
    /// its warps, and what is used up first, for a kernel that states its threads per block.
    pub fn table(&self) -> String {
        let kernels = || self.modules.iter().flat_map(|module| &module.kernels);
        let width = kernels().map(|kernel| kernel.kernel.len()).max().unwrap_or(0).max("kernel".len());
        let mut table = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "{:width$}  {:12} {:>9} {:>13} {:>6} {:>7} {:>9} {:>7} {:>7} {:>6}  limit",
            "kernel",
            "architecture",
            "registers",
            "spilled st/ld",
            "stack",
            "shared",
            "constant",
            "threads",
            "blocks",
            "warps"
        );
        let mut names: Vec<&str> = kernels().map(|kernel| kernel.kernel.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            for module in &self.modules {
                let Some(kernel) = module.kernels.iter().find(|kernel| kernel.kernel == name) else {
                    continue;
                };
                let spills = format!("{}/{}", kernel.spill_stores, kernel.spill_loads);
                let occupancy = module.occupancy(kernel).map_or_else(String::new, |occupancy| {
                    let Occupancy { blocks, percent, limit } = occupancy;
                    format!(" {:>7} {blocks:>7} {percent:>4} %  {limit}", module.threads[name])
                });
                let _ = writeln!(
                    table,
                    "{name:width$}  {:12} {:>9} {spills:>13} {:>6} {:>7} {:>9}{occupancy}",
                    module.arch, kernel.registers, kernel.stack, kernel.shared, kernel.constant
                );
            }
        }
        table
    }

    /// The kernels with serialized `wgmma` instructions.
    pub fn serialized_wgmma(&self) -> Vec<String> {
        let mut found = Vec::new();
        for module in &self.modules {
            for KernelResources { kernel, serialized_wgmma, .. } in &module.kernels {
                found.extend(serialized_wgmma.as_ref().map(|reason| {
                    format!(
                        "{kernel} runs its wgmma instructions one after the other on {}, because of {reason}: read or write no \
                         accumulator between start and wait, and use fewer registers",
                        module.arch
                    )
                }));
            }
        }
        found
    }

    /// The kernels that spill or use local memory where `allowed` does not cover them.
    pub fn local_memory(&self, allowed: &[Allowed]) -> Vec<String> {
        // The finding, and its architectures.
        let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for module in &self.modules {
            let is_allowed =
                |kernel: &str| allowed.iter().any(|allowed| allowed.covers(kernel, &module.arch));
            for kernel in module.kernels.iter().filter(|kernel| !is_allowed(&kernel.kernel)) {
                let (spilled, stack) = (kernel.spill_stores + kernel.spill_loads, kernel.stack);
                if spilled > 0 || stack > 0 {
                    let what = format!(
                        "{} uses local memory ({stack} bytes of stack, {spilled} bytes spilled): change it, or \
                         say why in its source (//@ allow-local({}): REASON)",
                        kernel.kernel, kernel.kernel
                    );
                    found.entry(what).or_default().push(&module.arch);
                }
            }
        }
        found.into_iter().map(|(what, archs)| format!("{what}, on {}", archs.join(", "))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(stack: u32) -> Report {
        let kernel = KernelResources { kernel: "k".to_owned(), registers: 32, stack, ..Default::default() };
        let module = Module {
            arch: "compute_90".to_owned(),
            file: "m.compute_90.ptx".to_owned(),
            sha256: "00".to_owned(),
            kernels: vec![kernel],
            threads: [("k".to_owned(), 256)].into(),
        };
        Report { modules: vec![module] }
    }

    #[test]
    fn local_memory_needs_a_reason() {
        assert_eq!(report(0).local_memory(&[]).len(), 0);
        let found = report(16).local_memory(&[]);
        assert!(found[0].ends_with("on compute_90") && found[0].contains("16 bytes of stack"), "{found:?}");
        let sources = tempfile::tempdir().unwrap();
        std::fs::write(sources.path().join("k.rs"), "//@ allow-local(k): a table\n").unwrap();
        assert_eq!(
            report(16).local_memory(&crate::checks::allowed(&[sources.path().to_owned()]).unwrap()).len(),
            0
        );
    }

    #[test]
    fn wgmma_instructions_that_wait_for_each_other_are_refused() {
        let mut report = report(0);
        assert!(report.serialized_wgmma().is_empty());
        report.modules[0].kernels[0].serialized_wgmma = Some("too few registers".to_owned());
        let found = report.serialized_wgmma();
        assert!(
            found[0].starts_with("k runs its wgmma instructions one after the other on compute_90"),
            "{found:?}"
        );
        assert!(found[0].contains("because of too few registers"), "{found:?}");
    }

    #[test]
    fn the_report_comes_back_as_written() {
        let path = std::env::temp_dir().join(format!("xtask-report-{}.json", std::process::id()));
        report(4).write(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap(), report(4));
        std::fs::write(&path, "{").unwrap();
        assert!(Report::read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_table_has_a_line_a_kernel() {
        let table = report(4).table();
        assert_eq!(table.lines().count(), 2);
        let line = table.lines().nth(1).unwrap();
        assert!(line.starts_with("k       compute_90"), "{table}");
        assert!(line.ends_with(" 256       8  100 %  warps"), "{table}");
    }
}
