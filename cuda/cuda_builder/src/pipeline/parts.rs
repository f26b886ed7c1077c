//! The parts of each architecture: rustc, the edits, and the order in which the parts are compiled.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::{Part, Session};
use crate::alike::Asked;
use crate::arch::NvvmArch;
use crate::cargo::{self, CargoOptions};
use crate::error::CudaBuilderError;
use crate::{files, jobs};
use cuda_ir::Lowered;

/// A part to be compiled.
pub(super) struct Job<'s> {
    session: &'s Session<'s>,
    /// The index of its crate, and of its architecture among the builder's.
    place: (usize, usize),
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
    /// The parts of each crate and architecture, all of them in the cache.
    pub(super) fn make_parts(sessions: &[Session<'_>]) -> Result<Vec<Vec<Vec<Part>>>, CudaBuilderError> {
        let mut parts: Vec<Vec<Vec<Part>>> = Vec::new();
        let mut missing = Vec::new();
        for (n, session) in sessions.iter().enumerate() {
            let archs = &session.builder.archs;
            let known: Vec<_> = archs.iter().map(|arch| session.known_parts(*arch)).collect();
            let open = known.iter().enumerate().filter(|(_, known)| known.is_none());
            missing.extend(open.map(|(arch, _)| (n, arch)));
            parts.push(known.into_iter().map(Option::unwrap_or_default).collect());
        }
        let lowered: Mutex<HashMap<(usize, NvvmArch), Alike>> = Mutex::default();
        let asked: Vec<OnceLock<Asked>> = sessions.iter().map(|_| OnceLock::new()).collect();
        let lower = |open: usize| -> Result<Vec<Job<'_>>, CudaBuilderError> {
            let place @ (n, arch) = missing[open];
            let (session, arch) = (&sessions[n], sessions[n].builder.archs[arch]);
            let asked = match asked[n].get() {
                Some(asked) => asked,
                None => {
                    let (rustc, args) = (&session.toolchain.rustc, &session.builder.build_args);
                    let made = Asked::of(&session.kernel_crate, rustc, args)?;
                    asked[n].get_or_init(|| made)
                }
            };
            let alike = asked.first_alike(arch);
            let made = jobs::lock(&lowered).get(&(n, alike)).cloned();
            let (parts, wanted) = if let Some(made) = made { made } else { session.lower(alike, None)? };
            jobs::lock(&lowered).insert((n, alike), (Arc::clone(&parts), Arc::clone(&wanted)));
            let mut made = session.jobs(place, arch, alike, false, &parts)?;
            if let Some(specific) =
                session.specific(arch).filter(|_| wanted.contains(&arch.capability_value()))
            {
                let specific = specific?;
                session.check_one_file(specific)?;
                let (parts, _) = session.lower(specific, Some(specific))?;
                made.extend(session.jobs(place, specific, specific, true, &parts)?);
            }
            Ok(made)
        };
        let compile = |Job { session, place, arch, alike, is_specific, parts, part }: Job<'_>| {
            let part = session.compile(arch, alike, &parts[part])?;
            Ok((place, Part { is_specific, ..part }))
        };
        for ((n, arch), part) in jobs::run(missing.len(), lower, compile)? {
            parts[n][arch].push(part);
        }
        for (n, arch) in missing {
            let (session, parts) = (&sessions[n], &mut parts[n][arch]);
            let arch = session.builder.archs[arch];
            parts.sort_by(|a, b| (a.is_specific, &a.family).cmp(&(b.is_specific, &b.family)));
            if session.builder.edit_ir.is_some() {
                continue;
            }
            let stamp = serde_json::to_vec_pretty(&(session.fingerprint(arch), parts)).unwrap_or_default();
            files::replace(&session.stamp(arch), &stamp)?;
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
            None => Some(Err(CudaBuilderError::UnknownArch(format!("{arch}a")))),
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
        Err(CudaBuilderError::Options(reason))
    }

    /// Creates a job for each part, longest first, so that no core starts a long one at the end.
    fn jobs(
        &self,
        place: (usize, usize),
        arch: NvvmArch,
        alike: NvvmArch,
        is_specific: bool,
        parts: &Arc<[Lowered]>,
    ) -> Result<Vec<Job<'_>>, CudaBuilderError> {
        self.outputs().write_ir(arch, parts, &self.toolchain.llvm)?;
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&part| Reverse(parts[part].text.len()));
        let job =
            |part| Job { session: self, place, arch, alike, is_specific, parts: Arc::clone(parts), part };
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
