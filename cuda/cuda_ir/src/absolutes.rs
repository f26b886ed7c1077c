//! Replaces 16-bit absolute values, negations, minima and maxima that ptxas compiles wrongly.
//!
//! In Rust and in LLVM the negation of -32768 in 16 bits is -32768, and so is its absolute value. For `abs.s16` and
//! `neg.s16`, ptxas 13.0.88 emits a 32-bit operation with the result 32768, and later instructions do not extend the sign
//! again: `(-32768_i16).wrapping_abs() >> 4` gave 2048 on a GPU, `i64::from((-32768_i16).wrapping_neg())` 32768. Both back
//! ends emit `neg.s16`; LLVM's emits `abs.s16`, as does libNVVM without optimisation. No kernel of `gpu-kernels` has such a
//! value.
//!
//! For a multiplication by -1, ptxas emits the same negation and then extends the sign. The absolute value becomes the
//! maximum of the number and its negation, as in libNVVM's optimised output. 8-bit values are computed in 16 bits.
//!
//! From compute capability 9.0, one instruction computes the minima of two halves, with a predicate for each. For
//! `min.u16 %rs2, %rs1, 255` and a later comparison of `%rs2` with 255, ptxas 13.0.88 emits
//! `VIMNMX.U16x2 R0, P0, P0, R0, 0xff`: both halves write the same predicate, and one is unused. So
//! `a.saturating_add(b) == 255` can be true for any sum. ptxas 13.5 emits a separate comparison. A 32-bit minimum has one
//! predicate.

use crate::bodies::edit_lines;

/// Replaces `neg.s16` by multiplications, `abs.s16` by maxima, and 16-bit minima and maxima by 32-bit ones. The back ends
/// write each result to a register of its own.
pub fn spell_out(ptx: &str) -> String {
    let edited = edit_lines(ptx, |line| {
        let (opcode, operands) = read(line)?;
        let negated = |result, value| format!("\tmul.lo.s16 \t{result}, {value}, -1;\n");
        match (opcode, &operands[..]) {
            ("neg.s16", &[result, value]) => Some(negated(result, value)),
            ("abs.s16", &[result, value]) => {
                Some(negated(result, value) + &wide("max", true, result, [value, result]))
            }
            (opcode, &[result, a, b]) => Some(wide(&opcode[..3], opcode.ends_with("s16"), result, [a, b])),
            _ => None,
        }
    });
    edited.unwrap_or_else(|| ptx.to_owned())
}

/// The minimum or maximum of two 16-bit registers or numbers.
fn wide(opcode: &str, is_signed: bool, result: &str, operands: [&str; 2]) -> String {
    let kind = if is_signed { 's' } else { 'u' };
    let extended = |(i, operand): (usize, &str)| match operand.parse::<i32>() {
        Ok(number) => {
            let number = if is_signed { i32::from(number as i16) } else { i32::from(number as u16) };
            format!("mov.b32 %wide{i}, {number};")
        }
        Err(_) => format!("cvt.{kind}32.{kind}16 %wide{i}, {operand};"),
    };
    let [a, b] = [(0, operands[0]), (1, operands[1])].map(extended);
    format!(
        "\t{{ .reg .b32 %wide<3>; {a} {b} {opcode}.{kind}32 %wide2, %wide0, %wide1; cvt.u16.u32 {result}, %wide2; }}\n"
    )
}

/// The opcode and the operands, if ptxas must not see the instruction.
fn read(line: &str) -> Option<(&str, Vec<&str>)> {
    let (opcode, operands) = line.trim().strip_suffix(';')?.split_once([' ', '\t'])?;
    let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
    let is_one = match opcode {
        "neg.s16" | "abs.s16" => operands.len() == 2 && operands[0] != operands[1],
        "min.s16" | "min.u16" | "max.s16" | "max.u16" => operands.len() == 3,
        _ => false,
    };
    is_one.then_some((opcode, operands))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolutes_of_16_bits_are_maxima_and_others_stay() {
        let ptx = "\tld.global.b16 \t%rs1, [%rd2];\n\tabs.s16 \t%rs2, %rs1;\n\tabs.s32 \t%r2, %r1;\n\tabs.s16x2 \t%r3, %r1;\n";
        assert_eq!(
            spell_out(ptx),
            "\tld.global.b16 \t%rs1, [%rd2];\n\
             \tmul.lo.s16 \t%rs2, %rs1, -1;\n\t{ .reg .b32 %wide<3>; cvt.s32.s16 %wide0, %rs1; cvt.s32.s16 %wide1, %rs2; \
             max.s32 %wide2, %wide0, %wide1; cvt.u16.u32 %rs2, %wide2; }\n\
             \tabs.s32 \t%r2, %r1;\n\tabs.s16x2 \t%r3, %r1;\n"
        );
    }

    #[test]
    fn negations_of_16_bits_are_products_and_others_stay() {
        let ptx = "\tneg.s16 \t%rs2, %rs1;\n\tneg.s32 \t%r2, %r1;\n";
        assert_eq!(spell_out(ptx), "\tmul.lo.s16 \t%rs2, %rs1, -1;\n\tneg.s32 \t%r2, %r1;\n");
    }

    #[test]
    fn minima_and_maxima_have_32_bits() {
        for (line, wide) in [
            ("min.u16 \t%rs3, %rs1, 255;", "cvt.u32.u16 %wide0, %rs1; mov.b32 %wide1, 255; min.u32"),
            ("max.u16 \t%rs3, %rs1, -2;", "cvt.u32.u16 %wide0, %rs1; mov.b32 %wide1, 65534; max.u32"),
            ("max.s16 \t%rs3, %rs1, -2;", "cvt.s32.s16 %wide0, %rs1; mov.b32 %wide1, -2; max.s32"),
            ("min.s16 \t%rs3, %rs1, %rs2;", "cvt.s32.s16 %wide0, %rs1; cvt.s32.s16 %wide1, %rs2; min.s32"),
        ] {
            let result = "cvt.u16.u32 %rs3, %wide2; }\n";
            let edited = format!("\t{{ .reg .b32 %wide<3>; {wide} %wide2, %wide0, %wide1; {result}");
            assert_eq!(spell_out(&format!("\t{line}\n")), edited);
        }
        let others = "\tmin.s32 \t%r3, %r1, %r2;\n\tmax.u16x2 \t%r3, %r1, %r2;\n";
        assert_eq!(spell_out(others), others);
    }
}
