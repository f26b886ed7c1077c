//! [`Emulator`]: a module with its variables, and launches of its kernels.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_std::launch::{LaunchConfig, Limits};
use cuda_std::testing::{Counter, LaunchCounts};

use crate::error::{EmulatorError, UndefinedByte};
use crate::exec::counts::access;
use crate::exec::counts::tally::Tally;
use crate::exec::grid::{Grid, Progress, Turns, UnwrittenRegisters};
use crate::exec::heap::Driver;
use crate::exec::shadow::Memory;
use crate::exec::space::{FIRST_OFFSET, Region, Regions};
use crate::exec::table::TABLE;
use crate::exec::unwritten::{Stored, Unwritten};
use crate::globals::Globals;
use crate::instr::{Instr, ParamRange, Space};
use crate::module::PtxModule;

/// Maximum static shared memory per block (CUDA programming guide, "technical specifications").
const MAX_STATIC_SHARED: u64 = 48 * 1024;
/// Bytes between two shared variables, so that an overrun is detected.
const GAP: u64 = 256;

/// Runs the kernels of a module on the CPU, in this process's memory.
pub struct Emulator {
    module: Arc<PtxModule>,
    globals: Globals,
    lent: Vec<Region>,
    limits: Limits,
    turns: Turns,
    unwritten_registers: UnwrittenRegisters,
    max_steps: u64,
    /// One launch runs at a time. The map holds the undefined bits that the last launch stored.
    turn: Mutex<BTreeMap<u64, Stored>>,
    driver: Mutex<Driver>,
    captures: bool,
    checks_races: bool,
    /// Receives the counts of launches, if they are counted.
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
    /// Creates an emulator of `module`, with the default [`Limits`] of a device of its compute capability. Its variables
    /// have the initial values in the PTX.
    pub fn new(module: impl Into<Arc<PtxModule>>) -> Emulator {
        let module = module.into();
        let globals = Globals::new(&module);
        let capability = module.capability;
        Emulator {
            module,
            globals,
            lent: Vec::new(),
            limits: Limits::of_gpu(capability),
            turns: Turns::default(),
            unwritten_registers: UnwrittenRegisters::default(),
            max_steps: 1 << 32,
            turn: Mutex::default(),
            driver: Mutex::default(),
            captures: false,
            checks_races: false,
            counter: None,
        }
    }

    /// The limits of one launch.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets the limits. `runs_cpu_only` is ignored: the emulator never runs kernels for the CPU executor alone.
    pub fn with_limits(self, limits: Limits) -> Emulator {
        Emulator { limits: Limits { runs_cpu_only: false, ..limits }, ..self }
    }

    /// Sets the order in which a block's threads run.
    pub fn with_turns(self, turns: Turns) -> Emulator {
        Emulator { turns, ..self }
    }

    /// Sets what threads find in registers that they have not written: for PTX of other compilers.
    pub fn with_unwritten_registers(self, unwritten_registers: UnwrittenRegisters) -> Emulator {
        Emulator { unwritten_registers, ..self }
    }

    /// Sets how many instructions, approximately, a block may execute before the launch counts as endless.
    pub fn with_max_steps(self, max_steps: u64) -> Emulator {
        Emulator { max_steps, ..self }
    }

    /// Makes it a fault if two threads access the same bytes of global or shared memory, one of them writes, and nothing
    /// orders the two. Known orders are barriers of the block and of the warp. Atomic operations do not race with each other,
    /// but an atomic store after an atomic load of the same thread is a fault if another thread stores there: it may undo that.
    /// A store to shared memory of what it already holds does not race with other stores. It is for kernels that wait for each
    /// other in no other way: not for copies, clusters, mbarriers and cooperative grids.
    pub fn with_race_check(self) -> Emulator {
        Emulator { checks_races: true, ..self }
    }

    /// Keeps what kernels print for [`Self::take_output`] instead of printing it.
    pub fn with_captured_output(self) -> Emulator {
        Emulator { captures: true, ..self }
    }

    /// Takes the captured output of kernels since the last call.
    pub fn take_output(&self) -> Vec<u8> {
        core::mem::take(self.driver.lock().unwrap_or_else(PoisonError::into_inner).output.get_mut())
    }

    /// Counts what warps do in each launch, for [`Self::take_counts`].
    pub fn with_counts(self) -> Emulator {
        self.with_counter(&Counter::new())
    }

    /// Adds what warps do in each launch to `counter`: for several emulators, or one that the caller gives away.
    pub fn with_counter(self, counter: &Counter) -> Emulator {
        Emulator { counter: Some(counter.clone()), ..self }
    }

    /// Takes the counts of the launches since the last call, in order; empty without [`Self::with_counts`].
    pub fn take_counts(&self) -> Vec<LaunchCounts> {
        self.counter.as_ref().map_or_else(Vec::new, Counter::take)
    }

    /// The module that it runs.
    pub fn module(&self) -> &PtxModule {
        &self.module
    }

    /// Lets all later launches read and write `memory`, which raw pointers need.
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

    /// Writes the global variable `name`, which must have the size of `bytes`.
    ///
    /// # Errors
    /// There is no such variable, or its size differs.
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

    /// The bytes of the global variable `name`.
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

    /// Finds the first byte of `memory` in which the last launch left undefined bits. They read as part of a pattern that is
    /// a NaN in every float type; a result that depends on them is invalid.
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

    /// Runs a kernel with the bytes of its arguments, one slice per parameter. The memory behind pointer arguments must have
    /// been [lent](Self::lend).
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

    /// Same as [`Self::launch`], with all blocks of the grid resident at once, so they may wait for each other. The typed
    /// launch of a `#[kernel(cooperative)]` does this automatically.
    ///
    /// # Errors
    /// Same as for [`Self::launch`], or all threads wait for stores that no thread makes.
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
        // The caller checks the sizes of grid and block. A partial cluster could not run.
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
            known: match self.module.kernels().collect::<Vec<_>>().join(", ") {
                known if known.is_empty() => "none".to_owned(),
                known => known,
            },
        })
    }

    /// The kernel's parameters. An error unless there are `got` of them with these sizes, where known.
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

    /// Runs a launch, and counts it if the emulator has a counter.
    pub(crate) fn run(&self, launch: Launch) -> Result<(), EmulatorError> {
        match &self.counter {
            None => self.run_with(launch, None),
            Some(counter) => self.count(launch).map(|counts| counter.add(counts)),
        }
    }

    /// Runs a launch and returns its counts.
    pub(crate) fn count(&self, launch: Launch) -> Result<LaunchCounts, EmulatorError> {
        let (kernel, tally) = (launch.kernel, RefCell::<Tally>::default());
        self.run_with(launch, Some(&tally))?;
        let flop = |i: &Instr, threads| access::flop(i, TABLE[usize::from(i.row)].counts, threads);
        Ok(tally.into_inner().finish(&self.module, &self.module.functions[kernel].name, flop))
    }

    fn run_with(&self, launch: Launch, tally: Option<&RefCell<Tally>>) -> Result<(), EmulatorError> {
        let Launch { kernel, config, is_cooperative, params, args } = launch;
        let extents = |dims: cuda_std::launch::Dim3| [dims.x, dims.y, dims.z];
        let (function, block) = (&self.module.functions[kernel], extents(config.block));
        function.bounds.check(block).map_err(|directive| {
            let kernel = function.name.clone();
            EmulatorError::Block { kernel, block, directive }
        })?;
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut addresses, mut regions) = (Vec::new(), Regions::default());
        args.iter().chain(&self.lent).for_each(|&region| regions.push(region));
        self.globals.regions(&self.module, &mut addresses, &mut regions);
        let shared = self.shared(kernel, config.shared_bytes, &mut addresses)?;
        let unwritten = Unwritten::default();
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let grid = Grid {
            module: &self.module,
            kernel,
            grid: extents(config.grid),
            block,
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
            races: self.checks_races.then(RefCell::default),
            progress: Progress::default(),
        };
        let result = grid.run().map_err(EmulatorError::from);
        *turn = unwritten.into_bytes();
        if !self.captures {
            print!("{}", String::from_utf8_lossy(&driver.output.take()));
        }
        result
    }

    /// Lays out the shared variables that the kernel can see. Returns their extents, and the addresses with their offsets
    /// filled in.
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
        // All dynamic variables name the same memory, after the static ones.
        at = all().filter(|(_, v)| v.is_dynamic).fold(at, |at, (_, v)| at.next_multiple_of(v.align));
        all().filter(|(_, v)| v.is_dynamic).for_each(|(index, _)| addresses[index] = at);
        if dynamic_bytes > 0 {
            extents.push((at, at + u64::from(dynamic_bytes)));
        }
        Ok(extents)
    }
}
