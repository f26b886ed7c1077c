//! Whole builds of the fixture crate: what its PTX must hold, and what it must not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{COMPILER, builder, ptx, ptx_text, tools};
use cuda_builder::ptx::PtxFunction;
use cuda_builder::{NvvmArch, ptxas};

const KERNELS: [&str; 16] = [
    "arithmetic",
    "arrays",
    "dynamic",
    "formatted",
    "helper_in_branches",
    "helper_after_test",
    "index",
    "indirect",
    "last_wins",
    "looked_up",
    "loop_with_barriers",
    "messages",
    "one_writer",
    "reverse",
    "same_test_twice",
    "slice",
];

/// Where in the body the first statement with this opcode stands.
fn position(function: &PtxFunction, opcode: &str) -> usize {
    let found = function.statements.iter().position(|statement| statement.starts_with(opcode));
    found.unwrap_or_else(|| panic!("no `{opcode}` in {}: {:#?}", function.name, function.statements))
}

#[test]
fn only_kernels_are_visible() {
    let text = ptx_text("visible");
    let visible: Vec<&str> = text.lines().filter(|line| line.starts_with(".visible")).collect();
    let (entries, others): (Vec<&str>, Vec<&str>) = visible.iter().partition(|line| line.contains(".entry"));
    assert_eq!(entries.len(), KERNELS.len(), "{entries:#?}");
    assert_eq!(others, [".visible .global .align 8 .b8 __ferrowarp_panic_slot[8];"]);
    let ptx = ptx("visible");
    for kernel in KERNELS {
        assert!(ptx.entries().any(|entry| entry.name == kernel), "{kernel}");
    }
}

#[test]
fn statics_are_where_they_are_marked() {
    let ptx = ptx("statics");
    let space = |part: &str| {
        let spaces = ptx.variables.iter().filter(|v| v.name.contains(part)).map(|v| v.space.as_str());
        spaces.collect::<Vec<_>>()
    };
    assert_eq!(space("__TILE"), [".shared"]);
    assert_eq!(space("__TABLE"), [".const"]);
    assert_eq!(space("__ferrowarp_dynamic_shared"), [".shared"]);
    // libNVVM makes a scalar of each element.
    assert!(!space("__PAIR").is_empty() && space("__PAIR").iter().all(|space| *space == ".shared"));
    assert!(space("__UNUSED").is_empty(), "no kernel reaches it");
    let reverse = ptx.function("reverse").unwrap();
    for opcode in ["ld.shared", "st.shared", "ld.const", "ld.global", "st.global"] {
        assert_eq!(reverse.count(opcode), 1, "{opcode}");
    }
    let dynamic = ptx.variables.iter().find(|v| v.name == "__ferrowarp_dynamic_shared").unwrap();
    assert!(dynamic.is_extern);
}

#[test]
fn libdevice_is_linked_in() {
    let text = ptx_text("libdevice");
    assert!(!text.contains("__nv_"), "libdevice's functions are inlined");
    assert!(ptx("libdevice").function("dynamic").unwrap().count("ex2.approx") > 0);
}

/// Every thread writes the same place: after the barrier it must read what the last one wrote, not what it wrote.
#[test]
fn no_shared_value_is_kept_in_a_register_across_a_barrier() {
    let ptx = ptx("registers");
    for (kernel, loads, stores) in [("last_wins", 2, 2), ("one_writer", 1, 1), ("reverse", 1, 1)] {
        let kernel = ptx.function(kernel).unwrap();
        assert_eq!(
            (kernel.count("ld.shared"), kernel.count("st.shared")),
            (loads, stores),
            "{}",
            kernel.name
        );
        let barrier = position(kernel, "bar.sync");
        assert!(
            position(kernel, "st.shared") < barrier && barrier < position(kernel, "ld.shared"),
            "{}",
            kernel.name
        );
    }
}

/// MIR jump threading (rust-lang/rust#137086) gives each side of the first test its own barrier.
#[test]
fn barriers_are_neither_duplicated_nor_moved() {
    let ptx = ptx("barriers");
    let kernel = |name| ptx.function(name).unwrap();
    assert_eq!(kernel("same_test_twice").count("bar.sync"), 1);
    assert_eq!(kernel("last_wins").count("bar.sync"), 1);
    // The barrier of a helper that is not inlined is in the helper alone, and the calls are those of the source.
    assert_eq!(kernel("helper_in_branches").count("bar.sync"), 0);
    assert_eq!(kernel("helper_in_branches").count("call"), 3);
    assert_eq!(kernel("helper_after_test").count("call"), 1);
    let helper =
        ptx.functions.iter().find(|f| f.name.ends_with("__publish") && !f.statements.is_empty()).unwrap();
    assert_eq!(helper.count("bar.sync"), 1);
    // A loop may be unrolled as a whole: its two barriers then come in pairs, a store or a load between them.
    let unrolled = kernel("loop_with_barriers");
    let steps = unrolled.statements.iter().filter_map(|statement| {
        ["bar.sync", "ld.global", "st.global"].into_iter().find(|opcode| statement.starts_with(opcode))
    });
    let steps: Vec<&str> = steps.collect();
    assert!(!steps.is_empty());
    for round in steps.chunks(5) {
        assert_eq!(round, ["st.global", "bar.sync", "ld.global", "bar.sync", "st.global"]);
    }
}

#[test]
fn panics_bring_no_formatting_code() {
    let ptx = ptx("panics");
    let formatting = |name: &str| name.contains("core__fmt") || name.contains("assert_failed_inner");
    let found: Vec<&str> =
        ptx.functions.iter().map(|f| f.name.as_str()).filter(|name| formatting(name)).collect();
    assert!(found.is_empty(), "{found:#?}");
    for kernel in ["index", "slice", "arithmetic", "messages", "formatted"] {
        let kernel = ptx.function(kernel).unwrap();
        assert!(kernel.count("call") > 0, "{} can panic", kernel.name);
        assert_eq!(kernel.count(".local"), 0, "{} keeps arguments of messages", kernel.name);
    }
}

/// The texts stand in the PTX as bytes, those that the builder gives included.
#[test]
fn panics_keep_their_messages() {
    let text = ptx_text("messages");
    let bytes = |message: &str| message.bytes().map(|b| b.to_string()).collect::<Vec<_>>().join(", ");
    for message in [
        "seven is bad",
        "the product fits",
        "ninety-nine",
        "called `Option::unwrap()` on a `None` value",
        "called `Result::unwrap()` on an `Err` value",
        "attempt to divide by zero",
        "attempt to subtract with overflow",
        "assertion `left == right` failed",
        "slice index out of range",
        "four is bad",
        "the value {} of {} is bad",
        "both are {} then",
        "src/panics.rs",
    ] {
        assert!(text.contains(&bytes(message)), "{message}");
    }
    assert!(text.contains("__ferrowarp_panic_bounds_check"));
}

#[test]
fn ptxas_takes_it_for_every_architecture_without_local_memory() {
    let archs = [NvvmArch::Compute75, NvvmArch::Compute80, NvvmArch::Compute90, NvvmArch::Compute100];
    let built = builder("ptxas").archs(&archs).build_all().unwrap();
    let ptxas = ptxas::find(&tools(), &|_| {}).unwrap();
    for module in built.modules {
        let kernels = ptxas::resources(&ptxas, &module.path, module.arch).unwrap();
        assert_eq!(kernels.len(), KERNELS.len());
        // Helpers that are kept from being inlined save registers in local memory, as the calling convention wants.
        let inlined = |kernel: &str| !kernel.starts_with("helper_") && kernel != "indirect";
        for kernel in kernels.iter().filter(|kernel| inlined(&kernel.kernel)) {
            let local = (kernel.stack, kernel.spill_stores, kernel.spill_loads);
            assert_eq!(local, (0, 0, 0), "{} for {}", kernel.kernel, module.arch);
            assert!(kernel.registers > 0);
        }
        let reverse = kernels.iter().find(|kernel| kernel.kernel == "reverse").unwrap();
        assert_eq!((reverse.shared, reverse.constant), (1024, 20));
    }
}

#[test]
fn damaged_ptx_is_refused_by_ptxas() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("damaged.ptx");
    let text = ptx_text("damaged");
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let ptxas = ptxas::find(&tools(), &|_| {}).unwrap();
    let error = ptxas::resources(&ptxas, &path, NvvmArch::Compute75).unwrap_err();
    assert!(error.to_string().contains("damaged.ptx for compute_75"), "{error}");
}

#[test]
fn ptxas_compares_a_constant_byte_as_16_bits() {
    let ptx = ".version 8.6\n.target sm_90\n.address_size 64\n\
        .func (.param .b32 found) is_limit(.param .b32 limit, .param .b64 numbers)\n{\n\
        .reg .b16 %rs<3>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\n\
        ld.param.s8 %rs1, [limit];\nld.param.b64 %rd1, [numbers];\nld.s8 %rs2, [%rd1];\n\
        setp.eq.b16 %p1, %rs1, %rs2;\nselp.b32 %r1, 5, 7, %p1;\nst.param.b32 [found], %r1;\nret;\n}\n\
        .visible .entry k(.param .u64 numbers)\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nld.param.b64 %rd1, [numbers];\n\
        {\n.param .b32 limit;\n.param .b64 at;\n.param .b32 found;\nst.param.b32 [limit], 182;\nst.param.b64 [at], %rd1;\n\
        call.uni (found), is_limit, (limit, at);\nld.param.b32 %r1, [found];\n}\nst.global.b32 [%rd1], %r1;\nret;\n}\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("constant-byte");
    std::fs::create_dir_all(&folder).unwrap();
    let (path, out) = (folder.join("byte.ptx"), folder.join("byte.cubin"));
    let ptxas = ptxas::find(&tools(), &|_| {}).unwrap();
    let has_number = |text: &str, number: u32| {
        std::fs::write(&path, text).unwrap();
        let status = Command::new(&ptxas).args(["-arch", "sm_90", "-o"]).args([&out, &path]).status();
        assert!(status.unwrap().success());
        let code = std::fs::read(&out).unwrap();
        // ISETP with a number, which is the upper half of the first word.
        let is_compared = |word: &[u8]| word[..2] == [0x0c, 0x78] && word[4..8] == number.to_le_bytes();
        code.chunks_exact(16).any(is_compared)
    };
    let edited = cuda_ir::byte_parameters::extend(ptx);
    assert!(has_number(&edited, 0xffb6) && !has_number(&edited, 0xffff_ffb6));
    assert!(has_number(ptx, 0xffff_ffb6), "this ptxas is right: the edit is for older ones");
}

/// The supported compilers beside the one of this build, and what each is called.
fn other_compilers() -> Vec<(String, PathBuf)> {
    let rustup = Command::new("rustup").args(["toolchain", "list"]).output();
    let list = rustup.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let installed = |version: &&str| list.lines().any(|line| line.starts_with(&format!("{version}-")));
    let (found, absent): (Vec<&str>, Vec<&str>) =
        ["1.96.0", "1.97.0", "1.98.0"].into_iter().partition(installed);
    for version in absent {
        println!("not tried: rustc {version} is not installed");
    }
    let path_of = |version: &str| {
        let which = Command::new("rustup").args(["which", "--toolchain", version, "rustc"]).output().unwrap();
        PathBuf::from(String::from_utf8_lossy(&which.stdout).trim())
    };
    let mut compilers: Vec<_> = found.into_iter().map(|v| (v.to_owned(), path_of(v))).collect();
    let debian = PathBuf::from("/usr/bin/rustc");
    let source = Path::new("/usr/lib/rustlib/src/rust/library/core/src/lib.rs");
    if debian.is_file() && source.is_file() {
        compilers.push(("debian".to_owned(), debian));
    } else {
        println!("not tried: Debian's rustc-web and rust-web-src are not installed");
    }
    compilers
}

/// All tests of this file again, with each other compiler that is there.
#[test]
fn every_supported_compiler_gives_the_same() {
    if std::env::var_os(COMPILER).is_some() {
        return;
    }
    for (name, rustc) in other_compilers() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let output = again.arg("fixture::").env(COMPILER, &name).env("RUSTC", rustc).output().unwrap();
        assert!(
            output.status.success(),
            "rustc {name}:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
