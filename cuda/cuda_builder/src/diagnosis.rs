//! Finds the kernels and source lines on which a back end fails.

use crate::arch::NvvmArch;
use crate::backend::Compiler;
use crate::cargo::CargoOptions;
use crate::codegen::CodegenOptions;
use crate::error::{self, CudaBuilderError};
use cuda_ir::{Edits, IrError, Lowered, places};

/// Finds source lines in a module's text.
type Look<'a> = dyn Fn(&str) -> Result<Vec<String>, IrError> + 'a;

/// The inputs for compiling the crate again.
pub(crate) struct Diagnosis<'a> {
    pub compiler: &'a Compiler,
    pub options: &'a CodegenOptions,
    pub edits: Edits,
    /// Emits the crate's module with other options.
    pub emit: &'a dyn Fn(NvvmArch, &CargoOptions) -> Result<String, CudaBuilderError>,
    pub cargo_options: CargoOptions,
}

impl Diagnosis<'_> {
    /// Adds to the error of the part `lowered` the kernels and lines that cause it.
    pub fn find(&self, error: CudaBuilderError, lowered: &Lowered) -> CudaBuilderError {
        let kernels = self.kernels(lowered);
        // If finding the lines fails, the error must still be reported.
        let timed_out = matches!(error, CudaBuilderError::CompilerTimedOut { .. });
        let look: &Look<'_> = if timed_out { &places::of_loops } else { &places::of_unsupported };
        let places = self.places(&kernels, look).unwrap_or_default();
        error.about(&kernels, &places)
    }

    /// The error for a part whose PTX calls the undefined `function`.
    pub fn undefined(&self, function: &str, lowered: &Lowered) -> CudaBuilderError {
        let is_of_source = lowered.text.contains(&format!("@{function}("));
        let of_calls = |text: &str| places::of_calls(text, function);
        let look: &Look<'_> = if is_of_source { &of_calls } else { &places::of_unsupported };
        let places = self.places(&lowered.kernels, look).unwrap_or_default();
        let reason = if is_of_source {
            format!("`{function}` is called but defined nowhere: neither in the crate nor in libdevice")
        } else {
            format!(
                "`{function}` is called, which the source does not call: the back end's name for {}",
                error::LIBRARY_CALL
            )
        };
        CudaBuilderError::Proof { arch: self.options.arch, reason: reason + &error::at(&places) }
    }

    /// The kernels that fail when compiled separately, or all.
    fn kernels(&self, lowered: &Lowered) -> Vec<String> {
        if lowered.kernels.len() < 2 {
            return lowered.kernels.clone();
        }
        let Ok(alone) = cuda_ir::one_by_one(lowered) else { return lowered.kernels.clone() };
        let fails = |part: &&Lowered| self.compiler.compile(&part.text, self.options).is_err();
        let kernels: Vec<String> = alone.iter().filter(fails).flat_map(|part| part.kernels.clone()).collect();
        if kernels.is_empty() { lowered.kernels.clone() } else { kernels }
    }

    /// The lines that `look` finds in these kernels, or the kernels' own lines, from a module with debug info.
    fn places(&self, kernels: &[String], look: &Look<'_>) -> Result<Vec<String>, CudaBuilderError> {
        let options = CargoOptions { line_tables: true, ..self.cargo_options.clone() };
        let module = (self.emit)(self.options.arch, &options)?;
        let mut alone = Vec::new();
        for part in cuda_ir::lower(&module, &self.edits)? {
            alone.extend(cuda_ir::one_by_one(&part)?);
        }
        alone.retain(|part| part.kernels.iter().any(|kernel| kernels.contains(kernel)));
        let mut places = Vec::new();
        for look in [look, &places::of_kernels] {
            if places.is_empty() {
                for part in &alone {
                    places.extend(look(&part.text)?);
                }
            }
        }
        places.sort();
        places.dedup();
        Ok(places)
    }
}
