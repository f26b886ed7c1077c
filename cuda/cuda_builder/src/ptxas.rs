//! Compiles PTX to machine code, and reads each kernel's resources from ptxas's report.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::arch::NvvmArch;
use crate::error::{CudaBuilderError, IoContext};
use crate::fetch::{PTXAS, fetch};
use crate::process;
use crate::progress::ProgressFn;
use crate::stack;
use cuda_ir::ptx::Ptx;

/// The reader of ptxas's report: when it changes, cached output is invalid.
pub(crate) const SOURCE: &str = include_str!("ptxas.rs");

/// The resources of one kernel; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResources {
    /// The kernel's symbol.
    pub kernel: String,
    /// Registers per thread.
    pub registers: u32,
    /// Spill stores per thread, except in panics.
    pub spill_stores: u32,
    /// Spill loads per thread, except in panics.
    pub spill_loads: u32,
    /// Local memory per thread for variables that are not in registers, except in panics.
    pub stack: u32,
    /// Maximum stack depth over the calls that ptxas knows, including panics; 0 if ptxas does not report it, as with
    /// recursion.
    #[serde(default)]
    pub cumulative_stack: u32,
    /// Whether the stack has no size known in advance: a function calls itself or a function pointer.
    #[serde(default)]
    pub has_unbounded_stack: bool,
    /// Why its `wgmma` instructions are serialized, in ptxas's words; `None` if they run in parallel.
    #[serde(default)]
    pub serialized_wgmma: Option<String>,
    /// Static shared memory per block.
    pub shared: u32,
    /// Constant memory of the `.const` variables that the kernel reads.
    pub constant: u32,
    /// Constant memory for the kernel's parameters and the driver's additions.
    pub parameters: u32,
    /// Barriers per block.
    pub barriers: u32,
}

/// Finds the ptxas to use: `PTXAS_PATH`, or the pinned package, which is fetched into `tools` if it is missing.
pub fn find(tools: &Path, progress: &ProgressFn<'_>) -> Result<PathBuf, CudaBuilderError> {
    if let Some(path) = std::env::var_os("PTXAS_PATH").filter(|path| !path.is_empty()).map(PathBuf::from) {
        if path.is_file() {
            return Ok(path);
        }
        let reason = format!("PTXAS_PATH is {}, and there is no such file", path.display());
        return Err(CudaBuilderError::PtxasMissing(reason));
    }
    fetch(&PTXAS, tools, progress)?;
    let missing = || CudaBuilderError::PtxasMissing(format!("not in {}", tools.display()));
    PTXAS.file(tools, 0).ok_or_else(missing)
}

/// Assembles the PTX file `ptx` for `arch`. Returns each kernel's resources, in the order of the file.
pub fn resources(ptxas: &Path, ptx: &Path, arch: NvvmArch) -> Result<Vec<KernelResources>, CudaBuilderError> {
    let text = std::fs::read_to_string(ptx).during("reading", ptx)?;
    Ok(assemble(ptxas, &text, ptx, arch)?.1)
}

/// Assembles `text`, called `name` in messages, for `arch`. Returns the machine code, an ELF file, and each kernel's
/// resources, in the order of the module.
pub(crate) fn assemble(
    ptxas: &Path,
    text: &str,
    name: &Path,
    arch: NvvmArch,
) -> Result<(Vec<u8>, Vec<KernelResources>), CudaBuilderError> {
    let folder = tempfile::tempdir().during("creating a folder in", &std::env::temp_dir())?;
    let (input, output) = (folder.path().join("module.ptx"), folder.path().join("module.cubin"));
    std::fs::write(&input, text).during("writing", &input)?;
    let fail = |log: String| CudaBuilderError::PtxasFailed { path: name.to_owned(), arch, log };
    let mut command = Command::new(ptxas);
    command.arg("-v").arg(format!("-arch={}", arch.processor())).arg(&input).arg("-o").arg(&output);
    let ended = process::run(command, Vec::new(), process::limit())
        .map_err(|reason| fail(format!("{}: {reason}", ptxas.display())))?;
    if let Some(how) = ended.killed() {
        return Err(fail(format!("{} died: {how}\n{}", ptxas.display(), ended.log())));
    }
    if !ended.status.success() {
        return Err(fail(ended.log()));
    }
    let code = std::fs::read(&output).unwrap_or_default();
    let module = Ptx::parse(text);
    let resources = read_report(&ended.stderr, &module);
    let silent = module.entries().find(|entry| !resources.iter().any(|r| r.kernel == entry.name));
    let wrong = match silent {
        _ if !is_machine_code(&code) => "it ended well but left no machine code".to_owned(),
        Some(entry) => format!("it ended well but said nothing of the kernel {}", entry.name),
        None => return Ok((code, resources)),
    };
    Err(fail(format!("{}: {wrong}; is it a ptxas?", ptxas.display())))
}

/// Whether the bytes are an ELF file for NVIDIA's GPUs (`EM_CUDA`, 190).
pub(crate) fn is_machine_code(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&[190, 0])
}

/// Reads `log`, the messages of `ptxas -v` about `module`. Returns each kernel's resources, in the order of the module. A
/// kernel without messages is omitted, and other lines are skipped.
pub fn read_report(log: &str, module: &Ptx) -> Vec<KernelResources> {
    let run_by: HashMap<&str, HashSet<&str>> = module
        .entries()
        .map(|entry| (&*entry.name, module.run_by(&entry.name).into_iter().collect()))
        .collect();
    let mut found =
        parse(log, |kernel, function| run_by.get(kernel).is_some_and(|run| run.contains(function)));
    let unbounded = stack::find(module);
    let serialized = serialized_wgmma(log);
    let resources = module.entries().filter_map(|entry| {
        let run = run_by.get(&*entry.name)?;
        let of_entry = serialized.iter().find(|(function, _)| run.contains(function));
        let serialized_wgmma = of_entry.map(|(_, reason)| reason.clone());
        let constant = u32::try_from(module.constant_bytes(&entry.name)).unwrap_or(u32::MAX);
        let has_unbounded_stack = unbounded.iter().any(|stack| stack.kernel == entry.name);
        Some(KernelResources {
            constant,
            has_unbounded_stack,
            serialized_wgmma,
            ..found.remove(&entry.name)?
        })
    });
    resources.collect()
}

/// The functions with serialized `wgmma` instructions, and the reasons:
/// `(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to REASON in the function 'NAME'`,
/// or
/// `(C7517) warpgroup.wait is injected in around line 8 by compiler to allow use of registers defined by GMMA in function 'NAME'`.
fn serialized_wgmma(log: &str) -> Vec<(&str, String)> {
    log.lines().filter_map(|line| serialized(line).or_else(|| waits(line))).collect()
}

fn serialized(line: &str) -> Option<(&str, String)> {
    let (_, rest) = line.split_once("wgmma.mma_async instructions are serialized due to ")?;
    let (reason, name) = rest.rsplit_once(" in the function '")?;
    Some((name.split('\'').next()?, reason.split_whitespace().collect::<Vec<_>>().join(" ")))
}

fn waits(line: &str) -> Option<(&str, String)> {
    let (_, rest) = line.split_once("warpgroup.wait is injected in around line ")?;
    let (place, name) = rest.rsplit_once(" in function '")?;
    let place = place.split(' ').next()?;
    Some((name.split('\'').next()?, format!("a use of pending accumulators around line {place} of the PTX")))
}

/// Reads the messages of `ptxas -v`; counts a function for a kernel if `counts(kernel, function)` holds.
fn parse(log: &str, counts: impl Fn(&str, &str) -> bool) -> BTreeMap<String, KernelResources> {
    let mut kernels: BTreeMap<String, KernelResources> = BTreeMap::new();
    let (mut kernel, mut function) = (String::new(), String::new());
    for line in log.lines() {
        let line = line.strip_prefix("ptxas info").map_or(line, |rest| rest.trim_start_matches([' ', ':']));
        if let Some(rest) = line.strip_prefix("Compiling entry function '") {
            kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            let resources = KernelResources { kernel: kernel.clone(), ..Default::default() };
            kernels.insert(kernel.clone(), resources);
        } else if let Some(rest) = line.strip_prefix("Function properties for ") {
            function = rest.trim().to_owned();
        } else if let Some(resources) = kernels.get_mut(&kernel) {
            match line.trim_start().strip_prefix("Used ") {
                Some(_) => used(line, resources),
                None if counts(&kernel, &function) => frame(line, resources),
                None => {}
            }
        }
    }
    kernels
}

/// `8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads`
fn frame(line: &str, resources: &mut KernelResources) {
    for (number, what) in numbers(line) {
        match what {
            "bytes stack frame" => resources.stack = resources.stack.saturating_add(number),
            "bytes spill stores" => {
                resources.spill_stores = resources.spill_stores.saturating_add(number);
            }
            "bytes spill loads" => {
                resources.spill_loads = resources.spill_loads.saturating_add(number);
            }
            _ => {}
        }
    }
}

/// `Used 9 registers, used 1 barriers, 1024 bytes smem, 368 bytes cmem[0]`
fn used(line: &str, resources: &mut KernelResources) {
    for (number, what) in numbers(line) {
        match what {
            "registers" => resources.registers = number,
            "barriers" => resources.barriers = number,
            "bytes smem" => resources.shared = number,
            "bytes cumulative stack size" => resources.cumulative_stack = number,
            "bytes cmem[0]" => resources.parameters = number,
            _ => {}
        }
    }
}

fn numbers(line: &str) -> impl Iterator<Item = (u32, &str)> {
    line.split(',').filter_map(|part| {
        let part = part.trim();
        let part = part.strip_prefix("Used ").or_else(|| part.strip_prefix("used ")).unwrap_or(part);
        let (number, what) = part.split_once(' ')?;
        Some((number.parse().ok()?, what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "ptxas info    : 0 bytes gmem, 16 bytes cmem[3]\n\
            ptxas info    : Compiling entry function 'k' for 'sm_75'\n\
            ptxas info    : Function properties for k\n    \
            48 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 55 registers, used 1 barriers, 48 bytes cumulative stack size, 8192 bytes smem, \
            400 bytes cmem[0]\n\
            ptxas info    : Compile time = 1.0 ms\n\
            ptxas info    : Function properties for helper\n    \
            16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Function properties for panics\n    \
            72 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n";
        let kernels = parse(log, |_, function| function != "panics");
        let expected = KernelResources {
            kernel: "k".to_owned(),
            registers: 55,
            spill_stores: 4,
            spill_loads: 8,
            stack: 64,
            cumulative_stack: 48,
            has_unbounded_stack: false,
            serialized_wgmma: None,
            shared: 8192,
            constant: 0,
            parameters: 400,
            barriers: 1,
        };
        assert_eq!(kernels["k"], expected);
    }

    #[test]
    fn serialized_instructions_are_found_by_function() {
        let note = "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
            insufficient register resources for the wgmma pipeline in the function 'helper'\n";
        let frame =
            |kernel: &str| format!("ptxas info    : Compiling entry function '{kernel}' for 'sm_90a'\n");
        let log = format!("{note}{}{}", frame("k"), frame("other"));
        let module = Ptx::parse(
            ".func helper() { ret; } .entry k() { call helper, (); ret; } .entry other() { ret; }",
        );
        let found = read_report(&log, &module);
        let reasons: Vec<_> = found.iter().map(|it| it.serialized_wgmma.as_deref()).collect();
        assert_eq!(reasons, [Some("insufficient register resources for the wgmma pipeline"), None]);
        let note = "ptxas info    : (C7517) warpgroup.wait is injected in around line 8 by compiler to allow use of registers \
            defined by GMMA in function 'other'\n";
        let found = read_report(&format!("{note}{}{}", frame("k"), frame("other")), &module);
        let reasons: Vec<_> = found.iter().map(|it| it.serialized_wgmma.as_deref()).collect();
        assert_eq!(reasons, [None, Some("a use of pending accumulators around line 8 of the PTX")]);
    }

    #[test]
    fn numbers_beyond_all_reason_are_the_largest() {
        let frame = "ptxas info    : Function properties for k\n    \
            4294967295 bytes stack frame, 4294967295 bytes spill stores, 4294967295 bytes spill loads\n";
        let log = format!("ptxas info    : Compiling entry function 'k' for 'sm_75'\n{frame}{frame}");
        let module =
            Ptx::parse(".const .b64 c[18446744073709551615]; .const .b64 d[4]; .entry k() { ld c; ld d; }");
        let kernel = &read_report(&log, &module)[0];
        assert_eq!([kernel.stack, kernel.spill_stores, kernel.spill_loads, kernel.constant], [u32::MAX; 4]);
    }
}
