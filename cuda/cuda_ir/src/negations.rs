//! Keeps ptxas from losing a negation in a chain of signed minima or maxima.
//!
//! From compute capability 9.0, one instruction computes the maximum of three integers. For `max(max(a, -b), c)`, ptxas 12.9
//! and 13.0 at `-O1` and above fold the negation into the first maximum, then fold both into `VIMNMX3 a, b, c`, which has no
//! negation: `x.abs().max(y)` of -5 and 1 was 1. The same holds for minima, for `.relu`, and for every negation that ptxas
//! finds on its own: `0 - b`, `b * -1`, copies of these, and `i - b` for a counter that ptxas unrolls. ptxas 13.5 is right,
//! but a GPU's driver may contain an older one. Unsigned, 64-bit and 16-bit chains are right.
//!
//! `abs.s32` is right too, so it replaces the maximum of a number and its negation. Any other operand that may be a negation
//! goes through a byte permutation that keeps all bytes, which these versions do not look through.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::bodies::{edit_bodies, edit_lines, instruction};

/// Hides negations from signed 32-bit minima and maxima.
pub fn hide(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| edit(body))
}

/// The edited body, if it changes.
fn edit(body: &str) -> Option<String> {
    if !body.lines().any(|line| minimum(line).is_some()) {
        return None;
    }
    let registers = Registers::read(body);
    edit_lines(body, |line| {
        let [result, a, b] = minimum(line)?;
        if line.contains("max.s32") && (registers.are_opposite(a, b) || registers.are_opposite(b, a)) {
            let number = if registers.are_opposite(a, b) { a } else { b };
            let start = &line[..line.find("max.s32").unwrap_or_default()];
            return Some(format!("{start}abs.s32 \t{result}, {number};\n"));
        }
        let may_negate = |operand: &str| registers.may_negate(operand, &mut HashSet::new());
        let [hides_a, hides_b] = [a, b].map(may_negate);
        if !hides_a && !hides_b {
            return None;
        }
        let mut edited = "\t{\n\t.reg .b32 \t%same<2>;\n".to_owned();
        let mut operands = [a.to_owned(), b.to_owned()];
        for (i, operand) in operands.iter_mut().enumerate().filter(|(i, _)| [hides_a, hides_b][*i]) {
            edited.push_str(&format!("\tprmt.b32 \t%same{i}, {operand}, 0, 0x3210U;\n"));
            *operand = format!("%same{i}");
        }
        let start = &line[..line.find(result).unwrap_or_default()];
        Some(edited + &format!("{start}{result}, {}, {};\n\t}}\n", operands[0], operands[1]))
    })
}

/// The operands of a signed 32-bit minimum or maximum.
fn minimum(line: &str) -> Option<[&str; 3]> {
    let (opcode, operands) = instruction(line)?;
    let mut parts = opcode.split('.');
    let is_minimum = matches!(parts.next(), Some("min" | "max")) && parts.any(|part| part == "s32");
    let operands = operands.trim_end().strip_suffix(';').filter(|_| is_minimum)?;
    let mut operands = operands.split(',').map(str::trim);
    let found = [operands.next()?, operands.next()?, operands.next()?];
    (operands.next().is_none() && !found[2].contains(';')).then_some(found)
}

/// The instructions that write each register of a function: opcodes and operands after the first.
struct Registers<'a>(HashMap<&'a str, Vec<(&'a str, Vec<&'a str>)>>);

impl<'a> Registers<'a> {
    fn read(body: &'a str) -> Registers<'a> {
        let mut registers = Registers(HashMap::new());
        for (opcode, operands) in body.lines().filter_map(instruction) {
            let operands = operands.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '{' | '}'));
            let mut operands = operands.filter(|operand| !operand.is_empty());
            if let Some(result) = operands.next().filter(|result| result.starts_with('%')) {
                registers.0.entry(result).or_default().push((opcode, operands.collect()));
            }
        }
        registers
    }

    fn writes(&self, register: &str) -> &[(&'a str, Vec<&'a str>)] {
        self.0.get(register).map_or(&[], Vec::as_slice)
    }

    /// Whether `b` is always `-a`: each has one value.
    fn are_opposite(&self, a: &str, b: &str) -> bool {
        let is_negation =
            |(opcode, operands): &(&str, Vec<&str>)| *opcode == "neg.s32" && operands[..] == [a];
        self.writes(a).len() == 1 && matches!(self.writes(b), [write] if is_negation(write))
    }

    /// Whether ptxas may find that the operand is the negation of another number.
    fn may_negate(&self, operand: &'a str, seen: &mut HashSet<&'a str>) -> bool {
        seen.insert(operand)
            && self.writes(operand).iter().any(|(opcode, from)| match opcode.split('.').next() {
                Some("neg") => true,
                Some("sub") => from.first().is_some_and(|first| self.may_be(first, 0)),
                Some("mul" | "mad") => from.iter().any(|factor| self.may_be(factor, -1)),
                Some("add") if !from.iter().any(|term| self.may_be(term, 0)) => false,
                Some("add" | "mov" | "selp" | "cvt") => from.iter().any(|from| self.may_negate(from, seen)),
                // A back end that does not optimise keeps variables there.
                Some("ld") => opcode.contains(".local"),
                _ => false,
            })
    }

    /// Whether ptxas may find that the operand is the number, in an iteration of an unrolled loop too.
    fn may_be(&self, operand: &str, number: i64) -> bool {
        let writes = self.writes(operand);
        let is_counted = |start: i64| writes.len() > 1 && (number == 0 || start < 0);
        let starts = |(opcode, from): &(&str, Vec<&str>)| {
            let start =
                from.first().filter(|_| opcode.starts_with("mov.")).and_then(|from| from.parse().ok());
            start.is_some_and(|start| start == number || is_counted(start))
        };
        operand.parse() == Ok(number) || writes.iter().any(starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(body: &str) -> String {
        format!(".func f()\n{{\n{body}\tret;\n}}\n")
    }

    #[test]
    fn negations_are_hidden_from_minima_and_maxima() {
        for before in [
            "neg.s32 \t%r2, %r1;",
            "@%p1 neg.s32 \t%r2, %r1;",
            "sub.s32 \t%r2, 0, %r1;",
            "mov.b32 \t%r9, 0;\n\tsub.s32 \t%r2, %r9, %r1;",
            "mov.b32 \t%r9, 3;\n$L:\n\tsub.s32 \t%r2, %r9, %r1;\n\tadd.s32 \t%r9, %r9, -1;",
            "mul.lo.s32 \t%r2, %r1, -1;",
            "mul.wide.s16 \t%r2, %rs1, -1;",
            "mad.lo.s32 \t%r2, -1, %r1, %r5;",
            "neg.s32 \t%r7, %r1;\n\tmov.b32 \t%r2, %r7;",
            "mul.lo.s64 \t%rd2, %rd1, -1;\n\tcvt.u32.u64 \t%r2, %rd2;",
            "mul.lo.s64 \t%rd2, %rd1, -1;\n\tmov.b64 \t{%r2, %r8}, %rd2;",
            "neg.s32 \t%r7, %r1;\n\tselp.b32 \t%r2, %r7, %r5, %p1;",
            "neg.s32 \t%r7, %r1;\n\tmov.b32 \t%r8, 0;\n\tadd.s32 \t%r2, %r8, %r7;",
            "ld.local.b32 \t%r2, [%rd1];",
        ] {
            for (opcode, operands, hidden) in [
                ("max.s32", "%r3, %r2", "%r3, %same1"),
                ("@%p2 min.s32", "%r2, %r3", "%same0, %r3"),
                ("max.relu.s32", "%r2, %r2", "%same0, %same1"),
            ] {
                let ptx = function(&format!("\t{before}\n\t{opcode} \t%r4, {operands};\n"));
                let copies: String = [0, 1]
                    .iter()
                    .filter(|i| hidden.contains(&format!("%same{i}")))
                    .map(|i| format!("\tprmt.b32 \t%same{i}, %r2, 0, 0x3210U;\n"))
                    .collect();
                let edited = function(&format!(
                    "\t{before}\n\t{{\n\t.reg .b32 \t%same<2>;\n{copies}\t{opcode} \t%r4, {hidden};\n\t}}\n"
                ));
                assert_eq!(hide(&ptx), edited);
                assert_eq!(hide(&edited), edited);
            }
        }
    }

    #[test]
    fn the_maximum_of_a_number_and_its_negation_is_its_absolute_value() {
        let ptx = |maximum: &str| {
            function(&format!("\tld.b32 \t%r1, [%rd1];\n\tneg.s32 \t%r2, %r1;\n\t{maximum}, %r7;\n"))
        };
        let edited = ptx("abs.s32 \t%r4, %r1;\n\tmax.s32 \t%r5, %r4");
        for operands in ["%r1, %r2", "%r2, %r1"] {
            assert_eq!(hide(&ptx(&format!("max.s32 \t%r4, {operands};\n\tmax.s32 \t%r5, %r4"))), edited);
        }
        assert!(hide(&ptx("min.s32 \t%r4, %r1, %r2;\n\tmin.s32 \t%r5, %r4")).contains("prmt"));
        // The number has another value by then.
        assert!(
            hide(&ptx("mov.b32 \t%r1, 3;\n\tmax.s32 \t%r4, %r1, %r2;\n\tmax.s32 \t%r5, %r4"))
                .contains("prmt")
        );
    }

    #[test]
    fn other_minima_and_maxima_stay() {
        for body in [
            "\tneg.s32 \t%r2, %r1;\n\tmax.u32 \t%r4, %r2, %r3;\n",
            "\tneg.s64 \t%rd2, %rd1;\n\tmax.s64 \t%rd4, %rd2, %rd3;\n",
            "\tneg.f32 \t%r2, %r1;\n\tmax.f32 \t%r4, %r2, %r3;\n",
            "\tsub.s32 \t%r2, 31, %r1;\n\tmin.s32 \t%r4, %r2, %r3;\n",
            "\tadd.s32 \t%r2, %r1, -1;\n\tmin.s32 \t%r4, %r2, %r3;\n",
            "\tabs.s32 \t%r2, %r1;\n\tmax.s32 \t%r4, %r2, 0;\n",
            "\tmov.b32 \t%r5, 0;\n$L:\n\tmad.lo.s32 \t%r2, %r5, 64, %r1;\n\tadd.s32 \t%r5, %r5, 1;\n\tmin.s32 \t%r4, %r2, %r3;\n",
            "\tld.global.b32 \t%r2, [%rd1];\n\tmin.s32 \t%r4, %r2, %r3;\n",
        ] {
            assert!(matches!(hide(&function(body)), Cow::Borrowed(_)), "{body}");
        }
        // Registers of another function have the same names.
        let ptx = function("\tneg.s32 \t%r2, %r1;\n") + &function("\tmax.s32 \t%r4, %r2, %r3;\n");
        assert_eq!(hide(&ptx), ptx);
    }
}
