//! [`Emulator`]: a module with its variables, and launches of its kernels.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_std::launch::{LaunchConfig, Limits};
use cuda_std::testing::{Counter, LaunchCounts};

use crate::error::{EmulatorError, UndefinedByte};
use crate::exec::{
    Driver, FIRST_OFFSET, Grid, Memory, Progress, Region, Regions, Stored, Tally, Turns, Unwritten,
    UnwrittenRegisters,
};
use crate::globals::Globals;
use crate::instr::{ParamRange, Space};
use crate::module::PtxModule;

/// Static shared memory of a block, at most (CUDA programming guide, "technical specifications").
const MAX_STATIC_SHARED: u64 = 48 * 1024;
/// Bytes between two shared variables, so that an overrun is seen.
const GAP: u64 = 256;

/// Runs the kernels of a module on the CPU, in memory of this process.
pub struct Emulator {
    module: Arc<PtxModule>,
    globals: Globals,
    lent: Vec<Region>,
    limits: Limits,
    turns: Turns,
    unwritten_registers: UnwrittenRegisters,
    max_steps: u64,
    /// Launches take turns, and leave what they stored of undefined bits.
    turn: Mutex<BTreeMap<u64, Stored>>,
    driver: Mutex<Driver>,
    captures: bool,
    /// Where what launches do is left, if it is counted.
    counter: Option<Counter>,
}

/// A launch whose arguments are in the kernel's parameters.
pub(crate) struct Launch {
    /// Index of the kernel.
    pub kernel: usize,
    pub config: LaunchConfig,
    pub is_cooperative: bool,
    pub params: Memory,
    /// The memory lent with the arguments.
    pub args: Vec<Region>,
}

impl core::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Emulator")
            .field("kernels", &self.module.kernels().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Emulator {
    /// An emulator of `module`, with the default [`Limits`] of a device of the module's compute capability, and its
    /// variables as the PTX initialises them.
    pub fn new(module: impl Into<Arc<PtxModule>>) -> Emulator {
        let module = module.into();
        let globals = Globals::new(&module);
        let capability = module.capability;
        let max_cluster = if capability >= 90 { Limits::default().max_cluster } else { 1 };
        Emulator {
            module,
            globals,
            lent: Vec::new(),
            limits: Limits { max_cluster, capability, runs_cpu_only: false, ..Limits::default() },
            turns: Turns::default(),
            unwritten_registers: UnwrittenRegisters::default(),
            max_steps: 1 << 32,
            turn: Mutex::default(),
            driver: Mutex::default(),
            captures: false,
            counter: None,
        }
    }

    /// What it allows in one launch.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same emulator with other limits. Kernels that are for the CPU executor alone it has none of, whatever they say.
    pub fn with_limits(self, limits: Limits) -> Emulator {
        Emulator { limits: Limits { runs_cpu_only: false, ..limits }, ..self }
    }

    /// The same emulator with another order of a block's threads.
    pub fn with_turns(self, turns: Turns) -> Emulator {
        Emulator { turns, ..self }
    }

    /// The same emulator, whose threads find this in registers that they have not written: for PTX of other compilers.
    pub fn with_unwritten_registers(self, unwritten_registers: UnwrittenRegisters) -> Emulator {
        Emulator { unwritten_registers, ..self }
    }

    /// The same emulator, which lets a block execute about `max_steps` instructions before it counts as endless.
    pub fn with_max_steps(self, max_steps: u64) -> Emulator {
        Emulator { max_steps, ..self }
    }

    /// The same emulator, which keeps what kernels print for [`Self::take_output`] instead of printing it.
    pub fn with_captured_output(self) -> Emulator {
        Emulator { captures: true, ..self }
    }

    /// What kernels have printed since the last time, if it is captured.
    pub fn take_output(&self) -> Vec<u8> {
        core::mem::take(self.driver.lock().unwrap_or_else(PoisonError::into_inner).output.get_mut())
    }

    /// The same emulator, which counts what warps do in its launches, for [`Self::take_counts`].
    pub fn with_counts(self) -> Emulator {
        self.with_counter(&Counter::new())
    }

    /// The same emulator, which leaves what warps do in its launches with `counter`: for who gives the emulator away, or has
    /// several.
    pub fn with_counter(self, counter: &Counter) -> Emulator {
        Emulator { counter: Some(counter.clone()), ..self }
    }

    /// What the launches since the last time did, in order; nothing without [`Self::with_counts`].
    pub fn take_counts(&self) -> Vec<LaunchCounts> {
        self.counter.as_ref().map_or_else(Vec::new, Counter::take)
    }

    /// The module it runs.
    pub fn module(&self) -> &PtxModule {
        &self.module
    }

    /// Lets every later launch read and write `memory`, as memory behind raw pointers needs.
    ///
    /// # Safety
    /// - `memory` outlives the emulator's launches.
    /// - While a kernel runs, no other code uses it.
    pub unsafe fn lend<T: Copy>(&mut self, memory: &mut [T]) {
        let bytes = size_of_val(memory) as u64;
        let start = memory.as_mut_ptr().expose_provenance() as u64;
        self.lent.push(Region { start, end: start + bytes, space: Space::Global, is_writable: true });
    }

    /// Takes back all memory that was [lent](Self::lend): later launches may not touch it.
    pub fn take_back(&mut self) {
        self.lent.clear();
    }

    /// Writes the global variable `name`, whose size is that of `bytes`.
    ///
    /// # Errors
    /// There is no such variable, or it has another size.
    pub fn set_global(&self, name: &str, bytes: &[u8]) -> Result<(), EmulatorError> {
        let variable = self.variable(name)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.globals.set(variable, bytes) {
            Ok(())
        } else {
            let want = self.module.variables[variable].bytes as usize;
            Err(EmulatorError::GlobalSize { name: name.to_owned(), want, got: bytes.len() })
        }
    }

    /// What the global variable `name` holds.
    ///
    /// # Errors
    /// There is no such variable.
    pub fn global(&self, name: &str) -> Result<Vec<u8>, EmulatorError> {
        let variable = self.variable(name)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.globals.get(variable))
    }

    fn variable(&self, name: &str) -> Result<usize, EmulatorError> {
        let mut all = self.module.variables.iter();
        let found = all.position(|v| v.name == name && v.space != Space::Shared && v.function.is_none());
        found.ok_or_else(|| EmulatorError::NoGlobal { name: name.to_owned() })
    }

    /// The first byte of `memory` in which the last launch left bits that nothing had been written to. They read as
    /// parts of a pattern, a NaN of every float type; a result that depends on them is none.
    pub fn undefined_in<T>(&self, memory: &[T]) -> Option<UndefinedByte> {
        let stored = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let start = memory.as_ptr().addr() as u64;
        let (&address, &Stored { undefined, function, pc }) =
            stored.range(start..start + size_of_val(memory) as u64).next()?;
        let function = &self.module.functions[function];
        let line = function.instrs[pc].line;
        let instruction = self.module.line(line).to_owned();
        let (index, function) = ((address - start) as usize, function.name.clone());
        Some(UndefinedByte { index, bits: undefined, function, line, instruction })
    }

    /// Runs a kernel with the bytes of its arguments, one slice a parameter. What pointers among them lead to must
    /// have been [lent](Self::lend).
    ///
    /// # Errors
    /// There is no such kernel, the arguments do not fit its parameters, or a thread broke a rule.
    ///
    /// # Safety
    /// The kernel's own contract holds for this grid and these arguments.
    pub unsafe fn launch(
        &self,
        name: &str,
        config: LaunchConfig,
        args: &[&[u8]],
    ) -> Result<(), EmulatorError> {
        self.run(self.prepare(name, (config, false), args)?)
    }

    /// As [`Self::launch`], with all blocks of the grid alive at once, so they may wait for each other. The typed launch
    /// of a `#[kernel(cooperative)]` does this automatically.
    ///
    /// # Errors
    /// Same as for [`Self::launch`], or all threads wait for words that no thread stores.
    ///
    /// # Safety
    /// Same as for [`Self::launch`].
    pub unsafe fn launch_cooperative(
        &self,
        name: &str,
        config: LaunchConfig,
        args: &[&[u8]],
    ) -> Result<(), EmulatorError> {
        self.run(self.prepare(name, (config, true), args)?)
    }

    fn prepare(
        &self,
        name: &str,
        (config, is_cooperative): (LaunchConfig, bool),
        args: &[&[u8]],
    ) -> Result<Launch, EmulatorError> {
        let kernel = self.kernel(name)?;
        // The sizes of grid and block are the caller's affair; a part of a cluster could not be run.
        let is_whole = config.cluster > 0 && config.grid.x.is_multiple_of(config.cluster);
        if !is_whole {
            let (grid, cluster) = (config.grid.x, config.cluster);
            return Err(EmulatorError::Cluster { kernel: name.to_owned(), grid, cluster });
        }
        let got = args.iter().map(|arg| arg.len()).collect::<Vec<_>>();
        let ranges = self.params(kernel, args.len(), &got)?;
        let mut params = Memory::new(self.module.functions[kernel].param_bytes as usize);
        for (arg, range) in args.iter().zip(ranges) {
            params.write(range.offset as usize, arg);
        }
        Ok(Launch { kernel, config, is_cooperative, params, args: Vec::new() })
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<usize, EmulatorError> {
        let index = self.module.function_names.get(name).copied();
        index.filter(|&index| self.module.functions[index].is_entry).ok_or_else(|| EmulatorError::NoKernel {
            name: name.to_owned(),
            known: self.module.kernels().collect::<Vec<_>>().join(", "),
        })
    }

    /// The kernel's parameters, if there are `got` of them, of these sizes where known.
    pub(crate) fn params(
        &self,
        kernel: usize,
        got: usize,
        got_bytes: &[usize],
    ) -> Result<&[ParamRange], EmulatorError> {
        let function = &self.module.functions[kernel];
        let want_bytes: Vec<usize> = function.params.iter().map(|range| range.bytes as usize).collect();
        if got == want_bytes.len() && (got_bytes.is_empty() || got_bytes == want_bytes) {
            return Ok(&function.params);
        }
        let (kernel, got_bytes) = (function.name.clone(), got_bytes.to_vec());
        Err(EmulatorError::Arguments { kernel, got, got_bytes, want_bytes })
    }

    /// Runs a launch, and counts it if the emulator does.
    pub(crate) fn run(&self, launch: Launch) -> Result<(), EmulatorError> {
        match &self.counter {
            None => self.run_with(launch, None),
            Some(counter) => self.count(launch).map(|counts| counter.add(counts)),
        }
    }

    /// Runs a launch, and gives what it did.
    pub(crate) fn count(&self, launch: Launch) -> Result<LaunchCounts, EmulatorError> {
        let (kernel, tally) = (launch.kernel, RefCell::<Tally>::default());
        self.run_with(launch, Some(&tally))?;
        Ok(tally.into_inner().finish(&self.module, &self.module.functions[kernel].name))
    }

    fn run_with(&self, launch: Launch, tally: Option<&RefCell<Tally>>) -> Result<(), EmulatorError> {
        let Launch { kernel, config, is_cooperative, params, args } = launch;
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut addresses, mut regions) = (Vec::new(), Regions::default());
        args.iter().chain(&self.lent).for_each(|&region| regions.push(region));
        self.globals.regions(&self.module, &mut addresses, &mut regions);
        let shared = self.shared(kernel, config.shared_bytes, &mut addresses)?;
        let extents = |dims: cuda_std::launch::Dim3| [dims.x, dims.y, dims.z];
        let unwritten = Unwritten::default();
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let grid = Grid {
            module: &self.module,
            kernel,
            grid: extents(config.grid),
            block: extents(config.block),
            cluster: config.cluster,
            params,
            dynamic_bytes: config.shared_bytes,
            addresses,
            shared,
            regions: &regions,
            unwritten: &unwritten,
            driver: &driver,
            turns: self.turns,
            unwritten_registers: self.unwritten_registers,
            max_steps: self.max_steps,
            is_cooperative,
            tally,
            progress: Progress::default(),
        };
        let result = grid.run().map_err(EmulatorError::from);
        *turn = unwritten.into_bytes();
        if !self.captures {
            print!("{}", String::from_utf8_lossy(&driver.output.take()));
        }
        result
    }

    /// Lays out the shared variables that the kernel can see: their extents, and their offsets among the addresses.
    fn shared(
        &self,
        kernel: usize,
        dynamic_bytes: u32,
        addresses: &mut [u64],
    ) -> Result<Vec<(u64, u64)>, EmulatorError> {
        let (mut extents, mut at, mut total) = (Vec::new(), FIRST_OFFSET, 0);
        let is_seen = |function: Option<usize>| {
            function.is_none_or(|index| index == kernel || !self.module.functions[index].is_entry)
        };
        let all = || self.module.variables.iter().enumerate().filter(|(_, v)| v.space == Space::Shared);
        for (index, variable) in all().filter(|(_, v)| !v.is_dynamic && is_seen(v.function)) {
            at = at.next_multiple_of(variable.align);
            addresses[index] = at;
            extents.push((at, at + variable.bytes));
            at += variable.bytes + GAP;
            total += variable.bytes;
        }
        if total > MAX_STATIC_SHARED {
            let kernel = self.module.functions[kernel].name.clone();
            return Err(EmulatorError::StaticShared { kernel, bytes: total, max: MAX_STATIC_SHARED });
        }
        // All dynamic variables are names of the same memory, after the static ones.
        at = all().filter(|(_, v)| v.is_dynamic).fold(at, |at, (_, v)| at.next_multiple_of(v.align));
        all().filter(|(_, v)| v.is_dynamic).for_each(|(index, _)| addresses[index] = at);
        if dynamic_bytes > 0 {
            extents.push((at, at + u64::from(dynamic_bytes)));
        }
        Ok(extents)
    }
}
