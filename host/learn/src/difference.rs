//! Explains a wrong result: the first wrong element, the thread that wrote it, and the likely cause.

use std::fmt::Write as _;

use crate::explain::Context;
use crate::problem::{Buffer, Data, Sentinel};

/// The bits of what no thread wrote: on the executor in shared memory, and on the emulator.
const UNDEFINED: [u32; 3] = [u32::MAX, 0x7ff5_7ff5, 0x7ff5];
/// Where those come from.
pub const UNWRITTEN: &str = "shared memory that no thread wrote before: nothing sets it at the start, a barrier is missing, \
                             or an index is beyond what was written";
const INDEX: &str = "does the index contain the number of the block? `thread::index_1d()` does";

/// An output with its wrong elements.
struct Compared<'a> {
    buffer: &'a Buffer,
    wrong: Vec<usize>,
    /// What each element is and should be.
    got: Vec<f64>,
    expected: Vec<f64>,
    /// Whether each holds what it held before the launch.
    is_untouched: Vec<bool>,
    bits: u32,
}

impl<'a> Compared<'a> {
    /// Compares an output with what is expected; `None` if it is right.
    fn new(buffer: &'a Buffer, got: &Data) -> Option<Self> {
        let (got, expected) = (got.numbers(), buffer.expected.as_ref()?.numbers());
        let is_wrong = |&i: &usize| {
            let (got, expected) = (got[i].0, expected[i].0);
            let is_near = (got - expected).abs() <= buffer.tolerance.allowed(expected);
            !is_near && got != expected && !(got.is_nan() && expected.is_nan())
        };
        let wrong: Vec<usize> = (0..expected.len()).filter(is_wrong).collect();
        let bits = got[*wrong.first()?].1;
        let before = buffer.initial.numbers();
        let is_untouched = got.iter().zip(before).map(|(got, before)| got.1 == before.1).collect();
        let numbers = |all: Vec<(f64, u32)>| all.into_iter().map(|(number, _)| number).collect();
        Some(Compared { buffer, wrong, got: numbers(got), expected: numbers(expected), is_untouched, bits })
    }

    /// Where the wrong elements are, if that says more than the first one.
    fn region(&self) -> Option<String> {
        let (few, all) = (self.wrong.len(), self.expected.len());
        let (first, last) = (self.wrong[0], self.wrong[few - 1]);
        if few < 2 || few == all {
            return None;
        }
        let Some(cols) = self.buffer.cols else {
            return Some(format!("{few} of {all}, from {first} to {last}"));
        };
        let of_col = |col: usize| self.wrong.iter().any(|i| i % cols == col);
        let (left, right) = ((0..cols).find(|&col| of_col(col))?, (0..cols).rfind(|&col| of_col(col))?);
        Some(format!(
            "{few} of {all}, in rows {} to {} and columns {left} to {right}",
            first / cols,
            last / cols
        ))
    }

    /// Why no thread wrote the wrong elements.
    fn untouched_cause(&self, block: usize, blocks: usize) -> String {
        let (first, len) = (self.wrong[0], self.expected.len());
        let is_end = self.wrong.len() == len - first;
        if is_end && first == block * blocks {
            format!(
                "the grid has {first} threads, and there are more elements: let each thread take several, in a loop"
            )
        } else if is_end && first > 0 && first.is_multiple_of(block) {
            format!("only the first {first} elements were written, those of whole blocks: {INDEX}")
        } else if self.wrong.len() == len {
            "no thread reaches a store to it: look at the condition before the store, and at the index"
                .to_owned()
        } else if is_end {
            format!(
                "the elements from {first} on have no thread: look at the guard, at the index, at rounding down in a \
                 division, or at a loop that ends early"
            )
        } else {
            "some elements have no thread: look at the index, at the guard, and at the step of a loop"
                .to_owned()
        }
    }

    /// Whether the values belong into other elements.
    fn moved_cause(&self) -> Option<String> {
        let some = &self.wrong[..self.wrong.len().min(6)];
        let are_equal = some.iter().all(|&i| self.got[i] == self.got[some[0]]);
        if some.len() < 3 || are_equal {
            return None;
        }
        let words = |here: usize, there: usize| {
            format!("{} has the value that belongs into {}", self.name(here), self.name(there))
        };
        let is_moved_to = |there: usize| {
            let moved = |i: usize| self.expected.get(there + i - some[0]);
            some.iter().all(|&i| moved(i).is_some_and(|&it| it == self.got[i]))
        };
        if let Some(there) = (0..self.expected.len()).find(|&there| is_moved_to(there)) {
            return Some(format!(
                "{}: an index is off by {}",
                words(some[0], there),
                some[0].abs_diff(there)
            ));
        }
        let home = |i: usize| self.expected.iter().position(|&other| other == self.got[i]);
        let is_elsewhere = |&i: &usize| home(i).is_some();
        let many = &self.wrong[..self.wrong.len().min(12)];
        let there = home(some[0]).filter(|_| many.iter().all(is_elsewhere))?;
        Some(format!("{}: look at the index of the read and of the write", words(some[0], there)))
    }

    /// Whether all are wrong by the same factor, by the same difference, or by a little.
    fn ratio_cause(&self) -> Option<String> {
        let some = &self.wrong[..self.wrong.len().min(6)];
        let all_near = |value: &dyn Fn(usize) -> f64, digits: f64| {
            let first = value(some[0]);
            let is_near = |&i: &usize| (value(i) - first).abs() <= digits * first.abs();
            (first.is_finite() && some.iter().all(is_near)).then_some(first)
        };
        if some.iter().all(|&i| (self.got[i] / self.expected[i] - 1.0).abs() < 0.005) {
            return Some(
                "nearly right: a rounding error. Is a sum kept in too few bits, or a result rounded twice?"
                    .to_owned(),
            );
        }
        if some.len() < 3 {
            return None;
        }
        if let Some(factor) =
            all_near(&|i| self.got[i] / self.expected[i], 1e-3).filter(|&factor| factor != 0.0)
        {
            return Some(format!(
                "these elements are wrong by the same factor, {:.3}: look at what all are multiplied with or divided by",
                factor
            ));
        }
        let added = all_near(&|i| self.got[i] - self.expected[i], 1e-6)?;
        Some(format!(
            "these elements are all wrong by the same number, {}: look at what is added to them",
            number(added)
        ))
    }

    /// Whether in each warp the same lanes are wrong.
    fn lanes_cause(&self) -> Option<String> {
        let is_wrong = |i: usize| self.wrong.binary_search(&i).is_ok();
        let lanes: Vec<usize> = (0..32).filter(|&lane| is_wrong(lane)).collect();
        let (first, last) = (lanes.first()?, lanes.last()?);
        let is_same = (0..self.expected.len()).all(|i| is_wrong(i) == is_wrong(i % 32));
        (is_same && self.expected.len() >= 32 && lanes.len() < 32).then(|| {
            format!("in each warp, lanes from {first} to {last} are wrong and the others right: what is different for those?")
        })
    }

    fn name(&self, i: usize) -> String {
        element(self.buffer, i)
    }
}

impl Context<'_> {
    /// Explains the first difference of the outputs. `schedule` is the order of the threads if the result is right in another.
    pub fn difference(&self, outputs: &[Data], schedule: Option<u64>) -> Option<String> {
        let mut compared = self.problem.buffers.iter().zip(outputs).enumerate();
        let (at, compared) =
            compared.find_map(|(at, (buffer, got))| Some((at, Compared::new(buffer, got)?)))?;
        let first = compared.wrong[0];
        let name = compared.buffer.name;
        let mut text = match (compared.wrong.len(), compared.expected.len()) {
            (1, 1) => format!("`{name}` is wrong.\n"),
            (few, all) => format!("{few} of {all} elements of `{name}` are wrong.\n"),
        };
        let is_untouched = compared.is_untouched[first];
        let shown = match is_untouched && compared.buffer.is_fresh {
            true => "was never written".to_owned(),
            false => format!("is {}", number(compared.got[first])),
        };
        let _ = writeln!(
            text,
            "    {} {shown}, expected {}",
            compared.name(first),
            number(compared.expected[first])
        );
        if is_untouched {
            let verb = if compared.buffer.is_fresh { "wrote" } else { "changed" };
            let _ = writeln!(text, "    no thread {verb} it");
        } else if schedule.is_none()
            && let Some(words) = self.writer(at, first)
        {
            let _ = writeln!(text, "    written by {words}");
        }
        if let Some(region) = compared.region() {
            let _ = writeln!(text, "    wrong elements: {region}");
        }
        let _ = write!(text, "    likely cause: {}", self.cause_of_difference(&compared, schedule));
        Some(text)
    }

    fn cause_of_difference(&self, compared: &Compared<'_>, schedule: Option<u64>) -> String {
        let Compared { wrong, got, expected, .. } = compared;
        let (first, len) = (wrong[0], expected.len());
        let (value, right) = (got[first], expected[first]);
        let block = self.problem.config.block.volume() as usize;
        let blocks = self.problem.config.grid.volume() as usize;
        if let Some(seed) = schedule {
            return format!(
                "the result is right in one order of the threads, and wrong in another (seed {seed}). It depends on which \
                 thread comes first: on a barrier that is missing, or on the order of atomic operations"
            );
        }
        if wrong.iter().all(|&i| compared.is_untouched[i]) {
            return compared.untouched_cause(block, blocks);
        }
        if UNDEFINED.contains(&compared.bits) && value.is_nan() {
            return format!("it comes from {UNWRITTEN}");
        }
        let before = f64::from(f32::SENTINEL);
        if compared.buffer.is_fresh && (value - before).abs() < 1e5 && right.abs() < 1e5 {
            let name = compared.buffer.name;
            return format!(
                "it adds to what `{name}` holds before the launch, and that is anything: store the sum"
            );
        }
        if !value.is_finite() && right.is_finite() {
            return "a number too large on the way: e^x is infinite in f32 above 88.7, and inf - inf and inf / inf are NaN. \
                    Or a division by 0, such as by a sum of exponentials that are all 0"
                .to_owned();
        }
        if first >= block && wrong.len() * 2 > len - block {
            return format!("the first {block} elements are right, those of the first block: {INDEX}");
        }
        if value == 0.0 && right < 0.0 {
            return "0 is larger than a negative number: is it the start of a maximum? That should be f32::NEG_INFINITY".to_owned();
        }
        if let Some(words) = compared.moved_cause().or_else(|| self.missing_term(compared)) {
            return words;
        }
        if let Some(words) = compared.ratio_cause().or_else(|| compared.lanes_cause()) {
            return words;
        }
        let rest = first + wrong.len() == len && first > 0;
        match first {
            _ if wrong.len() == len && len > 1 => {
                "all elements are wrong: look at the formula first, then at the index".to_owned()
            }
            _ if rest && first.is_multiple_of(32) => {
                format!(
                    "the first {first} elements are right, those of whole warps: what should the others get from them?"
                )
            }
            _ if rest => format!(
                "all elements from {first} on are wrong: look at what happens at the end of the input"
            ),
            _ => "look at the formula for this element, and compute it by hand".to_owned(),
        }
    }

    /// For sums: an input element that is missing or counted twice, if there is one for each of the first wrong sums.
    fn missing_term(&self, compared: &Compared<'_>) -> Option<String> {
        let inputs = self.problem.buffers.iter().filter(|buffer| buffer.expected.is_none());
        inputs.filter(|buffer| buffer.initial.len() > compared.expected.len()).find_map(|buffer| {
            let numbers = buffer.initial.numbers();
            let only = |number: f64| {
                let mut found = (0..numbers.len()).filter(|&i| number != 0.0 && numbers[i].0 == number);
                found.next().filter(|_| found.next().is_none())
            };
            let words = |&i: &usize| {
                let missing = compared.expected[i] - compared.got[i];
                let term = only(missing).map(|i| format!("{} is missing in the sum", element(buffer, i)));
                term.or_else(|| {
                    Some(format!(
                        "{} is counted twice, or should not be in the sum",
                        element(buffer, only(-missing)?)
                    ))
                })
            };
            let mut all = compared.wrong.iter().take(3).map(words).collect::<Option<Vec<String>>>()?;
            Some(all.swap_remove(0))
        })
    }
}

/// The name of an element.
pub fn element(buffer: &Buffer, i: usize) -> String {
    match buffer.cols {
        Some(cols) => format!("{}[{i}] (row {}, column {})", buffer.name, i / cols, i % cols),
        None => format!("{}[{i}]", buffer.name),
    }
}

/// A number in few digits.
fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e10 {
        format!("{x}")
    } else if (1e-3..1e7).contains(&x.abs()) || !x.is_finite() {
        format!("{}", x as f32)
    } else {
        format!("{x:.5e}")
    }
}
