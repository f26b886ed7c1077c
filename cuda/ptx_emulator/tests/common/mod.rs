//! Tiny kernels around a few instructions.

#![allow(dead_code, reason = "each test file uses its own part of it")]

pub mod kernels;
pub mod matmul;
pub mod tensor_copy;
pub mod wgmma;

use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{Counts, LaunchCounts};
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule, Turns, UndefinedByte, UnwrittenRegisters};

/// A module with one kernel `k(out)`, whose `%out` is the parameter.
pub fn module(declarations: &str, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_75\n.address_size 64\n{declarations}
        .visible .entry k(.param .u64 out) {{
            .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .b64 %out;
            ld.param.u64 %out, [out];
            {body}
            ret;
        }}"
    )
}

/// Runs a module on `out`, which `k` gets the address of.
pub fn run_module<T: Copy>(ptx: &str, config: LaunchConfig, out: &mut [T]) -> Result<(), EmulatorError> {
    run_and_ask(ptx, config, out).map(|_| ())
}

/// As [`run_module`], and gives the first byte of `out` that has undefined bits.
pub fn run_and_ask<T: Copy>(
    ptx: &str,
    config: LaunchConfig,
    out: &mut [T],
) -> Result<Option<UndefinedByte>, EmulatorError> {
    let emulator = Emulator::new(PtxModule::parse(ptx)?).with_max_steps(1_000_000);
    // Bodies of a few instructions leave out what sets their registers.
    let mut emulator = emulator.with_unwritten_registers(UnwrittenRegisters::Undefined);
    let address = out.as_mut_ptr().addr() as u64;
    // SAFETY: `out` outlives the launch, and no other code uses it.
    unsafe {
        emulator.lend(out);
        emulator.launch("k", config, &[&address.to_le_bytes()])?;
    }
    Ok(emulator.undefined_in(out))
}

/// The error of [`eval`] for a result with undefined bits.
pub fn undefined() -> Cause {
    Cause::Undefined { register: "out".to_owned(), origin: String::new() }
}

/// Runs `body` as one thread and gives the low bits of register `result`; [`undefined`] if one of them is.
pub fn eval(body: &str, result: &str) -> Result<u64, Cause> {
    let width = match result {
        _ if result.starts_with("%rd") => "b64",
        _ if result.starts_with("%rs") => "b16",
        _ if result.starts_with("%p") => "pred",
        _ => "b32",
    };
    let store = match width {
        "pred" => format!("selp.b32 %r18, 1, 0, {result}; st.global.b32 [%out], %r18;"),
        _ => format!("st.global.{width} [%out], {result};"),
    };
    let mut out = [0u64];
    match run_and_ask(&module("", &format!("{body}\n{store}")), LaunchConfig::new(1, 1), &mut out) {
        Ok(None) => Ok(out[0]),
        Ok(Some(_)) => Err(undefined()),
        Err(EmulatorError::Fault(fault)) => Err(fault.cause),
        Err(error) => panic!("{body}: {error}"),
    }
}

/// Checks a table of instructions, the register they write, and what it then holds.
#[track_caller]
pub fn check(table: &[(&str, &str, u64)]) {
    for &(body, result, expected) in table {
        let got = eval(body, result).unwrap_or_else(|cause| panic!("{body}: {cause}"));
        assert_eq!(got, expected, "{body}: {got:#x} instead of {expected:#x}");
    }
}

/// What `k` does as it runs on 16 KiB of zeros, from an address that is a multiple of 256.
pub fn counts(declarations: &str, body: &str, config: LaunchConfig) -> LaunchCounts {
    counts_in_turns(declarations, body, config, Turns::Ascending)
}

/// As [`counts`], with a block's threads in that order.
pub fn counts_in_turns(declarations: &str, body: &str, config: LaunchConfig, turns: Turns) -> LaunchCounts {
    #[repr(align(256))]
    struct Aligned([u8; 16 << 10]);
    let mut out = Box::new(Aligned([0; 16 << 10]));
    let address = out.0.as_mut_ptr().addr() as u64;
    let module = PtxModule::parse(&module(declarations, body).replace("sm_75", "sm_90")).unwrap();
    let mut emulator = Emulator::new(module).with_max_steps(1_000_000).with_turns(turns).with_counts();
    // SAFETY: `out` outlives the launch, and no other code uses it.
    unsafe {
        emulator.lend(&mut out.0);
        emulator
            .launch("k", config, &[&address.to_le_bytes()])
            .unwrap_or_else(|error| panic!("{body}: {error}"));
    }
    let counts = emulator.take_counts();
    assert_eq!((counts.len(), emulator.take_counts().len()), (1, 0));
    counts.into_iter().sum()
}

/// As [`counts`], in all, of one warp.
pub fn counts_of_warp(declarations: &str, body: &str) -> Counts {
    counts(declarations, body, LaunchConfig::new(1, 32)).total
}

/// The cause of the fault that a module ends with.
pub fn fault<T: Copy>(ptx: &str, config: LaunchConfig, out: &mut [T]) -> (Cause, String) {
    match run_module(ptx, config, out) {
        Err(EmulatorError::Fault(fault)) => (fault.cause.clone(), fault.to_string()),
        other => panic!("{other:?} instead of a fault"),
    }
}
