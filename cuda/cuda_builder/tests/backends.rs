//! The two back ends, their options, and the programs that they run.

use std::path::Path;

use crate::common::child::{Child, script};
use crate::common::{builder, ptx_text};
use cuda_builder::ptx::Ptx;
use cuda_builder::{Backend, CudaBuilder, NvvmArch};

fn text(builder: CudaBuilder) -> String {
    std::fs::read_to_string(builder.build().unwrap()).unwrap()
}

/// Checks that hold for both back ends, at every level.
#[test]
fn both_back_ends_make_the_same_kernels_at_every_level() {
    let of = |backend: Backend, level: u8| {
        let name = format!("{backend}-{level}");
        Ptx::parse(&text(builder(&name).backend(backend).opt_level(level).arch(NvvmArch::Compute80)))
    };
    let names = |ptx: &Ptx| {
        let mut names: Vec<String> = ptx.entries().map(|entry| entry.name.clone()).collect();
        names.sort();
        names
    };
    let expected = names(&of(Backend::Nvvm, 3));
    assert!(expected.len() > 5);
    for backend in [Backend::Nvvm, Backend::Llvm] {
        for level in 0..=3 {
            let ptx = of(backend, level);
            assert_eq!(names(&ptx), expected, "{backend} {level}");
            let space = |part: &str| -> Vec<String> {
                let found = ptx.variables.iter().filter(|v| v.name.contains(part));
                found.map(|v| v.space.clone()).collect()
            };
            assert_eq!(
                (space("__TILE"), space("__TABLE")),
                (vec![".shared".to_owned()], vec![".const".to_owned()])
            );
            // A barrier that two branches test is one barrier.
            let barriers = ptx.function("same_test_twice").unwrap();
            assert_eq!(barriers.count("bar.sync") + barriers.count("barrier.sync"), 1, "{backend} {level}");
        }
    }
}

#[test]
fn options_reach_llvm() {
    let base = || builder("llvm-options").arch(NvvmArch::Compute80).backend(Backend::Llvm);
    let plain = text(base());
    assert!(plain.contains("\n.version 7.0\n") && plain.contains(".target sm_80"));
    assert!(plain.contains("div.rn.f32") && !plain.contains("div.approx") && !plain.contains(".loc"));
    let fast = text(base().fast_math());
    assert!(fast.contains("div.approx.ftz.f32") && !fast.contains("div.rn"));
    let unfused = text(base().fma_contraction(false));
    assert!(unfused.matches("fma.rn.f32").count() < plain.matches("fma.rn.f32").count());
    assert!(text(base().generate_line_info(true)).contains(".loc"));
}

#[test]
fn every_architecture_compiles_by_llvm() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llvm-archs");
    let built = builder("llvm-archs")
        .out_dir(folder)
        .archs(NvvmArch::ALL)
        .backend(Backend::Llvm)
        .build_all()
        .unwrap();
    for module in built.modules {
        let text = std::fs::read_to_string(&module.path).unwrap();
        assert!(text.contains(&format!(".target {}", module.arch.processor())), "{}", module.arch);
    }
}

#[test]
fn statics_go_to_constant_memory_where_that_is_asked_for() {
    let spaces = |builder: CudaBuilder| -> Vec<String> {
        let ptx = Ptx::parse(&text(builder.arch(NvvmArch::Compute75)));
        ptx.variables.iter().filter(|v| v.name.contains("PLAIN_TABLE")).map(|v| v.space.clone()).collect()
    };
    assert_eq!(spaces(builder("plain-statics")), [".global"]);
    assert_eq!(spaces(builder("constant-statics").use_constant_memory_space(true)), [".const"]);
}

#[test]
fn a_level_that_does_not_exist_and_optix_are_refused() {
    let error = builder("level").opt_level(4).build().unwrap_err().to_string();
    assert!(error.contains("opt_level is 0 to 3, and 4 is given"), "{error}");
    let error = builder("optix").optix(true).build().unwrap_err().to_string();
    assert!(error.contains("OptiX"), "{error}");
    assert!("gcc".parse::<Backend>().unwrap_err().to_string().contains("expected nvvm or llvm"));
}

/// The files that a child's build left beside its result.
fn left(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".ptx") || name.ends_with(".cubin")).collect()
}

#[test]
fn a_ptxas_that_fails_hangs_or_does_nothing_is_an_error_that_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ptxas = folder.path().join("ptxas");
    let child = || Child::new(folder.path()).env("PTXAS_PATH", &ptxas).with_machine_code();
    for (text, expected) in [
        ("echo 'ptxas fatal: no memory' >&2; exit 255", "ptxas fatal: no memory"),
        ("exit 0", "it ended well but left no machine code; is it a ptxas?"),
        ("while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo code > \"$2\"; shift; done", "left no machine code"),
        ("exec /bin/sleep 60", "did not end within 1 seconds and was stopped; FERROWARP_COMPILER_SECONDS"),
    ] {
        script(&ptxas, text);
        let error = child().env("FERROWARP_COMPILER_SECONDS", "1").build().unwrap_err();
        assert!(error.starts_with("ptxas failed on ") && error.contains(expected), "{text}: {error}");
        assert_eq!(left(folder.path()), [""; 0], "{text}");
    }
    let error = child().env("FERROWARP_COMPILER_SECONDS", "abc").build().unwrap_err();
    assert!(
        error.contains("FERROWARP_COMPILER_SECONDS is `abc`; set it to a whole number of seconds"),
        "{error}"
    );
    std::fs::remove_file(&ptxas).unwrap();
    let error = child().build().unwrap_err();
    assert!(error.contains("PTXAS_PATH is") && error.contains("there is no such file"), "{error}");
}

#[test]
fn a_tool_of_llvm_that_fails_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("llvm");
    for tool in ["opt", "llc", "llvm-link"] {
        script(
            &tools.join(tool),
            "case \"$*\" in *--version*) echo 'LLVM version 22.9.9'; exit 0;; esac\nexit 7",
        );
    }
    let error = Child::new(folder.path()).env("FERROWARP_LLVM", &tools).by_llvm().build().unwrap_err();
    assert!(
        error.starts_with(&tools.display().to_string()) && error.contains("failed to compile"),
        "{error}"
    );
    script(&tools.join("opt"), "echo 'LLVM version 14.0.6'");
    let error =
        Child::new(folder.path()).env("FERROWARP_LLVM", &tools).without_download().build().unwrap_err();
    assert!(error.contains("are of LLVM 14.0.6, not 22"), "{error}");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let error = builder("out").out_dir(&file).build().unwrap_err().to_string();
    assert!(error.contains("out_dir is") && error.contains("which is no folder"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let error = builder("out").copy_to(folder.path()).build().unwrap_err().to_string();
    assert!(error.contains("copy_to is") && error.contains("name a file in it"), "{error}");
    // A device is written to, and stays one.
    builder("out").copy_to("/dev/null").build().unwrap();
    assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
}

#[test]
fn parts_have_machine_code_that_names_its_ptx() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptx/parts");
    // Of an earlier build that was not cut.
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("fixture_kernels.old.compute_75.ptx"), "old").unwrap();
    std::fs::write(out.join("another.compute_75.ptx"), "another's").unwrap();
    let build = || builder("parts").out_dir(&out).split(true).machine_code(true).build_all().unwrap();
    let modules = build().modules;
    for module in &modules {
        let code = std::fs::read(module.machine_code.as_ref().unwrap()).unwrap();
        assert!(code.starts_with(b"\x7fELF"));
        let trailer = &code[code.len() - 48..];
        assert_eq!(&trailer[..16], b"ferrowarp cubin\n");
        let hash: String = trailer[16..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, module.sha256);
        assert!(!module.resources.is_empty());
    }
    assert!(build().modules.iter().all(|module| module.is_fresh));
    assert!(!out.join("fixture_kernels.old.compute_75.ptx").exists());
    assert!(out.join("another.compute_75.ptx").exists());
    let error = builder("parts").split(true).build().unwrap_err().to_string();
    assert!(error.contains("use build_all()"), "{error}");
}

#[test]
fn an_edit_of_the_module_reaches_the_ptx() {
    let plain = ptx_text("edited");
    let edit = |text: String| text + "; edited\n";
    let edited = text(builder("edited").arch(NvvmArch::Compute75).edit_ir(edit));
    assert!(plain == edited, "a comment changes nothing");
    let drop_barriers: fn(String) -> String = |text| {
        let kept = text.lines().filter(|line| !line.contains("call void @llvm.nvvm.barrier"));
        kept.collect::<Vec<_>>().join("\n")
    };
    let without = text(builder("edited").arch(NvvmArch::Compute75).edit_ir(drop_barriers));
    assert!(plain.contains("bar.sync") && !without.contains("bar.sync"));
    assert!(ptx_text("edited") == plain, "a build without the edit has nothing of it");
}
