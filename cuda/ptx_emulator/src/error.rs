//! What goes wrong: text that is no PTX, or a thread that breaks a rule.

use core::fmt;

/// Characters of an instruction that a fault shows.
const SHOWN: usize = 160;

/// Why a module could not be read, or a launch did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The text is not PTX as the parser knows it.
    #[error("PTX line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: u32,
        /// What is wrong there.
        message: String,
    },
    /// The module has no kernel of this name.
    #[error("the module has no kernel `{name}`; it has {known}")]
    NoKernel {
        /// The name asked for.
        name: String,
        /// The names of its kernels.
        known: String,
    },
    /// The module has no global variable of this name.
    #[error("the module has no global variable `{name}`")]
    NoGlobal {
        /// The name asked for.
        name: String,
    },
    /// A value for a global variable has another size than the variable.
    #[error("the global variable `{name}` has {want} bytes, the value has {got}")]
    GlobalSize {
        /// The variable.
        name: String,
        /// Its size in bytes.
        want: usize,
        /// The size of the value.
        got: usize,
    },
    /// The arguments do not fit the kernel's parameters.
    #[error(
        "kernel {kernel}: {got} arguments of {got_bytes:?} bytes, the PTX declares parameters of {want_bytes:?}"
    )]
    Arguments {
        /// The kernel.
        kernel: String,
        /// How many arguments.
        got: usize,
        /// Their sizes, where known.
        got_bytes: Vec<usize>,
        /// The sizes of the parameters.
        want_bytes: Vec<usize>,
    },
    /// The launch needs more static shared memory than a block can have.
    #[error("kernel {kernel}: {bytes} bytes of static shared memory, at most {max} are allowed")]
    StaticShared {
        /// The kernel.
        kernel: String,
        /// What its variables take.
        bytes: u64,
        /// What is allowed.
        max: u64,
    },
    /// The grid is no whole number of clusters.
    #[error(
        "launch of {kernel} failed: {grid} blocks along x are no whole number of clusters of {cluster}; launch a \
         multiple of it"
    )]
    Cluster {
        /// The kernel.
        kernel: String,
        /// Blocks along x.
        grid: u32,
        /// Blocks of a cluster.
        cluster: u32,
    },
    /// A tensor map that a GPU refuses, or that the emulator does not know.
    #[error("invalid tensor map: {reason}")]
    TensorMap {
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
    /// A thread broke a rule, or reached an instruction that is not emulated.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// A byte of global memory with bits that nothing was written to; see
/// [`Emulator::undefined_in`](crate::Emulator::undefined_in).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndefinedByte {
    /// Its place in the memory asked for, in bytes.
    pub index: usize,
    /// A one for each undefined bit.
    pub bits: u8,
    /// The function of the PTX that stored it.
    pub function: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// That line.
    pub instruction: String,
}

impl fmt::Display for UndefinedByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UndefinedByte { index, bits, function, line, instruction } = self;
        write!(
            f,
            "byte {index} has bits {bits:#04x} that nothing was written to, stored in {function} at PTX line {line}: \
             `{instruction}`"
        )
    }
}

/// Where and why a launch stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// The block, x, y, z.
    pub block: [u32; 3],
    /// The thread in its block, x, y, z.
    pub thread: [u32; 3],
    /// The function of the PTX it was in.
    pub function: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// That line.
    pub instruction: String,
    /// What happened there.
    pub cause: Cause,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kernel, block, thread, function, line, instruction, cause } = self;
        write!(f, "kernel {kernel}, block {block:?}, thread {thread:?}: {cause}, at PTX line {line}")?;
        if function != kernel {
            write!(f, " in {function}")?;
        }
        // The list of accumulators of a `wgmma` is long.
        match instruction.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, ": `{}..`", &instruction[..end]),
            None => write!(f, ": `{instruction}`"),
        }
    }
}

impl core::error::Error for Fault {}

/// What a thread did.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The instruction is not emulated, or not in this form.
    #[error("not emulated: {0}")]
    Unsupported(String),
    /// Bits that nothing was written to decide where a thread goes, which memory it touches or what others get.
    #[error("register {register} holds bits that nothing was written to{origin}")]
    Undefined {
        /// The register.
        register: String,
        /// After a semicolon, where the thread last got such bits, if not from a register.
        origin: String,
    },
    /// A thread reads a register that it has not written.
    #[error(
        "register {register} is read, and this thread has not written it: ptxas may drop a mask that follows"
    )]
    UnwrittenRegister {
        /// The register.
        register: String,
    },
    /// A register that a pending `wgmma` uses is read or written.
    #[error(
        "register {register} is {access} while it is {role} of the pending wgmma of PTX line {line}; wait for its group first"
    )]
    PendingRegister {
        /// The register.
        register: String,
        /// `read` or `written`.
        access: &'static str,
        /// Which part it has: an accumulator, or an element of A.
        role: &'static str,
        /// The PTX line of the `wgmma`.
        line: u32,
    },
    /// Shared memory that a pending `wgmma` reads is written.
    #[error(
        "shared memory at {address:#x} is written while the pending wgmma of PTX line {line} reads it; wait for its group first"
    )]
    PendingOperand {
        /// The address in the block's shared memory.
        address: u64,
        /// The PTX line of the `wgmma`.
        line: u32,
    },
    /// A `wgmma` whose operands, or whose order, are wrong.
    #[error("wgmma: {0}")]
    Wgmma(String),
    /// An instruction of a warpgroup that not all its threads execute.
    #[error(
        "the 128 threads of a warpgroup execute this instruction together, and thread {missing:?} {instead}"
    )]
    Warpgroup {
        /// A thread that does not take part.
        missing: [u32; 3],
        /// What it does instead.
        instead: String,
    },
    /// `setmaxnreg` for more registers than the block has left, or in the wrong direction.
    #[error("setmaxnreg: {0}")]
    Registers(String),
    /// A copy of a tensor's box with a wrong map, address or mask.
    #[error("tensor copy: {0}")]
    TensorCopy(String),
    /// All threads that have not exited wait, and one of them for a phase of a barrier in shared memory that lacks arrivals or
    /// bytes.
    #[error(
        "no thread can continue: the phase of the mbarrier that is waited for here lacks {arrivals} arrivals and {bytes} bytes"
    )]
    Phase {
        /// Arrivals that are missing.
        arrivals: i64,
        /// Bytes that are missing; fewer than none if copies brought more than was expected.
        bytes: i64,
    },
    /// An atomic operation on memory that nothing was written to.
    #[error("an atomic operation on bits of {space} memory that nothing was written to")]
    UndefinedMemory {
        /// The state space.
        space: &'static str,
    },
    /// What a function of the driver's is to read, and nothing was written to.
    #[error("{0} holds bits that nothing was written to")]
    UndefinedForDriver(String),
    /// A call of an address that is no function's.
    #[error("a call of address {address:#x}, where no function of the module is")]
    NoFunction {
        /// The address.
        address: u64,
    },
    /// A call of a function with parameters of other sizes than its own.
    #[error("a call of `{name}` with parameters of other sizes than its own")]
    WrongCall {
        /// The function.
        name: String,
    },
    /// An access outside of every allocation of its state space.
    #[error("{access} of {bytes} bytes at {address:#x} is outside of every allocation of {space} memory")]
    OutOfBounds {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// The state space, `generic` among them.
        space: &'static str,
        /// The address in that space.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// An address that is no multiple of the access's size.
    #[error("{access} of {bytes} bytes at {address:#x} in {space} memory is misaligned")]
    Misaligned {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// The state space.
        space: &'static str,
        /// The address in that space.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// A store into memory that the kernel may only read.
    #[error("{access} of {bytes} bytes at {address:#x} into memory that the kernel may only read")]
    ReadOnly {
        /// `store` or `atomic`.
        access: &'static str,
        /// The address.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// `mapa` of a generic address that does not point into shared memory.
    #[error("the generic address {address:#x} does not point into {space} memory")]
    WrongSpace {
        /// The address.
        address: u64,
        /// The state space.
        space: &'static str,
    },
    /// A block of the heap that is used, or freed, when it is none.
    #[error("{0}")]
    Heap(String),
    /// A failed assertion, by `__assertfail`.
    #[error("assertion `{message}` failed at {file}:{line} in {function}")]
    Assert {
        /// What was asserted.
        message: String,
        /// The source file.
        file: String,
        /// The line in it.
        line: u32,
        /// The function.
        function: String,
    },
    /// `trap`.
    #[error("trap")]
    Trap,
    /// The carry flag is read where no instruction wrote it.
    #[error("the carry flag is read and {0}")]
    Carry(&'static str),
    /// The threads of a block wait at a barrier that not all of them can reach.
    #[error("barrier {id} is not reached by thread {missing:?}, which {instead}")]
    Barrier {
        /// The barrier's number.
        id: u32,
        /// The thread that is missing.
        missing: [u32; 3],
        /// What it does instead.
        instead: String,
    },
    /// The threads of a cluster wait at its barrier, which not all of them can reach.
    #[error("the cluster's barrier is not reached by thread {missing:?} of block {block:?}, which {instead}")]
    ClusterBarrier {
        /// The block of a thread that is missing.
        block: [u32; 3],
        /// That thread.
        missing: [u32; 3],
        /// What it does instead.
        instead: String,
    },
    /// The halves of the cluster's barrier in a wrong order, or an access to another block's shared memory outside of
    /// its life.
    #[error("{0}")]
    Cluster(String),
    /// A copy that nobody has waited for when it is too late.
    #[error("{0}")]
    InFlight(String),
    /// A warp operation whose mask names lanes that do not take part.
    #[error("lane {lane} waits for mask {mask:#010x}, but lane {missing} {instead}")]
    Mask {
        /// The lane.
        lane: u32,
        /// Its mask.
        mask: u32,
        /// A lane that does not take part.
        missing: u32,
        /// What it does instead.
        instead: String,
    },
    /// A shuffle read a lane that does not take part in it.
    #[error("lane {lane} reads lane {source_lane}, which is not in mask {mask:#010x}")]
    ShuffleSource {
        /// The reading lane.
        lane: u32,
        /// The lane it reads.
        source_lane: u32,
        /// The mask.
        mask: u32,
    },
    /// All threads that have not exited load words again and again which nobody stores any more.
    #[error(
        "no thread can continue: all threads wait for words, or for threads that do, and no thread stores them"
    )]
    Stuck,
    /// The block took more instructions than allowed, as an endless loop would.
    #[error("the block executed {0} instructions without an end")]
    Steps(u64),
}
