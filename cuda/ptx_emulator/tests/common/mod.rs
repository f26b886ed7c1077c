//! Tiny kernels around a few instructions.

#![allow(dead_code, reason = "each test file uses its own part of it")]

pub mod kernels;
pub mod matmul;
pub mod tensor_copy;
pub mod wgmma;

use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{Counter, LaunchCounts};
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule, Turns, UndefinedByte, UnwrittenRegisters};

/// A module with one kernel `k(out)`, whose `%out` is the parameter.
pub fn module(declarations: &str, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n{declarations}
        .visible .entry k(.param .u64 out) {{
            .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .b64 %out;
            ld.param.u64 %out, [out];
            {body}
            ret;
        }}"
    )
}

/// Words at a multiple of 256.
#[repr(align(256))]
pub struct Words(pub [u32; 4096]);

/// How a module's kernel `k(out)` runs.
pub struct Setup {
    pub config: LaunchConfig,
    pub is_cooperative: bool,
    pub turns: Turns,
    /// Bodies of a few instructions leave out what sets their registers.
    pub registers: UnwrittenRegisters,
    /// How many words are at `out`, and what they hold before.
    pub words: usize,
    pub fill: u32,
}

impl Setup {
    pub fn new() -> Setup {
        let (turns, registers) = (Turns::Ascending, UnwrittenRegisters::Undefined);
        Setup { config: LaunchConfig::new(1, 1), is_cooperative: false, turns, registers, words: 64, fill: 0 }
    }

    /// The words at `out` after a launch, and the first byte of them that has undefined bits.
    pub fn run(&self, module: PtxModule) -> (Vec<u32>, Result<Option<UndefinedByte>, EmulatorError>) {
        self.run_on(Emulator::new(module))
    }

    /// What the kernel does, as counts.
    pub fn count(&self, module: PtxModule) -> LaunchCounts {
        let counter = Counter::new();
        self.run_on(Emulator::new(module).with_counter(&counter)).1.unwrap();
        counter.take().into_iter().sum()
    }

    fn run_on(&self, emulator: Emulator) -> (Vec<u32>, Result<Option<UndefinedByte>, EmulatorError>) {
        let mut words = Box::new(Words([self.fill; 4096]));
        let words = &mut words.0[..self.words];
        let mut emulator = emulator
            .with_max_steps(1_000_000)
            .with_turns(self.turns)
            .with_unwritten_registers(self.registers);
        let address = words.as_mut_ptr().addr() as u64;
        // SAFETY: the words outlive the launch, and no other code uses them.
        let result = unsafe {
            emulator.lend(words);
            let args: &[&[u8]] = &[&address.to_le_bytes()];
            match self.is_cooperative {
                true => emulator.launch_cooperative("k", self.config, args),
                false => emulator.launch("k", self.config, args),
            }
        };
        (words.to_vec(), result.map(|()| emulator.undefined_in(words)))
    }
}

/// What one thread leaves in `%r1`.
pub fn eval(body: &str) -> u32 {
    let text = module("", &format!("{body}\nst.global.b32 [%out], %r1;"));
    let (words, result) = Setup::new().run(PtxModule::parse(&text).unwrap());
    result.unwrap_or_else(|error| panic!("{body}: {error}"));
    words[0]
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
    let mut emulator = emulator.with_unwritten_registers(UnwrittenRegisters::Undefined);
    let address = out.as_mut_ptr().addr() as u64;
    // SAFETY: `out` outlives the launch, and no other code uses it.
    unsafe {
        emulator.lend(out);
        emulator.launch("k", config, &[&address.to_le_bytes()])?;
    }
    Ok(emulator.undefined_in(out))
}

/// The cause of the fault that a module ends with.
pub fn fault<T: Copy>(ptx: &str, config: LaunchConfig, out: &mut [T]) -> (Cause, String) {
    match run_module(ptx, config, out) {
        Err(EmulatorError::Fault(fault)) => (fault.cause.clone(), fault.to_string()),
        other => panic!("{other:?} instead of a fault"),
    }
}
