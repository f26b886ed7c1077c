//! Multiplications with overflow flags, for libNVVM without optimisation: it then rejects those of 8, 16 and 32 bits
//! ("unsupported operation").

use super::IrError;
use super::module::{ItemKind, Module};

const WIDTHS: [u32; 3] = [8, 16, 32];

/// Replaces these operations by functions of our own that compute in twice the width.
pub(super) fn widen(module: &mut Module) -> Result<(), IrError> {
    for (sign, extend) in [("u", "zext"), ("s", "sext")] {
        for width in WIDTHS {
            let intrinsic = format!("@llvm.{sign}mul.with.overflow.i{width}");
            let ours = format!("@__ferrowarp_{sign}mul_overflow_i{width}");
            if !module.items.iter().any(|item| item.symbol() == Some(&intrinsic)) {
                continue;
            }
            module.items.retain(|item| item.symbol() != Some(&intrinsic));
            for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
                item.text = item.text.replace(&format!("{intrinsic}("), &format!("{ours}("));
            }
            let (narrow, wide) = (format!("i{width}"), format!("i{}", 2 * width));
            module.push(format!(
                "define internal {{ {narrow}, i1 }} {ours}({narrow} %a, {narrow} %b) {{\n  \
                   %wide_a = {extend} {narrow} %a to {wide}\n  \
                   %wide_b = {extend} {narrow} %b to {wide}\n  \
                   %wide = mul {wide} %wide_a, %wide_b\n  \
                   %low = trunc {wide} %wide to {narrow}\n  \
                   %again = {extend} {narrow} %low to {wide}\n  \
                   %overflows = icmp ne {wide} %again, %wide\n  \
                   %one = insertvalue {{ {narrow}, i1 }} poison, {narrow} %low, 0\n  \
                   %both = insertvalue {{ {narrow}, i1 }} %one, i1 %overflows, 1\n  \
                   ret {{ {narrow}, i1 }} %both\n}}"
            ))?;
        }
    }
    Ok(())
}
