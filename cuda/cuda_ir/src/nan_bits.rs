//! Negates and takes absolute values of floats with integer operations where the bits of a NaN can matter.
//!
//! In Rust and in LLVM `-x`, `x.abs()` and `x.copysign(y)` change the sign bit alone, even of a NaN. PTX leaves the NaN of
//! `neg.f32` and `abs.f32` open (PTX ISA, "Floating Point Instructions"), and a GPU returns 0x7fffffff; for an f64 it keeps
//! the payload, but neither the sign nor a signalling NaN. Then the order of `total_cmp`, keys for sorting and
//! `is_sign_negative` are wrong.
//!
//! ptxas folds a negation into the arithmetic that reads it, so negations stay where only arithmetic, comparisons, minima,
//! maxima and conversions read the result: these do not define the bits of their NaNs. All other readers need the value in a
//! register, which costs one instruction either way. A negation of the result of arithmetic that has no other reader stays
//! too, and ptxas folds it into that arithmetic.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::bodies::{edit_bodies, edit_lines, instruction};

/// Replaces `neg` and `abs` of floats by operations on their bits.
pub fn keep(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| edit(body))
}

/// The edited body, if it changes.
fn edit(body: &str) -> Option<String> {
    if !body.lines().any(|line| sign_change(line).is_some()) {
        return None;
    }
    let registers = Registers::of(body);
    edit_lines(body, |line| {
        let SignChange { opcode, result, value, bits: (operation, width, mask) } =
            sign_change(line).filter(|change| registers.needs(change))?;
        let guard = &line[..line.find(opcode)?];
        Some(format!("{guard}{operation}.b{width} \t{result}, {value}, {mask:#x};\n"))
    })
}

/// `neg` or `abs` of a float, and the same with integers: the operation, its width and its second operand.
struct SignChange<'a> {
    opcode: &'a str,
    result: &'a str,
    value: &'a str,
    bits: (&'static str, u32, u64),
}

fn sign_change(line: &str) -> Option<SignChange<'_>> {
    let (opcode, operands) = instruction(line)?;
    let (kind, ty) = opcode.split_once('.')?;
    // With `.ftz`, subnormal numbers become zeros.
    let (width, sign) = match ty {
        "f16" | "bf16" => (16, 0x8000),
        "f16x2" | "bf16x2" => (32, 0x8000_8000),
        "f32" => (32, 0x8000_0000),
        "f64" => (64, 1 << 63),
        _ => return None,
    };
    let bits = match kind {
        "neg" => ("xor", width, sign),
        "abs" => ("and", width, !sign & (u64::MAX >> (64 - width))),
        _ => return None,
    };
    let (result, value) = operands.trim_end().strip_suffix(';')?.split_once(',')?;
    let (result, value) = (result.trim(), value.trim());
    value.starts_with('%').then_some(SignChange { opcode, result, value, bits })
}

/// What a function does with its registers, by their names.
#[derive(Default)]
struct Registers<'a> {
    /// Registers whose bits something other than arithmetic reads.
    observed: HashSet<&'a str>,
    /// Registers that only float arithmetic writes.
    computed: HashSet<&'a str>,
    /// How often a register is read.
    reads: HashMap<&'a str, usize>,
}

impl<'a> Registers<'a> {
    fn of(body: &'a str) -> Registers<'a> {
        let mut all = Registers::default();
        // The registers that a copy or a change of the sign reads, by its result.
        let mut sources: HashMap<&str, Vec<&str>> = HashMap::new();
        let (mut open, mut moved) = (Vec::new(), HashSet::new());
        for (opcode, operands) in body.lines().flat_map(statements) {
            let mut names = registers(operands);
            let first = operands.trim_start();
            // A store, a call or a vector: nothing is known about it.
            let result = if first.starts_with('%') { names.next() } else { None };
            let values: Vec<&str> = names.collect();
            values.iter().for_each(|value| *all.reads.entry(value).or_default() += 1);
            let kind = Kind::of(opcode).filter(|_| result.is_some() && !operands.contains(['{', '[', '(']));
            match (kind, result) {
                (Some(Kind::Arithmetic), Some(result)) => drop(all.computed.insert(result)),
                (Some(Kind::Copy), Some(result)) => {
                    moved.insert(result);
                    sources.entry(result).or_default().extend(values);
                }
                _ => {
                    moved.extend(result);
                    // The first operand of an instruction without a result is read too.
                    open.extend(values.into_iter().chain(result));
                }
            }
        }
        all.computed.retain(|register| !moved.contains(register));
        while let Some(register) = open.pop() {
            if all.observed.insert(register) {
                open.extend(sources.get(register).into_iter().flatten());
            }
        }
        all
    }

    /// Whether a NaN's bits can matter.
    fn needs(&self, change: &SignChange<'_>) -> bool {
        let is_folded = self.computed.contains(change.value) && self.reads.get(change.value) == Some(&1);
        self.observed.contains(change.result) && !is_folded
    }
}

/// What an instruction does with the bits of its operands.
enum Kind {
    /// It reads them as floats, and leaves the bits of a NaN open.
    Arithmetic,
    /// The result has the bits of one of them, except for the sign.
    Copy,
}

impl Kind {
    fn of(opcode: &str) -> Option<Kind> {
        const ARITHMETIC: [&str; 19] = [
            "add", "sub", "mul", "div", "fma", "mad", "min", "max", "sqrt", "rcp", "rsqrt", "ex2", "lg2",
            "sin", "cos", "tanh", "setp", "cvt", "testp",
        ];
        let root = opcode.split('.').next()?;
        let is_float = ["f16", "bf16", "f16x2", "bf16x2", "f32", "f64"].contains(&opcode.rsplit('.').next()?);
        match root {
            "neg" | "abs" | "copysign" if is_float => Some(Kind::Copy),
            "mov" | "selp" => Some(Kind::Copy),
            _ => (is_float && ARITHMETIC.contains(&root)).then_some(Kind::Arithmetic),
        }
    }
}

/// The instructions of a line: several if it is inline assembly.
fn statements(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let line = line.split_once("//").map_or(line, |(code, _)| code);
    line.split(';').filter_map(|statement| {
        let statement = statement.trim_start_matches([' ', '\t', '{', '}']);
        instruction(statement)
    })
}

/// The registers among the operands, in order.
fn registers(operands: &str) -> impl Iterator<Item = &str> {
    operands
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')))
        .filter(|word| word.starts_with(|c: char| c == '%' || c.is_ascii_alphabetic() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(body: &str) -> String {
        format!(".func f()\n{{\n{body}\tret;\n}}\n")
    }

    fn edited(body: &str) -> String {
        let ptx = keep(&function(body)).into_owned();
        assert_eq!(keep(&ptx), ptx, "nothing is left to edit");
        ptx
    }

    #[test]
    fn a_sign_that_is_stored_or_returned_is_a_bit() {
        for (before, after) in [
            ("neg.f32 \t%r2, %r1;", "xor.b32 \t%r2, %r1, 0x80000000;"),
            ("abs.f32 \t%r2, %r1;", "and.b32 \t%r2, %r1, 0x7fffffff;"),
            ("neg.f64 \t%r2, %r1;", "xor.b64 \t%r2, %r1, 0x8000000000000000;"),
            ("abs.f64 \t%r2, %r1;", "and.b64 \t%r2, %r1, 0x7fffffffffffffff;"),
            ("neg.f16 \t%r2, %r1;", "xor.b16 \t%r2, %r1, 0x8000;"),
            ("abs.bf16 \t%r2, %r1;", "and.b16 \t%r2, %r1, 0x7fff;"),
            ("neg.bf16x2 \t%r2, %r1;", "xor.b32 \t%r2, %r1, 0x80008000;"),
            ("abs.f16x2 \t%r2, %r1;", "and.b32 \t%r2, %r1, 0x7fff7fff;"),
            ("@%p1 neg.f32 \t%r2, %r1;", "@%p1 xor.b32 \t%r2, %r1, 0x80000000;"),
        ] {
            for reader in [
                "\tst.b32 \t[%rd1], %r2;\n",
                "\tst.param.b32 \t[func_retval0], %r2;\n",
                "\tst.v2.b32 \t[%rd1], {%r3, %r2};\n",
                "\tadd.s32 \t%r4, %r2, 1;\n",
                "\tsetp.lt.s32 \t%p1, %r2, 0;\n",
                "\tmov.b64 \t%rd3, {%r2, %r3};\n",
                "\tcvt.u64.u32 \t%rd3, %r2;\n",
                "\t{ .reg .b32 t; shl.b32 t, %r2, 1; }\n",
                "\tmov.b32 \t%r5, %r2;\n\tst.b32 \t[%rd1], %r5;\n",
                "\tselp.f32 \t%r5, %r2, %r3, %p1;\n\tst.b32 \t[%rd1], %r5;\n",
                "\tcopysign.f32 \t%r5, %r3, %r2;\n\tst.b32 \t[%rd1], %r5;\n",
                "\tadd.f32 \t%r6, %r2, %r2;\n\tst.b32 \t[%rd1], %r2;\n",
            ] {
                assert_eq!(
                    edited(&format!("\t{before}\n{reader}")),
                    function(&format!("\t{after}\n{reader}"))
                );
            }
        }
        let both = "\tabs.f32 \t%r2, %r1;\n\tneg.f32 \t%r3, %r2;\n\tst.b32 \t[%rd1], %r3;\n";
        let ptx = edited(both);
        assert!(ptx.contains("and.b32 \t%r2") && ptx.contains("xor.b32 \t%r3"), "{ptx}");
    }

    #[test]
    fn a_sign_that_arithmetic_reads_or_makes_stays() {
        for body in [
            "\tneg.f32 \t%r2, %r1;\n\tfma.rn.f32 \t%r3, %r2, %r4, %r5;\n\tst.b32 \t[%rd1], %r3;\n",
            "\tabs.f32 \t%r2, %r1;\n\tmax.f32 \t%r3, %r2, %r4;\n\tst.b32 \t[%rd1], %r3;\n",
            "\tneg.f32 \t%r2, %r1;\n\tsetp.lt.f32 \t%p1, %r2, %r4;\n",
            "\tneg.f32 \t%r2, %r1;\n\tcvt.rn.bf16x2.f32 \t%r3, %r2, %r4;\n\tst.b32 \t[%rd1], %r3;\n",
            "\tneg.f32 \t%r2, %r1;\n\tmov.b32 \t%r6, %r2;\n\tmul.f32 \t%r3, %r6, %r4;\n",
            "\tmul.f32 \t%r1, %r8, %r9;\n\tneg.f32 \t%r2, %r1;\n\tst.b32 \t[%rd1], %r2;\n",
            "\tneg.s32 \t%r2, %r1;\n\tst.b32 \t[%rd1], %r2;\n",
            "\tneg.ftz.f32 \t%r2, %r1;\n\tst.b32 \t[%rd1], %r2;\n",
        ] {
            let ptx = function(body);
            assert!(matches!(keep(&ptx), Cow::Borrowed(_)), "{ptx}");
        }
        // The product is stored too, so its bits and those of its negation must agree.
        let shared = "\tmul.f32 \t%r1, %r8, %r9;\n\tneg.f32 \t%r2, %r1;\n\tst.v2.b32 \t[%rd1], {%r1, %r2};\n";
        assert!(edited(shared).contains("xor.b32"), "{shared}");
    }
}
