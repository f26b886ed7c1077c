//! `cuda_builder`.

use super::Row::{Absent, Differs, Fixed, Item, Same};
use super::{Difference, Group, On};

pub const GROUPS: &[Group] = &[
    Group {
        path: "cuda_builder",
        on: On::Builder,
        rows: &[
            Item("{CudaBuilder|CudaBuilderError|DebugInfo|NvvmArch}"),
            Item("DebugInfo::{None|LineTables}"),
            Same("CudaBuilder::new(&str) -> CudaBuilder"),
            Same(
                "CudaBuilder::{release|generate_line_info|nvvm_opts|ftz|fast_sqrt|fast_div|fma_contraction}(CudaBuilder, bool) -> CudaBuilder",
            ),
            Same(
                "CudaBuilder::{emit_llvm_ir|emit_llvm_bitcode|optix|override_libm|use_constant_memory_space}(CudaBuilder, bool) -> CudaBuilder",
            ),
            Same("CudaBuilder::arch(CudaBuilder, NvvmArch) -> CudaBuilder"),
            Same("CudaBuilder::debug(CudaBuilder, DebugInfo) -> CudaBuilder"),
            Same("CudaBuilder::{copy_to|final_module_path}(CudaBuilder, std::path::PathBuf) -> CudaBuilder"),
            Same("CudaBuilder::build_args(CudaBuilder, &[&str]) -> CudaBuilder"),
            Same("CudaBuilder::build(CudaBuilder) -> Result<std::path::PathBuf, CudaBuilderError>"),
            Differs(Difference {
                item: "`optix(true)`",
                here: "an error",
                reason: "OptiX needs code in a form that this builder does not produce",
                error: "`optix is given, and code for OptiX cannot be made here`",
                test: "cuda_builder/tests/backends.rs::a_level_that_does_not_exist_and_optix_are_refused",
            }),
            Differs(Difference {
                item: "the fields `arch`, `emit` and `generate_line_info`",
                here: "the fields `archs`, `emit_llvm_ir`, `emit_llvm_bitcode` and `debug`, or the methods",
                reason: "a build has several architectures and can emit both forms of the IR; `debug` replaces `generate_line_info`",
                error: "rustc: `no field arch on type CudaBuilder`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
            Differs(Difference {
                item: "CudaBuilderError::{CratePathDoesntExist|FailedToCopyPtxFile|BuildFailed}",
                here: "`CratePathDoesntExist`, and variants for each stage",
                reason: "an error names the file, the stage and the fix; `BuildFailed` leaves them to the log",
                error: "rustc: `no variant named BuildFailed`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
            Fixed(super::Fixed {
                item: "`generate_line_info`, which is documented as the default but has no effect",
                here: "line information if it is `true`",
                test: "cuda_builder/tests/builds.rs::options_reach_libnvvm",
            }),
            Absent(Difference {
                item: "EmitOption::{LlvmIr|Bitcode}",
                here: "`emit_llvm_ir(true)`, `emit_llvm_bitcode(true)`",
                reason: "only the field `emit` needs it",
                error: "rustc: `no EmitOption in the root`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
            Absent(Difference {
                item: "{NvvmOption|NvvmProgram|NvvmError|ir_version|dbg_version|nvvm_version}",
                here: "`CudaBuilder`, whose options reach libNVVM",
                reason: "the interface to libNVVM is private to the builder; use the registry's crate `nvvm`",
                error: "rustc: `no NvvmProgram in the root`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
        ],
        tests: &[
            "cuda_builder/tests/build_script.rs::a_build_script_builds_the_kernels",
            "cuda_builder/tests/build_script.rs::nothing_has_to_be_set",
            "cuda_builder/tests/builds.rs::copies_and_named_files_are_whole",
            "cuda_builder/tests/builds.rs::options_reach_libnvvm",
            "cuda_builder/tests/backends.rs::statics_go_to_constant_memory_where_that_is_asked_for",
        ],
    },
    Group {
        path: "cuda_builder::NvvmArch",
        on: On::Builder,
        rows: &[
            Item(
                "Compute{75|80|86|87|88|89|90|90a|100|100f|100a|103|103f|103a|110|110f|110a|120|120f|120a|121|121f|121a}",
            ),
            Same("cuda_builder::NvvmArch::default() -> cuda_builder::NvvmArch"),
            Same(
                "cuda_builder::NvvmArch::{capability_value|major_version|minor_version}(cuda_builder::NvvmArch) -> u32",
            ),
            Same("cuda_builder::NvvmArch::target_feature(cuda_builder::NvvmArch) -> String"),
            Same("cuda_builder::NvvmArch::all_target_features(cuda_builder::NvvmArch) -> Vec<String>"),
            Same(
                "cuda_builder::NvvmArch::is_{base|family|architecture}_variant(cuda_builder::NvvmArch) -> bool",
            ),
            Same(
                "cuda_builder::NvvmArch::base_architecture(cuda_builder::NvvmArch) -> cuda_builder::NvvmArch",
            ),
            Same(
                "cuda_builder::NvvmArch::get_variants(cuda_builder::NvvmArch) -> Vec<cuda_builder::NvvmArch>",
            ),
            Same("cuda_builder::NvvmArch::variants_for_capability(u32) -> Vec<cuda_builder::NvvmArch>"),
            Same(
                "<cuda_builder::NvvmArch as std::str::FromStr>::from_str(&str) -> Result<cuda_builder::NvvmArch, cuda_builder::CudaBuilderError>",
            ),
            Same("<cuda_builder::NvvmArch as ToString>::to_string(&cuda_builder::NvvmArch) -> String"),
            Absent(Difference {
                item: "Compute{50|52|53|60|61|62|70|72|73}",
                here: "`Compute75` and later",
                reason: "libNVVM 13 does not compile for them; `cfg(target_feature = \"compute_61\")` still holds",
                error: "rustc: `no variant Compute61`; parsing a name: `expected compute_75 to compute_121`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
        ],
        tests: &[
            "cuda_builder/tests/archs.rs::every_architecture_compiles",
            "cuda_builder/tests/plain.rs::crates_without_attributes_compile_and_know_their_architecture",
        ],
    },
];
