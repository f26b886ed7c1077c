//! Keeps ptxas from converting floats in stores of a part of them.
//!
//! LLVM keeps numbers in registers without a type, so the store of the lowest byte of an `f32` is `st.b8 [%rd1], %r3` with
//! the register that `add.rn.f32 %r3, ...` wrote. PTX defines that such a store truncates the register. ptxas 13.0.88 takes
//! the type from the instruction that wrote the register, and emits `F2I`, at every level: the byte of 1.5 is 1 instead of
//! 0. The same holds for every store that is narrower than a register with an `f16`, `f32` or `f64`, and for arguments.
//! ptxas 13.5 stores the byte. A GPU's driver contains one of the two.
//!
//! The result of `mov` has no type, and the machine code contains no copy.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::bodies::{edit_bodies, edit_lines, instruction};

/// Makes narrow stores read copies of floats.
pub fn copy_floats(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| edit(body))
}

/// The edited body, if it changes.
fn edit(body: &str) -> Option<String> {
    let numbers: HashSet<&str> = body.lines().flat_map(written_numbers).collect();
    if numbers.is_empty() {
        return None;
    }
    let widths: HashMap<&str, u32> = body.lines().filter_map(declared).collect();
    let is_cut = |register: &&str, bits: u32| {
        let prefix = register.trim_end_matches(|c: char| c.is_ascii_digit());
        numbers.contains(register) && widths.get(prefix).is_some_and(|&width| bits < width)
    };
    edit_lines(body, |line| {
        let (bits, stored) = stored(line);
        let cut: Vec<&str> = stored.into_iter().filter(|register| is_cut(register, bits)).collect();
        if cut.is_empty() {
            return None;
        }
        let mut edited = "\t{\n".to_owned();
        let at = line.find(']').unwrap_or_default();
        let (address, mut value) = (&line[..at], line[at..].to_owned());
        for (i, register) in cut.into_iter().enumerate() {
            let prefix = register.trim_end_matches(|c: char| c.is_ascii_digit());
            let width = widths[prefix];
            edited.push_str(&format!(
                "\t.reg .b{width} \t%whole{i};\n\tmov.b{width} \t%whole{i}, {register};\n"
            ));
            for end in [',', ';', '}'] {
                value = value.replace(&format!("{register}{end}"), &format!("%whole{i}{end}"));
            }
        }
        Some(edited + address + &value + "\t}\n")
    })
}

/// The registers to which the line's instruction writes floats.
fn written_numbers(line: &str) -> Vec<&str> {
    let Some((opcode, operands)) = instruction(line) else { return Vec::new() };
    let types = ["f16", "bf16", "f32", "f64"];
    let is_type =
        |part: &&str| part.starts_with(['b', 'f', 's', 'u']) && part.ends_with(|c: char| c.is_ascii_digit());
    // The first type is the result's.
    if !opcode.split('.').skip(1).find(is_type).is_some_and(|part| types.contains(&part)) {
        return Vec::new();
    }
    let end = if operands.starts_with('{') { operands.find('}') } else { operands.find(',') };
    registers(&operands[..end.unwrap_or_default()])
}

/// The width of a store in bits, and the registers that it stores; no registers if the line is something else.
fn stored(line: &str) -> (u32, Vec<&str>) {
    let store = || {
        let (opcode, operands) = instruction(line)?;
        let class = opcode.strip_prefix("st.")?.rsplit('.').next()?;
        let bits = class.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
        Some((bits, registers(operands.split_once(']')?.1)))
    };
    store().unwrap_or_default()
}

/// The prefix of the registers that the line declares, and their width: `.reg .b32 \t%r<5>;`.
fn declared(line: &str) -> Option<(&str, u32)> {
    let (class, names) = line.trim().strip_prefix(".reg")?.trim_start().split_once(char::is_whitespace)?;
    let width = class.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some((names.trim_start().split_once('<')?.0, width))
}

/// The names in a list of operands.
fn registers(operands: &str) -> Vec<&str> {
    let names = operands.split(['{', '}', ',', ';', ' ', '\t', '\n']);
    names.filter(|name| name.starts_with('%')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(body: &str) -> String {
        let registers =
            "\t.reg .pred \t%p<3>;\n\t.reg .b16 \t%rs<3>;\n\t.reg .b32 \t%r<9>;\n\t.reg .b64 \t%rd<9>;\n";
        format!(".func f()\n{{\n{registers}{body}\tret;\n}}\n")
    }

    #[test]
    fn a_part_of_a_number_is_stored_from_a_copy() {
        let store = |width: u32, from: &str, store: &str| {
            format!("\t{{\n\t.reg .b{width} \t%whole0;\n\tmov.b{width} \t%whole0, {from};\n\t{store}\n\t}}\n")
        };
        for (writes, stores, width, from, copied) in [
            (
                "add.rn.f32 \t%r1, %r2, %r3;",
                "st.local.b8 \t[%rd1+1], %r1;",
                32,
                "%r1",
                "st.local.b8 \t[%rd1+1], %whole0;",
            ),
            (
                "selp.f32 \t%r1, 0f7FC00000, %r2, %p1;",
                "st.b16 \t[%rd1], %r1;",
                32,
                "%r1",
                "st.b16 \t[%rd1], %whole0;",
            ),
            (
                "cvt.rn.f32.u16 \t%r1, %rs1;",
                "st.param.b8 \t[param0], %r1;",
                32,
                "%r1",
                "st.param.b8 \t[param0], %whole0;",
            ),
            (
                "fma.rn.f64 \t%rd2, %rd3, %rd4, %rd5;",
                "st.b32 \t[%rd1], %rd2;",
                64,
                "%rd2",
                "st.b32 \t[%rd1], %whole0;",
            ),
            ("add.f16 \t%rs1, %rs2, %rs2;", "st.b8 \t[%rd1], %rs1;", 16, "%rs1", "st.b8 \t[%rd1], %whole0;"),
            (
                "add.rn.f32 \t%r1, %r2, %r3;",
                "st.v2.b8 \t[%rd1], {%r1, %r11};",
                32,
                "%r1",
                "st.v2.b8 \t[%rd1], {%whole0, %r11};",
            ),
            (
                "ld.v2.f32 \t{%r1, %r2}, [%rd2];",
                "st.b8 \t[%rd1], %r2;",
                32,
                "%r2",
                "st.b8 \t[%rd1], %whole0;",
            ),
        ] {
            let ptx = function(&format!("\t{writes}\n\t{stores}\n"));
            let right = function(&format!("\t{writes}\n{}", store(width, from, copied)));
            assert_eq!(copy_floats(&ptx), right);
            assert_eq!(copy_floats(&right), right);
            // In a loop the store may come before the instruction that writes the register.
            let ptx = function(&format!("\t{stores}\n\t{writes}\n"));
            assert!(copy_floats(&ptx).contains(copied), "{ptx}");
        }
    }

    #[test]
    fn other_stores_stay() {
        for body in [
            "\tadd.rn.f32 \t%r1, %r2, %r3;\n\tst.b32 \t[%rd1], %r1;\n",
            "\tadd.s32 \t%r1, %r2, %r3;\n\tst.b8 \t[%rd1], %r1;\n",
            "\tcvt.rzi.u32.f32 \t%r1, %r2;\n\tst.b8 \t[%rd1], %r1;\n",
            "\tadd.rn.f32 \t%r1, %r2, %r3;\n\tshr.u32 \t%r4, %r1, 8;\n\tst.b8 \t[%rd1], %r4;\n",
            "\tsetp.nan.f32 \t%p1, %r1, %r1;\n\tst.b8 \t[%rd1], %r1;\n",
        ] {
            let ptx = function(body);
            assert!(matches!(copy_floats(&ptx), Cow::Borrowed(_)), "{ptx}");
        }
        // Registers of another function have the same names.
        let ptx = function("\tadd.rn.f32 \t%r1, %r2, %r3;\n") + &function("\tst.b8 \t[%rd1], %r1;\n");
        assert_eq!(copy_floats(&ptx), ptx);
    }
}
