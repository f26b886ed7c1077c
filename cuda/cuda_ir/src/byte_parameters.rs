//! Keeps ptxas from comparing sign-extended 8-bit parameters with zero-extended values.
//!
//! If a function loads a parameter with `ld.param.s8` into a 16-bit register, ptxas 12.9 and 13.0 at `-O1` and above take the
//! upper half of the hardware register for zero in some places, although `SGXT R0, R0, 8` has filled it with the sign:
//! `setp.eq.b16` of two equal negative parameters is false if one is in a loop later, and other comparisons and conversions
//! fail in the same way. The same holds for the result of a call. A fifth of 500 random functions with `i8` parameters were
//! wrong, and none with other types. ptxas 13.5 is right, but a GPU's driver may contain an older one.
//!
//! A conversion extends the sign for these versions too.

use std::borrow::Cow;

use crate::bodies::{edit_bodies, edit_lines, instruction};

/// Loads 8-bit parameters without their sign, and extends it after that.
pub fn extend(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| edit(body))
}

/// The edited body, if it changes.
fn edit(body: &str) -> Option<String> {
    edit_lines(body, |line| {
        let ("ld.param.s8", operands) = instruction(line)? else { return None };
        let register = operands.split(',').next().unwrap_or_default().trim();
        let bits = match register.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "%rs" => 16,
            "%rd" => 64,
            _ => 32,
        };
        let load = line.replace("ld.param.s8", "ld.param.b8");
        Some(format!("{load}\tcvt.s{bits}.s8 \t{register}, {register};\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_of_8_bits_is_extended_after_the_load() {
        let function = |body: &str| format!(".func f()\n{{\n{body}\tret;\n}}\n");
        let ptx = function("\tld.param.s8 \t%rs1, [f_param_0];\n\tld.param.s8 \t%r1, [f_param_1];\n");
        assert_eq!(
            extend(&ptx),
            function(
                "\tld.param.b8 \t%rs1, [f_param_0];\n\tcvt.s16.s8 \t%rs1, %rs1;\n\
                 \tld.param.b8 \t%r1, [f_param_1];\n\tcvt.s32.s8 \t%r1, %r1;\n"
            )
        );
        let ptx = function("\tld.param.b8 \t%rs1, [f_param_0];\n\tld.global.s8 \t%rs2, [%rd1];\n");
        assert!(matches!(extend(&ptx), Cow::Borrowed(_)));
    }
}
