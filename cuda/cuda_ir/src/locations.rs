//! Keeps lines and columns out of what is compiled, so that moving a kernel in its file compiles nothing.
//!
//! Code that can panic has the location of each panic as a constant. In the text of a part, [`mark`] replaces the line and the
//! column by numbers that depend on the order of the constants alone. [`Locations::fill`] and [`Locations::fill_code`] put
//! the real numbers into the PTX and the machine code. A back end may also compute with them: [`Locations::fit`] returns
//! whether it has only copied them.

use std::collections::HashMap;
use std::ops::Range;

use crate::lex::{symbols_in, with_replaced};
use crate::messages::constant_bytes;

/// The line and the column of the first mark; the other marks follow. No other number in a module is likely to be one.
const FIRST: (u32, u32) = (0x6c69_0000, 0x636f_0000);

/// The start of a location, `core::panic::Location`: the address and the length of the file's name, the line, the column.
const START: &str = " = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @";

/// The variable of the panic handler in `cuda_std`, which copies locations and does not compute with them.
const HANDLER: &str = "@__ferrowarp_panic_slot";

/// The lines and columns that were replaced, by the numbers of their marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locations(pub Vec<(u32, u32)>);

/// Replaces the locations that `text` only passes to functions of `core` that panic. Equal locations get one mark, because
/// a back end merges equal constants.
pub fn mark(text: &str) -> (String, Locations) {
    let mut locations = Locations::default();
    if !text.contains(HANDLER) {
        return (text.to_owned(), locations);
    }
    let functions_at = text.find("\ndefine ").unwrap_or(text.len());
    let (head, functions) = text.split_at(functions_at);
    let mut constants: HashMap<&str, &str> = head.lines().filter_map(|line| line.split_once(START)).collect();
    for line in head.lines() {
        let (_, value) = line.split_once(" = ").unwrap_or_default();
        for symbol in symbols_in(value) {
            constants.remove(symbol.text);
        }
    }
    for line in functions.lines().filter(|line| line.contains('@')) {
        let panics = ["@core__", "@__ferrowarp_panic_bounds_check("].iter().any(|callee| calls(line, callee));
        for symbol in symbols_in(line).filter(|_| !panics) {
            constants.remove(symbol.text);
        }
    }
    let mut marks: HashMap<&str, usize> = HashMap::new();
    let mut marked = String::with_capacity(text.len() + 40 * constants.len());
    for line in head.split_inclusive('\n') {
        let symbol = line.split(' ').next().unwrap_or_default();
        let value = constants.get(symbol).and_then(|value| Some((*value, value.split_once(" c\"")?.0)));
        let Some(((value, file), bytes)) = value.zip(constant_bytes(line)) else {
            marked.push_str(line);
            continue;
        };
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let (Some(len), Some(row), Some(column)) = (word(0), word(8), word(12)) else {
            marked.push_str(line);
            continue;
        };
        let n = *marks.entry(value).or_insert_with(|| {
            locations.0.push((row, column));
            locations.0.len() - 1
        });
        let (row, column) = numbers(n);
        let bytes = [len, 0, row, column].map(u32::to_le_bytes).concat();
        let bytes: String = bytes.iter().map(|byte| format!("\\{byte:02X}")).collect();
        marked.push_str(&format!("{symbol}{START}{file} c\"{bytes}\" }}>, align 8\n"));
    }
    marked.push_str(functions);
    (marked, locations)
}

/// The line and the column of a mark.
fn numbers(n: usize) -> (u32, u32) {
    (FIRST.0 + n as u32, FIRST.1 + n as u32)
}

/// Whether the line calls a function that returns nothing and whose symbol starts with `callee`.
fn calls(line: &str, callee: &str) -> bool {
    line.split_once("call void ").is_some_and(|(_, rest)| rest.starts_with(callee))
}

impl Locations {
    /// Whether the PTX, and the machine code if there is any, have the marks only where [`Self::fill`] and
    /// [`Self::fill_code`] replace them.
    pub fn fit(&self, ptx: &str, code: Option<&[u8]>) -> bool {
        let sorted = |marks: &mut dyn Iterator<Item = usize>| {
            let mut marks: Vec<usize> = marks.collect();
            marks.sort();
            marks
        };
        let used = sorted(&mut self.in_data(ptx).map(|(_, n)| n));
        let in_code = |code| sorted(&mut self.in_code(code).map(|(_, n)| n)) == used;
        let filled = self.fill(ptx);
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let is_mark = |number: u64| {
            let len = self.0.len() as u64;
            [number, number >> 32].iter().any(|&half| {
                [FIRST.0, FIRST.1]
                    .iter()
                    .any(|&first| (u64::from(first)..u64::from(first) + len).contains(&half))
            })
        };
        let mut numbers = filled.as_bytes().chunk_by(|a, b| is_digit(a) == is_digit(b));
        // Both halves have ten digits.
        let strays = numbers.any(|run| {
            run.len() >= 10
                && std::str::from_utf8(run).is_ok_and(|digits| digits.parse::<u64>().is_ok_and(is_mark))
        });
        !strays && code.is_none_or(in_code)
    }

    /// The PTX with the real lines and columns.
    pub fn fill(&self, ptx: &str) -> String {
        let numbers = self.in_data(ptx);
        with_replaced(ptx, numbers.map(|(range, n)| (range, joined(self.0[n]).to_string().into())))
    }

    /// The machine code with the real lines and columns.
    pub fn fill_code(&self, code: &[u8]) -> Vec<u8> {
        let mut filled = code.to_vec();
        for (at, n) in self.in_code(code) {
            filled[at..at + 8].copy_from_slice(&joined(self.0[n]).to_le_bytes());
        }
        filled
    }

    /// The marks that are the last number of a variable's initial value, where they are, and which they are:
    /// `.global .align 8 .u64 __constant_7[3] = {generic(__constant_8), 18, 81604384050};`
    fn in_data<'a>(&'a self, ptx: &'a str) -> impl Iterator<Item = (Range<usize>, usize)> + 'a {
        let starts = ptx.match_indices("\n.global .align 8 .u64 ").map(|(at, _)| at + 1);
        starts.filter_map(|at| {
            let line = ptx[at..].lines().next()?;
            let (before, number) = line.strip_suffix("};")?.rsplit_once(", ")?;
            let start = at + before.len() + 2;
            let n = self.mark_in(number.parse().ok()?)?;
            Some((start..start + number.len(), n))
        })
    }

    fn in_code<'a>(&'a self, code: &'a [u8]) -> impl Iterator<Item = (usize, usize)> + 'a {
        code.windows(8).enumerate().filter_map(|(at, bytes)| {
            // The highest byte of a mark, before all others are read.
            if bytes[7] != FIRST.1.to_be_bytes()[0] {
                return None;
            }
            Some((at, self.mark_in(u64::from_le_bytes(bytes.try_into().ok()?))?))
        })
    }

    /// The mark with this line, and this column in the upper half.
    fn mark_in(&self, number: u64) -> Option<usize> {
        let n = (number as u32).checked_sub(FIRST.0)? as usize;
        (n < self.0.len() && number == joined(numbers(n))).then_some(n)
    }
}

fn joined((line, column): (u32, u32)) -> u64 {
    u64::from(column) << 32 | u64::from(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "@file = private unnamed_addr constant [2 x i8] c\"a\\00\", align 1\n";

    fn location(name: &str, row: &str) -> String {
        format!(
            "@{name}{START}file, [16 x i8] c\"\\01\\00\\00\\00\\00\\00\\00\\00{row}\\00\\00\\00\\05\\00\\00\\00\" }}>, align 8\n"
        )
    }

    fn module(row: &str, use_of_it: &str) -> String {
        let (one, same, other) = (location("one", row), location("same", row), location("other", "\\09"));
        format!(
            "@__ferrowarp_panic_slot = global ptr null, align 8\n{FILE}{one}{same}{other}\n\
             define ptx_kernel void @k(i64 %i) {{\n\
             \x20 call void @core__panicking__panic_bounds_check(i64 %i, i64 3, ptr @one)\n\
             \x20 call void @core__panicking__panic(ptr @file, i64 1, ptr @same)\n  {use_of_it}\n}}\n"
        )
    }

    #[test]
    fn the_line_of_a_panic_is_not_in_the_marked_text() {
        let (text, locations) = mark(&module("\\07", "call void @core__panicking__panic(ptr @other)"));
        assert_eq!(locations.0, [(7, 5), (9, 5)]);
        let (moved, of_moved) = mark(&module("8", "call void @core__panicking__panic(ptr @other)"));
        assert_eq!((moved, of_moved.0), (text, vec![(56, 5), (9, 5)]));
    }

    #[test]
    fn a_location_that_is_read_stays() {
        for use_of_it in
            ["%x = load i32, ptr @other", "call void @mine__f(ptr @other)", "call i32 @core__f(ptr @other)"]
        {
            let (text, locations) = mark(&module("\\07", use_of_it));
            assert_eq!(locations.0, [(7, 5)], "{use_of_it}");
            assert!(text.contains(&location("other", "\\09")), "{text}");
        }
        let listed = location("one", "\\07")
            + "@list = private constant [1 x ptr] [ptr @one]\n@__ferrowarp_panic_slot = global ptr null\n";
        assert_eq!(mark(&listed), (listed.clone(), Locations::default()));
        // Another handler may compute with it.
        let text = module("\\07", "").replace("ferrowarp", "other");
        assert_eq!(mark(&text), (text.clone(), Locations::default()));
    }

    #[test]
    fn numbers_are_filled_in_where_they_are_data_and_nowhere_else() {
        let locations = Locations(vec![(50, 19), (7, 5)]);
        let of_mark = |n| joined(numbers(n));
        let ptx = |first: u64, second: u64| {
            format!(
                "\n.global .align 8 .u64 a[3] = {{generic(f), 18, {first}}};\n\
                 .global .align 8 .u64 b[3] = {{generic(f), 18, {second}}};\n.func f() {{ mov.b32 %r1, 1; ret; }}\n"
            )
        };
        let marked = ptx(of_mark(0), of_mark(1));
        assert_eq!(locations.fill(&marked), ptx(81_604_378_674, 5 << 32 | 7));
        let code = |first: u64, second: u64| {
            [&[0x63, 9][..], &first.to_le_bytes(), b"co", &second.to_le_bytes(), &[1]].concat()
        };
        let marked_code = code(of_mark(0), of_mark(1));
        assert_eq!(locations.fill_code(&marked_code), code(81_604_378_674, 5 << 32 | 7));
        assert!(locations.fit(&marked, None) && locations.fit(&marked, Some(&marked_code)));
        // Twice in the machine code, or not at all.
        assert!(!locations.fit(&marked, Some(&code(of_mark(0), of_mark(0)))));
        assert!(!locations.fit(&marked, Some(&code(of_mark(0), 3))));
        for number in [numbers(1).0, numbers(0).1] {
            assert!(!locations.fit(&marked.replace("%r1, 1", &format!("%r1, {number}")), None), "{number}");
        }
        assert!(!locations.fit(&marked.replace("%r1, 1", &format!("%r1, {}", of_mark(1))), None));
    }
}
