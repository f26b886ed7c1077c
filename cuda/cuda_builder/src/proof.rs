//! Checks the PTX against the source.

use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;
use cuda_ir::ptx::Ptx;
use cuda_ir::{Lowered, Space};

/// Functions that the driver defines for every module (CUDA C++ Programming Guide, "Formatted output" and
/// "Dynamic global memory allocation").
const SYSTEM_CALLS: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Checks that no kernel is missing, and that every marked static is in its memory.
///
/// A static that the PTX does not mention is not an error: libNVVM knows its memory and removed it, for example because it
/// folded a constant's value into the code.
pub(crate) fn check(lowered: &Lowered, ptx: &str, arch: NvvmArch) -> Result<(), CudaBuilderError> {
    let fail = |reason: String| Err(CudaBuilderError::Proof { arch, reason });
    let ptx = Ptx::parse(ptx);
    for kernel in &lowered.kernels {
        if !ptx.entries().any(|entry| entry.name == *kernel) {
            return fail(format!("the kernel `{kernel}` is missing"));
        }
    }
    for placed in &lowered.statics {
        let expected = match placed.space {
            Space::Shared => ".shared",
            Space::Constant => ".const",
        };
        let wrong = ptx.variables.iter().find(|v| is_part_of(&v.name, &placed.symbol) && v.space != expected);
        if let Some(wrong) = wrong {
            return fail(format!("the static `{}` stands in {}, not in {expected}", wrong.name, wrong.space));
        }
    }
    Ok(())
}

/// A function that the PTX calls and does not define, if any.
pub(crate) fn undefined(ptx: &str) -> Option<String> {
    let functions = Ptx::parse(ptx).functions;
    let undefined = |name: &str| !SYSTEM_CALLS.contains(&name);
    functions.into_iter().find(|f| f.is_extern && undefined(&f.name)).map(|f| f.name)
}

/// libNVVM splits an array with constant indices into `NAME_$_0`, `NAME_$_1` and so on.
fn is_part_of(name: &str, symbol: &str) -> bool {
    name.strip_prefix(symbol).is_some_and(|rest| rest.is_empty() || rest.starts_with("_$_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_ir::PlacedStatic;

    fn reason(ptx: &str) -> Option<String> {
        let lowered = Lowered {
            family: String::new(),
            text: String::new(),
            kernels: vec!["k".to_owned()],
            statics: vec![PlacedStatic { symbol: "TILE".to_owned(), space: Space::Shared }],
        };
        check(&lowered, ptx, NvvmArch::Compute90).err().map(|e| e.to_string())
    }

    #[test]
    fn statics_must_stand_where_they_belong() {
        assert_eq!(reason(".visible .entry k() { .shared .b8 TILE[4]; ret; }"), None);
        assert_eq!(
            reason(".visible .entry k() { .shared .f32 TILE_$_0; .shared .f32 TILE_$_1; ret; }"),
            None
        );
        assert_eq!(reason(".global .b8 TILES[4]; .visible .entry k() { ret; }"), None);
        let wrong = reason(".global .align 4 .b8 TILE[4];\n.visible .entry k() { ret; }").unwrap();
        assert!(wrong.contains("`TILE` stands in .global, not in .shared"), "{wrong}");
        let wrong = reason(".visible .entry k() { .local .b8 TILE_$_0[4]; ret; }").unwrap();
        assert!(wrong.contains(".local"), "{wrong}");
    }

    #[test]
    fn kernels_and_callees_must_be_there() {
        assert!(reason(".visible .entry other() { ret; }").unwrap().contains("`k` is missing"));
        let of = |function: &str| {
            undefined(&format!(".extern .func {function} (); .visible .entry k() {{ ret; }}"))
        };
        assert_eq!(of("expf").as_deref(), Some("expf"));
        assert_eq!(of("(.param .b32 r) vprintf"), None);
    }
}
