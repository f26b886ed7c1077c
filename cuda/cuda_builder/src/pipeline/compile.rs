//! Compiles a part to PTX and machine code in the cache, at the first optimisation level at which no tool exceeds its limit.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Part, Session};
use crate::alike;
use crate::arch::NvvmArch;
use crate::cache::Made;
use crate::cargo::{self, CargoOptions};
use crate::codegen::CodegenOptions;
use crate::diagnosis::Diagnosis;
use crate::error::{self, CudaBuilderError};
use crate::progress::FellBack;
use crate::ptxas::{self, KernelResources};
use crate::{fingerprint, process, proof, ptx_version, stack};
use cuda_ir::{Lowered, locations};

/// Time limit of a tool for one kernel, to find the kernel on which it exceeds its limit.
const FOR_ONE_KERNEL: Duration = Duration::from_secs(30);

impl Session<'_> {
    /// Puts a part's PTX and machine code into the cache, if missing. The back end's PTX has an entry of its own, which
    /// architectures share.
    ///
    /// Sources have the same `cfg`s for `alike` as for `arch`, so both have the same IR. If they may also share PTX, the
    /// part is compiled for `alike`.
    pub(super) fn compile(
        &self,
        arch: NvvmArch,
        alike: NvvmArch,
        lowered: &Lowered,
    ) -> Result<Part, CudaBuilderError> {
        let (text, locations) = locations::mark(&lowered.text);
        if !locations.0.is_empty() {
            let (part, made) = self.compile_text(arch, alike, lowered, &text)?;
            if locations.fit(&made.ptx, made.assembled.as_ref().map(|(code, _)| &code[..])) {
                return Ok(Part { locations: locations.0, ..part });
            }
        }
        Ok(self.compile_text(arch, alike, lowered, &lowered.text)?.0)
    }

    /// The same for `text`, which differs from the part's only in the locations.
    fn compile_text(
        &self,
        arch: NvvmArch,
        alike: NvvmArch,
        lowered: &Lowered,
        text: &str,
    ) -> Result<(Part, Made), CudaBuilderError> {
        let shares = self.builder.compile_once && alike::may_share_ptx(alike, arch);
        let options = self.builder.codegen(if shares { alike } else { arch });
        let ptx_key = fingerprint::of_parts(&[text, &format!("{options:?}"), &self.compiler.id]);
        let ptxas = self.ptxas.as_deref().map(fingerprint::of_tool).unwrap_or_default();
        let sources = [ptxas::SOURCE, ptx_version::SOURCE];
        let key = fingerprint::of_parts(&[&ptx_key, &arch.to_string(), &ptxas, sources[0], sources[1]]);
        let part = Part { is_specific: false, family: lowered.family.clone(), key, locations: Vec::new() };
        if let Some(made) = self.cached(&part.key, text.len()) {
            return Ok((part, made));
        }
        let made = match self.cached(&ptx_key, text.len()) {
            Some(made) => made,
            None => self.compile_anew(lowered, text, &options, &ptx_key)?,
        };
        let ptx = ptx_version::lower(&alike::retarget(made.ptx, options.arch, arch)?, arch);
        let assemble = |ptxas: &PathBuf| self.assemble(ptxas, &ptx, arch, &part);
        let what = error::named_kernels(&lowered.kernels);
        let assembled = self.watch.during(what, "ptxas", || self.ptxas.as_ref().map(assemble).transpose())?;
        let made = Made { ptx, assembled, fell_back: made.fell_back };
        self.cache.put(&part.key, &made)?;
        Ok((part, made))
    }

    /// The machine code of a part, and the resources of its kernels.
    fn assemble(
        &self,
        ptxas: &Path,
        ptx: &str,
        arch: NvvmArch,
        part: &Part,
    ) -> Result<(Vec<u8>, Vec<KernelResources>), CudaBuilderError> {
        let start = Instant::now();
        let assembled = ptxas::assemble(ptxas, ptx, &self.outputs().ptx(arch, &part.family), arch)?;
        self.count(|times| times.ptxas += start.elapsed());
        Ok(assembled)
    }

    /// The cache's entry for `key`, unless it was compiled at a lower level and the time limit for its module, of `bytes`
    /// bytes, is now longer.
    pub(super) fn cached(&self, key: &str, bytes: usize) -> Option<Made> {
        let has_time = |fell_back: &FellBack| process::limit_at_level(false, bytes) > fell_back.limit;
        self.cache.get(key).filter(|made| !made.fell_back.as_ref().is_some_and(has_time))
    }

    fn compile_anew(
        &self,
        lowered: &Lowered,
        text: &str,
        options: &CodegenOptions,
        key: &str,
    ) -> Result<Made, CudaBuilderError> {
        let start = Instant::now();
        let (ptx, options, fell_back) = self.compile_in_time(lowered, text, options)?;
        if let Some(function) = proof::undefined(&ptx) {
            return Err(self.diagnose(&options, |diagnose| diagnose.undefined(&function, lowered)));
        }
        proof::check(lowered, &ptx, options.arch)?;
        self.count(|times| {
            times.backend += start.elapsed();
            times.compiled += 1;
        });
        self.watch.count();
        let made = Made { ptx: stack::note(ptx), assembled: None, fell_back };
        self.cache.put(key, &made)?;
        Ok(made)
    }

    /// The part's PTX at the first level at which every tool meets its time limit.
    fn compile_in_time(
        &self,
        lowered: &Lowered,
        text: &str,
        options: &CodegenOptions,
    ) -> Result<(String, CodegenOptions, Option<FellBack>), CudaBuilderError> {
        let what = error::named_kernels(&lowered.kernels);
        let levels = self.builder.levels();
        let mut tried = Vec::new();
        for (n, &opt_level) in levels.iter().enumerate() {
            let options = CodegenOptions { opt_level, ..options.clone() };
            let limit = process::limit_at_level(n + 1 == levels.len(), text.len());
            let start = Instant::now();
            let compile = || self.compiler.compile(text, &options);
            let error = match self.watch.compiling(what.clone(), opt_level, limit, compile) {
                Ok(ptx) => {
                    let fell_back = tried.first().map(|(tool, _, limit): &(String, _, _)| FellBack {
                        kernels: lowered.kernels.clone(),
                        opt_level,
                        took: start.elapsed(),
                        tool: tool.clone(),
                        tried: tried.iter().map(|(_, level, _)| *level).collect(),
                        limit: *limit,
                    });
                    return Ok((ptx, options, fell_back));
                }
                Err(CudaBuilderError::CompilerTimedOut { tool, .. }) => {
                    tried.push((tool, opt_level, limit));
                    continue;
                }
                Err(error) => error,
            };
            return Err(self.watch.during(what, "the builder", || {
                self.diagnose(&options, |diagnose| diagnose.find(error, lowered))
            }));
        }
        let tool = tried.first().map(|(tool, ..)| tool.clone()).unwrap_or_default();
        let tries = tried.into_iter().map(|(_, level, limit)| (Some(level), limit)).collect();
        let error = CudaBuilderError::timed_out(tool, options.arch, tries);
        let lowest = levels.last().copied().unwrap_or_default();
        let options = CodegenOptions { opt_level: lowest, ..options.clone() };
        // Tries each kernel separately.
        let limit = process::limit_at_level(true, 0).min(FOR_ONE_KERNEL);
        Err(self.watch.compiling(what, lowest, limit, || {
            self.diagnose(&options, |diagnose| diagnose.find(error, lowered))
        }))
    }

    /// Adds the kernels and lines that cause the error.
    fn diagnose(
        &self,
        options: &CodegenOptions,
        find: impl FnOnce(&Diagnosis<'_>) -> CudaBuilderError,
    ) -> CudaBuilderError {
        let emit = |arch: NvvmArch, options: &CargoOptions| {
            cargo::emit_ir(&self.kernel_crate, &self.packages, &self.toolchain, arch, options, &self.work)
        };
        let (edits, cargo_options) = (self.builder.edits(None), self.cargo_options());
        find(&Diagnosis { compiler: &self.compiler, options, edits, emit: &emit, cargo_options })
    }
}
