//! The kernels as PTX: libNVVM compiles them, ptxas assembles them without a spill.

use std::path::{Path, PathBuf};

use cuda_builder::ptx::Ptx;
use cuda_builder::{ptxas, CudaBuilder, NvvmArch};

const KERNELS: [&str; 14] = [
    "vecadd",
    "gemm_tiled",
    "transpose",
    "damped_sine",
    "damped_sine_f64",
    "gelu",
    "moving_statistics",
    "softmax_rows",
    "sum",
    "histogram",
    "compact",
    "trace",
    "hash_records",
    "parse_lines",
];

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// Builds the crate in `folder` of this one into the folder `out`.
fn build(folder: &str, out: &Path, archs: &[NvvmArch]) -> Vec<(NvvmArch, PathBuf)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let built = CudaBuilder::new(path)
        .tools_dir(CudaBuilder::tools_dir_in(&target()))
        .target_dir(target().join("cuda-builder"))
        .out_dir(out)
        .download(true)
        .archs(archs)
        .build_all()
        .unwrap();
    built.modules.into_iter().map(|module| (module.arch, module.path)).collect()
}

/// Where the PTX of this crate by libNVVM is kept between runs, for the other tests too.
fn kept(arch: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compat-kernels").join(format!("nvvm-{arch}"))
}

/// The PTX of this crate for the oldest architecture, and for the first that has all kernels.
fn ptx() -> [(NvvmArch, PathBuf); 2] {
    [NvvmArch::Compute75, NvvmArch::Compute90]
        .map(|arch| build(".", &kept(&arch.to_string()), &[arch]).remove(0))
}

/// All kernels are there, and ptxas accepts them without a spill.
fn check(arch: NvvmArch, path: &Path) {
    let ptxas = ptxas::find(&CudaBuilder::tools_dir_in(&target()), &|_| ()).unwrap();
    let resources = ptxas::resources(&ptxas, path, arch).unwrap();
    for kernel in KERNELS {
        let used = resources.iter().find(|r| r.kernel == kernel);
        let used = used.unwrap_or_else(|| panic!("{kernel} is not in {}", path.display()));
        assert_eq!((used.spill_stores, used.spill_loads), (0, 0), "spills of {kernel} for {arch}");
        // The source says why this one may use local memory (`//@ allow-local`), and no other does.
        assert_eq!(used.stack > 0, kernel == "damped_sine_f64", "stack of {kernel} for {arch}");
    }
}

#[test]
fn ptxas_accepts_every_kernel_without_a_spill() {
    for (arch, path) in ptx() {
        check(arch, &path);
    }
}

#[test]
fn the_same_sources_compile_as_edition_2024() {
    let out = kept("edition-2024");
    for (arch, path) in build("edition-2024", &out, &[NvvmArch::Compute75]) {
        check(arch, &path);
    }
}

#[test]
fn the_ptx_is_what_the_sources_say() {
    let [(_, path), _] = ptx();
    let ptx = Ptx::parse(&std::fs::read_to_string(&path).unwrap());
    let count = |kernel: &str, pattern: &str| ptx.function(kernel).unwrap().count(pattern);

    // The attribute's memory is shared memory, and the barriers are where the sources have them.
    assert!(ptx.variables.iter().any(|v| v.space == ".shared" && v.name.contains("TILE_A")));
    assert!(count("gemm_tiled", "ld.shared") >= 2 && count("gemm_tiled", "st.shared") >= 2);
    assert_eq!(count("gemm_tiled", ".local"), 0);
    assert!(count("transpose", "bar.sync") + count("transpose", "barrier.sync") >= 1);
    assert!(count("transpose", "ld.shared") >= 1 && count("transpose", "st.shared") >= 1);
    // Five shuffles a fold.
    assert!(count("softmax_rows", "shfl.sync.bfly") >= 10);
    assert_eq!(count("compact", "vote.sync.ballot"), 1);
    assert_eq!(count("compact", "shfl.sync.idx"), 1);
    // Scope and ordering of the atomics.
    assert_eq!(count("compact", "atom.acq_rel.gpu.add"), 1);
    assert!(count("histogram", "atom.relaxed.cta.add") >= 1);
    assert!(count("histogram", "atom.relaxed.gpu.add") >= 1);
    assert_eq!(count("sum", "atom.relaxed.gpu.add.f32"), 1);
    // A function that no kernel calls is kept where the source asks for it, by its name.
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(".visible .func") && ptx.function("scaled_twice").unwrap().count("mul") >= 2);
    // libdevice is linked, not called.
    assert!(ptx.functions.iter().all(|function| !function.name.starts_with("__nv_")));
}
