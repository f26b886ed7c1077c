//! Explains to the learner why a kernel is wrong: what is wrong, where, and the likely cause.

use std::fmt::Write as _;

use cuda_std::launch::{Dim3, KernelMeta, LaunchError};
use cuda_std::simt::{FaultKind, Place};
use cuda_std::testing::{Access, TestError};

use crate::problem::{Buffer, Data, Problem};
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
    /// Compares the outputs with what is expected, and explains the first difference. `schedule` is the order of the threads
    /// if it was right in another one.
    pub fn difference(&self, outputs: &[Data], schedule: Option<u64>) -> Option<String> {
        let compared = self.problem.buffers.iter().zip(outputs).enumerate();
        for (at, (buffer, got)) in compared {
            let Some(expected) = &buffer.expected else { continue };
            let (got, expected) = (got.numbers(), expected.numbers());
            let is_wrong = |&i: &usize| {
                let (got, expected) = (got[i].0, expected[i].0);
                let is_equal = got == expected || got.is_nan() && expected.is_nan();
                let is_near = (got - expected).abs() <= buffer.tolerance.allowed(expected);
                !is_equal && !is_near
            };
            let wrong: Vec<usize> = (0..expected.len()).filter(is_wrong).collect();
            let Some(&first) = wrong.first() else { continue };
            let is_untouched = |i: usize| got[i].1 == buffer.initial.numbers()[i].1;
            let untouched = wrong.iter().filter(|&&i| is_untouched(i)).count();
            let (name, place) = (buffer.name, element(buffer, first));
            let mut text = match (wrong.len(), expected.len()) {
                (1, 1) => format!("`{name}` is wrong.\n"),
                (few, all) => format!("{few} of {all} elements of `{name}` are wrong.\n"),
            };
            let shown = if is_untouched(first) && buffer.initial.numbers()[first].0.is_nan() {
                "was never written".to_owned()
            } else {
                format!("is {}", number(got[first].0))
            };
            let _ = writeln!(text, "    {place} {shown}, expected {}", number(expected[first].0));
            if !is_untouched(first)
                && let Some(words) = self.writer(at, first)
            {
                let _ = writeln!(text, "    written by {words}");
            } else if is_untouched(first) {
                let _ = writeln!(text, "    no thread wrote it");
            }
            let cause = self.cause_of_difference(at, &wrong, &got, &expected, untouched, schedule);
            let _ = write!(text, "    likely cause: {cause}");
            return Some(text);
        }
        None
    }

    fn cause_of_difference(
        &self,
        at: usize,
        wrong: &[usize],
        got: &[(f64, u32)],
        expected: &[(f64, u32)],
        untouched: usize,
        schedule: Option<u64>,
    ) -> String {
        let first = wrong[0];
        let (value, bits) = got[first];
        let block = self.problem.config.block.volume() as usize;
        if let Some(seed) = schedule {
            return format!(
                "in another order of the threads (seed {seed}) the result is right. A thread reads what another writes, and \
                 nothing makes it wait: a barrier or an atomic is missing, or a shuffle's mask is wrong"
            );
        }
        if untouched == wrong.len() {
            let last = expected.len() - 1;
            return if first > 0 && first.is_multiple_of(block) && wrong.len() == expected.len() - first {
                format!("only the first {first} elements were written, those of whole blocks: {INDEX}")
            } else if wrong.len() == expected.len() {
                "no thread reaches a store to it; look at the condition before the store".to_owned()
            } else if wrong[wrong.len() - 1] == last && wrong.len() == last - first + 1 {
                format!(
                    "the elements from {first} on have no thread: look at the guard, at rounding down in a division, or at a loop that ends early"
                )
            } else {
                "some elements have no thread: look at the index, and at the step of a loop".to_owned()
            };
        }
        if bits == u32::MAX && value.is_nan() {
            return "it comes from shared memory that no thread wrote: an index beyond what was written, or a missing barrier"
                .to_owned();
        }
        if !value.is_finite() && expected[first].0.is_finite() {
            return "a number too large on the way: e^x is infinite in f32 above 88.7, and inf - inf and inf / inf are NaN. \
                    Or a division by 0"
                .to_owned();
        }
        if first >= block && wrong.len() * 2 > expected.len() - block {
            return format!("the first {block} elements are right, those of the first block: {INDEX}");
        }
        // Another element's value.
        let is_told = |i: &usize| {
            wrong.iter().take(8).all(|&w| {
                let other = (w + i).checked_sub(first);
                other.and_then(|other| expected.get(other)).is_some_and(|it| it.0 == got[w].0)
            })
        };
        if wrong.len() > 2
            && let Some(other) = (0..expected.len()).find(is_told)
        {
            let (here, there) =
                (element(&self.problem.buffers[at], first), element(&self.problem.buffers[at], other));
            return format!(
                "{here} has the value that belongs into {there}: an index is off by {}",
                first.abs_diff(other)
            );
        }
        if let Some(words) = self.missing_term(expected[first].0 - value) {
            return words;
        }
        if wrong.len() == expected.len() && expected.len() > 1 {
            "all elements are wrong: look at the formula first, then at the index".to_owned()
        } else if first + wrong.len() == expected.len() && first > 0 {
            format!(
                "all elements from {first} on are wrong: look at what happens at the end of a block or of the input"
            )
        } else {
            "look at the formula for this element, and compute it by hand".to_owned()
        }
    }

    /// For sums: an input element that is missing or counted twice.
    fn missing_term(&self, difference: f64) -> Option<String> {
        if difference == 0.0 {
            return None;
        }
        let inputs = self.problem.buffers.iter().filter(|buffer| buffer.expected.is_none());
        for buffer in inputs {
            let numbers = buffer.initial.numbers();
            let equal = |sign: f64| {
                let mut found = (0..numbers.len()).filter(|&i| numbers[i].0 == sign * difference);
                found.next().filter(|_| found.next().is_none())
            };
            if let Some(i) = equal(1.0) {
                return Some(format!("{} is missing in the sum", element(buffer, i)));
            }
            if let Some(i) = equal(-1.0) {
                return Some(format!("{} is counted twice, or should not be in the sum", element(buffer, i)));
            }
        }
        None
    }

    /// The thread that writes an element, and the line.
    fn writer(&self, buffer: usize, index: usize) -> Option<String> {
        let ptx = self.ptx?;
        let run = Run { meta: self.meta, problem: self.problem };
        let message = run.writer(&ptx.emulator, buffer, index)?;
        let (block, thread) = thread_of(&message)?;
        Some(format!("{}{}", thread_words(block, Some(thread)), self.line_of(&message)))
    }

    /// ", line N of FILE" of a fault of the emulator.
    fn line_of(&self, message: &str) -> String {
        let line = || {
            let (_, rest) = message.split_once("at PTX line ")?;
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
                Some(beyond(buffer, *byte as i64, verb, &who))
            }
            TestError::InputChanged { buffer, origin, .. } => {
                let who = origin.place.map_or_else(|| "a thread".to_owned(), place_words);
                Some(format!("{who} changes the input `{buffer}`, which must stay as it is."))
            }
            TestError::Launch { source: LaunchError::Fault(fault), .. } => {
                let line = fault.location.as_ref().map_or_else(String::new, |at| format!(", {at}"));
                let who = format!("{}{line}", place_words(fault.place));
                Some(self.fault(&fault.kind, &who))
            }
            TestError::Launch { source, .. } => self.emulated(&source.to_string(), addresses),
            other => Some(format!("{other:?}")),
        }
    }

    fn fault(&self, kind: &FaultKind, who: &str) -> String {
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
                    return beyond(buffer, access.byte as i64, verb, who);
                }
                (format!("{who} accesses memory beyond every buffer"), BEYOND)
            }
            FaultKind::TimedOut { limit } => {
                (format!("{who} still runs after {} s", limit.as_secs()), ENDLESS)
            }
            other => (format!("{who}: {other:?}"), "see docs/testing.md"),
        };
        format!("{words}.\n    likely cause: {cause}")
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
            let (_, rest) = message.split_once(" at 0x")?;
            let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
            let address = u64::from_str_radix(&digits, 16).ok()?;
            if message.contains("shared memory") {
                return Some(format!(
                    "{who} {verb} beyond the end of an array in shared memory.\n    likely cause: an index into \
                     `shared_array!` is too large"
                ));
            }
            // The nearest buffer.
            let near = self.problem.buffers.iter().zip(addresses).min_by_key(|(buffer, start)| {
                let end = **start + (buffer.initial.len() * buffer.initial.size()) as u64;
                if address < **start { **start - address } else { address.saturating_sub(end) }
            });
            let (buffer, &start) = near?;
            return Some(beyond(buffer, address as i64 - start as i64, verb, &who));
        }
        if message.contains("is misaligned") {
            return Some(format!(
                "{who} accesses an address that is not a multiple of the size of the access.\n    likely cause: a load or \
                 store of 16 bytes needs an address that is a multiple of 16: an index that is a multiple of 4 for f32"
            ));
        }
        None
    }
}

const INDEX: &str = "does the index contain the number of the block? `thread::index_1d()` does";
const BEYOND: &str = "the grid has more threads than there are elements, or an index is off by one: compare the index with the length \
     before the access";
const ENDLESS: &str =
    "a loop whose condition never becomes false: does its variable change in each iteration?";

/// An access beyond a buffer.
fn beyond(buffer: &Buffer, byte: i64, verb: &str, who: &str) -> String {
    let (index, len) = (byte.div_euclid(buffer.initial.size() as i64), buffer.initial.len() as i64);
    let name = buffer.name;
    if (0..len).contains(&index) {
        return format!("{who} {verb} {name}[{index}], an input that must stay as it is.");
    }
    let cause = if index < 0 { "an index is negative: compare before you subtract" } else { BEYOND };
    format!("{who} {verb} {name}[{index}], and `{name}` has {len} elements.\n    likely cause: {cause}")
}

/// The name of an element.
fn element(buffer: &Buffer, i: usize) -> String {
    match buffer.cols {
        Some(cols) => format!("{}[{i}] (row {}, column {})", buffer.name, i / cols, i % cols),
        None => format!("{}[{i}]", buffer.name),
    }
}

/// A number in few digits.
fn number(x: f64) -> String {
    if x != 0.0 && x.is_finite() && !(1e-3..1e7).contains(&x.abs()) {
        format!("{x:e}")
    } else {
        format!("{}", x as f32)
    }
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
