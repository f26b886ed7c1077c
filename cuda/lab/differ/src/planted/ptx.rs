//! Errors in PTX text with one instruction per line.

use std::collections::BTreeSet;

/// The opcode and operands of a line, if it is an instruction without a predicate.
fn instruction(line: &str) -> Option<(&str, Vec<&str>)> {
    let text = line.trim().strip_suffix(';')?;
    let (opcode, operands) = text.split_once(|c: char| c.is_whitespace())?;
    if opcode.starts_with(['@', '.']) {
        return None;
    }
    Some((opcode, operands.split(',').map(str::trim).collect()))
}

/// Edits every function separately, because registers of different functions have the same names.
fn by_function(text: &str, edit: impl Fn(&[&str]) -> Vec<String>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut edited = String::with_capacity(text.len() + text.len() / 16);
    for function in lines.split_inclusive(|line| line.starts_with('}')) {
        for line in edit(function) {
            edited.push_str(&line);
            edited.push('\n');
        }
    }
    edited
}

/// Replaces every instruction for which `replace` returns a text.
fn every(text: &str, replace: impl Fn(&str, &[&str]) -> Option<String>) -> String {
    let mut edited = String::with_capacity(text.len());
    for line in text.lines() {
        let other = instruction(line).and_then(|(opcode, operands)| replace(opcode, &operands));
        edited.push_str(&other.unwrap_or_else(|| line.to_owned()));
        edited.push('\n');
    }
    edited
}

/// Gives registers that are initialised to zero, because a path leaves them unwritten, another initial value, and removes
/// masks of their widened values, as ptxas does.
pub(super) fn with_unwritten_registers(text: &str) -> String {
    by_function(text, |lines| {
        let (mut is_head, mut unwritten, mut widened) = (true, BTreeSet::new(), BTreeSet::new());
        let edit = |line: &&str| {
            let trimmed = line.trim();
            let Some((opcode, operands)) = instruction(line) else {
                is_head &= trimmed.is_empty() || !trimmed.ends_with(';') || trimmed.starts_with('.');
                return (*line).to_owned();
            };
            let Some(&to) = operands.first() else { return (*line).to_owned() };
            is_head &= opcode.starts_with("mov.") && operands[1] == "0";
            if is_head && matches!(opcode, "mov.b16" | "mov.u16" | "mov.b32" | "mov.u32") {
                unwritten.insert(to.to_owned());
                return line.replace(", 0;", ", 11051;");
            }
            let of = |known: &BTreeSet<String>| operands.get(1).is_some_and(|from| known.contains(*from));
            if opcode.starts_with("cvt.u32.u16") && of(&unwritten) {
                widened.insert(to.to_owned());
            }
            let is_mask = operands.get(2).is_some_and(|mask| matches!(*mask, "1" | "255"));
            match opcode {
                "and.b32" if is_mask && (of(&widened) || of(&unwritten)) => {
                    format!("mov.b32 {to}, {};", operands[1])
                }
                "and.b16" if is_mask && of(&unwritten) => format!("mov.b16 {to}, {};", operands[1]),
                _ => (*line).to_owned(),
            }
        };
        lines.iter().map(edit).collect()
    })
}

/// Computes roots through the reciprocal, which is rounded, too.
pub(super) fn with_approximate_roots(text: &str) -> String {
    every(text, |opcode, operands| match (opcode, operands) {
        ("sqrt.rn.f32" | "sqrt.approx.f32", [to, of]) => {
            Some(format!("rsqrt.approx.f32 {to}, {of}; rcp.rn.f32 {to}, {to};"))
        }
        _ => None,
    })
}

/// Removes the sign from extensions and shifts after a 16-bit absolute value.
pub(super) fn with_unsigned_absolutes(text: &str) -> String {
    by_function(text, |lines| {
        let mut absolute = BTreeSet::new();
        let edit = |line: &&str| {
            let Some((opcode, operands)) = instruction(line) else { return (*line).to_owned() };
            if matches!(opcode, "abs.s16" | "max.s16") {
                absolute.insert(operands[0].to_owned());
            }
            let is_absolute = operands.get(1).is_some_and(|from| absolute.contains(*from));
            let unsigned = match opcode {
                "shr.s16" => "shr.u16",
                "cvt.s32.s16" => "cvt.u32.u16",
                "cvt.s64.s16" => "cvt.u64.u16",
                _ => return (*line).to_owned(),
            };
            if is_absolute { line.replacen(opcode, unsigned, 1) } else { (*line).to_owned() }
        };
        lines.iter().map(edit).collect()
    })
}

/// Turns -1 or 0 in an address into -1 or -2.
pub(super) fn with_wrong_indices(text: &str) -> String {
    every(text, |opcode, operands| match (opcode, operands) {
        ("selp.b64" | "selp.s64" | "selp.u64", [to, "-1", "0", of]) => {
            Some(format!("selp.b64 {to}, -1, -2, {of};"))
        }
        ("selp.b64" | "selp.s64" | "selp.u64", [to, "0", "-1", of]) => {
            Some(format!("selp.b64 {to}, -2, -1, {of};"))
        }
        _ => None,
    })
}

/// Truncates 16-bit floats.
pub(super) fn with_cut_halves(text: &str) -> String {
    every(text, |opcode, operands| {
        let rounded = ["cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32"];
        rounded
            .contains(&opcode)
            .then(|| format!("{} {};", opcode.replacen("rn", "rz", 1), operands.join(", ")))
    })
}

/// Drops the carry of additions with carry.
pub(super) fn without_carries(text: &str) -> String {
    every(text, |opcode, operands| {
        let kind = opcode.strip_prefix("addc.cc.").or_else(|| opcode.strip_prefix("addc."))?;
        Some(format!("add.cc.{kind} {};", operands.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_that_starts_at_zero_loses_its_mask() {
        let text = "{\n\t.reg .b16 %rs<4>;\n\tmov.b16 \t%rs2, 0;\n\tmov.b16 %rs3, 1;\n\tcvt.u32.u16 \t%r3, %rs2;\n\t\
                    and.b32 \t%r4, %r3, 255;\n\tand.b32 \t%r5, %r2, 255;\n}\n";
        let edited = with_unwritten_registers(text);
        assert!(edited.contains("%rs2, 11051;") && edited.contains("%rs3, 1;"), "{edited}");
        assert!(edited.contains("mov.b32 %r4, %r3;") && edited.contains("%r5, %r2, 255;"), "{edited}");
    }

    #[test]
    fn an_absolute_value_loses_its_sign() {
        let text = "{\n\tabs.s16 \t%rs2, %rs1;\n\tshr.s16 \t%rs3, %rs2, 4;\n\tshr.s16 \t%rs4, %rs1, 4;\n}\n";
        let edited = with_unsigned_absolutes(text);
        assert!(edited.contains("shr.u16 \t%rs3") && edited.contains("shr.s16 \t%rs4"), "{edited}");
    }

    #[test]
    fn single_instructions_are_replaced() {
        let of = |edit: fn(&str) -> String, line: &str| edit(&format!("\t{line}\n")).trim().to_owned();
        assert_eq!(of(with_wrong_indices, "selp.b64 \t%rd1, -1, 0, %p1;"), "selp.b64 %rd1, -1, -2, %p1;");
        assert_eq!(of(with_cut_halves, "cvt.rn.bf16.f32 %rs1, %f1;"), "cvt.rz.bf16.f32 %rs1, %f1;");
        assert_eq!(of(without_carries, "addc.cc.s64 %rd1, %rd2, %rd3;"), "add.cc.s64 %rd1, %rd2, %rd3;");
        assert!(
            of(with_approximate_roots, "sqrt.rn.f32 %f1, %f2;").starts_with("rsqrt.approx.f32 %f1, %f2;")
        );
    }
}
