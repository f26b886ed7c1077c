//! The parts of each architecture: rustc, the edits, and the order in which the parts are compiled.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Part, Session};
use crate::alike::Asked;
use crate::arch::NvvmArch;
use crate::cargo::{self, CargoOptions};
use crate::error::CudaBuilderError;
use crate::{files, jobs};
use cuda_ir::Lowered;

/// A part to be compiled.
pub(super) struct Job {
    /// The index of its architecture among the builder's.
    n: usize,
    /// Its architecture.
    arch: NvvmArch,
    /// An architecture that the sources do not distinguish from `arch`.
    alike: NvvmArch,
    /// Whether its kernels are only for `arch`.
    is_specific: bool,
    parts: Arc<[Lowered]>,
    /// The index of the part.
    part: usize,
}

/// Shared by architectures that the sources do not distinguish: the parts, and the compute capabilities with kernels of
/// their own in the source.
type Alike = (Arc<[Lowered]>, Arc<[u32]>);

impl Session<'_> {
    /// The parts of each architecture, all of them in the cache.
    pub(super) fn make_parts(&self) -> Result<Vec<Vec<Part>>, CudaBuilderError> {
        let known: Vec<Option<Vec<Part>>> =
            self.builder.archs.iter().map(|arch| self.known_parts(*arch)).collect();
        let archs = &self.builder.archs;
        let ask = || Asked::of(&self.kernel_crate, &self.toolchain.rustc, &self.builder.build_args);
        let asked = if known.contains(&None) { ask()? } else { Asked::default() };
        let lowered: Mutex<HashMap<NvvmArch, Alike>> = Mutex::default();
        let lower = |n: usize| -> Result<Vec<Job>, CudaBuilderError> {
            if known[n].is_some() {
                return Ok(Vec::new());
            }
            let (arch, alike) = (archs[n], asked.first_alike(archs[n]));
            let made = jobs::lock(&lowered).get(&alike).cloned();
            let (parts, wanted) = if let Some(made) = made { made } else { self.lower(alike, None)? };
            jobs::lock(&lowered).insert(alike, (Arc::clone(&parts), Arc::clone(&wanted)));
            let mut made = self.jobs(n, arch, alike, false, &parts)?;
            if let Some(specific) = self.specific(arch).filter(|_| wanted.contains(&arch.capability_value()))
            {
                let specific = specific?;
                self.check_one_file(specific)?;
                let (parts, _) = self.lower(specific, Some(specific))?;
                made.extend(self.jobs(n, specific, specific, true, &parts)?);
            }
            Ok(made)
        };
        let compile = |Job { n, arch, alike, is_specific, parts, part }: Job| {
            let part = self.compile(arch, alike, &parts[part])?;
            Ok((n, Part { is_specific, ..part }))
        };
        let made = jobs::run(archs.len(), lower, compile)?;
        let mut parts: Vec<Vec<Part>> = known.iter().map(|known| known.clone().unwrap_or_default()).collect();
        for (n, part) in made {
            parts[n].push(part);
        }
        for (n, arch) in archs.iter().enumerate().filter(|(n, _)| known[*n].is_none()) {
            parts[n].sort_by(|a, b| (a.is_specific, &a.family).cmp(&(b.is_specific, &b.family)));
            if self.builder.edit_ir.is_some() {
                continue;
            }
            let stamp = serde_json::to_vec_pretty(&(self.fingerprint(*arch), &parts[n])).unwrap_or_default();
            files::replace(&self.stamp(*arch), &stamp)?;
        }
        Ok(parts)
    }

    /// The architecture of kernels that are compiled next to those for `arch`: the one with the letter `a`, unless it gets a
    /// module of all kernels. `None` if `arch` has a letter itself; an error if there is no such architecture.
    pub(super) fn specific(&self, arch: NvvmArch) -> Option<Result<NvvmArch, CudaBuilderError>> {
        let is_built = |specific: &NvvmArch| self.builder.archs.contains(specific);
        match arch.architecture_variant() {
            _ if !arch.is_base_variant() => None,
            Some(specific) => (!is_built(&specific)).then_some(Ok(specific)),
            None => Some(Err(CudaBuilderError::UnknownArch { name: format!("{arch}a") })),
        }
    }

    /// An error if an option requires one file, but `specific` needs a second one.
    pub(super) fn check_one_file(&self, specific: NvvmArch) -> Result<(), CudaBuilderError> {
        let named = [
            ("copy_to", &self.builder.ptx_file_copy_path),
            ("final_module_path", &self.builder.final_module_path),
        ];
        let Some((option, _)) = named.into_iter().find(|(_, path)| path.is_some()) else { return Ok(()) };
        let reason = format!(
            "{option} names one file, and the kernels that are for {specific} alone are a module of their own: use \
             out_dir, or build for {specific}"
        );
        Err(CudaBuilderError::Options { reason })
    }

    /// Creates a job for each part, longest first, so that no core starts a long one at the end.
    fn jobs(
        &self,
        n: usize,
        arch: NvvmArch,
        alike: NvvmArch,
        is_specific: bool,
        parts: &Arc<[Lowered]>,
    ) -> Result<Vec<Job>, CudaBuilderError> {
        self.outputs().write_ir(arch, parts, &self.toolchain.llvm)?;
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&part| Reverse(parts[part].text.len()));
        let job = |part| Job { n, arch, alike, is_specific, parts: Arc::clone(parts), part };
        Ok(order.into_iter().map(job).collect())
    }

    /// Runs rustc and the edits. Returns the parts of the crate's module for `arch`, of all kernels or of only those for
    /// `only`, and the compute capabilities of the kernels that are missing because they are for another architecture alone.
    fn lower(&self, arch: NvvmArch, only: Option<NvvmArch>) -> Result<Alike, CudaBuilderError> {
        let start = Instant::now();
        let options = CargoOptions { only_specific: only.is_some(), ..self.cargo_options() };
        let what = format!("the crate {} for {arch}", self.kernel_crate.package);
        let module = self.watch.during(what.clone(), "rustc", || {
            cargo::emit_ir(&self.kernel_crate, &self.packages, &self.toolchain, arch, &options, &self.work)
        })?;
        let edited = Instant::now();
        let lower = || cuda_ir::lower(&module, &self.builder.edits(only));
        let mut parts = self.watch.during(what, "the builder", lower)?;
        if let Some(edit) = self.builder.edit_ir {
            for part in &mut parts {
                part.text = edit(std::mem::take(&mut part.text));
            }
        }
        self.count(|times| {
            times.rustc += edited - start;
            times.edits += edited.elapsed();
        });
        Ok((parts.into(), cuda_ir::wanted_archs(&module).into_iter().collect()))
    }

    /// The parts of an earlier build for `arch`, if nothing has changed since and they still exist.
    fn known_parts(&self, arch: NvvmArch) -> Option<Vec<Part>> {
        if self.builder.wants_ir() {
            return None;
        }
        let stamp = files::read(&self.stamp(arch)).ok()?;
        let (fingerprint, parts): (String, Vec<Part>) = serde_json::from_slice(&stamp).ok()?;
        let is_whole = |part: &Part| self.cache.has(&part.key) && self.cached(&part.key, 0).is_some();
        (fingerprint == self.fingerprint(arch) && parts.iter().all(is_whole)).then_some(parts)
    }
}
