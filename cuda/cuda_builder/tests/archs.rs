//! Every architecture compiles, in the PTX version of its first driver if its instructions allow.

use crate::common::builder;
use cuda_builder::NvvmArch;

#[test]
fn every_architecture_compiles() {
    let built = builder("archs").archs(NvvmArch::ALL).build_all().unwrap();
    assert_eq!(built.modules.len(), NvvmArch::ALL.len());
    for module in built.modules {
        let text = std::fs::read_to_string(&module.path).unwrap();
        let target = text.lines().find_map(|line| line.strip_prefix(".target ")).unwrap_or_default();
        let target = target.split(',').next().unwrap_or_default().trim();
        assert_eq!(target, module.arch.processor());
        let version = text.lines().find_map(|line| line.strip_prefix(".version ")).unwrap_or_default();
        let first = match module.arch.capability_value() {
            // Functions that do not return.
            75 => "6.4",
            80 => "7.0",
            86 => "7.1",
            87 => "7.4",
            89 | 90 if module.arch.is_base_variant() => "7.8",
            90 => "8.0",
            _ => &format!("{}.{}", module.arch.ptx_version() / 10, module.arch.ptx_version() % 10),
        };
        assert_eq!(version, first, "{}", module.arch);
    }
}

#[test]
fn architectures_between_which_the_source_makes_no_difference_share_their_ptx_if_they_may() {
    use NvvmArch::{Compute75, Compute88, Compute90};
    let build = |archs: &[NvvmArch]| {
        let built = builder("alike").archs(archs).compile_once(true).machine_code(true).build_all().unwrap();
        assert!(built.modules.iter().all(|module| !module.resources.is_empty()));
        let read = |module: &cuda_builder::BuiltModule| std::fs::read_to_string(&module.path).unwrap();
        built.modules.iter().map(read).collect::<Vec<_>>()
    };
    let [first, later, other_version] = build(&[Compute75, Compute90, Compute88]).try_into().unwrap();
    let changed = first.replace("\n.version 6.4\n.target sm_75\n", "\n.version 7.8\n.target sm_90\n");
    assert_eq!(changed, later);
    assert!(other_version.contains(".version 9.0") && other_version.contains(".target sm_88"));
    // The same, whichever are built beside it.
    assert_eq!(build(&[Compute90]), [later]);
}
