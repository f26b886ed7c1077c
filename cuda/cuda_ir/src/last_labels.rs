//! Labels at the end of a function, with no instruction after them.
//!
//! LLVM's back end emits such a label for an unreachable block in a table of `brx.idx`: the gaps between the values of a
//! `match` without other values. ptxas 13.0.88 at `-O0` then crashes with a segmentation fault, if the function is not a
//! kernel. A `trap` after the label makes it a normal block, and stops a thread that gets there.

use std::borrow::Cow;

use crate::bodies::edit_bodies;

/// Adds a `trap` after each label at the end of a function. The back ends write labels on lines of their own.
pub fn trap_after(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| {
        // The end of the last label, until an instruction follows.
        let (mut label, mut at) = (None, 0);
        for line in body.strip_suffix('}')?.split_inclusive('\n') {
            at += line.len();
            let code = line.split("//").next().unwrap_or_default().trim();
            label = match code {
                _ if is_label(code) => Some(at),
                _ if code.is_empty() || code.starts_with(".loc") => label,
                _ => None,
            };
        }
        let (before, after) = body.split_at(label?);
        Some(format!("{before}\ttrap;\n{after}"))
    })
}

/// `$L__BB0_6:`, and nothing else: a label that can be a branch's target.
fn is_label(code: &str) -> bool {
    let name = code.strip_suffix(':').unwrap_or_default();
    // No branch goes to a label of debug information.
    let is_debug = name.starts_with("$L__tmp") || name.starts_with("$L__func");
    !name.is_empty()
        && !is_debug
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_at_the_end_of_a_function_gets_an_instruction() {
        let ptx = ".func f()\n{\n\tbrx.idx \t%r1, $L_brx_0;\n$L__BB0_1:                              // %a\n\tret;\n\
                   $L__BB0_6:                              // %default\n                                        // -- End\n}\n\
                   .func g()\n{\n$L__BB1_1:\n$L__BB1_2:\n\t.loc\t1 7 5\n\n}\n.func h()\n{\n$L__BB2_1:\n\tret;\n}\n";
        let expected =
            ptx.replace("// %default\n", "// %default\n\ttrap;\n").replace("BB1_2:\n", "BB1_2:\n\ttrap;\n");
        assert_eq!(trap_after(ptx), expected);
        assert_eq!(trap_after(&expected), expected);
    }

    #[test]
    fn other_ends_stay() {
        for ptx in [
            ".func f()\n{\n$L__BB0_1:\n\t{ // callseq 0\n\tcall.uni f, ();\n\t}\n\tret;\n}\n",
            ".func f()\n{\n\t$L_brx_0: .branchtargets\n\t\t$L__BB0_1;\n\tret;\n}\n",
            ".func f()\n{\n{\n$L__BB0_1:\n}\nret;\n}\n",
            "$L__BB0_1:",
        ] {
            assert!(matches!(trap_after(ptx), Cow::Borrowed(same) if same == ptx), "{ptx}");
        }
    }
}
