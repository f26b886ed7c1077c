//! Checks the device functions' PTX: every function is exactly its instruction.

use std::path::{Path, PathBuf};

use cuda_builder::ptx::{Ptx, PtxFunction};
use cuda_builder::{CudaBuilder, NvvmArch, ptxas};

fn kernels() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// Builds the kernels and returns the PTX file.
fn build(arch: NvvmArch) -> PathBuf {
    build_crate(&kernels(), "cuda_std-kernels", arch)
}

/// Builds a crate into its own folder and returns the PTX file. It has the kernels for `compute_90a` only if that is `arch`.
fn build_crate(path: &Path, folder: &str, arch: NvvmArch) -> PathBuf {
    CudaBuilder::new(path)
        .tools_dir(CudaBuilder::tools_dir_in(&target()))
        .target_dir(target().join("cuda-builder"))
        .out_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder))
        .download(true)
        .arch(arch)
        .build_all()
        .unwrap()
        .modules
        .remove(0)
        .path
}

/// One line `//@ ptx: PATTERN == N` above a kernel.
#[derive(Debug, PartialEq)]
struct Expectation {
    kernel: String,
    /// `ptx` for all architectures, `sm_75` or `sm_90a` for that one, `sm_80` or `sm_90` for that and all later ones.
    arch: String,
    opcode: String,
    operands: Vec<String>,
    is_exact: bool,
    count: usize,
}

impl Expectation {
    fn parse(line: &str, kernel: &str) -> Option<Expectation> {
        let (arch, rest) = line.trim().strip_prefix("//@ ")?.split_once(": ")?;
        let (pattern, count, is_exact) = match rest.split_once(" == ") {
            Some((pattern, count)) => (pattern, count, true),
            None => rest.split_once(" >= ").map(|(pattern, count)| (pattern, count, false))?,
        };
        let (opcode, operands) = pattern.split_once(' ').unwrap_or((pattern, ""));
        Some(Expectation {
            kernel: kernel.to_owned(),
            arch: arch.to_owned(),
            opcode: opcode.to_owned(),
            operands: operands.split(',').map(|o| o.trim().to_owned()).filter(|o| !o.is_empty()).collect(),
            is_exact,
            count: count.parse().ok()?,
        })
    }

    fn matches(&self, statement: &str) -> bool {
        let (opcode, operands) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
        let parts: Vec<&str> = opcode.split('.').filter(|part| !part.is_empty()).collect();
        let wanted: Vec<&str> = self.opcode.split('.').filter(|part| !part.is_empty()).collect();
        let is_opcode = if self.opcode.starts_with('.') {
            parts.windows(wanted.len()).any(|window| window == wanted)
        } else {
            !opcode.starts_with('.') && parts.starts_with(&wanted)
        };
        let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
        is_opcode
            && (self.operands.is_empty()
                || self.operands.len() == operands.len()
                    && self.operands.iter().zip(operands).all(|(wanted, got)| wanted == "_" || wanted == got))
    }

    /// Returns a message if the function does not have the expected instructions.
    fn complaint(&self, function: &PtxFunction) -> Option<String> {
        let count = function.statements.iter().filter(|statement| self.matches(statement)).count();
        let holds = if self.is_exact { count == self.count } else { count >= self.count };
        (!holds).then(|| {
            let (kernel, opcode, operands) = (&self.kernel, &self.opcode, self.operands.join(", "));
            let relation = if self.is_exact { "" } else { "at least " };
            let body = function.statements.join("\n        ");
            format!(
                "{kernel}: {count} of `{opcode} {operands}` instead of {relation}{}\n        {body}",
                self.count
            )
        })
    }
}

/// Returns the names of all kernels with the oldest architecture that has them, and their expectations.
fn expectations() -> (Vec<(String, String)>, Vec<Expectation>) {
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for file in std::fs::read_dir(kernels().join("src")).unwrap() {
        let file = file.unwrap().path();
        let (text, file) = (std::fs::read_to_string(&file).unwrap(), file.display());
        if text.contains("macro_rules! kernels") {
            continue;
        }
        let (mut pending, mut first_arch) = (Vec::new(), String::new());
        for line in text.lines() {
            let trimmed = line.trim();
            if let Some(rest) = trimmed.strip_prefix("kernels! {") {
                let arch = rest.trim().strip_suffix(';').and_then(|rest| rest.split_once("arch = "));
                first_arch =
                    arch.map_or_else(String::new, |(_, arch)| format!("sm_{}", arch.trim_matches('"')));
            }
            if trimmed.starts_with("//@") {
                pending.push(trimmed);
            } else if let Some((name, _)) =
                trimmed.split_once('(').filter(|_| line.starts_with("    ") && !pending.is_empty())
            {
                names.push((name.to_owned(), first_arch.clone()));
                for line in pending.drain(..) {
                    let expectation = Expectation::parse(line, name);
                    all.push(expectation.unwrap_or_else(|| panic!("{file}: `{line}` is no expectation")));
                }
            }
        }
        assert!(pending.is_empty(), "{file}: expectations without a kernel: {pending:?}");
    }
    assert!(names.len() > 60 && all.len() > names.len());
    (names, all)
}

fn check(arch: NvvmArch, processors: &[&str]) {
    let path = build(arch);
    let ptx = Ptx::parse(&std::fs::read_to_string(&path).unwrap());
    let (names, expectations) = expectations();
    let holds = |e: &&Expectation| e.arch == "ptx" || processors.contains(&e.arch.as_str());
    let is_expected = |first_arch: &str| first_arch.is_empty() || processors.contains(&first_arch);
    let missing: Vec<_> = names
        .iter()
        .filter(|(name, first_arch)| ptx.function(name).is_some() != is_expected(first_arch))
        .collect();
    assert!(missing.is_empty(), "not in the PTX, or too new to be there: {missing:?}");
    let complaints: Vec<String> =
        expectations.iter().filter(holds).filter_map(|e| e.complaint(ptx.function(&e.kernel)?)).collect();
    assert!(complaints.is_empty(), "{} for {processors:?}:\n{}", path.display(), complaints.join("\n"));

    let ptxas = ptxas::find(&CudaBuilder::tools_dir_in(&target()), &|_| ()).unwrap();
    let assembled = ptxas::resources(&ptxas, &path, arch).unwrap();
    assert_eq!(assembled.len(), ptx.entries().count(), "ptxas accepts every kernel");
}

#[test]
fn every_function_is_its_instruction_on_sm_75() {
    check(NvvmArch::Compute75, &["sm_75"]);
}

#[test]
fn every_function_is_its_instruction_from_sm_80_on() {
    check(NvvmArch::Compute80, &["sm_80"]);
    for arch in [NvvmArch::Compute90, NvvmArch::Compute100] {
        check(arch, &["sm_80", "sm_90"]);
    }
}

#[test]
fn what_one_gpu_alone_has_is_there_for_it() {
    check(NvvmArch::Compute90a, &["sm_80", "sm_90", "sm_90a"]);
    let base = Ptx::parse(&std::fs::read_to_string(build(NvvmArch::Compute90)).unwrap());
    assert_eq!(base.function("hint_registers").unwrap().count("setmaxnreg"), 0);
}

#[test]
fn launch_bounds_reach_ptxas() {
    for arch in [NvvmArch::Compute75, NvvmArch::Compute90] {
        let text = std::fs::read_to_string(build(arch)).unwrap();
        let (header, _) = text.split_once(".entry bounded(").unwrap().1.split_once('{').unwrap();
        assert!(header.contains(".maxntid 96"), "{header}");
        assert!(header.contains(".minnctapersm 3"), "{header}");
        let (header, _) = text.split_once(".entry warp_lane(").unwrap().1.split_once('{').unwrap();
        assert!(!header.contains(".maxntid"), "{header}");
    }
}

#[test]
fn kernels_for_the_cpu_are_on_the_host_alone() {
    use cuda_std_kernels::{adds, calls_what_is_on_the_cpu, on_the_cpu};
    let metas =
        [on_the_cpu::META, calls_what_is_on_the_cpu::META].into_iter().chain(adds::KERNELS.iter().copied());
    let on_the_host: Vec<_> = metas.map(|meta| (meta.name, meta.cpu_only)).collect();
    let expected = [
        ("on_the_cpu", true),
        ("calls_what_is_on_the_cpu", false),
        ("adds_one", false),
        ("adds_two_on_the_cpu", true),
        ("adds_three", false),
    ];
    assert_eq!(on_the_host, expected);
    for arch in [NvvmArch::Compute75, NvvmArch::Compute90] {
        let ptx = Ptx::parse(&std::fs::read_to_string(build(arch)).unwrap());
        for (name, cpu_only) in expected {
            assert_eq!(ptx.entries().any(|entry| entry.name == name), !cpu_only, "{name} for {arch}");
        }
        assert_eq!(ptx.function("calls_what_is_on_the_cpu").unwrap().count("st.global"), 1);
    }
}

#[test]
fn a_struct_is_one_parameter() {
    let text = std::fs::read_to_string(build(NvvmArch::Compute75)).unwrap();
    let (params, _) = text.split_once(".entry struct_of_arguments(").unwrap().1.split_once(')').unwrap();
    assert_eq!(params.matches(".param").count(), 1, "{params}");
    assert!(params.contains(".param .align 8 .b8") && params.contains("[32]"), "{params}");
}

#[test]
fn the_kernels_of_the_example_are_kernels_of_a_gpu_too() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tested-kernels");
    let text = std::fs::read_to_string(build_crate(&example, "tested-kernels", NvvmArch::Compute75)).unwrap();
    let ptx = Ptx::parse(&text);
    let barriers: Vec<_> =
        ptx.entries().map(|entry| (entry.name.as_str(), entry.count("bar.sync"))).collect();
    for expected in [("block_sums", 1), ("histogram", 2)] {
        assert!(barriers.contains(&expected), "{barriers:?}");
    }
}

#[test]
fn a_panic_leaves_a_record_and_no_formatting() {
    let ptx = Ptx::parse(&std::fs::read_to_string(build(NvvmArch::Compute75)).unwrap());
    let slot = ptx.variables.iter().find(|variable| variable.name == "__ferrowarp_panic_slot").unwrap();
    assert_eq!(slot.space, ".global");
    let formatting: Vec<&str> =
        ptx.functions.iter().map(|f| f.name.as_str()).filter(|name| name.contains("3fmt")).collect();
    assert!(formatting.is_empty(), "{formatting:?}");
    // The record is claimed and completed at system scope, so that the host sees it.
    let count = |pattern: &str| ptx.functions.iter().map(|function| function.count(pattern)).sum::<usize>();
    assert!(count("atom.acquire.sys.cas.b32") >= 1);
    assert!(count("st.release.sys.u32") >= 1);
    assert!(count("trap") >= 1);
}

#[test]
fn patterns_match_whole_parts_and_operands() {
    let expectation = |line: &str| Expectation::parse(line, "k").unwrap();
    assert!(expectation("//@ ptx: ld.global == 1").matches("ld.global.nc.b32 \t%r1, [%rd1]"));
    assert!(!expectation("//@ ptx: ld.glob == 1").matches("ld.global.nc.b32 %r1, [%rd1]"));
    assert!(expectation("//@ ptx: bar.sync 0 == 1").matches("bar.sync \t0"));
    assert!(!expectation("//@ ptx: bar.sync 0 == 1").matches("bar.sync 1"));
    assert!(
        expectation("//@ sm_80: shfl.sync.up.b32 _, _, 3, 0, -1 >= 1")
            .matches("shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1")
    );
    assert!(
        !expectation("//@ ptx: shfl.sync.up.b32 _, _, 3, 0, -1 >= 1")
            .matches("shfl.sync.up.b32 %r2|%p1, %r1, 3, 31, -1")
    );
    assert!(Expectation::parse("//@ ptx: ld.global", "k").is_none());
}
