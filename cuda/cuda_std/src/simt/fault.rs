//! The faults of a kernel on the executor.

use core::fmt;
use core::panic::Location;
use core::time::Duration;

use crate::launch::Dim3;

/// The environment variable that seeds every executor created without [`with_seed`](super::Executor::with_seed).
pub(super) const SEED: &str = "FERROWARP_SEED";

/// The environment variable with the limit of every executor created without
/// [`with_time_limit`](super::Executor::with_time_limit), in seconds.
pub(super) const SECONDS: &str = "FERROWARP_KERNEL_SECONDS";

/// A kernel thread panicked or broke a rule of the CUDA model.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The kernel.
    pub kernel: &'static str,
    /// Block and thread.
    pub place: Place,
    /// Where in the source, if known.
    pub location: Option<SourceLine>,
    /// What happened.
    pub kind: FaultKind,
    /// The seed of the schedule, if the launch had one: with it the fault happens again.
    pub seed: Option<u64>,
}

/// A thread's coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Block in the grid.
    pub block: Dim3,
    /// Thread in the block, if one thread is at fault.
    pub thread: Option<Dim3>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.block)?;
        self.thread.map_or(Ok(()), |thread| write!(f, ", thread {thread}"))
    }
}

/// A line of source, as the compiler knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// Path of the file, relative to where the compiler ran.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

impl From<&Location<'_>> for SourceLine {
    fn from(location: &Location<'_>) -> Self {
        Self { file: location.file().into(), line: location.line() }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The kinds of [`Fault`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A panic: a failed bounds check or assertion, an overflow, an explicit panic.
    Panic {
        /// Its message.
        message: String,
    },
    /// Some threads wait at a block barrier which another thread of the block never reaches.
    BarrierNotReached {
        /// The barrier's function.
        barrier: &'static str,
        /// A thread that does not reach it.
        missing: Dim3,
        /// What that thread does instead.
        instead: Instead,
    },
    /// Some threads wait at a cluster barrier which another thread of the cluster never reaches.
    ClusterBarrierNotReached {
        /// The barrier's function.
        barrier: &'static str,
        /// The block of a thread that does not reach it.
        block: Dim3,
        /// That thread in its block.
        missing: Dim3,
        /// What that thread does instead.
        instead: Instead,
    },
    /// Threads of a cooperative launch wait for words, and no thread is left that could write them.
    Stuck {
        /// The waits of all threads that have not returned, one per source location; waits for words come first.
        waits: Vec<StuckWait>,
    },
    /// A thread waits for a phase of a barrier in shared memory, and no thread that can go on completes it.
    PhaseNotCompleted {
        /// The waiting function.
        operation: &'static str,
        /// Arrivals that the barrier's current phase lacks.
        arrivals: u32,
        /// Bytes that it lacks; less than zero if more have come than were expected.
        bytes: i32,
    },
    /// A thread waits at a numbered barrier for threads that never arrive.
    NamedBarrierNotReached {
        /// The waiting function.
        operation: &'static str,
        /// The number of threads that the barrier expects.
        count: u32,
        /// The number of threads that have arrived.
        here: u32,
    },
    /// A thread waits for multiplications that another thread of its warpgroup never starts.
    WarpgroupIncomplete {
        /// The waiting function.
        operation: &'static str,
        /// A thread that does not start them.
        missing: Dim3,
        /// What that thread does instead.
        instead: Instead,
    },
    /// A thread has returned before it waited for a multiplication of its warpgroup.
    WgmmaNotWaitedFor {
        /// The function that started the multiplication.
        operation: &'static str,
    },
    /// A block has ended while a copy to or from its shared memory was pending.
    CopyNotWaitedFor {
        /// The function that started the copy.
        operation: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// A thread has returned while one of its copies still read shared memory.
    StoreNotWaitedFor {
        /// The function that started the copy.
        operation: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// A lane called a warp operation with a mask that omits it.
    CallerNotInMask {
        /// The operation's function.
        operation: &'static str,
        /// The mask.
        mask: u32,
        /// The calling lane.
        lane: u32,
    },
    /// A warp operation's mask names a lane that does not take part.
    LaneNotTakingPart {
        /// The operation's function.
        operation: &'static str,
        /// The mask.
        mask: u32,
        /// A lane that the mask names.
        lane: u32,
        /// What that lane does instead.
        instead: Instead,
    },
    /// Threads of several blocks changed a number in global memory with block-scope atomics.
    ScopeOfBlock {
        /// The block that did so before.
        other: Dim3,
    },
    /// More shared memory than a block can have.
    SharedOverLimit {
        /// Bytes of static shared memory that the block requests.
        got: usize,
        /// Bytes it can have.
        max: usize,
    },
    /// A thread wrote after the end of an array in shared memory. [`Fault::location`] is that of the `shared_array!`.
    BeyondShared {
        /// The first byte that changed, from the start of the array.
        byte: usize,
        /// Bytes of the array.
        bytes: usize,
        /// Whether it is the dynamic shared memory, which has no location.
        is_dynamic: bool,
    },
    /// The executor could not get the memory for a thread's stack.
    OutOfStacks {
        /// The operating system's message.
        message: String,
    },
    /// A thread accessed memory beyond a buffer.
    BeyondBuffer {
        /// The kernel's parameter, if the buffer is passed by one.
        argument: Option<&'static str>,
        /// The access.
        beyond: BeyondBuffer,
    },
    /// The launch was over its time limit when the thread reached a barrier, a warp operation or an atomic.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
}

/// A kernel's access to memory beyond a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct BeyondBuffer {
    /// The offset of the byte from the buffer's start.
    pub byte: isize,
    /// The buffer's size in bytes.
    pub len: usize,
    /// Whether it was a write; `None` if the processor does not report it.
    pub is_write: Option<bool>,
}

/// Threads that wait forever at one source location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckWait {
    /// The function that they wait in.
    pub operation: &'static str,
    /// Where.
    pub at: SourceLine,
    /// The number of threads.
    pub threads: u64,
    /// The first of them.
    pub first: Place,
}

impl fmt::Display for StuckWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StuckWait { operation, at, threads, first } = self;
        write!(f, "{operation} at {at} ({threads} of them, first {first})")
    }
}

/// What a thread does instead of what others wait for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Instead {
    /// It has returned from the kernel.
    Returned,
    /// The block has no such thread.
    DoesNotExist,
    /// It waits in another collective operation, or in the same with other operands.
    WaitsIn {
        /// That operation's function.
        operation: &'static str,
        /// Where.
        at: SourceLine,
    },
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instead::Returned => f.write_str("has returned from the kernel"),
            Instead::DoesNotExist => f.write_str("does not exist in this block"),
            Instead::WaitsIn { operation, at } => write!(f, "waits in {operation} at {at}"),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Panic { message } => write!(f, "panicked: {message}"),
            FaultKind::BarrierNotReached { barrier, missing, instead } => write!(
                f,
                "{barrier} is not reached by all threads of the block: thread {missing} {instead}; move the \
                 barrier out of the divergent branch"
            ),
            FaultKind::ClusterBarrierNotReached { barrier, block, missing, instead } => write!(
                f,
                "{barrier} is not reached by all threads of the cluster: thread {missing} of block {block} {instead}; \
                 move the barrier out of the divergent branch, and let no block leave before it"
            ),
            FaultKind::Stuck { waits } => {
                f.write_str("no thread can continue; all threads that have not returned wait in ")?;
                for (i, wait) in waits.iter().enumerate() {
                    write!(f, "{}{wait}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("; let a thread that does not wait store what they wait for")
            }
            FaultKind::PhaseNotCompleted { operation, arrivals, bytes } => write!(
                f,
                "{operation} waits for a phase that does not end: the barrier lacks {arrivals} arrivals and {bytes} bytes, \
                 and no thread can continue; initialise it with the number of arrivals, and wait for the right parity"
            ),
            FaultKind::NamedBarrierNotReached { operation, count, here } => write!(
                f,
                "{operation} waits for {count} threads, but only {here} have arrived and no other can; let the \
                 number of threads match the barrier"
            ),
            FaultKind::WarpgroupIncomplete { operation, missing, instead } => write!(
                f,
                "{operation} waits for a multiplication that thread {missing} of the warpgroup has not started: it {instead}; let \
                 all 128 threads call the same multiplications"
            ),
            FaultKind::WgmmaNotWaitedFor { operation } => write!(
                f,
                "{operation} was pending when its thread returned; call wgmma::commit() and wgmma::wait::<0>() before"
            ),
            FaultKind::CopyNotWaitedFor { operation, bytes } => write!(
                f,
                "{operation} of {bytes} bytes was on its way when a block ended whose shared memory it reads or writes; expect \
                 the bytes at its barrier, wait for the phase, and let the blocks of a cluster meet after that"
            ),
            FaultKind::StoreNotWaitedFor { operation, bytes } => write!(
                f,
                "{operation} of {bytes} bytes was reading shared memory when its thread returned; call bulk::commit() and \
                 bulk::wait_read::<0>() before"
            ),
            FaultKind::CallerNotInMask { operation, mask, lane } => write!(
                f,
                "{operation} was called by lane {lane}, which its mask {mask:#010x} leaves out; name every \
                 calling lane in the mask"
            ),
            FaultKind::LaneNotTakingPart { operation, mask, lane, instead } => write!(
                f,
                "{operation} has the mask {mask:#010x}, but lane {lane} {instead}; name only lanes that call it"
            ),
            FaultKind::ScopeOfBlock { other } => write!(
                f,
                "an atomic with the scope of its block changed a number that block {other} also changes; use device \
                 scope"
            ),
            FaultKind::SharedOverLimit { got, max } => {
                write!(f, "{got} bytes of static shared memory per block, at most {max} are allowed")
            }
            FaultKind::BeyondShared { byte, bytes, is_dynamic: false } => write!(
                f,
                "a thread wrote to byte {byte} of this shared_array!, which has {bytes} bytes; compare the index with the \
                 length first"
            ),
            FaultKind::BeyondShared { byte, bytes, is_dynamic: true } => write!(
                f,
                "a thread wrote to byte {byte} of the dynamic shared memory, which has {bytes} bytes; compare the index \
                 with the length first, or launch with more"
            ),
            FaultKind::OutOfStacks { message } => {
                write!(f, "no stack for the thread: {message}")
            }
            FaultKind::BeyondBuffer { argument, beyond: BeyondBuffer { byte, len, is_write } } => {
                let verb = match is_write {
                    Some(true) => "wrote to",
                    Some(false) => "read from",
                    None => "accessed",
                };
                let buffer = argument.map_or("a buffer".to_owned(), |name| format!("`{name}`"));
                write!(
                    f,
                    "{verb} byte {byte} of {buffer}, which has {len} bytes; compare the index with the length first"
                )
            }
            FaultKind::TimedOut { limit } => write!(
                f,
                "the launch did not end within {limit:?}: make sure that the kernel's loops end, or raise the limit \
                 with {}",
                SECONDS
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} failed in {}", self.kernel, self.place)?;
        if let Some(location) = &self.location {
            write!(f, ", at {location}")?;
        }
        write!(f, ": {}", self.kind)?;
        if let Some(seed) = self.seed {
            write!(f, " (schedule seed {seed:#x}; replay with {SEED}={seed:#x})")?;
        }
        Ok(())
    }
}

impl core::error::Error for Fault {}
