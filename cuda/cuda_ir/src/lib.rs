//! Edits the module that rustc writes so that libNVVM accepts it, and reads the resulting PTX.
//!
//! rustc runs only LLVM passes that keep signatures, statics and barriers as in the source (see `cuda_builder`), so the
//! edits find them intact. Everything else is optimised later, in libNVVM, which knows shared memory and barriers. Each edit
//! is a function of a module alone; `tests/edits` holds an input and the expected output for each.

pub mod absolutes;
pub mod atomics;
mod bodies;
mod bounds;
mod by_value;
pub mod byte_parameters;
mod convergent;
mod decimal;
mod divisors;
mod families;
pub mod last_labels;
mod lex;
mod libm;
pub mod local_addresses;
pub mod locations;
mod messages;
mod module;
mod names;
pub mod nan_bits;
pub mod narrow_stores;
pub mod negations;
mod noalias;
mod overflow;
mod panics;
mod parts;
mod place;
pub mod places;
mod prune;
pub mod ptx;
pub mod reconverge;
mod remainders;
pub mod sign_extensions;
mod target;
pub mod tensor_maps;
pub mod unwritten;
mod wide;

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use module::Module;
pub use parts::Cut;
pub use target::{DATA_LAYOUT, IR_VERSION};

/// A hash of this crate's sources, which distinguishes the output of different versions.
#[doc(hidden)]
pub const SOURCES: &str = env!("SOURCES");

/// An edit that failed because the module does not have the form it expects.
#[derive(Clone, Debug, thiserror::Error)]
#[error("edit `{edit}` of the LLVM IR failed at `{item}`: {reason}")]
pub struct IrError {
    /// The edit's name, as in [`apply`].
    pub edit: &'static str,
    /// The symbol or the start of the line it failed at.
    pub item: String,
    /// The error, and the fix if there is one.
    pub reason: String,
}

impl IrError {
    fn new(edit: &'static str, item: impl Into<String>, reason: impl Into<String>) -> IrError {
        IrError { edit, item: item.into(), reason: reason.into() }
    }
}

/// A device memory for statics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// One copy per block: `.shared`.
    Shared,
    /// Read-only for kernels, cached: `.const`.
    Constant,
}

/// A static that an edit moved to another memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedStatic {
    /// The symbol, without the `@`.
    pub symbol: String,
    /// Its memory.
    pub space: Space,
}

/// A module ready for a back end, and what must be in the PTX.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The name of the part, such as `softmax.k1_naive`; empty for a module that was not cut.
    pub family: String,
    /// The module's text.
    pub text: String,
    /// Symbols of the kernels.
    pub kernels: Vec<String>,
    /// The marked statics that kernels reach.
    pub statics: Vec<PlacedStatic>,
}

/// The optional edits. All others are always made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edits {
    /// How the module is cut.
    pub cut: Cut,
    /// Whether calls of the crate `libm` become calls of libdevice.
    pub override_libm: bool,
    /// Whether immutable statics are placed in constant memory, as far as they fit.
    pub constant_memory: bool,
    /// The last path segment of the kernels to keep, such as `only_90a`; `None` keeps all. A module that is not cut then has
    /// this name.
    pub only: Option<String>,
    /// The library whose kernels to keep, without those of the libraries that it depends on; `None` keeps all.
    pub library: Option<String>,
}

/// Runs every edit on rustc's module, and cuts it into parts.
pub fn lower(text: &str, edits: &Edits) -> Result<Vec<Lowered>, IrError> {
    let mut module = Module::parse(text)?;
    let families = families::take(&mut module);
    if let Some(segment) = &edits.only {
        families::keep_only(&mut module, &families, |path| path.rsplit("::").next() == Some(segment));
    }
    if let Some(library) = &edits.library {
        families::keep_only(&mut module, &families, |path| path.split("::").next() == Some(library));
        // All its kernels may be for later architectures.
        if !module.items.iter().any(module::Item::is_kernel) {
            return Ok(Vec::new());
        }
    }
    let over_aligned = by_value::take(&mut module);
    if edits.override_libm {
        libm::override_calls(&mut module);
    }
    panics::route(&mut module)?;
    prune::keep_reachable(&mut module)?;
    wide::convert(&mut module)?;
    remainders::call(&mut module)?;
    decimal::shrink(&mut module)?;
    bounds::set(&mut module)?;
    by_value::place(&mut module, &over_aligned)?;
    by_value::point_to(&mut module)?;
    tensor_maps::mark(&mut module);
    if edits.constant_memory {
        place::mark_constants(&mut module);
    }
    let statics = place::place_statics(&mut module)?;
    convergent::mark(&mut module)?;
    target::adapt(&mut module)?;
    let mut parts = parts::cut(&module, &families, &statics, edits.cut);
    if let Some(segment) = &edits.only {
        parts.iter_mut().filter(|part| part.family.is_empty()).for_each(|part| part.family = segment.clone());
    }
    Ok(parts)
}

/// The compute capabilities, such as 90, of kernels that are only for `compute_90a` and therefore missing in rustc's module
/// `text`, which is for another architecture.
pub fn wanted_archs(text: &str) -> BTreeSet<u32> {
    families::wanted_archs(text)
}

/// The source of [`for_optimisation`], [`for_no_optimisation`] and the edits of the back ends' output. Their cached output
/// is valid while it stays the same.
pub const LAST_EDITS: [&str; 21] = [
    include_str!("bodies.rs"),
    include_str!("last_labels.rs"),
    include_str!("tensor_maps.rs"),
    include_str!("noalias.rs"),
    include_str!("divisors.rs"),
    include_str!("overflow.rs"),
    include_str!("absolutes.rs"),
    include_str!("byte_parameters.rs"),
    include_str!("atomics.rs"),
    include_str!("nan_bits.rs"),
    include_str!("narrow_stores.rs"),
    include_str!("negations.rs"),
    include_str!("local_addresses.rs"),
    include_str!("reconverge.rs"),
    include_str!("sign_extensions.rs"),
    include_str!("unwritten/mod.rs"),
    include_str!("unwritten/flow.rs"),
    include_str!("unwritten/function.rs"),
    include_str!("unwritten/opcode.rs"),
    include_str!("unwritten/read.rs"),
    include_str!("unwritten/tokens.rs"),
];

/// Whether LLVM's passes must run on the module even at level 0: they remove the copies of a kernel's struct parameters.
pub fn needs_passes(text: &str) -> bool {
    text.contains("\"nvvm.grid_constant\"")
}

/// Prepares the module's text for libNVVM without optimisation. LLVM's passes may have run on it. The order of use lists,
/// which they note for other passes, is removed: it does not hold after the edit.
pub fn for_no_optimisation(text: &str) -> Result<String, IrError> {
    let is_order = |line: &&str| line.trim_start().starts_with("uselistorder");
    let text: String = text.split_inclusive('\n').filter(|line| !is_order(line)).collect();
    let mut module = Module::parse(&text)?;
    overflow::widen(&mut module)?;
    Ok(atomics::split_local(&module.to_string()))
}

/// Prepares the module's text for libNVVM with optimisation, after LLVM's passes.
pub fn for_optimisation(text: &str) -> String {
    atomics::split_local(&sign_extensions::hide(&divisors::hide(&noalias::remove(text))))
}

/// Splits the part into one part per kernel, if the kernels share nothing.
pub fn one_by_one(part: &Lowered) -> Result<Vec<Lowered>, IrError> {
    let module = Module::parse(&part.text)?;
    let families = part.kernels.iter().map(|kernel| (kernel.clone(), format!("part::{kernel}"))).collect();
    Ok(parts::cut(&module, &families, &part.statics, Cut::Families))
}

/// Runs the one edit named `edit`: `libm`, `panics`, `prune`, `bounds`, `by_value`, `tensor_maps`, `constants`, `place`,
/// `convergent`, `target`, `overflow`, `wide`, `remainders` or `decimal`.
///
/// The files in `tests/edits` are checked with it.
pub fn apply(edit: &str, text: &str) -> Result<String, IrError> {
    let mut module = Module::parse(text)?;
    match edit {
        "libm" => libm::override_calls(&mut module),
        "panics" => panics::route(&mut module)?,
        "prune" => prune::keep_reachable(&mut module)?,
        "bounds" => bounds::set(&mut module)?,
        "by_value" => {
            let over_aligned = by_value::take(&mut module);
            by_value::place(&mut module, &over_aligned)?;
            by_value::point_to(&mut module)?;
        }
        "tensor_maps" => tensor_maps::mark(&mut module),
        "constants" => place::mark_constants(&mut module),
        "place" => drop(place::place_statics(&mut module)?),
        "convergent" => convergent::mark(&mut module)?,
        "target" => target::adapt(&mut module)?,
        "overflow" => overflow::widen(&mut module)?,
        "wide" => wide::convert(&mut module)?,
        "remainders" => remainders::call(&mut module)?,
        "decimal" => decimal::shrink(&mut module)?,
        _ => return Err(IrError::new("apply", edit, "there is no edit of this name")),
    }
    Ok(module.to_string())
}

/// The symbol without its `@` and quotes.
fn plain(symbol: &str) -> &str {
    symbol.trim_start_matches('@').trim_matches('"')
}

/// The path of a v0-mangled symbol, without crate hashes: `core::option::expect_failed`.
///
/// If several internal symbols have one name, LLVM numbers them, without a dot for a GPU; the number is omitted. A symbol
/// can refer back to its own parts, so a short one may stand for a path of any length; an unreasonably long path gives
/// `None`.
fn path_of(symbol: &str) -> Option<String> {
    let symbol = plain(symbol);
    let digits = symbol.len() - symbol.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let mut names = (0..=digits).map(|n| &symbol[..symbol.len() - n]);
    let name = names.find_map(|name| rustc_demangle::try_demangle(name).ok())?;
    let mut path = ShortText(String::new());
    write!(path, "{name:#}").ok()?;
    Some(path.0)
}

/// A text that cannot grow beyond 64 KiB.
struct ShortText(String);

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > 1 << 16 {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_of_a_library_are_kept_and_there_may_be_none() {
        let kernel = |name: &str, path: &str| {
            format!(
                "@__ferrowarp_family_of_{name} = constant [5 x i8] c\"{path}\", align 1\n\
                 define ptx_kernel void @{name}() {{\n  ret void\n}}\n"
            )
        };
        let head = "target datalayout = \"e-i64:64\"\ntarget triple = \"nvptx64-nvidia-cuda\"\n".to_owned();
        let text = head + &kernel("k", "a::m") + &kernel("l", "b::n");
        let kept = |library: Option<&str>| {
            let (cut, library) = (Cut::Families, library.map(str::to_owned));
            let edits = Edits { cut, override_libm: false, constant_memory: false, only: None, library };
            let parts = lower(&text, &edits).unwrap();
            parts.into_iter().flat_map(|part| part.kernels).collect::<Vec<_>>().join(" ")
        };
        assert_eq!([None, Some("a"), Some("c")].map(kept), ["k l", "k", ""]);
    }

    #[test]
    fn paths_are_read_and_endless_ones_are_none() {
        assert_eq!(
            path_of("@_RNvNtCsabc_4core6option13expect_failed").unwrap(),
            "core::option::expect_failed"
        );
        assert_eq!(
            path_of("@_RNvNtCsabc_4core6option13expect_failed107").unwrap(),
            "core::option::expect_failed"
        );
        // `a::<(A, A)>`, where each A is the tuple before it twice: 2 to the power of 40 words.
        let mut symbol = "@_RINvC1a1f".to_owned();
        let mut before = "u".to_owned();
        for _ in 0..40 {
            // The mangling counts positions after `_R`, in base 62.
            let at = symbol.len() - "@_R".len();
            symbol += &format!("T{before}{before}E");
            before = format!("B{}", base_62(at));
        }
        symbol += "E";
        assert_eq!(path_of(&symbol), None);
    }

    fn base_62(number: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let Some(mut number) = number.checked_sub(1) else { return "_".to_owned() };
        let mut digits = vec![b'_'];
        loop {
            digits.insert(0, DIGITS[number % 62]);
            number /= 62;
            if number == 0 {
                return String::from_utf8(digits).unwrap();
            }
        }
    }
}
