//! Kernels that are for one architecture alone are a module of their own, next to that for all later GPUs.

use std::path::{Path, PathBuf};

use crate::common::specific;
use cuda_builder::ptx::Ptx;
use cuda_builder::{Backend, Built, NvvmArch};

use NvvmArch::{Compute80, Compute90, Compute90a, Compute100};

/// Architecture, family and kernels of each module.
fn modules(built: &Built) -> Vec<(NvvmArch, &str, Vec<String>)> {
    let module = |module: &cuda_builder::BuiltModule| {
        let ptx = std::fs::read_to_string(&module.path).unwrap();
        assert!(ptx.contains(&format!("\n.target {}\n", module.arch.processor())), "{}", module.arch);
        let mut kernels: Vec<String> = Ptx::parse(&ptx).entries().map(|entry| entry.name.clone()).collect();
        kernels.sort();
        kernels
    };
    built.modules.iter().map(|it| (it.arch, it.family.as_str(), module(it))).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter(|name| name.ends_with("ptx")).collect();
    files.sort();
    files
}

fn folder(built: &Built) -> PathBuf {
    built.modules[0].path.parent().unwrap().to_owned()
}

fn kernels(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn kernels_of_one_architecture_are_modules_beside_those_of_its_base() {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let builder = specific(&format!("split-{backend}")).backend(backend).split(true).compile_once(true);
        let builder = builder.archs(&[Compute80, Compute90, Compute100]).machine_code(true);
        // The second build has it from the cache.
        let [first, second] = [builder.clone(), builder].map(|builder| builder.build_all().unwrap());
        let portable = |arch| (arch, "", kernels(&["everywhere"]));
        let hopper = |arch| (arch, "hopper", kernels(&["copy"]));
        let since = |arch| (arch, "since_90", kernels(&["since_hopper"]));
        let only = |arch, family, names| (arch, family, kernels(names));
        let expected = [
            portable(Compute80),
            hopper(Compute80),
            portable(Compute90),
            hopper(Compute90),
            since(Compute90),
            only(Compute90a, "hopper.only_90a", &["accumulate", "multiply"][..]),
            portable(Compute100),
            hopper(Compute100),
            since(Compute100),
            only(NvvmArch::Compute100a, "hopper.only_100a", &["multiply_later"][..]),
        ];
        assert_eq!(modules(&first), expected, "{backend}");
        assert_eq!(modules(&second), expected, "{backend}");
        assert!(second.modules.iter().all(|module| module.is_fresh) && second.times.compiled == 0);
        let specific = &first.modules[5];
        // Accumulators are registers, and stay where they are while an instruction is pending.
        for resources in &specific.resources {
            let at = format!("{} by {backend}", resources.kernel);
            assert_eq!((resources.spill_stores, resources.stack), (0, 0), "{at}");
            assert_eq!(resources.serialized_wgmma, None, "{at}");
        }
        assert!(specific.machine_code.as_ref().is_some_and(|file| file.is_file()));
        let ptx = Ptx::parse(&std::fs::read_to_string(&specific.path).unwrap());
        assert_eq!(ptx.function("multiply").unwrap().count("wgmma.mma_async"), 1);
    }
}

#[test]
fn a_module_that_is_not_cut_has_another_for_each_architecture_alone() {
    let built = specific("whole").arch(Compute90).build_all().unwrap();
    let portable = kernels(&["copy", "everywhere", "since_hopper"]);
    assert_eq!(
        modules(&built),
        [(Compute90, "", portable), (Compute90a, "only_90a", kernels(&["accumulate", "multiply"]))]
    );
    let expected = ["specific_kernels.compute_90.ptx", "specific_kernels.only_90a.compute_90a.ptx"];
    assert_eq!(names(&folder(&built)), expected);
}

#[test]
fn an_architecture_that_is_asked_for_has_all_of_its_kernels_in_one_module() {
    let mut all = kernels(&["accumulate", "copy", "everywhere", "multiply", "since_hopper"]);
    all.sort();
    let one = specific("alone").arch(Compute90a).build().unwrap();
    let ptx = Ptx::parse(&std::fs::read_to_string(one).unwrap());
    let mut found: Vec<String> = ptx.entries().map(|entry| entry.name.clone()).collect();
    found.sort();
    assert_eq!(found, all);
    let both = specific("both").archs(&[Compute90, Compute90a]).build_all().unwrap();
    let archs: Vec<_> = modules(&both).iter().map(|(arch, _, kernels)| (*arch, kernels.len())).collect();
    assert_eq!(archs, [(Compute90, 3), (Compute90a, 5)]);
    let older = specific("older").arch(Compute80).build_all().unwrap();
    assert_eq!(older.modules.len(), 1);
}

#[test]
fn what_was_to_be_one_file_is_refused_if_it_must_be_two() {
    let builder = specific("refused").arch(Compute90);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("specific.ptx");
    for (result, words) in [
        (builder.clone().build(), "build() makes one module, and "),
        (
            builder.clone().copy_to(&file).build(),
            "copy_to names one file, and the kernels that are for compute_90a",
        ),
        (
            builder.clone().final_module_path(&file).build(),
            "final_module_path names one file, and the kernels",
        ),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("or build for compute_90a"), "{error}");
    }
}

#[test]
fn a_module_whose_kernels_are_gone_goes_too() {
    let builder = specific("gone").arch(Compute90).split(true);
    let before = builder.clone().build_all().unwrap();
    assert!(names(&folder(&before)).iter().any(|name| name.contains("only_90a")));
    let after = builder.build_args(&["--features", "portable"]).build_all().unwrap();
    let expected = ["specific_kernels.compute_90.ptx", "specific_kernels.since_90.compute_90.ptx"];
    assert_eq!(names(&folder(&after)), expected);
}
