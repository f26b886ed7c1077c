//! The list of the kernels of a program, to which `#[kernel]` adds each.

use super::KernelMeta;

/// All kernels of this program.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static KERNELS: [&'static KernelMeta];

/// Returns the kernels of this program whose source file's path begins with `folder`, sorted by name.
///
/// Miri has no linker that could collect them, and has none.
pub fn kernels_in(folder: &str) -> Vec<&'static KernelMeta> {
    let all: &[&KernelMeta] = if cfg!(miri) { &[] } else { &KERNELS };
    let mut found: Vec<_> = all.iter().copied().filter(|meta| meta.file.starts_with(folder)).collect();
    found.sort_by_key(|meta| meta.name);
    found
}
