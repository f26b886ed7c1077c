//! Builds one after the other and at the same time, and builds that must fail.

use std::path::PathBuf;

use crate::common::{builder, fixture, specific, target, tools};
use cuda_builder::ptx::Ptx;
use cuda_builder::{Backend, CudaBuilder, CudaBuilderError, DebugInfo, NvvmArch};

/// The error of a build with one of the fixture's features on.
fn failure(feature: &str) -> CudaBuilderError {
    builder(feature).build_args(&["--features", feature]).build().unwrap_err()
}

#[test]
fn an_initial_value_in_shared_memory_is_refused() {
    let error = failure("initialised");
    assert!(matches!(error, CudaBuilderError::IrEdit(_)), "{error}");
    assert!(error.to_string().contains("TILE") && error.to_string().contains("MaybeUninit"), "{error}");
}

#[test]
fn a_function_that_nobody_defines_is_named() {
    let error = failure("undefined");
    assert!(matches!(error, CudaBuilderError::Proof { .. }), "{error}");
    assert!(error.to_string().contains("`nobody_defines_this`"), "{error}");
    let line = error.to_string().lines().last().unwrap().to_owned();
    assert!(line.starts_with("  --> src/") && line.ends_with(": a call of `nobody_defines_this`"), "{error}");
}

#[test]
fn an_operation_that_no_gpu_has_is_named_with_its_line() {
    let source = std::fs::read_to_string(fixture().join("src/lib.rs")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("wide * wide")).unwrap();
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let error = builder("quad").backend(backend).build_args(&["--features", "quad"]).build().unwrap_err();
        let error = error.to_string();
        // libNVVM compiles it, to a call of a function that it has no name for.
        // `llc` says what is unsupported and aborts.
        let fails = error.contains("failed to compile the kernel quad for compute_75");
        let died = error.contains("died on the kernel quad for compute_75");
        assert!(fails || died || error.contains("which the source does not call"), "{error}");
        assert!(error.contains(&format!("src/lib.rs:{line}: `fmul fp128 ")), "{error}");
        assert!(error.contains("use `f64`") && error.len() < 2000, "{error}");
    }
}

#[test]
fn a_crate_without_kernels_is_refused() {
    let error = failure("empty");
    assert!(error.to_string().contains("no kernel"), "{error}");
}

#[test]
fn what_the_compiler_says_is_handed_on() {
    let error = failure("broken");
    assert!(matches!(error, CudaBuilderError::CargoFailed { .. }), "{error}");
    assert!(error.to_string().contains("this crate is broken"), "{error}");
    // The crate also has an unused import.
    assert!(!error.to_string().contains("warning"), "{error}");
    let error = failure("nonexistent");
    assert!(matches!(error, CudaBuilderError::Manifest { .. }), "{error}");
    assert!(error.to_string().contains("feature: nonexistent"), "{error}");
}

#[test]
fn a_folder_without_a_crate_is_named() {
    let error = CudaBuilder::new("/nonexistent/crate").build().unwrap_err();
    assert_eq!(error.to_string(), "no Cargo.toml in /nonexistent/crate: give the folder of the kernel crate");
    let workspace = fixture().join("../../../../..");
    let error = CudaBuilder::new(workspace).build().unwrap_err();
    assert!(error.to_string().contains("workspace, not a crate"), "{error}");
}

#[test]
fn options_that_cannot_be_met_are_refused() {
    let two = [NvvmArch::Compute75, NvvmArch::Compute90];
    for builder in [
        builder("options").archs(&two).copy_to("one.ptx"),
        builder("options").archs(&two).final_module_path("one.ptx"),
        builder("options").archs(&[]),
        builder("options").archs(&[NvvmArch::Compute75, NvvmArch::Compute75]),
    ] {
        let error = builder.build_all().unwrap_err();
        assert!(matches!(error, CudaBuilderError::Options(_)), "{error}");
    }
    let error = builder("options").archs(&two).build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::Options(_)), "{error}");
}

#[test]
fn an_unchanged_crate_is_not_built_again() {
    let build = || builder("fresh").build_all().unwrap().modules.remove(0);
    let first = build();
    assert!(build().is_fresh);
    std::fs::write(&first.path, "damaged").unwrap();
    let repaired = build();
    assert!(!repaired.is_fresh);
    assert_eq!(repaired.sha256, first.sha256);
    let other = builder("fresh").ftz(true).build_all().unwrap().modules.remove(0);
    assert!(!other.is_fresh && other.sha256 != first.sha256);
}

/// Its panics have other lines, which are filled in.
#[test]
fn a_kernel_that_moves_in_its_file_is_not_compiled_again() {
    let build = |before: &str| {
        let source = format!(
            "use cuda_std::kernel;\n{before}#[kernel]\npub unsafe fn sum(out: *mut u32, x: &[u32], i: u32) {{\n    \
             unsafe {{ *out = x[i as usize] + x[i as usize + 1] }};\n}}\n"
        );
        let builder = specific("moved").arch(NvvmArch::Compute90).machine_code(true);
        std::fs::write(builder.path.join("src/lib.rs"), source).unwrap();
        let built = builder.build_all().unwrap();
        let module = &built.modules[0];
        let code = std::fs::read(module.machine_code.as_ref().unwrap()).unwrap();
        (std::fs::read_to_string(&module.path).unwrap(), code, built.times.compiled)
    };
    let (first, first_code, _) = build("");
    let (moved, moved_code, compiled) = build("// The kernel is a line lower.\n");
    assert!(first != moved && first_code != moved_code && compiled == 0, "{compiled}");
    let line = |ptx: &str| {
        let numbers =
            ptx.lines().filter_map(|line| line.strip_suffix("};")?.rsplit_once(", ")?.1.parse::<u64>().ok());
        numbers.map(|number| number & 0xffff_ffff).filter(|line| (4..6).contains(line)).max()
    };
    assert_eq!((line(&first), line(&moved)), (Some(4), Some(5)));
    assert_eq!(build(""), (first, first_code, 0));
}

/// Cargo keeps the builds of different features side by side, and counts each as fresh when it comes back.
#[test]
fn builds_with_other_features_do_not_mix() {
    let build = |args: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let path = builder("mix").out_dir(folder.path()).build_args(args).build().unwrap();
        std::fs::read_to_string(path).unwrap()
    };
    let plain = build(&[]);
    let extra = build(&["--features", "extra"]);
    assert!(extra.contains(".entry extra") && !plain.contains(".entry extra"));
    assert_eq!(build(&[]), plain);
}

#[test]
fn builds_at_the_same_time_give_the_same() {
    let build = || std::fs::read(builder("parallel").ftz(true).build().unwrap()).unwrap();
    let results: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().all(|ptx| *ptx == results[0]));
}

#[test]
fn copies_and_named_files_are_whole() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("copies");
    let (module, copy) = (folder.join("a/module.ll"), folder.join("b/copy.ptx"));
    let build = || builder("copies").emit_llvm_ir(true).emit_llvm_bitcode(true);
    let made = build().build().unwrap();
    // The path is that of the copy, where one is asked for.
    assert_eq!(build().final_module_path(&module).copy_to(&copy).build().unwrap(), copy);
    assert_eq!(std::fs::read(&made).unwrap(), std::fs::read(&copy).unwrap());
    let ir = std::fs::read_to_string(&module).unwrap();
    assert!(ir.contains("addrspace(3)") && !ir.contains(".ferrowarp."));
    assert_eq!(std::fs::read_to_string(made.with_extension("ll")).unwrap(), ir);
    assert!(std::fs::read(made.with_extension("bc")).unwrap().starts_with(b"BC\xc0\xde"));
}

#[test]
fn options_reach_libnvvm() {
    let text = |builder: CudaBuilder| std::fs::read_to_string(builder.build().unwrap()).unwrap();
    let base = || builder("nvvm-options").arch(NvvmArch::Compute80);
    let plain = text(base());
    assert!(plain.contains("\n.version 7.0\n") && plain.contains(".target sm_80"));
    assert!(plain.contains("div.rn.f32") && !plain.contains(".loc"));
    let fast = text(base().fast_div(true).ftz(true));
    assert!(fast.contains("div.full.ftz.f32") && !fast.contains("div.rn.f32"));
    let unfused = text(base().fma_contraction(false));
    assert!(unfused.matches("fma.rn.f32").count() < plain.matches("fma.rn.f32").count());
    let lines = text(base().debug(DebugInfo::LineTables));
    assert!(lines.contains(".loc") && lines.contains("memory.rs") && !lines.contains(", debug"));
    assert_eq!(Ptx::parse(&lines), Ptx::parse(&plain), "what is profiled is what runs");
}

/// Cargo runs in the crate's folder, where a relative path is another one.
#[cfg(target_os = "linux")]
#[test]
fn folders_may_be_relative_and_of_any_bytes() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let any_bytes = folder.path().join(std::ffi::OsStr::from_bytes(b"t\xffls"));
    std::os::unix::fs::symlink(tools(), &any_bytes).unwrap();
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let up: PathBuf = here.ancestors().skip(1).map(|_| "..").collect();
    let work = target().join("cuda-builder");
    std::fs::create_dir_all(&work).unwrap();
    let relative = up.join(work.canonicalize().unwrap().strip_prefix("/").unwrap());
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let module = folder.path().join("module.ll");
        let builder = builder("relative").target_dir(&relative).tools_dir(&any_bytes).backend(backend);
        let path = builder.arch(NvvmArch::Compute75).final_module_path(&module).build().unwrap();
        assert!(module.is_file() && std::fs::read_to_string(path).unwrap().contains(".target sm_75"));
    }
}
