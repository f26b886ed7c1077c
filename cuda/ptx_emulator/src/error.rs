//! Errors: text that is not valid PTX, or a thread that breaks a rule.

use core::fmt;

/// Characters of an instruction that a fault prints.
const SHOWN: usize = 160;

/// Why a module could not be read, or a launch failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The text is not PTX that the parser knows.
    #[error("PTX line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: u32,
        /// The error there.
        message: String,
    },
    /// The module has no kernel of this name.
    #[error("the module has no kernel `{name}`; it has {known}")]
    NoKernel {
        /// The requested name.
        name: String,
        /// The names of its kernels.
        known: String,
    },
    /// The module has no global variable of this name.
    #[error("the module has no global variable `{name}`")]
    NoGlobal {
        /// The requested name.
        name: String,
    },
    /// The value for a global variable does not have the variable's size.
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
        /// The number of arguments.
        got: usize,
        /// Their sizes in bytes, where known.
        got_bytes: Vec<usize>,
        /// The sizes of the parameters.
        want_bytes: Vec<usize>,
    },
    /// The launch needs more static shared memory than a block can have.
    #[error("kernel {kernel}: {bytes} bytes of static shared memory, at most {max} are allowed")]
    StaticShared {
        /// The kernel.
        kernel: String,
        /// Bytes of its variables.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The block breaks a directive of the kernel.
    #[error("launch of {kernel} failed: a block of {block:?} threads, and the PTX says `{directive}`")]
    Block {
        /// The kernel.
        kernel: String,
        /// The block's extents.
        block: [u32; 3],
        /// The directive, with its numbers.
        directive: String,
    },
    /// The grid is not a whole number of clusters.
    #[error(
        "launch of {kernel} failed: {grid} blocks along x are no whole number of clusters of {cluster}; launch a \
         multiple of it"
    )]
    Cluster {
        /// The kernel.
        kernel: String,
        /// Blocks along x.
        grid: u32,
        /// Blocks per cluster.
        cluster: u32,
    },
    /// A thread broke a rule, or reached an instruction that is not emulated.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// A byte of global memory with undefined bits; see [`Emulator::undefined_in`](crate::Emulator::undefined_in).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndefinedByte {
    /// Its offset in the requested memory, in bytes.
    pub index: usize,
    /// A set bit for each undefined bit.
    pub bits: u8,
    /// The PTX function that stored it.
    pub function: String,
    /// The line in the PTX, from 1.
    pub line: u32,
    /// The text of that line.
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
    /// The PTX function it was in.
    pub function: String,
    /// The line in the PTX, from 1.
    pub line: u32,
    /// The text of that line.
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
        // A `wgmma` can have a long list of accumulators.
        match instruction.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, ": `{}..`", &instruction[..end]),
            None => write!(f, ": `{instruction}`"),
        }
    }
}

impl core::error::Error for Fault {}

/// The rule that a thread broke.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The instruction, or this form of it, is not emulated.
    #[error("not emulated: {0}")]
    Unsupported(String),
    /// Undefined bits decide where a thread branches, which memory it accesses or what other threads receive.
    #[error("register {register} holds bits that nothing was written to{origin}")]
    Undefined {
        /// The register.
        register: String,
        /// After a semicolon, where the thread last loaded such bits, unless they came from a register.
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
        /// Its role: an accumulator, or an element of A.
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
    /// A `wgmma` with wrong operands, or in the wrong order.
    #[error("wgmma: {0}")]
    Wgmma(String),
    /// Not all threads of a warpgroup execute an instruction that needs all of them.
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
    /// A tensor box copy with a wrong map, address or mask.
    #[error("tensor copy: {0}")]
    TensorCopy(String),
    /// All threads that have not exited wait. One of them waits for a phase of an mbarrier that lacks arrivals or bytes.
    #[error(
        "no thread can continue: the phase of the mbarrier that is waited for here lacks {arrivals} arrivals and {bytes} bytes"
    )]
    Phase {
        /// Arrivals that are missing.
        arrivals: i64,
        /// Bytes that are missing; negative if copies brought more than was expected.
        bytes: i64,
    },
    /// An atomic operation on undefined memory.
    #[error("an atomic operation on bits of {space} memory that nothing was written to")]
    UndefinedMemory {
        /// The state space.
        space: &'static str,
    },
    /// Undefined memory that a driver function is to read.
    #[error("{0} holds bits that nothing was written to")]
    UndefinedForDriver(String),
    /// A call of an address that is not a function's.
    #[error("a call of address {address:#x}, where no function of the module is")]
    NoFunction {
        /// The address.
        address: u64,
    },
    /// A call of a function with parameters of the wrong sizes.
    #[error("a call of `{name}` with parameters of other sizes than its own")]
    WrongCall {
        /// The function.
        name: String,
    },
    /// An access outside all allocations of its state space.
    #[error("{access} of {bytes} bytes at {address:#x} is outside of every allocation of {space} memory")]
    OutOfBounds {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// The state space, or `generic`.
        space: &'static str,
        /// The address in that space.
        address: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// An address that is not a multiple of the access's size.
    #[error("{access} of {bytes} bytes at {address:#x} in {space} memory is misaligned")]
    Misaligned {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// The state space.
        space: &'static str,
        /// The address in that space.
        address: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// A store into memory that the kernel may only read.
    #[error("{access} of {bytes} bytes at {address:#x} into memory that the kernel may only read")]
    ReadOnly {
        /// `store` or `atomic`.
        access: &'static str,
        /// The address.
        address: u64,
        /// The number of bytes.
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
    /// A use or free of an address that is not a live block of the heap.
    #[error("{0}")]
    Heap(String),
    /// A failed assertion, from `__assertfail`.
    #[error("assertion `{message}` failed at {file}:{line} in {function}")]
    Assert {
        /// The assertion's message.
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
    /// The carry flag is read before any instruction wrote it.
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
    /// The threads of a cluster wait at its barrier, and not all of them can reach it.
    #[error("the cluster's barrier is not reached by thread {missing:?} of block {block:?}, which {instead}")]
    ClusterBarrier {
        /// The block of a thread that is missing.
        block: [u32; 3],
        /// That thread.
        missing: [u32; 3],
        /// What it does instead.
        instead: String,
    },
    /// The halves of the cluster barrier in the wrong order, an access to another block's shared memory outside that block's
    /// lifetime, or `st.async` in a launch without clusters.
    #[error("{0}")]
    Cluster(String),
    /// A copy that was not waited for in time.
    #[error("{0}")]
    InFlight(String),
    /// A warp operation with a mask that names lanes that do not take part.
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
    /// A shuffle reads a lane that does not take part in it.
    #[error("lane {lane} reads lane {source_lane}, which is not in mask {mask:#010x}")]
    ShuffleSource {
        /// The reading lane.
        lane: u32,
        /// The lane it reads.
        source_lane: u32,
        /// The mask.
        mask: u32,
    },
    /// Two threads access the same memory, one of them writes it, and nothing orders the two: `Emulator::with_race_check`.
    #[error(
        "this thread {access} {space} memory at {address:#x}, and thread {thread:?} of block {block:?} {verb} it at PTX line \
         {line}, with no barrier between the two"
    )]
    Race {
        /// What this thread does.
        access: &'static str,
        /// The state space.
        space: &'static str,
        /// The address.
        address: u64,
        /// What the other thread does.
        verb: &'static str,
        /// The block of the other thread.
        block: [u32; 3],
        /// The other thread in its block.
        thread: [u32; 3],
        /// The PTX line of the other access.
        line: u32,
    },
    /// All threads that have not exited keep loading words that no thread stores any more.
    #[error(
        "no thread can continue: all threads wait for words, or for threads that do, and no thread stores them"
    )]
    Stuck,
    /// The block executed more instructions than allowed: probably an endless loop.
    #[error("the block executed {0} instructions without an end")]
    Steps(u64),
}
