//! Initialises to zero the registers of the PTX that a thread may read before it writes them.
//!
//! LLVM leaves a register unwritten on the paths where its value does not matter: `phi [undef, %a], [%flag, %b]` of an enum
//! that rustc passes as one integer only writes it on the path of `%b`, and a later mask keeps the result right. ptxas
//! 13.0.88 at `-O1` and above infers the register's range from the paths that write it, finds that the mask removes nothing
//! there, and drops it. On the other path the hardware register's old content then reaches the result. `freeze` in the IR
//! does not help, because NVPTX lowers it to an undefined register too; and optimisers create such values themselves, so the
//! last text before ptxas is the place to fix them.
//!
//! The pass is exact for the control flow graph: it initialises the registers that are live at their declaration, and does
//! not change any other function.

mod flow;
mod function;
mod opcode;
mod read;
mod tokens;

use std::borrow::Cow;

use function::{Declaration, Function};

/// Edits the text so that no thread reads a register before it writes it, on any path.
pub fn initialise(ptx: &str) -> Cow<'_, str> {
    let mut edits: Vec<(usize, String)> = Vec::new();
    for function in read::functions(ptx) {
        let registers = flow::read_before_written(&function);
        edits.extend(insertions(&function, &registers));
    }
    if edits.is_empty() {
        return Cow::Borrowed(ptx);
    }
    edits.sort_by_key(|(at, _)| *at);
    let mut edited =
        String::with_capacity(ptx.len() + edits.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut done = 0;
    for (at, text) in edits {
        edited.push_str(&ptx[done..at]);
        edited.push_str(&text);
        done = at;
    }
    edited.push_str(&ptx[done..]);
    Cow::Owned(edited)
}

/// The inserted instructions, and their positions.
fn insertions(function: &Function<'_>, registers: &[u32]) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    for &register in registers {
        let (declaration, name) = function.name_of(register);
        let Some(code) = zero(declaration, &name) else { continue };
        let at = function.place_for(declaration);
        match all.last_mut() {
            Some((last, text)) if *last == at => text.push_str(&code),
            _ => all.push((at, code)),
        }
    }
    all
}

/// The instruction that sets a register to zero.
fn zero(declaration: &Declaration<'_>, name: &str) -> Option<String> {
    let bits: String = declaration.class.chars().filter(char::is_ascii_digit).collect();
    Some(match (declaration.class, bits.as_str()) {
        (".pred", _) => format!("\n\tmov.pred \t{name}, 0;"),
        (".f16x2" | ".bf16x2", _) => format!("\n\tmov.b32 \t{name}, 0;"),
        // A 128-bit register is set from two 64-bit ones, not from a number.
        (_, "128") => {
            format!("\n\t{{ .reg .b64 %zero; mov.b64 %zero, 0; mov.b128 {name}, {{%zero, %zero}}; }}")
        }
        (_, "16" | "32" | "64") => format!("\n\tmov.b{bits} \t{name}, 0;"),
        // No back end declares 8-bit registers, which `mov` does not accept.
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
