//! Registers of the PTX that a thread may read before it writes them: they start at zero.
//!
//! LLVM leaves a register unwritten on the paths where its value does not matter: `phi [undef, %a], [%flag, %b]` of an
//! enum that rustc passes as one integer writes it on the path of `%b` alone, and a mask behind it keeps the result
//! right. ptxas 13.0.88 at `-O1` and above takes the register's range from the paths that write it, finds that the mask
//! removes nothing there, and drops it. On the other path whatever the hardware register held then reaches the result.
//! `freeze` in the IR does not help, because NVPTX lowers it to an undefined register too; and optimisers create such
//! values themselves, so the last text before ptxas is the place to remove them.
//!
//! The pass is exact for the control flow graph: it initialises the registers that are live where they are declared, and
//! leaves every other function as it is.

mod flow;
mod function;
mod opcode;
mod read;
mod tokens;

use std::borrow::Cow;

use function::{Declaration, Function};

/// The text in which no thread reads a register before it writes it, whichever way it goes.
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

/// What sets the registers, and where.
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
        // A register of 128 bits takes two of 64, and no number.
        (_, "128") => {
            format!("\n\t{{ .reg .b64 %zero; mov.b64 %zero, 0; mov.b128 {name}, {{%zero, %zero}}; }}")
        }
        (_, "16" | "32" | "64") => format!("\n\tmov.b{bits} \t{name}, 0;"),
        // No back end declares registers of 8 bits, which `mov` does not take.
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
