//! Marks every function and call that may execute a barrier or a shuffle as convergent.
//!
//! rustc marks no function convergent, so a helper with a barrier could be duplicated or moved into a branch as a whole. As
//! for CUDA C++, every function is marked, and LLVM removes the mark from functions that reach no convergent operation. An
//! indirect call or inline assembly has no callee to check, so the call itself is marked. Assembly that the source calls
//! `pure` has no `sideeffect`: it is not a barrier or shuffle, and LLVM may move it out of loops and branches.

use super::IrError;
use super::lex::Kind;
use super::module::{FunctionHeader, ItemKind, Module, call_on};

/// Marks all functions, indirect calls, and inline assembly with side effects.
pub(super) fn mark(module: &mut Module) -> Result<(), IrError> {
    for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        let mut lines = item.text.lines();
        let header = lines.next().unwrap_or_default();
        let at = FunctionHeader::parse(header)?.attributes_at();
        let mut text = format!("{} convergent{}", &header[..at], &header[at..]);
        for line in lines {
            text.push('\n');
            match call_on(line).filter(|call| call.callee.kind != Kind::Global && !call.is_pure_assembly) {
                Some(call) => {
                    let (before, after) = line.split_at(call.attributes_at);
                    text.extend([before, " convergent", after]);
                }
                None => text.push_str(line),
            }
        }
        item.text = text;
    }
    Ok(())
}
