//! Absolute values and negations of integers of 16 bits, which ptxas must not see.
//!
//! In Rust and in LLVM the negation of -32768 in 16 bits is -32768, and so is its absolute value. For `abs.s16` and
//! `neg.s16`, ptxas 13.0.88 emits an operation of 32 bits, whose result is 32768, and what follows does not extend the sign
//! again: `(-32768_i16).wrapping_abs() >> 4` gave 2048 on a GPU, and `i64::from((-32768_i16).wrapping_neg())` 32768. Both
//! back ends emit `neg.s16`; LLVM's emits `abs.s16`, as does libNVVM when it does not optimise. No kernel of
//! `gpu-kernels` takes such a value.
//!
//! For a product with -1 ptxas emits the same negation and then extends the sign. The absolute value is the larger of the
//! number and its negation, as libNVVM's optimiser has it. Values of 8 bits are computed in 16, which hold all of them.

/// The PTX with products instead of `neg.s16`, and with maxima instead of `abs.s16`. The back ends write each result to a
/// register of its own.
pub fn spell_out(ptx: &str) -> String {
    let mut edited = String::with_capacity(ptx.len() + 64);
    for line in ptx.split_inclusive('\n') {
        let negated = |(result, value)| format!("\tmul.lo.s16 \t{result}, {value}, -1;\n");
        if let Some(registers) = read(line, "neg.s16") {
            edited.push_str(&negated(registers));
        } else if let Some((result, value)) = read(line, "abs.s16") {
            edited.push_str(&negated((result, value)));
            edited.push_str(&format!("\tmax.s16 \t{result}, {value}, {result};\n"));
        } else {
            edited.push_str(line);
        }
    }
    edited
}

/// The registers of `OPCODE %result, %value;`, which differ.
fn read<'a>(line: &'a str, opcode: &str) -> Option<(&'a str, &'a str)> {
    let registers = line.trim().strip_prefix(opcode)?.strip_prefix([' ', '\t'])?.strip_suffix(';')?;
    let (result, value) = registers.split_once(',')?;
    let (result, value) = (result.trim(), value.trim());
    (result != value).then_some((result, value))
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
             \tmul.lo.s16 \t%rs2, %rs1, -1;\n\tmax.s16 \t%rs2, %rs1, %rs2;\n\
             \tabs.s32 \t%r2, %r1;\n\tabs.s16x2 \t%r3, %r1;\n"
        );
    }

    #[test]
    fn negations_of_16_bits_are_products_and_others_stay() {
        let ptx = "\tneg.s16 \t%rs2, %rs1;\n\tneg.s32 \t%r2, %r1;\n";
        assert_eq!(spell_out(ptx), "\tmul.lo.s16 \t%rs2, %rs1, -1;\n\tneg.s32 \t%r2, %r1;\n");
    }
}
