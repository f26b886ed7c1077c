//! Absolute values of integers of 16 bits, which ptxas must not see.
//!
//! Rust's `wrapping_abs` and LLVM's `llvm.abs` of -32768 are -32768. For `abs.s16`, ptxas 13.0.88 emits an operation of 32
//! bits, whose result is 32768, and a shift that follows does not extend the sign again: `(-32768_i16).wrapping_abs() >> 4`
//! gave 2048 on a GPU. LLVM's back end emits `abs.s16`, as does libNVVM when it does not optimise. No kernel of
//! `gpu-kernels` takes such an absolute value.
//!
//! libNVVM's optimiser emits the larger of the number and its negation, which ptxas compiles correctly. So does this edit.
//! Values of 8 bits are computed in 16, which hold all of their absolute values.

/// The PTX with `neg.s16` and `max.s16` instead of `abs.s16`. The back ends write each result to a register of its own.
pub fn spell_out(ptx: &str) -> String {
    let mut edited = String::with_capacity(ptx.len() + 64);
    for line in ptx.split_inclusive('\n') {
        match read(line) {
            Some((result, value)) => {
                edited.push_str(&format!("\tneg.s16 \t{result}, {value};\n"));
                edited.push_str(&format!("\tmax.s16 \t{result}, {value}, {result};\n"));
            }
            None => edited.push_str(line),
        }
    }
    edited
}

/// The registers of `abs.s16 %result, %value;`, which differ.
fn read(line: &str) -> Option<(&str, &str)> {
    let registers = line.trim().strip_prefix("abs.s16")?.strip_prefix([' ', '\t'])?.strip_suffix(';')?;
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
             \tneg.s16 \t%rs2, %rs1;\n\tmax.s16 \t%rs2, %rs1, %rs2;\n\
             \tabs.s32 \t%r2, %r1;\n\tabs.s16x2 \t%r3, %r1;\n"
        );
    }
}
