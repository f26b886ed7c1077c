//! Tests which ptxas errors the edits of the PTX avoid, and the effect of the flags.

use super::*;
use crate::{CudaBuilder, NvvmArch, ptxas, suspects, toolchain};

#[test]
fn a_module_is_prepared_once_and_again_after_a_failure() {
    let prepared = Prepared::default();
    let reason = "no passes".to_owned();
    let error = prepared.of("a", || Err(CudaBuilderError::Options(reason))).unwrap_err();
    assert!(error.to_string().contains("no passes"), "{error}");
    assert_eq!(&*prepared.of("a", || Ok("A".to_owned())).unwrap(), "A");
    assert_eq!(&*prepared.of("a", || panic!("made twice")).unwrap(), "A");
    assert_eq!(&*prepared.of("b", || Ok("B".to_owned())).unwrap(), "B");
}

const CHUNKS: &str = include_str!("../tests/modules/chunks.ll");
const GUARDED: &str = include_str!("../tests/modules/guarded.ll");
const NEGATED: &str = include_str!("../tests/modules/negated.ll");
const PAYLOAD: &str = include_str!("../tests/modules/payload.ll");
const SIGNS: &str = include_str!("../tests/modules/signs.ll");
const ATOMICS: &str = include_str!("../tests/modules/atomics.ll");
const ROOTS: &str = include_str!("../tests/modules/roots.ll");
const ABSOLUTES: &str = include_str!("../tests/modules/absolutes.ll");
const BYTES: &str = include_str!("../tests/modules/bytes.ll");
const NEGATIONS: &str = include_str!("../tests/modules/negations.ll");
const BYTES_OF_FLOATS: &str = include_str!("../tests/modules/bytes_of_floats.ll");
const SATURATED: &str = include_str!("../tests/modules/saturated.ll");
const UNREACHABLE: &str = include_str!("../tests/modules/unreachable.ll");

fn ptx(module: &str, backend: Backend, opt_level: u8) -> String {
    ptx_by(module, backend, &CudaBuilder::new(".").opt_level(opt_level))
}

/// Passes the module's PTX by each back end at each of these levels, and what to say of it if it is wrong.
fn at_levels(levels: impl IntoIterator<Item = u8> + Clone, module: &str, check: impl Fn(&str, &str)) {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        for opt_level in levels.clone() {
            let ptx = ptx(module, backend, opt_level);
            check(&ptx, &format!("{backend} -opt={opt_level}: {ptx}"));
        }
    }
}

fn ptx_by(module: &str, backend: Backend, builder: &CudaBuilder) -> String {
    let options = builder.codegen(NvvmArch::Compute90);
    compiler(backend).compile(module, &options).unwrap()
}

fn compiler(backend: Backend) -> Compiler {
    let tools = tools();
    Compiler::fetch(backend, &tools, &|_| {}).unwrap();
    let llvm = toolchain::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap().llvm;
    Compiler::open(backend, llvm, &tools).unwrap()
}

fn tools() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    CudaBuilder::tools_dir_in(&folder.ancestors().nth(2).unwrap().join("target"))
}

#[test]
fn a_parameter_that_is_stored_hides_no_other_store() {
    at_levels(1..=3, CHUNKS, |ptx, at| {
        let is_load = |line: &str| ["ld.local.b64", "ld.b64"].iter().any(|load| line.contains(load));
        assert!(ptx.lines().any(is_load), "the number is taken for known, {at}");
        // ptxas would convert in registers that the warp's threads share, whatever branches they take.
        assert!(!ptx.contains("cvta.to.local"), "an address is converted, {at}");
    });
}

#[test]
fn square_roots_of_libdevice_are_rounded_unless_they_may_be_fast() {
    let exact = CudaBuilder::new(".");
    for backend in [Backend::Nvvm, Backend::Llvm] {
        for opt_level in 0..=3 {
            let ptx = ptx_by(ROOTS, backend, &exact.clone().opt_level(opt_level));
            let count = |instruction: &str| ptx.matches(instruction).count();
            assert!(count("sqrt.rn.f32") >= 6 && count("\tsqrt.approx") == 0, "{backend} {opt_level}: {ptx}");
        }
        let ptx = ptx_by(ROOTS, backend, &exact.clone().ftz(true));
        assert!(ptx.contains("sqrt.rn.ftz.f32") && !ptx.contains("sqrt.rn.f32"), "{backend}: {ptx}");
        let ptx = ptx_by(ROOTS, backend, &exact.clone().fast_sqrt(true));
        assert!(ptx.contains("\tsqrt.approx.f32") && !ptx.contains("\tsqrt.rn"), "{backend}: {ptx}");
    }
}

#[test]
fn no_absolute_value_of_16_bits_is_left_to_ptxas() {
    at_levels(0..=3, ABSOLUTES, |ptx, at| {
        assert!(!["abs.s16", "neg.s16", "max.s16"].iter().any(|opcode| ptx.contains(opcode)), "{at}");
    });
}

/// The machine code that ptxas makes from PTX at an optimisation level, if it accepts it.
fn machine_code(ptx: &str, level: u8) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
    std::fs::write(&input, ptx).unwrap();
    let mut command = std::process::Command::new(ptxas::find(&tools(), &|_| {}).unwrap());
    command.args([&format!("-O{level}"), "-arch=sm_90"]).arg(&input).arg("-o").arg(&output);
    command.status().unwrap().success().then(|| std::fs::read(&output).unwrap())
}

/// Counts the instructions for which `is_such` holds; it gets their low and high 64 bits.
fn count(machine_code: &[u8], is_such: impl Fn(u64, u64) -> bool) -> usize {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    machine_code.chunks_exact(16).filter(|code| is_such(word(&code[..8]), word(&code[8..]))).count()
}

/// Counts conversions of numbers to integers: F2I of f32 and of f64, and F2IP.
fn conversions(machine_code: &[u8]) -> usize {
    count(machine_code, |low, _| [0x305, 0x311, 0x243].contains(&(low & 0xfff)))
}

/// Counts minima and maxima of two halves: VIMNMX.U16x2 and VIMNMX.S16x2.
fn minima_of_halves(machine_code: &[u8]) -> usize {
    count(machine_code, |low, high| [0x248, 0x848].contains(&(low & 0xfff)) && high & 0x200 != 0)
}

/// Counts signed minima and maxima of three, unless an operand is hidden: PRMT with the selector that keeps all bytes.
fn lost_negations(machine_code: &[u8]) -> usize {
    let hidden = count(machine_code, |low, _| low & 0xfff == 0x816 && low >> 32 == 0x3210);
    if hidden > 0 { 0 } else { suspects(machine_code).unwrap().len() }
}

/// Asserts that `counted` finds nothing in the machine code of a module. Without the edits of the PTX it finds something, if
/// the back ends optimise at level `from` or above.
fn is_mended_by_edits(module: &str, from: u8, levels: [u8; 2], counted: impl Fn(&[u8]) -> usize) {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        for opt_level in 0..=3 {
            let ptx = ptx(module, backend, opt_level);
            let options = CudaBuilder::new(".").opt_level(opt_level).codegen(NvvmArch::Compute90);
            let unedited = compiler(backend).compile_before_edits(module, &options).unwrap();
            for level in levels {
                let counted = |ptx: &str| counted(&machine_code(ptx, level).unwrap());
                assert_eq!(counted(&ptx), 0, "{backend} -opt={opt_level}: {ptx}");
                assert!(
                    opt_level < from || counted(&unedited) > 0,
                    "{backend} -opt={opt_level} needs no edit: {unedited}"
                );
            }
        }
    }
}

#[test]
fn ptxas_converts_no_number_that_is_stored_in_parts() {
    is_mended_by_edits(BYTES_OF_FLOATS, 0, [0, 3], conversions);
}

#[test]
fn ptxas_sees_no_minimum_of_16_bits() {
    is_mended_by_edits(SATURATED, 1, [1, 3], minima_of_halves);
}

#[test]
fn ptxas_folds_no_negation_into_a_minimum_of_three() {
    is_mended_by_edits(NEGATIONS, 1, [1, 3], lost_negations);
}

#[test]
fn ptxas_extends_no_sign_of_a_parameter_of_8_bits() {
    is_mended_by_edits(BYTES, 1, [1, 3], |code| suspects(code).unwrap().len());
}

#[test]
fn ptxas_takes_functions_that_end_in_a_label() {
    let is_taken = |ptx: &str| machine_code(ptx, 0).is_some();
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let mut ends_in_a_label = false;
        for opt_level in 0..=3 {
            let ptx = ptx(UNREACHABLE, backend, opt_level);
            assert!(is_taken(&ptx), "{backend} -opt={opt_level}: {ptx}");
            ends_in_a_label |= !is_taken(&ptx.replace("\ttrap;\n", ""));
        }
        assert!(ends_in_a_label || backend == Backend::Nvvm, "no level of {backend} needs the edit");
    }
}

#[test]
fn a_divisor_is_compared_with_zero_where_the_source_does() {
    at_levels(1..=3, GUARDED, |ptx, at| {
        let divisor = ptx.lines().find(|line| line.contains("[pick_param_0]")).unwrap();
        let divisor = divisor.split_whitespace().nth(1).unwrap();
        let compares = |line: &str| line.contains("setp.") && line.contains(&format!(" {divisor} 0;"));
        assert!(ptx.lines().any(compares), "{at}");
    });
}

#[test]
fn no_address_is_computed_from_another_whose_index_was_extended() {
    at_levels(1..=3, NEGATED, |ptx, at| {
        let loads = ptx.lines().filter_map(|line| line.trim().strip_prefix("ld.global.b64"));
        let addresses: Vec<&str> = loads.filter_map(|load| load.split(['[', ']']).nth(1)).collect();
        let is_apart = |pair: &[&str]| pair[0] != pair[1] && !pair.iter().any(|at| at.contains('+'));
        assert!(addresses.len() == 4 && addresses.chunks(2).all(is_apart), "{addresses:?}, {at}");
    });
}

#[test]
fn a_register_that_a_path_leaves_unwritten_starts_at_zero() {
    at_levels(0..=3, PAYLOAD, |ptx, at| {
        let starts = |line: &str| line.starts_with("\tmov.b16 \t%rs") && line.ends_with(", 0;");
        assert!(ptx.lines().any(starts), "{at}");
    });
}

#[test]
fn a_sign_that_is_stored_is_a_bit_and_one_that_is_computed_with_is_not() {
    at_levels(0..=3, SIGNS, |ptx, at| {
        let (stored, computed) = ptx.split_at(ptx.find(".entry computed").unwrap());
        assert!(!["neg.f32", "abs.f32", "neg.f64", "abs.f64"].iter().any(|it| stored.contains(it)), "{at}");
        assert!(computed.contains("neg.f32") || computed.contains("fma.rn.f32"), "{at}");
        assert!(!computed.contains("xor.b32"), "{at}");
    });
}

#[test]
fn atomic_operations_on_local_memory_and_fences_for_the_compiler_compile() {
    at_levels(0..=3, ATOMICS, |ptx, at| {
        assert!(!ptx.contains("trap;") && !ptx.contains(".local.cas"), "{at}");
        assert!(machine_code(ptx, 3).is_some(), "{at}");
        // A kernel's parameter points to global memory.
        let global = ptx.split(".entry of_global").nth(1).and_then(|rest| rest.split("\n}").next());
        assert!(!global.unwrap().contains("isspacep"), "{at}");
    });
}

const LOCATIONS: &str = include_str!("../tests/modules/locations.ll");

#[test]
fn locations_are_filled_in_as_if_they_had_been_compiled() {
    let (marked, locations) = cuda_ir::locations::mark(LOCATIONS);
    assert_eq!(locations.0, [(7, 5), (9, 11)]);
    // With one location, the back ends may read it when they compile.
    let one = LOCATIONS.replace("label %wrong_j", "label %write");
    let (marked_one, of_one) = cuda_ir::locations::mark(&one);
    for backend in [Backend::Nvvm, Backend::Llvm] {
        for opt_level in 0..=3 {
            let at = format!("{backend} -opt={opt_level}");
            let [exact, filled] = [LOCATIONS, &marked].map(|module| ptx(module, backend, opt_level));
            assert_eq!(locations.fill(&filled), exact, "{at}");
            let [exact_code, code] = [&exact, &filled].map(|ptx| machine_code(ptx, 3).unwrap());
            assert!(locations.fit(&filled, Some(&code)), "{at}: {filled}");
            assert!(locations.fill_code(&code) == exact_code, "{at}: the machine code differs");
            let filled = ptx(&marked_one, backend, opt_level);
            if of_one.fit(&filled, None) {
                assert_eq!(of_one.fill(&filled), ptx(&one, backend, opt_level), "{at}");
            }
        }
    }
}
