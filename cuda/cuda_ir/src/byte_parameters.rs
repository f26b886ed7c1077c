//! Keeps ptxas from comparing sign-extended bytes with zero-extended values.
//!
//! If a function loads a parameter with `ld.param.s8` into a 16-bit register, ptxas 12.9 and 13.0 at `-O1` and above take the
//! upper half of the hardware register for zero in some places, although `SGXT R0, R0, 8` has filled it with the sign:
//! `setp.eq.b16` of two equal negative parameters is false if one is in a loop later, and other comparisons and conversions
//! fail in the same way. The same holds for the result of a call. A fifth of 500 random functions with `i8` parameters were
//! wrong, and none with other types.
//!
//! These versions also fold `cvt.s16.s8` of a constant to a number of 32 bits: if all callers pass -74, `setp.eq.b16` compares
//! the zero-extended other operand with 0xffffffb6 instead of 0xffb6. Of all instructions with a 16-bit result, only this one
//! and the load are folded wrongly. ptxas 13.5 is right in both cases, but a GPU's driver may contain an older one.
//!
//! An extension to 32 bits that is truncated to 16 is right for these versions too, and costs no more.

use std::borrow::Cow;

use crate::bodies::{edit_bodies, edit_lines, instruction};

/// Loads 8-bit parameters without their sign, and extends bytes to 16 bits by way of 32.
pub fn extend(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| edit_lines(body, edit))
}

/// The edited line, if it changes.
fn edit(line: &str) -> Option<String> {
    let (opcode, operands) = instruction(line)?;
    let (result, value) = operands.trim_end().strip_suffix(';')?.split_once(',')?;
    let (result, value) = (result.trim(), value.trim());
    let guard = &line[..line.find(opcode)?];
    let extended = |value: &str| match result.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "%rs" => format!(
            "\t{{\n\t.reg .b32 \t%byte;\n{guard}cvt.s32.s8 \t%byte, {value};\n{guard}cvt.u16.u32 \t{result}, %byte;\n\t}}\n"
        ),
        prefix => format!("{guard}cvt.s{}.s8 \t{result}, {value};\n", if prefix == "%rd" { 64 } else { 32 }),
    };
    match opcode {
        "ld.param.s8" => Some(line.replace(opcode, "ld.param.b8") + &extended(result)),
        "cvt.s16.s8" => Some(extended(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(body: &str) -> String {
        format!(".func f()\n{{\n{body}\tret;\n}}\n")
    }

    fn extended(result: &str, value: &str) -> String {
        format!(
            "\t{{\n\t.reg .b32 \t%byte;\n\tcvt.s32.s8 \t%byte, {value};\n\tcvt.u16.u32 \t{result}, %byte;\n\t}}\n"
        )
    }

    #[test]
    fn the_sign_of_8_bits_is_extended_after_the_load() {
        let ptx = function("\tld.param.s8 \t%rs1, [f_param_0];\n\tld.param.s8 \t%r1, [f_param_1];\n");
        let loads = ["\tld.param.b8 \t%rs1, [f_param_0];\n", "\tld.param.b8 \t%r1, [f_param_1];\n"];
        let edited =
            format!("{}{}{}\tcvt.s32.s8 \t%r1, %r1;\n", loads[0], extended("%rs1", "%rs1"), loads[1]);
        assert_eq!(extend(&ptx), function(&edited));
        let ptx = function("\tld.param.b8 \t%rs1, [f_param_0];\n\tld.global.s8 \t%rs2, [%rd1];\n");
        assert!(matches!(extend(&ptx), Cow::Borrowed(_)));
    }

    #[test]
    fn a_byte_becomes_16_bits_by_way_of_32() {
        for value in ["%rs1", "%r7", "%rd2"] {
            let ptx = extend(&function(&format!("\tcvt.s16.s8 \t%rs2, {value};\n"))).into_owned();
            assert_eq!(ptx, function(&extended("%rs2", value)));
            assert_eq!(extend(&ptx), ptx);
        }
        let guarded = extend(&function("@%p1 cvt.s16.s8 \t%rs2, %rs1;\n")).into_owned();
        assert_eq!(guarded.matches("@%p1 cvt").count(), 2, "{guarded}");
        for opcode in ["cvt.s32.s8", "cvt.s64.s8", "cvt.u16.u8", "cvt.s16.s32"] {
            let ptx = function(&format!("\t{opcode} \t%rs2, %rs1;\n"));
            assert!(matches!(extend(&ptx), Cow::Borrowed(_)), "{opcode}");
        }
    }
}
