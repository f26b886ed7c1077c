//! Tensor maps that kernels take by value stay in param space.

use crate::common::specific;
use cuda_builder::ptx::Ptx;
use cuda_builder::{Backend, NvvmArch};

#[test]
fn a_tensor_map_is_read_where_the_launch_put_it() {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        for opt_level in 0..=3 {
            let builder =
                specific(&format!("maps-{backend}-{opt_level}")).backend(backend).opt_level(opt_level);
            let builder = builder.arch(NvvmArch::Compute90).build_args(&["--features", "portable,maps"]);
            let built = builder.machine_code(true).build_all().unwrap();
            let text = std::fs::read_to_string(&built.modules[0].path).unwrap();
            let ptx = Ptx::parse(&text);
            for (kernel, parameters) in [
                (
                    "parameters",
                    &[".param .align 64 .b8 parameters_param_0[128]", ".b8 parameters_param_3[128]"][..],
                ),
                ("one_struct", &[".param .align 64 .b8 one_struct_param_0[448]"]),
            ] {
                let at = format!("{kernel} by {backend} at level {opt_level}");
                let function = ptx.function(kernel).unwrap();
                assert_eq!(function.count(".local"), 0, "{at}: {text}");
                assert!(function.count("cvta.param") > 0, "{at}: {text}");
                assert!(function.count("cp.async.bulk.tensor.2d") > 1, "{at}: {text}");
                assert!(parameters.iter().all(|parameter| text.contains(parameter)), "{at}: {text}");
                let resources = built.modules[0].resources.iter().find(|it| it.kernel == kernel).unwrap();
                assert_eq!((resources.stack, resources.spill_stores), (0, 0), "{at}");
            }
            // What the kernel changes is a copy.
            let changed = ptx.function("changed").unwrap();
            assert!(changed.count(".local") > 0, "{backend} {opt_level}: {text}");
            assert!(text.contains(".param .align 64 .b8 changed_param_0[64]"), "{text}");
        }
    }
}

#[test]
fn a_tensor_map_that_is_changed_is_refused() {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let builder = specific(&format!("copied-{backend}")).backend(backend).arch(NvvmArch::Compute90);
        let error =
            builder.build_args(&["--features", "portable,copied"]).build_all().unwrap_err().to_string();
        assert!(error.contains("at `@copied`: the tensor map %"), "{backend}: {error}");
        assert!(error.contains("is a copy in local memory"), "{backend}: {error}");
    }
}
