//! The fault kernels as PTX: each still has in it what makes it fail.

use std::path::Path;

use cuda_builder::ptx::Ptx;
use cuda_builder::{CudaBuilder, NvvmArch, ptxas};

/// Each kernel, with the instruction that makes it fail.
const INSTRUCTIONS: [(&str, &str); 7] = [
    ("reads_nowhere", "ld."),
    ("reads_askew", "ld.global.v4"),
    ("traps", "trap"),
    ("indexes_past_the_end", "call"),
    ("asserts", "call"),
    ("never_ends", "bra"),
    ("descends", "call"),
];

/// Registers of a multiprocessor, of every compute capability since 5.0 (CUDA programming guide, "technical
/// specifications per compute capability").
const REGISTERS: u32 = 65536;

#[test]
fn the_kernels_fail_as_ptx() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = CudaBuilder::tools_dir_in(target);
    let built = CudaBuilder::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../faults/kernels"))
        .tools_dir(&tools)
        .target_dir(target.join("cuda-builder"))
        .out_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("fault-kernels"))
        .download(true)
        .archs(&[NvvmArch::Compute75, NvvmArch::Compute90])
        .build_all()
        .unwrap();
    let ptxas = ptxas::find(&tools, &|_| ()).unwrap();
    for module in &built.modules {
        let text = std::fs::read_to_string(&module.path).unwrap();
        let ptx = Ptx::parse(&text);
        for (kernel, instruction) in INSTRUCTIONS {
            let function = ptx.functions.iter().find(|function| function.name == kernel);
            let function = function.unwrap_or_else(|| panic!("{kernel} is not in {}", module.path.display()));
            let has_it = function.statements.iter().any(|statement| statement.contains(instruction));
            assert!(has_it, "{kernel} for {} has no `{instruction}`: {:?}", module.arch, function.statements);
        }
        let unbounded: Vec<&str> = module.unbounded_stacks.iter().map(|stack| &*stack.kernel).collect();
        assert_eq!(unbounded, ["descends"]);
        let resources = ptxas::resources(&ptxas, &module.path, module.arch).unwrap();
        let hungry = resources.iter().find(|resources| resources.kernel == "many_registers").unwrap();
        assert!(hungry.registers * 1024 > REGISTERS, "{hungry:?} leaves room for 1024 threads");
        assert_eq!((hungry.spill_stores, hungry.spill_loads), (0, 0), "what is spilled is in no register");
    }
}
