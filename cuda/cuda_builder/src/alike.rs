//! Finds the architectures that the sources distinguish. All others share one compilation.
//!
//! A source tests for an architecture by a literal, `cfg(target_feature = "sm_80")`, or by the `min_arch` or `arch` of
//! `#[kernel]`. So every tested architecture is named in a file of the crate, of its dependencies, or of the crates that
//! generate code for it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;
use crate::files;
use crate::fingerprint;
use crate::packages::{self, KernelCrate};

/// The package that defines `#[kernel]`. Its sources are not searched: the code that it generates only tests for the
/// architectures in `min_arch` and `arch`.
const MACROS: &str = "ferrowarp-cuda-std-macros";

/// The architectures that sources test for, such as `compute_80`. `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked(Option<BTreeSet<String>>);

impl Asked {
    /// Finds the architectures that the sources of `kernel_crate` test for, including its dependencies and the crates that
    /// run while they are compiled.
    pub fn of(
        kernel_crate: &KernelCrate,
        rustc: &Path,
        build_args: &[String],
    ) -> Result<Asked, CudaBuilderError> {
        let mut asked = BTreeSet::new();
        for folder in kernel_crate.sources.iter().filter(|folder| !is_of_macros(folder)) {
            for file in fingerprint::files(folder)? {
                let text = files::read(&file).unwrap_or_default();
                if !read(&String::from_utf8_lossy(&text), &mut asked) {
                    return Ok(Asked(None));
                }
            }
        }
        for folder in packages::fetched(kernel_crate, rustc, build_args, MACROS)? {
            let Some(folder) = folder else { return Ok(Asked(None)) };
            let is_known = packages::asking_files(&folder)
                .iter()
                .all(|text| read(&String::from_utf8_lossy(text), &mut asked));
            if !is_known {
                return Ok(Asked(None));
            }
        }
        Ok(Asked(Some(asked)))
    }

    /// The first architecture for which rustc compiles the sources to the same code as for `arch`.
    pub fn first_alike(&self, arch: NvvmArch) -> NvvmArch {
        let Some(asked) = &self.0 else { return arch };
        let answers = |arch: NvvmArch| -> Vec<String> {
            arch.all_target_features().into_iter().filter(|name| asked.contains(name)).collect()
        };
        let of_arch = answers(arch);
        let mut base = NvvmArch::ALL.iter().copied().filter(|earlier| earlier.is_base_variant());
        base.find(|earlier| *earlier <= arch && answers(*earlier) == of_arch).unwrap_or(arch)
    }
}

/// Whether the folder holds the package that defines `#[kernel]`.
fn is_of_macros(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| line == format!("name = \"{MACROS}\""))
}

/// Whether PTX for `first` becomes PTX for `arch` if only `.target` is changed. It does not if either is for GPUs of one
/// kind only, or if they need different PTX versions.
pub(crate) fn may_share_ptx(first: NvvmArch, arch: NvvmArch) -> bool {
    let is_base = first.is_base_variant() && arch.is_base_variant();
    is_base && first <= arch && first.ptx_version() == arch.ptx_version()
}

/// Turns PTX for `first` into PTX for `arch`; [`may_share_ptx`] must hold for the two.
pub(crate) fn retarget(ptx: String, first: NvvmArch, arch: NvvmArch) -> Result<String, CudaBuilderError> {
    if first == arch {
        return Ok(ptx);
    }
    let directive = format!("\n.target {}", first.processor());
    let at =
        ptx.find(&directive).filter(|at| !ptx[at + directive.len()..].starts_with(char::is_alphanumeric));
    let Some(at) = at else {
        let reason = format!("what was made for {first} has no `{}`", directive.trim_start());
        return Err(CudaBuilderError::Proof { arch, reason });
    };
    let rest = &ptx[at + directive.len()..];
    Ok(format!("{}\n.target {}{rest}", &ptx[..at], arch.processor()))
}

/// Adds the architectures that `text` names. Returns false if `text` tests for an architecture without naming it.
fn read(text: &str, asked: &mut BTreeSet<String>) -> bool {
    for word in ["sm_", "compute_"] {
        for (at, _) in text.match_indices(word) {
            let name = digits(&text[at + word.len()..]);
            if !name.is_empty() {
                let letter = text[at + word.len() + name.len()..].chars().next();
                let letter = letter.filter(|c| matches!(c, 'a' | 'f')).map(String::from).unwrap_or_default();
                asked.insert(format!("compute_{name}{letter}"));
            } else if text[..at].ends_with('"') {
                return false;
            }
        }
    }
    asked.extend(
        packages::specific_archs(text).flat_map(|it| [format!("compute_{it}"), format!("compute_{it}a")]),
    );
    for (at, word) in text.match_indices("min_arch") {
        let Some(value) = text[at + word.len()..].trim_start().strip_prefix('=') else { continue };
        let (value, is_comparison) = (value.trim_start(), value.starts_with('='));
        let number = digits(value);
        let ends = value[number.len()..].trim_start().starts_with([',', ';', ')', '`']);
        match (is_comparison, !number.is_empty() && ends) {
            (true, _) => {}
            (false, true) => drop(asked.insert(format!("compute_{number}"))),
            (false, false) => return false,
        }
    }
    true
}

/// The digits at the start of `text`.
fn digits(text: &str) -> &str {
    let len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Asked {
        let mut names = BTreeSet::new();
        Asked(read(text, &mut names).then_some(names))
    }

    #[test]
    fn architectures_between_which_nothing_is_asked_are_alike() {
        use NvvmArch::*;
        let asked = asked("#[cfg(target_feature = \"sm_80\")] #[kernel(min_arch = 90)] let asm_x = y;");
        let first = [Compute75, Compute80, Compute89, Compute90, Compute90a, Compute100, Compute121]
            .map(|arch| asked.first_alike(arch));
        assert_eq!(first, [Compute75, Compute80, Compute80, Compute90, Compute90, Compute90, Compute90]);
    }

    #[test]
    fn variants_are_told_apart_where_one_is_asked_for() {
        use NvvmArch::*;
        let asked = asked("cfg!(target_feature = \"compute_100a\")");
        let first = [Compute80, Compute100, Compute100a, Compute120].map(|arch| asked.first_alike(arch));
        assert_eq!(first, [Compute75, Compute75, Compute100a, Compute75]);
    }

    #[test]
    fn a_kernel_of_one_architecture_sets_that_apart() {
        use NvvmArch::*;
        let asked = asked("#[kernel(max_threads = 384, arch = \"90a\")]");
        let first = [Compute80, Compute90, Compute90a, Compute100].map(|arch| asked.first_alike(arch));
        assert_eq!(first, [Compute75, Compute90, Compute90a, Compute90]);
    }

    #[test]
    fn ptx_is_given_to_later_architectures_of_its_version_alone() {
        use NvvmArch::*;
        assert!(may_share_ptx(Compute90, Compute100) && may_share_ptx(Compute90, Compute90));
        for (first, arch) in [(Compute100, Compute90), (Compute90, Compute100a), (Compute90, Compute103)] {
            assert!(!may_share_ptx(first, arch), "{first} {arch}");
        }
        let ptx = ".version 8.6\n.target sm_90\n.address_size 64\n";
        let given = retarget(ptx.to_owned(), Compute90, Compute100).unwrap();
        assert_eq!(given, ptx.replace("90", "100"));
        for wrong in [".target sm_90a\n", "\n.target sm_90a\n", ""] {
            let error = retarget(wrong.to_owned(), Compute90, Compute100).unwrap_err().to_string();
            assert!(error.contains("`.target sm_90`"), "{error}");
        }
    }

    #[test]
    fn questions_that_cannot_be_read_leave_all_apart() {
        for text in [
            "format!(\"sm_{number}\")",
            "concat!(\"compute_\", 90)",
            "#[kernel(min_arch = ARCH)]",
            "#[kernel(min_arch = 10 * N)]",
        ] {
            assert_eq!(asked(text), Asked(None), "{text}");
            assert_eq!(asked(text).first_alike(NvvmArch::Compute100), NvvmArch::Compute100);
        }
        assert_ne!(asked("meta.min_arch == least, min_arch: u32, the min_arch of"), Asked(None));
    }
}
