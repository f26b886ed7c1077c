//! Kernels whose stack has no size known when they are compiled.

use std::path::Path;

use crate::common::{builder, tools};
use cuda_builder::{Backend, NvvmArch, ptxas};

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

/// A recursive function whose only call from outside never runs, as ptxas finds by the constant that `one` returns.
const NEVER_CALLED: &str = "\
.version 8.6
.target sm_90
.address_size 64
.func (.param .b32 r) one() { st.param.b32 [r], 1; ret; }
.func (.param .b32 r) again(.param .b32 n)
{
    .reg .b32 %r<4>; .reg .pred %p<2>;
    ld.param.b32 %r1, [n];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra L;
    add.u32 %r2, %r1, -1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), again, (a); ld.param.b32 %r3, [b]; }
    mad.lo.u32 %r1, %r3, %r3, %r1;
L:  st.param.b32 [r], %r1; ret;
}
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    { .param .b32 b; call.uni (b), one, (); ld.param.b32 %r1, [b]; }
    setp.gt.s32 %p1, %r1, 0;
    @%p1 bra L;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), again, (a); ld.param.b32 %r1, [b]; }
L:  st.global.b32 [%rd1], %r1; ret;
}
";

/// The crash of ptxas that makes recursive modules' functions visible. When a newer ptxas takes the module as it is, the
/// edit in `stack.rs` can go.
#[test]
fn ptxas_crashes_on_a_recursive_function_that_is_never_called_unless_functions_are_visible() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recursive");
    std::fs::create_dir_all(&folder).unwrap();
    let found = ptxas::find(&tools(), &|_| {}).unwrap();
    let assemble = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        ptxas::resources(&found, &path, NvvmArch::Compute90)
    };
    let error = assemble("hidden.ptx", NEVER_CALLED).unwrap_err().to_string();
    assert!(error.contains("SIGSEGV"), "{error}");
    assemble("visible.ptx", &NEVER_CALLED.replace("\n.func", "\n.visible .func")).unwrap();
}
