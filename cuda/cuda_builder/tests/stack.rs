//! Kernels whose stack has no size known when they are compiled.

mod common;

use common::builder;
use cuda_builder::{Backend, NvvmArch};

#[test]
fn recursion_and_calls_through_pointers_are_reported_by_both_back_ends() {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let build = || {
            builder(&format!("unbounded-{backend}"))
                .backend(backend)
                .arch(NvvmArch::Compute90)
                .build_args(&["--features", "empty,unbounded"])
                .machine_code(true)
                .build_all()
                .unwrap()
        };
        // The second build has it from the cache.
        for built in [build(), build()] {
            let module = &built.modules[0];
            let causes: Vec<String> = module.unbounded_stacks.iter().map(ToString::to_string).collect();
            assert_eq!(causes.len(), 2, "{backend}: {causes:?}");
            for (kernel, cause) in [
                ("recursive", "recursion through `"),
                ("through_pointer", "a call through a pointer in `through_pointer`"),
            ] {
                let said = format!("the stack of the kernel {kernel} has no size known in advance: {cause}");
                assert!(causes.iter().any(|found| found.starts_with(&said)), "{backend}: {causes:?}");
            }
            let of = |kernel: &str| {
                let mut all = module.resources.iter();
                let found = all.find(|resources| resources.kernel == kernel).unwrap();
                (found.has_unbounded_stack, found.cumulative_stack > 0)
            };
            let stacks = ["recursive", "through_pointer", "bounded"].map(of);
            assert_eq!(stacks, [(true, false), (true, true), (false, true)], "{backend}");
            let ptx = std::fs::read_to_string(&module.path).unwrap();
            assert!(ptx.contains("\n// ferrowarp: unbounded stack: recursive: recursion through `"), "{ptx}");
        }
    }
}
