//! Every architecture compiles, in the PTX version that the table gives it.

mod common;

use common::builder;
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
        assert_eq!(version.replace('.', ""), module.arch.ptx_version().to_string(), "{}", module.arch);
    }
}
