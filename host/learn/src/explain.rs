//! Explains to the learner why a kernel is wrong: what is wrong, where, and the likely cause.

use cuda_std::launch::{Dim3, KernelMeta, LaunchError};
use cuda_std::simt::{FaultKind, Place};
use cuda_std::testing::{Access, TestError};

use crate::difference::{UNWRITTEN, element};
use crate::problem::{Buffer, Problem};
use crate::ptx::Ptx;
use crate::run::{Addresses, Run};

/// What a message needs to know.
pub struct Context<'a> {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// Its problem.
    pub problem: &'a Problem,
    /// Its PTX, if it could be built.
    pub ptx: Option<&'a Ptx>,
}

impl Context<'_> {
    /// The thread that writes an element, and the line.
    pub fn writer(&self, buffer: usize, index: usize) -> Option<String> {
        let ptx = self.ptx?;
        let run = Run { meta: self.meta, problem: self.problem };
        let message = run.writer(&ptx.emulator, buffer, index)?;
        let (block, thread) = thread_of(&message)?;
        Some(format!("{}{}", thread_words(block, Some(thread)), self.line_of(&message)))
    }

    /// ", line N of FILE" of a fault of the emulator.
    fn line_of(&self, message: &str) -> String {
        let line = || {
            let (_, rest) = message.rsplit_once("at PTX line ")?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            self.ptx?.source_line(digits.parse().ok()?, self.meta.file)
        };
        line().map_or_else(String::new, |line| format!(", {}:{line}", self.meta.file))
    }

    /// Explains an error of a run. `None` if another run explains it better: for traps and undefined registers on the
    /// emulator.
    pub fn error(&self, error: &TestError, addresses: &Addresses) -> Option<String> {
        match error {
            TestError::OutOfBounds { buffer, origin, access, byte, .. } => {
                let buffer = self.problem.buffers.iter().find(|it| it.name == buffer)?;
                let verb = if *access == Access::Read { "reads" } else { "writes" };
                let who = origin.place.map_or_else(|| "a thread".to_owned(), place_words);
                Some(self.beyond(buffer, *byte as i64, verb, &who, origin.place))
            }
            TestError::InputChanged { buffer, origin, .. } => {
                let who = origin.place.map_or_else(|| "a thread".to_owned(), place_words);
                Some(format!("{who} changes the input `{buffer}`, which must stay as it is."))
            }
            TestError::Launch { source: LaunchError::Fault(fault), .. } => {
                let line = fault.location.as_ref().map_or_else(String::new, |at| format!(", {at}"));
                let who = format!("{}{line}", place_words(fault.place));
                Some(self.fault(&fault.kind, fault.place, &who))
            }
            TestError::Launch { source, .. } => self.emulated(&source.to_string(), addresses),
            other => Some(format!("{other:?}")),
        }
    }

    fn fault(&self, kind: &FaultKind, place: Place, who: &str) -> String {
        let (words, cause) = match kind {
            FaultKind::Panic { message } => (
                format!("{who} panics: {message}"),
                if message.contains("index out of bounds") || message.contains("out of range") {
                    BEYOND
                } else if message.contains("overflow") {
                    "unsigned numbers cannot be negative: compare before you subtract"
                } else {
                    "the message is Rust's own"
                },
            ),
            FaultKind::BarrierNotReached { missing, instead, .. } => (
                format!("{who} waits at a barrier that thread {} never reaches: it {instead}", dim(*missing)),
                "a barrier in an `if` or in a loop with different numbers of iterations, or a `return` before it. All \
                 threads of a block must reach each barrier, also those without an element",
            ),
            FaultKind::LaneNotTakingPart { mask, lane, instead, .. } => (
                format!(
                    "{who} calls a warp operation with mask {mask:#010x}, and lane {lane} in that mask {instead}"
                ),
                "the mask names lanes that have left or are in another branch. Let all 32 lanes call it, those without an \
                 element with a neutral value",
            ),
            FaultKind::CallerNotInMask { mask, lane, .. } => (
                format!(
                    "{who} calls a warp operation with mask {mask:#010x}, which lacks its own lane {lane}"
                ),
                "the mask has one bit for each lane that calls: u32::MAX for all 32",
            ),
            FaultKind::BeyondShared { byte, bytes, .. } => (
                format!("{who} writes byte {byte} of an array in shared memory that has {bytes} bytes"),
                "an index into `shared_array!` is too large",
            ),
            FaultKind::BeyondBuffer { argument, beyond: access } => {
                let buffer = self.problem.buffers.iter().find(|it| Some(it.name) == *argument);
                let verb = if access.is_write == Some(true) { "writes" } else { "reads" };
                if let Some(buffer) = buffer {
                    return self.beyond(buffer, access.byte as i64, verb, who, Some(place));
                }
                (format!("{who} accesses memory beyond every buffer"), BEYOND)
            }
            FaultKind::TimedOut { limit } => {
                (format!("{who} still runs after {} s", limit.as_secs()), ENDLESS)
            }
            other => return format!("{who}: {other}."),
        };
        format!("{words}.\n    likely cause: {cause}")
    }

    /// Explains an access beyond a buffer.
    fn beyond(&self, buffer: &Buffer, byte: i64, verb: &str, who: &str, place: Option<Place>) -> String {
        if byte.abs() > FAR {
            return format!("{who} {verb} memory far from every buffer.\n    likely cause: {NO_ARGUMENT}");
        }
        let (index, len) = (byte.div_euclid(buffer.initial.size() as i64), buffer.initial.len() as i64);
        let config = self.problem.config;
        let is_line = config.grid.y == 1 && config.block.y == 1;
        // The thread's position in the launch.
        let position = place.and_then(|at| Some(i64::from(at.block.x * config.block.x + at.thread?.x)));
        let cause = match position {
            _ if index < 0 => "an index is negative: compare before you subtract",
            Some(position) if is_line && position < len && position != index => {
                "a thread, a warp or a block without work of its own goes on to the access; or the index is computed wrongly: \
                 off by one, with the wrong extent, or with rows and columns mixed up"
            }
            _ if !is_line => {
                "compare the row with the rows and the column with the columns before the access. And is the index the row \
                 times the columns of this matrix, plus the column?"
            }
            _ => BEYOND,
        };
        let name = buffer.name;
        let plural = if len == 1 { "" } else { "s" };
        format!(
            "{who} {verb} {name}[{index}], and `{name}` has {len} element{plural}.\n    likely cause: {cause}"
        )
    }

    /// Explains the message of a fault of the emulator.
    fn emulated(&self, message: &str, addresses: &Addresses) -> Option<String> {
        let (block, thread) = thread_of(message)?;
        let who = format!("{}{}", thread_words(block, Some(thread)), self.line_of(message));
        if message.contains("instructions without an end") {
            return Some(format!("block {} does not end.\n    likely cause: {ENDLESS}", dim3(block)));
        }
        if message.contains("is outside of every allocation") || message.contains("may only read") {
            let verb = if message.contains("load of") { "reads" } else { "writes" };
            let address = address_in(message)?;
            if message.contains("shared memory") {
                return Some(format!(
                    "{who} {verb} beyond the end of an array in shared memory.\n    likely cause: an index into \
                     `shared_array!` is too large"
                ));
            }
            let (buffer, byte) = self.nearest(address, addresses)?;
            if byte.abs() > FAR {
                return Some(format!(
                    "{who} accesses the address {address:#x}, far from every buffer.\n    likely cause: {NO_ARGUMENT}"
                ));
            }
            if message.contains("may only read") {
                return Some(format!("{who} changes the input `{}`, which must stay as it is.", buffer.name));
            }
            let (bytes, len) = (bytes_in(message)?, (buffer.initial.len() * buffer.initial.size()) as i64);
            if (0..len).contains(&byte) {
                let (name, i) = (buffer.name, byte / buffer.initial.size() as i64);
                return Some(format!(
                    "{who} {verb} {bytes} bytes from {name}[{i}] on, and `{name}` has {} elements.\n    likely cause: a vector \
                     needs all of its elements: compare the index of the last one with the length before the access",
                    buffer.initial.len()
                ));
            }
            let [block, thread] = [block, thread].map(|[x, y, z]| Dim3::new(x, y, z));
            let place = Place { block, thread: Some(thread) };
            return Some(self.beyond(buffer, byte, verb, &who, Some(place)));
        }
        if let Some((_, rest)) =
            message.split_once("this thread ").filter(|_| message.contains("no barrier between"))
        {
            return self.race(&who, rest, addresses);
        }
        if message.contains("that nothing was written to") {
            return Some(format!("{who} uses a value from {UNWRITTEN}"));
        }
        if message.contains("is misaligned") {
            return Some(format!(
                "{who} accesses an address that is not a multiple of the size of the access.\n    likely cause: a load or \
                 store of 16 bytes needs an address that is a multiple of 16: an index that is a multiple of 4 for f32"
            ));
        }
        None
    }

    /// Explains a race: "stores global memory at 0x.., and thread [..] of block [..] loads it at PTX line ..".
    fn race(&self, who: &str, rest: &str, addresses: &Addresses) -> Option<String> {
        let (verb, _) = rest.split_once(" global memory").or_else(|| rest.split_once(" shared memory"))?;
        let is_shared = rest.starts_with(&format!("{verb} shared"));
        let (_, other) = rest.split_once(", and thread ")?;
        let verbs = |verb: &str| match verb {
            "loads" => "reads",
            "stores" => "writes",
            "atomically loads" => "reads (atomically)",
            "atomically stores" => "writes (atomically)",
            "atomically changes" => "changes (atomically)",
            _ => "reads (atomically) and then writes (atomically)",
        };
        let other = other.split_once(", with no barrier")?.0;
        let other_verb = other.split("] ").nth(2)?.split(" it at").next()?;
        let place = format!("block {}, thread {}", other.split_once("of block ")?.1, other);
        let (block, thread) = thread_of(&place)?;
        let other_who = format!("{}{}", thread_words(block, Some(thread)), self.line_of(other));
        let what = if is_shared {
            "an element of shared memory".to_owned()
        } else {
            let (buffer, byte) = self.nearest(address_in(rest)?, addresses)?;
            match usize::try_from(byte).map(|byte| byte / buffer.initial.size()) {
                Ok(index) if index < buffer.initial.len() => element(buffer, index),
                _ => "memory that is no buffer, such as a `static`, which all threads share".to_owned(),
            }
        };
        let (are_writes, is_lost) = (verb == "stores" && other_verb == "stores", verb.contains("later"));
        let advice = match (verb, other_verb) {
            _ if is_lost => LOST,
            _ if !who.contains(&format!("of block {}", dim3(block))) => BETWEEN_BLOCKS,
            ("stores", "stores") => BOTH_WRITE,
            _ => NO_BARRIER,
        };
        let use_it = if are_writes { "write" } else { "use" };
        Some(format!(
            "the result depends on luck: two threads {use_it} {what}, and nothing makes one wait for the other.\n    {who} {}\n    \
             {other_who} {}\n    likely cause: {advice}",
            verbs(verb),
            verbs(other_verb)
        ))
    }

    /// The buffer nearest to an address, and the distance from its start.
    fn nearest(&self, address: u64, addresses: &Addresses) -> Option<(&Buffer, i64)> {
        let near = self.problem.buffers.iter().zip(addresses).min_by_key(|(buffer, start)| {
            let end = **start + (buffer.initial.len() * buffer.initial.size()) as u64;
            if address < **start { **start - address } else { address.saturating_sub(end) }
        });
        near.map(|(buffer, &start)| (buffer, address as i64 - start as i64))
    }
}

const NO_BARRIER: &str = "a barrier is missing between the two: `thread::sync_threads()`, after the writes, and in a loop also after \
     the reads, before the next writes. Or, if several threads add to it, they need an atomic";
const LOST: &str = "an atomic load and an atomic store are two operations: what another thread stores in between is lost. Add in one, \
     with `fetch_add`";
const BOTH_WRITE: &str = "one thread alone should write it: look at the index, and at the `if` before the store. If several add to it, \
     they need an atomic";
const BETWEEN_BLOCKS: &str = "between blocks nothing orders accesses. Let one thread alone write each element; if several add to it, \
     they need an atomic";
const BEYOND: &str = "the grid has more threads than there are elements, or an index is off by one: compare the index with the length \
     before the access";
const NO_ARGUMENT: &str = "a pointer that is not one of the arguments, or an index that went below 0";
/// The distance from a buffer in bytes from which on an address has nothing to do with it.
const FAR: i64 = 1 << 30;
const ENDLESS: &str =
    "a loop whose condition never becomes false: does its variable change in each iteration?";

/// The size of the access in a message of the emulator.
fn bytes_in(message: &str) -> Option<i64> {
    let (_, rest) = message.split_once("load of ").or_else(|| message.split_once("store of "))?;
    rest.split(' ').next()?.parse().ok()
}

/// The address in a message of the emulator.
fn address_in(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once(" at 0x")?;
    let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).ok()
}

fn place_words(place: Place) -> String {
    let numbers = |at: Dim3| [at.x, at.y, at.z];
    thread_words(numbers(place.block), place.thread.map(numbers))
}

fn thread_words(block: [u32; 3], thread: Option<[u32; 3]>) -> String {
    match thread {
        Some(thread) => format!("thread {} of block {}", dim3(thread), dim3(block)),
        None => format!("block {}", dim3(block)),
    }
}

fn dim(at: Dim3) -> String {
    dim3([at.x, at.y, at.z])
}

/// A position without coordinates that are 0.
fn dim3(at: [u32; 3]) -> String {
    match at {
        [x, 0, 0] => x.to_string(),
        [x, y, 0] => format!("(x {x}, y {y})"),
        [x, y, z] => format!("(x {x}, y {y}, z {z})"),
    }
}

/// Block and thread in a message of the emulator: "block [0, 0, 0], thread [1, 0, 0]".
fn thread_of(message: &str) -> Option<([u32; 3], [u32; 3])> {
    let numbers = |name: &str| {
        let (_, rest) = message.split_once(name)?;
        let mut numbers = rest.split_once(']')?.0.split(", ").map(str::parse);
        Some([numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?])
    };
    Some((numbers("block [")?, numbers("thread [")?))
}
