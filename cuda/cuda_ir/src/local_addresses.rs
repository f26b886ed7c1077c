//! Keeps ptxas from computing addresses of a thread's local memory in uniform registers.
//!
//! If libNVVM can prove that a pointer is to local memory, it writes `cvta.to.local.u64 %rd2, %rd1` and `ld.local [%rd2]`.
//! These addresses are the same in every thread of a warp, so ptxas 13.0.88 converts them in uniform registers, which a warp
//! shares: `UIADD3 UR4, -UR4, UR6`, with the base of local memory in `UR4`. It overwrites `UR4` in both arms of a branch. If
//! the warp diverges, the second arm subtracts the value that the first has left there:
//!
//! ```text
//! @%p1 bra L;
//! cvta.to.local.u64 %rd5, %rd3;  ld.local.b16 ...   //     UIADD3 UR4, -UR4, UR6;  LDL.U16 R5, [UR4]
//! L:
//! cvta.to.local.u64 %rd6, %rd2;  ld.local.b16 ...   // L:  UIADD3 UR4, -UR4, UR7;  LDL.U16 R5, [UR4]
//! ```
//!
//! A function that some threads of a warp call after others fails in the same way, at every level of ptxas. So in a function
//! with such a conversion all accesses use generic addresses, which need none.

use std::borrow::Cow;

use crate::bodies::{edit_bodies, edit_lines, instruction};

/// Replaces local addresses by generic ones in functions that convert addresses to local ones.
pub fn keep_generic(ptx: &str) -> Cow<'_, str> {
    edit_bodies(ptx, |_, body| edit(body))
}

/// The edited body, if it changes.
fn edit(body: &str) -> Option<String> {
    let converts = |line: &str| opcode(line).is_some_and(|opcode| opcode.starts_with("cvta.to.local."));
    if !body.lines().any(converts) {
        return None;
    }
    let has_generic = body.lines().any(is_base_of_generic);
    edit_lines(body, |line| {
        if line.contains("%SPL, __local_depot") {
            return (!has_generic).then(|| format!("{line}\tcvta.local.u64 \t%SP, %SPL;\n"));
        }
        let stays = is_base_of_generic(line) || line.contains(".reg");
        (!stays).then(|| generic(line).replace("%SPL", "%SP"))
    })
}

/// Whether the line computes the generic address of the function's memory.
fn is_base_of_generic(line: &str) -> bool {
    line.contains("cvta.local.u64") && line.contains("%SP, %SPL;")
}

/// The line with generic instead of local addresses.
fn generic(line: &str) -> Cow<'_, str> {
    match opcode(line) {
        Some(opcode) if opcode.starts_with("cvta.to.local.") || opcode.starts_with("cvta.local.") => {
            Cow::Owned(line.replacen(opcode, "mov.b64", 1))
        }
        Some(opcode) if opcode.starts_with("ld.") || opcode.starts_with("st.") => {
            Cow::Owned(line.replacen(opcode, &opcode.replacen(".local", "", 1), 1))
        }
        _ => Cow::Borrowed(line),
    }
}

fn opcode(line: &str) -> Option<&str> {
    instruction(line).map(|(opcode, _)| opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(body: &str) -> String {
        format!(".func f()\n{{\n\t.reg .b64 \t%SP;\n\t.reg .b64 \t%SPL;\n{body}\tret;\n}}\n")
    }

    #[test]
    fn a_function_that_converts_uses_generic_addresses() {
        let ptx = function(
            "\tmov.b64 \t%SPL, __local_depot1;\n\tadd.u64 \t%rd1, %SPL, 8;\n\tst.local.v2.b32 \t[%rd1+4], {%r1, %r2};\n\
             \tcvta.to.local.u64 \t%rd2, %rd3;\n\t@%p1 ld.local.b8 \t%rs1, [%rd2];\n\tld.global.b8 \t%rs2, [%rd4];\n",
        );
        let want = function(
            "\tmov.b64 \t%SPL, __local_depot1;\n\tcvta.local.u64 \t%SP, %SPL;\n\tadd.u64 \t%rd1, %SP, 8;\n\
             \tst.v2.b32 \t[%rd1+4], {%r1, %r2};\n\tmov.b64 \t%rd2, %rd3;\n\t@%p1 ld.b8 \t%rs1, [%rd2];\n\
             \tld.global.b8 \t%rs2, [%rd4];\n",
        );
        assert_eq!(keep_generic(&ptx), want);
        assert_eq!(keep_generic(&want), want, "nothing is left to edit");
    }

    #[test]
    fn the_generic_base_is_made_once() {
        let base = "\tmov.b64 \t%SPL, __local_depot1;\n\tcvta.local.u64 \t%SP, %SPL;\n";
        let ptx = function(&format!("{base}\tadd.u64 \t%rd1, %SP, 0;\n\tcvta.to.local.u64 \t%rd2, %rd1;\n"));
        let want = function(&format!("{base}\tadd.u64 \t%rd1, %SP, 0;\n\tmov.b64 \t%rd2, %rd1;\n"));
        assert_eq!(keep_generic(&ptx), want);
    }

    #[test]
    fn other_functions_stay() {
        let ptx = function("\tmov.b64 \t%SPL, __local_depot1;\n\tst.local.b32 \t[%SPL], %r1;\n");
        assert!(matches!(keep_generic(&ptx), Cow::Borrowed(_)));
    }
}
